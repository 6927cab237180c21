//! The terminal's text: what a run prints while it goes on and what `skye report` prints of a saved one.
//!
//! Every function returns lines without a newline at the end; [`full`] and [`dry_run`] are whole documents and have it.

mod columns;
mod doctor;
mod dry_run;
mod explained;
mod footer;
mod limiter;
mod limits;
mod notes;
mod preamble;
pub mod selftest;
mod style;
mod table;
mod wrap;

pub use doctor::{doctor, examined};
pub use dry_run::dry_run;
pub use explained::{index, page};
pub use footer::footer;
pub use limiter::named;
pub use limits::{limited, limits};
pub use notes::notes;
pub use preamble::{named_line, preamble, title, where_it_is};
pub use style::Style;
pub use table::{Kind, Widths, apart, head, judged_later, row, table};

pub(crate) use columns::{NAME_WIDTH, fit, fit_end};
pub(crate) use footer::{compared, noise, partial, tool};
pub(crate) use limiter::{is_of_device, of as limiter_of, surely, words};
pub(crate) use limits::told;
pub(crate) use notes::{Remark, base_id, is_knee, mark, remark, remarks, subject};
pub(crate) use preamble::{describe, facts};
pub(crate) use style::{BOLD, DIM, GREEN, YELLOW, paint};
pub(crate) use table::{aligned, interval_cell, latency_cells, megabytes_cell, missing_reason, ops_cell};
pub(crate) use wrap::{field, loose, together, wrap};

use model::Run;

/// The whole run as text: what `skye report` prints. `saved` is the name of the file that holds it.
pub fn full(run: &Run, saved: Option<&str>, style: &Style) -> String {
    let host = &run.environment.host;
    let label = run.label.as_deref();
    let title = title(&run.skye_version, &run.plan.preset, run.seed, host, &run.started_at, label, style);
    let blocks = [
        preamble(&run.plan, &run.environment, style),
        table(&run.phases, &Widths::of_run(run), style),
        notes(&run.phases, style),
        limits(&run.phases, style),
        footer::known(run, saved, None, style),
    ];
    let mut text = title;
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        text.push_str("\n\n");
        text.push_str(block);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_default_run() {
        let run = sample::run();
        insta::assert_snapshot!(sample::plain(&full(&run, Some("20261121T140307Z-ada.json"), &sample::WIDE)));
    }

    #[test]
    fn the_narrower_the_terminal_the_fewer_the_columns() {
        let run = sample::run();
        for columns in [80, 91, 100, 120] {
            let text = sample::plain(&full(&run, None, &Style { unicode: true, width: columns }));
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
    fn a_default_run_in_ascii() {
        let run = sample::run();
        let text = full(&run, Some("20261121T140307Z-ada.json"), &sample::ASCII);
        assert!(text.is_ascii());
        insta::assert_snapshot!(sample::plain(&text));
    }

    #[test]
    fn a_sweep_has_a_knee() {
        let run = sample::swept_run();
        insta::assert_snapshot!(sample::plain(&full(&run, Some("20261121T140307Z-ada.json"), &sample::WIDE)));
    }

    #[test]
    fn a_sweep_in_ascii() {
        let text = full(&sample::swept_run(), None, &sample::ASCII);
        assert!(text.is_ascii());
        insta::assert_snapshot!(sample::plain(&text));
    }

    #[test]
    fn open_loops_tell_what_waited() {
        let run = sample::open_loop_run();
        insta::assert_snapshot!(sample::plain(&full(&run, Some("20261121T140307Z-ada.json"), &sample::WIDE)));
    }

    #[test]
    fn a_run_that_was_ended_early() {
        let run = sample::partial_run();
        insta::assert_snapshot!(sample::plain(&full(&run, None, &sample::WIDE)));
    }

    #[test]
    fn hostile_names_are_shown_not_obeyed() {
        let run = sample::hostile_run();
        let text = sample::plain(&full(&run, Some("x\x1b]0;owned\x07.json"), &sample::WIDE));
        assert!(!text.chars().any(|c| c != '\n' && model::printable::acts(c)), "{text}");
        insta::assert_snapshot!(text);
    }
}
