//! A comparison as CSV: one line for each row and side, so that it has the same columns for any number of sides.

use model::Comparison;
use model::comparison::{Decision, Direction, Measure};
use model::run::Trust;

use crate::csv::{Cell, number, optional, text, to_csv};

const COLUMNS: [&str; 21] = [
    "spec",
    "name",
    "label",
    "measure",
    "side",
    "runs",
    "mean",
    "ci95_low",
    "ci95_high",
    "limiter",
    "trust",
    "ratio",
    "ratio_ci95_low",
    "ratio_ci95_high",
    "p",
    "p_corrected",
    "answer",
    "direction",
    "runs_needed",
    "detectable_share",
    "warnings",
];

/// Writes the comparison as CSV with a heading. The cell `measure` is the unit. Ratios are relative to the first side,
/// whose own lines have none.
pub fn csv(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for row in &comparison.rows {
        for (index, (measured, side)) in row.sides.iter().zip(&comparison.sides).enumerate() {
            let Some(measured) = measured else { continue };
            let change = index.checked_sub(1).and_then(|index| row.changes[index].as_ref());
            let measure = match row.measure {
                Measure::BytesPerSecond => "bytes_per_second",
                Measure::OpsPerSecond => "ops_per_second",
                Measure::P99Ns => "p99_ns",
            };
            let answer = change.map(|change| match change.answer {
                Decision::Changed => "changed",
                Decision::Equivalent => "equivalent",
                Decision::CannotTell => "cannot_tell",
            });
            let direction = change.and_then(|change| change.direction).map(|direction| match direction {
                Direction::Better => "better",
                Direction::Worse => "worse",
            });
            let cells: [Cell; COLUMNS.len()] = [
                text(&row.spec),
                text(&row.name),
                text(&row.label),
                text(measure),
                text(&side.name),
                number(measured.values.len() as u64),
                optional(Some(measured.mean)),
                optional(measured.ci95_low),
                optional(measured.ci95_high),
                optional(measured.limiter.map(|limiter| limiter.code())),
                optional(measured.trust.map(Trust::word)),
                optional(change.map(|change| change.ratio)),
                optional(change.and_then(|change| change.ci95_low_ratio)),
                optional(change.and_then(|change| change.ci95_high_ratio)),
                optional(change.and_then(|change| change.p)),
                optional(change.and_then(|change| change.p_corrected)),
                optional(answer),
                optional(direction),
                optional(change.and_then(|change| change.runs_needed)),
                optional(change.and_then(|change| change.detectable)),
                text(row.warnings.join(" | ")),
            ];
            lines.push(cells.into_iter().collect());
        }
    }
    to_csv(&COLUMNS, lines)
}
