//! Processes and kernel threads that took CPU time, either to serve us or in our way.

use std::cmp::Reverse;
use std::collections::HashMap;

use model::numbers::rank;
use model::run::Helper;

use crate::parse::process_stat::{self, Process};
use crate::parse::schedstat::{self, Schedstat};
use crate::reading::read_start;
use crate::root::{NumberedEntries, Root};

const BUFFER_BYTES: usize = 1024;
/// Smallest share of a CPU that is worth a line; in one second it is only two ticks.
const CPU_SHARE_MIN: f64 = 0.02;

#[derive(Debug)]
pub(super) struct Helpers {
    processes: Option<NumberedEntries>,
    /// Processes of the test. Their children belong to it, too.
    own: Vec<u64>,
    ns_per_tick: u64,
    before: Option<HashMap<Key, Times>>,
    sums: HashMap<Key, Sum>,
}

/// Number and start time: the kernel reuses numbers.
type Key = (u64, u64);

/// CPU time, and for a thread of the kernel the time in which it waited for a CPU. Each thread of a program has its own.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    cpu_ns: u64,
    run_delay_ns: u64,
}

impl Times {
    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: of(self.cpu_ns, other.cpu_ns),
            run_delay_ns: of(self.run_delay_ns, other.run_delay_ns),
        }
    }
}

#[derive(Debug, Default)]
struct Sum {
    name: String,
    is_kernel: bool,
    has_schedstat: bool,
    times: Times,
}

impl Helpers {
    pub fn open(root: &Root, ns_per_tick: u64, hidden: &mut Vec<String>) -> Self {
        // If processes of other users are hidden, process 1 is hidden, too.
        if !root.exists("proc/1/stat") || root.open("proc/1/stat").is_none() {
            hidden.push("/proc/*/stat: CPU time of other processes".to_owned());
        }
        let own = root.read("proc/self/stat");
        let own = own.and_then(|text| Some(process_stat::parse(text.as_bytes())?.pid)).into_iter().collect();
        Self { processes: root.numbered("proc"), own, ns_per_tick, before: None, sums: HashMap::new() }
    }

    /// Takes these processes for part of the test.
    pub fn exclude_processes(&mut self, processes: &[u32]) {
        self.own.extend(processes.iter().map(|pid| u64::from(*pid)));
    }

    /// Visits all processes but those of the test and their children.
    fn visit(&self, mut visit: impl FnMut(Process<'_>, Times, bool)) {
        let Some(processes) = &self.processes else { return };
        let is_ours = |pid: u64| self.own.contains(&pid);
        processes.visit(|pid| {
            let file = processes.open(pid, "stat");
            let mut buffer = [0; BUFFER_BYTES];
            let process = read_start(file.as_ref(), &mut buffer).and_then(process_stat::parse);
            if let Some(process) =
                process.filter(|process| !is_ours(process.pid) && !is_ours(process.parent_pid))
            {
                let ticks = Times { cpu_ns: process.ticks.saturating_mul(self.ns_per_tick), run_delay_ns: 0 };
                // Ticks are too coarse for a worker that runs often and briefly.
                let exact = process.is_kernel.then(|| schedstat(processes, pid)).flatten();
                visit(process, exact.unwrap_or(ticks), exact.is_some());
            }
        });
    }

    pub fn begin(&mut self) {
        let mut before = self.before.take().unwrap_or_default();
        before.clear();
        self.visit(|process, times, _| {
            before.insert((process.pid, process.start_ticks), times);
        });
        self.before = Some(before);
    }

    pub fn end(&mut self) {
        let Some(before) = self.before.take() else { return };
        let mut sums = std::mem::take(&mut self.sums);
        self.visit(|process, now, has_schedstat| {
            let key = (process.pid, process.start_ticks);
            // A process that appeared since the beginning spent all of its time since then.
            let times = now.each(before.get(&key).copied().unwrap_or_default(), u64::saturating_sub);
            if times.cpu_ns > 0 {
                let Process { is_kernel, .. } = process;
                let sum = sums.entry(key).or_default();
                sum.times = sum.times.each(times, u64::saturating_add);
                (sum.is_kernel, sum.has_schedstat) = (is_kernel, has_schedstat);
                sum.name = String::from_utf8_lossy(process.name).into_owned();
            }
        });
        self.sums = sums;
    }

    pub fn take(&mut self, measured_ns: u64) -> Vec<Helper> {
        let share = |time_ns: u64| time_ns as f64 / measured_ns as f64;
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|_| measured_ns > 0);
        let mut helpers: Vec<_> = sums
            .map(|((pid, _), sum)| {
                let Sum { name, is_kernel, has_schedstat, times } = sum;
                let run_delay_share = has_schedstat.then(|| share(times.run_delay_ns));
                Helper { name, pid, is_kernel, cpu_share: share(times.cpu_ns), run_delay_share }
            })
            .filter(|helper| helper.cpu_share.max(helper.run_delay_share.unwrap_or(0.0)) >= CPU_SHARE_MIN)
            .collect();
        helpers.sort_by_cached_key(|helper| helper.pid);
        helpers.sort_by_cached_key(|helper| Reverse(rank(helper.cpu_share)));
        helpers
    }
}

/// Returns the times of a thread of the kernel; `None` where the kernel does not count them.
fn schedstat(processes: &NumberedEntries, pid: i32) -> Option<Times> {
    let mut buffer = [0; BUFFER_BYTES];
    let file = processes.open(pid, "schedstat");
    let found = read_start(file.as_ref(), &mut buffer).and_then(schedstat::parse)?;
    let Schedstat { cpu_ns, run_queue_ns, timeslices } = found;
    (timeslices > 0 || cpu_ns > 0).then_some(Times { cpu_ns, run_delay_ns: run_queue_ns })
}
