//! A page of the documentation on a terminal: headings, paragraphs, lists, tables and code of Markdown, without its signs.

use super::columns::fit;
use super::style::{BOLD, Style, display_width, paint};
use super::wrap::{entry, hanging};

/// Columns before the other cells of a row.
const FIRST_CELL: usize = 18;

/// Renders a page.
pub fn markdown(page: &str, style: &Style) -> String {
    let mut blocks = Vec::new();
    // Code may contain empty lines.
    for (index, part) in page.split("```").enumerate() {
        if index % 2 == 1 {
            let code = part.split_once('\n').map_or("", |(_, code)| code);
            blocks.push(code.lines().flat_map(|line| code_line(line, style)).collect::<Vec<_>>().join("\n"));
            continue;
        }
        let paragraphs = part.split("\n\n").map(str::trim).filter(|text| !text.is_empty());
        blocks.extend(paragraphs.map(|text| paragraph(text, style)));
    }
    style.finish(blocks.join("\n\n"))
}

fn paragraph(text: &str, style: &Style) -> String {
    if let Some(heading) = text.strip_prefix('#') {
        return paint(BOLD, &plain(heading.trim_start_matches('#').trim()));
    }
    if text.starts_with('|') {
        return table(text, style);
    }
    if text.starts_with("- ") {
        let items = text.split("\n- ").map(|item| plain(item.trim_start_matches("- ")));
        return items.map(|item| hanging("- ", &item, style)).collect::<Vec<_>>().join("\n");
    }
    hanging("", &plain(text), style)
}

/// Renders a table as a list of its rows: the first cell, then the others.
fn table(text: &str, style: &Style) -> String {
    let mut rows = text.lines().filter(|line| !line.starts_with("|-")).map(cells);
    let head = rows.next().unwrap_or_default().join(" · ");
    let mut lines = vec![paint(BOLD, &head)];
    for row in rows {
        let Some((first, others)) = row.split_first() else { continue };
        let others = others.iter().filter(|cell| !cell.is_empty()).cloned().collect::<Vec<_>>().join(" · ");
        lines.push(entry(first, &others, FIRST_CELL, style));
    }
    lines.join("\n")
}

/// Returns the cells of a row.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_start_matches('|').trim_end_matches('|');
    row.replace("\\|", "\u{0}").split('|').map(|cell| plain(&cell.trim().replace('\u{0}', "|"))).collect()
}

/// Returns the lines of a line of code: examples side by side come one below another where they do not fit.
fn code_line(line: &str, style: &Style) -> Vec<String> {
    // An indented line is output, whose columns belong together.
    if display_width(line) + 2 <= style.paragraph() || line.starts_with(' ') {
        return vec![fit(&format!("  {line}"), style.paragraph())];
    }
    line.split("   ").map(str::trim).filter(|part| !part.is_empty()).map(|part| format!("  {part}")).collect()
}

/// Returns a text without the signs of Markdown; of a link, its text remains.
fn plain(text: &str) -> String {
    let mut rest = text.replace('\n', " ").replace('`', "").replace("**", "");
    let mut plain = String::new();
    while let Some((before, link)) = rest.split_once('[') {
        let whole = link.split_once("](").filter(|(name, _)| !name.contains('['));
        let whole = whole.and_then(|(name, after)| Some((name, after.split_once(')')?.1)));
        plain += before;
        // A bracket alone stays.
        let (name, after) = whole.unwrap_or(("[", link));
        plain += name;
        rest = after.to_owned();
    }
    plain + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Tests\n\n```text\nVERB[:KEY]   read:rnd4k\n```\n\nA `read` of [a file](spec.md) is\n**one** \
                        call.\n\n| key | tests | meaning |\n|---|---|---|\n| `q8` | all | depth |\n| \
                        `sync=none\\|end\\|each\\|N` |  | when writes are synced |\n\n- first\n- second\n  line\n";

    #[test]
    fn page_has_no_markdown_at_any_width() {
        for width in [40, 100] {
            let style = Style { has_unicode: true, width };
            let text = anstream::adapter::strip_str(&markdown(PAGE, &style)).to_string();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let (_, after_code) = text.split_once("read:rnd4k").unwrap();
            assert!(!after_code.contains(['`', '[', '*', '#']), "{text}");
        }
    }

    #[test]
    fn tables_become_lists() {
        let text = markdown(PAGE, &Style { has_unicode: true, width: 100 });
        let text = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(
            text,
            "Tests\n\n  VERB[:KEY]   read:rnd4k\n\nA read of a file is one call.\n\nkey · tests · meaning\n  q8              all · \
             depth\n  sync=none|end|each|N\n    when writes are synced\n\n- first\n- second line"
        );
    }
}
