//! Text in HTML and SVG.

use crate::printable::printable;

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
}
