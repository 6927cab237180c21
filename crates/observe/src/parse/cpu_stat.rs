//! The first line of `/proc/stat`: CPU time of the machine, in ticks.

use super::numbers;

/// Ticks by kind, summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// Ticks in programs, including guests and low priority.
    pub user: u64,
    /// Ticks in the kernel, including interrupts.
    pub kernel: u64,
    /// Idle ticks, waiting for I/O or not.
    pub idle: u64,
    /// Ticks that were wanted but taken by the hypervisor.
    pub steal: u64,
}

/// Reads the line that begins with "cpu "; absent if there is none with at least the four oldest fields.
pub fn parse(bytes: &[u8]) -> Option<CpuTicks> {
    let line = bytes.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"cpu "))?;
    let mut fields = [0u64; 8];
    let mut count = 0;
    for (field, number) in fields.iter_mut().zip(numbers(line)) {
        *field = number;
        count += 1;
    }
    if count < 4 {
        return None;
    }
    // Guest time follows these fields; user and nice already contain it.
    let [user, nice, system, idle, iowait, irq, softirq, steal] = fields;
    Some(CpuTicks {
        user: user.saturating_add(nice),
        kernel: system.saturating_add(irq).saturating_add(softirq),
        idle: idle.saturating_add(iowait),
        steal,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{CpuTicks, parse};

    #[test]
    fn real_cpu_stat_parses() {
        let text = b"cpu  10800 3 3842 301249 729 1 49 15 7 0\ncpu0 5116 0 1837 151281 53 0 12 4 0 0\n";
        let expected = CpuTicks { user: 10803, kernel: 3892, idle: 301_978, steal: 15 };
        assert_eq!(parse(text), Some(expected));
        assert_eq!(parse(b"cpu0 1 2 3 4 5\n"), None);
        assert_eq!(parse(b"cpu  1 2\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }

        #[test]
        fn any_line_parses_without_panic(rest in "[0-9 ]{0,300}") {
            parse(format!("cpu {rest}").as_bytes());
        }
    }
}
