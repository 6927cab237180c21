//! Files and devices that zcav reads or writes: opens them, looks at them, and keeps them from harm.

use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use engine::buffer::AlignedBuffer;
use family::zcav::arguments::{Options, Target};
use family::zcav::{Layout, MIB, Refusal, Verb};
use model::Trouble;
use rustix::fs::{FlockOperation, OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, flock, fstatvfs, seek};
use rustix::io::Errno;

/// Bytes that are compared with zeros at once.
const COMPARED_BYTES: usize = 1 << 20;
/// Share of a file system's space that writing over holes leaves free.
const FREE_SHARE: f64 = 0.05;

/// Way in which a file is read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Past the page cache.
    Direct,
    /// Through the page cache.
    Cached,
    /// Zeros, each chunk made durable.
    Zeros,
}

/// An open file or device.
#[derive(Debug)]
pub struct Opened {
    /// Name of the target, as it was given.
    pub name: String,
    /// File for the results; `None`: stdout.
    pub log: Option<PathBuf>,
    /// Descriptor of the target.
    pub file: OwnedFd,
    /// Way in which it is read or written.
    pub way: Way,
    /// Blocks to visit.
    pub layout: Layout,
    /// Notes that should be known before its numbers are read.
    pub notes: Vec<String>,
    /// Device and inode of the file.
    identity: (u64, u64),
    /// Bytes of the visited range that lie nowhere yet.
    lacking_bytes: u64,
}

/// Reason why a target cannot be measured.
#[derive(Debug)]
pub enum Refused {
    /// The target is too small for what was asked.
    TooSmall(Trouble),
    /// Any other reason.
    Other(Trouble),
}

impl From<Trouble> for Refused {
    fn from(trouble: Trouble) -> Self {
        Self::Other(trouble)
    }
}

impl Opened {
    /// Opens a target. If the target is to be written to, looks through it first. Writes nothing yet.
    ///
    /// # Errors
    /// The message says what the target is, and what to name instead.
    pub fn open(target: &Target, options: &Options) -> Result<Self, Refused> {
        let name =
            if target.is_stdin() { "stdin".into() } else { target.path.to_string_lossy().into_owned() };
        // Opened anew by its descriptor, stdin has an offset and flags of our own.
        let path = if target.is_stdin() { Path::new("/proc/self/fd/0") } else { &target.path };
        let (file, is_direct) = open(path, &name, options.writes)?;
        let metadata = file.metadata().map_err(|error| Trouble::new(format!("look at {name}"), error))?;
        refuse_kind(&metadata, &name)?;
        let size_bytes = size_bytes(&file, &metadata, &name)?;
        let layout = Layout::of(options, &name, size_bytes).map_err(|refusal| match refusal {
            Refusal::TooSmall(trouble) => Refused::TooSmall(trouble),
            Refusal::TooMany(trouble) => Refused::Other(trouble),
        })?;
        let mut notes = Vec::new();
        if let Some(end_mib) = options.end_mib.filter(|end_mib| end_mib.saturating_mul(MIB) > size_bytes) {
            notes.push(format!("{name}: it ends before MiB {end_mib}, at {} MiB", size_bytes.div_ceil(MIB)));
        }
        let way = if options.writes {
            refuse_writing(&file, &metadata, &name, &layout)?;
            notes.push(format!(
                "{name}: zeros are written over zeros and holes from MiB {} to {}, each chunk made durable",
                layout.start_bytes / MIB,
                layout.end_bytes.div_ceil(MIB)
            ));
            Way::Zeros
        } else if is_direct && takes_direct(&file, &layout) {
            Way::Direct
        } else {
            notes.push(format!(
                "{name}: direct I/O is not taken here, so it is read through the page cache, whose pages of it are dropped \
                 before each pass"
            ));
            Way::Cached
        };
        if way != Way::Zeros && metadata.is_file() {
            notes.extend(holes(&file, &name, &layout));
        }
        let identity = (metadata.dev(), metadata.ino());
        let lacking_bytes = lacking_bytes(&file, &metadata, &layout);
        let (log, file) = (target.log.clone(), file.into());
        Ok(Self { name, log, file, way, layout, notes, identity, lacking_bytes })
    }

    /// Returns the verb for the work on the target.
    pub fn verb(&self) -> Verb {
        if self.way == Way::Zeros { Verb::Wrote } else { Verb::Read }
    }

    /// Returns true if that name leads to this file.
    pub fn is(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }
}

/// Opens a file for reading, and for writing if `writes`. Returns the file, and true if it is open for direct I/O.
fn open(path: &Path, name: &str, writes: bool) -> Result<(File, bool), Trouble> {
    let attempt = || format!("open {name}");
    let fail = |error: std::io::Error| {
        let remedy = match error.kind() {
            _ if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                "containers are kept from devices: start it outside of one"
            }
            std::io::ErrorKind::PermissionDenied if writes => {
                "name a file that this user may write, or leave -w away"
            }
            std::io::ErrorKind::PermissionDenied => {
                "start it as a user who may read it, such as root or one of the group `disk`; -u and -g count here, too"
            }
            std::io::ErrorKind::NotFound => "lsblk lists block devices",
            _ => "name a block device or a file",
        };
        Trouble::new(attempt(), error).remedy(remedy)
    };
    // Opening can have effects of its own (a pipe waits for a writer), so the kind is checked first.
    refuse_kind(&path.metadata().map_err(fail)?, name)?;
    if writes && path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device()) {
        return Err(device_is_not_written(name));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(writes);
    let open = |flags: OFlags| options.clone().custom_flags(flags.bits() as i32).open(path);
    if writes {
        return open(OFlags::empty()).map(|file| (file, false)).map_err(fail);
    }
    match open(OFlags::DIRECT) {
        Ok(file) => Ok((file, true)),
        Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
            open(OFlags::empty()).map(|file| (file, false)).map_err(fail)
        }
        Err(error) => Err(fail(error)),
    }
}

/// Refuses everything that has no places to be read again: all but files and block devices.
fn refuse_kind(metadata: &Metadata, name: &str) -> Result<(), Trouble> {
    let kind = metadata.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(());
    }
    let (what, remedy) = match kind {
        kind if kind.is_dir() => ("a directory", "name a file in it, or the block device under it"),
        kind if kind.is_char_device() => ("a character device", "name a block device; lsblk lists them"),
        kind if kind.is_fifo() => ("a pipe", "name the file or device itself, as in skye zcav - < /dev/sda"),
        _ => ("no file and no block device", "name one"),
    };
    Err(Trouble::new(format!("measure {name}"), format!("it is {what}")).remedy(remedy))
}

fn device_is_not_written(name: &str) -> Trouble {
    Trouble::new(
        format!("write zeros to {name}"),
        "it is a block device, and -w would destroy what is on it; devices are not written for now",
    )
    .remedy("leave -w away, or name a file of zeros in a file system on it, made by: fallocate -l 10g FILE")
}

fn size_bytes(file: &File, metadata: &Metadata, name: &str) -> Result<u64, Trouble> {
    if metadata.is_file() {
        return Ok(metadata.len());
    }
    seek(file, SeekFrom::End(0))
        .map_err(|errno| Trouble::new(format!("find the end of {name}"), std::io::Error::from(errno)))
}

/// Returns true unless a first direct read is refused. After a refusal, the descriptor uses the page cache. Some file
/// systems let a file be opened for direct I/O, but refuse each read.
fn takes_direct(file: &File, layout: &Layout) -> bool {
    let mut buffer = AlignedBuffer::new(engine::buffer::ALIGNMENT);
    let is_refused = rustix::io::pread(file, buffer.bytes_mut(), layout.start_bytes) == Err(Errno::INVAL);
    if is_refused && let Ok(flags) = fcntl_getfl(file) {
        let _ = fcntl_setfl(file, flags.difference(OFlags::DIRECT));
    }
    !is_refused
}

/// Returns the note about parts that lie nowhere, if there are any.
fn holes(file: &File, name: &str, layout: &Layout) -> Option<String> {
    let nowhere_bytes = nowhere_bytes(file, layout)?;
    let mib = |bytes: u64| model::numbers::thousands(bytes.div_ceil(MIB));
    (nowhere_bytes > 0).then(|| {
        format!(
            "{name}: {} of {} MiB were never written: the file system answers with zeros from memory there, and no device is \
             read",
            mib(nowhere_bytes),
            mib(layout.end_bytes - layout.start_bytes)
        )
    })
}

/// Returns the visited bytes that lie nowhere; `None` where the file system does not tell.
fn nowhere_bytes(file: &File, layout: &Layout) -> Option<u64> {
    let until = |end_bytes| {
        observe::extents(file.as_fd(), end_bytes).map(|found| found.hole_bytes + found.unwritten_bytes)
    };
    Some(until(layout.end_bytes)?.saturating_sub(match layout.start_bytes {
        0 => 0,
        start_bytes => until(start_bytes)?,
    }))
}

/// Refuses a file in which writing zeros would change anything, or that somebody else uses.
fn refuse_writing(file: &File, metadata: &Metadata, name: &str, layout: &Layout) -> Result<(), Trouble> {
    let attempt = || format!("write zeros to {name}");
    if !metadata.is_file() {
        return Err(device_is_not_written(name));
    }
    let another = "name a file of zeros, made by: fallocate -l 10g FILE";
    if flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(
            Trouble::new(attempt(), "it is locked: by another program, or it is named twice").remedy(another)
        );
    }
    if let Some(device) = loop_device_over(metadata) {
        return Err(Trouble::new(attempt(), format!("it lies under {device}")).remedy(another));
    }
    // Data that is still under way to the device may look like a hole.
    file.sync_all().map_err(|error| Trouble::new(format!("make {name} durable"), error))?;
    let first = first_data(file, layout.start_bytes, layout.end_bytes)
        .map_err(|error| Trouble::new(format!("look for data in {name}"), error))?;
    if let Some(offset_bytes) = first {
        return Err(Trouble::new(
            attempt(),
            format!("it holds data, first at offset {offset_bytes}, which would be lost"),
        )
        .remedy(another));
    }
    if let Some(program) = opened_by_another(metadata) {
        return Err(Trouble::new(attempt(), format!("{program} has it open")).remedy(another));
    }
    Ok(())
}

/// Refuses to write over holes if there is no room for those of all files together.
///
/// # Errors
/// The message says what the files need on a file system, and what it has.
pub fn refuse_room(all: &[Opened]) -> Result<(), Trouble> {
    let written: Vec<_> = all.iter().filter(|opened| opened.way == Way::Zeros).collect();
    for (index, opened) in written.iter().enumerate() {
        let is_same = |other: &&&Opened| other.identity.0 == opened.identity.0;
        if written[..index].iter().any(|other| is_same(&other)) {
            continue;
        }
        // Bytes without a place get one when they are written.
        let lacking_bytes: u64 = written.iter().filter(is_same).map(|other| other.lacking_bytes).sum();
        let Ok(space) = fstatvfs(&opened.file) else { continue };
        let (free, total) =
            (space.f_bavail.saturating_mul(space.f_frsize), space.f_blocks.saturating_mul(space.f_frsize));
        let spared = (total as f64 * FREE_SHARE) as u64;
        if lacking_bytes > 0 && lacking_bytes.saturating_add(spared) > free {
            return Err(Trouble::new(
                format!("write zeros to {}", opened.name),
                format!(
                    "holes need {} MiB there, of which {} are free and {} stay so",
                    lacking_bytes.div_ceil(MIB),
                    free / MIB,
                    spared / MIB
                ),
            )
            .remedy("name smaller files, or fewer"));
        }
    }
    Ok(())
}

/// Returns an upper limit for the bytes of a range that lie nowhere. Where the file system does not tell, this is all
/// that the whole file lacks.
fn lacking_bytes(file: &File, metadata: &Metadata, layout: &Layout) -> u64 {
    let lacking = metadata.len().saturating_sub(metadata.blocks().saturating_mul(512));
    lacking.min(nowhere_bytes(file, layout).unwrap_or(u64::MAX)).min(layout.end_bytes - layout.start_bytes)
}

/// Returns the name of another program that has a file open, as far as this user may see.
fn opened_by_another(metadata: &Metadata) -> Option<String> {
    let is_it = |path: &Path| {
        path.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let pid = process.file_name().into_string().ok()?;
        let is_other = pid.bytes().all(|byte| byte.is_ascii_digit()) && pid != own;
        let mut files = std::fs::read_dir(process.path().join("fd")).ok().filter(|_| is_other)?.flatten();
        files.find(|file| is_it(&file.path()))?;
        let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("{} (process {pid})", name.trim_end()))
    })
}

/// Returns the loop device whose bytes are in a file.
fn loop_device_over(metadata: &Metadata) -> Option<String> {
    let is_same = |path: &Path| {
        path.metadata().is_ok_and(|other| (other.dev(), other.ino()) == (metadata.dev(), metadata.ino()))
    };
    std::fs::read_dir("/sys/block").ok()?.flatten().find_map(|entry| {
        let text = std::fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        is_same(Path::new(text.trim_end_matches('\n')))
            .then(|| format!("/dev/{}", entry.file_name().to_string_lossy()))
    })
}

/// Returns the offset of the first byte in a range that is not zero. Reads only what the file system does not know to
/// be a hole.
fn first_data(file: &File, start_bytes: u64, end_bytes: u64) -> std::io::Result<Option<u64>> {
    let mut buffer = vec![0; COMPARED_BYTES];
    let mut at = start_bytes;
    while at < end_bytes {
        at = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.max(at),
            // The hole reaches to the end.
            Err(Errno::NXIO) => return Ok(None),
            // The file system knows of no holes: all may be data.
            Err(_) => at,
        };
        if at >= end_bytes {
            return Ok(None);
        }
        let part =
            &mut buffer[..COMPARED_BYTES.min(usize::try_from(end_bytes - at).unwrap_or(COMPARED_BYTES))];
        let read_bytes = match file.read_at(part, at) {
            Ok(0) => return Ok(None),
            Ok(read_bytes) => read_bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if let Some(index) = part[..read_bytes].iter().position(|byte| *byte != 0) {
            return Ok(Some(at + index as u64));
        }
        at += read_bytes as u64;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sparse(data: &[(u64, u8)]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 * MIB).unwrap();
        for (offset, byte) in data {
            file.write_all_at(&[*byte], *offset).unwrap();
        }
        file
    }

    #[test]
    fn the_first_byte_that_is_no_zero_is_found() {
        let found = |data: &[(u64, u8)], start, end| first_data(&sparse(data), start, end).unwrap();
        assert_eq!(found(&[], 0, 8 * MIB), None);
        assert_eq!(found(&[(5 * MIB + 7, 1)], 0, 8 * MIB), Some(5 * MIB + 7));
        assert_eq!(found(&[(3 * MIB, 0), (8 * MIB - 1, 9)], 0, 8 * MIB), Some(8 * MIB - 1));
        // Zeros that were written are no data, and bytes outside of the range do not matter.
        assert_eq!(found(&[(3 * MIB, 0)], 0, 8 * MIB), None);
        assert_eq!(found(&[(MIB, 1), (6 * MIB, 1)], 2 * MIB, 6 * MIB), None);
        assert_eq!(found(&[(MIB, 1)], MIB, MIB + 1), Some(MIB));
    }
}
