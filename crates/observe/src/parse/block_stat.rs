//! `/sys/class/block/NAME/stat`, and the same counters in a line of `/proc/diskstats`.

use model::run::{DeviceFrame, Flow};

use super::numbers;

/// Unit of the kernel's sector counts, whatever the device's sector size.
const SECTOR_BYTES: u64 = 512;
const NS_PER_MS: u64 = 1_000_000;

/// Puts the counters of a `stat` file into `counters` and leaves its name alone; false if there are too few
/// fields.
///
/// The file has 11 fields before Linux 4.18, 15 with discards, 17 with flushes.
pub fn parse(bytes: &[u8], counters: &mut DeviceFrame) -> bool {
    let Some(fields) = fields(bytes) else { return false };
    counters.reads = fields[0];
    counters.read_bytes = fields[2].saturating_mul(SECTOR_BYTES);
    counters.writes = fields[4];
    counters.written_bytes = fields[6].saturating_mul(SECTOR_BYTES);
    counters.busy_ns = fields[9].saturating_mul(NS_PER_MS);
    counters.in_flight_ns = fields[10].saturating_mul(NS_PER_MS);
    counters.flushes = fields[15];
    true
}

/// Puts the counters by direction into `flow`; false if there are too few fields. The times are those of reads, writes and
/// discards, fields 4, 8 and 15 of the kernel's `Documentation/block/stat.rst`. Field 11 is their sum and the time of
/// flushes, which the writes with them have already.
pub fn parse_flow(bytes: &[u8], flow: &mut Flow) -> bool {
    let Some(fields) = fields(bytes) else { return false };
    flow.reads = fields[0];
    flow.read_bytes = fields[2].saturating_mul(SECTOR_BYTES);
    flow.read_ns = fields[3].saturating_mul(NS_PER_MS);
    flow.writes = fields[4];
    flow.written_bytes = fields[6].saturating_mul(SECTOR_BYTES);
    flow.write_ns = fields[7].saturating_mul(NS_PER_MS);
    flow.others = fields[11];
    flow.other_ns = fields[14].saturating_mul(NS_PER_MS);
    true
}

/// Returns the number of flushes and their time in nanoseconds; `None` before Linux 5.5, which does not count them.
pub fn flushes(bytes: &[u8]) -> Option<(u64, u64)> {
    let fields = fields(bytes)?;
    (fields[15] > 0).then(|| (fields[15], fields[16].saturating_mul(NS_PER_MS)))
}

/// Returns the devices of `/proc/diskstats`, each with its completed read requests.
pub fn reads_of_all(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(2);
        Some((words.next()?, words.next()?.parse().ok()?))
    })
}

/// Returns the fields that are there, and 0 for the others; `None` for fewer than the oldest kernels have.
fn fields(bytes: &[u8]) -> Option<[u64; 17]> {
    let mut fields = [0u64; 17];
    let mut count = 0;
    for (field, number) in fields.iter_mut().zip(numbers(bytes)) {
        *field = number;
        count += 1;
    }
    (count >= 11).then_some(fields)
}

#[cfg(test)]
mod tests {
    use model::run::DeviceFrame;
    use proptest::prelude::*;

    use super::{parse, reads_of_all};

    #[test]
    fn real_block_stat_parses() {
        let text =
            b"   33694     7040  9834642    18672    10757    18350  5704040     4848        0     9736    \
                     24075     3622       62  4431400      543      286       10\n";
        let mut counters = DeviceFrame { name: "vda".into(), ..DeviceFrame::default() };
        assert!(parse(text, &mut counters));
        let expected = DeviceFrame {
            name: "vda".into(),
            reads: 33694,
            read_bytes: 9_834_642 * 512,
            writes: 10757,
            written_bytes: 5_704_040 * 512,
            flushes: 286,
            in_flight_ns: 24_075_000_000,
            busy_ns: 9_736_000_000,
        };
        assert_eq!(counters, expected);
    }

    #[test]
    fn flushes_have_number_and_time() {
        let text = |flushes: &str| format!("1 0 8 2 3 0 24 4 0 5 6 0 0 0 0 {flushes}\n");
        assert_eq!(super::flushes(text("7720 476").as_bytes()), Some((7720, 476_000_000)));
        assert_eq!(super::flushes(text("0 0").as_bytes()), None);
        assert_eq!(super::flushes(text("").as_bytes()), None);
    }

    #[test]
    fn block_stat_of_old_kernel_has_no_flushes() {
        let mut counters = DeviceFrame::default();
        assert!(parse(b"1 2 3 4 5 6 7 8 9 10 11", &mut counters));
        assert_eq!((counters.reads, counters.flushes), (1, 0));
        assert!(!parse(b"1 2 3 4", &mut counters));
    }

    #[test]
    fn reads_of_each_device_are_listed() {
        let text = " 253       0 vda 10 1 2 3 4\n   7       0 loop0 0 0 0 0\nbroken\n";
        assert_eq!(Vec::from_iter(reads_of_all(text)), [("vda", 10), ("loop0", 0)]);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes, &mut DeviceFrame::default());
        }

        #[test]
        fn any_counters_parse_without_panic(fields in proptest::collection::vec(any::<u64>(), 0..20)) {
            let text = fields.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(parse(text.as_bytes(), &mut DeviceFrame::default()), fields.len() >= 11);
        }
    }
}
