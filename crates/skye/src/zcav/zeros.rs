//! zcav's `-w`: writes zeros over zeros and holes of files, within their sizes.
//!
//! This is the only code of skye that writes to a file that skye has not created. It is separate on purpose. The driver
//! of runs cannot open such a file for writing at all (`run::home`), so no wrong plan destroys anything. Only zeros are
//! written. All that is overwritten was read before, and each call checks the size.

use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::clock::{Clock, Monotonic};
use engine::failure::Cause;
use engine::zones::{SharedZoneTimes, ZeroPassResult, ZeroWriter};
use family::zcav::{Layout, MIB, Times, Verb};
use model::UserError;
use model::target::TargetKind;
use run::hang_detection::{self, SupervisedCall};
use rustix::fs::{FlockOperation, OFlags, SeekFrom, flock, fstatvfs, seek};
use rustix::io::Errno;

use super::target::ResolvedTarget;
use super::{Outcome, ProgressReporter};
use crate::signals::Interruption;

/// Bytes that are compared with zeros at once.
const COMPARED_BYTES: usize = 1 << 20;
/// Share of a file system's space that writing over holes leaves free.
const FREE_SHARE: f64 = 0.05;
/// Time from now to the common start, so that all threads are awake when it comes.
const AHEAD_NS: u64 = 5_000_000;

/// A file that zeros are written to.
#[derive(Debug)]
pub struct Writing<'a> {
    found: &'a ResolvedTarget,
    file: File,
    /// Bytes of the visited range that lie nowhere yet.
    lacking_bytes: u64,
}

/// Opens all files for writing, looks through them, and takes care that there is room. Writes nothing yet.
///
/// # Errors
/// A file holds data, is in use, or has no room. The message says what to name instead.
pub fn open(all: &[ResolvedTarget]) -> Result<Vec<Writing<'_>>, UserError> {
    let written = all.iter().map(Writing::open).collect::<Result<Vec<_>, _>>()?;
    refuse_room(&written)?;
    Ok(written)
}

impl<'a> Writing<'a> {
    fn open(found: &'a ResolvedTarget) -> Result<Self, UserError> {
        let (name, layout) = (&found.name, &found.layout);
        if found.target.kind != TargetKind::File {
            return Err(device_is_not_written(name));
        }
        let fail = |error: std::io::Error| {
            let help = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "choose a file that this user may write, or drop -w",
                _ => "choose a block device or a file",
            };
            UserError::new(format!("open {name}"), error).help(help)
        };
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(&found.target.path);
        let file = file.map_err(fail)?;
        let metadata = file.metadata().map_err(|error| UserError::new(format!("inspect {name}"), error))?;
        if (metadata.dev(), metadata.ino()) != found.identity {
            return Err(UserError::new(format!("write zeros to {name}"), "another file replaced it"));
        }
        refuse_writing(&file, &metadata, name, layout)?;
        let lacking_bytes = lacking_bytes(&file, &metadata, layout);
        Ok(Self { found, file, lacking_bytes })
    }

    /// Returns the note on what will be written.
    pub fn note(&self) -> String {
        let Layout { start_bytes, end_bytes, .. } = self.found.layout;
        format!(
            "{}: zeros are written over zeros and holes from MiB {} to {}, with a sync after each chunk",
            self.found.name,
            start_bytes / MIB,
            end_bytes.div_ceil(MIB)
        )
    }

    /// Starts to write at `start_ns`, in its own thread.
    fn begin(self, passes: u32, start_ns: u64, interruption: &Interruption) -> Job<'a> {
        let found = self.found;
        let zones = found.blocks.to_vec();
        let time_table = Arc::new(SharedZoneTimes::new(zones.len() * passes as usize));
        let moved_bytes = Arc::new(AtomicU64::new(0));
        let writer = ZeroWriter {
            file: self.file.into(),
            chunk_bytes: usize::try_from(found.layout.chunk_bytes).unwrap_or(1 << 20),
            zones,
            time_table: Arc::clone(&time_table),
            moved_bytes: Arc::clone(&moved_bytes),
            stop: Arc::clone(&interruption.raised),
        };
        let write = move || {
            Monotonic.wait_until(start_ns);
            let is_whole = |written: &ZeroPassResult| written.partial.is_none() && written.result.is_ok();
            let pass = |_| writer.run(&Monotonic);
            let mut all = (0..passes).map(pass);
            let early = all.find(|written| !is_whole(written));
            early.unwrap_or(ZeroPassResult { partial: None, result: Ok(()) })
        };
        let action = format!("write zeros to all of {}", found.name);
        Job { found, time_table, moved_bytes, work: hang_detection::begin(&action, write) }
    }
}

/// A file that is being written.
struct Job<'a> {
    found: &'a ResolvedTarget,
    time_table: Arc<SharedZoneTimes>,
    moved_bytes: Arc<AtomicU64>,
    work: SupervisedCall<ZeroPassResult>,
}

/// Writes all files at the same time. Returns the outcome of each, when all have ended or hang.
pub fn write(
    all: Vec<Writing<'_>>,
    passes: u32,
    interruption: &Interruption,
    reporter: &ProgressReporter,
) -> Vec<Outcome> {
    let start_ns = Monotonic.now_ns() + AHEAD_NS;
    let begin = all.into_iter().map(|writing| writing.begin(passes, start_ns, interruption));
    // All begin before the first is waited for.
    let jobs: Vec<_> = begin.collect();
    jobs.into_iter().map(|job| job.end(passes, interruption, reporter)).collect()
}

impl Job<'_> {
    /// Waits for the end. Reports passes and lines until then.
    fn end(self, passes: u32, interruption: &Interruption, reporter: &ProgressReporter) -> Outcome {
        let Self { found, time_table, moved_bytes, work } = self;
        let times = |partial| {
            let times_ns = (0..time_table.visited_zones()).map(|block| time_table.time_ns(block)).collect();
            Times { times_ns, partial }
        };
        let log = |times: &Times| times.scan(&found.name, &found.blocks, passes, Verb::Wrote).log();
        let mut reported = 0;
        let mut report_passes = || {
            while reported < time_table.visited_zones() / found.blocks.len().max(1) {
                reported += 1;
                reporter.pass(reported, &found.name);
            }
            if reporter.print_settled(|| log(&times(None))).is_err() {
                // The reader has gone, or there is no room: nobody would see further results.
                interruption.reader_is_gone();
            }
            moved_bytes.load(Ordering::Relaxed)
        };
        let ended = work.wait(&mut report_passes);
        report_passes();
        let (partial, error) = match ended {
            Ok(ZeroPassResult { partial, result }) => (
                partial,
                result.err().map(|failure| {
                    let offset_bytes = failure.offset_bytes.unwrap_or_default();
                    let action = format!("{} {} at offset {offset_bytes}", failure.call, found.name);
                    UserError::new(action, failure.cause).help(match failure.cause {
                        Cause::Short { .. } => {
                            "the file was truncated during the test: stop the program that writes \
                             to it"
                        }
                        _ => "the results before it are printed; check the kernel log",
                    })
                }),
            ),
            Err(error) => (None, Some(error)),
        };
        Outcome {
            log: log(&times(partial)),
            error: error.map(|error| error.to_string()),
            holes: None,
            ended: None,
        }
    }
}

fn device_is_not_written(name: &str) -> UserError {
    UserError::new(
        format!("write zeros to {name}"),
        "it is a block device, and -w would destroy its data; -w does not support devices",
    )
    .help("drop -w, or use a file of zeros on its file system, created with: fallocate -l 10g FILE")
}

/// Returns the visited bytes that lie nowhere; `None` where the file system does not tell.
fn hole_or_unwritten_bytes(file: &File, layout: &Layout) -> Option<u64> {
    let found = observe::extents(file.as_fd(), layout.start_bytes..layout.end_bytes)?;
    Some(found.hole_bytes + found.unwritten_bytes)
}

/// Refuses a file in which writing zeros would change anything, or that another program uses.
fn refuse_writing(file: &File, metadata: &Metadata, name: &str, layout: &Layout) -> Result<(), UserError> {
    let action = || format!("write zeros to {name}");
    let another = "use a file of zeros, created with: fallocate -l 10g FILE";
    if flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(
            UserError::new(action(), "it is locked by another program, or it is used twice").help(another)
        );
    }
    if let Some(device) = loop_device_over(metadata) {
        return Err(UserError::new(action(), format!("it is under {device}")).help(another));
    }
    // Data that is still under way to the device may look like a hole.
    file.sync_all().map_err(|error| UserError::new(format!("sync {name}"), error))?;
    let first = first_data(file, layout.start_bytes, layout.end_bytes)
        .map_err(|error| UserError::new(format!("search {name} for data"), error))?;
    if let Some(offset_bytes) = first {
        return Err(UserError::new(
            action(),
            format!("it has data, first at offset {offset_bytes}, which would be lost"),
        )
        .help(another));
    }
    if let Some(program) = opened_by_another(metadata) {
        return Err(UserError::new(action(), format!("{program} has it open")).help(another));
    }
    Ok(())
}

/// Refuses to write over holes if there is no room for those of all files together.
///
/// # Errors
/// The message says what the files need on a file system, and what it has.
fn refuse_room(written: &[Writing<'_>]) -> Result<(), UserError> {
    for (index, opened) in written.iter().enumerate() {
        let is_same = |other: &&Writing<'_>| other.found.identity.0 == opened.found.identity.0;
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
            return Err(UserError::new(
                format!("write zeros to {}", opened.found.name),
                format!(
                    "holes need {} MiB; {} are free there, and {} are reserved",
                    lacking_bytes.div_ceil(MIB),
                    free / MIB,
                    spared / MIB
                ),
            )
            .help("use smaller or fewer files"));
        }
    }
    Ok(())
}

/// Returns an upper limit for the bytes of a range that lie nowhere. Where the file system does not tell, this is all
/// that the whole file lacks.
fn lacking_bytes(file: &File, metadata: &Metadata, layout: &Layout) -> u64 {
    let lacking = metadata.len().saturating_sub(metadata.blocks().saturating_mul(512));
    lacking
        .min(hole_or_unwritten_bytes(file, layout).unwrap_or(u64::MAX))
        .min(layout.end_bytes - layout.start_bytes)
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
    fn first_nonzero_byte_is_found() {
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
