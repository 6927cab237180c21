//! Sparklines: the course of a rate in one line.

use crate::text::Style;

/// Eight heights, lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same heights for a terminal that shows no blocks.
const DIGITS: [char; 8] = ['1', '2', '3', '4', '5', '6', '7', '8'];

/// Returns a character for each value: the highest for the largest value, the lowest for `floor` and below. Values that
/// are not finite become `gap`.
pub(crate) fn sparkline(values: &[f64], floor: f64, gap: char, style: &Style) -> String {
    let heights = if style.has_unicode { BLOCKS } else { DIGITS };
    let largest = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let height = |&value: &f64| {
        if !value.is_finite() {
            return gap;
        }
        let share = if largest > floor { (value - floor) / (largest - floor) } else { 0.0 };
        heights[((share * 8.0).ceil() as usize).clamp(1, heights.len()) - 1]
    };
    values.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparkline_scales_from_floor_to_maximum() {
        let (wide, ascii) = (Style { has_unicode: true, width: 80 }, Style { has_unicode: false, width: 80 });
        let values = [0.0, 1.0, 4.0, f64::NAN, 8.0];
        assert_eq!(sparkline(&values, 0.0, ' ', &wide), "▁▁▄ █");
        assert_eq!(sparkline(&values, 0.0, 'x', &ascii), "114x8");
        assert_eq!(sparkline(&values, 4.0, '-', &ascii), "111-8");
        assert_eq!(sparkline(&[5.0, 5.0], 5.0, '-', &ascii), "11");
        assert_eq!(sparkline(&[], 0.0, '-', &ascii), "");
    }
}
