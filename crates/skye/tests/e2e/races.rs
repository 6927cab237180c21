//! Another user renames a directory that root has just made, and puts something of value in its place.

use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{RenameFlags, renameat_with};
use rustix::thread::{CpuSet, sched_setaffinity};
use xtask::sized;

use crate::support::mounts::run;
use crate::support::program::skye;
use crate::support::scratch;

/// Name of the directory of value.
const VALUE: &str = "value";
/// Name of the file that ends the attack.
const STOP: &str = "stop";
/// CPU on which both run.
const CPU: usize = 0;
/// Files in the directory of value, under names that skye makes.
const FILES: [&str; 3] = ["skye-marker", "skye-marker.new", "file"];

/// Makes a directory of mode 0700 with files.
fn precious(path: &Path, files: &[&str]) {
    fs::create_dir(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    for file in files {
        fs::write(path.join(file), "precious").unwrap();
    }
}

/// Exchanges every directory that skye makes for [`VALUE`], until a file [`STOP`] is made. Returns the number of
/// exchanges. It runs on the same CPU with real-time priority, so that it comes before the next call of the program
/// that made the directory.
fn attack(directory: &Path, ready: &Barrier) -> usize {
    let mut cpus = CpuSet::new();
    cpus.set(CPU);
    sched_setaffinity(None, &cpus).unwrap();
    let thread = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    run(Command::new("chrt").args(["--fifo", "--pid", "20", &thread]));
    let watcher = inotify::init(CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watcher, directory, WatchFlags::CREATE).unwrap();
    let directory = File::open(directory).unwrap();
    let mut buffer = [const { MaybeUninit::uninit() }; 4096];
    let mut events = inotify::Reader::new(&watcher, &mut buffer);
    ready.wait();
    let mut exchanged = 0;
    loop {
        let event = events.next().unwrap();
        let name = event.file_name().unwrap();
        if name.to_bytes() == STOP.as_bytes() {
            return exchanged;
        }
        if name.to_bytes().starts_with(b"skye.") {
            // The exchange is one call, by existing names.
            let done = renameat_with(&directory, name, &directory, VALUE, RenameFlags::EXCHANGE);
            exchanged += usize::from(done.is_ok());
        }
    }
}

/// Ends the attack when it is dropped, as a test that fails must.
struct Stop<'a>(&'a Path);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        let _ = fs::write(self.0.join(STOP), "");
    }
}

/// Returns the present path of a directory, by its inode.
fn find(directory: &Path, inode: u64) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| fs::symlink_metadata(path).is_ok_and(|about| about.ino() == inode))
}

/// Lets skye make a directory `races` times, while an attacker exchanges it for one with these files. Expects that one
/// to be as it was.
fn nothing_of_others_is_touched(shared: &Path, races: usize, files: &[&str]) {
    let mut refused = 0;
    for race in 0..races {
        let value = shared.join(VALUE);
        precious(&value, files);
        // The kernel's clock for births has ticks.
        thread::sleep(Duration::from_millis(20));
        let before = fs::metadata(&value).unwrap();
        let program =
            skye().arg("run").arg(shared).words("--test stat:files=10 --time 0.01 --no-save --quiet");
        let program = program.words("--allow low-space,busy,shared-directory");
        let ran = program.through("taskset", &["--cpu-list", &CPU.to_string()]).run().did_not_panic();
        let now = find(shared, before.ino());
        let now = now.unwrap_or_else(|| panic!("race {race}: the directory of value is gone\n{ran}"));
        let after = fs::metadata(&now).unwrap();
        let unchanged = |about: &fs::Metadata| (about.mode(), about.mtime(), about.mtime_nsec());
        assert_eq!(unchanged(&after), unchanged(&before), "race {race}\n{ran}");
        for file in files {
            assert_eq!(fs::read_to_string(now.join(file)).unwrap(), "precious", "race {race}: {file}\n{ran}");
        }
        if ran.code == Some(2) {
            refused += 1;
            assert!(ran.stderr.contains("is not the directory that skye created"), "{ran}");
        }
        for entry in fs::read_dir(shared).unwrap().map(Result::unwrap) {
            fs::remove_dir_all(entry.path()).unwrap();
        }
    }
    assert!(refused > 0, "in {races} races nobody was fast enough");
}

#[test]
fn root_ignores_replaced_work_directory() {
    xtask::require!(root);
    let shared = scratch(0);
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let ready = Barrier::new(2);
    let exchanged = thread::scope(|scope| {
        let attacker = scope.spawn(|| attack(shared.path(), &ready));
        ready.wait();
        let stop = Stop(shared.path());
        // An empty directory is as skye would have made it, but older.
        nothing_of_others_is_touched(shared.path(), sized(12, 1000), &FILES);
        nothing_of_others_is_touched(shared.path(), sized(12, 1000), &[]);
        drop(stop);
        attacker.join().unwrap()
    });
    assert!(exchanged > 0);
}

#[test]
fn root_is_refused_if_others_may_rename_work_directory() {
    xtask::require!(root, user);
    let shared = scratch(0);
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let words = "--test stat:files=10 --time 0.05 --allow low-space,busy";
    let run = |more: &str| skye().arg("run").arg(shared.path()).words(words).words(more);
    let path = shared.path().to_str().unwrap();
    run("").run().exits(2).stderr_contains(&[path, "sticky", "--allow shared-directory"]);
    run("--dry-run").run().exits(2);
    run("--allow shared-directory").run().exits(0);
    // Another user only risks files of their own.
    run("").by_other_user().run().exits(0);
    // The originals run in shared directories.
    let bonnie = skye().arg("bonnie++").arg("-d").arg(shared.path()).words("-s 0 -n 1:0:0:1 -u root -q");
    bonnie.run().exits(0).stderr_contains(&["warning", "sticky"]);
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    run("").run().exits(0);
}
