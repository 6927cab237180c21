//! Scales from values to places, with round ticks.

use model::numbers::round_step;

/// A scale. Values beyond its ends are placed at the ends, and NaN at the low end.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    low: f64,
    high: f64,
    /// Places of the low and the high end.
    start: f64,
    end: f64,
    is_log: bool,
}

impl Scale {
    /// Makes a scale from zero to the next round value, with about `ticks` ticks.
    pub fn from_zero(high: f64, ticks: usize, [start, end]: [f64; 2]) -> Self {
        let high = if high.is_finite() && high > 0.0 { high.min(1e300) } else { 1.0 };
        let step = round_step(high / ticks.max(1) as f64);
        Self { low: 0.0, high: (high / step * (1.0 - 1e-9)).ceil() * step, start, end, is_log: false }
    }

    /// Makes a scale from one value to another, without rounding them.
    pub fn linear(low: f64, high: f64, [start, end]: [f64; 2]) -> Self {
        let low = if low.is_finite() { low.clamp(-1e300, 1e300) } else { 0.0 };
        let high = if high.is_finite() && high > low { high.min(1e300) } else { low };
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Self { low, high, start, end, is_log: false }
    }

    /// Makes a logarithmic scale from one value to another, without rounding them; for latencies.
    pub fn log(low: f64, high: f64, [start, end]: [f64; 2]) -> Self {
        let low = if low.is_finite() && low > 0.0 { low.min(1e300) } else { 1.0 };
        // At least a factor of two, or neighbours would look far apart.
        let high = if high.is_finite() { high.max(low * 2.0) } else { low * 2.0 };
        Self { low, high, start, end, is_log: true }
    }

    /// Returns the place of a value.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// Returns round values on the scale, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        if self.is_log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    /// Returns the distance of neighbouring ticks of a linear scale.
    pub fn step(&self, most: usize) -> f64 {
        round_step((self.high - self.low) / most.max(1) as f64)
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let step = self.step(most);
        let first = (self.low / step - 1e-9).ceil();
        let values = (0..=most + 1).map(|index| (first + index as f64) * step);
        values.take_while(|value| *value <= self.high + step * 1e-6).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let within = |factors: &[f64], every: i32| -> Vec<f64> {
            let powers = decades.clone().filter(|power| power.rem_euclid(every) == 0);
            let values =
                powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power)));
            let is_within = |value: &f64| (self.low * 0.999..=self.high * 1.001).contains(value);
            values.filter(is_within).collect()
        };
        const ALL: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let choices = [
            (&ALL[..], 1),
            (&[1.0, 2.0, 5.0][..], 1),
            (&[1.0, 3.0][..], 1),
            (&[1.0][..], 1),
            (&[1.0][..], 2),
            (&[1.0][..], 4),
        ];
        let fits =
            choices.iter().map(|(factors, every)| within(factors, *every)).find(|ticks| ticks.len() <= most);
        fits.unwrap_or_default()
    }
}

/// Formats a value in few characters: "0", "0.5", "250", "1.5k", "12M".
pub fn compact(value: f64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let size = value.abs();
    if !size.is_finite() || size >= 1e18 {
        return format!("{value:.0e}");
    }
    let (factor, unit) = UNITS.into_iter().find(|(factor, _)| size >= factor * 0.9999).unwrap_or((1.0, ""));
    let scaled = value / factor;
    let decimals = match scaled.abs() {
        s if s >= 99.95 => 0,
        s if s >= 9.995 => 1,
        s if s >= 0.9995 || s == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ticks_are_round() {
        let scale = Scale::from_zero(412_000.0, 4, [0.0, 100.0]);
        assert_eq!(scale.ticks(4), [0.0, 200_000.0, 400_000.0, 600_000.0]);
        assert_eq!(Scale::linear(0.0, 20.0, [0.0, 1.0]).ticks(5), [0.0, 5.0, 10.0, 15.0, 20.0]);
        let latencies = Scale::log(70e3, 9e6, [0.0, 1.0]);
        assert_eq!(latencies.ticks(7), [1e5, 2e5, 5e5, 1e6, 2e6, 5e6]);
        assert_eq!(latencies.ticks(3), [1e5, 1e6]);
        assert_eq!(Scale::log(3.2e6, 9.7e6, [0.0, 1.0]).ticks(7), [4e6, 5e6, 6e6, 7e6, 8e6, 9e6]);
    }

    #[test]
    fn compact_values_have_three_digits() {
        let texts = [0.0, 0.5, 7.0, 99.96, 999.0, 1500.0, 412_000.0, 1e6, 12.34e6, 2.5e9].map(compact);
        assert_eq!(texts, ["0", "0.5", "7", "100", "999", "1.5k", "412k", "1M", "12.3M", "2.5G"]);
    }

    proptest! {
        #[test]
        fn any_value_is_placed_inside_the_scale(low in any::<f64>(), high in any::<f64>(), value in any::<f64>(), most in 1usize..9) {
            for scale in [
                Scale::from_zero(high, most, [10.0, 90.0]),
                Scale::linear(low, high, [10.0, 90.0]),
                Scale::log(low, high, [90.0, 10.0]),
            ] {
                prop_assert!((10.0..=90.0).contains(&scale.place(value)), "{scale:?}");
                let ticks = scale.ticks(most);
                prop_assert!(ticks.len() <= most + 2 && ticks.iter().all(|tick| tick.is_finite()), "{scale:?} {ticks:?}");
            }
            compact(value);
        }

        #[test]
        fn larger_value_is_placed_farther(a in 1.0f64..1e9, b in 1.0f64..1e9) {
            for scale in [Scale::from_zero(1e9, 5, [0.0, 100.0]), Scale::log(1.0, 1e9, [0.0, 100.0])] {
                prop_assert_eq!(a < b, scale.place(a) < scale.place(b));
            }
        }
    }
}
