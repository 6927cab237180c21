//! `skye clean` removes everything that a kill left, and nothing else.

use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::Signal;

use xtask::sized;

use crate::support::mounts::run;
use crate::support::program::{
    Output, Skye, assert_nothing_left, give_to_other_user, has_marker, leftovers, open_to_all, skye,
};
use crate::support::scratch;

fn program(directory: &Path) -> Skye {
    program_of(directory, 0.1)
}

fn program_of(directory: &Path, seconds_per_test: f64) -> Skye {
    let program = skye().arg("run").arg(directory).arg("--time").arg(seconds_per_test.to_string());
    program.words("--size 16m --files 400 --allow low-space,busy --quiet").words(
        "--test write:seq256k:t2 --test create:dirs=2:levels=2 --test symlink:files=100 --test read:rnd4k",
    )
}

fn clean(directory: &Path) -> Output {
    skye().arg("clean").arg(directory).run().did_not_panic()
}

/// Kills a run once it has made a directory of files, and returns its work directory.
fn killed(directory: &Path, program: Skye) -> PathBuf {
    let mut running = program.spawn();
    let has_files = || {
        let work = leftovers(directory);
        let entries = work.iter().flat_map(|path| fs::read_dir(path).into_iter().flatten().flatten());
        entries.filter(|entry| entry.path().is_dir()).count() > 0
    };
    assert!(running.wait_until(has_files), "the run made no directory");
    running.signal(Signal::KILL);
    assert_eq!(running.wait().signal, Some(9));
    let work = leftovers(directory);
    assert_eq!(work.len(), 1, "{work:?}");
    work.into_iter().next().unwrap()
}

/// Returns everything below a directory that is not a directory.
fn files_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_in(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

#[test]
fn clean_removes_only_own_files_after_random_kills() {
    let home = scratch(64 << 20);
    let precious = scratch(0);
    let outside = precious.path().join("precious");
    fs::write(&outside, "precious").unwrap();
    let started = Instant::now();
    program(home.path()).run().exits(0);
    let lifetime = started.elapsed();
    assert_nothing_left(home.path());

    let mut left_something = 0;
    let kills = sized(8, 50);
    for kill in 0..kills {
        let mut running = program(home.path()).spawn();
        // One instant in each equal part of its life: random ones might all lie where it has no files.
        std::thread::sleep(lifetime.mul_f64((f64::from(kill) + fastrand::f64()) / f64::from(kills)));
        running.signal(Signal::KILL);
        drop(running.wait());
        let work = leftovers(home.path());
        left_something += u32::from(!work.is_empty());
        assert!(work.len() <= 1, "{work:?}");
        // Every other time, something is there that skye did not make.
        let mut planted = Vec::new();
        if let Some(work) = work.first().filter(|_| kill % 2 == 0) {
            let (file, link) = (work.join("notes.txt"), work.join("shortcut"));
            fs::write(&file, "mine").unwrap();
            symlink(&outside, &link).unwrap();
            planted.extend([file, link]);
        }
        let ran = clean(home.path());
        let left: Vec<_> = leftovers(home.path()).iter().flat_map(|work| files_in(work)).collect();
        assert_eq!(left, planted, "kill {kill}\n{ran}");
        for path in &planted {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(ran.stdout.contains(name) || ran.stderr.contains(name), "{name} is not named\n{ran}");
        }
        for work in leftovers(home.path()) {
            fs::remove_dir_all(work).unwrap();
        }
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    assert!(left_something > 0, "no kill hit a run with files");
}

#[test]
fn leftovers_of_a_zombie_run_are_cleaned() {
    let home = scratch(64 << 20);
    let mut running = program_of(home.path(), 30.0).spawn();
    assert!(running.wait_until(|| has_marker(home.path())), "the run made no marker");
    running.signal(Signal::KILL);
    let task = format!("/proc/{}/task", running.id());
    // The first thread may end before the others, which still hold the lock.
    let has_died = || {
        let threads = fs::read_dir(&task).unwrap().flatten();
        let states: Vec<_> =
            threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).collect();
        states.len() == 1 && states[0].contains(") Z ")
    };
    while !has_died() {
        assert!(running.age() < Duration::from_secs(60), "it does not die");
        std::thread::sleep(Duration::from_millis(10));
    }
    let cleaned = clean(home.path());
    assert!(cleaned.stdout.contains("removed"), "{cleaned}");
    assert_nothing_left(home.path());
    assert_eq!(running.wait().signal, Some(9));
}

#[test]
fn killed_mix_is_cleaned() {
    for mix in ["mail", "build", "web"] {
        let home = scratch(256 << 20);
        let words = format!("--time 30 --allow low-space,busy --no-save --test mix:{mix}:t2");
        let mut running = skye().arg("run").arg(home.path()).words(&words).spawn();
        // Files beyond the population are those of a mix that runs.
        let is_running = || {
            let files = leftovers(home.path()).iter().flat_map(|work| files_in(work)).collect::<Vec<_>>();
            let number = |path: &PathBuf| u64::from_str_radix(path.file_name()?.to_str()?.get(1..)?, 16).ok();
            mix == "web" && files.len() > 2000 || files.iter().filter_map(number).any(|number| number > 2000)
        };
        assert!(running.wait_until(is_running), "{mix} makes no files");
        running.signal(Signal::KILL);
        drop(running.wait());
        clean(home.path());
        assert_eq!(leftovers(home.path()), Vec::<PathBuf>::new(), "{mix}");
    }
}

#[test]
fn clean_removes_only_files_that_match_its_name_scheme() {
    let home = scratch(64 << 20);
    let program = skye().arg("run").arg(home.path());
    let program = program
        .words("--files 400 --time 20 --allow low-space,busy --quiet")
        .words("--test create:names=letters-first:kind=symlink:dirs=2:t2 --test mkdir:names=number-first");
    let work = killed(home.path(), program);
    let thread = fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let thread = thread.unwrap();
    let wide = ["f00000190abc", "abc.f00000001", "0123456789abcf00000001", "f00000001-abc", "notes.txt"];
    let mut planted: Vec<_> = wide.iter().map(|name| thread.join(name)).collect();
    for path in &planted {
        fs::write(path, "mine").unwrap();
    }
    // A number with letters may be the name of a file of this run, whoever has made the file.
    fs::write(thread.join("abcf00000001"), "as ours").unwrap();
    let ran = clean(home.path());
    // The marker stays as long as a name of its kind does: its number is beyond those of the run.
    planted.push(work.join("skye-marker"));
    planted.sort();
    assert_eq!(files_in(&work), planted, "{ran}");
    fs::remove_dir_all(&work).unwrap();
}

#[test]
fn live_run_is_not_cleaned() {
    let home = scratch(64 << 20);
    let mut running = program_of(home.path(), 0.7).spawn();
    assert!(running.wait_until(|| has_marker(home.path())), "the run made no marker");
    let mut cleanings = 0;
    while !running.has_ended() && cleanings < 20 {
        let ran = clean(home.path()).exits(0);
        cleanings += 1;
        let message = format!("{}{}", ran.stdout, ran.stderr);
        assert!(running.has_ended() || message.contains("in use"), "{message}");
    }
    assert!(cleanings > 1);
    running.wait().exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn concurrent_runs_in_one_directory_do_not_interfere() {
    let home = scratch(64 << 20);
    let first = program(home.path()).spawn();
    let second = program(home.path()).spawn();
    first.wait().exits(0);
    second.wait().exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn lookalike_directory_of_other_user_is_not_cleaned() {
    xtask::require!(root, user);
    let home = scratch(64 << 20);
    give_to_other_user(home.path());
    open_to_all(home.path());
    // The directory is as similar as possible: a run of that user left it.
    let work = killed(home.path(), program(home.path()).by_other_user());
    let before = files_in(&work);
    let ran = clean(home.path());
    assert_eq!(files_in(&work), before, "{ran}");
    assert!(format!("{}{}", ran.stdout, ran.stderr).contains("another user"), "{ran}");

    // The directory is ours, but its marker is not.
    fs::set_permissions(&work, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(&work, Some(0), Some(0)).unwrap();
    let ran = clean(home.path());
    assert_eq!(files_in(&work), before, "{ran}");
}

#[test]
fn directories_that_only_look_like_ours_are_not_touched() {
    let home = scratch(64 << 20);
    let work = killed(home.path(), program(home.path()));
    let before = files_in(&work);
    let marker = work.join("skye-marker");
    let text = fs::read_to_string(&marker).unwrap();
    let untouched = |why: &str| {
        let ran = clean(home.path());
        assert_eq!(files_in(&work), before, "{why}\n{ran}");
    };

    fs::set_permissions(&work, fs::Permissions::from_mode(0o755)).unwrap();
    untouched("open to others");
    fs::set_permissions(&work, fs::Permissions::from_mode(0o700)).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["host"] = "elsewhere".into();
    fs::write(&marker, value.to_string()).unwrap();
    untouched("another host's");
    fs::write(&marker, &text[..text.len() / 2]).unwrap();
    untouched("a marker that is not whole");
    // Rules that would lead out of the directory, or to everything, lead nowhere.
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["rules"] = serde_json::json!([
        { "prefix": "", "digits": 8, "count": 1_000_000, "inside": null },
        { "prefix": "../", "digits": 4, "count": 1_000_000, "inside": null },
    ]);
    fs::write(&marker, value.to_string()).unwrap();
    untouched("rules without a name");

    // Nothing is reached by a link to the directory either.
    fs::write(&marker, &text).unwrap();
    let elsewhere = scratch(64 << 20);
    symlink(&work, elsewhere.path().join("skye.aaaaaa")).unwrap();
    clean(elsewhere.path()).exits(0);
    assert_eq!(files_in(&work), before);
    clean(home.path()).exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn symlink_target_survives_clean() {
    let home = scratch(64 << 20);
    let work = killed(home.path(), program(home.path()));
    let outside = home.path().join("precious");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "precious").unwrap();
    let ours = files_in(&work).into_iter().find(|path| !path.ends_with("skye-marker")).unwrap();
    fs::remove_file(&ours).unwrap();
    symlink(outside.join("file"), &ours).unwrap();
    let directory =
        fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let directory = directory.unwrap();
    fs::remove_dir_all(&directory).unwrap();
    symlink(&outside, &directory).unwrap();
    clean(home.path());
    assert_eq!(fs::read_to_string(outside.join("file")).unwrap(), "precious");
}

#[test]
fn clean_does_not_cross_mounts() {
    xtask::require!(root, tmpfs);
    let home = scratch(64 << 20);
    let work = killed(home.path(), program(home.path()));
    let directory =
        fs::read_dir(&work).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let directory = directory.unwrap();
    let names = files_in(&directory);
    let mut mount = std::process::Command::new("mount");
    run(mount.args(["-t", "tmpfs", "skye-test.over"]).arg(&directory));
    // These names are the same as ours, but on a different file system.
    for name in &names {
        fs::create_dir_all(name.parent().unwrap()).unwrap();
        fs::write(name, "precious").unwrap();
    }
    let there = files_in(&directory);
    let ran = clean(home.path());
    let still_there = files_in(&directory);
    rig::unmount(&directory);
    assert_eq!(still_there, there, "{ran}");
    clean(home.path()).exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn empty_directory_is_cleaned_only_when_old() {
    let home = scratch(0);
    let empty = home.path().join("skye.a1b2c3");
    fs::DirBuilder::new().mode(0o700).create(&empty).unwrap();
    clean(home.path());
    assert!(empty.exists(), "a run may be starting");
    let old = SystemTime::now() - Duration::from_secs(60);
    File::open(&empty).unwrap().set_modified(old).unwrap();
    clean(home.path()).exits(0);
    assert_nothing_left(home.path());
}

#[test]
fn clean_accepts_empty_and_refuses_missing_directory() {
    let home = scratch(0);
    clean(home.path()).exits(0);
    let missing = home.path().join("missing");
    let ran = clean(&missing);
    assert!(matches!(ran.code, Some(1 | 2)), "{ran}");
    ran.stderr_contains(&[missing.to_str().unwrap(), "No such file or directory"]);
}
