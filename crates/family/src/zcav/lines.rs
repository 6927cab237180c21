//! Joins blocks to lines: a line has as many blocks as take long enough for a rate.

use std::ops::Range;

/// Least time of a line, in nanoseconds.
///
/// Two reads of the clock are exact to some 50 ns, which is nothing in this time. The rest of the machine matters more:
/// a time slice of another program takes 3 to 4 ms. An interrupted call or a revolution of a disk takes 10 ms. In a
/// tenth of a second these are a few percent. A device of 200 lines still takes no more than 20 s for them.
pub const LEAST_NS: u64 = 100_000_000;

/// Joins consecutive blocks to lines of at least [`LEAST_NS`]. Blocks that are left at the end belong to the last line.
/// If all blocks took less, there is one line.
///
/// All lines but the last stay the same when more blocks follow.
pub(super) fn group(times_ns: impl Iterator<Item = u64>) -> Vec<Range<usize>> {
    let mut lines: Vec<Range<usize>> = Vec::new();
    let (mut begin, mut end, mut sum_ns) = (0, 0, 0u64);
    for time_ns in times_ns {
        end += 1;
        sum_ns = sum_ns.saturating_add(time_ns);
        if sum_ns >= LEAST_NS {
            lines.push(begin..end);
            (begin, sum_ns) = (end, 0);
        }
    }
    if begin < end {
        match lines.last_mut() {
            Some(last) => last.end = end,
            None => lines.push(begin..end),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn grouped(times_ms: &[u64]) -> Vec<Range<usize>> {
        group(times_ms.iter().map(|ms| ms * MS))
    }

    /// Indices of blocks at which lines end.
    fn ends(times_ms: &[u64]) -> Vec<usize> {
        grouped(times_ms).iter().map(|line| line.end).collect()
    }

    #[test]
    fn blocks_under_100_ms_are_joined_into_one_line() {
        assert_eq!(ends(&[100, 250, 1000]), [1, 2, 3]);
        assert_eq!(ends(&[30, 30, 30, 30, 200, 60, 60]), [4, 5, 7]);
        assert_eq!(ends(&[99, 1, 40, 40]), [4], "what is left belongs to the last line");
        assert_eq!(ends(&[150, 40, 40]), [3]);
        assert_eq!(ends(&[1, 1]), [2]);
        assert!(ends(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn every_block_is_in_exactly_one_line(times in prop::collection::vec(0u64..300, 0..60), more in 0u64..300) {
            let lines = grouped(&times);
            let mut next = 0;
            for line in &lines {
                prop_assert_eq!(line.start, next);
                prop_assert!(line.end > line.start);
                next = line.end;
                let sum: u64 = times[line.clone()].iter().sum();
                prop_assert!(sum >= 100 || lines.len() == 1);
            }
            prop_assert_eq!(next, times.len());
            // A first look at the beginning stays true, except for the last line.
            let later = grouped(&times.iter().copied().chain([more]).collect::<Vec<_>>());
            let settled = lines.len().saturating_sub(1);
            prop_assert_eq!(&later[..settled], &lines[..settled]);
        }
    }
}
