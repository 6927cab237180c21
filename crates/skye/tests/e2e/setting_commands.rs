//! `skye ab DIR --a COMMAND --b COMMAND` on a loop device, whose settings no other test changes.

use std::fs;
use std::path::{Path, PathBuf};

use rig::{Disk, Spec};
use rustix::process::Signal;

use crate::support::program::{Skye, assert_nothing_left, document, has_marker, parse_comparison, skye};

/// A disk with a setting: the bytes that its device reads ahead, in units of 1024.
struct DiskWithSetting {
    disk: Disk,
    read_ahead: PathBuf,
    first: String,
}

impl DiskWithSetting {
    fn new() -> Self {
        let disk = Disk::build(&Spec::disk().file_system("ext4").size_mib(80)).unwrap();
        let device = disk.device().path();
        let name = device.file_name().unwrap();
        let read_ahead = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
        let first = fs::read_to_string(&read_ahead).unwrap();
        Self { disk, read_ahead, first }
    }

    fn ab(&self, words: &str) -> Skye {
        let set = |value: u32| format!("echo {value} > {}", self.read_ahead.display());
        let words =
            format!("--test read:rnd4k:ops=1000 --size 4m --allow low-space,busy,shared-directory {words}");
        skye().arg("ab").arg(self.disk.path()).arg("--a").arg(set(64)).arg("--b").arg(set(512)).words(&words)
    }

    fn now(&self) -> String {
        fs::read_to_string(&self.read_ahead).unwrap()
    }
}

#[test]
fn settings_alternate_on_same_files_and_come_back() {
    xtask::require!(root, loop, ext4);
    let disk = DiskWithSetting::new();
    let plan = disk.ab("--dry-run").run().did_not_panic().exits(0).stdout;
    assert!(plan.contains("A        echo 64 > ") && plan.contains("on the same files"), "{plan}");
    assert_eq!(disk.now(), disk.first);
    let ran = disk.ab("--effect 100% --total 20s").run().did_not_panic().exits(0);
    let ran = ran.output_contains(&["differs", "queue/read_ahead_kb: 64 ", "read-ahead 64 KiB "]);
    assert_eq!(disk.now(), disk.first);
    assert_nothing_left(&disk.disk.path());
    let runs: Vec<_> = ran.saved().iter().map(|path| document(path)).collect();
    let command = |run: &serde_json::Value| run["pairing"]["command"].as_str().unwrap().to_owned();
    assert!(command(&runs[0]) != command(&runs[1]) && command(&runs[0]).starts_with("echo "), "{ran}");
    // Equal files: the same places on the device.
    let places = |run: &serde_json::Value| run["phases"][0]["places"].clone();
    assert_eq!(places(&runs[0]), places(&runs[1]), "{ran}");
}

#[test]
fn limit_of_one_side_is_found_and_removed() {
    xtask::require!(root, loop, ext4, blkio);
    let disk = DiskWithSetting::new();
    let number = disk.disk.device().number().unwrap();
    let file = "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device";
    let limit = format!("echo '{number} 300' > {file}");
    let program = skye().arg("ab").arg(disk.disk.path()).arg("--a").arg("true").arg("--b").arg(&limit);
    let words =
        "--test read:rnd4k --size 4m --time 0.4 --effect 100% --allow low-space,busy,shared-directory";
    let ran =
        program.words(words).words("--fail-on throughput<-50% --format json").run().did_not_panic().exits(4);
    let change = &parse_comparison(&ran.stdout)["rows"][0]["changes"][0];
    assert!(change["ratio"].as_f64().unwrap() < 0.5, "{ran}");
    assert!(!fs::read_to_string(file).unwrap().lines().any(|line| line.starts_with(&format!("{number} "))));
}

#[test]
fn interrupted_commands_leave_first_settings() {
    xtask::require!(root, loop, ext4);
    let disk = DiskWithSetting::new();
    for signal in [Signal::INT, Signal::KILL] {
        let mut running = disk.ab("--effect 0.001% --total 10m").spawn();
        // Its directory is made after the commands are known.
        assert!(running.wait_until(|| has_marker(&disk.disk.path())));
        assert!(running.wait_until(|| disk.now() != disk.first));
        running.signal(signal);
        let ran = running.wait();
        if signal == Signal::INT {
            ran.did_not_panic().exits(130);
        } else {
            let others = disk.ab("").run().did_not_panic().exits(2);
            others.stderr_contains(&["a killed skye ab has left some of them", "skye clean"]);
            let cleaned = skye().arg("clean").arg(disk.disk.path()).run().did_not_panic().exits(0).stdout;
            assert!(disk.now() == disk.first, "{cleaned}");
        }
        assert_eq!(disk.now(), disk.first);
        assert_nothing_left(&disk.disk.path());
    }
}

#[test]
fn failing_command_is_refused_before_anything_is_written() {
    xtask::require!(root, loop, ext4);
    let disk = DiskWithSetting::new();
    let ab = |a: &str, b: &str| {
        let program = skye().arg("ab").arg(disk.disk.path()).arg("--a").arg(a).arg("--b").arg(b);
        program
            .words("--test read:rnd4k:ops=9 --size 4m --allow low-space,shared-directory")
            .run()
            .did_not_panic()
    };
    let set = format!("echo 64 > {}", disk.read_ahead.display());
    ab(&set, "echo no such knob >&2; exit 3")
        .exits(2)
        .stderr_contains(&["cannot run `echo no such knob", "exit status: 3: no such knob"]);
    assert_eq!(disk.now(), disk.first);
    assert_nothing_left(&disk.disk.path());
    let lone = skye().arg("ab").arg(disk.disk.path()).words("--a true").run();
    lone.exits(2).stderr_contains(&["--b <COMMAND>"]);
    let hosts = skye().arg("ab").arg(disk.disk.path()).words("--a true --b true --hosts local").run();
    hosts.exits(2).stderr_contains(&["cannot be used with"]);
}
