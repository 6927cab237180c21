//! Text and elements of HTML and SVG.

use model::printable::printable;

/// Escapes foreign text for use between tags or in an attribute. It can end neither, and characters that would act are
/// visible.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// An element. `attributes` start with a blank; they and `inside` are written as they are.
pub fn element(name: &str, attributes: &str, inside: &str) -> String {
    format!("<{name}{attributes}>{inside}</{name}>")
}

/// A table cell that spans this many columns and rows.
pub fn cell(name: &str, columns: usize, rows: usize, attributes: &str, inside: &str) -> String {
    let span = |word: &str, count: usize| match count {
        1 => String::new(),
        count => format!(" {word}=\"{count}\""),
    };
    element(name, &format!("{}{}{attributes}", span("colspan", columns), span("rowspan", rows)), inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped() {
        let hostile = "<script>alert('x')</script>\" onload=\"&\n\u{202e}";
        assert_eq!(
            escape(hostile),
            r"&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;&amp;\n\u{202e}"
        );
    }

    #[test]
    fn cell_has_requested_span_and_attributes() {
        assert_eq!(cell("td", 2, 1, " class=\"x\"", "5"), "<td colspan=\"2\" class=\"x\">5</td>");
    }
}
