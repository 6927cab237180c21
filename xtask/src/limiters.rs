//! The page about limiters, generated from the texts of `skye explain`.

use wording::limiter_help::{KINDS, LIMITER_HELP, confidence, experiments, occupancy};

/// Heading of the cases that show a limiter.
const CASES_HEADING: &str = "Shown by";
/// Width of a line, in characters.
const WIDTH: usize = 116;

/// Generates the page from the current explanations.
pub fn generate() -> String {
    let thresholds = judge::thresholds();
    let mut text = String::from("# What limits a number\n\n");
    text.push_str(&wrapped(
        "The values of the column `limited by`: meaning, evidence, next step, what each does not mean, and where its \
         rule was not tested against a known cause. `skye explain LIMITER` prints the same. `cargo xtask lab --long` shows more cases in guests. `cargo xtask docs` \
         generates this page from `crates/wording/src/limiter_help.rs`; change it there.",
    ));
    text.push_str("\n## Confidence\n\n");
    text.push_str(&wrapped(&confidence(&thresholds)));
    text.push_str("\n| kind of evidence | meaning |\n|---|---|\n");
    for (name, what) in KINDS {
        text.push_str(&format!("| {name} | {what} |\n"));
    }
    text.push('\n');
    text.push_str(&wrapped(&experiments(&thresholds)));
    text.push('\n');
    text.push_str(&wrapped(&occupancy(&thresholds)));
    text.push_str("\n## All limiters\n\n| in a table | in documents | meaning |\n|---|---|---|\n");
    for about in LIMITER_HELP {
        let (title, code, meaning) = (about.limiter.title(), about.limiter.code(), about.in_short());
        text.push_str(&format!("| [{title}](#{code}) | `{code}` | {meaning} |\n"));
    }
    for about in LIMITER_HELP {
        // The code is the anchor, because it never changes.
        text.push_str(&format!("\n### {}\n\n", about.limiter.code()));
        text.push_str(&wrapped(&format!("*{}.* {}", about.limiter.title(), about.meaning)));
        for (heading, section) in &about.sections(&thresholds)[1..] {
            text.push('\n');
            text.push_str(&wrapped(&format!("**{heading}:** {section}")));
        }
        if let Some(cases) = rig::cases::list_by_limiter(about.limiter) {
            text.push('\n');
            text.push_str(&wrapped(&format!("**{CASES_HEADING}:** {cases}")));
        }
    }
    text
}

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used > 0 && used + 1 + length > WIDTH {
            lines.push('\n');
            used = 0;
        }
        if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += length;
    }
    lines.push('\n');
    lines
}
