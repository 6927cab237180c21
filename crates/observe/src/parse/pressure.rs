//! `/proc/pressure/*`: waiting times of the machine's tasks.

/// The line "some": times during which at least one task waited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Some10 {
    /// Share of the last ten seconds, 0 to 1.
    pub share: f64,
    /// Sum since boot.
    pub total_us: u64,
}

/// Reads the line that begins with "some"; absent if no line has its form.
pub fn parse(text: &str) -> Option<Some10> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let value = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
    let percent: f64 = value("avg10=")?.parse().ok()?;
    let share = Some(percent / 100.0).filter(|share| (0.0..=1.0).contains(share))?;
    Some(Some10 { share, total_us: value("total=")?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Some10, parse};

    #[test]
    fn real_pressure_parses() {
        let text = "some avg10=3.73 avg60=2.42 avg300=4.23 total=1016837219\n\
                    full avg10=2.13 avg60=1.93 avg300=3.64 total=464044191\n";
        assert_eq!(parse(text), Some(Some10 { share: 0.0373, total_us: 1_016_837_219 }));
        assert_eq!(parse("full avg10=2.13 total=1\n"), None);
        assert_eq!(parse("some avg10=NaN total=1\n"), None);
        assert_eq!(parse("some avg10=1.00\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n){0,60}|some avg10=[0-9.-]{0,9} total=[0-9-]{0,30}") {
            parse(&text);
        }
    }
}
