//! Places where people measure: small volumes, few inodes, many clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::erase::sleeper;
use crate::support::fuse::{Errno, Faults, Fuse, Missing};
use crate::support::mounts::{LoopFs, run};
use crate::support::program::{Output, assert_nothing_left, document, phases, skye};
use crate::support::scratch;

/// Measures with the preset `quick`, for a short time.
fn quick(directory: &Path, words: &str) -> Output {
    skye().arg("run").arg(directory).words("--preset quick --time 0.2").words(words).run().did_not_panic()
}

/// Asserts that all tests of the preset were measured. A slow machine may cut some short.
#[track_caller]
fn assert_measured(ran: &Output) {
    let run = document(&ran.saved()[0]);
    let states = phases(&run);
    assert_eq!(states.len(), 9, "{ran}");
    assert!(states.iter().all(|(_, state)| ["done", "partial"].contains(state)), "{states:?}\n{ran}");
}

#[test]
fn presets_fit_on_a_small_volume() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 256, &[], "");
    for (name, _) in model::request::PRESETS {
        let words = format!("--preset {name} --dry-run");
        skye().arg("run").arg(ext4.path()).words(&words).run().did_not_panic().exits(0);
    }
}

#[test]
fn quick_preset_runs_with_few_free_inodes() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 256, &["-N", "1024"], "");
    let ran = quick(ext4.path(), "").exits(0).output_contains(&["MiB is small", "as few as 256 files"]);
    assert_measured(&ran);
    assert_nothing_left(ext4.path());
}

#[test]
fn place_of_data_is_in_document_and_evidence() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 256, &[], "");
    let words =
        "--size 8m --time 0.2 --allow low-space,busy --no-probe --test write:rnd4k --test create:files=9";
    let ran = skye().arg("run").arg(ext4.path()).words(words).run().did_not_panic().exits(0);
    let run = document(&ran.saved()[0]);
    let places = run["phases"][0]["places"].as_array().unwrap();
    let bytes = |key: &str| places.iter().map(|place| place[key].as_u64().unwrap()).sum::<u64>();
    assert!((1..=8).contains(&places.len()), "{places:?}");
    assert!((8 << 20..=256 << 20).contains(&(bytes("end_bytes") - bytes("start_bytes"))), "{places:?}");
    assert_eq!(run["phases"][1]["places"].as_array().map(Vec::len), Some(0));
    let saved = ran.saved()[0].display().to_string();
    skye().words("why").arg(&saved).arg("1").run().exits(0).output_contains(&["place ", " MB"]);
}

#[test]
#[ignore = "long"]
fn many_clients_share_a_small_volume() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 1024, &[], "");
    let ran = quick(ext4.path(), "--hosts local*20").exits(0);
    let run = document(&ran.saved()[0]);
    assert!(
        run["phases"].as_array().unwrap().iter().all(|phase| phase["hosts"].as_array().unwrap().len() == 20)
    );
    assert_nothing_left(ext4.path());
}

/// Measures in a file system. Returns the run, with the MiB that were free before it and the fewest while it ran.
pub fn watched(fs: &LoopFs, words: &str) -> (Output, u64, u64) {
    let free_mib = || observe::space(fs.path()).unwrap().free_bytes >> 20;
    let (before_mib, mut least_mib) = (free_mib(), u64::MAX);
    let mut running = skye().arg("run").arg(fs.path()).words(words).spawn();
    running.wait_until(|| {
        least_mib = least_mib.min(free_mib());
        false
    });
    let ran = running.wait().did_not_panic();
    assert_nothing_left(fs.path());
    (ran, before_mib, least_mib)
}

#[test]
fn copy_on_write_keeps_the_space_reserve() {
    xtask::require!(root, loop, btrfs);
    let btrfs = LoopFs::new("btrfs", 1024, &[], "");
    let words = "--size 300m --time 3 --no-probe --test write:rnd64k:q8";
    let (ran, free_mib, least_mib) = watched(&btrfs, words);
    assert!(
        least_mib < free_mib && least_mib > free_mib / 8,
        "{least_mib} of {free_mib} MiB were free\n{ran}"
    );
}

#[test]
fn growing_files_on_xfs_keep_the_space_reserve() {
    xtask::require!(root, loop, xfs);
    for words in [
        "--size 310m --time 0.2 --test write:seq1m:q8",
        "--size 165m --time 0.5 --test write:seq1m:buffered:fresh",
    ] {
        let xfs = LoopFs::new("xfs", 1024, &[], "");
        let (ran, free_mib, least_mib) = watched(&xfs, &format!("--hosts local*2 {words}"));
        let ran = ran.exits(0);
        assert!(least_mib >= free_mib / 4, "{least_mib} of {free_mib} MiB were free\n{ran}");
    }
}

#[test]
fn server_with_short_reads_is_measured() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { read_bytes_max: Some(4096), ..Faults::default() });
    let ran = quick(fuse.path(), "--size 8m --files 50 --verify").exits(0);
    let run = document(&ran.saved()[0]);
    assert_measured(&ran);
    let shorts = run["phases"].as_array().unwrap().iter().filter_map(|phase| phase["short_calls"].as_u64());
    assert!(shorts.sum::<u64>() > 0, "{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn path_into_another_mount_namespace_is_refused() {
    xtask::require!(root, tmpfs);
    let home = scratch(64 << 20);
    let mount = format!("mount -t tmpfs -o size=8m skye-test {}", home.path().display());
    let mut command = Command::new("unshare");
    let inner = sleeper(command.args(["--mount", "--propagation", "private"]), &mount);
    let path = format!("/proc/{}/root{}", inner.0.id(), home.path().display());
    let ran =
        skye().arg("run").arg(path).words("--test create:files=9 --time 0.1").run().did_not_panic().exits(2);
    ran.stderr_contains(&["its absolute path does not lead to it", "nsenter -m"]);
    assert_nothing_left(home.path());
}

#[test]
fn default_data_set_shrinks_to_a_hidden_quota() {
    xtask::require!(root, fuse);
    let faults = Faults { write_error_after: Some((40 << 20, Errno::EDQUOT)), ..Faults::default() };
    let fuse = Fuse::new(faults);
    let words = "--test read:rnd4k:buffered --time 0.2 --no-probe";
    let run = |size: &str| skye().arg("run").arg(fuse.path()).words(words).words(size).run().did_not_panic();
    let ran = run("").exits(0);
    assert_eq!(phases(&document(&ran.saved()[0])), [("read", "done")], "{ran}");
    // A size that the user sets stays.
    run("--size 64m").exits(1).stderr_contains(&["quota", "use a smaller --size"]);
    assert_nothing_left(fuse.path());
}

#[test]
#[ignore = "long"]
fn server_without_rename_statfs_or_sync_is_measured() {
    xtask::require!(root, fuse);
    for missing in [Missing::Rename, Missing::Statfs, Missing::Sync] {
        let fuse = Fuse::new(Faults { missing: Some(missing), ..Faults::default() });
        let ran = quick(fuse.path(), "--size 8m --files 50").exits(0);
        let run = document(&ran.saved()[0]);
        assert_measured(&ran);
        if missing == Missing::Sync {
            let fsync = run["phases"].as_array().unwrap().iter().find(|phase| phase["name"] == "fsync");
            assert_ne!(fsync.unwrap()["verdict"]["trust"], "ok", "{ran}");
        }
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn server_without_fsync_support_fails_only_sync_tests() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { sync_error_after: Some((0, Errno::EOPNOTSUPP)), ..Faults::default() });
    let words = "--size 8m --no-probe --time 0.2 --test read:rnd4k:q4 --test fsync";
    let ran = skye().arg("run").arg(fuse.path()).words(words).run().did_not_panic().exits(1);
    let run = document(&ran.saved()[0]);
    assert_eq!(phases(&run), [("read", "done"), ("fsync", "failed")], "{ran}");
    assert_nothing_left(fuse.path());
}

#[test]
fn marker_recreated_by_server_at_close_is_removed() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { restores_at_close: true, ..Faults::default() });
    let words = "--no-probe --time 0.2 --test stat:files=50";
    skye().arg("run").arg(fuse.path()).words(words).run().did_not_panic().exits(0);
    assert_nothing_left(fuse.path());
}

#[test]
fn sandbox_without_statx_can_be_measured() {
    let home = scratch(64 << 20);
    let program =
        skye().arg("run").arg(home.path()).words("--preset quick --time 0.2 --no-probe --allow busy");
    let ran = program.without_call(libc::SYS_statx).run().did_not_panic().exits(0);
    assert_measured(&ran);
    assert_nothing_left(home.path());
}

#[test]
fn directory_without_read_permission_can_be_measured() {
    xtask::require!(root);
    let home = scratch(64 << 20);
    let drop_box = home.path().join("drop-box");
    std::fs::create_dir(&drop_box).unwrap();
    std::fs::set_permissions(&drop_box, PermissionsExt::from_mode(0o1733)).unwrap();
    let program = skye().arg("run").arg(&drop_box).words("--time 0.2 --no-probe --allow busy --test stat");
    program.by_other_user().run().did_not_panic().exits(0);
    assert_nothing_left(&drop_box);
}

#[test]
fn cpu_time_limit_ends_run_with_saved_results() {
    let home = scratch(64 << 20);
    let program = skye().arg("run").arg(home.path()).words("--time 30 --no-probe --allow busy --test stat");
    let ran = program.within("-t 3").run().did_not_panic().exits(128 + libc::SIGXCPU);
    assert_eq!(ran.saved().len(), 1, "{ran}");
    assert_nothing_left(home.path());
}

#[test]
fn ulimit_on_file_size_and_descriptors_allows_run() {
    let home = scratch(64 << 20);
    let program =
        skye().arg("run").arg(home.path()).words("--preset quick --time 0.2 --no-probe --allow busy");
    // Files of 16,384 blocks of 512 bytes, and 100 open files.
    let ran = program.through("sh", &["-c", "ulimit -f 16384; ulimit -n 100; exec \"$@\"", "sh"]).run();
    let ran = ran
        .did_not_panic()
        .exits(0)
        .output_contains(&["RLIMIT_NOFILE is 100: some counters may be unreadable"]);
    assert_measured(&ran);
    assert_nothing_left(home.path());
}

#[test]
fn slow_file_creation_reduces_number_of_files() {
    xtask::require!(root, fuse);
    // Making the files has 5 s, and 10,000 names take more than 50 s.
    let fuse =
        rig::fuse::Fuse::mount(&rig::Spec::fuse().slots(1).metadata_us(5000), Faults::default()).unwrap();
    let words = "--no-probe --time 0.2 --test stat:files=10k --test rmdir:files=10k";
    let ran = skye().arg("run").arg(fuse.path()).words(words).run().did_not_panic().exits(0);
    let run = document(&ran.saved()[0]);
    for phase in run["phases"].as_array().unwrap() {
        assert_eq!(
            (&phase["status"], &phase["verdict"]["trust"]),
            (&"done".into(), &"suspect".into()),
            "{ran}"
        );
        let files = phase["workload"]["files"].as_u64().unwrap();
        assert!((1..10_000).contains(&files), "{files} files\n{ran}");
    }
    assert_nothing_left(fuse.path());
}

#[test]
fn clean_accepts_modes_forced_by_mount_options() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { mode: Some(0o777), ..Faults::default() });
    let words = "--size 4m --test fsync --allow shared-directory,busy --time";
    let program = || skye().arg("run").arg(fuse.path()).words(words);
    program().arg("0.2").run().did_not_panic().exits(0);
    assert_nothing_left(fuse.path());
    let mut killed = program().arg("60").spawn();
    assert!(killed.wait_until(|| crate::support::program::files_below(fuse.path()).len() > 1));
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    skye().arg("clean").arg(fuse.path()).run().did_not_panic().exits(0);
    assert_nothing_left(fuse.path());
}

#[test]
#[ignore = "long"]
fn full_directory_is_reported_as_cause_of_enospc() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 1024, &["-b", "1024", "-N", "600000", "-O", "^large_dir"], "");
    let words = "--no-save --time 300 --test create:files=400k:names=letters-first";
    let ran = skye().arg("run").arg(ext4.path()).words(words).run().did_not_panic().exits(1);
    ran.stderr_contains(&[
        "No space left on device; the directory itself is full, as space and inodes are free",
    ]);
    assert_nothing_left(ext4.path());
}

#[test]
#[ignore = "long"]
fn quotas_of_subvolumes_limit_the_data_set() {
    xtask::require!(root, loop, btrfs);
    let btrfs = LoopFs::new("btrfs", 2048, &[], "");
    let home = btrfs.path().join("home");
    let btrfs_program = |words: &str| {
        run(Command::new("btrfs").args(words.split(' ')).arg(&home));
    };
    btrfs_program("-q subvolume create");
    run(Command::new("btrfs").args(["quota", "enable"]).arg(btrfs.path()));
    btrfs_program("qgroup limit 600M");
    run(&mut Command::new("sync"));
    let ran = quick(&home, "").exits(0).output_contains(&["a quota limits this subvolume to 600 MiB"]);
    assert_measured(&ran);
    assert_nothing_left(&home);
}

#[test]
fn target_with_a_colon_gets_a_hint() {
    for (words, help) in [
        ("run sim:x", "use ./sim:x for the directory of that name"),
        ("run sim:y", "docs/simulated-devices.md"),
        ("run mix:FILE.toml", "skye run DIR --test mix:FILE.toml"),
        ("read:rnd4k", "skye run DIR --test read:rnd4k"),
        ("run ./none:rnd4k", "create it first"),
    ] {
        let program = skye().words(words);
        std::fs::create_dir(program.home().join("sim:x")).unwrap();
        program.run().did_not_panic().exits(2).stderr_contains(&[help]);
    }
    let program = skye().words("run ./sim:x --dry-run --test fsync");
    std::fs::create_dir(program.home().join("sim:x")).unwrap();
    program.run().did_not_panic().exits(0);
}

#[test]
fn hosts_take_a_quoted_directory_with_a_comma() {
    let home = scratch(64 << 20);
    let directory = home.path().join("a,b");
    std::fs::create_dir(&directory).unwrap();
    let run = |hosts: String| {
        let program = skye().words("run --hosts").arg(hosts);
        program.words("--test fsync --time 0.1 --size 1m --allow low-space,busy").run().did_not_panic()
    };
    let path = directory.to_str().unwrap();
    run(format!("local:\"{path}\"")).exits(0);
    run(format!("local:{path}"))
        .exits(2)
        .stderr_contains(&["a comma ends the directory name", &format!("use local:\"{path}\"")]);
    assert_nothing_left(&directory);
}

#[test]
fn unwritable_store_is_reported_before_measuring() {
    let home = scratch(64 << 20);
    let program = |more: &str| {
        let program = skye().without("XDG_STATE_HOME").env("HOME", "/proc").arg("run").arg(home.path());
        program.words("--test fsync --size 1m --allow low-space,busy").words(more)
    };
    let warning = "cannot save the results: /proc/.local/state/skye/runs";
    let mut running = program("--time 60").stderr(std::process::Stdio::piped()).spawn();
    assert!(running.wait_until(|| crate::support::program::files_below(home.path()).len() > 1));
    running.signal(rustix::process::Signal::INT);
    let ran = running.wait().did_not_panic().exits(130).output_contains(&[
        warning,
        "-o DIR",
        "--json -",
        "--no-save",
    ]);
    let place = |text: &str| ran.stderr.find(text);
    assert!(place(warning) < place("ended by SIGINT"), "{ran}");
    // The document that the user gets, or does not want, needs no store.
    for more in ["--time 0.1 --json -", "--time 0.1 --no-save"] {
        let ran = program(more).run().did_not_panic().exits(0);
        assert!(!ran.stderr.contains("cannot save"), "{ran}");
    }
    assert_nothing_left(home.path());
}

#[test]
fn outer_proc_in_pid_namespace_shows_thread_waits() {
    xtask::require!(root);
    let home = scratch(16 << 20);
    let words = "--test read:rnd4k --size 1m --time 0.5 --no-probe --allow low-space,busy";
    let program = skye().arg("run").arg(home.path()).words(words);
    let ran = program.through("unshare", &["-pf", "--kill-child"]).run().did_not_panic().exits(0);
    let phase = &document(&ran.saved()[0])["phases"][0];
    assert!(phase["budget"]["blocked"].as_f64() > Some(0.0), "{phase:#}");
    assert_nothing_left(home.path());
}

#[test]
fn default_acl_without_owner_rights_is_reported() {
    xtask::require!(root, user, loop, ext4);
    let ext4 = LoopFs::new("ext4", 64, &[], "");
    crate::support::program::give_to_other_user(ext4.path());
    // Version 2; then tag, permissions and ID of owner, group and others.
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions) in [(1_u16, 0_u16), (4, 5), (32, 5)] {
        acl.extend([tag.to_le_bytes(), permissions.to_le_bytes(), [0xff; 2], [0xff; 2]].as_flattened());
    }
    let empty = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(ext4.path(), "system.posix_acl_default", &acl, empty).unwrap();
    let run = skye().arg("run").arg(ext4.path()).words("--test stat:files=5 --time 0.1 --size 1m --no-save");
    let ran = run.by_other_user().run().did_not_panic();
    ran.exits(2).stderr_contains(&["a default ACL or the mount denies access", "setfacl -k"]);
    assert_nothing_left(ext4.path());
}

#[test]
#[ignore = "long"]
fn user_option_saves_results_for_calling_user() {
    xtask::require!(root, user);
    let home = scratch(64 << 20);
    crate::support::program::give_to_other_user(home.path());
    for words in ["bonnie++ -s 4m -r 0 -n 0 -x 2 -d", "getc_putc -s 1m -d"] {
        let user = xtask::capability::OTHER_USER.to_string();
        let ran = skye().words(words).arg(home.path()).arg("-u").arg(user).run().did_not_panic().exits(0);
        let ran = ran.output_contains(&["the full result: skye why"]);
        let runs = if words.contains("-x 2") { 2 } else { 1 };
        assert_eq!(ran.saved().len(), runs, "{words}");
        document(&ran.saved()[0]);
    }
    assert_nothing_left(home.path());
}

#[test]
fn remote_shell_banner_is_printed_once() {
    let home = scratch(64 << 20);
    let run = |launcher: &str| {
        let program = skye().arg("run").arg(home.path()).words("--hosts ada --rsh").arg(launcher);
        let program = program.arg("--remote-skye").arg(env!("CARGO_BIN_EXE_skye"));
        program
            .words("--test fsync --time 0.1 --size 1m --allow low-space,busy,shared-directory")
            .run()
            .did_not_panic()
    };
    let ran = run("sh -c 'echo Welcome to ada; echo Have fun; shift; exec \"$@\"' sh").exits(0);
    assert_eq!(ran.stderr.matches("ada: its shell printed `Welcome to ada Have fun`").count(), 1, "{ran}");
    let ran = run("sh -c 'head -c 70000 /dev/zero | tr \\\\0 x; cat >/dev/null'").exits(2);
    ran.stderr_contains(&["there is no start mark within 64 KiB", "disable that output"]);
    assert_nothing_left(home.path());
}

#[test]
fn container_is_reported_by_one_note() {
    xtask::require!(root, loop, ext4);
    // The file systems of other tests must not stay mounted here when they are over.
    const INSIDE: &str = "for other in $(cut -d' ' -f5 /proc/self/mountinfo | grep skye-rig | grep -vxF \"$KEPT\"); do \
                          umount -l \"$other\"; done; \
                          mount -t proc proc /proc && mount -t tmpfs none /run && touch /run/.containerenv && \
                          mount -t tmpfs none /sys && exec \"$@\"";
    let ext4 = LoopFs::new("ext4", 64, &[], "");
    let inside = |command: &str, words: &str| {
        let program = skye().arg(command).arg(ext4.path()).words(words).env("KEPT", ext4.path());
        program.through("unshare", &["-mpCf", "--kill-child", "sh", "-c", INSIDE, "sh"]).run().did_not_panic()
    };
    let joined = |ran: &Output| ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let report = |text: &str| {
        assert_eq!(text.matches("inside a container: the devices under").count(), 1, "{text}");
        assert!(text.contains("processes outside and the cgroups above are hidden"), "{text}");
        for other in [
            "could not be found",
            "were not found",
            "are not seen",
            "is not seen",
            "are not visible",
            "is not visible",
            "unreadable here",
        ] {
            assert!(!text.contains(other), "{other}: {text}");
        }
    };
    let words = "--test fsync --time 0.1 --size 1m --allow low-space,busy --no-save --no-probe";
    report(&joined(&inside("run", words).exits(0)));
    report(&joined(&inside("doctor", "")));
    assert_nothing_left(ext4.path());
}
