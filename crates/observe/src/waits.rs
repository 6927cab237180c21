//! Places where threads sleep: samples of the kernel function that each thread is in.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use model::run::{OperationSamples, SampledThreads, THREADS_PER_SAMPLE_MAX, WaitChannel};

use crate::calls;
use crate::parse::task_syscall::Blocked;
use crate::parse::{task_syscall, wchan};
use crate::reading::read_start;
use crate::root::{NumberedEntries, Root};
use crate::thread;

/// Looks between two listings of ring threads, which start and end less often than they sleep.
const SAMPLES_PER_RESCAN: u32 = 16;
/// Ring threads that are followed at the same time.
const RING_WORKERS_MAX: usize = 64;
/// Names of threads read in one listing: each costs three calls.
const NAMES_PER_LISTING_MAX: usize = 32;
/// Remembered threads of this process that are neither watched nor a ring's.
const OTHER_THREADS_MAX: usize = 64;
/// Readings of a name before it counts: a new thread gets its name only after a moment.
const NAME_READS_MIN: u8 = 2;
/// Prefix of a ring thread's name, before the number of the thread that it works for.
const RING_WORKER: &[u8] = b"iou-wrk-";

/// Steps that are counted separately; samples of further ones count for the place alone.
pub const STEPS_MAX: usize = 24;
/// Places that are counted separately; further ones are counted as one. A test sleeps in a dozen.
const SYMBOLS_MAX: usize = 64;
/// Longest name that is kept whole. The longest known name is half as long.
const SYMBOL_BYTES_MAX: usize = 48;
/// Label for threads that do not sleep.
const RUNNING: &str = "running";
/// Label for places that found no room.
const OTHER: &str = "other";

/// Room for a name, or for the arguments of a call.
const BUFFER_BYTES: usize = 256;

/// Stack of a thread that only sleeps.
const STACK_BYTES: usize = 64 << 10;
/// Attempts to find a thread asleep at its read, with a pause after each.
const SELF_TEST_ATTEMPTS: u32 = 50;
const SELF_TEST_PAUSE: Duration = Duration::from_millis(1);

/// Returns the step that a thread is in as its number; `None` if it is in none. It is called from another thread, and
/// allocates nothing.
pub type StepReader = Box<dyn Fn() -> Option<usize> + Send + Sync>;

/// Samples the wait channels of threads, and counts them. Each sample is a call of about a microsecond.
///
/// Opening takes about a millisecond. Watching opens a file for each thread. A sample allocates nothing.
#[derive(Debug)]
pub struct Waits {
    root: Root,
    hidden: Option<String>,
    counts_calls: bool,
    threads: Vec<Thread>,
    /// Numbers of the watched threads of this process, in the order of `threads`; and the same sorted.
    order: Vec<i32>,
    watched: Vec<i32>,
    next_thread: usize,
    tasks: Option<NumberedEntries>,
    samples_until_rescan: u32,
    ring_workers: Vec<RingWorker>,
    next_ring_worker: usize,
    other_threads: Vec<OtherThread>,
    sites: Sites,
    ring_sites: Sites,
    calls: Calls,
    /// Names of the steps that the threads publish.
    steps: &'static [&'static str],
    buffer: Box<[u8; BUFFER_BYTES]>,
}

struct Thread {
    wchan: Option<File>,
    syscall: Option<File>,
    /// Its step; `None` if it publishes none.
    step: Option<StepReader>,
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let step = self.step.as_ref().map(|step| step());
        formatter
            .debug_struct("Thread")
            .field("wchan", &self.wchan)
            .field("step", &step)
            .finish_non_exhaustive()
    }
}

impl Thread {
    fn step(&self) -> Option<usize> {
        self.step.as_ref().and_then(|step| step())
    }
}

#[derive(Debug)]
struct RingWorker {
    tid: i32,
    wchan: File,
    is_listed: bool,
}

/// A thread of this process that is neither watched nor a ring's, and how often its name was read.
#[derive(Debug)]
struct OtherThread {
    tid: i32,
    name_reads: u8,
}

/// Counts of the places where threads were found.
#[derive(Debug, Default)]
struct Sites {
    /// Never grows beyond its initial capacity.
    symbols: Vec<Symbol>,
    running: Samples,
    other: Samples,
    sample_count: u64,
}

#[derive(Debug)]
struct Symbol {
    name: [u8; SYMBOL_BYTES_MAX],
    length: usize,
    samples: Samples,
}

/// Number of samples, and those of each step among them.
#[derive(Debug, Clone, Copy, Default)]
struct Samples {
    all: u64,
    of_steps: [u64; STEPS_MAX],
}

impl Samples {
    fn add(&mut self, step: Option<usize>) {
        self.all += 1;
        if let Some(samples) = step.and_then(|step| self.of_steps.get_mut(step)) {
            *samples += 1;
        }
    }
}

/// Counts of the calls that threads were blocked in.
#[derive(Debug)]
struct Calls {
    known: [u64; calls::COUNT],
    other: u64,
    none: u64,
    sample_count: u64,
}

impl Waits {
    /// Finds out if the kernel shows where threads sleep. On the system root, a sleeping thread is the test.
    pub fn open(root: &Root) -> Self {
        let is_visible =
            if root.is_system() { shows_wait_channels(root) } else { root.exists("proc/self/wchan") };
        Self {
            root: root.clone(),
            hidden: (!is_visible).then(|| "/proc/self/task/*/wchan: where threads sleep".to_owned()),
            counts_calls: false,
            threads: Vec::new(),
            order: Vec::new(),
            watched: Vec::new(),
            next_thread: 0,
            tasks: root.numbered("proc/self/task"),
            samples_until_rescan: 0,
            ring_workers: Vec::with_capacity(RING_WORKERS_MAX),
            next_ring_worker: 0,
            other_threads: Vec::with_capacity(OTHER_THREADS_MAX),
            sites: Sites::new(),
            ring_sites: Sites::new(),
            calls: Calls::NONE,
            steps: &[],
            buffer: Box::new([0; BUFFER_BYTES]),
        }
    }

    /// Returns the hidden file and the information that is missing; then there are no [`Waits::sites`].
    pub fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// Switches the counting of blocking system calls on or off, from the next [`Waits::watch`] on. It costs
    /// another call for each thread that is found asleep.
    pub fn count_calls(&mut self, yes: bool) {
        self.counts_calls = yes;
    }

    /// Watches these threads of this process, the kernel threads that work for its rings, and no others.
    /// Forgets earlier counts.
    pub fn watch(&mut self, threads: &[i32]) {
        self.threads.clear();
        self.watched.clear();
        self.ring_workers.clear();
        self.other_threads.clear();
        (self.next_thread, self.next_ring_worker, self.samples_until_rescan) = (0, 0, 0);
        (self.sites, self.ring_sites, self.calls) = (Sites::new(), Sites::new(), Calls::NONE);
        (self.steps, self.order) = (&[], threads.to_vec());
        self.watched.extend(threads);
        self.watched.sort_unstable();
        for tid in threads {
            self.watch_task(&format!("proc/self/task/{tid}"));
        }
    }

    /// Also counts samples by the step that each of these threads is in, until the next [`Waits::watch`]. `names` are those
    /// of the steps. Other threads and unwatched ones are no part of it.
    pub fn watch_steps(
        &mut self,
        names: &'static [&'static str],
        steps: impl IntoIterator<Item = (i32, StepReader)>,
    ) {
        self.steps = names;
        for (thread, step) in steps {
            if let Some(place) = self.order.iter().position(|watched| *watched == thread) {
                self.threads[place].step = Some(step);
            }
        }
    }

    /// Watches the main thread of another process as well, until the next [`Waits::watch`].
    pub fn watch_process(&mut self, pid: i32) {
        self.watch_task(&format!("proc/{pid}/task/{pid}"));
    }

    fn watch_task(&mut self, directory: &str) {
        let open = |name: &str| self.root.open(&format!("{directory}/{name}"));
        let wchan = if self.hidden.is_none() { open("wchan") } else { None };
        let syscall = if self.counts_calls { open("syscall") } else { None };
        self.threads.push(Thread { wchan, syscall, step: None });
    }

    /// Samples some of the threads in turn. Call it every few milliseconds, not in step with anything.
    pub fn sample(&mut self) {
        let buffer = &mut self.buffer[..];
        let count = self.threads.len();
        for _ in 0..count.min(THREADS_PER_SAMPLE_MAX) {
            self.next_thread = (self.next_thread + 1) % count;
            let thread = &self.threads[self.next_thread];
            let step = thread.step();
            let is_asleep = match read_start(thread.wchan.as_ref(), buffer).and_then(wchan::symbol) {
                // If the step has changed during the sample, the step of the wait channel is unknown.
                Some(symbol) => self.sites.add(symbol, step.filter(|_| thread.step() == step)),
                // If the place is hidden, the call still shows that the thread is blocked.
                None => thread.wchan.is_none(),
            };
            self.calls.sample_count += u64::from(thread.syscall.is_some());
            if let Some(file) = thread.syscall.as_ref().filter(|_| is_asleep)
                && let Some(blocked) = read_start(Some(file), buffer).and_then(task_syscall::parse)
            {
                self.calls.add(blocked);
            }
        }
        if self.hidden.is_none() {
            self.sample_rings();
        }
    }

    fn sample_rings(&mut self) {
        if self.samples_until_rescan == 0 {
            self.list_ring_workers();
            self.samples_until_rescan = SAMPLES_PER_RESCAN;
        }
        self.samples_until_rescan -= 1;
        let count = self.ring_workers.len();
        for _ in 0..count.min(THREADS_PER_SAMPLE_MAX) {
            self.next_ring_worker = (self.next_ring_worker + 1) % count;
            let file = &self.ring_workers[self.next_ring_worker].wchan;
            if let Some(symbol) = read_start(Some(file), &mut self.buffer[..]).and_then(wchan::symbol) {
                self.ring_sites.add(symbol, None);
            }
        }
    }

    /// Follows ring threads that have appeared, and drops those that have gone.
    fn list_ring_workers(&mut self) {
        let Some(tasks) = &self.tasks else { return };
        let Self { watched, ring_workers, other_threads, buffer, .. } = self;
        ring_workers.iter_mut().for_each(|worker| worker.is_listed = false);
        let mut names = 0;
        tasks.visit(|tid| {
            if let Some(worker) = ring_workers.iter_mut().find(|worker| worker.tid == tid) {
                worker.is_listed = true;
                return;
            }
            let known = other_threads.iter().position(|bystander| bystander.tid == tid);
            let is_known = known.is_some_and(|known| other_threads[known].name_reads >= NAME_READS_MIN);
            if is_known || names == NAMES_PER_LISTING_MAX || watched.binary_search(&tid).is_ok() {
                return;
            }
            names += 1;
            let comm = tasks.open(tid, "comm");
            if !read_start(comm.as_ref(), &mut buffer[..]).is_some_and(|name| name.starts_with(RING_WORKER)) {
                match known {
                    Some(known) => other_threads[known].name_reads += 1,
                    None if other_threads.len() < OTHER_THREADS_MAX => {
                        other_threads.push(OtherThread { tid, name_reads: 1 });
                    }
                    None => (),
                }
            } else if ring_workers.len() < RING_WORKERS_MAX {
                ring_workers.extend(tasks.open(tid, "wchan").map(|wchan| RingWorker {
                    tid,
                    wchan,
                    is_listed: true,
                }));
            }
        });
        ring_workers.retain(|worker| worker.is_listed);
    }

    /// Returns the wait channels of watched threads and ring threads, the most frequent first. Shares refer to the
    /// samples of threads of the same kind. Empty if the wait channels are hidden.
    ///
    /// An idle ring thread sleeps as well, in `io_wq_worker`.
    pub fn sites(&self) -> Vec<WaitChannel> {
        let mut sites: Vec<_> = self.sites.sites(SampledThreads::Workers, self.steps).collect();
        sites.extend(self.ring_sites.sites(SampledThreads::RingWorkers, &[]));
        WaitChannel::sort(&mut sites);
        sites
    }

    /// Returns the system calls in which watched threads slept, with their counts, the most frequent first. "none"
    /// means outside of any call, for example in a page fault. "other" means calls that no test makes.
    /// [`Waits::call_samples`] returns the number of samples.
    pub fn calls_blocked(&self) -> Vec<(&'static str, u64)> {
        let known = self.calls.known.iter().enumerate();
        let known = known.filter_map(|(position, samples)| Some((calls::name(position)?, *samples)));
        let all = known.chain([("none", self.calls.none), (OTHER, self.calls.other)]);
        let mut all: Vec<_> = all.filter(|(_, samples)| *samples > 0).collect();
        all.sort_by_cached_key(|(_, samples)| std::cmp::Reverse(*samples));
        all
    }

    /// Returns the number of samples of threads whose calls are counted, asleep or not.
    pub fn call_samples(&self) -> u64 {
        self.calls.sample_count
    }
}

impl Sites {
    fn new() -> Self {
        Self { symbols: Vec::with_capacity(SYMBOLS_MAX), ..Self::default() }
    }

    /// Counts one sample of a thread in a step. Returns true if the thread sleeps.
    fn add(&mut self, symbol: &[u8], step: Option<usize>) -> bool {
        self.sample_count += 1;
        if symbol.is_empty() {
            self.running.add(step);
            return false;
        }
        let symbol = &symbol[..symbol.len().min(SYMBOL_BYTES_MAX)];
        if let Some(known) = self.symbols.iter_mut().find(|known| known.bytes() == symbol) {
            known.samples.add(step);
        } else if self.symbols.len() < SYMBOLS_MAX {
            let mut name = [0; SYMBOL_BYTES_MAX];
            name[..symbol.len()].copy_from_slice(symbol);
            let mut samples = Samples::default();
            samples.add(step);
            self.symbols.push(Symbol { name, length: symbol.len(), samples });
        } else {
            self.other.add(step);
        }
        true
    }

    fn sites(&self, of: SampledThreads, steps: &[&str]) -> impl Iterator<Item = WaitChannel> {
        let symbols = self.symbols.iter().map(|symbol| (symbol.text(), symbol.samples));
        let all = symbols.chain([(RUNNING.to_owned(), self.running), (OTHER.to_owned(), self.other)]);
        all.filter(|(_, samples)| samples.all > 0).map(move |(symbol, samples)| WaitChannel {
            of,
            class: None,
            symbol,
            share: samples.all as f64 / self.sample_count as f64,
            samples: samples.all,
            operations: (steps.iter().zip(samples.of_steps))
                .filter(|(_, samples)| *samples > 0)
                .map(|(step, samples)| OperationSamples { operation: (*step).to_owned(), samples })
                .collect(),
        })
    }
}

impl Symbol {
    fn bytes(&self) -> &[u8] {
        &self.name[..self.length]
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl Calls {
    const NONE: Self = Self { known: [0; calls::COUNT], other: 0, none: 0, sample_count: 0 };

    fn add(&mut self, blocked: Blocked) {
        match blocked {
            Blocked::No => (),
            Blocked::Elsewhere => self.none += 1,
            Blocked::In(number) => match calls::position(number).map(|position| &mut self.known[position]) {
                Some(samples) => *samples += 1,
                None => self.other += 1,
            },
        }
    }
}

/// Returns true if the kernel shows a thread as asleep while it waits at a read. Some kernels leave the file
/// empty or say "0" for every thread.
fn shows_wait_channels(root: &Root) -> bool {
    let Ok((mut reader, mut writer)) = std::io::pipe() else { return false };
    let (sender, receiver) = std::sync::mpsc::channel();
    let sleeper = thread::start("skye-asleep", STACK_BYTES, move || {
        let _ = sender.send(thread::proc_tid());
        let _ = reader.read(&mut [0]);
    });
    let Ok(sleeper) = sleeper else { return false };
    let file = receiver.recv().ok().and_then(|tid| root.open(&format!("proc/self/task/{tid}/wchan")));
    let mut buffer = [0; BUFFER_BYTES];
    let is_visible = file.is_some()
        && (0..SELF_TEST_ATTEMPTS).any(|_| {
            let symbol = read_start(file.as_ref(), &mut buffer).and_then(wchan::symbol);
            let has_symbol = symbol.is_some_and(|symbol| !symbol.is_empty());
            if !has_symbol {
                std::thread::sleep(SELF_TEST_PAUSE);
            }
            has_symbol
        });
    let _ = writer.write_all(&[0]);
    let _ = sleeper.join();
    is_visible
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn task(directory: &Path, task: &str, files: &[(&str, &str)]) {
        let path = directory.join("proc").join(task);
        std::fs::create_dir_all(&path).unwrap();
        for (name, text) in files {
            std::fs::write(path.join(name), text).unwrap();
        }
    }

    fn tree() -> (tempfile::TempDir, Waits) {
        let directory = tempfile::tempdir().unwrap();
        task(directory.path(), "self", &[("wchan", "0")]);
        task(directory.path(), "self/task/1", &[("comm", "skye\n"), ("wchan", "do_wait")]);
        let waits = Waits::open(&Root::at(directory.path()));
        (directory, waits)
    }

    fn site_rows(waits: &Waits) -> Vec<(SampledThreads, String, u64, f64)> {
        let site_rows = |site: WaitChannel| (site.of, site.symbol, site.samples, site.share);
        waits.sites().into_iter().map(site_rows).collect()
    }

    #[test]
    fn waits_of_empty_tree_are_hidden() {
        let directory = tempfile::tempdir().unwrap();
        let mut waits = Waits::open(&Root::at(directory.path()));
        assert_eq!(waits.hidden(), Some("/proc/self/task/*/wchan: where threads sleep"));
        waits.watch(&[1, 2]);
        waits.watch_process(3);
        waits.sample();
        assert_eq!(site_rows(&waits), []);
        assert_eq!((waits.calls_blocked(), waits.call_samples()), (vec![], 0));
    }

    #[test]
    fn samples_by_wait_site_are_reset_for_new_threads() {
        let (directory, mut waits) = tree();
        assert_eq!(waits.hidden(), None);
        task(directory.path(), "self/task/7", &[("wchan", "0")]);
        task(directory.path(), "self/task/8", &[("wchan", "rq_qos_wait.part.0")]);
        task(directory.path(), "90/task/90", &[("wchan", "pipe_read")]);
        waits.watch(&[8, 7]);
        waits.watch_process(90);
        waits.sample();
        task(directory.path(), "self/task/7", &[("wchan", "rq_qos_wait")]);
        waits.sample();
        let of = SampledThreads::Workers;
        let expected = [
            (of, "rq_qos_wait".to_owned(), 3, 0.5),
            (of, "pipe_read".to_owned(), 2, 1.0 / 3.0),
            (of, "running".to_owned(), 1, 1.0 / 6.0),
        ];
        assert_eq!(site_rows(&waits), expected);
        waits.watch(&[7]);
        assert_eq!(site_rows(&waits), []);
    }

    #[test]
    fn samples_are_counted_by_step_of_thread() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let (directory, mut waits) = tree();
        task(directory.path(), "self/task/7", &[("wchan", "jbd2_log_wait_commit")]);
        task(directory.path(), "self/task/8", &[("wchan", "0")]);
        task(directory.path(), "self/task/9", &[("wchan", "do_unlinkat")]);
        waits.watch(&[9, 7, 8]);
        let step = Arc::new(AtomicUsize::new(2));
        let known = |step: &Arc<AtomicUsize>| -> StepReader {
            let step = Arc::clone(step);
            Box::new(move || Some(step.load(Ordering::Relaxed)))
        };
        // One that is in another step at each question.
        let moves: StepReader = Box::new({
            let calls = AtomicUsize::new(0);
            move || Some(calls.fetch_add(1, Ordering::Relaxed) % 3)
        });
        let none: StepReader = Box::new(|| None);
        waits.watch_steps(
            &["create", "read", "list"],
            [(8, known(&step)), (7, known(&step)), (9, moves), (99, none)],
        );
        waits.sample();
        step.store(0, Ordering::Relaxed);
        waits.sample();
        waits.sample();
        // A step without a name counts for the place alone.
        step.store(STEPS_MAX, Ordering::Relaxed);
        waits.sample();
        let by_step = |symbol: &str| -> (u64, Vec<(String, u64)>) {
            let sites = waits.sites();
            let site = sites.iter().find(|site| site.symbol == symbol).unwrap();
            (site.samples, site.operations.iter().map(|one| (one.operation.clone(), one.samples)).collect())
        };
        let both = vec![("create".to_owned(), 2), ("list".to_owned(), 1)];
        assert_eq!(by_step("jbd2_log_wait_commit"), (4, both.clone()));
        assert_eq!(by_step("running"), (4, both));
        assert_eq!(by_step("do_unlinkat"), (4, vec![]));
        waits.watch(&[7]);
        waits.sample();
        assert!(waits.sites()[0].operations.is_empty());
    }

    #[test]
    fn many_threads_take_turns() {
        let (directory, mut waits) = tree();
        let tids: Vec<i32> = (100..140).collect();
        for tid in &tids {
            task(directory.path(), &format!("self/task/{tid}"), &[("wchan", &format!("at_{tid}"))]);
        }
        waits.watch(&tids);
        for _ in 0..5 {
            waits.sample();
        }
        assert_eq!(waits.sites().len(), 40);
        assert!(waits.sites().iter().all(|site| site.samples == 2 && site.share == 0.025));
    }

    #[test]
    fn wait_sites_over_the_limit_are_merged_as_other() {
        let (directory, mut waits) = tree();
        task(directory.path(), "self/task/7", &[("wchan", &"a".repeat(99))]);
        waits.watch(&[7]);
        waits.sample();
        for index in 0..70 {
            task(directory.path(), "self/task/7", &[("wchan", &format!("b_{index}"))]);
            waits.sample();
        }
        let samples_of = |symbol: &str| {
            waits.sites().iter().find(|site| site.symbol == symbol).map(|site| (site.samples, site.share))
        };
        assert_eq!(waits.sites().len(), SYMBOLS_MAX + 1);
        assert_eq!(samples_of(&"a".repeat(SYMBOL_BYTES_MAX)), Some((1, 1.0 / 71.0)));
        assert_eq!(samples_of("other"), Some((7, 7.0 / 71.0)));
    }

    #[test]
    fn io_uring_workers_are_found_and_forgotten() {
        let (directory, mut waits) = tree();
        let worker = [("comm", "iou-wrk-7\n"), ("wchan", "folio_wait_bit_common")];
        task(directory.path(), "self/task/7", &[("comm", "worker\n"), ("wchan", "io_cqring_wait")]);
        waits.watch(&[7]);
        waits.sample();
        assert_eq!(waits.sites().len(), 1);
        // A new thread has its parent's name at first.
        task(directory.path(), "self/task/12", &[("comm", "worker\n"), ("wchan", "0")]);
        for _ in 0..SAMPLES_PER_RESCAN {
            waits.sample();
        }
        task(directory.path(), "self/task/12", &worker);
        task(directory.path(), "self/task/13", &worker);
        for _ in 0..2 * SAMPLES_PER_RESCAN {
            waits.sample();
        }
        let of_rings: Vec<_> =
            site_rows(&waits).into_iter().filter(|site| site.0 == SampledThreads::RingWorkers).collect();
        assert_eq!(waits.ring_workers.len(), 2);
        assert_eq!(of_rings.len(), 1, "{of_rings:?}");
        assert_eq!((of_rings[0].1.as_str(), of_rings[0].3), ("folio_wait_bit_common", 1.0));
        assert_eq!(site_rows(&waits).iter().filter(|site| site.1 == "io_cqring_wait").count(), 1);
        std::fs::remove_dir_all(directory.path().join("proc/self/task/12")).unwrap();
        std::fs::remove_dir_all(directory.path().join("proc/self/task/13")).unwrap();
        for _ in 0..2 * SAMPLES_PER_RESCAN {
            waits.sample();
        }
        assert!(waits.ring_workers.is_empty());
    }

    #[test]
    fn blocked_calls_are_counted_only_if_enabled() {
        let (directory, mut waits) = tree();
        let fsync = format!("{} 0x3 0x0\n", libc::SYS_fsync);
        task(directory.path(), "self/task/7", &[("wchan", "jbd2_log_wait_commit"), ("syscall", &fsync)]);
        task(directory.path(), "self/task/8", &[("wchan", "0"), ("syscall", &fsync)]);
        task(directory.path(), "self/task/9", &[("wchan", "a"), ("syscall", "-1 0x0 0x0\n")]);
        task(directory.path(), "self/task/10", &[("wchan", "a"), ("syscall", "7777 0x0 0x0\n")]);
        waits.watch(&[7, 8, 9, 10]);
        waits.sample();
        assert_eq!(waits.call_samples(), 0);
        waits.count_calls(true);
        waits.watch(&[7, 8, 9, 10]);
        waits.sample();
        assert_eq!(waits.calls_blocked(), [("fsync", 1), ("none", 1), ("other", 1)]);
        assert_eq!(waits.call_samples(), 4);
        // If the places are hidden, only calls are counted.
        waits.hidden = Some(String::new());
        waits.watch(&[7]);
        waits.sample();
        assert_eq!((waits.calls_blocked(), site_rows(&waits)), (vec![("fsync", 1)], vec![]));
    }
}
