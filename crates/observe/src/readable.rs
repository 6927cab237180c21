//! A block device or a file that is only read: its size, the devices under it, and its other users.

use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::holding;
use model::target::{Geometry, Space, TargetKind};
use model::{Target, UserError};
use rustix::fs::{OFlags, SeekFrom, major, minor, seek};
use rustix::io::Errno;

use crate::extents::extents;
use crate::holding::{own_mounts, parts};
use crate::identity::{Identity, direct_io};
use crate::layers::layers_of_device;
use crate::parse::mountinfo::{self, Mount};
use crate::root::Root;
use crate::stack::stack_of_device;
use crate::target::{device_alignment, resolve};

/// Share of a file that was never written from which a note says so.
const NEVER_WRITTEN_MIN: f64 = 0.01;

/// Returns the kind of place that only can be read; `None` for any other.
pub fn kind_of(kind: FileType) -> Option<TargetKind> {
    match kind {
        kind if kind.is_file() => Some(TargetKind::File),
        kind if kind.is_block_device() => Some(TargetKind::Device),
        _ => None,
    }
}

/// Resolves a block device or a file of the running system. Opens it for reading, and reads nothing. Messages call it by
/// its name.
///
/// # Errors
/// It is something else, or this user may not read it.
pub fn readable(root: &Root, word: &Path, name: &str) -> Result<Target, UserError> {
    let (file, path) = open_for_reading(word, name)?;
    let to_error = |error: io::Error| UserError::new(format!("inspect {name}"), error);
    let metadata = file.metadata().map_err(to_error)?;
    let size_bytes = seek(&file, SeekFrom::End(0)).map_err(|errno| to_error(errno.into()))?;
    let space = Space { total_bytes: size_bytes, free_bytes: size_bytes, ..Space::default() };
    let reported = direct_io(file.as_fd());
    if metadata.is_file() {
        let (identity, _) = Identity::from_path(&path)?;
        let mut target = resolve(root, &identity)?;
        target.notes.extend(never_written(&file, size_bytes));
        return Ok(Target {
            kind: TargetKind::File,
            is_writable_by_others: false,
            space,
            direct_io: reported.or(target.direct_io),
            ..target
        });
    }
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let numbers = (major(metadata.rdev()), minor(metadata.rdev()));
    let stack = stack_of_device(root, &mounts, numbers);
    let top = stack.devices.first();
    let users = top.and_then(|device| users(root, &mounts, &device.name));
    let layers = layers_of_device(root, &mounts, &stack);
    let path = path.to_string_lossy().into_owned();
    Ok(Target {
        mount_point: path.clone(),
        device_number: format!("{}:{}", numbers.0, numbers.1),
        source: path.clone(),
        path,
        kind: TargetKind::Device,
        file_system: "block device".into(),
        mount_options: Vec::new(),
        read_only: false,
        is_writable_by_others: false,
        geometry: Geometry::default(),
        space,
        direct_io: reported.or_else(|| device_alignment(stack.backing, top)),
        notes: stack.notes.into_iter().chain(users).collect(),
        user_attributes: None,
        erased: None,
        layers,
        backing: stack.backing,
        device_stack: stack.devices,
    })
}

/// Returns a note on a file whose reads need no device in places.
fn never_written(file: &File, size_bytes: u64) -> Option<String> {
    let found = extents(file.as_fd(), 0..size_bytes)?;
    let share = (found.hole_bytes + found.unwritten_bytes) as f64 / size_bytes.max(1) as f64;
    (share >= NEVER_WRITTEN_MIN).then(|| {
        let percent = (100.0 * share).round();
        format!("{percent} % of the file was never written: reads there measure the file system alone")
    })
}

/// Opens a block device or a file for reading alone, by the path that leads to it without symbolic links.
fn open_for_reading(word: &Path, name: &str) -> Result<(File, PathBuf), UserError> {
    let fail = |error: io::Error| {
        let help = match error.kind() {
            _ if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                "containers have no access to devices: run it outside of one"
            }
            io::ErrorKind::PermissionDenied => {
                "run it as a user with read access, such as root or a member of the group `disk`; with -u or -g, that user needs it"
            }
            io::ErrorKind::NotFound => "lsblk lists block devices",
            _ => "choose a block device or a file",
        };
        UserError::new(format!("open {name}"), error).help(help)
    };
    // Opening can have side effects (a pipe waits for a writer), so the kind is checked first.
    refuse_kind(&word.metadata().map_err(fail)?, name)?;
    let path = word.canonicalize().map_err(fail)?;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(&path).map_err(fail)?;
    // Another may have taken its place.
    refuse_kind(&file.metadata().map_err(fail)?, name)?;
    Ok((file, path))
}

/// Refuses everything that has no places to be read again: all but files and block devices.
fn refuse_kind(metadata: &Metadata, name: &str) -> Result<(), UserError> {
    let kind = metadata.file_type();
    if kind_of(kind).is_some() {
        return Ok(());
    }
    let (what, help) = match kind {
        kind if kind.is_dir() => ("a directory", "choose a file in it, or the block device under it"),
        kind if kind.is_char_device() => ("a character device", "choose a block device; lsblk lists them"),
        kind if kind.is_fifo() => ("a pipe", "use the file or device itself, as in skye zcav - < /dev/sda"),
        _ => ("neither a file nor a block device", "choose one"),
    };
    Err(UserError::new(format!("measure {name}"), format!("it is {what}")).help(help))
}

/// Returns the note on the other users of a device, of its partitions, and of the devices on top of them.
fn users(root: &Root, mounts: &[Mount], name: &str) -> Option<String> {
    let users = holding::uses(&parts(root, &own_mounts(mounts), name));
    (!users.is_empty())
        .then(|| format!("in use: {}; other processes' I/O affects the results", users.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_opens_through_link_and_other_types_do_not() {
        let home = tempfile::tempdir().unwrap();
        let (file, link) = (home.path().join("file"), home.path().join("link"));
        std::fs::write(&file, vec![7; 10_000]).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let readable = |word: &Path| readable(&Root::system(), word, "it");
        let target = readable(&link).unwrap();
        assert_eq!((target.kind, target.space.total_bytes), (TargetKind::File, 10_000));
        assert_eq!(Path::new(&target.path), file.canonicalize().unwrap());
        for (word, cause) in [(home.path(), "a directory"), (Path::new("/dev/null"), "a character device")] {
            let error = readable(word).unwrap_err();
            assert!(error.cause.contains(cause) && error.help.is_some(), "{error}");
        }
        let pipe = home.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert_eq!(readable(&pipe).unwrap_err().cause, "it is a pipe");
        let error = readable(&home.path().join("none")).unwrap_err();
        assert_eq!(error.help.as_deref(), Some("lsblk lists block devices"));
    }
}
