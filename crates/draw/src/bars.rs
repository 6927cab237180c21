//! Bars from zero: one below the other with their texts, or stacked to one.

use crate::{Anchor, Drawing, Path, Scale, WIDTH, fitted};

/// One bar with its text and its value.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Name of the bar.
    pub name: String,
    /// Length of the bar.
    pub value: f64,
    /// The value in words, above the end of the bar.
    pub value_text: String,
    /// Class of its colour.
    pub class: &'static str,
    /// Tooltip of the bar.
    pub title: String,
}

/// Height of each bar with the text above it.
const ROW: f64 = 38.0;
/// Widths: the widest character of a value, and the gap between text and value.
const DIGIT_WIDTH: f64 = 8.4;
const GAP: f64 = 8.0;
/// Height of the bar itself.
const BAR_THICKNESS: f64 = 12.0;

/// Draws bars one below the other, on a scale from zero to `full`, each with its text and value above it. If `rail` is
/// set, the rest of the scale up to `full` is visible, too.
pub fn bars(title: &str, description: &str, all: &[Bar], full: f64, rail: bool) -> String {
    let mut drawing = Drawing::new(all.len() as f64 * ROW, title, description);
    let scale = Scale::linear(0.0, full, [0.0, WIDTH]);
    for (index, bar) in all.iter().enumerate() {
        let top = index as f64 * ROW;
        let room = WIDTH - GAP - bar.value_text.chars().count() as f64 * DIGIT_WIDTH;
        drawing.text("t", Anchor::Start, 0.0, top + 14.0, &fitted(&bar.name, room));
        drawing.text("t", Anchor::End, WIDTH, top + 14.0, &bar.value_text);
        if rail {
            drawing.area("rail", [0.0, top + 20.0, WIDTH, BAR_THICKNESS], "");
        }
        // Every value above zero must be visible.
        let length = scale.place(bar.value).max(if bar.value > 0.0 { 1.0 } else { 0.0 });
        if length > 0.0 {
            drawing.area(bar.class, [0.0, top + 20.0, length, BAR_THICKNESS], &bar.title);
        }
    }
    drawing.finish()
}

/// A part of a stacked bar.
#[derive(Debug, Clone)]
pub struct Part {
    /// Name of the part.
    pub name: &'static str,
    /// Share of the whole, 0 to 1.
    pub share: f64,
    /// The share in words.
    pub value_text: String,
    /// Class of its colour.
    pub class: &'static str,
}

/// Draws the parts of a whole side by side. The page adds their texts.
pub fn stacked(title: &str, description: &str, parts: &[Part]) -> String {
    let mut drawing = Drawing::new(18.0, title, description);
    drawing.area("rail", [0.0, 1.0, WIDTH, 16.0], "");
    let mut from = 0.0;
    for part in parts.iter().filter(|part| part.share.is_finite() && part.share > 0.0) {
        let to = (from + part.share).min(1.0);
        let mut path = Path::default();
        path.rectangle(from * WIDTH, 1.0, (to - from) * WIDTH, 16.0);
        drawing.path_with_tooltip(part.class, &path, &format!("{} {}", part.name, part.value_text));
        from = to;
    }
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_zero_and_end_at_their_value() {
        let bar =
            |value| Bar { name: "a".into(), value, value_text: "b".into(), class: "s0", title: "c".into() };
        let text = bars("x", "y", &[bar(50.0), bar(0.0), bar(0.001), bar(1e9)], 100.0, false);
        assert_eq!(text.matches("class=\"s0\"").count(), 3, "{text}");
        for length in ["M0 20h200v12h-200z", "M0 96h1v12h-1z", "M0 134h400v12h-400z"] {
            assert!(text.contains(length), "{length}: {text}");
        }
    }

    #[test]
    fn stacked_parts_are_clamped_to_the_bar() {
        let part = |share| Part { name: "a", share, value_text: "b".into(), class: "s0" };
        let text = stacked("x", "y", &[part(0.75), part(f64::NAN), part(0.5), part(-1.0)]);
        assert!(text.contains("M0 1h300v16h-300z") && text.contains("M300 1h100v16h-100z"), "{text}");
        assert_eq!(text.matches("class=\"s0\"").count(), 2);
    }
}
