//! `/proc/meminfo`: memory of the machine, and how much of it waits to be written.

use super::number::value_of;

const KIB: u64 = 1024;

/// Values that matter here, in bytes; 0 where a line is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meminfo {
    /// Memory of the machine.
    pub total_bytes: u64,
    /// Dirty pages.
    pub dirty_bytes: u64,
    /// Pages under writeback.
    pub writeback_bytes: u64,
}

/// Reads the lines that matter.
pub fn parse(bytes: &[u8]) -> Meminfo {
    let value = |key: &[u8]| value_of(bytes, key).unwrap_or(0).saturating_mul(KIB);
    Meminfo {
        total_bytes: value(b"MemTotal:"),
        dirty_bytes: value(b"Dirty:"),
        writeback_bytes: value(b"Writeback:"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Meminfo, parse};

    #[test]
    fn real_meminfo_parses() {
        let text = b"MemTotal:       24684092 kB\nMemFree:        23103420 kB\nDirty:               160 kB\n\
                     Writeback:             8 kB\nWritebackTmp:          4 kB\n";
        let expected =
            Meminfo { total_bytes: 24_684_092 * 1024, dirty_bytes: 160 * 1024, writeback_bytes: 8192 };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(b""), Meminfo::default());
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }
    }
}
