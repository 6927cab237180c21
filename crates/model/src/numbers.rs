//! Numbers as people read them: three significant digits below 100, thousands separated, a unit that fits.

/// Text in place of a number that is not known.
pub const MISSING: &str = "–";

/// Formats a value in at most 12 characters: `4.31`, `43.1`, `431`, `4,310`, `431 M`. Returns `None` for negative
/// values and for values that are not finite.
pub fn amount(value: f64) -> Option<String> {
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    // The limits lie half a digit below the round number: 99.96 is "100", not "100.0".
    Some(match value {
        0.0 => "0".into(),
        v if v < 0.005 => "<0.01".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v if v < 99_999_999.5 => thousands(v.round() as u64),
        v if v < 1e13 => format!("{} M", thousands((v / 1e6).round() as u64)),
        v => format!("{v:.2e}"),
    })
}

/// Returns a key that sorts as [`f64::total_cmp`] does. The code of [`slice::sort_by_cached_key`] depends on the type of the
/// key alone, so all sorts by this one share it. Each use of `sort_by` adds 4 kB to the program.
pub fn rank(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | 1 << 63 }
}

/// Formats a whole number with a comma between thousands.
pub fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats nanoseconds in at most seven characters. The unit leaves one to three digits before the point, for seconds
/// and hours up to four.
pub fn latency(ns: u64) -> String {
    const UNITS: [(f64, &str); 5] = [(1e3, "µs"), (1e6, "ms"), (1e9, "s"), (3.6e12, "h"), (3.15576e16, "y")];
    if ns < 1000 {
        return format!("{ns} ns");
    }
    let value = ns as f64;
    let fits = |&&(factor, unit): &&(f64, &str)| {
        // Hours are easier to read than kiloseconds, but 9,999 s is still easier than 2.8 h.
        value / factor < if matches!(unit, "s" | "h") { 9999.5 } else { 999.5 }
    };
    let (factor, unit) = UNITS.iter().find(fits).copied().unwrap_or(UNITS[4]);
    format!("{} {unit}", amount(value / factor).unwrap_or_default())
}

/// Formats an elapsed time for people: "2 min 11 s", "40 s", "4.2 s", "350 ms".
pub fn duration(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let whole = seconds.round() as u64;
    match seconds {
        s if s < 0.9995 => latency(ns),
        s if s < 9.95 => format!("{s:.1} s").replace(".0 s", " s"),
        s if s < 59.5 => format!("{whole} s"),
        s if s < 3599.5 => in_two_units(whole / 60, "min", whole % 60, "s"),
        _ => {
            let minutes = whole / 60;
            in_two_units(minutes / 60, "h", minutes % 60, "min")
        }
    }
}

/// Formats an estimated duration roughly: "about 40 s", "about 2 min", "about 2.5 min", "about 15 min".
pub fn format_estimate(ns: u64) -> String {
    let (number, unit) = round_duration(ns);
    format!("about {number} {unit}")
}

/// Formats the range of an estimated duration: "about 5 to 20 s", "about 50 s to 2 min".
pub fn estimate_range(low_ns: u64, high_ns: u64) -> String {
    let ((low, unit), (high, unit_of_high)) = (round_duration(low_ns), round_duration(high_ns));
    match unit == unit_of_high {
        true if low == high => format_estimate(high_ns),
        true => format!("about {low} to {high} {unit}"),
        false => format!("about {low} {unit} to {high} {unit_of_high}"),
    }
}

/// Rounds a duration roughly; returns the number and its unit.
fn round_duration(ns: u64) -> (f64, &'static str) {
    match ns as f64 / 1e9 {
        s if s < 10.0 => (s.ceil().max(1.0), "s"),
        s if s < 87.5 => ((s / 5.0).round() * 5.0, "s"),
        s if s < 585.0 => ((s / 30.0).round() / 2.0, "min"),
        s if s < 5400.0 => ((s / 60.0).round(), "min"),
        s => ((s / 1800.0).round() / 2.0, "h"),
    }
}

fn in_two_units(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    let large = thousands(large);
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

/// Formats minutes and seconds as a clock does: "00:12", "123:04".
pub fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

/// Formats a share of 0 to 1 in percent: "0 %", "0.3 %", "31 %".
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        p if !p.is_finite() => format!("{MISSING} %"),
        0.0 => "0 %".into(),
        p if p < 0.05 => "<0.1 %".into(),
        p if p < 9.95 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// Formats bytes per second in units of 10^6 bytes.
pub fn megabytes(bytes_per_second: f64) -> Option<String> {
    amount(bytes_per_second / 1e6).map(|text| format!("{text} MB/s"))
}

/// Returns the smallest of 1, 2, 5, 10, 20, … or their fractions that is at least `least`, for the ticks of an axis.
pub fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.max(1e-9).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_are_in_the_order_of_numbers() {
        let ascending =
            [-f64::NAN, f64::NEG_INFINITY, -1.5, -1.0, -0.0, 0.0, 1.0, 1.5, f64::INFINITY, f64::NAN];
        assert!(
            ascending.is_sorted_by(|one, other| one.total_cmp(other).is_lt() && rank(*one) < rank(*other))
        );
    }

    #[test]
    fn axis_steps_are_round_numbers() {
        for (least, step) in
            [(0.0009, 0.001), (0.7, 1.0), (1.0, 1.0), (1.1, 2.0), (33.0, 50.0), (51.0, 100.0)]
        {
            assert!((round_step(least) / step - 1.0).abs() < 1e-9, "{least}: {}", round_step(least));
        }
    }

    #[test]
    fn amounts_have_three_digits_or_are_whole() {
        let formatted = [0.0, 0.001, 0.31, 4.309, 9.996, 43.1, 99.96, 431.4, 4310.0, 12_345_678.0, 1e9, 1e12];
        let formatted: Vec<_> = formatted.into_iter().filter_map(amount).collect();
        let expected = [
            "0",
            "<0.01",
            "0.31",
            "4.31",
            "10.0",
            "43.1",
            "100",
            "431",
            "4,310",
            "12,345,678",
            "1,000 M",
            "1,000,000 M",
        ];
        assert_eq!(formatted, expected);
        for nothing in [f64::NAN, f64::INFINITY, -1.0] {
            assert_eq!(amount(nothing), None);
        }
    }

    #[test]
    fn latency_unit_depends_on_magnitude() {
        let formatted: Vec<_> = [
            0,
            38,
            999,
            1000,
            25_200,
            999_600,
            2_970_000,
            1_230_000_000,
            75_000_000_000,
            20_000_000_000_000,
            u64::MAX,
        ]
        .into_iter()
        .map(latency)
        .collect();
        let expected = [
            "0 ns", "38 ns", "999 ns", "1.00 µs", "25.2 µs", "1.00 ms", "2.97 ms", "1.23 s", "75.0 s",
            "5.56 h", "585 y",
        ];
        assert_eq!(formatted, expected);
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let formatted: Vec<_> = [350e6, 999.7e6, 4.2e9, 5e9, 40e9, 59.7e9, 131e9, 120e9, 3900e9, 7200e9]
            .into_iter()
            .map(|ns: f64| duration(ns as u64))
            .collect();
        let expected =
            ["350 ms", "1 s", "4.2 s", "5 s", "40 s", "1 min", "2 min 11 s", "2 min", "1 h 5 min", "2 h"];
        assert_eq!(formatted, expected);
    }

    #[test]
    fn estimates_are_rounded_and_say_about() {
        let formatted: Vec<_> = [0.0, 0.2, 8.1, 41.0, 86.0, 88.0, 124.0, 140.0, 899.0, 9000.0]
            .map(|s: f64| format_estimate((s * 1e9) as u64))
            .into();
        let expected =
            ["1 s", "1 s", "9 s", "40 s", "85 s", "1.5 min", "2 min", "2.5 min", "15 min", "2.5 h"];
        assert_eq!(formatted, expected.map(|text| format!("about {text}")));
        let between = [(4.1, 21.0), (50.0, 124.0), (121.0, 170.0), (120.0, 121.0)];
        let formatted =
            between.map(|(low, high): (f64, f64)| estimate_range((low * 1e9) as u64, (high * 1e9) as u64));
        assert_eq!(formatted, ["about 5 to 20 s", "about 50 s to 2 min", "about 2 to 3 min", "about 2 min"]);
    }

    #[test]
    fn shares_are_percent() {
        let formatted: Vec<_> = [0.0, 0.0001, 0.003, 0.0996, 0.31, 1.0].into_iter().map(percent).collect();
        assert_eq!(formatted, ["0 %", "<0.1 %", "0.3 %", "10 %", "31 %", "100 %"]);
    }

    proptest! {
        #[test]
        fn latencies_fit_their_column(ns in any::<u64>()) {
            prop_assert!(latency(ns).chars().count() <= 7, "{}", latency(ns));
        }

        #[test]
        fn amounts_have_at_most_13_characters(value in 0.0f64..1e300) {
            let text = amount(value).unwrap();
            prop_assert!(text.len() <= 13, "{}", text);
        }

        #[test]
        fn thousands_keep_the_digits(value in any::<u64>()) {
            prop_assert_eq!(thousands(value).replace(',', ""), value.to_string());
        }
    }
}
