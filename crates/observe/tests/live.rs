//! Facts from the running system must be consistent, whatever machine this is.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use model::target::Backing;
use observe::{Probe, Root, Snapshot, idle_traffic, machine, near_cpus, settings, target};

#[test]
fn target_mount_and_devices_exist() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount_point = target.mount_point.replace(' ', "\\040");
    assert!(mounts.lines().any(|line| line.split(' ').nth(1) == Some(&mount_point)), "{mount_point}");
    assert!(target.path.starts_with(&target.mount_point));
    assert!(target.space.total_bytes > 0);
    if target.backing != Backing::Devices {
        eprintln!("skipped: {} is on {:?}, not on devices", target.path, target.backing);
        return;
    }
    let diskstats = std::fs::read_to_string("/proc/diskstats").unwrap();
    for device in &target.device_stack {
        let is_counted = diskstats.lines().any(|line| line.split_whitespace().nth(2) == Some(&device.name));
        assert!(is_counted, "{device:?}");
        assert!(device.size_bytes > 0, "{device:?}");
    }
    let names: Vec<_> = target.device_stack.iter().map(|device| &device.name).collect();
    for (position, device) in target.device_stack.iter().enumerate() {
        assert!(device.backing_devices.iter().all(|name| names[position + 1..].contains(&name)), "{names:?}");
    }
    assert!(target.direct_io.is_some());
    let near = near_cpus(&Root::system(), &target);
    assert!(near.is_none_or(|cpus| (1..machine(&Root::system()).cpus_online as usize).contains(&cpus.len())));
}

#[test]
fn probe_counts_own_cpu_time_and_bytes() {
    const BYTES: usize = 4 << 20;
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let mut probe = Probe::open(&Root::system(), &target.device_stack);
    let (numbers, received) = channel();
    let (start, started) = channel();
    let (stop, stopped) = channel::<()>();
    let (done, finished) = channel();
    let worker = std::thread::spawn(move || {
        numbers.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        started.recv().unwrap();
        spin(Duration::from_millis(200));
        done.send(()).unwrap();
        // The thread must live until the last snapshot.
        let _ = stopped.recv();
    });
    probe.watch_thread(received.recv().unwrap());
    let (mut before, mut after) = (probe.new_snapshot(), probe.new_snapshot());
    probe.snapshot(&mut before);
    start.send(()).unwrap();
    let mut file = File::create(directory.path().join("data")).unwrap();
    file.write_all(&vec![7; BYTES]).unwrap();
    file.sync_all().unwrap();
    finished.recv().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    probe.snapshot(&mut after);
    drop(stop);
    worker.join().unwrap();
    let frame = after.frame_since(&before);
    let hides = |word: &str| probe.hidden().iter().any(|source| source.contains(word));
    if !hides("schedstat") {
        let all_ns = frame.workers.cpu_ns + frame.workers.run_queue_ns;
        assert!(frame.workers.cpu_ns > 10_000_000 && all_ns > 150_000_000, "{:?}", frame.workers);
        assert!(after.user_share_since(&before).is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
    if !hides("/proc/self/io") {
        assert!(frame.own_io.write_call_bytes >= BYTES as u64, "{:?}", frame.own_io);
    }
    if !hides("/proc/stat") {
        assert!(frame.cpu.user_ns + frame.cpu.kernel_ns + frame.cpu.idle_ns > 100_000_000, "{:?}", frame.cpu);
    }
    if let Some(device) = frame.devices.first().filter(|_| target.backing == Backing::Devices) {
        assert!(device.written_bytes >= BYTES as u64 && device.writes > 0, "{device:?}");
        assert_eq!(device.name, target.device_stack[0].name);
    }
}

#[test]
fn child_process_io_counts_before_and_after_exit() {
    const BYTES: usize = 8 << 20;
    let mut probe = Probe::open(&Root::system(), &[]);
    if probe.hidden().iter().any(|source| source.contains("/proc/self/io")) {
        eprintln!("skipped: the I/O of this process is hidden");
        return;
    }
    let mut before = probe.new_snapshot();
    probe.snapshot(&mut before);
    let mut child = Command::new("sh")
        .args(["-c", &format!("head -c {BYTES} /dev/zero >/dev/null; echo done; read -r _")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    probe.watch_process(i32::try_from(child.id()).unwrap());
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (mut running, mut ended) = (probe.new_snapshot(), probe.new_snapshot());
    probe.snapshot(&mut running);
    drop(child.stdin.take());
    child.wait().unwrap();
    probe.snapshot(&mut ended);
    probe.forget_threads();
    let mut forgotten = probe.new_snapshot();
    probe.snapshot(&mut forgotten);
    let bytes =
        |snapshot: &Snapshot| (snapshot.own_io.read_call_bytes - before.own_io.read_call_bytes) as usize;
    assert!(bytes(&running) >= BYTES, "{:?}", running.own_io);
    // Other tests of this process read as well, but far less than this.
    assert!(bytes(&ended) < 2 * BYTES && bytes(&forgotten) < 2 * BYTES, "{:?}", ended.own_io);
    assert!(bytes(&ended) >= bytes(&running) && bytes(&forgotten) >= bytes(&ended));
}

fn spin(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

#[test]
fn idle_traffic_covers_requested_time() {
    let directory = tempfile::tempdir().unwrap();
    let target = target(&Root::system(), directory.path()).unwrap();
    let Some(device) = target.top_device() else {
        eprintln!("skipped: no device under {}", target.path);
        return;
    };
    let traffic = idle_traffic(&Root::system(), device, Duration::from_millis(20)).unwrap();
    assert!(traffic.length_ns >= 20_000_000, "{traffic:?}");
}

/// The first line of a run is due after 10 ms; this is the larger part of the work before it.
#[test]
fn system_examination_takes_less_than_50_ms() {
    let directory = tempfile::tempdir().unwrap();
    let shortest = (0..20)
        .map(|_| {
            let start = Instant::now();
            let root = Root::system();
            target(&root, directory.path()).unwrap();
            machine(&root);
            settings(&root);
            start.elapsed()
        })
        .min()
        .unwrap();
    println!("target, machine and settings: {shortest:?}");
    assert!(shortest < Duration::from_millis(50), "{shortest:?}");
}
