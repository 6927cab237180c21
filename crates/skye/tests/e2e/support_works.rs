//! The test support itself: mounts come and go, and faults arrive where they should.

use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rig::{Rig, Spec};
use rustix::fs::OFlags;

use crate::support::fuse::{Errno, Faults, Fuse};
use crate::support::mounts::{LoopFs, Tmpfs, ZramFs};
use crate::support::program::rig_program;

fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    table.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

fn code(error: &Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_i32)
}

fn loop_file_system_comes_and_goes(file_system: &str, size_mib: u64) {
    let mounted = LoopFs::new(file_system, size_mib, &[], "noatime");
    let (path, device, image) = (mounted.path().to_owned(), PathBuf::from(mounted.device()), mounted.image());
    fs::write(path.join("file"), b"content").unwrap();
    File::open(path.join("file")).unwrap().sync_all().unwrap();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(4) == path.to_str()).unwrap();
    assert!(
        line.contains("noatime") && line.contains(&format!("- {file_system} {}", device.display())),
        "{line}"
    );
    drop(mounted);
    assert!(!is_mounted(&path) && !path.exists() && !image.exists());
    let backing = Path::new("/sys/class/block").join(device.file_name().unwrap()).join("loop/backing_file");
    let still_ours = fs::read_to_string(backing).is_ok_and(|text| text.trim() == image.to_str().unwrap());
    assert!(!still_ours, "{} is still attached", device.display());
}

#[test]
fn ext4_on_loop_is_mounted_and_removed() {
    xtask::require!(root, loop, ext4);
    loop_file_system_comes_and_goes("ext4", 32);
}

#[test]
fn xfs_on_loop_is_mounted_and_removed() {
    xtask::require!(root, loop, xfs);
    loop_file_system_comes_and_goes("xfs", 320);
}

#[test]
fn zram_file_system_reports_held_bytes_and_is_removed() {
    xtask::require!(root, zram, ext4);
    let mounted = ZramFs::new("ext4", 32, &[]);
    let (path, device) = (mounted.path().to_owned(), PathBuf::from(mounted.device()));
    let before = mounted.bytes_held();
    // Half of each page is one byte again and again, and half is noise.
    let mut content = [vec![7; 2048], vec![0; 2048]].concat().repeat(1024);
    let mut random = fastrand::Rng::with_seed(1);
    content.chunks_mut(4096).for_each(|page| random.fill(&mut page[2048..]));
    fs::write(path.join("file"), &content).unwrap();
    File::open(path.join("file")).unwrap().sync_all().unwrap();
    let after = mounted.bytes_held();
    assert!(after.0 - before.0 >= 4 << 20, "{before:?} {after:?}");
    assert!((2 << 20..3 << 20).contains(&(after.1 - before.1)), "{before:?} {after:?}");
    drop(mounted);
    assert!(!is_mounted(&path) && !path.exists() && !device.exists());
}

#[test]
fn tmpfs_has_requested_size_and_unmounts_despite_open_file() {
    xtask::require!(root, tmpfs);
    let mounted = Tmpfs::new("1m", Some(8));
    let path = mounted.path().to_owned();
    let error = fs::write(path.join("large"), vec![1; 2 << 20]).unwrap_err();
    assert_eq!(code(&error), Some(Errno::ENOSPC));
    let error = (0..8).map(|i| File::create(path.join(i.to_string())).map(drop)).find_map(Result::err);
    assert_eq!(code(&error.unwrap()), Some(Errno::ENOSPC));
    let open = File::open(path.join("large")).unwrap();
    drop(mounted);
    assert!(!is_mounted(&path) && !path.exists());
    drop(open);
}

#[test]
fn mount_is_removed_when_its_test_fails() {
    xtask::require!(root, tmpfs);
    let path = std::sync::Mutex::new(PathBuf::new());
    let failed = std::panic::catch_unwind(|| {
        let mounted = Tmpfs::new("1m", None);
        mounted.path().clone_into(&mut path.lock().unwrap());
        std::panic::resume_unwind(Box::new("a failed assertion"));
    });
    let path = path.into_inner().unwrap();
    assert!(failed.is_err() && path.is_absolute() && !is_mounted(&path) && !path.exists());
}

#[test]
fn fuse_fixture_supports_usual_file_operations() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let root = fuse.path().to_owned();
    let directory = root.join("directory");
    fs::create_dir(&directory).unwrap();
    let file = directory.join("file");
    let content: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    fs::write(&file, &content).unwrap();
    assert_eq!(fs::read(&file).unwrap(), content);
    OpenOptions::new().write(true).open(&file).unwrap().sync_data().unwrap();
    assert!(fuse.counts().bytes_written == 300_000 && fuse.counts().syncs == 1, "{:?}", fuse.counts());

    fs::hard_link(&file, directory.join("link")).unwrap();
    symlink("file", directory.join("symlink")).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().nlink(), 2);
    assert_eq!(fs::read(directory.join("symlink")).unwrap(), content);
    fs::rename(&file, root.join("moved")).unwrap();
    assert!(!file.exists());
    assert_eq!(fs::metadata(root.join("moved")).unwrap().len(), 300_000);
    File::options().write(true).open(root.join("moved")).unwrap().set_len(10).unwrap();
    assert_eq!(fs::read(directory.join("link")).unwrap(), content[..10]);
    assert_eq!(code(&fs::remove_dir(&directory).unwrap_err()), Some(Errno::ENOTEMPTY));

    // These are more names than one answer holds, removed while they are listed.
    for i in 0..2000 {
        File::create_new(directory.join(format!("name-{i:08}"))).unwrap();
    }
    for entry in fs::read_dir(&directory).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::remove_dir(&directory).unwrap();

    // An open file outlives its name.
    let mut open = File::open(root.join("moved")).unwrap();
    fs::remove_file(root.join("moved")).unwrap();
    let mut rest = Vec::new();
    open.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, content[..10]);
    drop(open);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);

    drop(fuse);
    assert!(!is_mounted(&root) && !root.exists());
}

#[test]
fn fuse_fixture_injects_the_requested_faults() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { refuse_direct: true, ..Faults::default() });
    let path = fuse.path().join("file");
    let mut direct = OpenOptions::new();
    direct.write(true).create_new(true).custom_flags(OFlags::DIRECT.bits() as i32);
    assert_eq!(code(&direct.open(&path).unwrap_err()), Some(Errno::EINVAL));
    assert!(path.exists(), "Linux makes the file all the same");

    for error in [Errno::ENOSPC, Errno::EDQUOT, Errno::EIO] {
        fuse.set(Faults { write_error_after: Some((64 << 10, error)), ..Faults::default() });
        let mut file = File::create(&path).unwrap();
        file.write_all(&[7; 64 << 10]).unwrap();
        assert_eq!(code(&file.write(&[7]).unwrap_err()), Some(error));
    }
    fuse.set(Faults { read_error_after: Some((0, Errno::EIO)), ..Faults::default() });
    assert_eq!(code(&fs::read(&path).unwrap_err()), Some(Errno::EIO));
    let short = fuse.path().join("short");
    fs::write(&short, [7; 9000]).unwrap();
    fuse.set(Faults { reads_end_at: Some(5000), ..Faults::default() });
    direct = OpenOptions::new();
    let mut file = direct.read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(&short).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9000);
    assert_eq!([4096, 904, 0], [0; 3].map(|_: usize| file.read(&mut [0; 4096]).unwrap()));
    fuse.set(Faults { create_error_after: Some((1, Errno::EDQUOT)), ..Faults::default() });
    File::create_new(fuse.path().join("first")).unwrap();
    assert_eq!(code(&File::create_new(fuse.path().join("second")).unwrap_err()), Some(Errno::EDQUOT));
    fuse.set(Faults { sync_error_after: Some((0, Errno::EIO)), ..Faults::default() });
    assert_eq!(code(&File::create(&path).unwrap().sync_all().unwrap_err()), Some(Errno::EIO));

    let mut faults = Faults::default();
    faults.space.free_bytes = 5 << 20;
    faults.space.free_files = 3;
    fuse.set(faults);
    let space = rustix::fs::statvfs(fuse.path()).unwrap();
    assert_eq!((space.f_bavail * space.f_frsize, space.f_favail), (5 << 20, 3));
}

#[test]
fn fuse_read_hangs_until_released() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let path = fuse.path().join("file");
    fs::write(&path, b"late").unwrap();
    fuse.set(Faults { hang_from_read: Some(1), ..Faults::default() });
    let reader = std::thread::spawn(move || fs::read(path).unwrap());
    while fuse.counts().hanging == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!reader.is_finished());
    fuse.release();
    assert_eq!(reader.join().unwrap(), b"late");
}

#[test]
fn fuse_write_hangs_until_released() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults { hang_after_written: Some(4), ..Faults::default() });
    let path = fuse.path().join("file");
    fs::write(&path, b"soon").unwrap();
    let late = path.clone();
    let writer = std::thread::spawn(move || fs::write(late, b"late").unwrap());
    while fuse.counts().hanging == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!writer.is_finished());
    fuse.release();
    writer.join().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"late");
}

#[test]
fn hung_file_system_is_unmounted_on_drop() {
    xtask::require!(root, fuse);
    let fuse = Fuse::new(Faults::default());
    let path = fuse.path().to_owned();
    fs::write(path.join("file"), b"never").unwrap();
    fuse.set(Faults { hang_from_read: Some(1), ..Faults::default() });
    let mut reader = Command::new("cat").arg(path.join("file")).stdout(Stdio::null()).spawn().unwrap();
    while fuse.counts().hanging == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(fuse);
    assert!(!is_mounted(&path) && !path.exists());
    let _ = reader.wait().unwrap();
}

#[test]
fn skye_binary_runs_as_rig_process() {
    xtask::require!(root, fuse);
    let rig = Rig::start(&rig_program(), Spec::fuse().service_us(2000).file_bytes(4096)).unwrap();
    let path = rig.path().to_owned();
    assert_eq!(fs::read(path.join("file")).unwrap(), [0; 4096]);
    assert!(rig.served().unwrap().quantile_ns(0.0) >= 2_000_000);
    rig.finish().unwrap();
    assert!(!is_mounted(&path) && !path.exists());
}
