//! Paths in as few characters as possible: rounded to tenths of a unit, each point relative to the one before.

/// A path under construction.
#[derive(Debug, Clone, Default)]
pub struct Path {
    text: String,
    /// The last point, in tenths.
    at: (i64, i64),
    /// True if the last letter was that of a line, which need not be repeated.
    is_line: bool,
}

impl Path {
    /// Begins a part at a point.
    pub fn go(&mut self, x: f64, y: f64) {
        self.at = (tenths(x), tenths(y));
        self.text.push('M');
        number(&mut self.text, self.at.0);
        push_with_separator(&mut self.text, self.at.1);
        self.is_line = false;
    }

    /// Adds a straight line to a point.
    pub fn line(&mut self, x: f64, y: f64) {
        let to = (tenths(x), tenths(y));
        let (dx, dy) = (to.0 - self.at.0, to.1 - self.at.1);
        self.at = to;
        match (dx, dy) {
            (0, 0) => return,
            (dx, 0) => self.letter('h', dx),
            (0, dy) => self.letter('v', dy),
            (dx, dy) => {
                if self.is_line {
                    push_with_separator(&mut self.text, dx);
                } else {
                    self.text.push('l');
                    number(&mut self.text, dx);
                }
                push_with_separator(&mut self.text, dy);
                self.is_line = true;
                return;
            }
        }
        self.is_line = false;
    }

    /// Adds a line back to the beginning of this part.
    pub fn close(&mut self) {
        self.text.push('z');
        self.is_line = false;
    }

    /// Adds a rectangle, from its top left corner.
    pub fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64) {
        self.go(x, y);
        self.line(x + width, y);
        self.line(x + width, y + height);
        self.line(x, y + height);
        self.close();
    }

    /// Draws lines through points; a missing point makes a gap. A point between two gaps becomes a short dash.
    pub fn polyline(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> Self {
        let mut path = Self::default();
        let mut part: Vec<(f64, f64)> = Vec::new();
        for point in points.into_iter().chain([None]) {
            match (point, part.as_slice()) {
                (Some(point), _) => part.push(point),
                (None, []) => {}
                (None, [(x, y), rest @ ..]) => {
                    path.go(*x, *y);
                    rest.iter().for_each(|(x, y)| path.line(*x, *y));
                    if rest.is_empty() {
                        path.line(x + 1.0, *y);
                    }
                    part.clear();
                }
            }
        }
        path
    }

    /// Returns true if the path draws nothing.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The path as the value of an attribute.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn letter(&mut self, letter: char, by: i64) {
        self.text.push(letter);
        number(&mut self.text, by);
    }
}

/// Rounds a value to tenths. Values are clamped to a range far wider than any drawing, and NaN becomes 0.
fn tenths(value: f64) -> i64 {
    (value.clamp(-1e5, 1e5) * 10.0).round() as i64
}

fn number(text: &mut String, tenths: i64) {
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    if tenths < 0 {
        text.push('-');
    }
    if whole > 0 || rest == 0 {
        text.push_str(&whole.to_string());
    }
    if rest > 0 {
        text.push('.');
        text.push_str(&rest.to_string());
    }
}

/// Writes a number after another: a minus sign separates as well as a blank.
fn push_with_separator(text: &mut String, tenths: i64) {
    if tenths >= 0 {
        text.push(' ');
    }
    number(text, tenths);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn path_uses_compact_relative_commands() {
        let mut path = Path::default();
        path.go(10.0, 20.04);
        path.line(11.5, 19.6);
        path.line(12.5, 20.0);
        path.line(12.5, 20.0);
        path.line(15.0, 20.0);
        path.line(15.0, 10.0);
        assert_eq!(path.as_str(), "M10 20l1.5-.4 1 .4h2.5v-10");
        let mut path = Path::default();
        path.rectangle(1.0, 2.0, 3.0, 4.5);
        assert_eq!(path.as_str(), "M1 2h3v4.5h-3z");
    }

    #[test]
    fn missing_points_interrupt_the_path() {
        let path = Path::polyline([Some((0.0, 1.0)), Some((1.0, 2.0)), None, None, Some((5.0, 5.0)), None]);
        assert_eq!(path.as_str(), "M0 1l1 1M5 5h1");
        assert!(Path::polyline([None]).is_empty());
    }

    /// Parses a written path, and returns its last point.
    fn end_of(text: &str) -> (f64, f64) {
        let spaced: String = text
            .chars()
            .flat_map(|c| match c {
                '-' => vec![' ', '-'],
                c if c.is_ascii_alphabetic() => vec![' ', c, ' '],
                c => vec![c],
            })
            .collect();
        let (mut letter, mut numbers, mut at) = ("", Vec::new(), (0.0, 0.0));
        for word in spaced.split_whitespace() {
            match word.parse::<f64>() {
                Ok(number) => numbers.push(number),
                Err(_) => letter = word,
            }
            at = match (letter, numbers.as_slice()) {
                ("M", [x, y]) => (*x, *y),
                ("l", [dx, dy]) => (at.0 + dx, at.1 + dy),
                ("h", [dx]) => (at.0 + dx, at.1),
                ("v", [dy]) => (at.0, at.1 + dy),
                _ => continue,
            };
            numbers.clear();
        }
        at
    }

    proptest! {
        #[test]
        fn path_rounding_errors_do_not_accumulate(points in prop::collection::vec((0.0f64..400.0, 0.0f64..400.0), 1..60)) {
            let mut path = Path::default();
            path.go(points[0].0, points[0].1);
            points[1..].iter().for_each(|(x, y)| path.line(*x, *y));
            let last = points[points.len() - 1];
            let end = end_of(path.as_str());
            prop_assert!((end.0 - last.0).abs() < 0.06 && (end.1 - last.1).abs() < 0.06, "{end:?} {last:?} {}", path.as_str());
        }
    }
}
