//! Elements of HTML and SVG.

pub(crate) use model::markup::escape;

/// An element. `attributes` start with a blank; they and `inside` are written as they are.
pub(crate) fn element(name: &str, attributes: &str, inside: &str) -> String {
    format!("<{name}{attributes}>{inside}</{name}>")
}

/// A table cell that spans this many columns and rows.
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
    fn cell_has_requested_span_and_attributes() {
        assert_eq!(cell("td", 2, 1, " class=\"x\"", "5"), "<td colspan=\"2\" class=\"x\">5</td>");
    }
}
