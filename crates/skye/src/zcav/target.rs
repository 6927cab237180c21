//! Files and devices that zcav is to read: their sizes, their blocks, and notes on them.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::buffer::{ALIGNMENT, AlignedBuffer};
use family::zcav::arguments::{Options, Target};
use family::zcav::{Layout, MIB, Refusal};
use model::UserError;
use observe::Root;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::place;

/// A file or device that was found.
#[derive(Debug)]
pub struct ResolvedTarget {
    /// Its name, as it was given.
    pub name: String,
    /// File for the results; `None`: stdout.
    pub log: Option<PathBuf>,
    /// The file or device itself.
    pub target: model::Target,
    /// Blocks to visit.
    pub layout: Layout,
    /// The same blocks, one by one.
    pub blocks: Arc<[std::ops::Range<u64>]>,
    /// True if it takes direct I/O.
    pub is_direct: bool,
    /// Notes that should be known before its numbers are read.
    pub notes: Vec<String>,
    /// Device and inode.
    pub identity: (u64, u64),
}

/// Reason why a target cannot be measured.
#[derive(Debug)]
pub enum TargetError {
    /// The target is too small for what was asked.
    TooSmall(UserError),
    /// Any other reason.
    Other(UserError),
}

impl From<UserError> for TargetError {
    fn from(error: UserError) -> Self {
        Self::Other(error)
    }
}

impl ResolvedTarget {
    /// Finds a target. Reads at most one page of it, to see whether it takes direct I/O.
    ///
    /// # Errors
    /// The message says what the target is, and what to name instead.
    pub fn find(root: &Root, named: &Target, options: &Options) -> Result<Self, TargetError> {
        let name = if named.is_stdin() { "stdin".into() } else { named.path.to_string_lossy().into_owned() };
        let path = if named.is_stdin() { Path::new("/proc/self/fd/0") } else { &named.path };
        let target = place::readable(root, path, &name)?;
        let size_bytes = target.space.total_bytes;
        let layout = Layout::from_options(options, &name, size_bytes).map_err(|refusal| match refusal {
            Refusal::TooSmall(error) => TargetError::TooSmall(error),
            Refusal::TooMany(error) => TargetError::Other(error),
        })?;
        let metadata = std::fs::metadata(&target.path);
        let metadata = metadata.map_err(|error| UserError::new(format!("inspect {name}"), error))?;
        let is_direct = options.writes || takes_direct(Path::new(&target.path), layout.start_bytes);
        let mut notes: Vec<_> = target.notes.iter().map(|note| format!("{name}: {note}")).collect();
        if let Some(end_mib) = options.end_mib.filter(|end_mib| end_mib.saturating_mul(MIB) > size_bytes) {
            notes.push(format!("{name}: it ends at {} MiB, before MiB {end_mib}", size_bytes.div_ceil(MIB)));
        }
        if layout.chunk_bytes < options.chunk_mib.saturating_mul(MIB) && !options.writes {
            let chunk_mib = layout.chunk_bytes / MIB;
            notes.push(format!("{name}: each read is {chunk_mib} MiB long, to divide blocks evenly"));
        }
        if !is_direct {
            notes.push(format!(
                "{name}: direct I/O is not supported, so reads use the page cache, which is dropped for this file \
                 before each pass"
            ));
        }
        Ok(Self {
            log: named.log.clone(),
            blocks: layout.blocks().into(),
            identity: (metadata.dev(), metadata.ino()),
            name,
            target,
            layout,
            is_direct,
            notes,
        })
    }

    /// Returns true if that name leads to this file.
    pub fn is(&self, path: &Path) -> bool {
        path.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity)
    }
}

/// Returns true unless direct I/O is refused, when the file is opened or first read. Some file systems let a file be
/// opened for direct I/O, but refuse each read.
fn takes_direct(path: &Path, offset_bytes: u64) -> bool {
    let flags = OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => {
            let mut buffer = AlignedBuffer::new(ALIGNMENT);
            rustix::io::pread(file, buffer.bytes_mut(), offset_bytes) != Err(Errno::INVAL)
        }
        // Any other error meets the run again.
        Err(error) => error.raw_os_error() != Some(Errno::INVAL.raw_os_error()),
    }
}
