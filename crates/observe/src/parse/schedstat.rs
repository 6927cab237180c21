//! `/proc/PID/task/TID/schedstat`: time that a thread ran, and time that it waited to run.

use super::numbers;

/// Scheduling of one thread since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Schedstat {
    /// Time on a CPU. The kernel updates it once a tick, so it is up to 10 ms late for a running thread.
    pub cpu_ns: u64,
    /// Time waiting for a CPU.
    pub run_queue_ns: u64,
    /// Times that it got a CPU; 0 for a thread that ran means that the kernel does not keep these counts.
    pub timeslices: u64,
}

/// Reads the three numbers.
pub fn parse(bytes: &[u8]) -> Option<Schedstat> {
    let mut fields = numbers(bytes);
    Some(Schedstat { cpu_ns: fields.next()?, run_queue_ns: fields.next()?, timeslices: fields.next()? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Schedstat, parse};

    #[test]
    fn real_schedstat_parses() {
        let expected = Schedstat { cpu_ns: 1_538_702, run_queue_ns: 84_331, timeslices: 12 };
        assert_eq!(parse(b"1538702 84331 12\n"), Some(expected));
        assert_eq!(parse(b"1538702 84331\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            parse(&bytes);
        }
    }
}
