//! How the run came about and how to repeat it; and the run itself, to be saved.

use askama::Template;
use model::Run;

use super::{Embed, Markup, embedded, rendered};
use crate::numbers::duration;
use crate::{printable, time};

/// Room for what stands around the sections: the style sheet above all.
const AROUND_BYTES: usize = 24_000;
/// Longest plan that is shown.
const PLAN_MAX: usize = 20_000;

#[derive(Template)]
#[template(path = "method.html", whitespace = "minimize")]
struct Method {
    command: String,
    facts: Vec<(&'static str, String)>,
    plan: String,
    csv: Option<Markup>,
    run: Option<Markup>,
    /// Whether the run was too large for the page.
    is_too_large: bool,
}

/// The section. With the run in it, it takes at most so many bytes.
pub(super) fn section(run: &Run, embed: Embed, bytes_max: usize) -> Markup {
    let words = run.command.iter().map(|word| {
        let is_plain = !word.is_empty()
            && !word.contains(|c: char| c.is_whitespace() || "'\"\\$`|&;<>()*?[]#~".contains(c));
        if is_plain { printable(word) } else { format!("'{}'", printable(&word.replace('\'', r"'\''"))) }
    });
    let mut facts = vec![
        ("seed", run.seed.to_string()),
        ("preset", printable(&run.plan.preset)),
        ("schema", printable(&run.schema)),
        ("skye", printable(&run.skye_version)),
        ("started", printable(&run.started_at)),
    ];
    facts.extend(time::elapsed_ns(run).map(|ns| ("took", duration(ns))));
    // What acts is shown, line by line.
    let toml = run.plan.to_request().to_toml();
    let mut plan: String = toml.lines().map(printable).collect::<Vec<_>>().join("\n");
    if plan.len() > PLAN_MAX {
        let end = (0..=PLAN_MAX).rev().find(|at| plan.is_char_boundary(*at)).unwrap_or_default();
        plan.truncate(end);
        plan.push_str("\n…");
    }
    let left = bytes_max.saturating_sub(AROUND_BYTES + plan.len());
    let wants_run = embed == Embed::Run;
    let csv = wants_run.then(|| embedded::csv("run.csv", &crate::csv::write(run), left / 4)).flatten();
    let left = left.saturating_sub(csv.as_ref().map_or(0, String::len));
    let held = wants_run.then(|| embedded::run(run, left)).flatten();
    rendered(&Method {
        command: words.collect::<Vec<_>>().join(" "),
        facts,
        plan,
        csv: csv.map(Markup),
        is_too_large: wants_run && held.is_none(),
        run: held.map(Markup),
    })
}
