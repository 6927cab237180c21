//! `/proc/PID/task/TID/syscall`: the call that a thread is blocked in.

/// Arguments of a call, before the stack pointer and the program counter.
const ARGUMENTS: usize = 6;

/// Place where a thread is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    /// The thread runs, or could run.
    No,
    /// Blocked in the call with this number.
    In(i64),
    /// Blocked outside of any call, usually in a page fault.
    Elsewhere,
}

/// Reads "running", or a number before its arguments.
pub fn parse(bytes: &[u8]) -> Option<Blocked> {
    let word = bytes.trim_ascii_start().split(u8::is_ascii_whitespace).next()?;
    if word == b"running" {
        return Some(Blocked::No);
    }
    let number: i64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    Some(if number < 0 { Blocked::Elsewhere } else { Blocked::In(number) })
}

/// Returns the number and the arguments of the call that a thread is blocked in.
pub fn call(bytes: &[u8]) -> Option<(i64, Vec<u64>)> {
    let Blocked::In(number) = parse(bytes)? else { return None };
    let words = std::str::from_utf8(bytes).ok()?.split_ascii_whitespace().skip(1).take(ARGUMENTS);
    let arguments = words.map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    Some((number, arguments.collect()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Blocked, call, parse};

    #[test]
    fn real_syscall_lines_parse() {
        assert_eq!(parse(b"running\n"), Some(Blocked::No));
        assert_eq!(parse(b"0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd1 0x7f2\n"), Some(Blocked::In(0)));
        assert_eq!(parse(b"-1 0x7ffc 0x7f1\n"), Some(Blocked::Elsewhere));
        assert_eq!(
            call(b"0 0x3 0x7ffd 0x1 0x0 0x0 0x0 0x7ffd1 0x7f2\n"),
            Some((0, vec![3, 0x7ffd, 1, 0, 0, 0]))
        );
        assert_eq!(call(b"-1 0x7ffc 0x7f1\n"), None);
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"99999999999999999999 0x0\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            parse(&bytes);
            call(&bytes);
        }

        #[test]
        fn any_numbers_parse_without_panic(text in "[0-9x -]{0,40}|running ?") {
            parse(text.as_bytes());
            call(text.as_bytes());
        }
    }
}
