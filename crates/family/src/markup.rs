//! Text in HTML and SVG, and elements around it.

use model::printable::printable;

/// Text of others between tags or in an attribute: it cannot end either, and what would act is visible.
pub(crate) fn escape(text: &str) -> String {
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

/// An element. Attributes are written as they stand, with a blank before them; so is what is inside.
pub(crate) fn element(name: &str, attributes: &str, inside: &str) -> String {
    format!("<{name}{attributes}>{inside}</{name}>")
}

/// A cell of a table that is so many columns wide and rows high.
pub(crate) fn cell(name: &str, columns: usize, rows: usize, attributes: &str, inside: &str) -> String {
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
    fn nothing_escapes_its_place() {
        let hostile = "<script>alert('x')</script>\" onload=\"&\n\u{202e}";
        let escaped = escape(hostile);
        assert_eq!(
            escaped,
            r"&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot; onload=&quot;&amp;\n\u{202e}"
        );
        assert_eq!(cell("td", 2, 1, " class=\"x\"", "5"), "<td colspan=\"2\" class=\"x\">5</td>");
    }
}
