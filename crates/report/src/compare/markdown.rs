//! A comparison as GitHub Markdown, for tickets and pull requests.

use model::Comparison;
use model::comparison::{Decision, Direction, Row};

use crate::markdown::escaped;
use wording::comparison::{
    MISSING, answer, conclusions, difference, ends, headline, limiters, margin, p, signed, spread, subject,
    unsettled, value, warnings,
};

/// Writes the comparison as Markdown: differences, the table with every measure, remarks.
pub fn markdown(comparison: &Comparison) -> String {
    let sides: Vec<_> = comparison.sides.iter().map(|side| escaped(&side.name)).collect();
    let mut text = format!("### {} against {}\n\n", sides[1..].join(" and "), sides[0]);
    text.push_str(&format!("**{}**\n\n", escaped(&headline(comparison))));
    for one in &comparison.differs {
        text.push_str(&format!("- differs: {} {}\n", escaped(&one.name), escaped(&difference(one))));
    }
    if comparison.differs.is_empty() {
        text.push_str("- differs: no known setting\n");
    }
    for setting in &comparison.same {
        text.push_str(&format!("- same: {} {}\n", escaped(&setting.name), escaped(&setting.value)));
    }
    text.push('\n');
    table(&mut text, comparison, &sides);
    remarks(&mut text, comparison);
    text
}

fn table(text: &mut String, comparison: &Comparison, sides: &[String]) {
    let mut heads = vec![String::new(), sides[0].clone()];
    let mut rules = vec![":---", "---:"];
    for side in &sides[1..] {
        heads.extend([side.clone(), "change".into(), "95 %".into(), "p".into()]);
        rules.extend(["---:", "---:", ":---", ":---"]);
    }
    heads.push("limited by".into());
    rules.push(":---");
    text.push_str(&format!("| {} |\n|{}|\n", heads.join(" | "), rules.join("|")));
    for row in &comparison.rows {
        text.push_str(&format!("| {} |\n", cells(row).join(" | ")));
    }
    if comparison.geomean_ratios.iter().all(Option::is_none) {
        return;
    }
    let mut means = vec!["geomean of rates".to_owned(), String::new()];
    for ratio in &comparison.geomean_ratios {
        means.extend([String::new(), ratio.map_or(String::new(), signed), String::new(), String::new()]);
    }
    means.push(String::new());
    text.push_str(&format!("| {} |\n", means.join(" | ")));
}

fn cells(row: &Row) -> Vec<String> {
    let mut cells = vec![escaped(&subject(row))];
    for (index, side) in row.sides.iter().enumerate() {
        cells.push(side.as_ref().map_or_else(
            || MISSING.to_owned(),
            |measured| format!("{} {}", value(row, measured.mean), spread(measured)).trim_end().to_owned(),
        ));
        let Some(index) = index.checked_sub(1) else { continue };
        cells.extend(row.changes[index].as_ref().map_or_else(Default::default, |change| {
            let text = escaped(&answer(change));
            let text = match change.direction {
                Some(Direction::Better | Direction::Worse) => format!("**{text}**"),
                None => text,
            };
            let known = if change.p.is_none() { "n=1".to_owned() } else { p(change) };
            [text, ends(change), known]
        }));
    }
    cells.push(if row.measure.is_rate() { escaped(&limiters(row)) } else { String::new() });
    cells
}

fn remarks(text: &mut String, comparison: &Comparison) {
    let mut lines: Vec<String> = Vec::new();
    let items = warnings(comparison).into_iter();
    lines.extend(items.map(|(subjects, warning)| format!("**!** {}: {warning}.", subjects.join(", "))));
    lines.extend(comparison.warnings.iter().map(|warning| format!("**!** {warning}.")));
    if comparison.has_p_values() {
        let items = unsettled(comparison).into_iter();
        lines.extend(items.map(|(subjects, sentence)| format!("{}: {sentence}.", subjects.join(", "))));
        let mut changes = comparison.rows.iter().flat_map(|row| row.changes.iter().flatten());
        if changes.any(|change| change.answer == Decision::Equivalent) {
            lines.push(format!("same: equivalent within ± {}.", margin(comparison.effect)));
        }
    }
    lines.extend(comparison.left_out.iter().map(|left| format!("{}: {}.", left.what, left.reason)));
    lines.extend(conclusions(comparison));
    text.push('\n');
    for line in lines {
        // Our own marks are not escaped.
        let (mark, rest) = line.strip_prefix("**!** ").map_or(("", line.as_str()), |rest| ("**!** ", rest));
        text.push_str(&format!("- {mark}{}\n", escaped(rest)));
    }
}
