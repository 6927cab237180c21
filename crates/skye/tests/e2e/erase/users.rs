//! Users of a device that no list of open files shows, and files with two paths.

use super::*;

/// A process that uses a device in an unusual way; `opener.c` has the ways.
fn opener(home: &Path, how: &str, device: &Path) -> Killed {
    let program = home.join("opener");
    if !program.exists() {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/erase/opener.c");
        run_command(Command::new("cc").args(["-pthread", "-o"]).arg(&program).arg(source));
    }
    wait_until_ready(Command::new(&program).arg(how).arg(device))
}

#[test]
fn every_way_of_keeping_a_device_open_is_found() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let home = scratch(MIB);
    for (how, said) in [
        ("mapped", "mapped"),
        ("thread", "open"),
        ("leader", "open"),
        ("ring", "registered in a ring of io_uring"),
    ] {
        let process = opener(home.path(), how, &device.path);
        let said = format!("process {} (opener) has {} {said}", process.0.id(), device.name());
        refused(&device, "", &[&said]);
        drop(process);
    }
    device.wait_until_free();
    writing(&device.path, &device.id(), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn file_below_a_loop_that_a_process_has_open_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let file = File::open(&device.image).unwrap();
    refused(&device, "", &[&format!("process {}", std::process::id()), "has its file open"]);
    drop(file);
    writing(&device.path, &device.id(), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn file_of_an_overlay_is_refused_by_both_paths() {
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
    File::create(merged.join("image")).unwrap().set_len(13 * MIB + 4096).unwrap();
    let of_overlay = attach(&[], &merged.join("image"));
    let _first = Undo(|| detach(&of_overlay));
    let ran = writing(&of_overlay, &device_id(&of_overlay), "").run().did_not_panic().exits(2);
    ran.says(&["is on an overlay or a server, where it may have another path"]).has_no_result();
    let of_upper = attach(&[], &files.join("image"));
    let _second = Undo(|| detach(&of_upper));
    let ran = writing(&of_upper, &device_id(&of_upper), "").run().did_not_panic().exits(2);
    let name = of_overlay.file_name().unwrap().to_str().unwrap();
    ran.says(&[&format!("the file of {name} may be that of")]).has_no_result();
    assert!(fs::read(files.join("image")).unwrap().iter().all(|byte| *byte == 0));
}
