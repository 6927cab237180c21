//! `--erase`: a block device is written only if it is named, free and empty. All ways to lose data are refused, and leave
//! every byte as it was.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::size;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::mounts::{MountPoint, run as run_command};
use crate::support::program::{Output, Skye, document, parse_document, skye};
use crate::support::{device_id, scratch};

mod contents;
mod files;
mod users;

const MIB: u64 = 1 << 20;
/// Sectors of 512 bytes in a MiB.
const MIB_SECTORS: u64 = MIB / 512;

/// A loop device over its own file, with room for partitions.
struct Device {
    path: PathBuf,
    image: PathBuf,
    home: tempfile::TempDir,
}

impl Device {
    /// Makes a device full of bytes in which no program knows a signature. It is some pages larger, so that no other device
    /// of this machine has its size.
    fn new(mib: u64) -> Self {
        static PAGES: AtomicU64 = AtomicU64::new(1);
        Self::with_size(mib * MIB + PAGES.fetch_add(1, Ordering::Relaxed) % 250 * 4096)
    }

    fn with_size(bytes: u64) -> Self {
        let home = scratch(bytes);
        let image = home.path().join("image");
        let mebibyte: Vec<u8> = (0..MIB).map(|byte| (byte * 7 % 251 + 1) as u8).collect();
        let file = File::create(&image).unwrap();
        (0..bytes).step_by(MIB as usize).for_each(|at| file.write_all_at(&mebibyte, at).unwrap());
        file.set_len(bytes).unwrap();
        let path = attach(&["--partscan"], &image);
        Self { path, image, home }
    }

    /// Returns its ID: another test may have a loop device of the same size.
    fn id(&self) -> String {
        device_id(&self.path)
    }

    fn size(&self) -> String {
        self.size_bytes().to_string()
    }

    fn size_bytes(&self) -> u64 {
        self.image.metadata().unwrap().len()
    }

    fn write(&self, offset_bytes: u64, bytes: &[u8]) {
        let device = File::options().write(true).open(&self.path).unwrap();
        device.write_all_at(bytes, offset_bytes).unwrap();
        device.sync_all().unwrap();
    }

    /// Adds a partition: this kernel may not know the format of any table.
    fn partition(&self, number: u64, first_mib: u64, mib: u64) -> PathBuf {
        let [number, first, sectors] =
            [number, first_mib * MIB_SECTORS, mib * MIB_SECTORS].map(|number| number.to_string());
        run_command(Command::new("addpart").arg(&self.path).args([&number, &first, &sectors]));
        PathBuf::from(format!("{}p{number}", self.path.display()))
    }

    /// Returns all its contents. A disk and its partitions have separate caches, which are flushed first.
    fn contents(&self) -> Vec<u8> {
        let parts = (1..=2).map(|number| PathBuf::from(format!("{}p{number}", self.path.display())));
        for device in parts.filter(|part| part.exists()).chain([self.path.clone()]) {
            run_command(Command::new("blockdev").arg("--flushbufs").arg(device));
        }
        fs::read(&self.image).unwrap()
    }

    fn exclusive(&self) -> std::io::Result<File> {
        File::options().read(true).custom_flags(libc::O_EXCL).open(&self.path)
    }

    /// Waits until it has no user: the kernel removes a mount namespace or a killed process later.
    fn wait_until_free(&self) {
        let since = Instant::now();
        while let Err(error) = self.exclusive() {
            assert!(since.elapsed() < Duration::from_secs(60), "{error}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the first page of the backing file, past the cache of the device.
    fn first_page(&self) -> [u8; 4096] {
        let mut page = [0; 4096];
        File::open(&self.image).unwrap().read_exact_at(&mut page, 0).unwrap();
        page
    }

    fn name(&self) -> &str {
        self.path.file_name().unwrap().to_str().unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        detach(&self.path);
    }
}

fn attach(options: &[&str], file: &Path) -> PathBuf {
    let text = run_command(Command::new("losetup").args(options).args(["--find", "--show"]).arg(file));
    text.trim().into()
}

/// Detaches a device from its file, once: the next device of this name belongs to another test.
fn detach(device: &Path) {
    let status = Command::new("losetup").arg("--detach").arg(device).status();
    let is_detached = status.is_ok_and(|status| status.success());
    assert!(is_detached || std::thread::panicking(), "{} is detached already", device.display());
}

/// Undoes something when it is dropped.
struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A process that is killed when it is dropped.
pub struct ChildGuard(pub Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell that says when it is ready, and then sleeps.
pub fn sleeper(before: &mut Command, script: &str) -> ChildGuard {
    let words = format!("{script} && echo ready && exec sleep 1000");
    wait_until_ready(before.args(["sh", "-c", &words]))
}

/// Starts a program, and waits until it says that it is ready.
fn wait_until_ready(command: &mut Command) -> ChildGuard {
    ready(command).unwrap_or_else(|| panic!("{command:?} ended"))
}

/// Does the same; `None` if the program ends before.
fn ready(command: &mut Command) -> Option<ChildGuard> {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 5];
    let is_ready = std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).is_ok();
    Some(ChildGuard(child)).filter(|_| is_ready)
}

/// A write test on a target, which is short unless the words say otherwise. Unknown data may be lost, and processes of this
/// machine whose files cannot be read do not use it.
fn writing(target: &Path, id: &str, words: &str) -> Skye {
    let time = if words.contains("--time") { "" } else { "--time 0.1" };
    let program = skye().arg("run").arg(target).arg("--erase").arg(id).words("--test write:rnd4k --no-probe");
    program.words("--erase-data --allow unreadable-processes").words(time).words(words)
}

/// A write test that is refused where files of a process cannot be read.
fn strict(target: &Path, id: &str) -> Skye {
    let words = "--test write:rnd4k --no-probe --time 0.1 --erase-data --allow busy";
    skye().arg("run").arg(target).arg("--erase").arg(id).words(words)
}

/// Asserts that a run is refused for these reasons, and that no byte of the device changes.
#[track_caller]
fn refused_as(program: Skye, device: &Device, reasons: &[&str]) -> Output {
    let before = device.contents();
    let ran = program
        .run()
        .did_not_panic()
        .exits(2)
        .stderr_contains(&["skye: cannot erase "])
        .stderr_contains(reasons)
        .has_no_result();
    assert!(device.contents() == before, "bytes have changed\n{ran}");
    ran
}

#[track_caller]
fn refused(device: &Device, words: &str, reasons: &[&str]) -> Output {
    refused_as(writing(&device.path, &device.id(), words), device, reasons)
}

fn mkfs(file_system: &str, device: &Path) {
    let words: &[&str] = match file_system {
        "ext4" => &["-qF", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
        _ => &["-qf"],
    };
    run_command(Command::new(format!("mkfs.{file_system}")).args(words).arg(device));
}

#[test]
fn device_is_written_verified_and_released() {
    xtask::require!(root, loop, host);
    let device = Device::new(1024);
    let words = "--test write:rnd4k:q8 --test read:rnd4k:q8 --test fsync:rnd4k --test rw:rnd4k:t2:buffered \
                 --test byte-write:ops=9000 --test putc-write:ops=9000 --test read:seq1m:zones=128m \
                 --test read:range=100m..200m --verify --allow busy --json -";
    let program = skye()
        .arg("run")
        .arg(&device.path)
        .arg("--erase")
        .arg(device.id())
        .words("--erase-data --allow unreadable-processes --time 0.3")
        .words(words);
    let ran = program.run().did_not_panic().exits(0);
    let (path, bytes) = (device.path.display(), device.size_bytes());
    let size = format!("{}, {bytes} bytes", size::decimal(bytes));
    let announced = format!("erases {path} ({size}), which held unknown data: all its data is lost");
    ran.output_contains(&[&announced]);
    let program = skye()
        .arg("run")
        .arg(&device.path)
        .arg("--erase")
        .arg(device.id())
        .words("--preset quick --time 0.3 --no-probe --erase-data --allow unreadable-processes");
    let ran = program.words("--size 64m --allow busy --json -").run().did_not_panic().exits(0);
    let run = parse_document(&ran.stdout);
    let specs: Vec<_> =
        run["phases"].as_array().unwrap().iter().map(|phase| phase["spec"].as_str().unwrap()).collect();
    assert_eq!(
        specs,
        ["write:seq1m:q8", "read:seq1m:q8", "read:rnd4k:q32", "write:rnd4k:q32", "read:rnd4k", "fsync:rnd4k"]
    );
    let target = &run["environment"]["target"];
    assert_eq!((&target["kind"], &target["erased"]["size_bytes"]), (&"device".into(), &bytes.into()));
    assert!(run["plan"]["notes"].to_string().contains("is erased: all its data is lost"), "{ran}");
    // Nothing is left open.
    device.exclusive().unwrap();
    assert_eq!(fs::read_dir(device.home.path()).unwrap().count(), 1);
}

/// Returns the phases of a run that ended well.
#[track_caller]
fn done_phases(run: &Value) -> &Vec<Value> {
    let phases = run["phases"].as_array().unwrap();
    for phase in phases {
        assert_eq!(phase["status"], "done", "{}: {}", phase["spec"], phase["reason"]);
    }
    phases
}

#[test]
fn all_reads_after_device_writes_are_verified() {
    xtask::require!(root, loop, host);
    let device = Device::with_size(66 * MIB);
    let before = device.contents();
    let words =
        "--test write:rnd4k:q8 --test read:rnd4k:q8:ops=2000 --test read:seq64k:buffered:ops=100 --verify";
    let program = skye()
        .arg("run")
        .arg(&device.path)
        .arg("--erase")
        .arg(device.id())
        .words("--erase-data --allow unreadable-processes")
        .words(words);
    let ran = program
        .words("--time 0.3 --size 100% --allow busy --no-probe --json -")
        .run()
        .did_not_panic()
        .exits(0);
    let run = parse_document(&ran.stdout);
    let phases = done_phases(&run);
    assert!(phases[0]["app_bytes_written"].as_u64() > Some(0), "{ran}");
    let verified: Vec<_> = phases.iter().map(|phase| phase["verified_blocks"].as_u64().unwrap()).collect();
    assert_eq!(verified, [0, 2000, 100], "{ran}");
    assert!(phases.iter().all(|phase| phase["workload"]["size_bytes"] == 66 * MIB), "{ran}");
    // It is laid out whole, so that no byte of before is left.
    let after = device.contents();
    let pages = || before.chunks(4096).zip(after.chunks(4096));
    assert_eq!(pages().filter(|(before, after)| before == after).count(), 0);
    // Damage is found, as in a file.
    let words = "--size 16m --test read:rnd4k:q4 --verify --time 20 --no-probe --allow busy";
    let mut running = skye()
        .arg("run")
        .arg(&device.path)
        .arg("--erase")
        .arg(device.id())
        .words("--erase-data --allow unreadable-processes")
        .words(words)
        .spawn();
    let last = || {
        let mut page = [0; 4096];
        File::open(&device.image).unwrap().read_exact_at(&mut page, 16 * MIB - 4096).unwrap();
        page
    };
    let of_before = last();
    assert!(running.wait_until(|| last() != of_before), "it is laid out");
    let image = File::options().write(true).open(&device.image).unwrap();
    (0..256).for_each(|page| image.write_all_at(b"damage", page * 4096 + 100).unwrap());
    running.wait().did_not_panic().exits(3).output_contains(&["differs"]);
}

#[test]
fn partition_write_leaves_neighbours_unchanged() {
    xtask::require!(root, loop, host, ext4);
    let device = Device::new(48);
    let (first, second) = (device.partition(1, 1, 16), device.partition(2, 20, 16));
    mkfs("ext4", &first);
    let mount = MountPoint::mount("ext4", first.to_str().unwrap(), "ro");
    let before = device.contents();
    let program = writing(&second, &device_id(&second), "--test read:rnd4k --verify --allow busy --json -");
    let ran = program.run().did_not_panic().exits(0);
    done_phases(&parse_document(&ran.stdout));
    let after = device.contents();
    let (from, to) = ((20 * MIB) as usize, (36 * MIB) as usize);
    assert!(before[..from] == after[..from] && before[to..] == after[to..], "{ran}");
    assert!(before[from..to] != after[from..to], "{ran}");
    // The whole disk and the mounted partition are refused, with all reasons at once.
    for target in [&device.path, &first] {
        let mounted = format!("{}p1 is mounted at {}", device.name(), mount.path().display());
        let signed = format!("{}p1 has a signature of ext4", device.name());
        let program = writing(target, &device_id(target), "");
        refused_as(program, &device, &[&mounted, &signed, "--erase-signature ext4", "unmount"]);
    }
    let program = writing(&device.path, &device.id(), "--erase-signature ext4");
    refused_as(program, &device, &["is mounted at"]);
}

#[test]
fn mounted_device_is_refused_in_any_namespace() {
    xtask::require!(root, loop, host, ext4);
    let device = Device::new(32);
    mkfs("ext4", &device.path);
    let mount = MountPoint::mount("ext4", device.path.to_str().unwrap(), "ro");
    refused(&device, "--erase-signature ext4", &[&format!("is mounted at {}", mount.path().display())]);
    // A partition of a disk that is mounted as a whole.
    let part = device.partition(1, 8, 8);
    let program = writing(&part, &device_id(&part), "--erase-signature ext4");
    refused_as(program, &device, &[&format!("its disk {} is mounted at", device.name())]);
    drop(mount);

    let home = scratch(0);
    let mounts = format!("mount -o ro {} {}", device.path.display(), home.path().display());
    let other = sleeper(Command::new("unshare").args(["--mount", "--propagation", "private"]), &mounts);
    refused(&device, "--erase-signature ext4", &["in the mount namespace of process"]);
    drop(other);
    device.wait_until_free();
    writing(&device.path, &device.id(), "--erase-signature ext4 --allow busy").run().did_not_panic().exits(0);
}

#[test]
fn hidden_mount_is_detected_by_exclusive_open() {
    xtask::require!(root, loop, host, ext4);
    let device = Device::new(32);
    mkfs("ext4", &device.path);
    let mounted = scratch(0);
    let script = "mount -o ro \"$1\" \"$2\" && echo mounted && read end";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).args([&device.path, mounted.path()]);
    let mut shell = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "mounted\n");
    // An open file keeps a mount namespace in which no process lives.
    let namespace = File::open(format!("/proc/{}/ns/mnt", shell.id())).unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
    refused(&device, "--erase-signature ext4", &["the kernel or a program has it open exclusively"]);
    let part = device.partition(1, 8, 8);
    let message = "the kernel or a program has it open exclusively";
    refused_as(writing(&part, &device_id(&part), "--erase-signature ext4"), &device, &[message]);
    drop(namespace);
    device.wait_until_free();
}

#[test]
fn swap_space_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(32);
    let part = device.partition(1, 8, 8);
    for used in [&part, &device.path] {
        run_command(Command::new("mkswap").arg("--quiet").arg(used));
        run_command(Command::new("swapon").args(["--priority", "0"]).arg(used));
        let off = Undo(|| drop(run_command(Command::new("swapoff").arg(used))));
        let name = used.file_name().unwrap().to_str().unwrap();
        // The kernel may write pages there at any time, but never to the header.
        let header = || {
            let mut bytes = [0; 4096];
            std::io::Read::read_exact(&mut File::open(used).unwrap(), &mut bytes).unwrap();
            bytes
        };
        let before = header();
        let ran =
            writing(&device.path, &device.id(), "--erase-signature swap").run().did_not_panic().exits(2);
        ran.stderr_contains(&["skye: cannot erase ", &format!("{name} is swap space")]);
        assert!(header() == before, "the header has changed");
        drop(off);
        refused(&device, "", &["has a signature of swap; to erase it, add --erase-signature swap"]);
    }
}

#[test]
fn device_below_loop_device_is_refused_by_any_path() {
    xtask::require!(root, loop, host);
    let device = Device::new(32);
    let part = device.partition(1, 8, 8);
    let node = device.home.path().join("node");
    let numbers = fs::read_to_string(format!("/sys/class/block/{}/dev", device.name())).unwrap();
    let (major, minor) = numbers.trim().split_once(':').unwrap();
    run_command(Command::new("mknod").arg(&node).args(["b", major, minor]));
    // The last one shares the file below, and lies on nothing that sysfs knows.
    for (below, message) in [
        (&device.path, "is on"),
        (&node, "is on"),
        (&part, "is on"),
        (&device.image, "the same backing file"),
    ] {
        let above = attach(&[], below);
        let attached = Undo(|| detach(&above));
        refused(&device, "", &[above.file_name().unwrap().to_str().unwrap(), message]);
        if below != &part {
            refused_as(writing(&part, &device_id(&part), ""), &device, &[message]);
        }
        drop(attached);
    }
    // And one that is on another device has to be that one.
    let above = attach(&[], &device.path);
    let attached = Undo(|| detach(&above));
    let program = writing(&above, &device_id(&above), "");
    refused_as(program, &device, &["it is a loop device on another device: choose that one"]);
    drop(attached);
}

#[test]
fn device_open_in_another_process_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(32);
    let part = device.partition(1, 8, 8);
    for (held, flags) in [(&device.path, libc::O_EXCL), (&device.path, 0), (&part, libc::O_EXCL), (&part, 0)]
    {
        let file = File::options().read(true).custom_flags(flags).open(held).unwrap();
        let message = format!("has {} open", held.file_name().unwrap().to_str().unwrap());
        refused(&device, "", &[&format!("process {}", std::process::id()), &message]);
        refused_as(writing(&part, &device_id(&part), ""), &device, &[&message]);
        drop(file);
    }
    // A neighbour does not matter.
    let neighbour = device.partition(2, 20, 8);
    let file = File::options().read(true).custom_flags(libc::O_EXCL).open(&neighbour).unwrap();
    writing(&part, &device_id(&part), "--allow busy").run().did_not_panic().exits(0);
    drop(file);
}

#[test]
fn sandbox_that_hides_directories_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(8);
    let open = File::open(&device.path).unwrap();
    let id = device.id();
    for program in [strict(&device.path, &id), writing(&device.path, &id, "--allow busy")] {
        let program = program.without_call(libc::SYS_getdents64);
        refused_as(program, &device, &[" cannot be read: Operation not permitted"]);
    }
    drop(open);
}

/// Returns the checksum of bytes with the polynomial of Ethernet, as GPT and LVM have it.
fn crc32(first: u32, bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    bytes.iter().fold(first, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Puts bytes into others.
fn put(all: &mut [u8], at: usize, bytes: &[u8]) {
    all[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A label of LVM2 in the second sector (lib/format_text/layout.h).
fn lvm() -> (u64, Vec<u8>) {
    let mut label = vec![0; 512];
    put(&mut label, 0, b"LABELONE");
    put(&mut label, 8, &1u64.to_le_bytes());
    put(&mut label, 20, &32u32.to_le_bytes());
    put(&mut label, 24, b"LVM2 001");
    put(&mut label, 32, b"0123456789abcdefghijABCDEFGHIJ01");
    let crc = crc32(0xf597_a6cf, &label[20..]);
    put(&mut label, 16, &crc.to_le_bytes());
    (512, label)
}

/// A superblock of md of version 1.2 (`struct mdp_superblock_1` in linux/raid/md_p.h).
fn md() -> (u64, Vec<u8>) {
    let mut superblock = vec![0; 512];
    put(&mut superblock, 0, &0xa92b_4efcu32.to_le_bytes());
    put(&mut superblock, 4, &1u32.to_le_bytes());
    put(&mut superblock, 16, &[7; 16]);
    put(&mut superblock, 72, &1u32.to_le_bytes());
    put(&mut superblock, 92, &2u32.to_le_bytes());
    put(&mut superblock, 144, &8u64.to_le_bytes());
    (4096, superblock)
}

/// A header of LUKS (LUKS1 On-Disk Format Specification, figure 1).
fn luks() -> (u64, Vec<u8>) {
    let mut header = vec![0; 592];
    put(&mut header, 0, b"LUKS\xba\xbe\0\x01aes");
    put(&mut header, 40, b"xts-plain64");
    put(&mut header, 72, b"sha256");
    put(&mut header, 168, b"8f3a8a9e-7f1a-4b0c-9a55-0123456789ab");
    (0, header)
}

/// A GPT without partitions, with its protective MBR (UEFI specification, 5.3).
fn gpt(mib: u64) -> (u64, Vec<u8>) {
    let mut table = vec![0; 34 * 512];
    let last = mib * MIB_SECTORS - 1;
    put(&mut table, 446, &[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    put(&mut table, 458, &(last as u32).to_le_bytes());
    put(&mut table, 510, &[0x55, 0xaa]);
    let mut header = vec![0; 92];
    put(&mut header, 0, b"EFI PART\0\0\x01\0");
    put(&mut header, 12, &92u32.to_le_bytes());
    for (at, value) in [(24, 1), (32, last), (40, 34), (48, last - 33), (72, 2)] {
        put(&mut header, at, &u64::to_le_bytes(value));
    }
    put(&mut header, 56, &[9; 16]);
    put(&mut header, 80, &128u32.to_le_bytes());
    put(&mut header, 84, &128u32.to_le_bytes());
    put(&mut header, 88, &(!crc32(!0, &table[1024..])).to_le_bytes());
    let crc = !crc32(!0, &header);
    put(&mut header, 16, &crc.to_le_bytes());
    put(&mut table, 512, &header);
    (0, table)
}

/// A table of partitions as of DOS, with one entry.
fn dos() -> (u64, Vec<u8>) {
    let mut table = vec![0; 512];
    put(&mut table, 446, &[0, 0, 2, 0, 0x83, 0xff, 0xff, 0xff, 0, 8, 0, 0, 0, 64, 0, 0]);
    put(&mut table, 510, &[0x55, 0xaa]);
    (0, table)
}

#[test]
fn signature_is_refused_until_it_is_named() {
    xtask::require!(root, loop, host);
    let formats = [
        ("LVM2_member", lvm()),
        ("linux_raid_member", md()),
        ("crypto_LUKS", luks()),
        ("gpt", gpt(16)),
        ("dos", dos()),
    ];
    for (name, (at, bytes)) in formats.into_iter().take(xtask::sized(2, usize::MAX)) {
        let device = Device::new(16);
        device.write(at, &bytes);
        let blkid =
            run_command(Command::new("blkid").args(["--probe", "--output", "export"]).arg(&device.path));
        let known = [format!("TYPE={name}"), format!("PTTYPE={name}")];
        assert!(blkid.lines().any(|line| known.contains(&line.to_owned())), "{name}: {blkid}");
        let message = format!("{} has a signature of {name}", device.name());
        refused(&device, "", &[&message, &format!("to erase it, add --erase-signature {name}")]);
        refused(&device, "--erase-signature ext4", &[&message]);
        // The name is the whole name.
        refused(&device, &format!("--erase-signature {}", &name[..name.len() - 1]), &[&message]);
        let ran =
            writing(&device.path, &device.id(), &format!("--erase-signature {name} --allow busy")).run();
        let ran =
            ran.did_not_panic().exits(0).stderr_contains(&[&format!("which held {}: {name}", device.name())]);
        let run = document(&ran.saved()[0]);
        assert_eq!(
            run["environment"]["target"]["erased"]["signatures"][0],
            format!("{}: {name}", device.name())
        );
    }
}

#[test]
fn each_signature_needs_its_own_option() {
    xtask::require!(root, loop, host, ext4, xfs);
    let large = Device::new(320);
    mkfs("xfs", &large.path);
    refused(&large, "", &["has a signature of xfs", "--erase-signature xfs"]);
    let device = Device::new(32);
    mkfs("ext4", &device.path);
    refused(&device, "", &["has a signature of ext4"]);
    // The label of an LVM member that once was there. blkid itself calls this ambivalent.
    let (at, bytes) = lvm();
    device.write(at, &bytes);
    let both = "to erase it, add --erase-signature LVM2_member --erase-signature ext4";
    refused(&device, "", &["a signature of LVM2_member", "a signature of ext4", both]);
    let ran = refused(&device, "--erase-signature ext4", &["a signature of LVM2_member"]);
    assert!(!ran.stderr.contains("of ext4"), "{ran}");
    let ran = refused(&device, "--erase-signature LVM2_member", &["a signature of ext4"]);
    assert!(!ran.stderr.contains("of LVM2_member"), "{ran}");
    // Signatures of partitions count, each by its name.
    let disk = Device::new(32);
    let parts = [disk.partition(1, 1, 8), disk.partition(2, 10, 8)];
    parts.iter().for_each(|part| mkfs("ext4", part));
    let (at, bytes) = gpt(32);
    disk.write(at, &bytes);
    let name = disk.name();
    let [one, two] = [1, 2].map(|number| format!("{name}p{number} has a signature of ext4"));
    refused(&disk, "--erase-signature gpt", &[&one, &two]);
    refused(&disk, "--erase-signature ext4", &[&format!("{name} has a signature of gpt")]);
    let words = "--erase-signature gpt --erase-signature ext4 --allow busy";
    writing(&disk.path, &disk.id(), words).run().did_not_panic().exits(0);
}

#[test]
fn erase_without_blkid_or_wipefs_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    for program in ["blkid", "wipefs"] {
        let script =
            format!("mount --bind /dev/null \"$(readlink -f \"$(command -v {program})\")\" && exec \"$@\"");
        let hidden = writing(&device.path, &device.id(), "");
        let hidden = hidden.through("unshare", &["--mount", "sh", "-c", &script, "sh"]);
        refused_as(hidden, &device, &["the contents of", program, "util-linux"]);
    }
}

#[test]
fn erase_id_must_match_device_in_full() {
    xtask::require!(root, loop, host);
    // No other test has a device of these sizes, so each is an ID.
    let (device, other) = (Device::with_size(37 * MIB), Device::with_size(19 * MIB));
    let size = device.size();
    let text = |word: &str| format!("{word:?} is not its ID");
    for id in [
        &other.size(),
        &size[..4],
        "37m",
        "38797312B",
        "038797312",
        " 38797312",
        "38797312 ",
        "",
        "0x2500000",
        device.name(),
    ] {
        let ran = refused_as(
            writing(&device.path, id, ""),
            &device,
            &[&text(id), "its size in bytes in full", "skye doctor"],
        );
        // The answer is not in the refusal.
        assert!(id.contains(&size) || !ran.stderr.contains(&size), "{ran}");
    }
    // A link leads where it leads, and the ID decides.
    let link = device.home.path().join("link");
    symlink(&other.path, &link).unwrap();
    let leads = format!("cannot erase {} (given as {})", other.path.display(), link.display());
    refused_as(writing(&link, &size, ""), &other, &[&leads, &text(&size)]);
    let ran = writing(&link, &other.id(), "--allow busy").run().did_not_panic().exits(0);
    ran.stderr_contains(&[&format!("erases {} (", other.path.display())]);
    // The whole device cannot be asked for beyond its end, nor more than may be written.
    let before = device.contents();
    for (words, message) in [
        ("--size 38m", "its size is 37 MiB; use a smaller --size"),
        ("--size 10m --write-limit 1m", "use --write-limit"),
        ("--test create", "a block device, not a directory"),
        ("--test write:fresh", "fresh is for files that skye creates"),
    ] {
        let ran = writing(&device.path, &size, words).run().did_not_panic().exits(2);
        ran.stderr_contains(&[message]).has_no_result();
        assert!(device.contents() == before, "{words}");
    }
    // A preset may be anybody's.
    let preset = device.home.path().join("mine.toml");
    fs::write(&preset, format!("tests = [\"write:rnd4k\"]\nerase = \"{size}\"\n")).unwrap();
    let ran = skye().arg("run").arg(&device.path).arg("--preset").arg(&preset).run().did_not_panic().exits(2);
    ran.stderr_contains(&["requires its ID on the command line"]).has_no_result();
    assert!(device.contents() == before);
    // A plan asks the same questions, and writes nothing.
    let ran = writing(&device.path, &size, "--dry-run").run().did_not_panic().exits(0);
    ran.output_contains(&[
        &format!("erases {} (38.8 MB, 38797312 bytes)", device.path.display()),
        "--erase ID --preset FILE.toml",
    ]);
    let ran = writing(&device.path, "1", "--dry-run").run().did_not_panic().exits(2);
    ran.stderr_contains(&["is not its ID"]).has_no_result();
    assert!(device.contents() == before);
}

#[test]
fn device_write_without_erase_option_is_refused() {
    xtask::require!(root, loop);
    let device = Device::new(16);
    let before = device.contents();
    for test in ["write:rnd4k", "rewrite:rnd4k", "rw:rnd4k", "fsync", "byte-write", "putc-write"] {
        let ran =
            skye().arg("run").arg(&device.path).words("--time 0.1 --test").arg(test).run().did_not_panic();
        let doctor = format!("with the ID that `skye doctor {}` prints", device.path.display());
        ran.exits(2).stderr_contains(&["which skye only reads", "--erase ID", &doctor]).has_no_result();
    }
    let words = "--test read:rnd4k --erase-signature ext4";
    let ran = skye().arg("run").arg(&device.path).words(words).run().did_not_panic().exits(2);
    ran.stderr_contains(&["--erase-signature requires --erase"]).has_no_result();
    assert!(device.contents() == before);
}

#[test]
fn only_a_writable_block_device_is_erased() {
    xtask::require!(root, loop, host);
    let home = scratch(MIB);
    let file = home.path().join("file");
    fs::write(&file, vec![7; 65536]).unwrap();
    for target in [&file, home.path()] {
        let ran = writing(target, "65536", "").run().did_not_panic().exits(2);
        ran.stderr_contains(&["--erase is for block devices only"]).has_no_result();
    }
    assert_eq!(fs::read(&file).unwrap(), vec![7; 65536]);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    for target in ["/dev/zero", "/dev/tty"] {
        let ran = writing(Path::new(target), "0", "").run().did_not_panic().exits(2);
        ran.stderr_contains(&["cannot use", "Not a directory, a file or a block device"]).has_no_result();
    }
    let device = Device::new(16);
    run_command(Command::new("blockdev").arg("--setro").arg(&device.path));
    refused(&device, "", &["it is read-only", "blockdev --setrw"]);
    run_command(Command::new("blockdev").arg("--setrw").arg(&device.path));
    writing(&device.path, &device.id(), "--allow busy").run().did_not_panic().exits(0);
}

#[test]
fn erase_with_restricted_proc_or_sys_is_refused() {
    xtask::require!(root, loop, host);
    let device = Device::new(16);
    let scripts = [
        ("mount -t proc -o hidepid=2 proc /proc", "/proc is mounted with hidepid="),
        ("mount --bind /dev/null /proc/swaps", "/proc/swaps is covered by a mount"),
        ("mount -t tmpfs none /proc/1", "/proc/1 is covered by a mount"),
        ("mount -t tmpfs none /sys/class/block", "/sys/class/block is covered by a mount"),
        ("mount -t tmpfs none /sys/dev", "/sys/dev is covered by a mount"),
    ];
    let among = |options: &[&str], script: &str| {
        let program = strict(&device.path, &device.id());
        let words = format!("{script} && exec \"$@\"");
        program.through("unshare", &[options, &["sh", "-c", &words, "sh"]].concat())
    };
    for (script, message) in scripts {
        // Some hide the device itself, which is a refusal of its own.
        let before = device.contents();
        let ran = among(&["--mount"], script)
            .run()
            .did_not_panic()
            .exits(2)
            .stderr_contains(&["skye: cannot "])
            .has_no_result();
        assert!(ran.stderr.contains(message) || ran.stderr.contains("it is not in sysfs"), "{script}\n{ran}");
        assert!(device.contents() == before, "{script}\n{ran}");
    }
    let own = "this PID namespace hides processes";
    refused_as(among(&["--pid", "--fork", "--mount-proc"], "true"), &device, &[own, "on the host itself"]);
    refused_as(among(&["--pid", "--fork"], "true"), &device, &[own]);
    // A mount namespace alone hides nothing.
    among(&["--mount"], "true").words("--allow unreadable-processes").run().did_not_panic().exits(0);
}

#[test]
fn erase_by_unprivileged_user_is_refused() {
    xtask::require!(root, loop, host, user);
    let device = Device::new(16);
    run_command(Command::new("chmod").arg("666").arg(&device.path));
    let program = strict(&device.path, &device.id()).by_other_user();
    let reasons = ["the open files of", "processes cannot be read", "add --allow unreadable-processes"];
    refused_as(program, &device, &reasons);
}

#[test]
fn device_is_held_during_run_and_released_by_signal() {
    xtask::require!(root, loop, host, ext4);
    let device = Device::new(32);
    let page = device.first_page();
    let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129), (Signal::KILL, 137)];
    for (signal, code) in signals {
        device.write(0, &page);
        let mut running = writing(&device.path, &device.id(), "--time 600 --allow busy").spawn();
        assert!(running.wait_until(|| device.first_page() != page), "it writes");
        assert_eq!(device.exclusive().unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert!(!Command::new("mkfs.ext4").arg("-qF").arg(&device.path).output().unwrap().status.success());
        let second = writing(&device.path, &device.id(), "").run().did_not_panic().exits(2);
        second.stderr_contains(&[&format!("process {} (skye) has {} open", running.id(), device.name())]);
        running.signal(signal);
        let ran = running.wait().did_not_panic().exits(code);
        match signal {
            Signal::KILL => device.wait_until_free(),
            _ => drop(ran.stderr_contains(&["the device keeps what was written to it"])),
        }
        assert!(device.exclusive().is_ok());
    }
    assert_eq!(fs::read_dir(device.home.path()).unwrap().count(), 1, "no marker, no directory");
}

#[test]
fn device_path_is_opened_for_writing_once() {
    xtask::require!(root, loop, host, strace);
    let device = Device::new(32);
    let trace = device.home.path().join("trace");
    let words = "--test read:rnd4k:q8 --test byte-write:ops=99 --test putc-write:ops=99 --test rw:buffered --allow busy";
    let program = writing(&device.path, &device.id(), words);
    let options = ["-f", "-qq", "-e", "trace=open,openat,openat2", "-o", trace.to_str().unwrap()];
    program.through("strace", &options).run().did_not_panic().exits(0);
    let text = fs::read_to_string(&trace).unwrap();
    let path = format!("\"{}\"", device.path.display());
    let opens: Vec<_> = text.lines().filter(|line| line.contains(&path)).collect();
    let writes = opens.iter().filter(|line| line.contains("O_RDWR") || line.contains("O_WRONLY"));
    let writes: Vec<_> = writes.collect();
    assert!(
        writes.len() == 1 && writes[0].contains("O_EXCL") && writes[0].contains("O_NOFOLLOW"),
        "{opens:#?}"
    );
    // All that the tests do goes through that descriptor, or a copy of it.
    let is_again = |line: &&str| line.contains("\"/proc/self/fd/") && !line.contains("/proc/self/fd/0\"");
    let again: Vec<_> = text.lines().filter(is_again).collect();
    let writes = again.iter().filter(|line| line.contains("O_RDWR") || line.contains("O_WRONLY")).count();
    assert!(writes >= 5 && again.len() > writes, "{again:#?}");
}
