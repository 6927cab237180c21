//! The tables as GitHub Markdown, for tickets and pages; and all evidence for what limited each row.

use model::Run;
use model::observation::Source;
use model::run::{Mark, PhaseRecord, Sensed, Sensitivity, WaitChannel, WaitsOf};

use crate::numbers::{amount, percent};
use crate::text::{
    Kind, Remark, facts, interval_cell, latency_cells, loose, mark, megabytes_cell, missing_reason, ops_cell,
    remarks, subject, surely, words,
};
use crate::{printable, time};

/// The run as Markdown: what and where, the tables, the notes, what limited each row.
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
    let remarks = remarks(&run.phases);
    if !remarks.is_empty() {
        text.push('\n');
    }
    for Remark { mark, subject, text: sentence, .. } in &remarks {
        let sign = sign(*mark);
        let separator = if sign.is_empty() { "" } else { " " };
        text.push_str(&format!("- {sign}{separator}{}: {}\n", escaped(subject), escaped(sentence)));
    }
    limits(&mut text, &run.phases);
    text
}

/// What limited each row, with everything that was seen of it.
fn limits(text: &mut String, phases: &[PhaseRecord]) {
    let mut shown = String::new();
    for (index, phase) in phases.iter().enumerate() {
        let facts = seen(phase);
        if facts.is_empty() || missing_reason(phase).is_some() {
            continue;
        }
        let limiter = limited_by(phase).map_or(String::new(), |limiter| format!(": {limiter}"));
        shown.push_str(&format!("- **{}**{}\n", escaped(&subject(phases, &[index])), escaped(&limiter)));
        for (name, fact) in facts {
            shown.push_str(&format!("  - {name}: {}\n", escaped(&fact)));
        }
    }
    if !shown.is_empty() {
        text.push_str("\n#### Limits and their evidence\n\n");
        text.push_str(&shown);
    }
}

/// "kernel CPU (likely)"; `None` where nothing is said about it.
fn limited_by(phase: &PhaseRecord) -> Option<String> {
    let words = words(phase)?;
    // What is confirmed needs no word, here as on the terminal.
    Some(match surely(phase) {
        Some("likely") => format!("{words} (likely)"),
        _ => words,
    })
}

/// Names and sentences of what was seen.
pub(crate) fn seen(phase: &PhaseRecord) -> Vec<(&'static str, String)> {
    let mut facts: Vec<(&'static str, Option<String>)> = Vec::new();
    if let Some(verdict) = &phase.verdict {
        facts.push(("shares", Some(wording::ranking(&[verdict])).filter(|ranking| !ranking.is_empty())));
        let told = Source::ALL.iter().map(|source| (source.title(), wording::evidence(&[verdict], *source)));
        facts.extend(told);
    }
    facts.push(("on the way down", wording::crossed(phase).map(|crossed| crossed.text)));
    facts.push(("calls of an operation", wording::steps(phase)));
    facts.push(("asleep in", sites(&phase.wait_channels)));
    facts.push(("answers to experiments", phase.sensitivity.as_ref().and_then(answers)));
    facts.push(("to try next", phase.verdict.as_ref().and_then(|verdict| wording::next_steps(&[verdict]))));
    facts.into_iter().filter_map(|(name, fact)| Some((name, fact?))).collect()
}

fn sites(sites: &[WaitChannel]) -> Option<String> {
    let shown = sites.iter().map(|site| {
        let class = site.class.as_ref().map_or(String::new(), |class| format!(" ({class})"));
        let of = match site.of {
            WaitsOf::Workers => "",
            WaitsOf::RingWorkers => " of the ring's threads",
        };
        format!("{}{class} {}{of}", site.symbol, percent(site.share))
    });
    (!sites.is_empty()).then(|| shown.collect::<Vec<_>>().join(", "))
}

fn answers(sensitivity: &Sensitivity) -> Option<String> {
    let Sensitivity { delay, depth, block, separate } = sensitivity;
    let tried = [("delay", delay), ("depth", depth), ("block", block), ("separate", separate)];
    let shown = tried.into_iter().filter_map(|(name, sensed)| {
        let Sensed { value, half_width, before_ops_per_second: before, after_ops_per_second: after, change } =
            sensed.as_ref()?;
        let [before, after] = [*before, *after].map(|rate| amount(rate).unwrap_or_default());
        let half_width = half_width.map_or(String::new(), |half| format!(" ± {half:.2}"));
        Some(format!("{name} {value:.2}{half_width} ({change}: {before} to {after} per second)"))
    });
    let shown: Vec<_> = shown.collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

fn table(text: &mut String, kind: Kind, phases: &[&PhaseRecord]) {
    text.push_str(match kind {
        Kind::Data => {
            "| data | | MB/s | IOPS | ± | p50 | p99 | p99.9 | limited by | |\n|:---|:---|---:|---:|---:|---:|---:|---:|:---|:---|\n"
        }
        Kind::Files => "| files | | ops/s | ± | p50 | p99 | p99.9 | limited by | |\n|:---|:---|---:|---:|---:|---:|---:|:---|:---|\n",
    });
    for phase in phases {
        let repetition = if phase.repetition > 1 { format!(" #{}", phase.repetition) } else { String::new() };
        let mut cells = vec![escaped(&phase.name), format!("{}{repetition}", escaped(&phase.label))];
        let sign = sign(mark(phase));
        match missing_reason(phase) {
            // The reason stands in the last column, the only one whose width does not matter.
            Some(reason) => {
                let empty = if kind == Kind::Data { 7 } else { 6 };
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
                cells.push(escaped(&limited_by(phase).unwrap_or_default()));
                cells.push(sign.to_owned());
            }
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
}

fn sign(mark: Mark) -> &'static str {
    match mark {
        Mark::Invalid => "**!**",
        Mark::Suspect => "**?**",
        Mark::Remark => "",
    }
}

/// Text that Markdown shows as it is: nothing in it formats, links, mentions or ends a cell.
pub(crate) fn escaped(text: &str) -> String {
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
