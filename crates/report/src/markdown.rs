//! GitHub Markdown for tickets and pages: a run as on the screen.

use model::run::{Mark, PhaseRecord};
use model::{Percentile, Run};

use crate::operations::operations;
use crate::text::{
    Kind, Remark, allow_breaks, confidence_text, interval_cell, latency_cells, mark, megabytes_cell,
    missing_reason, ops_cell, remarks, title, words,
};
use crate::{answer, percentiles, printable};

/// Writes the run as Markdown: the title, the answer, the tables, and the marked rows with their reasons.
pub fn write(run: &Run) -> String {
    let mut text =
        format!("### {}\n\n{}\n", escaped(&allow_breaks(&title(run))), escaped(&answer::from_run(run)));
    for kind in [Kind::Data, Kind::Files] {
        let phases: Vec<_> = run.phases.iter().filter(|phase| Kind::from_phase(phase) == kind).collect();
        if !phases.is_empty() {
            text.push('\n');
            table(&mut text, kind, &phases, &percentiles::in_files(run));
        }
    }
    let remarks = remarks(&run.phases);
    let marked: Vec<_> = remarks.iter().filter(|told| told.mark != Mark::Remark || told.is_knee).collect();
    if !marked.is_empty() {
        text.push('\n');
    }
    for Remark { mark, subject, text: sentence, .. } in marked {
        text.push_str(&format!("- {} {}: {}\n", sign(*mark), escaped(subject), escaped(sentence)));
    }
    text
}

/// Returns the limiter: "kernel CPU (likely)"; `None` without a limiter.
fn limited_by(phase: &PhaseRecord) -> Option<String> {
    let words = words(phase)?;
    // A confirmed limiter gets no suffix, as on the terminal.
    Some(match confidence_text(phase) {
        Some("likely") => format!("{words} (likely)"),
        _ => words,
    })
}

fn table(text: &mut String, kind: Kind, phases: &[&PhaseRecord], wanted: &[Percentile]) {
    let first = match kind {
        Kind::Data => "| data | | MB/s | IOPS | ± |",
        Kind::Files => "| files | | ops/s | ± |",
    };
    let names: String = wanted.iter().map(|wanted| format!(" {} |", wanted.name())).collect();
    let numbers = first.matches('|').count() - 3 + wanted.len();
    let line = format!("|:---|:---|{}:---|:---|", "---:|".repeat(numbers));
    text.push_str(&format!("{first}{names} limited by | |\n{line}\n"));
    for phase in phases {
        let repetition = if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
        let mut cells = vec![escaped(&phase.name), format!("{}{repetition}", escaped(&phase.label))];
        let sign = sign(mark(phase));
        match missing_reason(phase) {
            // The reason goes into the last column, the only one whose width does not matter.
            Some(reason) => {
                let empty = if kind == Kind::Data { 4 } else { 3 };
                cells.extend(std::iter::repeat_n(String::new(), empty + wanted.len()));
                cells.push(format!("{sign} {}", escaped(&reason)));
            }
            None => {
                if kind == Kind::Data {
                    cells.push(megabytes_cell(phase));
                }
                cells.push(ops_cell(phase));
                cells.push(interval_cell(phase));
                cells.extend(latency_cells(phase, wanted));
                cells.push(escaped(&limited_by(phase).unwrap_or_default()));
                cells.push(sign.to_owned());
            }
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        for operation in operations(phase) {
            let mut cells = vec![String::new(), escaped(&operation.name())];
            if kind == Kind::Data {
                cells.push(operation.megabytes());
            }
            cells.extend([operation.rate(), String::new()]);
            cells.extend(operation.latencies(wanted));
            cells.extend([String::new(), String::new()]);
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Invalid => "**!**",
        Mark::Suspect => "**?**",
        Mark::Remark => "",
    }
}

/// Escapes text, so that nothing in it formats, links, mentions or ends a cell.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped_text = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => escaped_text.push_str("&amp;"),
            '<' => escaped_text.push_str("&lt;"),
            '>' => escaped_text.push_str("&gt;"),
            // GitHub would notify the user of that name.
            '@' => escaped_text.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => {
                escaped_text.extend(['\\', character])
            }
            _ => escaped_text.push(character),
        }
    }
    escaped_text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn default_run_as_markdown() {
        insta::assert_snapshot!(write(&sample::run()));
    }

    #[test]
    fn run_with_failures_as_markdown() {
        let run = Run { phases: sample::problem_rows(), ..sample::run() };
        insta::assert_snapshot!(write(&run));
    }

    #[test]
    fn calls_follow_their_row_in_markdown() {
        let text = write(&Run { phases: vec![sample::rw()], ..sample::run() });
        let rows: Vec<_> = text.lines().filter(|line| line.starts_with("|  |")).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert_eq!(rows[2], "|  | fdatasync |  | 1,500 |  | 402 µs | 980 µs | 5.20 ms |  |  |");
    }

    #[test]
    fn hostile_names_are_escaped_in_markdown() {
        insta::assert_snapshot!(write(&sample::hostile_run()));
    }
}
