//! Text for the terminal: lines that a run prints as it goes on, and lines that `skye report` prints of a saved run.
//!
//! Every function returns lines without a newline at the end. Only [`dry_run`], a whole document, ends with one.

mod cold;
mod columns;
mod doctor;
mod dry_run;
mod explained;
mod footer;
mod hosts;
mod limiter;
mod limits;
mod markdown;
mod notes;
mod preamble;
mod screen;
pub mod selftest;
mod style;
mod summary;
mod table;
mod why;
mod wrap;

pub use doctor::{ClientChecks, doctor, doctor_of_clients, environment_summary, holding};
pub use dry_run::dry_run;
pub use explained::{index, page};
pub use limiter::limiter_from_name;
pub use limits::limited;
pub use markdown::markdown;
pub use preamble::{erases, named_line, plan_line, target_lines};
pub use screen::{Detail, saved, screen};
pub use style::Style;
pub use table::{Kind, Widths, clients, head, is_group_boundary, row, table};
pub use why::why;
pub use wrap::hanging;

pub(crate) use columns::{NAME_WIDTH, fit, fit_end};
pub(crate) use footer::{Compared, compared, noise, partial, tool};
pub(crate) use limiter::{confidence_text, from_phase as limiter_of, operation_cell, parts, words};
pub(crate) use limits::row_limits;
pub(crate) use notes::{Remark, base_id, has_knee_note, is_knee, mark, remark, remarks};
pub(crate) use preamble::{describe, facts};
pub(crate) use screen::title;
pub(crate) use style::{BOLD, DIM, GREEN, RED, YELLOW, display_width, paint};
pub(crate) use table::{aligned, interval_cell, latency_cells, megabytes_cell, missing_reason, ops_cell};
pub(crate) use why::link;
pub(crate) use wrap::{allow_breaks, field, no_break, wrap};

use model::Run;

use limits::limits;
use notes::notes;
use preamble::preamble;

/// Renders all of a run as text, with every remark and all evidence.
fn full(run: &Run, style: &Style) -> String {
    let host = &run.environment.host;
    let label = run.label.as_deref();
    let title =
        preamble::title(&run.skye_version, &run.plan.preset, run.seed, host, &run.started_at, label, style);
    let blocks = [
        preamble(&run.plan, &run.environment, style),
        table(&run.phases, &Widths::from_run(run), style),
        screen::zones(&run.phases, style),
        screen::scores(run, style),
        notes(&run.phases, style),
        limits(&run.phases, style),
        footer::footer(run, style),
    ];
    let mut text = title;
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        text.push_str("\n\n");
        text.push_str(block);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn default_run_in_full() {
        let run = sample::run();
        insta::assert_snapshot!(sample::plain(&full(&run, &sample::WIDE)));
    }

    #[test]
    fn table_columns_fit_terminal_width() {
        let run = sample::run();
        for columns in [80, 91, 100, 120] {
            let text = sample::plain(&full(&run, &Style { has_unicode: true, width: columns }));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= columns, "{widest} on {columns}\n{text}");
            insta::assert_snapshot!(format!("columns_{columns}"), table_of(&text));
        }
    }

    fn table_of(text: &str) -> String {
        let lines = text.lines().skip_while(|line| !line.starts_with("  DATA"));
        lines.take_while(|line| !line.starts_with("  !")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn default_run_in_ascii() {
        let run = sample::run();
        let text = full(&run, &sample::ASCII);
        assert!(text.is_ascii());
        insta::assert_snapshot!(sample::plain(&text));
    }

    #[test]
    fn sweep_has_a_knee() {
        let run = sample::swept_run();
        insta::assert_snapshot!(sample::plain(&full(&run, &sample::WIDE)));
    }

    #[test]
    fn sweep_in_ascii() {
        let text = full(&sample::swept_run(), &sample::ASCII);
        assert!(text.is_ascii());
        insta::assert_snapshot!(sample::plain(&text));
    }

    #[test]
    fn open_loop_run_reports_late_operations() {
        let run = sample::open_loop_run();
        insta::assert_snapshot!(sample::plain(&full(&run, &sample::WIDE)));
    }

    #[test]
    fn partial_run_report_snapshot() {
        let run = sample::partial_run();
        insta::assert_snapshot!(sample::plain(&full(&run, &sample::WIDE)));
    }

    #[test]
    fn hostile_names_are_escaped() {
        let run = sample::hostile_run();
        let text = sample::plain(&full(&run, &sample::WIDE));
        assert!(!text.chars().any(|c| c != '\n' && model::printable::affects_display(c)), "{text}");
        insta::assert_snapshot!(text);
    }
}
