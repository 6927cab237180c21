//! The page about limiters, generated from the texts of `skye explain`.

use wording::limiter_help::{KINDS, LIMITER_HELP, confidence};

/// Width of a line, in characters.
const WIDTH: usize = 116;

/// Generates the page from the current explanations.
pub fn generate() -> String {
    let mut text = String::from("# What limits a number\n\n");
    text.push_str(&wrapped(
        "The values of the column `limited by`. `skye explain LIMITER` also prints the evidence for it, what it does not \
         mean, how its rule was tested, and the thresholds. `cargo xtask docs` generates this page from \
         `crates/wording/src/limiter_help.rs`; change it there.",
    ));
    text.push_str("\n| limiter | in documents | meaning | next |\n|---|---|---|---|\n");
    for about in LIMITER_HELP {
        let (title, code) = (about.limiter.title(), about.limiter.code());
        text.push_str(&format!(
            "| {title} | `{code}` | {} | {} |\n",
            about.in_short(),
            about.next_in_short()
        ));
    }
    text.push('\n');
    text.push_str(&wrapped(&confidence(&judge::thresholds())));
    text.push_str("\n| kind of evidence | meaning |\n|---|---|\n");
    for (name, what) in KINDS {
        text.push_str(&format!("| {name} | {what} |\n"));
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
