//! The tables as GitHub Markdown, for tickets and pages.

use model::Run;
use model::run::{Mark, PhaseRecord};

use crate::text::{
    Finding, Kind, facts, findings, interval_cell, latency_cells, loose, mark, megabytes_cell,
    missing_reason, ops_cell,
};
use crate::{printable, time};

/// The run as Markdown: what and where, the tables, the notes.
pub fn write(run: &Run) -> String {
    let [version, host] = [&run.skye_version, &run.environment.host].map(|text| escaped(text));
    let mut text = format!("### skye {version} on {host}, {}\n\n", escaped(&time::minute(&run.started_at)));
    if let Some(label) = &run.label {
        text.push_str(&format!("**{}**\n\n", escaped(label)));
    }
    let what = format!("preset {}, seed {}", run.plan.preset, run.seed);
    let mut last = "";
    for (name, fact) in std::iter::once(("run", what)).chain(facts(&run.plan, &run.environment)) {
        // A line without a name continues the one before.
        last = if name.is_empty() { last } else { name };
        text.push_str(&format!("- {last}: {}\n", escaped(&loose(&fact))));
    }
    for kind in [Kind::Data, Kind::Files] {
        let phases: Vec<_> = run.phases.iter().filter(|phase| Kind::of(phase) == kind).collect();
        if !phases.is_empty() {
            text.push('\n');
            table(&mut text, kind, &phases);
        }
    }
    let findings = findings(&run.phases);
    if !findings.is_empty() {
        text.push('\n');
    }
    for Finding { mark, subject, text: sentence, .. } in &findings {
        let sign = sign(*mark);
        let separator = if sign.is_empty() { "" } else { " " };
        text.push_str(&format!("- {sign}{separator}{}: {}\n", escaped(subject), escaped(sentence)));
    }
    text
}

fn table(text: &mut String, kind: Kind, phases: &[&PhaseRecord]) {
    text.push_str(match kind {
        Kind::Data => {
            "| data | | MB/s | IOPS | ± | p50 | p99 | p99.9 | |\n|:---|:---|---:|---:|---:|---:|---:|---:|:---|\n"
        }
        Kind::Files => "| files | | ops/s | ± | p50 | p99 | p99.9 | |\n|:---|:---|---:|---:|---:|---:|---:|:---|\n",
    });
    for phase in phases {
        let repetition = if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
        let mut cells = vec![escaped(&phase.name), format!("{}{repetition}", escaped(&phase.label))];
        let sign = sign(mark(phase));
        match missing_reason(phase) {
            // The reason stands in the last column, the only one whose width does not matter.
            Some(reason) => {
                let empty = if kind == Kind::Data { 6 } else { 5 };
                cells.extend(std::iter::repeat_n(String::new(), empty));
                cells.push(format!("{sign} {}", escaped(&reason)));
            }
            None => {
                if kind == Kind::Data {
                    cells.push(megabytes_cell(phase));
                }
                cells.push(ops_cell(phase));
                cells.push(interval_cell(phase));
                cells.extend(latency_cells(phase));
                cells.push(sign.to_owned());
            }
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Act => "**!**",
        Mark::Distrust => "**?**",
        Mark::Info => "",
    }
}

/// Text that Markdown shows as it is: nothing in it formats, links, mentions or ends a cell.
fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => shown.push_str("&amp;"),
            '<' => shown.push_str("&lt;"),
            '>' => shown.push_str("&gt;"),
            // GitHub would notify whoever has that name.
            '@' => shown.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '!' => shown.extend(['\\', character]),
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_default_run() {
        insta::assert_snapshot!(write(&sample::run()));
    }

    #[test]
    fn a_run_in_trouble() {
        let run = Run { phases: sample::troubled(), ..sample::run() };
        insta::assert_snapshot!(write(&run));
    }

    #[test]
    fn hostile_names_format_nothing() {
        insta::assert_snapshot!(write(&sample::hostile_run()));
    }
}
