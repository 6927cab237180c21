//! Rigs in separate processes: each follows its spec, and leaves nothing behind.
#![allow(missing_docs, clippy::unwrap_used)]

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rig::{Daemon, Direction, OpenFilePolicy, RequestLog, Rig, Spec};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

const MS: u64 = 1_000_000;

fn start(spec: impl Into<Spec>) -> Rig {
    Rig::start(&program(), spec).unwrap()
}

fn program() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_skye-rig").into()]
}

fn direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

/// Reads 4 KiB directly, at each of these blocks.
fn read_blocks(file: &File, blocks: impl IntoIterator<Item = u64>) {
    let mut bytes = vec![0; 2 * 4096];
    let at = bytes.as_ptr().align_offset(4096);
    for block in blocks {
        file.read_exact_at(&mut bytes[at..at + 4096], block * 4096).unwrap();
    }
}

/// Reads `blocks` blocks with each of `threads` threads.
fn read_with(threads: u64, blocks: u64, path: &Path) {
    thread::scope(|scope| {
        for thread in 0..threads {
            let file = direct(path);
            scope.spawn(move || read_blocks(&file, thread * blocks..(thread + 1) * blocks));
        }
    });
}

/// Reads one block after another for a time, and returns their number.
fn reads_within(path: &Path, time: Duration) -> u64 {
    let file = direct(path);
    let start = Instant::now();
    let mut reads = 0;
    while start.elapsed() < time {
        read_blocks(&file, [reads % 64]);
        reads += 1;
    }
    reads
}

/// Traces of a rig, to look for when it should have gone.
#[derive(Debug)]
struct Traces {
    journal: PathBuf,
    steps: Vec<String>,
    device: Option<PathBuf>,
}

impl Traces {
    fn from_rig(rig: &Rig) -> Self {
        let journal = rig.journal().unwrap().to_owned();
        Self { steps: rig::steps(&journal), journal, device: rig.device().map(Path::to_owned) }
    }

    /// Returns the traces that are left: paths of the journal's steps that still exist, and the limits of the device.
    fn leftovers(&self) -> Vec<String> {
        let machine = [
            Command::new("losetup").arg("-a").output().map(|output| output.stdout).unwrap(),
            fs::read("/proc/self/mountinfo").unwrap(),
        ];
        let machine = machine.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let paths =
            self.steps.iter().flat_map(|step| step.split(' ')).filter(|word| word.contains(rig::PREFIX));
        let mut leftovers: Vec<_> = paths
            .filter(|path| Path::new(path).exists() || machine.iter().any(|text| text.contains(*path)))
            .map(str::to_owned)
            .collect();
        if self.journal.exists() {
            leftovers.push(self.journal.display().to_string());
        }
        // Another test may have the device by now, but no test has a limit of this number.
        leftovers.extend(
            self.device
                .as_ref()
                .and_then(|device| limit_of(device))
                .filter(|limit| *limit == KILLED_LIMIT)
                .map(|limit| limit.to_string()),
        );
        leftovers
    }
}

/// The limit of the rig that is killed.
const KILLED_LIMIT: u64 = 12_345;

fn limit_of(device: &Path) -> Option<u64> {
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.file_name()?.to_str()?)).ok()?;
    let text = fs::read_to_string("/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device").ok()?;
    text.lines().find_map(|line| line.strip_prefix(number.trim())?.trim().parse().ok())
}

fn finishes(rig: Rig) {
    let traces = Traces::from_rig(&rig);
    rig.finish().unwrap();
    assert_eq!(traces.leftovers(), [""; 0]);
}

fn wait_until(holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come so far");
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(process: u32) {
    kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn slots_and_service_time_bound_rate_and_latency() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(4).service_us(1000).file_bytes(4 << 20));
    read_with(16, 25, &rig.path().join("file"));
    let served = rig.served().unwrap();
    assert_eq!((served.reads, served.bytes_read), (400, 400 * 4096));
    assert!(served.quantile_ns(0.0) >= MS, "{}", served.quantile_ns(0.0));
    // Four at a time: 400 take 100 ms, and with 16 readers all slots are busy.
    let (first, last) = span(&served);
    assert!(
        last - first >= 100 * MS && served.in_flight() <= 16.0,
        "{} {}",
        last - first,
        served.in_flight()
    );
    // Set other times while it lives.
    let since_ns = rig.set("service=5ms slots=none").unwrap();
    assert!(since_ns > last);
    assert_eq!(rig.take_served().unwrap(), served);
    read_with(4, 5, &rig.path().join("file"));
    let served = rig.served().unwrap();
    assert!(served.reads == 20 && served.quantile_ns(0.0) >= 5 * MS);
    assert!(rig.set("file=1m").unwrap_err().to_string().contains("`file` cannot be changed"));
    finishes(rig);
}

fn span(served: &RequestLog) -> (u64, u64) {
    let first = served.requests.iter().map(|request| request.arrived_ns).min().unwrap();
    (first, served.requests.iter().map(|request| request.answered_ns).max().unwrap())
}

#[test]
fn slow_requests_stalls_cache_and_rate_take_effect() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().service_us(1000).slow(0.25, 10_000).file_bytes(4 << 20));
    let file = rig.path().join("file");
    read_with(8, 50, &file);
    let times = rig.take_served().unwrap().times_ns();
    let slow = times.iter().filter(|time| **time >= 10 * MS).count();
    assert!(times.len() == 400 && times[0] >= MS && slow >= 60, "{slow} of {}", times.len());
    assert!(times[200] < 10 * MS, "most are not slow");

    rig.set("slow=none cache=0s service=5ms").unwrap();
    read_with(1, 10, &file);
    let first = rig.take_served().unwrap();
    read_with(1, 10, &file);
    let again = rig.take_served().unwrap();
    assert!(first.quantile_ns(0.0) >= 5 * MS && again.reads == 10);
    assert!(again.quantile_ns(0.5) < first.quantile_ns(0.5));

    let since_ns = rig.set("cache=none service=1ms stall=100ms/200ms").unwrap();
    read_with(1, 150, &file);
    let stalled = rig.take_served().unwrap();
    assert!(stalled.quantile_ns(1.0) >= 50 * MS, "one that came into a stall waited for its end");
    let (_, last) = span(&stalled);
    assert!(last - since_ns >= 250 * MS, "150 ms of work, and at least one stall");

    rig.set("stall=none service=0s rate=4096000").unwrap();
    read_with(4, 50, &file);
    let (first, last) = span(&rig.take_served().unwrap());
    assert!(last - first >= 199 * MS, "{}", last - first);
    finishes(rig);
}

#[test]
fn writes_and_syncs_are_delayed_but_not_reads() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().service_us(20_000).sync_us(30_000).only_writes());
    let path = rig.path().join("new");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&[7; 4096]).unwrap();
    file.sync_all().unwrap();
    assert_eq!(fs::read(&path).unwrap(), [7; 4096]);
    read_blocks(&direct(&path), [0; 21]);
    let served = rig.served().unwrap();
    assert_eq!((served.writes, served.bytes_written, served.syncs), (1, 4096, 1));
    assert!(served.in_direction(Direction::Write).quantile_ns(0.0) >= 20 * MS);
    assert!(served.in_direction(Direction::Sync).quantile_ns(0.0) >= 30 * MS);
    // Most of them are answered at once; the machine may have other work during any single one.
    let reads = served.in_direction(Direction::Read);
    assert!(reads.reads >= 21 && reads.quantile_ns(0.5) < 20 * MS, "{}", reads.quantile_ns(0.5));
    finishes(rig);
}

#[test]
fn open_policy_of_fuse_rig_is_applied() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().file_bytes(4096).open_policy(OpenFilePolicy::DirectRefused));
    let file = rig.path().join("file");
    let refused = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&file);
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    finishes(rig);
    for (open_policy, reads) in [(OpenFilePolicy::Usual, 1), (OpenFilePolicy::Direct, 2)] {
        let rig = start(Spec::fuse().file_bytes(4096).open_policy(open_policy));
        let file = File::open(rig.path().join("file")).unwrap();
        let mut block = [0; 4096];
        file.read_exact_at(&mut block, 0).unwrap();
        file.read_exact_at(&mut block, 0).unwrap();
        assert_eq!(rig.served().unwrap().reads, reads, "{open_policy:?}");
        drop(file);
        finishes(rig);
    }
}

fn file_system(name: &str, mib: u64) {
    let spec = Spec::disk().file_system(name).size_mib(mib).mount_options("noatime");
    let rig = start(spec);
    fs::write(rig.path().join("file"), "content").unwrap();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts.lines().find(|line| line.contains(rig.path().to_str().unwrap())).unwrap();
    assert!(line.contains(&format!(" {name} ")) && line.contains("noatime"), "{line}");
    assert!(line.starts_with(rig.device().unwrap().to_str().unwrap()), "{line}");
    finishes(rig);
}

#[test]
fn ext4_rig_is_mounted_and_removed() {
    xtask::require!(root, loop, ext4);
    file_system("ext4", 32);
}

#[test]
fn xfs_rig_is_mounted_and_removed() {
    xtask::require!(root, loop, xfs);
    file_system("xfs", 320);
}

#[test]
fn btrfs_rig_is_mounted_and_removed() {
    xtask::require!(root, loop, btrfs);
    file_system("btrfs", 128);
}

#[test]
fn overlay_stores_writes_in_the_backing_file_system() {
    xtask::require!(root, loop, overlay);
    let rig = start(Spec::disk().file_system("ext4").size_mib(32).with_overlay());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mounts: Vec<Vec<_>> = mounts.lines().map(|line| line.split(' ').collect()).collect();
    let overlay = mounts.iter().find(|mount| Path::new(mount[1]) == rig.path()).unwrap();
    assert_eq!(overlay[2], "overlay");
    let upper = overlay[3].split(',').find_map(|option| option.strip_prefix("upperdir=")).unwrap();
    let lower_mount = mounts.iter().find(|mount| Path::new(mount[0]) == rig.device().unwrap()).unwrap();
    assert_eq!((Path::new(lower_mount[1]), lower_mount[2]), (Path::new(upper).parent().unwrap(), "ext4"));
    fs::write(rig.path().join("file"), "content").unwrap();
    assert_eq!(fs::read_to_string(Path::new(upper).join("file")).unwrap(), "content");
    finishes(rig);
    let refused = Rig::start(&program(), Spec::disk().with_overlay()).unwrap_err().to_string();
    assert!(refused.contains("no file system") && refused.contains("fs="), "{refused}");
}

#[test]
fn device_read_limit_holds_and_can_be_changed() {
    xtask::require!(root, loop, blkio);
    let rig = start(Spec::disk().read_iops(500));
    let device = rig.device().unwrap().to_owned();
    assert_eq!(rig.path(), device);
    let time = Duration::from_secs(2);
    // Half a second's worth may be saved up or given in advance.
    let reads = reads_within(&device, time);
    assert!(reads <= 1250, "{reads} reads in {time:?}");
    rig.set("read_iops=100").unwrap();
    let reads = reads_within(&device, time);
    assert!(reads <= 250, "{reads} reads in {time:?}");
    rig.set("read_iops=none").unwrap();
    assert_eq!(limit_of(&device), None);
    assert!(rig.served().unwrap_err().to_string().contains("no server"));
    assert!(rig.set("over.slots=1").unwrap_err().to_string().contains("no server"));
    finishes(rig);
}

#[test]
fn settings_of_a_device_are_put_back() {
    xtask::require!(root, loop, ext4);
    let rig = start(Spec::disk().file_system("ext4").requests(4).dirty_max_bytes(16 << 20));
    let name = rig.device().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let requests = format!("/sys/block/{name}/queue/nr_requests");
    let read = |path: &str| fs::read_to_string(path).unwrap().trim().to_owned();
    let number = read(&format!("/sys/block/{name}/dev"));
    let bdi = |name: &str| format!("/sys/class/bdi/{number}/{name}");
    assert_eq!((read(&requests), read(&bdi("strict_limit"))), ("4".into(), "1".into()));
    let dirty_max: u64 = read(&bdi("max_bytes")).parse().unwrap();
    assert!((15 << 20..=17 << 20).contains(&dirty_max), "{dirty_max}");
    finishes(rig);
    assert_ne!(read(&requests), "4");
    assert_eq!((read(&bdi("strict_limit")), read(&bdi("max_ratio"))), ("0".into(), "100".into()));
}

#[test]
fn disk_over_fuse_server_has_its_service_times() {
    xtask::require!(root, loop, fuse, ext4);
    let server = Spec::fuse().slots(8).service_between_us(5_000, 6_000).sync_us(7_000);
    let rig = start(Spec::disk().file_system("ext4").over(server));
    assert_eq!(rig.served().unwrap().requests, [], "what it took to build it does not count");
    read_with(4, 10, rig.device().unwrap());
    let served = rig.take_served().unwrap();
    // The kernel may read neighbouring blocks together.
    assert!((10..=40).contains(&served.reads) && served.bytes_read == 40 * 4096, "{served:?}");
    assert!(served.quantile_ns(0.0) >= 5 * MS);
    let file = File::create_new(rig.path().join("file")).unwrap();
    file.sync_all().unwrap();
    assert!(rig.served().unwrap().in_direction(Direction::Sync).quantile_ns(0.0) >= 7 * MS);
    drop(file);
    // Undoing does not wait for it.
    rig.set("over.service=1h").unwrap();
    finishes(rig);
}

#[test]
fn disk_on_limited_disk_inherits_its_limit() {
    xtask::require!(root, loop, ext4, blkio);
    let lower = Spec::disk().file_system("ext4").size_mib(128).read_iops(500);
    let rig = start(Spec::disk().on_disk(lower));
    let device = rig.device().unwrap().to_owned();
    assert_eq!(limit_of(&device), None);
    // Unwritten blocks are not read from the layer below.
    OpenOptions::new().write(true).open(&device).unwrap().write_all_at(&[1; 64 * 4096], 0).unwrap();
    let time = Duration::from_secs(2);
    // Half a second's worth may be saved up or given in advance.
    let reads = reads_within(&device, time);
    assert!((1..=1250).contains(&reads), "{reads} reads in {time:?}");
    finishes(rig);
    let none = Spec::disk().on_disk(Spec::disk());
    let refused = Rig::start(&program(), none).unwrap_err().to_string();
    assert!(refused.contains("on.fs="), "{refused}");
}

#[test]
fn neighbour_reads_no_faster_than_its_rate() {
    xtask::require!(root, loop, ext4);
    let disk = start(Spec::disk().file_system("ext4"));
    let neighbour = start(Spec::neighbour(disk.path(), 200).block_bytes(8192));
    wait_until(|| neighbour.served().unwrap().reads >= 20);
    let served = neighbour.served().unwrap();
    let (first, last) = span(&served);
    assert_eq!(served.bytes_read, served.reads * 8192);
    assert!(served.reads <= 2 + (last - first) * 200 / 1_000_000_000, "{} in {}", served.reads, last - first);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 2, "lost+found and its own");
    finishes(neighbour);
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 1);
    finishes(disk);
}

#[test]
fn hogs_take_cpu_time() {
    let rig = start(Spec::hogs(2));
    let process = rig.id();
    let hundredths = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(11).unwrap().parse().unwrap()
    };
    wait_until(|| hundredths() >= 10);
    assert!(rig.path() == Path::new("") && rig.journal().is_none());
    rig.finish().unwrap();
    assert!(!Path::new(&format!("/proc/{process}")).exists());
}

#[test]
fn name_delay_applies_only_to_name_operations() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().metadata_us(20_000).slots(1));
    rig.take_served().unwrap();
    let path = rig.path().join("new");
    let begin = Instant::now();
    let mut file = File::create_new(&path).unwrap();
    let created = begin.elapsed();
    let served = rig.take_served().unwrap();
    // It looks up the name, and makes it; perhaps it also checks permission in the directory.
    assert!((2..=3).contains(&served.names) && served.requests.len() as u64 == served.names, "{served:?}");
    let least = Duration::from_millis(20) * served.names as u32;
    assert!(served.quantile_ns(0.0) >= 20 * MS && created >= least, "{created:?} for {}", served.names);
    file.write_all(&[7; 4096]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let served = rig.take_served().unwrap();
    assert_eq!((served.writes, served.syncs), (1, 1));
    // A name that is not there takes as long.
    assert!(fs::metadata(rig.path().join("none")).is_err());
    let (from, to) = span(&rig.take_served().unwrap());
    assert!(to - from >= 20 * MS);
    fs::remove_file(&path).unwrap();
    let removed = rig.take_served().unwrap();
    assert!(removed.names >= 1 && removed.quantile_ns(0.0) >= 20 * MS, "{removed:?}");
    // The server answers as many at a time as it has slots.
    rig.set("slots=4").unwrap();
    rig.take_served().unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let name = rig.path().join(format!("none-{thread}"));
            scope.spawn(move || assert!(fs::metadata(name).is_err()));
        }
    });
    let served = rig.take_served().unwrap();
    let (first, last) = span(&served);
    assert!(served.names >= 8 && last - first >= served.names.div_ceil(4) * 20 * MS, "{served:?}");
    assert!(most_at_a_time(&served) > 4, "the kernel asks for several at a time: {served:?}");
    rig.set("names=none").unwrap();
    assert!(fs::metadata(rig.path().join("none")).is_err());
    assert_eq!(rig.served().unwrap().requests, [], "what takes no time is not written down");
    // Undoing does not wait for it.
    rig.set("names=1h").unwrap();
    finishes(rig);
}

#[test]
fn device_request_limit_bounds_requests_in_flight() {
    xtask::require!(root, loop, fuse);
    let over = || Spec::fuse().slots(32).service_us(20_000);
    let mut in_flight = Vec::new();
    for requests in [4, 16] {
        let rig = start(Spec::disk().over(over()).requests(requests));
        thread::scope(|scope| {
            for thread in 0..16_u64 {
                let file = direct(rig.path());
                // The blocks are far from each other, so that none are read together.
                scope.spawn(move || read_blocks(&file, (0..10).map(|block| thread * 1000 + block * 10)));
            }
        });
        let served = rig.served().unwrap();
        assert_eq!(served.reads, 160);
        in_flight.push(most_at_a_time(&served));
        // 160 reads in waves of as many as fit.
        let (first, last) = span(&served);
        assert!(last - first >= 160 / u64::from(requests) * 20 * MS, "{} ms", (last - first) / MS);
        finishes(rig);
    }
    assert!(in_flight[0] <= 4 && in_flight[1] > 4, "{in_flight:?}");
    let refused = Rig::start(&program(), Spec::disk().requests(1)).unwrap_err().to_string();
    assert!(refused.contains("to 1 requests") && refused.contains("requests="), "{refused}");
}

fn most_at_a_time(served: &RequestLog) -> usize {
    let at = |instant| {
        let holds = |other: &&rig::Request| other.arrived_ns <= instant && instant < other.answered_ns;
        served.requests.iter().filter(holds).count()
    };
    served.requests.iter().map(|request| at(request.arrived_ns)).max().unwrap()
}

#[test]
fn dirty_limit_makes_writes_run_at_device_rate() {
    xtask::require!(root, loop, ext4, blkio);
    const MIB: u64 = 1 << 20;
    let (rate, dirty) = (16 * MIB, 4 * MIB);
    let spec = Spec::disk().size_mib(128).file_system("ext4").write_bytes_per_second(rate);
    let rig = start(spec.dirty_max_bytes(dirty));
    let mut file = File::create_new(rig.path().join("file")).unwrap();
    let block = vec![7; MIB as usize];
    let begin = Instant::now();
    (0..48).for_each(|_| file.write_all(&block).unwrap());
    // Without a sync, the time saved is that of the bytes that could stay in memory, and of one burst of the limit.
    let least = Duration::from_secs_f64((48 * MIB - dirty) as f64 / rate as f64 * 0.9);
    assert!(begin.elapsed() >= least, "{:?} and not {least:?}", begin.elapsed());
    rig.set("write_rate=none").unwrap();
    drop(file);
    finishes(rig);
}

#[test]
fn quota_throttles_members_and_releases_them() {
    xtask::require!(root, quota);
    let rig = start(Spec::quota(0.2));
    let count = |key: &str| -> u64 {
        let text = fs::read_to_string(rig.path().join("cpu.stat")).unwrap();
        text.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok()).unwrap()
    };
    let spin = |command: &mut Command| command.args(["-c", "while :; do :; done"]).spawn().unwrap();
    let cpu_ms = |process: u32| -> u64 {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let words: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        (words[11].parse::<u64>().unwrap() + words[12].parse::<u64>().unwrap()) * 10
    };
    let begin = Instant::now();
    let mut command_inside = spin(&mut rig.command_inside("sh"));
    wait_until(|| count("nr_throttled") >= 10);
    let (used, elapsed) = (cpu_ms(command_inside.id()), begin.elapsed().as_millis() as u64);
    // A process gets 20 ms in each period that was begun, and a slice that a CPU may keep. When it was held up, it had
    // used that up.
    assert!(used <= (elapsed / 100 + 2) * 20 + 20, "{used} ms of {elapsed}");
    assert!(used >= 10 * 20 / 2, "{used} ms of {elapsed}");

    let mut other = spin(&mut Command::new("sh"));
    rig.join(other.id()).unwrap();
    let members = fs::read_to_string(rig.path().join("cgroup.procs")).unwrap();
    for process in [command_inside.id(), other.id()] {
        assert!(members.lines().any(|line| line == process.to_string()), "{process}: {members}");
    }
    rig.set("cpus=0.5 period=50ms").unwrap();
    if let Ok(quota) = fs::read_to_string(rig.path().join("cpu.cfs_quota_us")) {
        assert_eq!(quota.trim(), "25000");
    }
    assert!(rig.set("cpus=0.00001").unwrap_err().to_string().contains("at least 1ms"));
    assert!(rig.join(4_194_305).unwrap_err().to_string().contains("4194305"));
    finishes(rig);
    // They live, and nothing holds them up any more.
    for child in [&mut command_inside, &mut other] {
        let group = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
        assert!(!group.contains(rig::PREFIX), "{group}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let hogs = start(Spec::hogs(1));
    assert!(hogs.join(std::process::id()).unwrap_err().to_string().contains("no process group"));
}

/// Processes that keep a whole file in the page cache are the main reason for a limit of memory.
#[test]
fn memory_limit_caps_page_cache_and_releases_members() {
    xtask::require!(root, loop, ext4, memory);
    const MIB: u64 = 1 << 20;
    let rig = start(Spec::memory(16 * MIB));
    // Names of cgroup v1 and of v2.
    let count = |old: &str, new: &str| -> u64 {
        let read = |name: &str| fs::read_to_string(rig.path().join(name));
        let text = read(old).or_else(|_| read(new)).unwrap();
        let max = text.lines().find_map(|line| line.strip_prefix("max "));
        max.unwrap_or(&text).trim().parse().unwrap()
    };
    let used = || count("memory.usage_in_bytes", "memory.current");
    let held_back = || count("memory.failcnt", "memory.events");
    // Its blocks are in memory before a process inside reads it, and counted outside.
    let disk = start(Spec::disk().file_system("ext4").size_mib(96));
    let path = disk.path().join("file");
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&vec![7; 64 * MIB as usize]).unwrap();
    file.sync_all().unwrap();
    let read = |command: &mut Command| {
        // No process may have it in memory.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        assert!(command.arg(&path).stdout(Stdio::null()).status().unwrap().success());
    };
    read(&mut Command::new("cat"));
    assert_eq!((used(), held_back()), (0, 0), "nobody was inside");
    read(&mut rig.command_inside("cat"));
    assert!((MIB..=16 * MIB).contains(&used()) && held_back() > 0, "{} {}", used(), held_back());
    // The group gives back the excess.
    rig.set("limit=4m").unwrap();
    assert!(used() <= 4 * MIB, "{}", used());
    rig.set("limit=256m").unwrap();
    let before = held_back();
    read(&mut rig.command_inside("cat"));
    assert!(used() > 16 * MIB && held_back() == before, "{} {}", used(), held_back());
    assert!(rig.set("cpus=1").unwrap_err().to_string().contains("`cpus` cannot be changed"));

    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    rig.join(other.id()).unwrap();
    let group = || fs::read_to_string(format!("/proc/{}/cgroup", other.id())).unwrap();
    assert!(group().contains(rig::PREFIX), "{}", group());
    finishes(rig);
    assert!(!group().contains(rig::PREFIX), "{}", group());
    other.kill().unwrap();
    other.wait().unwrap();
    drop(file);
    finishes(disk);
}

#[test]
fn killed_quota_rig_releases_its_processes() {
    xtask::require!(root, quota);
    check_kill_with_process_inside(Spec::quota(0.5));
}

#[test]
fn killed_memory_rig_releases_its_processes() {
    xtask::require!(root, memory);
    check_kill_with_process_inside(Spec::memory(32 << 20));
}

fn check_kill_with_process_inside(spec: impl Into<Spec>) {
    let rig = start(spec);
    let traces = Traces::from_rig(&rig);
    let mut command_inside = rig.command_inside("sleep").arg("60").spawn().unwrap();
    wait_until(|| !fs::read_to_string(rig.path().join("cgroup.procs")).unwrap().is_empty());
    kill(rig.id());
    wait_until(|| !rig::is_live(&traces.journal));
    assert!(rig.path().exists());
    let cleaned = rig::clean_one(&traces.journal).unwrap();
    assert_eq!((traces.leftovers(), cleaned.leftovers), (vec![], vec![]));
    assert_eq!(command_inside.try_wait().unwrap(), None, "it lives");
    command_inside.kill().unwrap();
    command_inside.wait().unwrap();
    drop(rig);
}

/// Processes that have a word on one of these steps' directories, and our network devices that the steps name.
fn servers_of(steps: &[String]) -> Vec<String> {
    let below: Vec<_> =
        steps.iter().filter_map(|step| Some(format!("{}/", step.strip_prefix("servers of ")?))).collect();
    let lines = fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    let servers = lines.filter(|line| below.iter().any(|home| line.contains(home)));
    let links = steps.iter().filter_map(|step| step.strip_prefix("network device "));
    let links = links.filter(|name| Path::new("/sys/class/net").join(name).exists()).map(str::to_owned);
    servers.chain(links).collect()
}

#[test]
fn network_rate_matches_configured_limit() {
    xtask::require!(root, netns, sshfs);
    const BYTES: usize = 8 << 20;
    // 40 Mbit/s is too little for a machine to be the limit.
    let rig = start(Spec::network(40_000_000).size_mib(64));
    let steps = rig::steps(rig.journal().unwrap());
    assert!(servers_of(&steps).len() >= 4, "{:?}", servers_of(&steps));
    let path = rig.path().join("file");
    let mut random = vec![0; BYTES];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut random)).unwrap();
    let is_right = |what: &str, begin: Instant, bits_per_second: f64| {
        let rate = BYTES as f64 * 8.0 / begin.elapsed().as_secs_f64() / bits_per_second;
        println!("{what}: {rate:.3} of the rate");
        assert!((0.85..=1.0).contains(&rate), "{what}: {rate}");
    };
    let begin = Instant::now();
    let mut file = File::create_new(&path).unwrap();
    file.write_all(&random).unwrap();
    file.sync_all().unwrap();
    is_right("written", begin, 40e6);
    drop(file);
    // A file that is opened again is read again.
    let begin = Instant::now();
    assert!(fs::read(&path).unwrap() == random);
    is_right("read", begin, 40e6);
    rig.set("rate=80mbit").unwrap();
    let begin = Instant::now();
    assert!(fs::read(&path).unwrap() == random);
    is_right("read at twice the rate", begin, 80e6);
    assert!(rig.set("size=1m").unwrap_err().to_string().contains("`size` cannot be changed"));
    // Undoing does not wait for data that is still to be sent.
    rig.set("rate=1kbit").unwrap();
    File::create_new(rig.path().join("other")).ok();
    finishes(rig);
    assert_eq!(servers_of(&steps), [""; 0]);
}

#[test]
fn killed_network_rig_is_undone_by_its_journal() {
    xtask::require!(root, netns, sshfs);
    let rig = start(Spec::network(40_000_000).size_mib(16).delay_us(5000));
    // A question takes that time, and so does its answer.
    let begin = Instant::now();
    fs::create_dir(rig.path().join("directory")).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(10), "{:?}", begin.elapsed());
    let traces = Traces::from_rig(&rig);
    kill(rig.id());
    wait_until(|| !rig::is_live(&traces.journal));
    assert!(servers_of(&traces.steps).len() >= 4 && traces.leftovers().len() >= 3, "{traces:?}");
    let cleaned = rig::clean_one(&traces.journal).unwrap();
    assert_eq!((traces.leftovers(), servers_of(&traces.steps), cleaned.leftovers), (vec![], vec![], vec![]));
    drop(rig);
}

/// Returns the path in the line of a rig that is ready: `{"ready":["/path",…]}`.
fn path_in(line: &str) -> &str {
    line.split('"').nth(3).unwrap()
}

/// Kills a rig after this time, undoes it, checks that nothing is left, and returns its traces.
fn killed_while_built(words: &[&str], after: Duration) -> Vec<Traces> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skye-rig"));
    let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    thread::sleep(after);
    child.kill().unwrap();
    // Waiting comes last: the process may hang in its own server until it is undone.
    let own = format!("{}-", child.id());
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&own);
    let undone = rig::list().into_iter().filter(is_own).map(|journal| {
        let traces = Traces { steps: rig::steps(&journal), journal, device: None };
        // If it was killed before it named itself, it counts as alive until it has gone.
        let mut cleaned = rig::clean_one(&traces.journal);
        if cleaned.is_none() {
            wait_until(|| !rig::is_live(&traces.journal));
            cleaned = rig::clean_one(&traces.journal);
        }
        let cleaned = cleaned.unwrap();
        assert_eq!((traces.leftovers(), &cleaned.leftovers), (vec![], &vec![]), "{cleaned:?}");
        traces
    });
    let undone = undone.collect();
    child.wait().unwrap();
    undone
}

#[test]
fn network_rig_killed_during_setup_is_cleaned() {
    xtask::require!(root, netns, sshfs);
    for round in 0..15 {
        for traces in killed_while_built(&["network"], Duration::from_millis(40 * round)) {
            assert_eq!(servers_of(&traces.steps), [""; 0]);
        }
    }
}

#[test]
fn rig_setup_failure_is_reported_with_cause() {
    xtask::require!(root, loop, fuse);
    let refused = |spec: Spec| Rig::start(&program(), spec).unwrap_err().to_string();
    let message = refused(Spec::neighbour("/nowhere", 1).into());
    assert!(message.contains("/nowhere") && message.contains("No such file"), "{message}");
    let message = refused(Spec::disk().file_system("teleport").over(Spec::fuse()).into());
    assert!(message.contains("mkfs.teleport") && message.contains("install"), "{message}");
    let message = refused(Spec::disk().file_system("xfs").mkfs_options("-Z").into());
    assert!(message.contains("create xfs"), "{message}");
    let error = Rig::start(&["/nowhere".into()], Spec::hogs(1)).unwrap_err().to_string();
    assert!(error.contains("/nowhere"), "{error}");
    let other = Rig::start(&["echo".into()], Spec::hogs(1)).unwrap_err().to_string();
    assert!(other.contains("the program sent `hogs count=1`"), "{other}");
}

/// A disk with everything that can be left behind, over a server, under an overlay and a bindfs.
fn everything() -> Spec {
    let disk = Spec::disk().file_system("ext4").over(Spec::fuse().slots(2).service_us(2000));
    disk.requests(8).read_iops(KILLED_LIMIT).with_overlay().daemon(Daemon::BindfsThreads).into()
}

#[test]
fn killed_rig_is_undone_by_its_journal() {
    xtask::require!(root, loop, fuse, ext4, blkio, overlay, bindfs);
    let rig = start(everything());
    let traces = Traces::from_rig(&rig);
    assert!(traces.steps.len() >= 8 && traces.leftovers().len() >= 6, "{traces:?} {:?}", traces.leftovers());
    fs::write(rig.path().join("dirty"), vec![1; 1 << 20]).unwrap();
    kill(rig.id());
    wait_until(|| !rig::is_live(&traces.journal));
    assert!(traces.leftovers().len() >= 6, "{:?}", traces.leftovers());
    let cleaned = rig::clean_one(&traces.journal).unwrap();
    assert_eq!((traces.leftovers(), cleaned.leftovers), (vec![], vec![]));
    assert!(cleaned.undone.iter().any(|undone| undone.contains("loop device")), "{:?}", cleaned.undone);
    assert_eq!(rig::clean_one(&traces.journal), None, "there is nothing more");
    assert!(rig.finish().is_err(), "it has exited");
}

#[test]
fn device_reused_by_another_after_kill_is_kept() {
    xtask::require!(root, loop, blkio);
    // The limit is too high to be felt, wherever it stays for a while.
    const LIMIT: u64 = 987_654_321;
    let rig = start(Spec::disk().read_iops(LIMIT));
    let (journal, device) = (rig.journal().unwrap().to_owned(), rig.device().unwrap().to_owned());
    if !Path::new("/sys/block").join(device.file_name().unwrap()).join("diskseq").exists() {
        // Before Linux 5.15, nothing distinguishes the devices.
        return rig.finish().unwrap();
    }
    kill(rig.id());
    wait_until(|| !rig::is_live(&journal));
    let foreign = std::env::temp_dir().join(format!("skye-test.foreign-{}", std::process::id()));
    File::create_new(&foreign).unwrap().set_len(1 << 20).unwrap();
    let losetup = |argument: &Path, other: Option<&Path>| {
        Command::new("losetup").arg(argument).args(other).stderr(Stdio::null()).status().unwrap().success()
    };
    assert!(losetup(Path::new("--detach"), Some(&device)));
    // If another test was faster, the device belongs to someone else as well.
    let is_ours = losetup(&device, Some(&foreign));
    let cleaned = rig::clean_one(&journal).unwrap();
    if is_ours {
        assert!(
            cleaned.leftovers.len() == 1 && cleaned.leftovers[0].contains("another process"),
            "{cleaned:?}"
        );
        let file = format!("/sys/block/{}/loop/backing_file", device.file_name().unwrap().to_str().unwrap());
        assert_eq!(fs::read_to_string(file).unwrap().trim(), foreign.to_str().unwrap());
        assert_eq!(limit_of(&device), Some(LIMIT));
        assert!(losetup(Path::new("--detach"), Some(&device)));
    }
    fs::remove_file(&foreign).unwrap();
    // The limit can be put back once the device is free.
    wait_until(|| rig::clean_one(&journal).is_none_or(|cleaned| cleaned.leftovers.is_empty()));
    assert!(!journal.exists() && limit_of(&device) != Some(LIMIT));
    drop(rig);
}

#[test]
fn disk_rig_killed_during_setup_is_cleaned() {
    xtask::require!(root, loop, fuse, ext4, overlay);
    let mut found = 0;
    for round in 0..30 {
        let words = ["disk", "fs=ext4", "overlay", "over", "over.service=1ms"];
        found += killed_while_built(&words, Duration::from_millis(5 * round)).len();
    }
    assert!(found > 0, "none was killed while it was built");
}

#[test]
fn killed_rig_is_undone_by_its_owner() {
    xtask::require!(root, loop, fuse, ext4, blkio, overlay, bindfs);
    let rig = start(everything());
    let traces = Traces::from_rig(&rig);
    kill(rig.id());
    drop(rig);
    assert_eq!(traces.leftovers(), [""; 0]);
}

/// Variable that makes a test the process of another test. Its value is the file to make when the process hangs.
const HANGS: &str = "SKYE_RIG_HANGS";

#[test]
fn killed_rig_hanging_in_its_own_server_is_undone() {
    xtask::require!(root, fuse);
    if let Some(hangs) = std::env::var_os(HANGS) {
        hang(Path::new(&hangs));
    }
    let hangs = std::env::temp_dir().join(format!("skye-test.hangs-{}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "killed_rig_hanging_in_its_own_server_is_undone"]);
    let mut child = command.env(HANGS, &hangs).stdout(Stdio::null()).spawn().unwrap();
    wait_until(|| hangs.exists());
    fs::remove_file(&hangs).unwrap();
    let own = format!("{}-", child.id());
    let is_own = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&own);
    let journal = rig::list().into_iter().find(is_own).unwrap();
    let traces = Traces { steps: rig::steps(&journal), journal, device: None };
    assert_eq!(rig::clean_one(&traces.journal), None, "it lives");
    assert!(rig::is_mounted(Path::new(traces.steps[0].split(' ').nth(1).unwrap())), "{:?}", traces.steps);
    child.kill().unwrap();
    thread::sleep(Duration::from_millis(100));
    assert!(child.try_wait().unwrap().is_none() && rig::is_live(&traces.journal), "it hangs");
    let cleaned = rig::clean_one(&traces.journal).unwrap();
    assert_eq!((traces.leftovers(), &cleaned.leftovers), (vec![], &vec![]), "{cleaned:?}");
    child.wait().unwrap();
}

/// Lets one thread wait for an answer of another thread, which never comes.
fn hang(hangs: &Path) {
    let faults = rig::fuse::Faults { hang_from_read: Some(1), ..rig::fuse::Faults::default() };
    let fuse = rig::fuse::Fuse::mount(&Spec::fuse().file_bytes(4096), faults).unwrap();
    let file = direct(&fuse.path().join("file"));
    thread::spawn(move || read_blocks(&file, [0]));
    wait_until(|| fuse.counts().hanging > 0);
    File::create_new(hangs).unwrap();
    thread::sleep(Duration::from_secs(3600));
}

#[test]
fn rig_is_removed_on_closed_input_or_sigterm() {
    xtask::require!(root, fuse);
    let spawn = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skye-rig"));
        command.arg("fuse").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (child, PathBuf::from(path_in(&line)))
    };
    let (mut child, path) = spawn();
    assert!(rig::is_mounted(&path));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success() && !path.exists());
    let (mut child, path) = spawn();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap();
    assert!(!path.exists());
}

#[test]
fn rig_with_killed_owner_is_removed() {
    xtask::require!(root, fuse);
    let mut owner = Command::new("sh");
    owner.args(["-c", "exec 3<&0; \"$0\" fuse <&3 & wait", env!("CARGO_BIN_EXE_skye-rig")]);
    let mut owner = owner.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(owner.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let path = PathBuf::from(path_in(&line));
    assert!(rig::is_mounted(&path));
    let held = owner.stdin.take();
    owner.kill().unwrap();
    owner.wait().unwrap();
    wait_until(|| !path.exists());
    drop(held);
}
