//! `skye list`: the saved runs, one line each, the newest first.

use model::Run;
use model::run::RunStatus;

use crate::json::UNRELEASED;
use crate::numbers::MISSING;
use crate::text::{DIM, Style, display_width, fit, fit_end, paint};
use crate::{headline, time};

/// One file of the store.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name by which the user can refer to the run.
    pub name: String,
    /// Summary of the run, or the reason why it cannot be read.
    pub run: Result<Summary, String>,
}

/// Parts of a run that a list shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Start of the run: RFC 3339, UTC.
    pub started_at: String,
    /// The directory that was tested.
    pub target: String,
    /// The preset.
    pub preset: String,
    /// The user's label.
    pub label: Option<String>,
    /// Complete, or ended early.
    pub status: RunStatus,
    /// Throughput and operations, each with the test's name: "read 6,881 MB/s", "read 966,310 IOPS".
    pub headlines: [Option<String>; 2],
}

impl From<&Run> for Summary {
    fn from(run: &Run) -> Self {
        Self {
            started_at: run.started_at.clone(),
            target: run.environment.target.path.clone(),
            preset: run.plan.preset.clone(),
            label: run.label.clone(),
            status: run.run_status,
            headlines: headline::from_run(&run.phases),
        }
    }
}

const HEADING: [&str; COLUMNS] =
    ["", "started (UTC)", "name", "target", "preset", "throughput", "operations", ""];
const COLUMNS: usize = 8;
/// Columns with foreign text, each with its least width. They shrink if the terminal is narrow.
const FLEXIBLE: [(usize, usize); 2] = [(3, 6), (4, 8)];
/// Most characters of such a column, however wide the terminal is.
const FLEXIBLE_MAX: usize = 24;
/// First column with numbers.
const FIRST_NUMBER: usize = 5;
/// Column of the status, last because it is mostly empty.
const STATUS: usize = 7;
/// Least width of the list; narrower terminals wrap its lines.
const WIDTH_MIN: usize = 80;

/// Renders the list, with a heading and a newline at the end. The first entry is the newest: `@`, the next `@-1`, and
/// so on, as `skye report` understands them. A file that cannot be read keeps its place, with the reason. One line counts the
/// runs of unreleased versions.
pub fn render(entries: &[Entry], style: &Style) -> String {
    if entries.is_empty() {
        return "no runs are saved yet\n".into();
    }
    let references =
        (0..entries.len()).map(|index| if index == 0 { "@".into() } else { format!("@-{index}") });
    let references: Vec<String> = references.collect();
    let rows: Vec<_> = references
        .iter()
        .zip(entries)
        .map(|(reference, entry)| {
            entry.run.as_ref().map(|run| cells(reference, &entry.name, run, style)).map_err(|e| (entry, e))
        })
        .collect();
    let mut widths = HEADING.map(str::len);
    widths[0] = references.iter().map(String::len).max().unwrap_or_default();
    for cells in rows.iter().flatten() {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(display_width(cell));
        }
    }
    narrow(&mut widths, style.width.max(WIDTH_MIN));
    let mut text = line(&HEADING.map(String::from), &widths);
    let is_unreleased = |row: &Result<_, (&Entry, &String)>| {
        row.as_ref().is_err_and(|(_, reason)| reason.contains(UNRELEASED))
    };
    for (reference, row) in references.iter().zip(&rows).filter(|(_, row)| !is_unreleased(row)) {
        text.push('\n');
        text.push_str(&match row {
            Ok(cells) => line(cells, &widths),
            Err((entry, reason)) => {
                let what = format!("{}: {}", style.foreign(&entry.name), style.foreign(reason));
                paint(DIM, &format!("  {reference:<0$}  {what}", widths[0]))
            }
        });
    }
    text.push('\n');
    let unreleased = rows.iter().filter(|row| is_unreleased(row)).count();
    if unreleased > 0 {
        text.push_str(&paint(DIM, &format!("  {unreleased} not shown: {UNRELEASED}")));
        text.push('\n');
    }
    style.finish(text)
}

fn cells(reference: &str, name: &str, run: &Summary, style: &Style) -> [String; COLUMNS] {
    let preset = style.foreign(&run.preset);
    let label = match &run.label {
        // The label comes first, so that it is not cut away.
        Some(label) => format!("\"{}\" {preset}", style.foreign(label)),
        None => preset,
    };
    let status = match run.status {
        RunStatus::Complete => "",
        RunStatus::Partial => "partial",
    };
    let [throughput, operations] = run
        .headlines
        .clone()
        .map(|number| number.map_or_else(|| MISSING.into(), |text| style.foreign(&text)));
    [
        reference.to_owned(),
        style.finish(time::minute(&run.started_at).trim_end_matches(" UTC").to_owned()),
        style.foreign(name),
        style.foreign(&run.target),
        label,
        throughput,
        operations,
        status.to_owned(),
    ]
}

/// Shrinks the widest flexible column until a line without status fits.
fn narrow(widths: &mut [usize; COLUMNS], limit: usize) {
    for (column, _) in FLEXIBLE {
        widths[column] = widths[column].min(FLEXIBLE_MAX);
    }
    while widths[..STATUS].iter().map(|width| width + 2).sum::<usize>() > limit {
        let widest = FLEXIBLE.iter().filter(|(column, least)| widths[*column] > *least);
        let Some((column, _)) = widest.max_by_key(|(column, _)| widths[*column]) else { return };
        widths[*column] -= 1;
    }
}

fn line(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let mut text = String::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        // The end of a path says most.
        let cell = if column == 3 { fit_end(cell, *width) } else { fit(cell, *width) };
        let blanks = " ".repeat(width.saturating_sub(display_width(&cell)));
        text.push_str("  ");
        text.push_str(&match column {
            FIRST_NUMBER..STATUS => blanks + &cell,
            _ => cell + &blanks,
        });
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn entry(summary: Summary) -> Entry {
        Entry { name: "1121-otter".into(), run: Ok(summary) }
    }

    fn entries() -> Vec<Entry> {
        let summary = Summary::from(&sample::run());
        let only_files = [None, Some("create 142,310/s".to_owned())];
        vec![
            entry(summary.clone()),
            entry(Summary {
                target: "/srv/very/long/path/to/the/data".into(),
                label: Some("before the upgrade".into()),
                status: RunStatus::Partial,
                ..summary.clone()
            }),
            Entry {
                name: "1120-owl".into(),
                run: Err("the document is truncated at line 812; write or copy it again".into()),
            },
            entry(Summary { preset: "custom".into(), headlines: only_files, ..summary.clone() }),
            entry(Summary {
                target: "a\x1b[2Jb".into(),
                started_at: "\u{202e}".into(),
                label: Some("x\ny".into()),
                ..summary
            }),
        ]
    }

    #[test]
    fn saved_run_list_snapshot() {
        insta::assert_snapshot!(sample::plain(&render(&entries(), &sample::WIDE)));
    }

    #[test]
    fn saved_runs_on_a_narrow_terminal() {
        let text = sample::plain(&render(&entries(), &Style { has_unicode: true, width: 80 }));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn saved_runs_in_ascii() {
        let text = sample::plain(&render(&entries(), &sample::ASCII));
        assert!(text.is_ascii());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn complete_runs_need_no_status() {
        insta::assert_snapshot!(sample::plain(&render(&entries()[..1], &sample::WIDE)));
    }

    #[test]
    fn empty_list_says_that_no_runs_are_saved() {
        assert_eq!(render(&[], &sample::WIDE), "no runs are saved yet\n");
    }

    #[test]
    fn runs_of_unreleased_versions_are_counted_in_one_line() {
        let older = crate::json::read("{\"schema\": \"skye.run/2\"}").unwrap_err();
        let old = |name: &str| Entry { name: name.into(), run: Err(older.clone()) };
        let text =
            render(&[old("1120-owl"), entry(Summary::from(&sample::run())), old("1119-elk")], &sample::WIDE);
        assert!(text.contains("2 not shown: made by an unreleased version of skye"), "{text}");
        assert!(text.contains("@-1") && !text.contains("owl"), "{text}");
    }
}
