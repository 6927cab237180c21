//! Makes a log from the times of blocks, and results in the common form from a log.

use std::ops::Range;

use super::lines::{LEAST_NS, group};
use super::log::offset_decimals;
use super::{GIB, Line, Log, MIB, Pass, Verb};
use crate::results::{Rate, Results};

const NS_PER_SECOND: f64 = 1e9;

/// The measurement of one file, perhaps not to its end.
#[derive(Debug, Clone, Copy)]
pub struct FileScan<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// Blocks to visit.
    pub blocks: &'a [Range<u64>],
    /// Times of the visited blocks, pass after pass.
    pub times_ns: &'a [u64],
    /// Bytes and time of the next block, if that ended early.
    pub partial: Option<(u64, u64)>,
    /// Requested number of passes.
    pub passes: u32,
    /// Kind of the work.
    pub verb: Verb,
}

impl FileScan<'_> {
    /// Times of the blocks of each pass.
    fn times_per_pass(&self) -> impl Iterator<Item = &[u64]> {
        let passes = self.times_ns.chunks(self.blocks.len().max(1));
        // A pass that has only the beginning of its first block has no times.
        let has_more = self.partial.is_some() && self.times_ns.len().is_multiple_of(self.blocks.len().max(1));
        passes.chain(has_more.then_some(&[][..]))
    }

    /// Makes the log: lines by the first pass, their times over all passes, and a summary of each pass.
    pub fn log(&self) -> Log {
        let first = self.times_per_pass().next().unwrap_or_default();
        let is_first = self.times_ns.len() < self.blocks.len();
        // The part of a block that ended early is a block, too, if its pass makes the lines.
        let partial = self.partial.filter(|_| is_first);
        let mut blocks = self.blocks[..first.len().min(self.blocks.len())].to_vec();
        let partial_block = self.blocks.get(first.len()).zip(partial);
        blocks.extend(partial_block.map(|(block, (bytes, _))| block.start..block.start + bytes));
        let time_of_partial = partial_block.map(|(_, (_, time_ns))| time_ns);
        let groups = group(first.iter().copied().chain(time_of_partial));
        let lines = groups.into_iter().map(|range| {
            let bytes: u64 = blocks[range.clone()].iter().map(|block| block.end - block.start).sum();
            let mut times: Vec<u64> = self
                .times_per_pass()
                .filter_map(|times| times.get(range.clone()))
                .map(|times| times.iter().sum())
                .collect();
            if times.is_empty() {
                let of_first = first.iter().copied().chain(time_of_partial);
                times.push(of_first.skip(range.start).take(range.len()).sum());
            }
            // Several passes of a small file together can be long enough where one is too short.
            let is_timed = times.iter().sum::<u64>() >= LEAST_NS;
            let seconds = trimmed_mean(&mut times) / NS_PER_SECOND;
            let rate = bytes as f64 / MIB as f64 / seconds;
            Line {
                offset_gib: blocks[range.start].start as f64 / GIB as f64,
                mib_per_second: Some(rate).filter(|rate| is_timed && rate.is_finite()),
                seconds,
            }
        });
        let lines = lines.collect();
        let passes: Vec<_> = self.summaries().collect();
        Log {
            name: self.name.to_owned(),
            loops: (self.passes > 1).then_some(passes.len() as u32),
            passes,
            lines,
            offset_decimals: match self.blocks {
                [first, second, ..] => offset_decimals(second.start - first.start),
                _ => offset_decimals(GIB),
            },
        }
    }

    fn summaries(&self) -> impl Iterator<Item = Pass> {
        let last = self.times_per_pass().count().saturating_sub(1);
        self.times_per_pass().enumerate().map(move |(index, times)| {
            let (more_bytes, more_ns) = self.partial.filter(|_| index == last).unwrap_or_default();
            let bytes: u64 = self.blocks.iter().take(times.len()).map(|block| block.end - block.start).sum();
            let bytes = bytes + more_bytes;
            let seconds = (times.iter().sum::<u64>() + more_ns) as f64 / NS_PER_SECOND;
            let rate = bytes as f64 / MIB as f64 / seconds;
            Pass {
                verb: self.verb,
                mib: bytes / MIB,
                seconds: seconds as u64,
                mib_per_second: if rate.is_finite() { rate as u64 } else { 0 },
            }
        })
    }
}

/// Mean without the lowest and the highest third, each rounded down; 0 without values.
pub fn trimmed_mean(times_ns: &mut [u64]) -> f64 {
    times_ns.sort_unstable();
    let third = times_ns.len() / 3;
    let kept = &times_ns[third..times_ns.len() - third];
    match kept.len() {
        0 => 0.0,
        count => kept.iter().map(|time| *time as f64).sum::<f64>() / count as f64,
    }
}

/// Converts the log to results: the mean over its lines, and over the first and the last third of the offsets. On a
/// disk, these thirds are the outer and inner tracks; they need three lines or more. Lines without a rate are in no
/// mean.
pub fn results(log: &Log) -> Results {
    let verb = match log.passes.first().map_or(Verb::Read, |pass| pass.verb) {
        Verb::Read => "sequential read",
        Verb::Wrote => "sequential write of zeros",
    };
    let timed: Vec<_> =
        log.timed().filter_map(|(line, end_gib)| Some((line, line.mib_per_second?, end_gib))).collect();
    let mean = |test: String, from_gib: f64, to_gib: f64| {
        let (mut mib, mut seconds) = (0.0, 0.0);
        for (line, rate, end_gib) in &timed {
            if (from_gib..=to_gib).contains(&((line.offset_gib + end_gib) / 2.0)) {
                mib += rate * line.seconds;
                seconds += line.seconds;
            }
        }
        let per_second = mib * MIB as f64 / seconds;
        per_second.is_finite().then(|| Rate::from_bytes(test, per_second))
    };
    let mut rates: Vec<_> = mean(verb.into(), f64::NEG_INFINITY, f64::INFINITY).into_iter().collect();
    if let [(first, ..), _, .., (_, _, end_gib)] = timed[..]
        && timed.len() >= 3
    {
        let third = (end_gib - first.offset_gib) / 3.0;
        rates.extend(mean(format!("{verb}, first third"), f64::NEG_INFINITY, first.offset_gib + third));
        rates.extend(mean(format!("{verb}, last third"), end_gib - third, f64::INFINITY));
    }
    Results { program: "zcav".into(), name: log.name.clone(), rates }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn blocks(count: u64, mib: u64) -> Vec<Range<u64>> {
        (0..count).map(|index| index * mib * MIB..(index + 1) * mib * MIB).collect()
    }

    fn measured<'a>(blocks: &'a [Range<u64>], times_ns: &'a [u64], passes: u32) -> FileScan<'a> {
        FileScan { name: "x", blocks, times_ns, partial: None, passes, verb: Verb::Read }
    }

    #[test]
    fn trimmed_mean_drops_a_third_at_each_end() {
        assert_eq!(trimmed_mean(&mut []), 0.0);
        assert_eq!(trimmed_mean(&mut [7]), 7.0);
        assert_eq!(trimmed_mean(&mut [9, 1]), 5.0);
        assert_eq!(trimmed_mean(&mut [100, 2, 1]), 2.0);
        assert_eq!(trimmed_mean(&mut [100, 2, 1, 4]), 3.0);
        assert_eq!(trimmed_mean(&mut [1, 90, 5, 3, 80, 4]), 4.5);
    }

    #[test]
    fn single_pass_log_has_lines_and_summary() {
        let blocks = blocks(3, 256);
        let text = measured(&blocks, &[SECOND, 2 * SECOND, SECOND / 2], 1).log().text();
        assert_eq!(
            text,
            "#block offset (GiB), MiB/s, time\n0.00 256.00 1.000\n0.25 128.00 2.000\n0.50 512.00 0.500\n\
             # Read 768 megs in 3 seconds, 219 megabytes per second.\n"
        );
    }

    #[test]
    fn later_passes_keep_line_boundaries_of_the_first() {
        let blocks = blocks(4, 64);
        let (slow, fast) = (SECOND / 5, SECOND / 20);
        // The first pass joins the first two and the last two blocks; the other passes are slower and faster there.
        let times = [fast, fast, slow, fast, slow, slow, slow, slow, fast, slow, fast, fast];
        let log = measured(&blocks, &times, 3).log();
        assert_eq!((log.loops, log.passes.len(), log.lines.len()), (Some(3), 3, 2));
        let seconds: Vec<_> = log.lines.iter().map(|line| line.seconds).collect();
        // The middle one of 0.1, 0.4 and 0.25, and of 0.25, 0.4 and 0.1.
        assert_eq!(seconds, [0.25, 0.25]);
        assert_eq!(log.lines[0].mib_per_second, Some(512.0));
        let text = log.text();
        let starts: Vec<_> =
            text.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(
            starts,
            ["# Read", "# Read", "# Read", "#loops: 3", "#block offset", "0.00 512.00", "0.12 512.00"]
        );
    }

    #[test]
    fn too_fast_scan_has_no_rate() {
        let blocks = blocks(2, 1);
        let log = measured(&blocks, &[1_000_000, 2_000_000], 1).log();
        assert_eq!(log.lines.len(), 1);
        assert!(
            log.text().contains("\n#0.0000 ++++ 0.003\n# Read 2 megs in 0 seconds, 666 "),
            "{}",
            log.text()
        );
        // Forty passes of the file take more than a tenth of a second.
        let many = [1_000_000, 2_000_000].repeat(40);
        assert_eq!(measured(&blocks, &many, 40).log().lines[0].mib_per_second.map(f64::round), Some(667.0));
        assert_eq!(results(&log).rates, []);
    }

    #[test]
    fn partial_block_of_interrupted_pass_is_kept() {
        let blocks = blocks(3, 256);
        let early = FileScan { partial: Some((64 * MIB, SECOND)), ..measured(&blocks, &[SECOND], 1) };
        let log = early.log();
        assert_eq!(log.lines.len(), 2);
        assert_eq!((log.lines[1].offset_gib, log.lines[1].mib_per_second), (0.25, Some(64.0)));
        assert_eq!((log.passes[0].mib, log.passes[0].seconds), (320, 2));
        // In a later pass, the partial block is in the summary alone.
        let times = [SECOND, SECOND, SECOND, 3 * SECOND];
        let later = FileScan { partial: Some((64 * MIB, SECOND)), ..measured(&blocks, &times, 2) };
        let log = later.log();
        assert_eq!((log.lines.len(), log.loops), (3, Some(2)));
        assert_eq!((log.lines[0].seconds, log.lines[1].seconds), (2.0, 1.0));
        assert_eq!(log.passes.iter().map(|pass| pass.mib).collect::<Vec<_>>(), [768, 320]);
        // Without a whole block, the log has the partial one.
        let none = FileScan { partial: Some((64 * MIB, SECOND)), ..measured(&blocks, &[], 1) };
        assert_eq!(none.log().text().lines().nth(1), Some("0.00 64.00 1.000"));
        let nothing = measured(&blocks, &[], 1).log();
        assert_eq!((nothing.lines.len(), nothing.passes.len()), (0, 0));
    }

    #[test]
    fn results_cover_whole_first_third_and_last_third() {
        let blocks = blocks(6, 300);
        let times = [1, 1, 2, 2, 3, 3].map(|seconds| seconds * SECOND);
        let found = results(&measured(&blocks, &times, 1).log());
        let rates: Vec<_> = found
            .rates
            .iter()
            .map(|rate| (rate.test.as_str(), (rate.per_second / MIB as f64).round()))
            .collect();
        assert_eq!(
            rates,
            [
                ("sequential read", 150.0),
                ("sequential read, first third", 300.0),
                ("sequential read, last third", 100.0)
            ]
        );
        assert_eq!((found.program.as_str(), found.name.as_str()), ("zcav", "x"));
    }

    proptest! {
        #[test]
        fn log_of_any_measurement_is_finite(
            count in 1u64..9, times in prop::collection::vec(any::<u64>(), 0..40),
            partial in prop::option::of((1u64..MIB, any::<u64>())), passes in 1u32..9,
        ) {
            let blocks = blocks(count, 1);
            let times: Vec<_> = times.iter().map(|time| time >> 8).collect();
            let partial = partial.map(|(bytes, time)| (bytes, time >> 8));
            let log = FileScan { partial, ..measured(&blocks, &times, passes) }.log();
            results(&log);
            prop_assert!(!log.text().contains("NaN") && !log.text().contains("inf"));
        }
    }
}
