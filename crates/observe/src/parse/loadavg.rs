//! `/proc/loadavg`: average number of tasks that ran or waited for a disk.

/// Reads the average of the last minute.
pub fn parse(text: &str) -> Option<f64> {
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(load).filter(|load| load.is_finite() && *load >= 0.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;

    #[test]
    fn real_loadavg_parses() {
        assert_eq!(parse("0.61 0.83 1.32 4/102 27938\n"), Some(0.61));
        assert_eq!(parse("inf 0 0\n"), None);
        assert_eq!(parse(""), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "\\PC{0,60}") {
            parse(&text);
        }
    }
}
