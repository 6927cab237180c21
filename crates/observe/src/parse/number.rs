//! Decimal numbers straight from bytes, without a detour over text. The parsers of a snapshot use nothing
//! else.

/// Returns the numbers in `bytes`, in order; anything but a digit separates them. A number that is too large
/// becomes `u64::MAX`.
pub(crate) fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.split(|byte| !byte.is_ascii_digit()).filter(|digits| !digits.is_empty()).map(number)
}

/// Returns the value of the digits at the start of `bytes`, after blanks.
pub(crate) fn first_number(bytes: &[u8]) -> Option<u64> {
    let bytes = bytes.trim_ascii_start();
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    (end > 0).then(|| number(&bytes[..end]))
}

/// Returns the number after the line start `key`: `value_of(b"rchar: 5\n", b"rchar:")` is 5.
pub(crate) fn value_of(bytes: &[u8], key: &[u8]) -> Option<u64> {
    bytes.split(|byte| *byte == b'\n').find_map(|line| first_number(line.strip_prefix(key)?))
}

fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |value: u64, digit| value.saturating_mul(10).saturating_add(u64::from(digit & 15)))
}

#[cfg(test)]
mod tests {
    use super::{first_number, numbers, value_of};

    #[test]
    fn numbers_are_found_between_other_characters() {
        assert_eq!(numbers(b"  7 0,12\n3").collect::<Vec<_>>(), [7, 0, 12, 3]);
        assert_eq!(numbers(b"99999999999999999999").collect::<Vec<_>>(), [u64::MAX]);
        assert_eq!(numbers(b"").count(), 0);
        assert_eq!(first_number(b" \t42kB"), Some(42));
        assert_eq!(first_number(b"kB"), None);
        assert_eq!(value_of(b"Dirty: 1\nWriteback: 2\n", b"Writeback:"), Some(2));
    }
}
