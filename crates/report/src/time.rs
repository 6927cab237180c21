//! Times of a run, which are RFC 3339 text in UTC.

use std::time::SystemTime;

use model::Run;

use crate::printable;

/// Formats a time as "2026-11-21 14:03 UTC". Text that is no RFC 3339 time is only made printable.
pub(crate) fn minute(rfc3339: &str) -> String {
    match (parse(rfc3339), rfc3339.get(..10), rfc3339.get(11..16)) {
        (Some(_), Some(day), Some(minute)) => format!("{day} {minute} UTC"),
        _ => printable(rfc3339),
    }
}

/// Returns the time from the start of the run to its end in nanoseconds, if both are known.
pub(crate) fn elapsed_ns(run: &Run) -> Option<u64> {
    let elapsed = parse(&run.finished_at)?.duration_since(parse(&run.started_at)?).ok()?;
    u64::try_from(elapsed.as_nanos()).ok()
}

/// Returns a time in seconds since 1970; `None` if the text is no RFC 3339 time.
pub(crate) fn unix_seconds(rfc3339: &str) -> Option<u64> {
    Some(parse(rfc3339)?.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

fn parse(rfc3339: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339_weak(rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_valid_timestamps_are_shortened() {
        assert_eq!(minute("2026-11-21T14:03:07Z"), "2026-11-21 14:03 UTC");
        assert_eq!(minute("2026-11-21T14:03:07.123Z"), "2026-11-21 14:03 UTC");
        assert_eq!(minute("some day\x1b in spring"), r"some day\u{1b} in spring");
    }

    proptest! {
        #[test]
        fn any_text_is_shortened_without_panic(text in any::<String>()) {
            minute(&text);
        }
    }
}
