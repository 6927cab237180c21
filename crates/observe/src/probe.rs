//! Counters of the kernel, read repeatedly from files that stay open.

use std::fs::File;

use model::run::{CpuTimes, DeviceFrame, OwnIo, ThreadTimes};
use model::target::Device;

use crate::parse::schedstat::Schedstat;
use crate::parse::task_stat::TaskTicks;
use crate::parse::{block_stat, cpu_stat, meminfo, schedstat, self_io, task_stat, vmstat};
use crate::reading::read_start as read;
use crate::root::Root;
use crate::snapshot::Snapshot;

/// Size that holds each of the files, or the beginning that is parsed.
const BUFFER_BYTES: usize = 4096;
/// Bytes read of `/proc/vmstat`, about half of it: the kernel generates the text during the read. The wanted
/// counter comes early.
const PAGING_BYTES: usize = 2048;
/// Watched threads whose ticks are read in one snapshot. That file costs four times as much as the others,
/// and its figures are too coarse for every thread every time. The other threads' ticks are at most a few
/// snapshots old.
const TICKS_READ_MAX: usize = 32;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// Reads the counters of the machine, of some devices, of this process and of some of its threads.
///
/// Opening costs some file opens. A snapshot costs one read of each file, into one buffer, and allocates
/// nothing.
#[derive(Debug)]
pub struct Probe {
    root: Root,
    devices: Vec<DeviceSource>,
    cpu: Option<File>,
    own_io: Option<File>,
    memory: Option<File>,
    paging: Option<File>,
    threads: Vec<Thread>,
    children: Vec<Child>,
    /// Last known I/O of this process and the processes that it started.
    io: OwnIo,
    next_ticks: usize,
    /// Sums of the threads that are no longer watched.
    retired: Sums,
    page_bytes: u64,
    ns_per_tick: u64,
    hidden: Vec<String>,
    buffer: Box<[u8; BUFFER_BYTES]>,
}

#[derive(Debug)]
struct DeviceSource {
    name: String,
    stat: Option<File>,
}

/// A thread with its last known counters, which stay valid after its end.
#[derive(Debug)]
struct Thread {
    schedstat: Option<File>,
    stat: Option<File>,
    io: Option<File>,
    /// Last known calls.
    calls: OwnIo,
    times: Schedstat,
    ticks: TaskTicks,
}

/// A child process. Once it has been waited for, the kernel adds its I/O to that of skye.
#[derive(Debug)]
struct Child {
    io: Option<File>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    cpu_ns: u64,
    run_queue_ns: u64,
    user_ticks: u64,
    kernel_ticks: u64,
}

impl Probe {
    /// Opens all sources. A source that cannot be opened stays 0 in snapshots, and [`Probe::hidden`] lists it.
    pub fn open(root: &Root, devices: &[Device]) -> Self {
        let mut hidden = Vec::new();
        let mut open = |path: &str, content: &str| {
            let file = root.open(path);
            if file.is_none() {
                hidden.push(format!("/{path}: {content}"));
            }
            file
        };
        let cpu = open("proc/stat", "CPU time and steal of the machine");
        let own_io = open("proc/self/io", "I/O of this process");
        let memory = open("proc/meminfo", "dirty pages and writeback");
        let paging = open("proc/vmstat", "page cache traffic");
        let devices: Vec<_> = devices
            .iter()
            .map(|device| {
                let path = format!("sys/class/block/{}/stat", device.name);
                DeviceSource { name: device.name.clone(), stat: open(&path, "I/O counters of the device") }
            })
            .collect();
        hidden.extend(devices.iter().filter_map(|device| counters_off(root, &device.name)));
        hidden.extend(schedstat_hidden(root));
        Self {
            root: root.clone(),
            devices,
            cpu,
            own_io,
            memory,
            paging,
            threads: Vec::new(),
            children: Vec::new(),
            io: OwnIo::default(),
            next_ticks: 0,
            retired: Sums::default(),
            page_bytes: rustix::param::page_size() as u64,
            ns_per_tick: ns_per_tick(),
            hidden,
            buffer: Box::new([0; BUFFER_BYTES]),
        }
    }

    /// Returns the sources that could not be opened or say nothing, as "PATH: missing information".
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Returns true if the I/O counters of this process cannot be read.
    pub fn hides_own_io(&self) -> bool {
        self.own_io.is_none()
    }

    /// Returns true if the I/O counters of the first device cannot be read.
    pub fn hides_top_device(&self) -> bool {
        self.devices.first().is_some_and(|device| device.stat.is_none())
    }

    /// Watches a thread of this process by the number that it has in `/proc`.
    ///
    /// Its times count from the beginning of the thread. Usage between the last snapshot and its end is lost.
    /// So take the last snapshot of a phase before the threads end.
    pub fn watch_thread(&mut self, tid: i32) {
        self.watch_task(&format!("proc/self/task/{tid}"));
    }

    /// Watches a child process with one thread. Its thread counts as a thread of skye. Its I/O is added until it has
    /// been waited for; after that the kernel adds it to skye's.
    ///
    /// All counters start with the process. So watch it before the first snapshot of a phase, and take the last one
    /// before it exits.
    pub fn watch_process(&mut self, pid: i32) {
        self.watch_task(&format!("proc/{pid}/task/{pid}"));
        self.children.push(Child { io: self.root.open(&format!("proc/{pid}/io")) });
    }

    fn watch_task(&mut self, directory: &str) {
        let mut thread = Thread {
            schedstat: self.root.open(&format!("{directory}/schedstat")),
            stat: self.root.open(&format!("{directory}/stat")),
            io: self.root.open(&format!("{directory}/io")),
            calls: OwnIo::default(),
            times: Schedstat::default(),
            ticks: TaskTicks::default(),
        };
        thread.read_ticks(&mut self.buffer[..]);
        self.threads.push(thread);
    }

    /// Returns the calls of the watched threads since each began, and the bytes that they moved. Other
    /// threads of this process, which read the counters, do not count. Allocates nothing.
    pub fn calls(&mut self) -> OwnIo {
        let buffer = &mut self.buffer[..];
        self.threads.iter_mut().fold(OwnIo::default(), |sum, thread| {
            if let Some(io) = read(thread.io.as_ref(), buffer).and_then(self_io::parse) {
                thread.calls = io;
            }
            sum.each(&thread.calls, u64::saturating_add)
        })
    }

    /// Counts the watched threads that can really be read. Some cannot if descriptors run out or the kernel
    /// hides them.
    pub fn watched(&self) -> usize {
        self.threads.iter().filter(|thread| thread.schedstat.is_some()).count()
    }

    /// Stops watching all threads and other processes. Their usage so far stays in the sums, which never
    /// fall.
    pub fn forget_threads(&mut self) {
        self.retired = self.sums();
        self.threads.clear();
        self.children.clear();
        self.next_ticks = 0;
    }

    /// Returns a snapshot with room for the devices and all counters 0.
    pub fn new_snapshot(&self) -> Snapshot {
        let device =
            |source: &DeviceSource| DeviceFrame { name: source.name.clone(), ..DeviceFrame::default() };
        Snapshot { devices: self.devices.iter().map(device).collect(), ..Snapshot::default() }
    }

    /// Reads all counters into a snapshot that [`Probe::new_snapshot`] made. Allocates nothing.
    pub fn snapshot(&mut self, into: &mut Snapshot) {
        let buffer = &mut self.buffer[..];
        for (source, counters) in self.devices.iter().zip(&mut into.devices) {
            if let Some(bytes) = read(source.stat.as_ref(), buffer) {
                block_stat::parse(bytes, counters);
            }
        }
        if let Some(ticks) = read(self.cpu.as_ref(), buffer).and_then(cpu_stat::parse) {
            let ns = |ticks: u64| ticks.saturating_mul(self.ns_per_tick);
            into.cpu = CpuTimes {
                user_ns: ns(ticks.user),
                kernel_ns: ns(ticks.kernel),
                idle_ns: ns(ticks.idle),
                steal_ns: ns(ticks.steal),
            };
        }
        if let Some(bytes) = read(self.memory.as_ref(), buffer) {
            let memory = meminfo::parse(bytes);
            into.dirty_bytes = memory.dirty_bytes;
            into.writeback_bytes = memory.writeback_bytes;
        }
        if let Some(pages) =
            read(self.paging.as_ref(), &mut buffer[..PAGING_BYTES]).and_then(vmstat::dirtied_pages)
        {
            into.dirtied_bytes = Some(pages.saturating_mul(self.page_bytes));
        }
        self.snapshot_own(into);
    }

    /// Reads the counters of this process and its threads, and leaves those of the machine and its devices as they are.
    /// Allocates nothing.
    pub fn snapshot_own(&mut self, into: &mut Snapshot) {
        let buffer = &mut self.buffer[..];
        if let Some(mut io) = read(self.own_io.as_ref(), buffer).and_then(self_io::parse) {
            for child in &self.children {
                if let Some(of_child) = read(child.io.as_ref(), buffer).and_then(self_io::parse) {
                    io = io.each(&of_child, u64::saturating_add);
                }
            }
            // For a while, neither count contains a child that is no longer watched but has not been waited
            // for.
            self.io = self.io.each(&io, u64::max);
            into.own_io = self.io.clone();
        }
        self.read_threads();
        let sums = self.sums();
        into.workers = ThreadTimes { cpu_ns: sums.cpu_ns, run_queue_ns: sums.run_queue_ns };
        into.worker_user_ticks = sums.user_ticks;
        into.worker_kernel_ticks = sums.kernel_ticks;
    }

    fn read_threads(&mut self) {
        let buffer = &mut self.buffer[..];
        for thread in &mut self.threads {
            thread.read_times(buffer);
        }
        let count = self.threads.len();
        for _ in 0..count.min(TICKS_READ_MAX) {
            self.next_ticks = (self.next_ticks + 1) % count;
            self.threads[self.next_ticks].read_ticks(buffer);
        }
    }

    fn sums(&self) -> Sums {
        self.threads.iter().fold(self.retired, |sums, thread| Sums {
            cpu_ns: sums.cpu_ns.saturating_add(thread.times.cpu_ns),
            run_queue_ns: sums.run_queue_ns.saturating_add(thread.times.run_queue_ns),
            user_ticks: sums.user_ticks.saturating_add(thread.ticks.user),
            kernel_ticks: sums.kernel_ticks.saturating_add(thread.ticks.kernel),
        })
    }
}

impl Thread {
    fn read_times(&mut self, buffer: &mut [u8]) {
        if let Some(times) = read(self.schedstat.as_ref(), buffer).and_then(schedstat::parse) {
            self.times = times;
        }
    }

    fn read_ticks(&mut self, buffer: &mut [u8]) {
        if let Some(ticks) = read(self.stat.as_ref(), buffer).and_then(task_stat::parse) {
            self.ticks = ticks;
        }
    }
}

/// The kernel's unit of CPU time in most of its files.
pub(crate) fn ns_per_tick() -> u64 {
    NS_PER_SECOND / rustix::param::clock_ticks_per_second().max(1)
}

/// Reports a queue with disabled I/O statistics: its constant counters would look like an idle device.
pub(crate) fn counters_off(root: &Root, name: &str) -> Option<String> {
    let path = format!("sys/class/block/{name}/queue/iostats");
    (root.line(&path)? == "0").then(|| format!("/{path}: I/O counters of the device are switched off"))
}

/// Reports missing scheduler statistics: kernels without them either lack the file or fill it with zeros.
fn schedstat_hidden(root: &Root) -> Option<String> {
    let times = root.read("proc/self/schedstat").and_then(|text| schedstat::parse(text.as_bytes()));
    let known = times.is_some_and(|times| times.timeslices > 0 || times.cpu_ns > 0);
    (!known).then(|| "/proc/self/task/*/schedstat: time of threads on a CPU and waiting for one".to_owned())
}

#[cfg(test)]
mod tests {
    use super::Probe;
    use crate::root::Root;

    #[test]
    fn probe_of_empty_tree_lists_hidden_sources() {
        let directory = tempfile::tempdir().unwrap();
        let mut probe = Probe::open(&Root::at(directory.path()), &[]);
        assert_eq!(probe.hidden().len(), 5, "{:?}", probe.hidden());
        let mut snapshot = probe.new_snapshot();
        probe.watch_thread(1);
        probe.snapshot(&mut snapshot);
        assert_eq!(snapshot, probe.new_snapshot());
    }

    #[test]
    fn child_process_io_is_counted_once() {
        let directory = tempfile::tempdir().unwrap();
        let task = directory.path().join("proc/9/task/9");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::create_dir_all(directory.path().join("proc/self")).unwrap();
        std::fs::write(task.join("schedstat"), "100 20 3\n").unwrap();
        let (own, child) = (directory.path().join("proc/self/io"), directory.path().join("proc/9/io"));
        let put = |path: &std::path::Path, bytes: u64| {
            let text =
                format!("rchar: {bytes}\nwchar: 0\nsyscr: 1\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n");
            std::fs::write(path, text).unwrap();
        };
        put(&own, 1000);
        put(&child, 50);
        let mut probe = Probe::open(&Root::at(directory.path()), &[]);
        probe.watch_process(9);
        let mut snapshot = probe.new_snapshot();
        let mut read = |probe: &mut Probe| {
            probe.snapshot(&mut snapshot);
            (snapshot.own_io.read_call_bytes, snapshot.workers.cpu_ns)
        };
        assert_eq!(read(&mut probe), (1050, 100));
        put(&child, 70);
        assert_eq!(read(&mut probe), (1070, 100));
        // Once the child has been waited for, its file is empty and that of skye contains all of its I/O.
        std::fs::write(&child, "").unwrap();
        put(&own, 1080);
        assert_eq!(read(&mut probe), (1080, 100));
        // A child that is forgotten before the wait neither lowers the sum nor counts twice.
        put(&child, 30);
        assert_eq!(read(&mut probe), (1110, 100));
        probe.forget_threads();
        assert_eq!(read(&mut probe), (1110, 100));
        put(&own, 1115);
        assert_eq!(read(&mut probe), (1115, 100));
    }

    #[test]
    fn thread_counters_never_decrease_between_snapshots() {
        let directory = tempfile::tempdir().unwrap();
        let task = directory.path().join("proc/self/task/7");
        std::fs::create_dir_all(&task).unwrap();
        std::fs::write(task.join("schedstat"), "100 20 3\n").unwrap();
        std::fs::write(task.join("stat"), "7 (w) S 1 7 7 0 -1 0 0 0 0 0 5 3 0 0\n").unwrap();
        let mut probe = Probe::open(&Root::at(directory.path()), &[]);
        probe.watch_thread(7);
        let (mut before, mut after) = (probe.new_snapshot(), probe.new_snapshot());
        probe.snapshot(&mut before);
        assert_eq!((before.workers.cpu_ns, before.workers.run_queue_ns), (100, 20));
        probe.forget_threads();
        probe.watch_thread(7);
        probe.snapshot(&mut after);
        assert_eq!(after.frame_since(&before).workers.cpu_ns, 100);
        assert_eq!(after.user_share_since(&before), Some(0.625));
        assert_eq!(before.user_share_since(&after), None);
    }
}
