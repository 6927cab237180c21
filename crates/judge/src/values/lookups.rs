//! Look-ups of names: where the answers came from.

use model::run::DeviceFrame;
use model::target::Backing;
use model::workload::{FileKind, FileVerb, FilesWork};

use crate::values::input::JudgeInput;

/// Smallest inode of any file system: that of the oldest format of ext2.
const INODE_BYTES_MIN: f64 = 128.0;
/// Names came from memory if the device gave less than this share of an inode for each. A directory's entry alone is
/// larger than this.
const FROM_DEVICE: f64 = 0.05;
/// Files were cold if the device gave at least this share of an inode for each. Formats that pack inodes reach it.
const COLD_SHARE_MIN: f64 = 0.5;
/// Names came from the client if fewer than this share of them can have been sent to the server.
const SERVER_SHARE_MIN: f64 = 0.1;
/// Smallest request to a server: a look-up of SFTP, without any header.
const REQUEST_BYTES_MIN: u64 = 32;
/// The device's reads are the test's own if the kernel charged it for at least this share of their bytes.
const OWN_READ_SHARE_MIN: f64 = 0.9;

/// Returns the test if it looks up names and changes nothing.
pub fn lookup_work<'a>(input: &JudgeInput<'a>) -> Option<&'a FilesWork> {
    input.files().filter(|files| files.is_lookup())
}

/// Returns the bytes that the device read for the test; `None` where no counter shows them.
pub fn read_bytes(input: &JudgeInput<'_>) -> Option<f64> {
    let device = input.record.seen.device.as_ref()?;
    // The kernel charges each process for its device reads, inodes included. The rest belongs to other processes.
    Some((device.bytes_read as f64).min(input.charged_read_bytes().unwrap_or(f64::INFINITY)))
}

/// Returns the minimum of bytes that the device reads for names that are not all in memory. Reads of the journal are
/// negligible for that many names.
pub fn least_bytes(input: &JudgeInput<'_>) -> f64 {
    input.record.counts.ops as f64 * INODE_BYTES_MIN * FROM_DEVICE
}

/// Returns the minimum of bytes that the device reads for names that were cold in each round.
pub fn least_cold_bytes(input: &JudgeInput<'_>, files: &FilesWork) -> f64 {
    // Entries of a directory have no separate inode there, and hard links share one.
    let has_inodes = files.verb != FileVerb::Readdir && files.kind == FileKind::File && !files.missing;
    let inodes_bytes = input.record.counts.ops as f64 * INODE_BYTES_MIN * COLD_SHARE_MIN;
    if has_inodes { inodes_bytes } else { least_bytes(input) }
}

/// Returns the device's read requests, and true if nearly all were the test's own; `None` where no counter shows them.
pub fn reads(input: &JudgeInput<'_>) -> Option<(u64, bool)> {
    let device = input.device()?;
    let of_top = |frames: &[DeviceFrame]| frames.first().map_or(0, |top| top.reads);
    let _ = input.frames().next()?;
    let reads = input.frames().map(|frame| of_top(&frame.devices)).sum();
    let is_own = input
        .charged_read_bytes()
        .is_none_or(|charged| charged >= OWN_READ_SHARE_MIN * device.bytes_read as f64);
    Some((reads, is_own))
}

/// Returns the largest share of a test's operations that can have been sent to the server, if that is known.
pub fn requests_share(input: &JudgeInput<'_>) -> Option<f64> {
    let (sent_bytes, _) = input.network_bytes()?;
    let requests_bytes = input.record.counts.ops.max(1) * REQUEST_BYTES_MIN;
    Some((sent_bytes as f64 / requests_bytes as f64).min(1.0))
}

/// Returns the bytes sent to the server if this system can have asked it for few of the names only.
pub fn sent_bytes_if_client_cached(input: &JudgeInput<'_>) -> Option<u64> {
    let (sent_bytes, _) = input.network_bytes()?;
    requests_share(input).filter(|share| *share < SERVER_SHARE_MIN).map(|_| sent_bytes)
}

/// Returns true if names are nowhere but in memory.
pub fn are_in_memory(input: &JudgeInput<'_>) -> bool {
    input.target().backing == Backing::Memory
}
