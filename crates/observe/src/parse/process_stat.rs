//! `/proc/PID/stat`: identity, kind and CPU time of a process or kernel thread.

use super::number::first_number;

/// `PF_KTHREAD` of the kernel.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Fields that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process<'a> {
    /// Its number.
    pub pid: u64,
    /// Name as the kernel has it, without the parentheses. The name of a kernel worker includes its current
    /// work.
    pub name: &'a [u8],
    /// Number of its parent.
    pub parent_pid: u64,
    /// True for a kernel thread.
    pub is_kernel: bool,
    /// Ticks on a CPU, in programs and in the kernel, of all its threads.
    pub ticks: u64,
    /// Start time in ticks; together with the number it identifies the process.
    pub start_ticks: u64,
}

/// Reads fields 1, 2, 4, 9, 14, 15 and 22. The name may itself hold blanks and parentheses, so the last
/// parenthesis ends it.
pub fn parse(bytes: &[u8]) -> Option<Process<'_>> {
    let begin = bytes.iter().position(|byte| *byte == b'(')?;
    let end = bytes.iter().rposition(|byte| *byte == b')').filter(|end| *end > begin)?;
    let mut fields = bytes[end + 1..].split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    // Each call counts from the field after the previous one; the first counts from field 3.
    let mut next = |skipped: usize| first_number(fields.nth(skipped)?);
    Some(Process {
        pid: first_number(bytes)?,
        name: &bytes[begin + 1..end],
        parent_pid: next(1)?,
        is_kernel: next(4)? & KERNEL_THREAD != 0,
        ticks: next(4)?.saturating_add(next(0)?),
        start_ticks: next(6)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Process, parse};

    #[test]
    fn process_stat_with_parentheses_in_name_parses() {
        let text =
            b"4242 (sk) ye (1) S 17 4242 4242 0 -1 4194560 1337 0 0 0 51 17 0 0 20 0 3 0 123456 21000 800 \
                     18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0\n";
        let expected = Process {
            pid: 4242,
            name: b"sk) ye (1",
            parent_pid: 17,
            is_kernel: false,
            ticks: 68,
            start_ticks: 123_456,
        };
        assert_eq!(parse(text), Some(expected));
        let text =
            b"41 (kworker/u8:3-btrfs-scrub) I 2 0 0 0 -1 69238880 0 0 0 0 0 9 0 0 20 0 1 0 33 0 0 0 0\n";
        let found = parse(text).unwrap();
        assert_eq!((found.is_kernel, found.ticks, found.start_ticks), (true, 9, 33));
        assert_eq!(found.name, b"kworker/u8:3-btrfs-scrub");
        assert_eq!(parse(b"4242 (skye) S 1"), None);
        assert_eq!(parse(b"4242 )skye( S 1"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }

        #[test]
        fn any_tail_parses_without_panic(tail in "[0-9 S()-]{0,200}") {
            parse(format!("1 (a) {tail}").as_bytes());
        }
    }
}
