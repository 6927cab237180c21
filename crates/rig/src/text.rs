//! Text as words of a command line.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

/// Stands for an empty word.
const EMPTY: &str = "-";

/// Returns one word without blanks, for any bytes: those that would end a word or a line become `%` and two digits.
pub(crate) fn escape(text: impl AsRef<OsStr>) -> String {
    let bytes = text.as_ref().as_bytes();
    if bytes.is_empty() {
        return EMPTY.into();
    }
    let mut word = String::with_capacity(bytes.len());
    for byte in bytes {
        let stands_for_itself = byte.is_ascii_graphic() && *byte != b'%';
        if stands_for_itself && bytes != EMPTY.as_bytes() {
            word.push(char::from(*byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(word, "%{byte:02x}");
        }
    }
    word
}

/// Returns the text that [`escape`] was given. A `%` that [`escape`] did not write stays as it is.
pub(crate) fn unescape(word: &str) -> OsString {
    if word == EMPTY {
        return OsString::new();
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

/// Does the same as [`unescape`], for text.
pub(crate) fn unescape_text(word: &str) -> String {
    unescape(word).to_string_lossy().into_owned()
}

/// A time as one word: `1ms500us`.
pub(crate) fn time(time_ns: u64) -> String {
    humantime::format_duration(Duration::from_nanos(time_ns)).to_string().replace(' ', "")
}

/// Returns the nanoseconds that [`time`] was given, or that a person wrote.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    let time = humantime::parse_duration(text).map_err(|_| format!("`{text}` is not a time such as 1ms"))?;
    u64::try_from(time.as_nanos()).map_err(|_| format!("`{text}` is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn any_text_is_escaped_to_one_word_and_back(bytes: Vec<u8>) {
            let text = OsString::from_vec(bytes);
            let word = escape(&text);
            assert!(!word.is_empty() && word.split_ascii_whitespace().count() == 1, "{word:?}");
            assert_eq!(unescape(&word), text);
        }

        #[test]
        fn any_word_is_unescaped_without_panic(word: String) {
            unescape(&word);
        }

        #[test]
        fn formatted_time_parses_back(time_ns in 0..u64::MAX / 2) {
            assert_eq!(parse_time(&time(time_ns)), Ok(time_ns));
        }
    }

    #[test]
    fn hand_written_text_and_times_parse() {
        assert_eq!(escape("-"), "%2d");
        assert_eq!(unescape_text("100%"), "100%");
        assert_eq!(parse_time("1500us"), Ok(1_500_000));
        assert!(parse_time("soon").unwrap_err().contains("`soon`"));
    }
}
