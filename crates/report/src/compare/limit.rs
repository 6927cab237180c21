//! `--fail-on`: limits that no change may exceed.

use std::str::FromStr;

use model::Comparison;
use model::comparison::{Change, Decision, Measure, Row, recommended_runs};
use model::nearest;
use model::run::Trust;

use wording::comparison::{signed, subject};

/// A limit that no change may exceed: "throughput<-5%", "p99>10%".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    metric: GateMetric,
    is_below: bool,
    /// The limit as a ratio: 0.95 for a loss of 5 %.
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateMetric {
    Throughput,
    P99,
}

const GATE_METRICS: [(&str, GateMetric); 2] =
    [("throughput", GateMetric::Throughput), ("p99", GateMetric::P99)];
/// Tolerance for rounding: a limit of 3 % is not smaller than an effect of 3 %.
const ROUNDING: f64 = 1e-9;
const FORM: &str = "use QUANTITY<-PERCENT or QUANTITY>PERCENT, for example throughput<-5% or p99>10%";

/// Result of checking a comparison against a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitCheck {
    /// These rows went beyond the limit, in words.
    Exceeded(Vec<String>),
    /// No row went beyond the limit.
    Within,
    /// The limit cannot be checked, for this reason: no row has the quantity, a row has too few runs, and the like.
    Undecided(String),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or_else(|| format!("`{text}` has neither < nor >: {FORM}"))?;
        let (word, rest) = (text[..at].trim(), text[at + 1..].trim());
        let names = || GATE_METRICS.into_iter().map(|(name, _)| name);
        let metric = GATE_METRICS.into_iter().find(|(name, _)| *name == word).map(|(_, metric)| metric);
        let metric = metric.ok_or_else(|| {
            let near = nearest(word, names()).map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("`{word}` is none of {}{near}", names().collect::<Vec<_>>().join(", "))
        })?;
        let number = rest.strip_suffix('%').ok_or_else(|| format!("`{rest}` is not a percentage: {FORM}"))?;
        let percent: f64 =
            number.trim().parse().map_err(|_| format!("`{rest}` is not a percentage: {FORM}"))?;
        let is_below = text[at..].starts_with('<');
        // A positive limit makes no sense here: `throughput<5%` would refuse every run that did not gain.
        let is_sound =
            percent.is_finite() && if is_below { percent <= 0.0 && percent > -100.0 } else { percent >= 0.0 };
        if !is_sound {
            return Err(format!("`{text}` would fail without a change: {FORM}"));
        }
        Ok(Self { metric, is_below, ratio: 1.0 + percent / 100.0 })
    }
}

impl Limit {
    /// Returns true if the limit is smaller than `effect`, below which sides are equivalent.
    pub fn is_below(&self, effect: f64) -> bool {
        self.ratio.ln().abs() < (1.0 + effect).ln() * (1.0 - ROUNDING)
    }

    /// Checks a comparison. A row goes beyond the limit if it surely changed, and by more than the limit. Then the answer does
    /// not depend on the other rows.
    pub fn reached(&self, comparison: &Comparison) -> LimitCheck {
        let is_of = |measure: Measure| match self.metric {
            GateMetric::Throughput => measure.is_rate(),
            GateMetric::P99 => measure == Measure::P99Ns,
        };
        let rows: Vec<_> = comparison.rows.iter().filter(|row| is_of(row.measure)).collect();
        let changes: Vec<_> = rows
            .iter()
            .flat_map(|row| {
                let changes = row.changes.iter().zip(1..);
                changes.filter_map(move |(change, side)| Some((*row, side, change.as_ref()?)))
            })
            .collect();
        let is_beyond = |ratio: f64| if self.is_below { ratio < self.ratio } else { ratio > self.ratio };
        let is_valid = |row: &Row, side: usize| {
            let sides = [row.sides.first(), row.sides.get(side)];
            sides.into_iter().flatten().flatten().all(|measured| measured.trust != Some(Trust::Invalid))
        };
        let beyond = changes.iter().filter(|(row, side, change)| {
            is_valid(row, *side) && change.answer == Decision::Changed && is_beyond(change.ratio)
        });
        let beyond: Vec<_> =
            beyond.map(|(row, _, change)| format!("{} {}", subject(row), signed(change.ratio))).collect();
        if !beyond.is_empty() {
            return LimitCheck::Exceeded(beyond);
        }
        if changes.is_empty() {
            return LimitCheck::Undecided("no row has this quantity on both sides".into());
        }
        // A test that was left out cannot fail the limit, so it must not pass either.
        if let Some(left) = comparison.left_out.first() {
            return LimitCheck::Undecided(format!("{}: {}", left.what, left.reason));
        }
        if let Some(row) = rows.iter().find(|row| row.is_invalid()) {
            return LimitCheck::Undecided(format!("{}: one side has an invalid result", subject(row)));
        }
        if let Some((row, _, change)) = changes.iter().find(|(.., change)| !change.can_be_decided) {
            let rows = match comparison.comparisons {
                0 | 1 => "a row needs".into(),
                rows => format!("{rows} rows need"),
            };
            return LimitCheck::Undecided(format!(
                "{rows} {} runs per side, and {} has {}: use --repeat {}",
                comparison.runs_to_decide,
                subject(row),
                change.runs,
                recommended_runs(comparison.runs_to_decide)
            ));
        }
        let is_open = |change: &Change| change.answer == Decision::CannotTell && is_beyond(change.ratio);
        match changes.iter().find(|(.., change)| is_open(change)) {
            Some((row, _, change)) => LimitCheck::Undecided(format!(
                "{} {} may be chance: measure more runs",
                subject(row),
                signed(change.ratio)
            )),
            None => LimitCheck::Within,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limit = |text: &str| text.parse::<Limit>();
        let throughput = Limit { metric: GateMetric::Throughput, is_below: true, ratio: 0.95 };
        assert_eq!(limit("throughput<-5%"), Ok(throughput));
        assert_eq!(limit(" throughput < -5 % "), Ok(throughput));
        assert_eq!(limit("p99>10%"), Ok(Limit { metric: GateMetric::P99, is_below: false, ratio: 1.1 }));
        for (text, said) in [
            ("throughput", "neither"),
            ("troughput<-5%", "did you mean throughput?"),
            ("throughput<-5", "not a percentage"),
            ("throughput<-x%", "not a percentage"),
            ("throughput<5%", "without a change"),
            ("p99>-5%", "without a change"),
            ("throughput<-100%", "without a change"),
        ] {
            let problem = limit(text).unwrap_err();
            assert!(problem.contains(said), "{text}: {problem}");
        }
    }
}
