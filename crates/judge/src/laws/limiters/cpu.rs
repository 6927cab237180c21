//! Limits by CPUs: the threads' own work, and others who need the CPUs.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Helpers, Mean, MemoryBytes, Ratio, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, TimeBreakdown, Verdict};
use model::workload::{Arrival, DataVerb};

use super::evidence::{cpus, device_busy, near_memory, seen};
use crate::values::disturbance::{self, programs_cpus, used_cpus};
use crate::values::reading::Reading;
use crate::values::shares::RING_BLOCKED;
use crate::values::wait_channels;

/// Threads that use this share of all CPUs leave none for another thread.
const ALL_CPUS: f64 = 0.75;
/// Threads that slept for at least this share of the time were also held back by their waits.
pub(crate) const NEARLY_BLOCKED: f64 = 0.35;
/// Others are named if they used a CPU for more than this share of the time.
const OTHER_BUSY: f64 = 0.25;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("all_cpus", Figure::Share(ALL_CPUS)),
    ("nearly_blocked", Figure::Share(NEARLY_BLOCKED)),
    ("other_busy", Figure::Share(OTHER_BUSY)),
];

/// CPU time over all threads, in CPUs.
fn own_cpus(reading: &Reading<'_>) -> f64 {
    reading.on_cpu() * reading.threads
}

/// Returns true if threads spent most of the time on a CPU, or waiting for one.
fn is_cpu_bound(reading: &Reading<'_>) -> bool {
    let budget = &reading.budget;
    let about = reading.on_cpu() + budget.run_queue;
    if reading.is_ring {
        // One thread may be busy with a ring that is always full.
        return budget.blocked < RING_BLOCKED;
    }
    about > budget.blocked && about > 0.5
}

/// Returns true if threads wait for operations to be due, or poll for completions: then CPU time is waiting.
fn polls(reading: &Reading<'_>) -> bool {
    reading.input.data().is_some_and(|data| data.iopoll || data.arrival != Arrival::Closed)
}

/// Returns the processes and kernel threads, other than the test's, that used the CPUs most.
fn busiest(reading: &Reading<'_>) -> Option<Observation> {
    let busiest: Vec<_> = reading.system()?.helpers.iter().take(3).cloned().collect();
    (!busiest.is_empty()).then_some(Observation::BusiestOthers { busiest: Helpers(busiest) })
}

/// Returns true if threads had no CPU for more of the time than they worked or slept.
pub(crate) fn waits_most_for_cpus(budget: &TimeBreakdown) -> bool {
    [budget.user, budget.kernel, budget.blocked].iter().all(|share| *share <= budget.run_queue)
}

/// Returns the limiter of threads that wait for a CPU: each other, if they outnumber the CPUs.
pub(crate) fn waited_for_cpus(threads: f64, cpus: f64) -> Limiter {
    if threads > cpus { Limiter::CpuSaturated } else { Limiter::CpuContention }
}

/// Threads that were ready to run and had no CPU, while others had one.
pub(super) fn contention(reading: &Reading<'_>) -> Option<Verdict> {
    let budget = &reading.budget;
    // Threads that outnumber the CPUs wait for each other, even without other processes.
    let has_more_threads = reading.threads > cpus(reading);
    let is_own = has_more_threads && own_cpus(reading) >= ALL_CPUS * cpus(reading);
    if !waits_most_for_cpus(budget)
        || is_own
        || reading.is_ring && budget.blocked >= RING_BLOCKED && budget.run_queue < 0.3
    {
        return None;
    }
    let at_once = reading.threads * (1.0 - budget.blocked);
    let by_each_other = ((at_once - cpus(reading)) / reading.threads).max(0.0);
    if by_each_other > budget.run_queue / 2.0 {
        // Answers from memory need only CPUs, and more threads need more of them.
        return super::cache::rule(reading).or_else(|| Some(all_cpus(reading)));
    }
    let others = used_cpus(&reading.input).filter(|others| *others > OTHER_BUSY);
    // The kernel's own threads, and interrupts, may work for the test. Short-lived programs are not among the helpers,
    // but have used CPU time.
    let helpers = reading.system().into_iter().flat_map(|system| &system.helpers);
    let programs: f64 = helpers.filter(|helper| !helper.is_kernel).map(|helper| helper.cpu_share).sum();
    if programs <= OTHER_BUSY && programs_cpus(&reading.input).is_some_and(|used| used <= OTHER_BUSY) {
        return None;
    }
    let is_sure = !has_more_threads && programs > OTHER_BUSY;
    let evidence = seen![
        reading.time_spent(),
        reading.mostly_running(),
        others.map(|others| Observation::OthersUsedCpus { cpus: Mean(others) }),
        others.and_then(|_| busiest(reading)),
    ];
    Some(
        Verdict::new(Limiter::CpuContention, budget.run_queue, evidence)
            .at_most(if is_sure { Confidence::Confirmed } else { Confidence::Likely })
            .advise([Advice::StopOthers {}]),
    )
}

/// Others that use this part of the CPUs that the test uses hold it back as much as its own threads hold back each other.
const OTHERS_CPU_RATIO_MIN: f64 = 0.5;

/// The test's own threads on all CPUs.
pub(super) fn saturated(reading: &Reading<'_>) -> Option<Verdict> {
    let (own, cpus) = (own_cpus(reading), cpus(reading));
    let waits_for_cpus = reading.budget.run_queue > 0.1 && reading.threads > cpus;
    if !waits_for_cpus || own < ALL_CPUS * cpus || polls(reading) {
        return None;
    }
    Some(all_cpus(reading))
}

/// Returns the verdict on threads that outnumber the CPUs, and wait for each other and for others.
fn all_cpus(reading: &Reading<'_>) -> Verdict {
    let (own, cpus) = (own_cpus(reading), cpus(reading));
    let others = used_cpus(&reading.input).filter(|others| *others > OTHER_BUSY);
    let evidence = seen![
        reading.time_spent(),
        Some(Observation::CpusUsed { used: Mean(own), cpus: Count(cpus as u64) }),
        reading.mostly_running(),
        others.map(|others| Observation::OthersUsedCpus { cpus: Mean(others) }),
        device_busy(reading),
        reading.answers_if_saturated(),
    ];
    let share = reading.on_cpu() + reading.budget.run_queue;
    if disturbance::from_input(&reading.input, |_| false).foreign_cpus >= OTHERS_CPU_RATIO_MIN * own {
        let found = Verdict::new(Limiter::CpuContention, share, evidence).at_most(Confidence::Likely);
        return found.advise([Advice::StopOthers {}]);
    }
    Verdict::new(Limiter::CpuSaturated, share, evidence)
        // A device that is as busy as the CPUs would look the same.
        .at_most(Confidence::Likely)
        .advise([match reading.input.data() {
            Some(_) => Advice::LargerBlocks {},
            None => Advice::NotTheStorage {},
        }])
}

/// Threads that computed or copied nearly all the time.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let budget = &reading.budget;
    if !is_cpu_bound(reading) || polls(reading) {
        return None;
    }
    let input = &reading.input;
    let data = input.data();
    let is_user = budget.user > budget.kernel;
    let limiter = if is_user { Limiter::ClientCpu } else { Limiter::KernelCpu };
    let evidence = seen![
        reading.time_spent(),
        reading.mostly_running(),
        device_busy(reading).filter(|_| reading.device_busy.is_some_and(|busy| busy < 0.5)),
        calls(reading),
        near_memory(reading),
    ];
    let tried = input.record.judged.sensitivity.as_ref().and_then(|known| known.depth.as_ref());
    let advice = match (data.map(|data| data.verb), tried) {
        (Some(DataVerb::PutcWrite | DataVerb::GetcRead), _) => vec![Advice::BlocksForStdio {}],
        (Some(DataVerb::ByteWrite | DataVerb::ByteRead), _) => vec![Advice::BlocksForBytes {}],
        (_, Some(response)) => {
            let times = Ratio(response.after_ops_per_second / response.before_ops_per_second);
            vec![
                Advice::NotTheStorage {},
                Advice::ChangeGave { change: response.change.as_str().into(), times },
            ]
        }
        _ => more_threads(reading),
    };
    let share = if is_user { budget.user } else { budget.kernel };
    if share < budget.run_queue {
        let waits =
            if reading.threads > cpus(reading) { Limiter::CpuSaturated } else { Limiter::CpuContention };
        let parts = [(limiter, share), (waits, budget.run_queue)];
        return Some(Verdict::mixed(parts, evidence).advise([Advice::StopOthers {}]));
    }
    if let Some(waits) =
        sleep_limiter(reading).filter(|_| budget.blocked >= NEARLY_BLOCKED && !reading.is_ring)
    {
        let parts = [(limiter, share), (waits, budget.blocked)];
        return Some(Verdict::mixed(parts, evidence).advise([Advice::EitherHelps {}]));
    }
    Some(Verdict::new(limiter, share, evidence).advise(advice))
}

/// Returns the advice for a test that CPUs limit, where more threads were not tried.
fn more_threads(reading: &Reading<'_>) -> Vec<Advice> {
    let (threads, cpus) = (reading.threads, cpus(reading));
    let times = (cpus / threads.max(1.0)).min(4.0);
    if times <= 1.5 {
        return vec![Advice::NotTheStorage {}, Advice::NoCpuLeft {}];
    }
    let threads = Count((threads * 4.0).min(cpus).max(threads + 1.0) as u64);
    let is_buffered = reading.input.data().is_some_and(|data| !data.direct && !data.verb.is_bytes());
    let mut advice = vec![Advice::NotTheStorage {}, Advice::MoreThreadsUpTo { threads, times: Mean(times) }];
    advice.extend(is_buffered.then_some(Advice::OrDirectAndDeep {}));
    advice
}

/// Returns the limiter of sleeping threads, by the place where they sleep; `None` where that is not clear.
fn sleep_limiter(reading: &Reading<'_>) -> Option<Limiter> {
    let classes = [
        WaitClass::Lock,
        WaitClass::Sync,
        WaitClass::Dirty,
        WaitClass::Remote,
        WaitClass::Device,
        WaitClass::Page,
    ];
    let most = classes.into_iter().max_by(|a, b| reading.waits(*a).total_cmp(&reading.waits(*b)))?;
    wait_channels::limiter(most, reading.is_remote).filter(|_| reading.waits(most) > 0.5)
}

/// Returns the calls that carried single bytes, and the number of bytes that each carried.
fn calls(reading: &Reading<'_>) -> Option<Observation> {
    let input = &reading.input;
    let data = input.data().filter(|data| data.verb.is_bytes())?;
    let counted = reading.system()?.calls.as_ref()?;
    let bytes = Count(input.record.counts.bytes);
    let each = |mean: f64| MemoryBytes(mean.round() as u64);
    Some(if data.writes() {
        let each_bytes = each(counted.bytes_per_write_call?);
        Observation::WriteCalls { bytes, calls: Count(counted.write_calls), each_bytes }
    } else {
        let each_bytes = each(counted.bytes_per_read_call?);
        Observation::ReadCalls { bytes, calls: Count(counted.read_calls), each_bytes }
    })
}
