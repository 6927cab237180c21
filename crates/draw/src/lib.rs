//! Draws charts as static SVG: scales with round ticks, paths, bars, lines over time, tooltips. Escapes text of pages.
//!
//! The SVG is written by hand: files must be small, have no scripts, and take their colours from classes of the page.
//! No charting library yields that. Lengths are in units of the drawing, whose whole width is [`WIDTH`].
//!
//! A new colour is a variable and a class in `report/templates/page.css`, for light, dark and paper.
//!
//! Invariants:
//! - Pure: the same values give the same text. This crate knows nothing of runs.
//! - Foreign text is escaped. No value, finite or not, is drawn outside the drawing.

mod bars;
mod markup;
mod path;
mod plot;
mod scale;
mod thin;

use std::fmt::Write as _;

pub use bars::{Bar, Part, bars, stacked};
pub use path::Path;
pub use plot::{Plot, Side};
pub use scale::{Scale, compact};
pub use thin::thinned;

pub use markup::{cell, element, escape};

/// Width of every drawing. A phone shows it on about 345 pixels, a page on 440; text of 13 units is readable on both.
pub const WIDTH: f64 = 400.0;

/// Position of a text relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A drawing under construction. Colours are classes, which the page defines.
#[derive(Debug)]
pub struct Drawing {
    height: f64,
    title: String,
    description: String,
    body: String,
}

impl Drawing {
    /// Starts an empty drawing, with a title, and a description for screen readers.
    pub fn new(height: f64, title: &str, description: &str) -> Self {
        Self { height, title: escape(title), description: escape(description), body: String::new() }
    }

    /// Adds a path of that class.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.is_empty() {
            let _ = write!(self.body, "<path class=\"{class}\" d=\"{}\"/>", path.as_str());
        }
    }

    /// Adds a path with a tooltip.
    pub fn path_with_tooltip(&mut self, class: &str, path: &Path, title: &str) {
        if !path.is_empty() {
            let (path, title) = (path.as_str(), escape(title));
            let _ = write!(self.body, "<path class=\"{class}\" d=\"{path}\"><title>{title}</title></path>");
        }
    }

    /// Adds a rectangle, with a tooltip unless the title is empty.
    pub fn area(&mut self, class: &str, [x, y, width, height]: [f64; 4], title: &str) {
        let mut path = Path::default();
        path.rectangle(x, y, width, height);
        if title.is_empty() { self.path(class, &path) } else { self.path_with_tooltip(class, &path, title) }
    }

    /// Adds a point of a series, with a tooltip.
    pub fn dot(&mut self, class: &str, x: f64, y: f64, title: &str) {
        let title = escape(title);
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{title}</title></circle>"
        );
    }

    /// Adds a text. Its point is on its baseline.
    pub fn text(&mut self, class: &str, anchor: Anchor, x: f64, y: f64, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " m",
            Anchor::End => " e",
        };
        let _ = write!(
            self.body,
            "<text class=\"{class}{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escape(text)
        );
    }

    /// Returns the drawing as an element of a page.
    pub fn finish(self) -> String {
        let Self { height, title, description, body } = self;
        format!(
            "<svg role=\"img\" viewBox=\"0 0 {WIDTH} {height:.0}\"><title>{title}</title><desc>{description}</desc>{body}</svg>"
        )
    }
}

/// Returns the width of a character at a font size of 13 units. The reader's font is unknown, and libraries need the font,
/// so the widths are those of wide letters.
fn character_width(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '('
        | ')' | '/' => 5.6,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 13.2,
        'A'..='Z' | '<' | '>' | '=' | '+' | '~' => 9.6,
        // Digits, the other small letters, and the letters of most alphabets.
        '\0'..='\u{10ff}' => 8.3,
        _ => 14.0,
    }
}

/// Returns the width of a text at a font size of 13 units.
fn text_width(text: &str) -> f64 {
    text.chars().map(character_width).sum()
}

/// Cuts the text to at most `width` units at a font size of 13 units; "…" marks a cut.
pub fn fitted(text: &str, width: f64) -> String {
    let mut left = width;
    let end = text.char_indices().find(|(_, character)| {
        left -= character_width(*character);
        left < 0.0
    });
    let Some((end, _)) = end else { return text.to_owned() };
    // There must be room for the dots, too.
    let (mut kept, mut back) = (text.get(..end).unwrap_or_default(), character_width('…'));
    while let Some(last) = kept.chars().next_back().filter(|_| back > 0.0) {
        kept = kept.strip_suffix(last).unwrap_or_default();
        back -= character_width(last);
    }
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_escaped_in_svg() {
        let hostile = "</title><script>\"'\u{202e}";
        let mut drawing = Drawing::new(10.0, hostile, hostile);
        drawing.text("t", Anchor::End, 1.0, 2.0, hostile);
        drawing.area("a", [0.0, 0.0, 1.0, 1.0], hostile);
        drawing.dot("d", 0.0, 0.0, hostile);
        let text = drawing.finish();
        assert!(!text.contains("<script") && !text.contains('\u{202e}'), "{text}");
        assert_eq!(text.matches("&lt;script&gt;&quot;&#39;").count(), 5);
    }

    #[test]
    fn texts_that_are_too_long_are_cut() {
        let texts =
            ["read 4K rnd q32t4", "WWWWWWWWWWWWWWWWWWWW", "iiiiiiiiiiiiiiiiiiii", "漢字漢字漢字漢字漢字漢字"]
                .map(|text| fitted(text, 140.0));
        assert_eq!(texts, ["read 4K rnd q32t4", "WWWWWWWW…", "iiiiiiiiiiiiiiiiiiii", "漢字漢字漢字漢字漢…"]);
        assert_eq!([fitted("", 10.0), fitted("WW", 0.0)], ["", "…"]);
    }

    #[test]
    fn empty_path_is_omitted() {
        let mut drawing = Drawing::new(10.0, "a", "b");
        drawing.path("x", &Path::default());
        assert_eq!(
            drawing.finish(),
            "<svg role=\"img\" viewBox=\"0 0 400 10\"><title>a</title><desc>b</desc></svg>"
        );
    }
}
