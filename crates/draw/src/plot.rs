//! Plots: parts of a drawing with two axes, and lines and areas in them.

use super::{Anchor, Drawing, Path, Scale, WIDTH, text_width, thinned};

/// Left and right end of every plot; on the left there is room for the widest label of an axis, "100 ms".
const LEFT: f64 = 58.0;
const RIGHT: f64 = WIDTH - 8.0;
/// Distinguishable pairs of points of a line: one for each two units.
const BUCKETS: usize = 170;

/// Formats the label of a tick.
pub type Label = fn(f64) -> String;

/// An axis with ticks.
#[derive(Debug, Clone, Copy)]
pub struct Side {
    /// Scale of the axis.
    pub scale: Scale,
    /// Most ticks on the axis.
    pub ticks: usize,
    /// Labels of the ticks.
    pub label: Label,
}

/// Two axes and the area between them.
#[derive(Debug, Clone, Copy)]
pub struct Plot {
    /// Axis from left to right.
    pub x: Side,
    /// Axis from bottom to top.
    pub y: Side,
    top: f64,
    bottom: f64,
}

impl Plot {
    /// Left and right end of every plot.
    pub const X_RANGE: [f64; 2] = [LEFT, RIGHT];

    /// Makes a plot between two heights of the drawing; `y` makes the vertical axis for them.
    pub fn new(x: Side, [top, bottom]: [f64; 2], y: impl FnOnce([f64; 2]) -> Side) -> Self {
        Self { x, y: y([bottom, top]), top, bottom }
    }

    /// Draws rules with labels beside the plot, and above it the measure `what`, unless that is empty. If `has_floor`
    /// is set, ticks with labels are drawn below.
    pub fn axes(&self, drawing: &mut Drawing, what: &str, has_floor: bool) {
        let mut rules = Path::default();
        for value in self.y.scale.ticks(self.y.ticks) {
            let y = self.y.scale.place(value);
            rules.go(LEFT, y);
            rules.line(RIGHT, y);
            drawing.text("t d", Anchor::End, LEFT - 6.0, y + 4.5, &(self.y.label)(value));
        }
        drawing.path("rule", &rules);
        if !what.is_empty() {
            drawing.text("t h", Anchor::Start, LEFT, self.top - 7.0, what);
        }
        if has_floor {
            let mut ticks = Path::default();
            ticks.go(LEFT, self.bottom);
            ticks.line(RIGHT, self.bottom);
            let mut labelled = 0.0;
            for value in self.x.scale.ticks(self.x.ticks) {
                let x = self.x.scale.place(value);
                ticks.go(x, self.bottom);
                ticks.line(x, self.bottom + 5.0);
                let label = (self.x.label)(value);
                let width = text_width(&label);
                // A centred label must not hang over the edge.
                let end = (x + width / 2.0).min(WIDTH);
                if end - width >= labelled {
                    drawing.text("t d", Anchor::Middle, end - width / 2.0, self.bottom + 18.0, &label);
                    labelled = end;
                }
            }
            drawing.path("tick", &ticks);
        }
    }

    /// Returns the place of a point in the drawing.
    pub fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.x.scale.place(x), self.y.scale.place(y))
    }

    /// Draws a line through points, thinned to as many as can be seen.
    pub fn line(&self, drawing: &mut Drawing, class: &str, points: &[(f64, f64)]) {
        let places = thinned(points, BUCKETS).into_iter().map(|point| Some(self.place(point)));
        drawing.path(class, &Path::polyline(places));
    }

    /// Fills the area between the floor and points, thinned to as many as can be seen.
    pub fn area(&self, drawing: &mut Drawing, class: &str, points: &[(f64, f64)]) {
        let places: Vec<_> = thinned(points, BUCKETS).into_iter().map(|point| self.place(point)).collect();
        let ([(first, _), ..], [.., (last, _)]) = (places.as_slice(), places.as_slice()) else { return };
        let mut path = Path::default();
        path.go(*first, self.bottom);
        places.iter().for_each(|(x, y)| path.line(*x, *y));
        path.line(*last, self.bottom);
        path.close();
        drawing.path(class, &path);
    }

    /// Fills the span between two values of the horizontal axis, over the whole height.
    pub fn span(&self, drawing: &mut Drawing, class: &str, from: f64, to: f64, title: &str) {
        let (from, to) = (self.x.scale.place(from), self.x.scale.place(to));
        drawing.area(class, [from, self.top, (to - from).max(0.0), self.bottom - self.top], title);
    }

    /// Draws a vertical line from the bottom to the top.
    pub fn vertical_line(&self, drawing: &mut Drawing, class: &str, at: f64, title: &str) {
        let x = self.x.scale.place(at);
        let mut path = Path::default();
        path.go(x, self.bottom);
        path.line(x, self.top);
        drawing.path_with_tooltip(class, &path, title);
    }

    /// Draws an interval of values at one place, as a line from its low to its high end.
    pub fn whisker(&self, drawing: &mut Drawing, class: &str, at: f64, [low, high]: [f64; 2], title: &str) {
        let ((x, low), (_, high)) = (self.place((at, low)), self.place((at, high)));
        let mut path = Path::default();
        path.go(x, low);
        path.line(x, high);
        drawing.path_with_tooltip(class, &path, title);
    }

    /// Returns the heights of the plot's top and bottom.
    pub fn y_range(&self) -> [f64; 2] {
        [self.top, self.bottom]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact;

    fn plot() -> Plot {
        let x = Side { scale: Scale::linear(0.0, 10.0, Plot::X_RANGE), ticks: 5, label: compact };
        Plot::new(x, [20.0, 120.0], |across| Side {
            scale: Scale::from_zero(100.0, 2, across),
            ticks: 2,
            label: compact,
        })
    }

    #[test]
    fn axes_have_their_units_and_round_ticks() {
        let mut drawing = Drawing::new(140.0, "a", "b");
        plot().axes(&mut drawing, "IOPS", true);
        let text = drawing.finish();
        for shown in [">IOPS<", ">0<", ">50<", ">100<", ">2<", ">10<"] {
            assert!(text.contains(shown), "{shown}: {text}");
        }
    }

    #[test]
    fn labels_below_a_plot_do_not_overlap() {
        let drawn = |high: f64| {
            let label = |one_in: f64| format!("p{}", 100.0 - 100.0 / one_in);
            let x = Side { scale: Scale::log(1.0, high, Plot::X_RANGE), ticks: 6, label };
            let mut drawing = Drawing::new(140.0, "a", "b");
            Plot { x, ..plot() }.axes(&mut drawing, "", true);
            drawing.finish()
        };
        assert!(drawn(1.3e5).contains(">p99.99<") && drawn(1.3e5).contains(">p99.999<"));
        assert!(drawn(1e5).contains(">p99.99<") && !drawn(1e5).contains(">p99.999<"));
    }

    #[test]
    fn area_is_closed_at_the_baseline() {
        let mut drawing = Drawing::new(140.0, "a", "b");
        plot().area(&mut drawing, "s0", &[(0.0, 50.0), (10.0, 100.0)]);
        plot().area(&mut drawing, "s1", &[]);
        plot().line(&mut drawing, "s2", &[(0.0, 0.0), (10.0, 100.0)]);
        let text = drawing.finish();
        assert!(text.contains("class=\"s0\" d=\"M58 120v-50l334-50v100z\""), "{text}");
        assert!(text.contains("class=\"s2\" d=\"M58 120l334-100\"") && !text.contains("s1"), "{text}");
    }
}
