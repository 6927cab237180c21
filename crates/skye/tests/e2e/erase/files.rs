//! The file below a loop device: its path may lead elsewhere, and the kernel itself may use it.

use std::sync::atomic::AtomicBool;

use super::users::{is_claimed, opener, try_opener};
use super::*;

/// Runs a script in a new mount namespace, which ends with it. Returns the first word of its output.
fn in_namespace(home: &Path, script: &str) -> PathBuf {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-ec", script]).current_dir(home);
    run_command(&mut command).trim().into()
}

#[test]
fn backing_file_on_unmounted_overlay_is_refused() {
    xtask::require!(root, loop, host, overlay, tmpfs);
    let home = scratch(0);
    let upper = MountPoint::mount("tmpfs", "skye-test", "size=64m");
    // There, an unrelated mount has the place that sysfs shows.
    let name = format!("skye-test-{}", std::process::id());
    let script = format!(
        "mkdir lower m {up}/upper {up}/work
         mount -t overlay o -o lowerdir=lower,upperdir={up}/upper,workdir={up}/work m
         mkdir -p m/dev/shm; truncate -s 15003648 m/dev/shm/{name}; losetup -f --show m/dev/shm/{name}",
        up = upper.path().display()
    );
    let gone = in_namespace(home.path(), &script);
    let detached = Undo(|| detach(&gone));
    let file = upper.path().join("upper/dev/shm").join(&name);
    let reason =
        format!("its backing file /dev/shm/{name} has no path: the file is deleted, or its mount is gone");
    let ran = writing(&gone, &device_id(&gone), "").run().did_not_panic().exits(2);
    ran.stderr_contains(&[&reason, "use the path of this file on the host"]).has_no_result();
    // A file of that name in the other mount is another file.
    let other = Path::new("/dev/shm").join(&name);
    File::create(&other).unwrap().set_len(15_003_648).unwrap();
    let removed = Undo(|| fs::remove_file(&other).unwrap());
    let ran = writing(&gone, &device_id(&gone), "").run().did_not_panic().exits(2);
    ran.stderr_contains(&[&reason]).has_no_result();
    drop(removed);
    // Its real file is refused as well, and an unrelated one of another size is not.
    let real = attach(&[], &file);
    let second = Undo(|| detach(&real));
    let ran = writing(&real, &device_id(&real), "").run().did_not_panic().exits(2);
    ran.stderr_contains(&["may have the same backing file, by another path"]).has_no_result();
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 0));
    drop(second);
    let free = Device::new(12);
    writing(&free.path, &free.id(), "--dry-run").run().did_not_panic().exits(0);
    drop(detached);
}

#[test]
fn deleted_backing_file_is_refused_with_reason() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let second = device.home.path().join("second");
    fs::rename(&device.image, &second).unwrap();
    writing(&device.path, &device.id(), "--dry-run").run().did_not_panic().exits(0);
    let file = File::open(&second).unwrap();
    fs::remove_file(&second).unwrap();
    let page = || {
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, 0).unwrap();
        page
    };
    let before = page();
    let ran = writing(&device.path, &device.id(), "").run().did_not_panic().exits(2);
    let reason = format!("its backing file {} (deleted) has no path", second.display());
    ran.stderr_contains(&[&reason]).has_no_result();
    assert!(page() == before);
    // A file in memory never had one.
    let home = scratch(MIB);
    // Another test may take the same free device.
    let attached = (0..100).find_map(|_| {
        let free = PathBuf::from(run_command(Command::new("losetup").arg("--find")).trim());
        try_opener(home.path(), "memory", &free).map(|process| (process, free))
    });
    let (_process, free) = attached.unwrap();
    let _detached = Undo(|| detach(&free));
    let ran = writing(&free, &device_id(&free), "").run().did_not_panic().exits(2);
    let ran =
        ran.stderr_contains(&["its backing file /memfd:skye-test (deleted) has no path"]).has_no_result();
    assert!(!ran.stderr.contains("overlay"), "{ran}");
}

#[test]
fn file_of_another_mount_namespace_is_checked() {
    xtask::require!(root, loop, host, tmpfs);
    let home = scratch(0);
    let script = format!(
        "mount -t tmpfs -o size=64m skye-test {home} && truncate -s 14991360 {home}/image && losetup -f {home}/image",
        home = home.path().display()
    );
    let mut command = Command::new("unshare");
    let process = sleeper(command.args(["--mount", "--propagation", "private"]), &script);
    let list = run_command(Command::new("losetup").args(["--noheadings", "--output", "NAME,BACK-FILE"]));
    let image = home.path().join("image").display().to_string();
    let line = list.lines().find(|line| line.contains(&image)).expect("its loop device");
    let device = PathBuf::from(line.split_whitespace().next().unwrap());
    let _detached = Undo(|| detach(&device));
    writing(&device, &device_id(&device), "--dry-run").run().did_not_panic().exits(0);
    drop(process);
}

#[test]
fn other_loop_detached_during_checks_does_not_cause_refusal() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let name = format!("/dev/shm/skye-test-{}-detached", std::process::id());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                File::create(&name).unwrap().set_len(14 * MIB + 512).unwrap();
                let other = attach(&[], Path::new(&name));
                fs::remove_file(&name).unwrap();
                detach(&other);
            }
        });
        let _stopped = Undo(|| stop.store(true, Ordering::Relaxed));
        for _ in 0..xtask::sized(20, 200) {
            writing(&device.path, &device.id(), "--dry-run").run().did_not_panic().exits(0);
        }
    });
}

#[test]
fn swap_file_below_a_loop_is_refused() {
    xtask::require!(root, loop, host, ext4);
    // A file in memory cannot be swap space.
    let disk = Device::new(64);
    mkfs("ext4", &disk.path);
    let mount = MountPoint::mount("ext4", disk.path.to_str().unwrap(), "rw");
    let image = mount.path().join("swap");
    fs::write(&image, vec![1; 23 * MIB as usize]).unwrap();
    run_command(Command::new("chmod").arg("600").arg(&image));
    run_command(Command::new("mkswap").arg("--quiet").arg(&image));
    let device = attach(&[], &image);
    let _detached = Undo(|| detach(&device));
    run_command(Command::new("swapon").args(["--priority", "0"]).arg(&image));
    let _off = Undo(|| drop(run_command(Command::new("swapoff").arg(&image))));
    let program = writing(&device, &device_id(&device), "--erase-signature swap");
    program
        .run()
        .did_not_panic()
        .exits(2)
        .stderr_contains(&["its backing file is swap space"])
        .has_no_result();
}

#[test]
fn file_part_changed_during_second_check_is_refused() {
    xtask::require!(root, loop, host, strace);
    let (home, tools) = (scratch(32 * MIB), scratch(MIB));
    let image = home.path().join("image");
    File::create(&image).unwrap().set_len(20 * MIB).unwrap();
    let limit = (19 * MIB + 4096 * 5).to_string();
    let device = Device { path: attach(&["--sizelimit", &limit], &image), image, home };
    // Each read takes some milliseconds, so that the change comes between them.
    let options =
        ["-f", "-qq", "-e", "trace=pread64", "-e", "inject=pread64:delay_enter=4000", "-o", "/dev/null"];
    let mut running = writing(&device.path, &device.id(), "").through("strace", &options).spawn();
    assert!(running.wait_until(|| is_claimed(&device.path)), "it opens the device for writing");
    drop(opener(tools.path(), "shift", &device.path));
    let ran = running.wait().did_not_panic().exits(2).has_no_result();
    ran.stderr_contains(&["its backing file, offset or size limit changed since the first check"]);
    assert!(fs::read(&device.image).unwrap().iter().all(|byte| *byte == 0));
}
