//! A run on one screen: the answer, the tables, the marked rows with their reasons, and where to read on.

use std::path::Path;

use model::Run;
use model::plan::SIMULATED;
use model::run::{Mark, PhaseRecord, Scores};
use model::target::{Backing, TargetKind};

use super::notes::{mark, paragraph, remarks};
use super::style::Style;
use super::table::{Widths, table};
use super::wrap::{field, no_break, with_units, wrap};
use super::{footer, hosts, preamble, summary};
use crate::numbers::duration;
use crate::{answer, printable, slug, time, zones};

/// Amount of detail about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// One line.
    Summary,
    /// The tables, and the reason of each mark.
    Table,
    /// The answer, the tables, and the marked rows.
    Screen,
    /// The answer, the tables, all remarks, noise, and the cost of skye itself.
    Remarks,
    /// Everything that is known.
    All,
}

impl Detail {
    /// Returns less detail, if requested: one line, or the tables with their marks.
    #[must_use]
    pub fn unless(self, is_summary: bool, is_quiet: bool) -> Self {
        match (is_summary, is_quiet) {
            (true, _) => Self::Summary,
            (false, true) => Self::Table,
            (false, false) => self,
        }
    }
}

/// Renders the run with that detail, without the line that says where it is saved.
pub fn screen(run: &Run, detail: Detail, style: &Style) -> String {
    let tables = table(&run.phases, &Widths::from_run(run), style);
    let blocks = match detail {
        Detail::Summary => vec![summary::line(run)],
        Detail::Table => vec![tables, remark_lines(run, detail, style)],
        Detail::All => vec![super::full(run, style)],
        Detail::Screen | Detail::Remarks => {
            let answer = wrapped("  ", &answer::from_run(run), style);
            let costs = if detail == Detail::Remarks { footer::costs(run, style) } else { String::new() };
            vec![
                wrapped("", &title(run), style),
                answer,
                tables,
                zones(&run.phases, style),
                scores(run, style),
                if detail == Detail::Remarks { hosts::each(&run.phases, style) } else { String::new() },
                remark_lines(run, detail, style),
                notes(run, style),
                costs,
            ]
        }
    };
    blocks.into_iter().filter(|block| !block.is_empty()).collect::<Vec<_>>().join("\n\n")
}

/// Returns the last lines: the output of a command beside the tests, the name of the saved run, and two ways to read
/// on. Paths of the output are relative to `directory`, that of the document.
pub fn saved(run: &Run, name: &str, directory: &Path, style: &Style) -> String {
    let marked = run.phases.iter().find(|phase| mark(phase) != Mark::Remark);
    let row =
        marked.or(run.phases.first()).map_or(String::new(), |phase| format!(" {}", slug::from_phase(phase)));
    // A run outside the store is not the last saved run, which these commands take by default.
    let which = if name.contains('/') { format!(" {}", printable(name)) } else { String::new() };
    let parts = [
        format!("saved as {}", printable(name)),
        no_break(&format!("skye why{which}{row}")),
        no_break(&format!("skye report{which} --html page.html")),
    ];
    let saved = wrapped("  ", &parts.join(" · "), style);
    let monitor_output = footer::monitor_output(run, directory).map(|text| field("monitor", &text, style));
    monitor_output.into_iter().chain([saved]).collect::<Vec<_>>().join("\n\n")
}

/// "skye 0.1.0 · /srv/data · ext4 on vda (virtio, 275 GB) · standard · 2026-11-21 14:03 UTC · 2 min 12 s".
pub(crate) fn title(run: &Run) -> String {
    let target = &run.environment.target;
    let file_system = printable(&target.file_system);
    let place = match (target.backing, target.top_device()) {
        (Backing::Simulated, _) => "a simulated device".to_owned(),
        (Backing::Memory, _) => format!("{file_system}, memory"),
        (_, Some(device)) if target.kind == TargetKind::Device => preamble::device_summary(device),
        (_, Some(device)) => format!("{file_system} on {}", preamble::device_summary(device)),
        (_, None) if target.source.is_empty() => file_system,
        (_, None) => format!("{file_system} on {}", printable(&target.source)),
    };
    let parts = [
        Some(format!("skye {}", printable(&run.skye_version))),
        Some(printable(&target.path)),
        Some(place),
        run.plan.clients.map(|clients| no_break(&format!("{} clients", clients.count))),
        Some(printable(&run.plan.preset)),
        run.label.as_deref().map(printable),
        Some(no_break(&time::minute(&run.started_at))),
        time::elapsed_ns(run).map(|ns| no_break(&duration(ns))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// Scores of a preset that has some, or the reason why there are none.
pub(super) fn scores(run: &Run, style: &Style) -> String {
    let preset = &run.plan.preset;
    let text = match (Scores::from_phases(preset, &run.phases), Scores::missing(preset, &run.phases)) {
        (Some(scores), _) => with_units(&wording::scores(&scores)),
        (None, Some(missing)) => {
            let lack = if missing == 1 { "lacks" } else { "lack" };
            format!("none: {missing} of {} tests {lack} a valid rate", Scores::TESTS)
        }
        (None, None) => return String::new(),
    };
    field("scores", &text, style)
}

/// Notes of the plan, such as options of the mount and tests that were left out.
fn notes(run: &Run, style: &Style) -> String {
    // The answer says it already.
    let notes = run.plan.notes.iter().filter(|note| *note != SIMULATED);
    notes.map(|note| field("note", &printable(note), style)).collect::<Vec<_>>().join("\n")
}

/// The rates over the offset of tests with zones, a line for each.
pub(super) fn zones(phases: &[PhaseRecord], style: &Style) -> String {
    let zone_texts = phases.iter().filter_map(|phase| zones::rate_summary(&zones::parts(phase)));
    zone_texts
        .map(|zone_texts| field("zones", &with_units(&zone_texts), style))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Sentences on marked rows and knees, or on all rows.
fn remark_lines(run: &Run, detail: Detail, style: &Style) -> String {
    let all = remarks(&run.phases);
    let kept = all.iter().filter(|remark| {
        detail > Detail::Screen || remark.mark != Mark::Remark || remark.is_on_each_screen()
    });
    style.finish(kept.map(|remark| paragraph(remark, style)).collect::<Vec<_>>().join("\n"))
}

fn wrapped(indent: &str, text: &str, style: &Style) -> String {
    let lines = wrap(&style.finish(text.to_owned()), style.paragraph() - indent.len());
    let lines: Vec<_> = lines.into_iter().map(|line| format!("{indent}{line}")).collect();
    style.finish(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn plain_text(run: &Run, detail: Detail, width: usize) -> String {
        let style = Style { has_unicode: true, width };
        let parts = [screen(run, detail, &style), saved(run, "1121-otter", Path::new(""), &style)];
        sample::plain(&parts.join("\n\n"))
    }

    #[test]
    fn default_run_on_screen() {
        let run = sample::run();
        insta::assert_snapshot!(plain_text(&run, Detail::Screen, 100));
        insta::assert_snapshot!("a_default_run_with_remarks", plain_text(&run, Detail::Remarks, 100));
        insta::assert_snapshot!("a_default_run_on_80_columns", plain_text(&run, Detail::Screen, 80));
        insta::assert_snapshot!("tables_alone", sample::plain(&screen(&run, Detail::Table, &sample::WIDE)));
    }

    #[test]
    fn invalid_row_prevents_a_score() {
        const TESTS: [&str; 12] = [
            "write:seq2m:buffered:fresh",
            "write:seq47008:buffered:shared:interleaved:fresh",
            "read:seq2m:buffered",
            "read:seq47008:buffered:shared:interleaved",
            "create:sync=end",
            "stat:order=dir",
            "stat",
            "unlink",
            "create:shared:size=3901:sync=end",
            "stat:shared:size=3901",
            "read-file:shared:size=3901",
            "unlink:shared:size=3901",
        ];
        let mut run = sample::run();
        run.plan.preset = "io500-shapes".into();
        run.phases = TESTS.map(sample::phase).into();
        for phase in &mut run.phases {
            phase.figures.rate.ops_per_second = Some(1000.0);
            phase.figures.rate.bytes_per_second = phase.workload.block_bytes.map(|_| f64::from(1 << 30));
            phase.judged.verdict = Some(model::run::Verdict::default());
        }
        let score_text = |run: &Run| sample::plain(&scores(run, &sample::WIDE));
        let whole = Scores::from_phases("io500-shapes", &run.phases).unwrap();
        assert_eq!((whole.bandwidth_gib_per_second, whole.metadata_kiops, whole.score), (1.0, 1.0, 1.0));
        assert!(score_text(&run).contains("score 1.00 by IO500's arithmetic"), "{}", score_text(&run));
        run.phases[3].judged.verdict.as_mut().unwrap().trust = model::run::Trust::Invalid;
        assert_eq!(Scores::from_phases("io500-shapes", &run.phases), None);
        assert!(score_text(&run).ends_with("none: 1 of 12 tests lacks a valid rate"), "{}", score_text(&run));
        run.phases.truncate(3);
        assert!(score_text(&run).ends_with("none: 9 of 12 tests lack a valid rate"), "{}", score_text(&run));
        run.plan.preset = "standard".into();
        assert_eq!(score_text(&run), "");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for run in [sample::run(), sample::swept_run(), sample::partial_run(), sample::hostile_run()] {
            for width in [80, 91, 100, 120] {
                let text = plain_text(&run, Detail::Remarks, width);
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
                assert!(widest <= width, "{widest} on {width}\n{text}");
            }
        }
    }
}
