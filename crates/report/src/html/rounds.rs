//! The rates of the rounds of a test that was repeated until it was steady.

use model::run::{PhaseRecord, SteadyRound};

use super::unit::Unit;
use super::{Figure, Markup};
use crate::numbers::percent;
use draw::{Drawing, Plot, Scale, Side, compact};

/// Height of the rate, of the text above it, and of the labels at the bottom.
const RATE_HEIGHT: f64 = 128.0;
const HEAD: f64 = 26.0;
const LABELS_HEIGHT: f64 = 26.0;
/// Top of the axis, as a multiple of its highest value.
const HEADROOM: f64 = 1.06;

/// The figure; `None` for a test without rounds.
pub(super) fn figure(phase: &PhaseRecord) -> Option<Figure> {
    let all = phase.figures.until_steady.as_ref().filter(|all| !all.rounds.is_empty())?;
    let unit = Unit::from_phase(phase);
    let rate = |round: &SteadyRound| unit.rate_from_ops(phase, round.ops_per_second);
    let highest = all.rounds.iter().map(rate).fold(0.0, f64::max);
    let caption = match all.steady_round {
        Some(round) => format!("Steady state in round {round} of at most {}.", all.rounds_max),
        None => format!("No steady state in {} of at most {} rounds.", all.rounds.len(), all.rounds_max),
    };
    let name = "Rate of each round".to_owned();
    let mut drawing = Drawing::new(HEAD + RATE_HEIGHT + LABELS_HEIGHT, &name, &caption);
    let last = all.rounds.len() as f64 + 0.5;
    let rounds = Side { scale: Scale::linear(0.5, last, Plot::X_RANGE), ticks: 5, label: compact };
    let plot = Plot::new(rounds, [HEAD, HEAD + RATE_HEIGHT], |y_range| Side {
        scale: Scale::linear(0.0, highest * HEADROOM, y_range),
        ticks: 5,
        label: compact,
    });
    plot.axes(&mut drawing, unit.name(), true);
    let numbers = || (1..).map(f64::from);
    let corners: Vec<_> = numbers()
        .zip(&all.rounds)
        .flat_map(|(number, round)| [(number - 0.5, rate(round)), (number + 0.5, rate(round))])
        .collect();
    plot.line(&mut drawing, "l s0", &corners);
    for (number, round) in numbers().zip(&all.rounds) {
        let window = round.window.as_ref().map_or(String::new(), |window| {
            let (excursion, slope) = (percent(window.excursion), percent(window.slope.abs()));
            format!("; excursion {excursion}, slope {slope} over five rounds")
        });
        let title = format!("round {number}: {}{window}", unit.format_rate(rate(round)));
        plot.span(&mut drawing, "at", number - 0.5, number + 0.5, &title);
    }
    Some(Figure { name, drawing: Markup(drawing.finish()), legend: Vec::new(), caption })
}
