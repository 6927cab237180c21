//! A device that holds anything but zeros and data of skye is refused, whether or not its format is known.

use std::io::Write;

use super::*;

/// Returns a device of zeros.
fn blank(mib: u64) -> Device {
    zeroed(Device::new(mib))
}

fn zeroed(device: Device) -> Device {
    clear(&device, 0, device.size_bytes());
    device
}

fn clear(device: &Device, from: u64, to: u64) {
    let zeros = vec![0; MIB as usize];
    (from..to).step_by(MIB as usize).for_each(|at| device.write(at, &zeros[..(to - at).min(MIB) as usize]));
}

/// A write test without leave to lose unknown data.
fn careful(device: &Device, words: &str) -> Skye {
    let program = skye().arg("run").arg(&device.path).arg("--erase").arg(device.id());
    program.words("--test write:rnd4k --no-probe --time 0.1 --allow busy,unreadable-processes").words(words)
}

#[test]
fn data_without_signature_is_refused_until_it_is_allowed() {
    xtask::require!(root, loop, host);
    let device = blank(40);
    let kinds: [(&str, u64, &[u8]); 7] = [
        ("", 0, b"\x01"),
        ("", 20 * MIB + 4097, b"row of a table"),
        ("", device.size_bytes() - 1, b"\xff"),
        ("sqlite", 0, b"SQLite format 3\0"),
        ("qcow2", 0, b"QFI\xfb\0\0\0\x03"),
        ("vmdk", 0, b"KDMV\x01\0\0\0"),
        ("tar", 257, b"ustar\x0000"),
    ];
    for (name, at, bytes) in kinds {
        device.write(at, bytes);
        let data = format!("has data at byte {}", at / 4096 * 4096);
        let signature = format!("has a signature of {name}");
        let is_named = !name.is_empty();
        let (flag, help) = match is_named {
            true => (format!("--erase-signature {name}"), format!("--erase-signature {name} --erase-data")),
            false => (String::new(), "--erase-data".to_owned()),
        };
        let help = format!("to erase it, add {help}");
        let reasons: &[&str] = if is_named { &[&data, &signature, &help] } else { &[&data, &help] };
        refused_as(careful(&device, ""), &device, reasons);
        // Neither permission is the other one.
        refused_as(careful(&device, &flag), &device, &[&data]);
        if is_named {
            let ran = refused_as(careful(&device, "--erase-data"), &device, &[&signature]);
            assert!(!ran.stderr.contains("has data"), "{ran}");
        }
        let ran = careful(&device, &format!("{flag} --erase-data --size 4m")).run().did_not_panic().exits(0);
        let held = if is_named { format!(": {name}") } else { "unknown data".into() };
        ran.stderr_contains(&["which held ", &held]);
        clear(&device, 0, device.size_bytes());
    }
}

#[test]
fn zeros_and_own_data_need_no_permission() {
    xtask::require!(root, loop, host);
    let device = blank(40);
    let read = size::decimal(device.size_bytes());
    careful(&device, "--dry-run")
        .run()
        .did_not_panic()
        .exits(0)
        .output_contains(&[&format!("which held only zeros ({read} read)")]);
    let tests = [
        "--test write:seq1m --size 100%",
        "--test write:rnd512:q4 --test rw:rnd4k:buffered --size 100%",
        "--test byte-write:ops=9000 --test putc-write:ops=9000 --test fsync:rnd4k",
        "--test write:rnd8k:compress=40 --size 8m",
        "--test write:rnd8k:dedupe=50 --size 8m",
        "--test write:rnd64k:t4",
    ];
    let says = ["only zeros"].into_iter().chain(std::iter::repeat("data of an earlier run of skye"));
    for (words, held) in tests.iter().zip(says) {
        let program = skye().arg("run").arg(&device.path).arg("--erase").arg(device.id()).words(words);
        let ran = program
            .words("--no-probe --time 0.1 --allow busy,unreadable-processes --json -")
            .run()
            .did_not_panic()
            .exits(0);
        let ran = ran.stderr_contains(&[&format!("which held {held} ({read} read)")]);
        let run = parse_document(&ran.stdout);
        let erased = &run["environment"]["target"]["erased"];
        let contents = if held == "only zeros" { "zeros" } else { "earlier_run" };
        assert_eq!(
            (&erased["contents"], &erased["read_bytes"]),
            (&contents.into(), &device.size_bytes().into())
        );
    }
    // One byte of another program among them.
    device.write(30 * MIB + 123, b"x");
    refused_as(careful(&device, ""), &device, &["has data at byte 31457280"]);
}

#[test]
fn skye_blocks_at_other_offsets_count_as_data() {
    xtask::require!(root, loop, host);
    let (device, other) = (blank(16), blank(16));
    careful(&device, "--size 100%").run().did_not_panic().exits(0);
    // A file of skye in a file system has the same blocks at other places.
    other.write(4 * MIB, &device.contents()[..MIB as usize]);
    refused_as(careful(&other, ""), &other, &["has data at byte 4194304"]);
}

#[test]
fn file_system_without_first_superblock_is_named() {
    xtask::require!(root, loop, host, ext4);
    let device = blank(160);
    mkfs("ext4", &device.path);
    clear(&device, 0, MIB);
    let blkid = Command::new("blkid").args(["--probe"]).arg(&device.path).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&blkid.stdout), "");
    refused_as(careful(&device, "--erase-data"), &device, &["has a signature of ext4"]);
    careful(&device, "--erase-data --erase-signature ext4 --size 1m").run().did_not_panic().exits(0);
}

/// Writes a partition table to an image, before a device shows it.
fn sfdisk(image: &Path, script: &str) {
    let mut command = Command::new("sfdisk");
    let mut child = command.arg("--quiet").arg(image).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn partitions_unknown_to_the_kernel_are_reported() {
    xtask::require!(root, loop, host, ext4, sfdisk);
    let home = scratch(80 * MIB);
    let [inner, ext4, image] = ["inner", "ext4", "image"].map(|name| home.path().join(name));
    for (path, mib) in [(&inner, 30), (&ext4, 16), (&image, 64)] {
        File::create(path).unwrap().set_len(mib * MIB).unwrap();
    }
    run_command(Command::new("mkfs.ext4").args(["-qF"]).arg(&ext4));
    let copy = |from: &Path, to: &Path, at: u64| {
        File::options().write(true).open(to).unwrap().write_all_at(&fs::read(from).unwrap(), at).unwrap();
    };
    sfdisk(&inner, "label: gpt\nstart=4MiB, size=16MiB\n");
    copy(&ext4, &inner, 4 * MIB);
    sfdisk(&image, "label: dos\nstart=2MiB, size=16MiB, type=83\nstart=20MiB, size=30MiB, type=83\n");
    copy(&ext4, &image, 2 * MIB);
    copy(&inner, &image, 20 * MIB);
    let device = Device { path: attach(&[], &image), image, home };
    let name = device.name().to_owned();
    let message =
        [2, 20, 24].map(|mib| format!("the partition at byte {} of {name} has a signature of", mib * MIB));
    let reasons =
        [format!("{} ext4", message[0]), format!("{} gpt", message[1]), format!("{} ext4", message[2])];
    let dos = format!("{name} has a signature of dos");
    let reasons: Vec<_> = reasons.iter().chain([&dos]).map(String::as_str).collect();
    refused_as(careful(&device, "--erase-data"), &device, &reasons);
    let words = "--erase-data --erase-signature dos --erase-signature gpt --erase-signature ext4";
    careful(&device, words).run().did_not_panic().exits(0);
}

#[test]
fn fake_tools_on_user_path_are_ignored() {
    xtask::require!(root, loop, host, ext4);
    let device = blank(16);
    mkfs("ext4", &device.path);
    let home = scratch(MIB);
    for name in ["blkid", "wipefs"] {
        let path = home.path().join(name);
        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        run_command(Command::new("chmod").arg("755").arg(&path));
    }
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", home.path().display());
    let program = careful(&device, "--erase-data").env("PATH", path);
    refused_as(program, &device, &["has a signature of ext4"]);
}

#[test]
#[ignore = "long"]
fn ambiguous_size_is_refused_as_device_id() {
    xtask::require!(root, loop, host);
    let (device, other) = (zeroed(Device::with_size(11 * MIB)), zeroed(Device::with_size(11 * MIB)));
    let size = device.size();
    for (device, other) in [(&device, &other), (&other, &device)] {
        let message = format!("{size:?} is not its ID, as {} has the same size", other.name());
        refused_as(writing(&device.path, &size, ""), device, &[&message, "its ID in full", "skye doctor"]);
        let ran = skye().arg("doctor").arg(&device.path).run().did_not_panic();
        ran.output_contains(&[&format!("its ID is {} (same size: {})", device.id(), other.name())]);
    }
    careful(&device, "").run().did_not_panic().exits(0);
    drop(other);
    skye()
        .arg("doctor")
        .arg(&device.path)
        .run()
        .did_not_panic()
        .output_contains(&[&format!("its ID is {size}")]);
}

#[test]
fn any_byte_on_a_device_is_found() {
    xtask::require!(root, loop, host);
    // A device of up to 48 MiB is read whole.
    let device = blank(34);
    for _ in 0..xtask::sized(6, 200) {
        let at = fastrand::u64(..34 * MIB);
        // The last part is read before the places between: data in two blocks may be found in the second one first.
        let room = 4096 - at as usize % 4096;
        let bytes: Vec<u8> = (0..fastrand::usize(1..=room)).map(|_| fastrand::u8(1..)).collect();
        device.write(at, &bytes);
        let flags = ["", "--erase-signature ext4", "--erase-signature gpt --write-limit 1m", "--purge"];
        let words = flags[fastrand::usize(..flags.len())];
        let message = format!("has data at byte {}", at / 4096 * 4096);
        refused_as(careful(&device, words), &device, &[&message]);
        device.write(at, &vec![0; bytes.len()]);
    }
}
