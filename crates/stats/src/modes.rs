//! Modes of latencies: kinds of operations that one mean would not describe.

/// A kind of operations, whose latencies are around one value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mode {
    /// Share of all operations.
    pub share: f64,
    /// Median of the latencies, in nanoseconds.
    pub at_ns: u64,
}

/// Steps per octave of latencies.
const STEPS: f64 = 32.0;
/// Widest and narrowest kernel that smooths latencies, as standard deviations in octaves. Kinds closer than twice that,
/// 15 % at best, appear as one.
const KERNEL: (f64, f64) = (0.4, 0.1);
/// Operations from which the narrowest kernel is used.
const KERNEL_COUNT: f64 = 1e6;
/// A valley counts if it is lower than this share of the lower of its two peaks.
const VALLEY: f64 = 0.5;
/// Fewest operations that form a kind, as a share of all.
const SHARE_MIN: f64 = 0.005;
/// Standard deviations by which a valley must be too low for chance. Four, because the lowest valley next to the
/// highest peak is sought among a hundred positions.
const SIGNIFICANCE_SIGMAS: f64 = 4.0;
/// Most clock steps in a latency at which the steps are visible. Beyond that, they are closer than the width of the
/// kernel.
const CLOCK_STEPS_MAX: u32 = 32;

/// Returns the kinds of operations in a histogram of latencies, quickest first. The result is empty if all operations
/// are of one kind. The histogram is a list of the upper ends of buckets, in nanoseconds, with the counts in them. The
/// buckets are taken to be those of an HdrHistogram with two significant digits.
///
/// The density over the logarithm of the latency is smoothed. The fewer the operations, the wider the kernel
/// (Silverman, *Density Estimation*, 1986: by their fifth root). Two peaks are two kinds if the valley between them is
/// lower than half of the lower peak, and by more than chance. Both sides must also hold half a percent of all
/// operations.
///
/// A clock with coarse steps makes peaks, too. If all latencies are multiples of one step, the gaps between them are
/// filled in.
pub fn modes(histogram: &[(u64, u64)]) -> Vec<Mode> {
    let mut buckets: Vec<Bucket> = histogram
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(upper, count)| Bucket::new(*upper, *count))
        .collect();
    buckets.sort_unstable_by_key(|bucket| bucket.upper_ns);
    let Some(density) = Density::new(&buckets) else { return vec![] };
    let valleys = density.valleys();
    if valleys.is_empty() {
        return vec![];
    }
    let mut rest = &buckets[..];
    let ends = valleys.into_iter().map(|step| density.latency_ns(step)).chain([f64::INFINITY]);
    let kinds = ends.filter_map(|end_ns| {
        let (kind, after) = rest.split_at(rest.partition_point(|bucket| bucket.middle_ns() < end_ns));
        rest = after;
        let count: f64 = kind.iter().map(|bucket| bucket.count).sum();
        let mut below = 0.0;
        let median = kind.iter().find(|bucket| {
            below += bucket.count;
            below >= count / 2.0
        })?;
        Some(Mode { share: count / density.total, at_ns: median.upper_ns })
    });
    kinds.collect()
}

/// A bucket with a count above 0.
struct Bucket {
    upper_ns: u64,
    width_ns: f64,
    count: f64,
}

impl Bucket {
    /// The bucket of an HdrHistogram with two significant digits that has this upper end. Such a histogram has 256
    /// buckets of one nanosecond, then 128 for each octave.
    fn new(upper_ns: u64, count: u64) -> Self {
        let octave = upper_ns.checked_ilog2().unwrap_or(0);
        Self { upper_ns, width_ns: f64::from(octave.saturating_sub(7)).exp2(), count: count as f64 }
    }

    /// Middle of the values that the bucket counts.
    fn middle_ns(&self) -> f64 {
        self.upper_ns as f64 + 0.5 - self.width_ns / 2.0
    }
}

/// Returns the step of a clock if all latencies are multiples of it, within the precision of buckets, in nanoseconds.
/// Returns 0 if no step matters.
fn clock_step_ns(buckets: &[Bucket]) -> f64 {
    // A bucket of one nanosecond holds exactly that value.
    let value =
        |bucket: &Bucket| if bucket.width_ns > 1.0 { bucket.middle_ns() } else { bucket.upper_ns as f64 };
    let Some(lowest) = buckets.iter().find(|bucket| bucket.upper_ns > 0) else { return 0.0 };
    // The lowest value is known only to half its bucket, and so is every multiple of a part of it.
    let relative_error = lowest.width_ns / 2.0 / value(lowest);
    let divides = |step_ns: f64| {
        buckets.iter().all(|bucket| {
            let multiple = (value(bucket) / step_ns).round() * step_ns;
            (value(bucket) - multiple).abs() <= bucket.width_ns / 2.0 + value(bucket) * relative_error
        })
    };
    let steps = (1..=CLOCK_STEPS_MAX).map(|parts| value(lowest) / f64::from(parts));
    steps.into_iter().find(|step_ns| divides(*step_ns)).unwrap_or(0.0)
}

/// Number of operations around each step of the logarithm of the latency.
struct Density {
    /// All operations.
    total: f64,
    /// First step: the logarithm to base 2 of a latency, in steps.
    first: f64,
    /// Operations in each step, smoothed.
    smooth: Vec<f64>,
    /// Number of steps that the kernel counts together.
    kernel_steps: f64,
}

impl Density {
    /// Returns `None` without operations.
    fn new(buckets: &[Bucket]) -> Option<Self> {
        let total: f64 = buckets.iter().map(|bucket| bucket.count).sum();
        let deviation = (KERNEL.1 * (KERNEL_COUNT / total).powf(0.2)).clamp(KERNEL.1, KERNEL.0) * STEPS;
        let reach = (4.0 * deviation).ceil();
        let position = |latency_ns: f64| latency_ns.log2() * STEPS;
        let step_ns = clock_step_ns(buckets);
        let ranges: Vec<_> = buckets.iter().map(|bucket| Range::new(bucket, step_ns)).collect();
        let low = ranges.iter().map(|range| range.low_ns).reduce(f64::min)?;
        let high = ranges.iter().map(|range| range.high_ns).reduce(f64::max)?;
        let first = position(low).floor() - reach;
        let mut steps = vec![0.0; (position(high).ceil() + reach - first) as usize + 1];
        for (range, bucket) in ranges.iter().zip(buckets) {
            let mut below = 0.0;
            let mut step = position(range.low_ns).floor();
            while below < 1.0 {
                // Rounding may put the end of the last step below that of the range.
                let share = match step + 1.0 {
                    end if end >= position(range.high_ns) => 1.0,
                    end => range.share_below((end / STEPS).exp2()),
                };
                steps[(step - first) as usize] += (share - below) * bucket.count;
                (below, step) = (share, step + 1.0);
            }
        }
        let kernel: Vec<f64> = (0..=2 * reach as i64)
            .map(|at| (-0.5 * ((at as f64 - reach) / deviation).powi(2)).exp())
            .collect();
        let sum: f64 = kernel.iter().sum();
        let mut smooth = vec![0.0; steps.len()];
        for (at, count) in steps.iter().enumerate().filter(|(_, count)| **count > 0.0) {
            for (offset, weight) in kernel.iter().enumerate() {
                // The kernel is negligible beyond its reach.
                if let Some(smoothed) =
                    (at + offset).checked_sub(reach as usize).and_then(|at| smooth.get_mut(at))
                {
                    *smoothed += count * weight / sum;
                }
            }
        }
        // A mean with these weights has the variance of a mean over this many steps with equal weights.
        let kernel_steps = sum.powi(2) / kernel.iter().map(|weight| weight * weight).sum::<f64>();
        Some(Self { total, first, smooth, kernel_steps })
    }

    /// Latency at the middle of a step, in nanoseconds.
    fn latency_ns(&self, step: usize) -> f64 {
        ((self.first + step as f64 + 0.5) / STEPS).exp2()
    }

    /// The lowest steps between kinds, ascending.
    fn valleys(&self) -> Vec<usize> {
        let mut hills = self.hills();
        // The valley that separates least is removed first, and its two hills are joined.
        loop {
            let separation = |pair: &[Hill]| {
                let lower = pair[0].height.min(pair[1].height);
                let share = pair[0].count.min(pair[1].count) / self.total;
                let valley = self.smooth[pair[1].from];
                let is_real =
                    share >= SHARE_MIN && valley < VALLEY * lower && self.is_beyond_chance(lower, valley);
                (!is_real).then_some(lower - valley)
            };
            let weakest = hills
                .windows(2)
                .enumerate()
                .filter_map(|(index, pair)| Some((separation(pair)?, index)))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((_, index)) = weakest else { break };
            let joined = hills.remove(index + 1);
            hills[index].count += joined.count;
            hills[index].height = hills[index].height.max(joined.height);
        }
        hills.iter().skip(1).map(|hill| hill.from).collect()
    }

    /// True if the valley is significantly below half a peak. Counts have a standard deviation of their square root.
    fn is_beyond_chance(&self, peak: f64, valley: f64) -> bool {
        let (peak, valley) = (peak * self.kernel_steps, valley * self.kernel_steps);
        peak - valley / VALLEY >= SIGNIFICANCE_SIGMAS * (peak + valley / VALLEY.powi(2)).sqrt()
    }

    /// All peaks, each with the steps around it up to the valleys.
    fn hills(&self) -> Vec<Hill> {
        let mut hills = vec![Hill::default()];
        let mut is_falling = false;
        let mut lowest = 0;
        for (step, height) in self.smooth.iter().enumerate() {
            let before = if step == 0 { 0.0 } else { self.smooth[step - 1] };
            if *height > before && is_falling {
                // Operations counted since the valley belong to the new hill.
                let moved: f64 = self.smooth[lowest..step].iter().sum();
                if let Some(hill) = hills.last_mut() {
                    hill.count -= moved;
                }
                hills.push(Hill { from: lowest, height: 0.0, count: moved });
                is_falling = false;
            } else if *height < before {
                (is_falling, lowest) = (true, step);
            }
            if let Some(hill) = hills.last_mut() {
                hill.count += height;
                hill.height = hill.height.max(*height);
            }
        }
        hills
    }
}

/// A peak and the steps around it.
#[derive(Debug, Default)]
struct Hill {
    /// First step: the valley before the hill.
    from: usize,
    /// Operations in the highest step.
    height: f64,
    /// Operations in all steps.
    count: f64,
}

/// Latencies over which the operations of a bucket are spread.
struct Range {
    low_ns: f64,
    high_ns: f64,
    /// True if most operations are in the middle and none at the ends; else they are spread evenly.
    is_triangle: bool,
}

impl Range {
    /// Spreads the operations over the bucket. If the clock has wider steps, it spreads them up to the neighbouring
    /// steps: straight lines then join the counts.
    fn new(bucket: &Bucket, step_ns: f64) -> Self {
        /// No operation takes less; also, zero has no logarithm.
        const LEAST_NS: f64 = 0.5;
        let is_triangle = step_ns > bucket.width_ns;
        let half_ns = if is_triangle { step_ns } else { bucket.width_ns / 2.0 };
        let middle_ns = bucket.middle_ns();
        let low_ns = (middle_ns - half_ns).max(LEAST_NS);
        Self { low_ns, high_ns: (middle_ns + half_ns).max(low_ns * 1.001), is_triangle }
    }

    /// Share of the operations below a latency.
    fn share_below(&self, latency_ns: f64) -> f64 {
        let part = ((latency_ns - self.low_ns) / (self.high_ns - self.low_ns)).clamp(0.0, 1.0);
        match part {
            _ if !self.is_triangle => part,
            ..0.5 => 2.0 * part * part,
            _ => 1.0 - 2.0 * (1.0 - part) * (1.0 - part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;

    #[test]
    fn bucket_widths_match_hdr_histogram() {
        let histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000_000, 2).unwrap();
        for value in
            (0..40).flat_map(|bits| [1u64 << bits, (1 << bits) + 1, (3 << bits) / 2, (1 << bits) - 1])
        {
            let upper_ns = histogram.highest_equivalent(value);
            let width = upper_ns - histogram.lowest_equivalent(value) + 1;
            assert_eq!(Bucket::new(upper_ns, 1).width_ns, width as f64, "{value}");
        }
    }

    #[test]
    fn clock_granularity_is_detected() {
        let step = |values: &[u64]| {
            let buckets: Vec<_> = values.iter().map(|value| Bucket::new(*value, 1)).collect();
            clock_step_ns(&buckets)
        };
        // Microseconds, as upper ends of their buckets.
        assert!((step(&[0, 1003, 2007, 3007, 17023]) / 1000.0 - 1.0).abs() < 0.01);
        assert_eq!(step(&[40, 80, 120, 200]), 40.0);
        assert!(step(&(100..140).collect::<Vec<_>>()) < 4.0);
        assert_eq!(step(&[0]), 0.0);
    }

    #[test]
    fn latencies_of_two_values_have_two_modes() {
        let expected = [Mode { share: 0.95, at_ns: 2_000_000 }, Mode { share: 0.05, at_ns: 20_000_000 }];
        assert_eq!(modes(&[(2_000_000, 950), (20_000_000, 50)]), expected);
        assert_eq!(modes(&[(2_000_000, 999), (20_000_000, 1)]), []);
        assert_eq!(modes(&[(2_000_000, 10), (20_000_000, 10)]), [], "too few for chance");
    }

    #[test]
    fn degenerate_histograms_have_no_modes() {
        for histogram in [&[][..], &[(0, 0)], &[(0, 1000)], &[(u64::MAX, u64::MAX)], &[(1, 1), (u64::MAX, 1)]]
        {
            assert_eq!(modes(histogram), []);
        }
    }
}
