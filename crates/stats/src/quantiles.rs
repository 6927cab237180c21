//! Percentiles of latencies, with their intervals.

use fastrand::Rng;

/// A percentile of counts in buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantile {
    /// Upper end of its bucket, in nanoseconds.
    pub value_ns: u64,
    /// Lowest and highest value that it may have with 95 % confidence, in nanoseconds. `None` with fewer than twelve
    /// intervals.
    pub interval_ns: Option<(u64, u64)>,
}

/// Fewest samples beyond a percentile that is reported: with 20, their number is uncertain by a quarter.
const SAMPLES_BEYOND: f64 = 20.0;
/// Fewest intervals that hold the samples beyond a percentile: those of one stall are one event.
const INTERVALS_BEYOND: u64 = 5;
/// Intervals that are drawn together, to keep what neighbours have in common. Blocks of six keep most of a correlation
/// that ends after a few intervals. Longer ones leave too few to draw from.
const BLOCK: usize = 6;
/// Fewest blocks of a short series, whose blocks are made shorter for that.
const BLOCKS_MIN: usize = 6;
/// Fewest intervals to draw from.
const RESAMPLED_MIN: usize = 12;
/// Number of draws. Their 2.5 % quantile then has a standard deviation of 0.9 % of the draws.
const DRAWS: usize = 300;
/// Most intervals that are used. If there are more, neighbours are merged first. That makes nothing less true: what
/// they have in common then stays within longer blocks.
const INTERVALS_MAX: usize = 600;

/// Returns the percentiles `wanted`, each as a share in `[0, 1)`, of the latencies counted in `intervals`. The
/// intervals are in the order of time. Each is a list of the upper ends of buckets, ascending, in nanoseconds, with the
/// counts in them.
///
/// A percentile is `None` if too few samples are beyond it (20), or if they come from too few intervals (5).
///
/// The interval of a percentile comes from a moving-block bootstrap over the intervals of time. See Künsch, "The
/// jackknife and the bootstrap for general stationary observations", Annals of Statistics 17, 1989. Histograms of
/// blocks of neighbours are drawn at random, seeded by `seed`, until they are as many as there were.
///
/// Intervals from the order of independent samples are far too narrow where slow operations come together. They contain
/// the truth in one of six cases, instead of in 95 of 100.
pub fn quantiles(intervals: &[Vec<(u64, u64)>], wanted: &[f64], seed: u64) -> Vec<Option<Quantile>> {
    let bucket_counts = BucketCounts::new(intervals);
    let blocks = Blocks::new(&bucket_counts);
    let mut drawn: Vec<Vec<usize>> = vec![Vec::with_capacity(DRAWS); wanted.len()];
    let places: Vec<Option<usize>> = wanted.iter().map(|share| bucket_counts.place(*share)).collect();
    if let Some(blocks) = &blocks {
        let mut rng = Rng::with_seed(seed);
        for _ in 0..DRAWS {
            let draw = blocks.draw(&mut rng);
            for ((share, place), drawn) in wanted.iter().zip(&places).zip(&mut drawn) {
                if place.is_some() {
                    drawn.push(blocks.place(&draw, *share));
                }
            }
        }
    }
    let answers = places.into_iter().zip(drawn).map(|(place, mut drawn)| {
        let place = place?;
        drawn.sort_unstable();
        let outer = drawn.len() / 40;
        let ends = drawn.get(outer).zip(drawn.iter().rev().nth(outer));
        // All draws may be on one side of the percentile, as it is discrete.
        let interval_ns = ends.map(|(low, high)| {
            (bucket_counts.upper_ns[*low.min(&place)], bucket_counts.upper_ns[*high.max(&place)])
        });
        Some(Quantile { value_ns: bucket_counts.upper_ns[place], interval_ns })
    });
    answers.collect()
}

/// Returns which of the percentiles `wanted` are known, by the rule of [`quantiles`] alone.
pub fn are_known(intervals: &[Vec<(u64, u64)>], wanted: &[f64]) -> Vec<bool> {
    let bucket_counts = BucketCounts::new(intervals);
    wanted.iter().map(|share| bucket_counts.place(*share).is_some()).collect()
}

/// All intervals over the same buckets.
struct BucketCounts {
    /// Upper ends of all buckets with counts, ascending.
    upper_ns: Vec<u64>,
    /// Counts of each interval in each bucket, one interval after the other.
    counts: Vec<u64>,
    /// Counts of all intervals in each bucket.
    totals: Vec<u64>,
}

impl BucketCounts {
    fn new(intervals: &[Vec<(u64, u64)>]) -> Self {
        let upper_ns = buckets_of(intervals.iter().map(|interval| bucket_counts(interval)));
        let width = upper_ns.len();
        let group_len = intervals.len().div_ceil(INTERVALS_MAX).max(1);
        let mut counts = vec![0u64; intervals.len().div_ceil(group_len) * width];
        let mut totals = vec![0u64; width];
        for (index, interval) in intervals.iter().enumerate() {
            let row = &mut counts[index / group_len * width..][..width];
            let mut after = 0;
            for (upper, count) in bucket_counts(interval) {
                if let Ok(bucket) = find(&upper_ns, upper, after) {
                    row[bucket] = row[bucket].saturating_add(count);
                    totals[bucket] = totals[bucket].saturating_add(count);
                    after = bucket + 1;
                }
            }
        }
        Self { upper_ns, counts, totals }
    }

    /// Returns the bucket of a percentile, if there are enough samples.
    fn place(&self, share: f64) -> Option<usize> {
        let total = self.totals.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
        if !(0.0..1.0).contains(&share) || total as f64 * (1.0 - share) < SAMPLES_BEYOND {
            return None;
        }
        let rank = rank(total, share);
        let mut below = 0u64;
        let place = self.totals.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= rank
        })?;
        // `below` includes this bucket: those of its samples above the rank lie beyond too, whichever they are.
        let (mut of_higher, mut of_bucket) = (0, 0);
        for interval in self.counts.chunks_exact(self.upper_ns.len()) {
            if interval[place + 1..].iter().any(|count| *count > 0) {
                of_higher += 1;
            } else if interval[place] > 0 {
                of_bucket += 1;
            }
        }
        (of_higher + (below - rank).min(of_bucket) >= INTERVALS_BEYOND).then_some(place)
    }
}

/// Buckets of an interval with a count above 0.
fn bucket_counts(interval: &[(u64, u64)]) -> impl Iterator<Item = (u64, u64)> {
    interval.iter().copied().filter(|(_, count)| *count > 0)
}

/// All buckets of all intervals, ascending.
fn buckets_of(intervals: impl Iterator<Item = impl Iterator<Item = (u64, u64)>>) -> Vec<u64> {
    let mut buckets: Vec<u64> = Vec::new();
    for interval in intervals {
        let mut after = 0;
        let known = buckets.len();
        for (upper_ns, _) in interval {
            match find(&buckets[..known], upper_ns, after) {
                Ok(at) => after = at + 1,
                Err(_) => buckets.push(upper_ns),
            }
        }
        if buckets.len() > known {
            buckets.sort_unstable();
            buckets.dedup();
        }
    }
    buckets
}

/// Returns the index of a bucket among all of them, or the index where it would be inserted. It first checks the bucket
/// after the previous one, as successive intervals have mostly the same buckets.
fn find(buckets: &[u64], upper_ns: u64, after: usize) -> Result<usize, usize> {
    match buckets.get(after) {
        Some(next) if *next == upper_ns => Ok(after),
        _ => buckets.binary_search(&upper_ns),
    }
}

/// Rank of a percentile among `total` samples, from 1.
fn rank(total: u64, share: f64) -> u64 {
    ((total as f64 * share).ceil() as u64).clamp(1, total.max(1))
}

/// Every block of neighbours, as its counts up to each bucket. A percentile of several blocks is then found by halving
/// the buckets, without adding up all of them.
struct Blocks {
    width: usize,
    /// Blocks in a draw.
    drawn: usize,
    up_to: Vec<u64>,
}

impl Blocks {
    fn new(bucket_counts: &BucketCounts) -> Option<Self> {
        let width = bucket_counts.upper_ns.len();
        let intervals = bucket_counts.counts.len().checked_div(width)?;
        if intervals < RESAMPLED_MIN {
            return None;
        }
        let length = BLOCK.min(intervals / BLOCKS_MIN);
        let mut up_to = Vec::with_capacity((intervals + 1 - length) * width);
        let mut window = vec![0u64; width];
        for (index, row) in bucket_counts.counts.chunks_exact(width).enumerate() {
            window.iter_mut().zip(row).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
            if index + 1 < length {
                continue;
            }
            let mut sum = 0u64;
            up_to.extend(window.iter().map(|count| {
                sum = sum.saturating_add(*count);
                sum
            }));
            let oldest = &bucket_counts.counts[(index + 1 - length) * width..][..width];
            window.iter_mut().zip(oldest).for_each(|(sum, count)| *sum = sum.saturating_sub(*count));
        }
        Some(Self { width, drawn: intervals.div_ceil(length), up_to })
    }

    /// Draws blocks, each of them perhaps several times. Returns their places in `up_to`.
    fn draw(&self, rng: &mut Rng) -> Vec<usize> {
        let blocks = self.up_to.len() / self.width;
        (0..self.drawn).map(|_| rng.usize(..blocks) * self.width).collect()
    }

    /// Bucket of a percentile in the counts of these blocks.
    fn place(&self, draw: &[usize], share: f64) -> usize {
        let up_to = |bucket: usize| {
            draw.iter().fold(0u64, |sum, block| sum.saturating_add(self.up_to[block + bucket]))
        };
        let rank = rank(up_to(self.width - 1), share);
        let (mut low, mut high) = (0, self.width - 1);
        while low < high {
            let middle = low.midpoint(high);
            if up_to(middle) >= rank { high = middle } else { low = middle + 1 }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_with_too_few_samples_above_is_none() {
        let intervals = |each: u64| vec![vec![(100, each - 1), (900, 1)]; 20];
        assert_eq!(quantiles(&intervals(99), &[0.99], 1), [None]);
        let found = quantiles(&intervals(100), &[0.5, 0.99, 0.995], 1);
        assert_eq!(found[0], Some(Quantile { value_ns: 100, interval_ns: Some((100, 100)) }));
        assert_eq!((found[1].unwrap().value_ns, found[2]), (100, None));
    }

    #[test]
    fn samples_of_one_stall_give_no_percentile() {
        // 2 % of all operations are slow, and the percentile lies among them.
        let slow_in = |places: &[usize]| {
            let mut intervals = vec![vec![(100, 1000)]; 50];
            places.iter().for_each(|place| intervals[*place].push((900, 1000 / places.len() as u64)));
            quantiles(&intervals, &[0.985], 1)[0].map(|quantile| quantile.value_ns)
        };
        assert_eq!(slow_in(&[10]), None);
        assert_eq!(slow_in(&[10, 11, 30, 40]), None);
        assert_eq!(slow_in(&[10, 11, 30, 40, 45]), Some(900));
    }

    #[test]
    fn constant_latency_has_exact_percentiles() {
        let found = quantiles(&vec![vec![(2_000_000, 100)]; 30], &[0.5, 0.99], 1);
        let expected = Quantile { value_ns: 2_000_000, interval_ns: Some((2_000_000, 2_000_000)) };
        assert_eq!(found, [Some(expected); 2]);
    }

    #[test]
    fn percentiles_of_few_intervals_have_no_confidence_interval() {
        let found = quantiles(&vec![vec![(100, 50), (200, 50)]; RESAMPLED_MIN - 1], &[0.5], 1);
        assert_eq!(found, [Some(Quantile { value_ns: 100, interval_ns: None })]);
        assert!(
            quantiles(&vec![vec![(100, 50), (200, 50)]; RESAMPLED_MIN], &[0.5], 1)[0]
                .unwrap()
                .interval_ns
                .is_some()
        );
    }

    #[test]
    fn invalid_percentile_or_empty_histogram_is_none() {
        let intervals = vec![vec![(100, 1000)]; 30];
        assert_eq!(quantiles(&intervals, &[1.0, -0.1, f64::NAN], 1), [None; 3]);
        assert_eq!(quantiles(&[], &[0.5], 1), [None]);
        assert_eq!(quantiles(&vec![vec![]; 30], &[0.5], 1), [None]);
    }
}
