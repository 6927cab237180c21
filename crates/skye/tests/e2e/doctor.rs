//! `skye doctor` looks, says what it saw, and leaves no trace. These tests do not depend on the noise of the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{Output, open_to_all, skye};
use crate::support::scratch;

fn doctor(directory: &Path) -> Output {
    skye().arg("doctor").arg(directory).run().did_not_panic()
}

/// Returns the states of the checks of that name.
fn states<'a>(ran: &'a Output, name: &str) -> Vec<&'a str> {
    let lines = ran.stdout.lines().filter_map(|line| line.strip_prefix("  ")?.split_once("  "));
    let named = lines.filter(|(_, rest)| rest.trim_start().starts_with(&format!("{name} ")));
    let states = named.map(|(state, _)| state.trim());
    states.filter(|state| ["fine", "note", "warn", "unfit"].contains(state)).collect()
}

/// Returns a file system with room for the default run: a sparse file under a loop device, with few inodes and none
/// left to initialise.
fn roomy_ext4() -> LoopFs {
    let options = ["-N", "200000", "-E", "lazy_itable_init=0,lazy_journal_init=1"];
    LoopFs::new("ext4", 8192, &options, "")
}

#[test]
fn healthy_file_system_is_fit_and_unchanged() {
    xtask::require!(root, loop, ext4);
    let ext4 = roomy_ext4();
    let file = ext4.path().join("mine");
    fs::write(&file, "mine").unwrap();
    let state = |path: &Path| {
        let of = fs::metadata(path).unwrap();
        (of.mtime(), of.mtime_nsec(), of.ctime(), of.ctime_nsec(), of.atime(), of.atime_nsec(), of.nlink())
    };
    let entries =
        || -> Vec<_> { fs::read_dir(ext4.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
    let names = entries();
    let before = (state(ext4.path()), state(&file));
    let ran = doctor(ext4.path()).exits(0);
    assert_eq!((state(ext4.path()), state(&file)), before, "{ran}");
    assert_eq!(entries(), names, "{ran}");
    assert!(ran.saved().is_empty(), "{ran}");
    for name in ["access", "plan", "space", "durable"] {
        assert!(matches!(states(&ran, name)[..], ["fine" | "note"]), "{name}\n{ran}");
    }
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("  ") && ran.stdout.contains("\n\n  fit"), "{ran}");
    // Everything is a result, and a pipe gets no colour.
    assert_eq!(ran.stderr, "", "{ran}");
    assert!(!ran.stdout.contains('\x1b') && !ran.stdout.lines().any(|line| line.ends_with(' ')), "{ran}");
}

#[test]
fn device_report_has_identity_contents_and_users() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 64, &["-L", "mine"], "");
    let device = Path::new(ext4.device());
    let size_bytes =
        fs::read_to_string(Path::new("/sys/class/block").join(device.file_name().unwrap()).join("size"));
    let size_bytes = size_bytes.unwrap().trim().parse::<u64>().unwrap() * 512;
    let name = device.file_name().unwrap().to_str().unwrap();
    doctor(device).output_contains(&[
        &format!("serial none, and no WWN; its ID is {size_bytes}"),
        "ext4 \"mine\"",
        &format!("used by {name} is mounted at {}", ext4.path().display()),
    ]);
    // A directory has none of these.
    let ran = doctor(ext4.path());
    assert!(!ran.stdout.contains("used by"), "{ran}");
}

#[test]
fn mount_in_another_namespace_counts_as_use() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 64, &[], "");
    // skye has a namespace without the mount, and this test still has it.
    let script = format!("umount {} && exec \"$0\" doctor {}", ext4.path().display(), ext4.device());
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", &script, env!("CARGO_BIN_EXE_skye")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = format!("is mounted at {} in the mount namespace of process ", ext4.path().display());
    assert!(text.contains(&expected), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn tmpfs_target_is_unfit() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("8g", None);
    let ran = doctor(tmpfs.path()).exits(5);
    assert_eq!(states(&ran, "storage"), ["unfit"], "{ran}");
    ran.output_contains(&[
        "not fit: tmpfs is in memory: results here do not measure storage",
        "choose a directory on a disk",
    ]);
}

#[test]
fn target_that_run_would_refuse_is_unfit() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 4, &[], "");
    let ran = doctor(ext4.path()).exits(5);
    assert_eq!(states(&ran, "plan"), ["unfit"], "{ran}");
    ran.output_contains(&["a run would be refused", "free"]);
}

#[test]
fn nobarrier_mount_option_is_a_warning() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 64, &[], "nobarrier");
    let ran = doctor(ext4.path());
    assert_eq!(states(&ran, "durable"), ["warn"], "{ran}");
    ran.output_contains(&["mounted with nobarrier"]);
}

#[test]
fn preloaded_library_that_disables_syncs_is_reported() {
    let home = scratch(1 << 20);
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let harmless =
        maps.lines().find_map(|line| line.find('/').map(|at| &line[at..]).filter(|p| p.contains("libgcc_s")));
    let Some(harmless) = harmless else {
        xtask::capability::list_skip("doctor", "needs a library to stand for libeatmydata");
        return;
    };
    // doctor knows it by its name; it does nothing here.
    let library = home.path().join("libeatmydata.so");
    fs::copy(harmless, &library).unwrap();
    let ran = skye().arg("doctor").arg(home.path()).env("LD_PRELOAD", &library).run().did_not_panic();
    assert_eq!(states(&ran, "durable"), ["warn"], "{ran}");
    ran.output_contains(&["libeatmydata.so is loaded", "unset LD_PRELOAD"]);
}

#[test]
fn store_that_takes_no_run_is_a_warning() {
    let home = scratch(0);
    let doctor = |state: &str| {
        let program = skye().arg("doctor").arg(home.path()).env("XDG_STATE_HOME", state);
        program.run().did_not_panic()
    };
    let ran =
        doctor("/dev/null").output_contains(&["cannot be saved in /dev/null/skye/runs: Not a directory"]);
    assert_eq!(states(&ran, "saving"), ["warn"], "{ran}");
    let missing = home.path().join("not/yet");
    let ran = doctor(missing.to_str().unwrap());
    assert!(states(&ran, "saving") == ["fine"] || ran.stdout.contains("free for saved runs"), "{ran}");
    assert!(!missing.exists(), "{ran}");
}

#[test]
fn doctor_without_root_lists_what_root_adds() {
    xtask::require!(root, user);
    let home = scratch(0);
    open_to_all(home.path());
    let ran = skye().arg("doctor").arg(home.path()).by_other_user().run().did_not_panic();
    let ran = ran.exits(5).output_contains(&["Permission denied", "root can also", "--cold"]);
    assert_eq!((states(&ran, "access"), states(&ran, "root")), (vec!["unfit"], vec!["note"]), "{ran}");
}

#[test]
fn invalid_doctor_target_is_refused() {
    let home = scratch(0);
    let missing = home.path().join("missing");
    let ran = doctor(&missing).exits(2).stderr_contains(&[
        "skye: cannot use",
        missing.to_str().unwrap(),
        "create it first",
    ]);
    assert_eq!(ran.stdout, "", "{ran}");
    assert!(!missing.exists());
    let file = home.path().join("file");
    fs::write(&file, "precious").unwrap();
    doctor(&file).exits(2).stderr_contains(&[file.to_str().unwrap(), "Not a directory"]);
    let ran = skye().words("doctor sim:disk.toml").run().did_not_panic();
    ran.exits(2).stderr_contains(&["a simulated device does not depend on the machine"]);
    skye().arg("docter").run().exits(2).stderr_contains(&["did you mean `skye doctor`?"]);
}
