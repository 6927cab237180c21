//! CPUs: the threads' own work, and others who need them.

use model::Limiter;
use model::numbers::percent;
use model::run::{Confidence, Evidence};
use model::workload::{Arrival, DataVerb};

use super::{Found, budget_sentence, memory_sentence};
use crate::disturbance::used_cpus;
use crate::reading::Reading;
use crate::wait_sites::Class;

/// Threads that use so much of all CPUs leave none for another.
const ALL_CPUS: f64 = 0.75;
/// Threads that slept for this share of the time were held back by that as well.
const NEARLY_BLOCKED: f64 = 0.35;
/// A CPU that somebody else used for this share of the time was somebody else's.
const OTHER_BUSY: f64 = 0.25;

/// CPU time over all threads, in CPUs.
fn own_cpus(reading: &Reading<'_>) -> f64 {
    reading.on_cpu() * reading.threads
}

pub(crate) fn cpus(reading: &Reading<'_>) -> f64 {
    f64::from(reading.input.environment.cpus.max(1))
}

/// Whether being on a CPU, or waiting for one, took most of the time.
fn is_about_cpus(reading: &Reading<'_>) -> bool {
    let budget = &reading.budget;
    let about = reading.on_cpu() + budget.run_queue;
    if reading.is_ring {
        // One thread may be busy with a ring that is always full.
        return budget.blocked < super::RING_BLOCKED;
    }
    about > budget.blocked && about > 0.5
}

/// Whether somebody waits for operations to be due, or polls for their end: then CPU time is waiting.
fn polls(reading: &Reading<'_>) -> bool {
    reading.input.data().is_some_and(|data| data.iopoll || data.arrival != Arrival::Closed)
}

/// Who used the CPUs, in words.
fn busiest(reading: &Reading<'_>) -> String {
    let helpers = reading.system().map_or(&[][..], |system| &system.helpers);
    let named: Vec<_> = helpers
        .iter()
        .take(3)
        .map(|helper| format!("{} ({})", helper.name, percent(helper.cpu_share)))
        .collect();
    if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) }
}

/// Threads that were ready and had no CPU, while others had.
pub(super) fn contention(reading: &Reading<'_>) -> Option<Found> {
    let budget = &reading.budget;
    // More threads than CPUs wait for each other, whoever else is there.
    let at_once = reading.threads * (1.0 - budget.blocked);
    let by_each_other = ((at_once - cpus(reading)) / reading.threads).max(0.0);
    let by_others = budget.run_queue - by_each_other;
    let is_most = [budget.user, budget.kernel, budget.blocked].iter().all(|share| *share <= by_others);
    // More threads than CPUs wait for each other.
    let is_own = reading.threads > cpus(reading) && own_cpus(reading) >= ALL_CPUS * cpus(reading);
    if !is_most
        || is_own
        || reading.is_ring && budget.blocked >= super::RING_BLOCKED && budget.run_queue < 0.3
    {
        return None;
    }
    let others = used_cpus(&reading.input).filter(|others| *others > OTHER_BUSY);
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        counters: others.map(|others| format!("others used {others:.1} CPUs meanwhile{}", busiest(reading))),
        wait_site: reading.running_sentence(),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::CpuContention, budget.run_queue, evidence)
            .at_most(if reading.threads > cpus(reading) { Confidence::Likely } else { Confidence::Confirmed })
            .advice("Stop the other programs, or give the test CPUs of its own, and run it again."),
    )
}

/// The test's own threads on all CPUs.
pub(super) fn saturated(reading: &Reading<'_>) -> Option<Found> {
    let (own, cpus) = (own_cpus(reading), cpus(reading));
    let waits_for_cpus = reading.budget.run_queue > 0.1 && reading.threads > cpus;
    if !waits_for_cpus || own < ALL_CPUS * cpus || polls(reading) {
        return None;
    }
    let counters = reading.device_busy.map(|busy| {
        let name = reading.input.record.device.as_ref().map_or("the device", |device| &device.name);
        format!("{name} was busy {} of the time", percent(busy))
    });
    let evidence = Evidence {
        budget: Some(format!("{}: {own:.1} of {cpus:.0} CPUs", budget_sentence(reading))),
        counters,
        wait_site: reading.running_sentence(),
        probe: reading.probe_of_depth_below(super::saturation::DEPTH_NONE),
        ..Evidence::default()
    };
    Some(
        Found::new(Limiter::CpuSaturated, reading.on_cpu() + reading.budget.run_queue, evidence)
            // A device that is as full as the CPUs cannot be told from them.
            .at_most(Confidence::Likely)
            .advice(if reading.input.data().is_some() {
                "More threads buy nothing here; larger blocks cost less CPU a byte."
            } else {
                "More threads buy nothing here: it is the CPUs that make and remove names, not the storage."
            }),
    )
}

/// Threads that computed or copied nearly all the time.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Found> {
    let budget = &reading.budget;
    if !is_about_cpus(reading) || polls(reading) {
        return None;
    }
    let input = &reading.input;
    let data = input.data();
    let is_user = budget.user > budget.kernel;
    let limiter = if is_user { Limiter::ClientCpu } else { Limiter::KernelCpu };
    let device = reading.device_busy.filter(|busy| *busy < 0.5).map(|busy| {
        let name = input.record.device.as_ref().map_or("the device", |device| &device.name);
        format!("{name} was busy only {} of the time", percent(busy))
    });
    let calls = calls_sentence(reading);
    let counters = match (device, calls) {
        (Some(device), Some(calls)) => Some(format!("{device}; {calls}")),
        (one, other) => one.or(other),
    };
    let evidence = Evidence {
        budget: Some(budget_sentence(reading)),
        wait_site: reading.running_sentence(),
        counters,
        ceiling: memory_sentence(reading),
        ..Evidence::default()
    };
    let tried = reading.sensitivity().and_then(|known| known.depth.as_ref());
    let advice = match data.map(|data| data.verb) {
        Some(DataVerb::PutcWrite | DataVerb::GetcRead) => {
            "The C library moves one byte at a time. Blocks (write:seq1m) are free of it; stdio_buffer= changes how many bytes a call carries.".into()
        }
        Some(DataVerb::ByteWrite | DataVerb::ByteRead) => {
            "Each byte enters the kernel by itself. This is the cost of a system call, and of no storage; use blocks to measure that.".into()
        }
        _ if tried.is_some() => {
            let more = tried.map_or(String::new(), |sensed| {
                let times = sensed.after_ops_per_second / sensed.before_ops_per_second;
                format!("{} gave {times:.1} times as much", sensed.change)
            });
            format!("This is no limit of the storage: {more}.")
        }
        _ => {
            let threads = reading.threads;
            let lanes = cpus(reading);
            let gain = (lanes / threads.max(1.0)).min(4.0);
            if gain > 1.5 {
                let so_many = (threads * 4.0).min(lanes).max(threads + 1.0) as u64;
                let t = format!("t{so_many}");
                let direct = data.is_some_and(|data| !data.direct && !data.verb.is_bytes());
                let or = if direct { ", or :direct with more depth" } else { "" };
                format!("This is no limit of the storage. Try :{t}{or}: up to {gain:.0} times as much, as far as CPUs go.")
            } else {
                "This is no limit of the storage, and all CPUs that there are have their thread.".into()
            }
        }
    };
    let share = if is_user { budget.user } else { budget.kernel };
    if let Some(waits) = waited_for(reading).filter(|_| budget.blocked >= NEARLY_BLOCKED && !reading.is_ring)
    {
        let advice = "Both count: the CPU of each operation, and what it waits for.";
        return Some(Found::mixed([(limiter, share), (waits, budget.blocked)], evidence).advice(advice));
    }
    Some(Found::new(limiter, share, evidence).advice(advice))
}

/// What threads wait for that are on a CPU for most of the rest, by where they sleep; `None` where that is not clear.
fn waited_for(reading: &Reading<'_>) -> Option<Limiter> {
    let classes = [
        (Class::Lock, Limiter::LockContention),
        (Class::Sync, Limiter::FsyncJournal),
        (Class::Dirty, Limiter::DirtyThrottling),
        (Class::Remote, Limiter::RemoteLatency),
        (Class::Device, Limiter::DeviceLatency),
        (Class::Page, if reading.is_remote { Limiter::RemoteLatency } else { Limiter::DeviceLatency }),
    ];
    let most = classes.iter().max_by(|a, b| reading.waits(a.0).total_cmp(&reading.waits(b.0)))?;
    (reading.waits(most.0) > 0.5).then_some(most.1)
}

/// What each call carried, where that says something.
fn calls_sentence(reading: &Reading<'_>) -> Option<String> {
    let input = &reading.input;
    let data = input.data().filter(|data| data.verb.is_bytes())?;
    let calls = reading.system()?.calls.as_ref()?;
    let (count, bytes, what) = if data.writes() {
        (calls.write_calls, calls.bytes_per_write_call?, "write")
    } else {
        (calls.read_calls, calls.bytes_per_read_call?, "read")
    };
    Some(format!(
        "{} bytes went through {} {what} calls of {}",
        model::numbers::thousands(input.record.bytes),
        model::numbers::thousands(count),
        model::size::binary(bytes.round() as u64)
    ))
}
