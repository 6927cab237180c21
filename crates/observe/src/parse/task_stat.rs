//! `/proc/PID/task/TID/stat`: ticks of a thread in programs and in the kernel.

/// Ticks of one thread since it began, as the kernel sampled them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TaskTicks {
    /// Ticks in programs.
    pub user: u64,
    /// Ticks in the kernel.
    pub kernel: u64,
}

/// Reads fields 14 and 15. The name in parentheses may hold blanks and parentheses itself, so the last one
/// ends it.
pub fn parse(bytes: &[u8]) -> Option<TaskTicks> {
    let end = bytes.iter().rposition(|byte| *byte == b')')?;
    let mut fields = bytes[end + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty()).skip(11);
    let mut next = || super::number::first_number(fields.next()?);
    Some(TaskTicks { user: next()?, kernel: next()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{TaskTicks, parse};

    #[test]
    fn task_stat_with_parentheses_in_name_parses() {
        let text =
            b"4242 (sk) ye (1) S 1 4242 4242 0 -1 4194560 1337 0 0 0 51 17 0 0 20 0 3 0 123456 21000 800 \
                     18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n";
        assert_eq!(parse(text), Some(TaskTicks { user: 51, kernel: 17 }));
        assert_eq!(parse(b"4242 (skye) S 1"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }

        #[test]
        fn any_tail_parses_without_panic(tail in "[0-9 S)-]{0,200}") {
            parse(format!("1 (a) {tail}").as_bytes());
        }
    }
}
