//! Users of a device that no list of open files shows, and files with two paths.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicBool;

use super::*;

/// A process that uses a device in an unusual way; `opener.c` has the ways.
pub fn opener(home: &Path, how: &str, device: &Path) -> ChildGuard {
    try_opener(home, how, device).unwrap_or_else(|| panic!("the opener of {} ended", device.display()))
}

/// Does the same; `None` if it cannot use the device.
pub fn try_opener(home: &Path, how: &str, device: &Path) -> Option<ChildGuard> {
    let program = home.join("opener");
    if !program.exists() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/erase/opener.c");
        run_command(Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(source));
    }
    ready(Command::new(&program).arg(how).arg(device))
}

#[test]
fn device_mapped_open_or_registered_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let home = scratch(MIB);
    for (how, message) in
        [("mapped", "mapped"), ("thread", "open"), ("leader", "open"), ("ring", "registered in an io_uring")]
    {
        let process = opener(home.path(), how, &device.path);
        let message = format!("process {} (opener) has {} {message}", process.0.id(), device.name());
        refused(&device, "", &[&message]);
        drop(process);
    }
    device.wait_until_free();
    // A descriptor of `O_PATH` neither reads nor writes.
    let _path = opener(home.path(), "path", &device.path);
    writing(&device.path, &device.id(), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn registered_file_with_misleading_path_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let home = scratch(MIB);
    let node = home.path().join("node");
    run_command(Command::new("cp").arg("-a").args([&device.path, &node]));
    let process = opener(home.path(), "ring", &node);
    fs::remove_file(&node).unwrap();
    // The kernel lists the node by this name from now on.
    fs::write(home.path().join("node (deleted)"), "another file").unwrap();
    refused_as(strict(&device.path, &device.id()), &device, &["rings of io_uring", "cannot be read"]);
    drop(process);
    device.wait_until_free();
}

#[test]
#[ignore = "long"]
fn device_passed_between_processes_is_found_in_use() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let home = scratch(MIB);
    for how in ["chain", "slow-chain"] {
        let process = opener(home.path(), how, &device.path);
        for _ in 0..40 {
            let ran = refused(&device, "", &[]);
            let reasons =
                [format!("(opener) has {} open", device.name()), "exit before their open files".into()];
            assert!(reasons.iter().any(|reason| ran.stderr.contains(reason)), "{ran}");
        }
        drop(process);
    }
    device.wait_until_free();
}

#[test]
fn loop_device_with_open_backing_file_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let file = File::open(&device.image).unwrap();
    refused(&device, "", &[&format!("process {}", std::process::id()), "has its backing file open"]);
    drop(file);
    writing(&device.path, &device.id(), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn overlay_file_is_refused_by_merged_and_upper_path() {
    xtask::require!(root, loop, host, overlay, tmpfs);
    let home = scratch(0);
    let at = |name: &str| home.path().join(name);
    let upper = MountPoint::mount("tmpfs", "skye-test", "size=64m");
    for name in ["lower", "merged"] {
        fs::create_dir(at(name)).unwrap();
    }
    let [files, work] = ["files", "work"].map(|name| upper.path().join(name));
    [&files, &work].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let options =
        format!("lowerdir={},upperdir={},workdir={}", at("lower").display(), files.display(), work.display());
    let merged = at("merged");
    run_command(Command::new("mount").args(["-t", "overlay", "skye-test", "-o", &options]).arg(&merged));
    let _unmount = Undo(|| drop(run_command(Command::new("umount").arg(&merged))));
    // No other device has this size.
    let name = std::ffi::OsStr::from_bytes(b" image\xff ");
    File::create(merged.join(name)).unwrap().set_len(13 * MIB + 4096).unwrap();
    let of_overlay = attach(&[], &merged.join(name));
    let first = Undo(|| detach(&of_overlay));
    let ran = writing(&of_overlay, &device_id(&of_overlay), "").run().did_not_panic().exits(2);
    ran.stderr_contains(&["its backing file is on an overlay or a server, and may have another path"])
        .has_no_result();
    let of_upper = attach(&[], &files.join(name));
    let _second = Undo(|| detach(&of_upper));
    let ran = writing(&of_upper, &device_id(&of_upper), "").run().did_not_panic().exits(2);
    let other = of_overlay.file_name().unwrap().to_str().unwrap();
    ran.stderr_contains(&[&format!("{other} may have the same backing file, by another path")])
        .has_no_result();
    drop(first);
    // A process that has it open by its other path.
    let file = File::open(merged.join(name)).unwrap();
    let ran = writing(&of_upper, &device_id(&of_upper), "").run().did_not_panic().exits(2);
    ran.stderr_contains(&["has a file that may be its backing file, by another path, open"]).has_no_result();
    drop(file);
    writing(&of_upper, &device_id(&of_upper), "--size 4m --dry-run").run().did_not_panic().exits(0);
    assert!(fs::read(files.join(name)).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn unreadable_io_uring_file_list_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let home = scratch(MIB);
    for how in ["mapped-ring", "deleted"] {
        let process = opener(home.path(), how, &device.path);
        let message = ["the rings of io_uring of", "cannot be read", "--allow unreadable-processes"];
        refused_as(strict(&device.path, &device.id()), &device, &message);
        drop(process);
    }
}

#[test]
fn erase_is_refused_if_open_files_are_unreadable() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let file = File::open(&device.path).unwrap();
    // A user namespace lists the descriptors of this process, and does not follow them.
    let program = strict(&device.path, &device.id()).through("unshare", &["--user", "--map-root-user"]);
    refused_as(program, &device, &["the open files of", "cannot be read"]);
    drop(file);
}

#[test]
fn data_written_during_the_second_check_is_kept() {
    xtask::require!(root, loop, host, strace);
    let device = Device::new(48);
    let words = "--erase-signature ext4";
    // Each read takes some milliseconds, so that a writer comes between them.
    let options =
        ["-f", "-qq", "-e", "trace=pread64", "-e", "inject=pread64:delay_enter=4000", "-o", "/dev/null"];
    let program = writing(&device.path, &device.id(), words).through("strace", &options);
    let mut running = program.spawn();
    assert!(running.wait_until(|| is_claimed(&device.path)), "it opens the device for writing");
    device.write(40 * MIB, b"precious");
    let ran = running.wait().did_not_panic().exits(2);
    ran.stderr_contains(&["it was written since the first check"]).has_no_result();
    assert_eq!(&device.contents()[40 * MIB as usize..][..8], b"precious");
}

/// Returns true if any process has a device open for writing.
pub fn is_claimed(device: &Path) -> bool {
    let mut processes = fs::read_dir("/proc").unwrap().flatten();
    processes.any(|process| writes(&process.path(), device))
}

/// Returns true if a process has a file open for writing.
fn writes(process: &Path, file: &Path) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return false };
    descriptors.flatten().any(|descriptor| {
        let is_it = fs::read_link(descriptor.path()).is_ok_and(|path| path == file);
        let information = process.join("fdinfo").join(descriptor.file_name());
        is_it
            && fs::read_to_string(information).is_ok_and(|text| {
                let flags = text.lines().find_map(|line| line.strip_prefix("flags:")).unwrap_or_default();
                i32::from_str_radix(flags.trim(), 8)
                    .is_ok_and(|flags| flags & libc::O_ACCMODE == libc::O_RDWR)
            })
    })
}

#[test]
fn partitions_of_equal_size_have_different_ids() {
    xtask::require!(root, loop, host);
    let device = Device::new(32);
    let (one, two) = (device.partition(1, 1, 8), device.partition(2, 12, 8));
    assert_ne!(device_id(&one), device_id(&two));
    refused_as(writing(&two, &device_id(&one), ""), &device, &["is not its ID"]);
    writing(&two, &device_id(&two), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn writes_past_a_partition_or_a_loop_are_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(32);
    let part = device.partition(1, 1, 16);
    for path in [&device.path, &device.image] {
        // It opens, writes and closes again, so that no list of open files shows it for long.
        let script = format!(
            "echo ready; while :; do printf data | dd of={} bs=4096 seek=2048 conv=notrunc,fsync 2>/dev/null; done",
            path.display()
        );
        let writer = wait_until_ready(Command::new("sh").args(["-c", &script]));
        let before = device.contents();
        let ran = writing(&part, &device_id(&part), "").run().did_not_panic().exits(2);
        ran.stderr_contains(&["skye: cannot erase "]).has_no_result();
        drop(writer);
        assert_eq!(device.contents()[MIB as usize..2 * MIB as usize], before[MIB as usize..2 * MIB as usize]);
    }
    device.wait_until_free();
    let iostats = format!("/sys/class/block/{}/queue/iostats", device.name());
    fs::write(&iostats, "0").unwrap();
    let _on = Undo(|| fs::write(&iostats, "1").unwrap());
    refused_as(
        writing(&part, &device_id(&part), ""),
        &device,
        &["its I/O statistics are disabled", "set queue/iostats"],
    );
}

#[test]
fn loop_partition_with_busy_neighbour_is_refused() {
    xtask::require!(root, loop, host, ext4);
    let device = Device::new(64);
    let (busy, part) = (device.partition(1, 1, 32), device.partition(2, 40, 16));
    mkfs("ext4", &busy);
    let mount = MountPoint::mount("ext4", busy.to_str().unwrap(), "rw");
    let file = File::create(mount.path().join("file")).unwrap();
    let is_over = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                file.write_all_at(&[1; 64 << 10], 0).unwrap();
                file.sync_data().unwrap();
            }
        });
        // Its writes change the file below, so that no other change of it would show.
        let ran = writing(&part, &device_id(&part), "").run();
        is_over.store(true, Ordering::Relaxed);
        ran
    });
    ran.did_not_panic().exits(2).has_no_result().stderr_contains(&[
        "writes to its backing file are unknown",
        "stop the programs that write to the other partitions",
    ]);
    drop(file);
    drop(mount);
    writing(&part, &device_id(&part), "--allow busy").run().did_not_panic().exits(0);
}
