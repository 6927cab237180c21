//! The section on the method: facts to repeat the run, and links to save it.

use askama::Template;
use model::Run;

use super::{Markup, embedded, rendered};
use crate::numbers::duration;
use crate::text::fit;
use crate::{printable, time};

/// Bytes around the links: their items in the list, or the sentence that there is none.
const OVERHEAD_BYTES: usize = 512;
/// Most characters of the command that are shown; the run holds all of it.
const COMMAND_MAX: usize = 4_000;
/// Most characters of a fact.
const FACT_MAX: usize = 200;
/// Most bytes of the plan that are shown.
const PLAN_MAX: usize = 20_000;

#[derive(Template)]
#[template(path = "method.html", whitespace = "minimize")]
struct Method {
    command: String,
    facts: Vec<(&'static str, String)>,
    plan: String,
    saved: DownloadLinks,
}

/// Links to save data from a page.
#[derive(Debug, Default)]
pub(super) struct DownloadLinks {
    csv: Option<Markup>,
    run: Option<Markup>,
    /// True if the run was too large for the page.
    is_too_large: bool,
}

impl DownloadLinks {
    /// Embeds the run and its CSV as far as they fit into `bytes_max`, the bytes that the rest of the page leaves. The
    /// run has priority, because the CSV can be made from it.
    pub(super) fn new(run: &Run, bytes_max: usize) -> Self {
        let left = bytes_max.saturating_sub(OVERHEAD_BYTES);
        let csv = embedded::csv("run.csv", &crate::csv::write(run), left / 4);
        let rest_bytes = left.saturating_sub(csv.as_ref().map_or(0, String::len));
        let (held, csv) = match embedded::run(run, rest_bytes) {
            Some(held) => (Some(held), csv),
            None => match embedded::run(run, left) {
                Some(held) => (Some(held), None),
                None => (None, csv),
            },
        };
        Self { csv: csv.map(Markup), is_too_large: held.is_none(), run: held.map(Markup) }
    }
}

/// The section on the method.
pub(super) fn section(run: &Run, saved: DownloadLinks) -> Markup {
    let short = |text: &str| fit(&printable(text), FACT_MAX);
    let words = run.command.iter().map(|word| {
        let is_plain = !word.is_empty()
            && !word.contains(|c: char| c.is_whitespace() || "'\"\\$`|&;<>()*?[]#~".contains(c));
        if is_plain { printable(word) } else { format!("'{}'", printable(&word.replace('\'', r"'\''"))) }
    });
    let mut facts = vec![
        ("seed", run.seed.to_string()),
        ("preset", short(&run.plan.preset)),
        ("schema", short(&run.schema)),
        ("skye", short(run.skye_build.as_ref().unwrap_or(&run.skye_version))),
        ("started", short(&run.started_at)),
    ];
    facts.extend(time::elapsed_ns(run).map(|ns| ("took", duration(ns))));
    // `printable` would escape the newlines, too, so it gets one line at a time.
    let toml = run.plan.to_request().to_toml();
    let mut plan: String = toml.lines().map(printable).collect::<Vec<_>>().join("\n");
    if plan.len() > PLAN_MAX {
        let end = (0..=PLAN_MAX).rev().find(|at| plan.is_char_boundary(*at)).unwrap_or_default();
        plan.truncate(end);
        plan.push_str("\n…");
    }
    let command = fit(&words.collect::<Vec<_>>().join(" "), COMMAND_MAX);
    rendered(&Method { command, facts, plan, saved })
}
