//! The tables: one line a phase, the same columns whether they are printed one by one or at once.

use anstyle::Style as Ansi;
use model::FileVerb;
use model::run::{Mark, PhaseRecord, Status};

use super::columns::{
    INDENT, LATENCY_ENDS, Line, MARK_END, MEGABYTES_END, NAME_WIDTH, OPS_END, PATTERN_WIDTH, SUBJECT_END,
    SUBJECT_WIDTH, fit,
};
use super::notes::mark;
use super::style::{BOLD, DIM, Style, YELLOW};
use crate::numbers::{MISSING, amount, latency};
use crate::printable;

/// Which of the two tables a phase belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads and writes inside files: MB/s and IOPS.
    Data,
    /// Operations on files as such: operations per second.
    Files,
}

impl Kind {
    /// The table of a phase.
    pub fn of(phase: &PhaseRecord) -> Self {
        if FileVerb::from_word(&phase.workload.verb).is_some() { Self::Files } else { Self::Data }
    }
}

/// The heading of a table.
pub fn head(kind: Kind) -> String {
    let mut line = Line::default();
    let (title, ops) = match kind {
        Kind::Data => ("DATA", "IOPS"),
        Kind::Files => ("FILES", "ops/s"),
    };
    line.left(INDENT, title, Ansi::new());
    if kind == Kind::Data {
        line.right(MEGABYTES_END, "MB/s", Ansi::new());
    }
    line.right(OPS_END, ops, Ansi::new());
    for (end, name) in LATENCY_ENDS.into_iter().zip(["p50", "p99", "p99.9"]) {
        line.right(end, name, Ansi::new());
    }
    line.finish()
}

/// One phase as one line: its numbers, or why it has none, and its mark at the end.
pub fn row(phase: &PhaseRecord, style: &Style) -> String {
    let mut line = Line::default();
    let mark = mark(phase);
    let distrusted = mark == Mark::Distrust;
    line.left(INDENT, &subject(phase, style), if distrusted { DIM } else { Ansi::new() });
    match missing_reason(phase) {
        Some(reason) => {
            line.left(SUBJECT_END + 2, &fit(&style.finish(reason), MARK_END - SUBJECT_END - 4), Ansi::new())
        }
        None => numbers(&mut line, phase, distrusted),
    }
    if !mark.sign().is_empty() {
        line.right(MARK_END, mark.sign(), YELLOW);
    }
    style.finish(line.finish())
}

fn numbers(line: &mut Line, phase: &PhaseRecord, distrusted: bool) {
    let kind = Kind::of(phase);
    // Sequential tests are known by their bytes, all others by their operations.
    let by_bytes = phase.workload.pattern == Some(model::workload::Access::Sequential);
    let painted = |headline: bool| match (distrusted, headline) {
        (true, _) => DIM,
        (false, true) => BOLD,
        (false, false) => Ansi::new(),
    };
    if kind == Kind::Data {
        line.decimal(MEGABYTES_END, &megabytes_cell(phase), painted(by_bytes));
    }
    line.decimal(OPS_END, &ops_cell(phase), painted(!by_bytes));
    for (end, cell) in LATENCY_ENDS.into_iter().zip(latency_cells(phase)) {
        line.right(end, &cell, painted(false));
    }
}

/// MB/s of the headline; beyond a million of them, digits no longer help.
pub(crate) fn megabytes_cell(phase: &PhaseRecord) -> String {
    let megabytes = phase.rate.bytes_per_second.map(|rate| rate / 1e6);
    match megabytes {
        Some(value) if value.is_finite() && value >= 999_999.5 => format!("{value:.2e}"),
        value => value.and_then(amount).unwrap_or_else(|| MISSING.into()),
    }
}

/// Operations per second of the headline.
pub(crate) fn ops_cell(phase: &PhaseRecord) -> String {
    phase.rate.ops_per_second.and_then(amount).unwrap_or_else(|| MISSING.into())
}

/// The three percentiles of the table.
pub(crate) fn latency_cells(phase: &PhaseRecord) -> [String; 3] {
    let latencies = phase.latency_ns.as_ref().map_or([None; 3], |l| [l.p50, l.p99, l.p99_9]);
    latencies.map(|ns| ns.map_or_else(|| MISSING.into(), latency))
}

/// Why a row has no numbers; `None` if it has.
pub(crate) fn missing_reason(phase: &PhaseRecord) -> Option<String> {
    let has_rate = phase.rate.ops_per_second.is_some_and(f64::is_finite);
    match phase.status {
        Status::Skipped => Some(format!("skipped: {}", short_reason(phase))),
        Status::Failed => Some(format!("failed: {}", short_reason(phase))),
        Status::Done | Status::Partial if has_rate => None,
        Status::Done | Status::Partial => Some(format!("no rate: {}", short_reason(phase))),
    }
}

/// The recorded reason, or that there is none.
pub(crate) fn short_reason(phase: &PhaseRecord) -> String {
    match phase.reason.as_deref().map(str::trim) {
        Some(reason) if !reason.is_empty() => printable(reason),
        _ if phase.ops == 0 => "no operation was completed".into(),
        _ => "no reason was recorded".into(),
    }
}

/// Name and label in their columns; what is too long is abbreviated before it is cut.
fn subject(phase: &PhaseRecord, style: &Style) -> String {
    let name = style.foreign(&phase.name);
    let label = style.foreign(&phase.label);
    let repetition = if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
    let padded = match (Kind::of(phase), label.split_once(' ')) {
        (Kind::Data, Some((pattern, rest))) => format!("{pattern:PATTERN_WIDTH$} {rest}"),
        _ => label.clone(),
    };
    let short = label
        .replace(" buffered", " buf")
        .replace(" shared", " shr")
        .replace(" missing", " miss")
        .replace(" direct", " dir");
    let of = |label: &str| format!("{name:NAME_WIDTH$} {label}{repetition}");
    [&padded, &label, &short]
        .map(|label| of(label))
        .into_iter()
        .find(|subject| subject.chars().count() <= SUBJECT_WIDTH)
        .unwrap_or_else(|| {
            let whole = format!("{name:NAME_WIDTH$} {short}");
            format!("{}{repetition}", fit(&whole, SUBJECT_WIDTH.saturating_sub(repetition.len())))
        })
}

/// Both tables, each in the order of the phases; the one whose phase ran first stands first.
pub fn table(phases: &[PhaseRecord], style: &Style) -> String {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in phases.iter().map(Kind::of) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let tables: Vec<_> = kinds
        .into_iter()
        .map(|kind| {
            let rows = phases.iter().filter(|phase| Kind::of(phase) == kind).map(|phase| row(phase, style));
            std::iter::once(head(kind)).chain(rows).collect::<Vec<_>>().join("\n")
        })
        .collect();
    tables.join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use proptest::prelude::*;

    #[test]
    fn small_and_huge_values_keep_their_columns() {
        insta::assert_snapshot!(sample::plain(&table(&sample::extremes(), &sample::WIDE)));
    }

    #[test]
    fn rows_without_numbers_say_why() {
        insta::assert_snapshot!(sample::plain(&table(&sample::troubled(), &sample::WIDE)));
    }

    #[test]
    fn repetitions_are_numbered() {
        insta::assert_snapshot!(sample::plain(&table(&sample::repeated(), &sample::WIDE)));
    }

    #[test]
    fn labels_too_long_for_their_column_are_shortened() {
        insta::assert_snapshot!(sample::plain(&table(&sample::long_labels(), &sample::WIDE)));
    }

    #[test]
    fn styles_carry_meaning_only() {
        let phases = sample::run().phases;
        let shown: Vec<_> = [0, 2, 5, 8].map(|index| row(&phases[index], &sample::WIDE)).into();
        insta::assert_snapshot!(shown.join("\n").replace('\x1b', "␛"));
    }

    #[test]
    fn the_table_is_the_streamed_rows() {
        let phases = sample::run().phases;
        let whole = table(&phases, &sample::WIDE);
        for phase in &phases {
            assert!(whole.lines().any(|line| line == row(phase, &sample::WIDE)));
        }
    }

    proptest! {
        #[test]
        fn rows_are_as_wide_as_their_heading(
            ops in 0.0f64..=1e9,
            block in 1u64..=1 << 20,
            latencies in proptest::array::uniform3(proptest::option::of(any::<u64>())),
            repetition in 1u32..1000,
            unicode in any::<bool>(),
        ) {
            let mut phase = sample::phase("read:rnd4k:q32t4");
            // A name of one byte and a rate of a terabyte a second are both beyond what can be measured.
            phase.rate.ops_per_second = Some(ops);
            phase.rate.bytes_per_second = Some(ops * block as f64);
            phase.repetition = repetition;
            if let Some(latency) = phase.latency_ns.as_mut() {
                [latency.p50, latency.p99, latency.p99_9] = latencies;
            }
            let width = |text: &str| sample::plain(text).chars().count();
            let line = row(&phase, &Style { unicode, width: 80 });
            prop_assert_eq!(width(&line), width(&head(Kind::Data)), "{}", sample::plain(&line));
            let cells = sample::plain(&line).split("  ").count();
            prop_assert!(cells >= 4, "{}", sample::plain(&line));
        }
    }
}
