//! Steadiness of the rate: its variation, its precision, and its course over time.

use model::advice::Advice;
use model::comparison::recommended_runs;
use model::figure::{
    Bytes, BytesPerSecond, Count, LATENCY_MAX_NS, LatencyNs, Modes, OpsPerSecond, Seconds, Share, WaitClass,
};
use model::finding::Finding;
use model::plan::CUSTOM;
use model::run::{EFFECTIVE_SAMPLES_MIN, Interval, SampledThreads, UntilSteady};

use crate::values::input::JudgeInput;
use crate::values::shares::SHARE_MIN;
use crate::values::trap_finding::TrapFinding;
use crate::values::wait_channels::class;

traps!(
    latency_too_long,
    too_few_samples,
    not_steady,
    never_steady,
    steady_rounds,
    wide_interval,
    does_not_repeat,
    one_run,
    rate_dropped,
    rate_capped,
    several_modes,
    one_pass,
    write_limit,
);

/// Half the width of the interval, as a share of the rate, that a rate must reach where the user set none.
const PRECISION: f64 = 0.05;
/// If a rate falls by this share, something that kept it up ran out.
const DROP: f64 = 0.2;
/// If threads wait for a CPU for more than this share of the time, that may be why a rate falls.
const RUN_QUEUE_MAX: f64 = 0.2;
/// Factor by which an interval may be wider than wanted. A test ends as soon as the interval is narrow enough, and its
/// last operations may widen it a little.
const SLACK: f64 = 1.25;
/// A repeat that differs by more than this is named, as a natural logarithm of the ratio.
const REPEAT_DISTANCE_MAX: f64 = 0.17;
/// Fewest intervals of the time axis that can be called steady.
const STEADY_INTERVALS: usize = 20;
/// Change from the first to the last quarter, as a share, below which nothing has drifted, as for `stats`.
const DRIFT: f64 = 0.05;
/// If half the width of the rate's interval is above this share, that is why there is no steady part.
const HALF_WIDTH_MAX: f64 = 0.25;
/// Half seconds under a limit differ from each other by less than this; those of devices differ by percents.
const CAP_VARIATION: f64 = 0.005;
/// Minimum number of half seconds for their variation.
const CAP_HALF_SECONDS_MIN: usize = 4;
/// Under a limit, the rate varies this many times less than if the device caused each latency.
const CAP_EVENNESS: f64 = 5.0;
/// Ratio of p99 to p50 under a limit: the slowest operations wait for its next slice, for milliseconds.
const CAP_SPREAD: u64 = 20;

/// Operations that took longer than any latency that is counted.
fn latency_too_long(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let figures = &input.record.figures;
    let steps = figures.steps.iter().map(|step| step.latency_ns.as_ref());
    let mut all =
        [figures.latency_ns.as_ref(), figures.queueing_ns.as_ref()].into_iter().chain(steps).flatten();
    all.any(|latency| latency.max >= LATENCY_MAX_NS)
        .then(|| Finding::LatencyTooLong { limit_ns: LatencyNs(LATENCY_MAX_NS) }.into())
}

/// A test that is too short to show how sure its number is.
fn too_few_samples(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    // Zones have a rate each, which repeating does not make surer.
    let has_zones = input.data().is_some_and(|data| data.zones.is_some());
    if has_zones || input.keeps_requested_rate() || input.record.figures.rate.ops_per_second.is_none() {
        return None;
    }
    // Rounds say by themselves if they were too few.
    if input.record.figures.until_steady.is_some() {
        return None;
    }
    let (record, is_short) = (input.record, is_short(input));
    if !is_short
        && (input.half_width().is_some() || not_steady(input).is_some() || predates_steady_analysis(input))
    {
        return None;
    }
    // The number is all bytes over all the time. How far that of another run would differ is unknown.
    if input.record.figures.rate.has_long_sync() || record.figures.rate.into_cache_ops_per_second.is_some() {
        let share =
            Share(1.0 - record.figures.rate.last_done_ns as f64 / record.counts.elapsed_ns.max(1) as f64);
        return Some(TrapFinding::new(
            Finding::LongSync { share, elapsed_seconds: elapsed(input) },
            [repeat(input)],
        ));
    }
    let operations = Count(record.counts.ops);
    let finding = match input.phase.workload.is_continuous() {
        false => Finding::FewRounds { rounds: Count(record.figures.rounds.len() as u64), operations },
        true => Finding::Short { elapsed_seconds: elapsed(input), operations },
    };
    let help = match input.phase.stop.passes {
        _ if input.phase.workload.is_continuous() => longer(input),
        _ if uses_preset(input) => None,
        Some(_) => Some(Advice::MoreFiles {}),
        None => Some(Advice::FewerFilesOrLongerTime {}),
    };
    Some(TrapFinding::new(finding, help))
}

/// Returns true if no steady part was found, and only because the time was too short for one, or the operations too few.
fn is_short(input: &JudgeInput<'_>) -> bool {
    let Some(steady) = input.record.figures.steady.as_ref().filter(|steady| !steady.is_steady) else {
        return false;
    };
    let ended = |interval: &&Interval| interval.start_ns.saturating_add(interval.length_ns) <= steady.to_ns;
    let intervals = input.record.figures.intervals.iter().filter(ended).count();
    let [first, last] = ends(input);
    let is_level = (last / first - 1.0).abs() <= DRIFT;
    let is_scarce = input.half_width().is_none() && is_level;
    steady.change_points.is_empty() && (intervals < STEADY_INTERVALS || is_scarce)
}

/// Returns true if the record is of a version that did not look for a steady part.
fn predates_steady_analysis(input: &JudgeInput<'_>) -> bool {
    let record = input.record;
    record.figures.steady.is_none()
        && record.figures.rounds.is_empty()
        && record.figures.intervals.len() >= STEADY_INTERVALS
}

fn elapsed(input: &JudgeInput<'_>) -> Seconds {
    Seconds(input.seconds())
}

/// Returns true if a preset chose sizes and times. Then its user needs no advice to choose others.
fn uses_preset(input: &JudgeInput<'_>) -> bool {
    input.plan.preset != CUSTOM
}

/// Returns the advice that makes a test last longer, where its user chose how long it lasts.
fn longer(input: &JudgeInput<'_>) -> Option<Advice> {
    if uses_preset(input) {
        return None;
    }
    Some(match input.phase.stop.time_ns {
        None if input.data().is_some_and(|data| data.fresh) => Advice::LargerSize {},
        None => Advice::MoreOperations {},
        Some(_) if is_one_pass(input) => Advice::LargerSize {},
        Some(_) if write_limit(input).is_some() => Advice::RaiseWriteLimit {},
        Some(_) => Advice::LongerTime {},
    })
}

/// A test without a part that has one rate for long enough.
fn not_steady(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    // A steady part after a changed limit is the rate of another state.
    let is_other = || super::disturbance::limit_changed(input).is_some();
    let steady = input.record.figures.steady.as_ref().filter(|steady| !steady.is_steady || is_other())?;
    // The rate into memory is not the number of the row.
    let is_cached = input.record.figures.rate.into_cache_ops_per_second.is_some();
    // Another trap reports a single change that is a drop.
    let is_drop = steady.change_points.len() == 1 && rate_dropped(input).is_some();
    let has_rounds = input.record.figures.until_steady.is_some();
    // Another trap marks a pause, and its intervals are no rates.
    let has_paused = input.record.seen.system.as_ref().is_some_and(|system| system.left_out_ns.is_some());
    let is_elsewhere = has_rounds
        || has_paused
        || is_short(input)
        || input.keeps_requested_rate()
        || (is_cached && input.record.figures.rate.has_long_sync())
        || is_drop
        || is_covered(input);
    if is_elsewhere {
        return None;
    }
    let finding = match (steady.change_points.first(), steady.change_points.len()) {
        (None, _) => match input.half_width().filter(|half| *half > HALF_WIDTH_MAX) {
            Some(half) => Finding::Unsteady { half_width: Share(half) },
            None => {
                let [first_ops_per_second, last_ops_per_second] = ends(input).map(OpsPerSecond);
                Finding::Drifted {
                    elapsed_seconds: elapsed(input),
                    first_ops_per_second,
                    last_ops_per_second,
                }
            }
        },
        (Some(first), 1) => Finding::RateChanged {
            before_ops_per_second: OpsPerSecond(first.before_ops_per_second),
            after_ops_per_second: OpsPerSecond(first.after_ops_per_second),
            at_seconds: Seconds(first.at_ns as f64 / 1e9),
        },
        (Some(first), changes) => {
            let rates = || {
                let after = steady.change_points.iter().map(|change| change.after_ops_per_second);
                std::iter::once(first.before_ops_per_second).chain(after)
            };
            Finding::RateChangedOften {
                changes: Count(changes as u64),
                lowest_ops_per_second: OpsPerSecond(rates().fold(f64::INFINITY, f64::min)),
                highest_ops_per_second: OpsPerSecond(rates().fold(0.0, f64::max)),
            }
        }
    };
    Some(TrapFinding::new(finding, longer(input)))
}

/// Returns true if all levels of the rate lie within the range of repeats.
fn is_covered(input: &JudgeInput<'_>) -> bool {
    let figures = &input.record.figures;
    let printed = figures.rate.repeat_half_width.and(figures.rate.printed_half_width());
    let (Some(half), Some(rate), Some(steady)) = (printed, figures.rate.ops_per_second, &figures.steady)
    else {
        return false;
    };
    let changes = &steady.change_points;
    let before = changes.iter().map(|change| change.before_ops_per_second);
    let levels = before.chain(changes.iter().map(|change| change.after_ops_per_second));
    let mut levels = levels.chain(ends(input).into_iter().filter(|_| changes.is_empty()));
    levels.all(|level| (level / rate).ln().abs() <= half.ln_1p())
}

/// Operations a second in the first quarter of the intervals, and in the last.
fn ends(input: &JudgeInput<'_>) -> [f64; 2] {
    let intervals = &input.record.figures.intervals;
    let quarter = intervals.len().div_ceil(4);
    let rate = |part: &[Interval]| {
        let sum = |of: fn(&Interval) -> u64| part.iter().map(|interval| of(interval) as f64).sum::<f64>();
        sum(|interval| interval.ops) * 1e9 / sum(|interval| interval.length_ns).max(1.0)
    };
    [&intervals[..quarter], &intervals[intervals.len() - quarter..]].map(rate)
}

/// A rate that is known less well than requested.
fn wide_interval(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let half = input.half_width()?;
    let wanted = input.plan.precision_goal.map_or(PRECISION, |precision_goal| precision_goal.precision);
    // A row without one rate needs no finding on how well it is known.
    let is_reported = not_steady(input).is_some() || too_few_samples(input).is_some();
    if half <= wanted * SLACK || is_reported || input.keeps_requested_rate() {
        return None;
    }
    let finding = match input.record.figures.rate.effective_samples {
        Some(parts) if parts < EFFECTIVE_SAMPLES_MIN => Finding::FewParts { parts: Count(parts as u64) },
        _ => Finding::WideInterval { half_width: Share(half), wanted: Share(wanted) },
    };
    Some(TrapFinding::new(finding, longer(input)))
}

/// A test that gave a rate beyond its range minutes later.
fn does_not_repeat(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let figures = &input.record.figures;
    let (visit, own) = figures.return_visit.as_ref().zip(figures.rate.steady_or_whole())?;
    let distance = (visit.ops_per_second / own).ln().abs();
    // Another trap names this cause.
    let is_reported = super::files::inode_search(input).is_some();
    // A ± that is too wide to be printed covers nothing.
    let range = figures.rate.printed_half_width().unwrap_or(0.0).ln_1p();
    if is_reported || distance <= range.max(REPEAT_DISTANCE_MAX) {
        return None;
    }
    let later_ns = visit.start_ns.saturating_sub(input.record.counts.start_ns);
    let [own_ops_per_second, then_ops_per_second] = [own, visit.ops_per_second].map(OpsPerSecond);
    let later = Seconds((later_ns as f64 / 1e9).round());
    let skips_inodes = visit.latency_mean_ns.zip(visit.kernel_share);
    let skips_inodes =
        skips_inodes.is_some_and(|(mean_ns, share)| super::files::skips_inodes(input, mean_ns, share));
    Some(match skips_inodes && visit.ops_per_second < own {
        true => TrapFinding::new(
            Finding::InodesInUse { own_ops_per_second, then_ops_per_second, later },
            [Advice::WaitForInodes {}],
        ),
        false => Finding::DoesNotRepeat { own_ops_per_second, then_ops_per_second, later }.into(),
    })
}

/// Advice to repeat the run, as often as a comparison of its rows needs.
fn repeat(input: &JudgeInput<'_>) -> Advice {
    let runs = stats::runs_to_decide(input.plan.phases.len(), false) as u32;
    Advice::Repeat { runs: Count(recommended_runs(runs).into()) }
}

/// A single run on a disk that the guests of a host share.
fn one_run(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let is_shared = input.is_on_virtual_disk() && input.is_on_devices();
    let half = input.record.figures.rate.printed_half_width()?;
    if !is_shared || input.plan.repetitions != 1 || input.keeps_requested_rate() {
        return None;
    }
    let half_width = Share(half);
    let is_of_run = input.record.figures.rate.repeat_half_width.is_none();
    Some(match (&input.record.figures.prediction_interval, input.record.figures.rate.ops_per_second) {
        (Some(next), Some(own)) => {
            let [low, high] = [next.low_ops_per_second, next.high_ops_per_second].map(|end| Share(end / own));
            Finding::OneOfRuns { runs: Count(next.runs), low, high }.into()
        }
        _ if is_of_run => TrapFinding::new(Finding::OneRun { half_width }, [repeat(input)]),
        _ => return None,
    })
}

/// A cache, or a credit, that ran out.
pub(super) fn rate_dropped(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let steady = input.record.figures.steady.as_ref()?;
    let change = steady
        .change_points
        .iter()
        .find(|change| change.after_ops_per_second < change.before_ops_per_second * (1.0 - DROP))?;
    let last = steady.change_points.last()?;
    // If the rate recovers, no store ran out.
    let later = steady.change_points.iter().filter(|later| later.at_ns >= change.at_ns);
    let highest = later.map(|later| later.after_ops_per_second).fold(0.0, f64::max);
    if highest > change.before_ops_per_second * (1.0 - DROP) {
        return None;
    }
    // If the rate was as low before, no store was full at the beginning.
    let earlier = steady.change_points.iter().take_while(|earlier| earlier.at_ns <= change.at_ns);
    let lowest = earlier.map(|earlier| earlier.before_ops_per_second).fold(f64::INFINITY, f64::min);
    if last.after_ops_per_second > lowest * (1.0 - DROP) {
        return None;
    }
    // Threads that wait for CPUs submit less.
    if input.record.seen.budget.as_ref().is_some_and(|budget| budget.run_queue > RUN_QUEUE_MAX) {
        return None;
    }
    // Others that take a share of the device lower the rate.
    if super::disturbance::foreign_io(input).is_some() {
        return None;
    }
    let bytes = input.record.workload.block_bytes.filter(|_| change.bytes > 0);
    let (moved_bytes, at_seconds) = (Bytes(change.bytes), Seconds(change.at_ns as f64 / 1e9));
    let ops = [change.before_ops_per_second, last.after_ops_per_second];
    let of_workers = input.record.seen.wait_channels.iter().filter(|site| site.of == SampledThreads::Workers);
    let held_back = of_workers.filter(|site| class(&site.symbol, true) == Some(WaitClass::Dirty));
    let held_back: f64 = held_back.map(|site| site.share).sum();
    let goes_to_cache = input.record.figures.rate.into_cache_ops_per_second.is_some();
    let is_cached = goes_to_cache && held_back >= SHARE_MIN;
    let has_rate_after = input.record.figures.rate.steady_ops_per_second.is_some() && !goes_to_cache;
    let is_after = steady.is_steady && has_rate_after;
    let finding = if let Some(block) = bytes {
        let [first_bytes_per_second, then_bytes_per_second] =
            ops.map(|ops| BytesPerSecond(ops * block as f64));
        match (is_cached, is_after) {
            (true, _) => Finding::MemoryFilled {
                moved_bytes,
                first_bytes_per_second,
                then_bytes_per_second,
                at_seconds,
            },
            (false, true) => {
                Finding::RanOut { moved_bytes, first_bytes_per_second, then_bytes_per_second, at_seconds }
            }
            (false, false) => {
                Finding::RanOutMean { moved_bytes, first_bytes_per_second, then_bytes_per_second, at_seconds }
            }
        }
    } else {
        let [first_ops_per_second, then_ops_per_second] = ops.map(OpsPerSecond);
        match (is_cached, is_after) {
            (true, _) => Finding::MemoryFilledByOps { first_ops_per_second, then_ops_per_second, at_seconds },
            (false, true) => Finding::RanOutByOps { first_ops_per_second, then_ops_per_second, at_seconds },
            (false, false) => {
                Finding::RanOutMeanByOps { first_ops_per_second, then_ops_per_second, at_seconds }
            }
        }
    };
    Some(finding.into())
}

/// Number of rounds, most rounds and time of a round, for tests of a preconditioned run.
fn rounds_of<'a>(input: &JudgeInput<'a>) -> Option<(&'a UntilSteady, Count, Count, Seconds)> {
    let all = input.record.figures.until_steady.as_ref()?;
    let round_ns = all.rounds.first().map_or(0, |round| round.to_ns.saturating_sub(round.from_ns));
    let (rounds, rounds_max) = (Count(all.rounds.len() as u64), Count(all.rounds_max.into()));
    Some((all, rounds, rounds_max, Seconds(round_ns as f64 / 1e9)))
}

/// A test of a preconditioned run that never was steady.
fn never_steady(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let (all, rounds, rounds_max, round_seconds) = rounds_of(input)?;
    if all.steady_round.is_some() {
        return None;
    }
    let finding = match all.rounds.last().and_then(|round| round.window.as_ref()) {
        None => Finding::TooFewRounds { rounds, rounds_max, round_seconds },
        Some(window) => {
            let (excursion, slope) = (Share(window.excursion), Share(window.slope.abs()));
            Finding::NeverSteady { rounds, rounds_max, round_seconds, excursion, slope }
        }
    };
    Some(TrapFinding::new(finding, [Advice::LongerTimeAndLimit {}]))
}

/// The round in which a test of a preconditioned run was steady.
fn steady_rounds(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let (all, rounds, rounds_max, round_seconds) = rounds_of(input)?;
    let window = all.rounds.last().filter(|_| all.steady_round.is_some())?.window.as_ref()?;
    let (excursion, slope) = (Share(window.excursion), Share(window.slope.abs()));
    Some(Finding::SteadyInRound { rounds, rounds_max, round_seconds, excursion, slope }.into())
}

/// A rate more even than its own latencies allow, which only an imposed limit makes.
fn rate_capped(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let variation = Share(capped_rate_variation(input)?);
    let latencies = input.record.figures.latency_ns.as_ref()?;
    let (p50_ns, p99_ns) = latencies.p50.zip(latencies.p99)?;
    let (p50_ns, p99_ns) = (LatencyNs(p50_ns), LatencyNs(p99_ns));
    Some(TrapFinding::new(Finding::TooEven { variation, p50_ns, p99_ns }, [Advice::FindLimit {}]))
}

/// Returns the variation of such a rate between half seconds; `None` for any other rate.
pub(crate) fn capped_rate_variation(input: &JudgeInput<'_>) -> Option<f64> {
    let record = input.record;
    let steady = record.figures.steady.as_ref().filter(|steady| steady.is_steady)?;
    let is_closed = record.workload.arrival == "closed_loop";
    if !is_closed || input.data().is_none() {
        return None;
    }
    let latencies = record.figures.latency_ns.as_ref()?;
    let (p50, p99) = latencies.p50.zip(latencies.p99)?;
    let is_inside = |interval: &&Interval| {
        interval.start_ns >= steady.from_ns
            && interval.start_ns.saturating_add(interval.length_ns) <= steady.to_ns
    };
    let inside: Vec<&Interval> = record.figures.intervals.iter().filter(is_inside).collect();
    // Half seconds are long enough: slices of a limit and shorter intervals beat against each other.
    let (mut rates, mut counts) = (Vec::new(), Vec::new());
    let (mut ops, mut ns) = (0.0, 0.0);
    for interval in &inside {
        (ops, ns) = (ops + interval.ops as f64, ns + interval.length_ns as f64);
        if ns >= 5e8 {
            rates.push((ops / ns, 1.0));
            counts.push((ops, 1.0));
            (ops, ns) = (0.0, 0.0);
        }
    }
    let varies = typical_variation(rates.iter().map(|(rate, _)| *rate).collect())?;
    // If each operation spent its latency in the device, the counts of operations would vary by this.
    let buckets: Vec<(f64, f64)> = inside
        .iter()
        .flat_map(|interval| &interval.histogram)
        .map(|(upper_ns, count)| (*upper_ns as f64, *count as f64))
        .collect();
    let ops_mean = counts.iter().map(|(ops, _)| ops).sum::<f64>() / counts.len() as f64;
    let expected = variation(&buckets)? / ops_mean.sqrt();
    let is_even = varies < CAP_VARIATION && varies * CAP_EVENNESS < expected;
    (rates.len() >= CAP_HALF_SECONDS_MIN && is_even && p99 > CAP_SPREAD.saturating_mul(p50)).then_some(varies)
}

/// Median distance of the values from their median, as a share of it, scaled to a standard deviation. A burst of a
/// limit that falls on the other side of a boundary moves two values far, and this not at all.
fn typical_variation(mut values: Vec<f64>) -> Option<f64> {
    let median = |values: &mut Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let middle = median(&mut values)?;
    let mut distances = values.iter().map(|value| (value - middle).abs()).collect();
    median(&mut distances)
        .map(|distance| 1.4826 * distance / middle)
        .filter(|variation| variation.is_finite())
}

/// Standard deviation over mean of values with weights; `None` where it is not finite.
fn variation(weighted: &[(f64, f64)]) -> Option<f64> {
    let weight: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let mean = weighted.iter().map(|(value, weight)| value * weight).sum::<f64>() / weight;
    let squares: f64 = weighted.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum();
    let variation = (squares / weight).sqrt() / mean;
    variation.is_finite().then_some(variation)
}

/// Several kinds of operations, for which a mean says nothing.
fn several_modes(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let modes = &input.record.figures.latency_ns.as_ref()?.modes;
    // Operations of a mix or a load differ by their nature, and each has separate latencies.
    let is_mixed = input.files().is_some() && input.phase.workload.is_continuous();
    if modes.len() < 2 || is_mixed {
        return None;
    }
    Some(Finding::SeveralModes { modes: Modes(modes.clone()) }.into())
}

/// A test that ended with the set.
fn one_pass(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    is_one_pass(input).then(|| {
        let elapsed_seconds = elapsed(input);
        let writes = input.data().is_some_and(|data| data.writes());
        let finding = if writes {
            Finding::WrittenOnce { elapsed_seconds }
        } else {
            Finding::ReadOnce { elapsed_seconds }
        };
        TrapFinding::new(finding, [Advice::LargerSize {}])
    })
}

fn is_one_pass(input: &JudgeInput<'_>) -> bool {
    let is_limited = input.data().is_some_and(|data| data.passes.is_none() && !data.direct);
    is_limited && input.phase.stop.passes == Some(1) && input.record.counts.passes >= 1.0
}

/// A test that ended with its part of the write limit.
fn write_limit(input: &JudgeInput<'_>) -> Option<TrapFinding> {
    let counts = &input.record.counts;
    let reached = |limit| {
        Finding::WriteLimitReached { elapsed_seconds: elapsed(input), limit_bytes: Bytes(limit) }.into()
    };
    // The next operation would have written more.
    if let Some(limit) = counts.write_limit_bytes {
        return Some(reached(limit));
    }
    let limit = input.phase.stop.bytes.filter(|_| input.phase.stop.time_ns.is_some())?;
    // Operations on files have no byte counts, but the bytes that they write count.
    let is_part_on_files = input.files().is_some() && input.phase.workload.is_continuous();
    let bytes = if is_part_on_files { counts.app_bytes_written } else { counts.bytes };
    (!is_one_pass(input) && bytes >= limit - limit / 50).then(|| reached(limit))
}
