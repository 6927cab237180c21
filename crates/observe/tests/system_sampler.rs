//! Events around a measured part: on fixtures whose files change during it, and on this machine.

// The helpers here are no test functions, but a failure in them fails a test all the same.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::Target;
use model::layer::{Layer, LayerKind};
use model::run::{Cap, NetworkUse, Pressures, Reclaim, SystemUse};
use observe::{Flows, Identity, Root, SystemSampler, resolve, target};

const SECOND_NS: u64 = 1_000_000_000;

/// A fixture whose files may be changed.
struct Machine {
    directory: tempfile::TempDir,
    target: Target,
}

impl Machine {
    fn copy(name: &str, path: &str, (major, minor): (u32, u32)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(directory.path()).status().unwrap();
        assert!(copied.success());
        let identity = Identity { path: path.to_owned(), major, minor, ..Identity::default() };
        let target = resolve(&Root::at(directory.path()), &identity).unwrap();
        Self { directory, target }
    }

    fn sampler(&self) -> SystemSampler {
        SystemSampler::open(&Root::at(self.directory.path()), &self.target)
    }

    fn flows(&self) -> Flows {
        Flows::open(&Root::at(self.directory.path()), &self.target.layers)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Adds to a number within the same file, because the file stays open. Of the first line that begins with `key`
    /// behind the text `section`, it is the number at the end of a field.
    fn add(&self, path: &str, (section, key, field): (&str, &str, usize), more: i64) {
        let text = std::fs::read_to_string(self.path(path)).unwrap();
        let from = text.find(section).unwrap();
        let is_meant = |line: &&str| line.split_whitespace().next() == Some(key);
        let line = text[from..].lines().find(is_meant).unwrap_or_else(|| panic!("{key} in {path}"));
        let word = line.split_whitespace().nth(field).unwrap();
        let old = &word[word.rfind('=').map_or(0, |at| at + 1)..];
        let new = (old.parse::<i64>().unwrap() + more).to_string();
        // Fields are slices of the line, and the line is one of the text.
        let at = old.as_ptr() as usize - text.as_ptr() as usize;
        std::fs::write(self.path(path), [&text[..at], &new, &text[at + old.len()..]].concat()).unwrap();
    }

    /// Replaces text within the same file, because the file stays open.
    fn replace(&self, path: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(path)).unwrap();
        assert_eq!(text.matches(from).count(), 1, "{from} in {path}");
        std::fs::write(self.path(path), text.replace(from, to)).unwrap();
    }

    /// Number of the recorded process with that name, and of the one that was copied itself as `proc/self`.
    fn pids(&self, name: &str) -> (u64, u64) {
        let first =
            |path: PathBuf| std::fs::read_to_string(path.join("stat")).ok()?.split(' ').next()?.parse().ok();
        let is_meant =
            |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
        let all = std::fs::read_dir(self.path("proc")).unwrap().map(|entry| entry.unwrap().path());
        (all.filter(is_meant).find_map(first).unwrap(), first(self.path("proc/self")).unwrap())
    }

    fn process(&self, pid: u64, name: &str, parent: u64, ticks: u32, start: u32) {
        std::fs::create_dir_all(self.path(&format!("proc/{pid}"))).unwrap();
        let text = format!(
            "{pid} ({name}) S {parent} 1 1 0 -1 4194304 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 0 0\n"
        );
        std::fs::write(self.path(&format!("proc/{pid}/stat")), text).unwrap();
    }
}

/// Number behind a word at the beginning of a line.
fn number(path: &Path, key: &str) -> i64 {
    let text = std::fs::read_to_string(path).unwrap();
    let found = text.lines().find_map(|line| line.split_once(' ').filter(|(word, _)| *word == key));
    found.unwrap().1.trim().parse().unwrap()
}

fn helpers(found: &SystemUse) -> Vec<(&str, u64, bool, f64)> {
    let helper = |helper: &model::run::Helper| {
        (helper.pid, helper.is_kernel, (helper.cpu_share * 1000.0).round() / 1000.0)
    };
    let named = found.helpers.iter().map(|found| (found.name.as_str(), helper(found)));
    named.map(|(name, (pid, is_kernel, share))| (name, pid, is_kernel, share)).collect()
}

#[test]
fn sampler_of_empty_tree_lists_hidden_sources() {
    let directory = tempfile::tempdir().unwrap();
    let root = Root::at(directory.path());
    let identity = Identity { path: "/data".into(), ..Identity::default() };
    let mut sampler = SystemSampler::open(&root, &resolve(&root, &identity).unwrap());
    assert_eq!(sampler.hidden().len(), 4, "{:?}", sampler.hidden());
    sampler.begin(true);
    sampler.end();
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS), SystemUse::default());
}

#[test]
fn excluded_clients_and_their_children_are_not_foreign() {
    let machine = Machine::copy("cgroup_v2", "/mnt/t", (8, 1));
    let mut sampler = machine.sampler();
    sampler.exclude_processes(&[900_010]);
    let processes = |ticks| {
        for (pid, name, parent) in
            [(900_010, "client", 1), (900_011, "child", 900_010), (900_012, "stranger", 1)]
        {
            machine.process(pid, name, parent, ticks, 80);
        }
    };
    processes(20);
    sampler.begin(true);
    processes(70);
    sampler.end();
    let found = sampler.take(SECOND_NS, SECOND_NS);
    assert_eq!(helpers(&found), [("stranger", 900_012, false, 0.5)]);
}

#[test]
fn cgroup_v2_machine_is_sampled() {
    let machine = Machine::copy("cgroup_v2", "/mnt/t", (8, 1));
    let mut sampler = machine.sampler();
    assert!(sampler.hidden().is_empty(), "{:?}", sampler.hidden());
    // An end without a beginning does nothing.
    sampler.end();
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS), SystemUse::default());
    machine.process(900_077, "(sd) x (y)", 1, 20, 80);
    sampler.begin(true);
    let slice = "sys/fs/cgroup/bench.slice";
    let scope = "sys/fs/cgroup/bench.slice/bench-a.scope";
    machine.add(&format!("{slice}/cpu.stat"), ("", "throttled_usec", 1), 300_000);
    machine.add(&format!("{slice}/cpu.stat"), ("", "nr_throttled", 1), 4);
    // The scope has no quota.
    machine.add(&format!("{scope}/cpu.stat"), ("", "throttled_usec", 1), 999_000_000);
    machine.add(&format!("{slice}/memory.events.local"), ("", "max", 1), 1);
    machine.add(&format!("{scope}/memory.events.local"), ("", "high", 1), 2);
    machine.add("proc/pressure/io", ("", "some", 4), 1_000_000);
    machine.add("proc/pressure/memory", ("", "some", 4), 1);
    machine.add("proc/vmstat", ("", "pgscan_direct", 1), 10);
    machine.add("proc/vmstat", ("", "workingset_refault_file", 1), 1);
    let threshold = ("", "nr_dirty_threshold", 1);
    let pages = number(&machine.path("proc/vmstat"), "nr_dirty_threshold");
    machine.add("proc/vmstat", threshold, 1000 - pages);
    machine.add("proc/self/net/dev", ("", "eth0:", 1), 100_000);
    machine.add("proc/self/net/dev", ("", "eth0:", 9), 100);
    // A kernel thread, a program, a process that started during the test, one below the reported share, and the test's
    // own.
    let (kernel, own) = machine.pids("jbd2/sda1-8");
    let kernel_stat = format!("proc/{kernel}/stat");
    let kernel_ticks = |more| machine.add(&kernel_stat, ("", &kernel.to_string(), 14), more);
    kernel_ticks(100);
    machine.process(900_077, "(sd) x (y)", 1, 70, 80);
    machine.process(900_090, "ssh", 1, 30, 200_000);
    machine.add("proc/1/stat", ("", "1", 13), 2);
    machine.process(own, "skye", 1, 900, 123_456);
    machine.process(900_243, "skye", own, 900, 123_499);
    sampler.end();
    // Changes between two parts do not count.
    kernel_ticks(1000);
    machine.add("proc/pressure/io", ("", "some", 4), 100_000_000);
    sampler.begin(true);
    machine.add("proc/pressure/io", ("", "some", 4), 500_000);
    kernel_ticks(100);
    sampler.end();
    let found = sampler.take(4 * SECOND_NS, 4 * SECOND_NS);
    assert_eq!(found.quota_throttled_ns, Some(300_000_000));
    assert_eq!(found.quota_used_up_ns, Some(400_000_000));
    assert_eq!(
        found.reclaim,
        Some(Reclaim { direct_scanned_pages: 10, refaulted_pages: 1, cgroup_limit_hits: 3 })
    );
    assert_eq!(found.dirty_threshold_bytes, Some(1000 * rustix::param::page_size() as u64));
    assert_eq!(found.pressure, Some(Pressures { io: 0.375, memory: 0.000_000_25, cpu: 0.0 }));
    let network = NetworkUse {
        interface: "eth0".into(),
        sent_bytes: 100,
        received_bytes: 100_000,
        speed_bits_per_second: Some(10_000_000_000),
        ..NetworkUse::default()
    };
    assert_eq!(found.network, Some(network));
    let expected = [
        ("jbd2/sda1-8", kernel, true, 0.5),
        ("(sd) x (y)", 900_077, false, 0.125),
        ("ssh", 900_090, false, 0.075),
    ];
    assert_eq!(helpers(&found), expected);
    let cap = |group: &str, is_read, ops_per_second, bytes_per_second| Cap {
        source: format!("/sys/fs/cgroup/{group}/io.max"),
        device: "sda".into(),
        is_read,
        ops_per_second,
        bytes_per_second,
    };
    let expected = [
        cap("bench.slice", true, None, Some(104_857_600.0)),
        cap("bench.slice", false, Some(500.0), None),
        cap("bench.slice/bench-a.scope", false, Some(800.0), None),
    ];
    assert_eq!(found.caps, expected);
    assert_eq!(found.calls, None);
    // The observations have been taken.
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS), SystemUse::default());
}

#[test]
fn cgroup_v1_machine_is_sampled() {
    let machine = Machine::copy("cgroup_v1", "/", (8, 1));
    std::fs::write(machine.path("proc/vmstat"), "pgscan_direct 1\n").unwrap();
    let mut sampler = machine.sampler();
    sampler.begin(true);
    let group = "sys/fs/cgroup/cpu,cpuacct";
    machine.replace(&format!("{group}/cpu.stat"), "2412345678", "2412345778");
    machine.replace("sys/fs/cgroup/memory/memory.failcnt", "17", "19");
    machine.replace("sys/fs/cgroup/blkio/blkio.throttle.write_iops_device", "500", "2000");
    sampler.end();
    let found = sampler.take(SECOND_NS, SECOND_NS);
    assert_eq!(found.quota_throttled_ns, Some(100));
    assert_eq!(found.reclaim.unwrap().cgroup_limit_hits, 2);
    let caps: Vec<_> = found
        .caps
        .iter()
        .map(|cap| (cap.source.as_str(), cap.is_read, cap.ops_per_second, cap.bytes_per_second))
        .collect();
    let blkio = "/sys/fs/cgroup/blkio/blkio.throttle";
    let expected = [
        (&*format!("{blkio}.write_bps_device"), false, None, Some(1_048_576.0)),
        (&*format!("{blkio}.write_iops_device"), false, Some(500.0), None),
        // It was changed in between.
        (&*format!("{blkio}.write_iops_device"), false, Some(2000.0), None),
    ];
    assert_eq!(caps, expected);
    // A lifted quota holds back no task.
    machine.replace(&format!("{group}/cpu.cfs_quota_us"), "50000", "-1");
    sampler.begin(true);
    sampler.end();
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS).quota_throttled_ns, None);
}

#[test]
fn nfs_and_fuse_server_queues_are_sampled() {
    let machine = Machine::copy("nfs", "/mnt/n/x", (0, 52));
    let mut flows = machine.flows();
    assert_eq!(flows.hidden(), [""; 0]);
    flows.begin();
    // Two versions are mounted, and only requests of the target's own mount count.
    for (operation, ms) in [("READ:", 6500), ("WRITE:", 500)] {
        machine.add("proc/self/mountstats", ("mounted on /mnt/n ", operation, 1), 700);
        machine.add("proc/self/mountstats", ("mounted on /mnt/n ", operation, 7), ms);
        machine.add("proc/self/mountstats", ("mounted on /mnt/old ", operation, 7), 99_000);
    }
    flows.end();
    let found = flows.take().remove(0);
    assert_eq!((found.in_flight(2 * SECOND_NS), found.window), (Some(3.5), Some(64)));
    // Without sessions, each connection has separate slots, as far as the kernel shows them.
    let machine = Machine::copy("nfs", "/mnt/old", (0, 53));
    let window = |machine: &Machine| {
        let mut flows = machine.flows();
        flows.begin();
        flows.end();
        flows.take().remove(0).window
    };
    assert_eq!(window(&machine), Some(4 * 65_536));
    std::fs::remove_dir_all(machine.path("proc/sys/sunrpc")).unwrap();
    assert_eq!(window(&machine), None);

    let machine = Machine::copy("sshfs", "/mnt/remote", (0, 53));
    let mut flows = machine.flows();
    flows.begin();
    flows.sample();
    machine.replace("sys/fs/fuse/connections/53/waiting", "3", "8");
    (0..4).for_each(|_| flows.sample());
    flows.end();
    let found = flows.take().remove(0);
    assert_eq!((found.in_flight(SECOND_NS), found.window), (Some(7.0), Some(12)));
    assert_eq!(flows.take()[0].in_flight(SECOND_NS), None);
    std::fs::remove_file(machine.path("sys/fs/fuse/connections/53/waiting")).unwrap();
    let hidden = "/sys/fs/fuse/connections/53/waiting: requests that wait for the file system's server";
    assert_eq!(machine.flows().hidden(), [hidden]);
}

#[test]
fn loopback_is_reported_only_without_other_traffic() {
    let machine = Machine::copy("cgroup_v2", "/mnt/t", (8, 1));
    let mut sampler = machine.sampler();
    sampler.begin(true);
    machine.add("proc/self/net/dev", ("", "lo:", 1), 80_000);
    sampler.end();
    let network = sampler.take(SECOND_NS, SECOND_NS).network.unwrap();
    assert_eq!((network.interface.as_str(), network.received_bytes), ("lo", 80_000));
    sampler.begin(true);
    machine.add("proc/self/net/dev", ("", "lo:", 1), 7_000);
    machine.add("proc/self/net/dev", ("", "veth0:", 1), 1);
    sampler.end();
    let network = sampler.take(SECOND_NS, SECOND_NS).network.unwrap();
    assert_eq!((network.interface.as_str(), network.speed_bits_per_second), ("veth0", None));
    sampler.begin(true);
    sampler.end();
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS).network, None);
}

#[test]
fn interface_on_the_route_is_reported_before_busier_ones() {
    let mut machine = Machine::copy("cgroup_v2", "/mnt/t", (8, 1));
    machine.target.layers.push(Layer::new(LayerKind::Line, "veth0"));
    let mut sampler = machine.sampler();
    sampler.begin(true);
    machine.add("proc/self/net/dev", ("", "eth0:", 1), 7_000);
    machine.add("proc/self/net/dev", ("", "veth0:", 1), 1_000);
    sampler.end();
    assert_eq!(sampler.take(SECOND_NS, SECOND_NS).network.unwrap().interface, "veth0");
}

#[test]
fn sample_of_running_system_names_busy_process() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let mut sampler = SystemSampler::open(&Root::system(), &target);
    // The parent of the busy process ends at once, so that the busy process is not our child. Our children do
    // not count.
    let script = "(ulimit -t 20; while :; do :; done) & echo $!";
    let mut started = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(started.stdout.take().unwrap()).read_line(&mut line).unwrap();
    started.wait().unwrap();
    let busy_pid: i32 = line.trim().parse().unwrap();
    let start = Instant::now();
    sampler.begin(true);
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(10));
    }
    sampler.end();
    let measured = start.elapsed();
    let pid = rustix::process::Pid::from_raw(busy_pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let found = sampler.take(measured.as_nanos() as u64, measured.as_nanos() as u64);
    let hides = |word: &str| sampler.hidden().iter().any(|source| source.contains(word));
    if !hides("/proc/*/stat") {
        let busy = found.helpers.iter().find(|helper| helper.pid == busy_pid as u64);
        assert!(busy.is_some_and(|busy| busy.name == "sh" && !busy.is_kernel), "{:?}", found.helpers);
        assert!(found.helpers.iter().all(|helper| helper.pid != u64::from(std::process::id())));
    }
    assert_eq!(found.pressure.is_some(), !hides("/proc/pressure"));
    assert_eq!(found.reclaim.is_some(), !hides("/proc/vmstat"));
    let shares = found.pressure.map_or([0.0; 3], |pressure| [pressure.io, pressure.memory, pressure.cpu]);
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
}
