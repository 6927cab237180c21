//! Verbs on files, reached by their numbers or by names that come from directories.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{CallError, FileLocation, FileOps, NameOps, READ_FLAGS, StepTimer, close, finish, open_first};
use crate::data::{self, Pool, Stamp};
use crate::failure::Cause;
use crate::names::{Kind, Name, Names};

pub(super) const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
pub(super) const CREATE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Same as [`READ_FLAGS`], but follows symbolic links.
const FOLLOWING_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// Counts a missing name as success if it should be missing, and an existing one as an error.
#[inline]
fn expect<T>(is_missing: bool, result: Result<T, Errno>) -> Result<(), CallError> {
    match result {
        Ok(_) if !is_missing => Ok(()),
        Err(Errno::NOENT) if is_missing => Ok(()),
        Ok(_) => Err((0, Errno::EXIST.into())),
        Err(errno) => Err((0, errno.into())),
    }
}

const fn lookup_kind(is_missing: bool) -> Kind {
    if is_missing { Kind::Missing } else { Kind::File }
}

/// A name operation applied to the files of a set by their numbers.
#[derive(Debug)]
pub struct IndexedOps<O> {
    name: Name,
    operation: O,
}

impl<O: NameOps> IndexedOps<O> {
    /// Operates on the names in a set that are of the operation's kind.
    pub fn new(names: Names, operation: O) -> Self {
        Self { name: Name::new(names, operation.kind()), operation }
    }
}

impl<O: NameOps> FileOps for IndexedOps<O> {
    fn steps(&self) -> &'static [&'static str] {
        // No directory is read.
        self.operation.steps().split_last().map_or(&[], |(_, own)| own)
    }

    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        self.operation.operate(place.directory, self.name.path_of(file), timer)
    }
}

/// `fstatat` of a name.
#[derive(Debug)]
pub struct Stat {
    flags: AtFlags,
    is_missing: bool,
}

impl Stat {
    /// A `stat` of names that exist, or of names that are never made if `is_missing`. It follows symbolic links if
    /// `follows` is set.
    pub fn new(is_missing: bool, follows: bool) -> Self {
        Self { flags: stat_flags(follows), is_missing }
    }
}

fn stat_flags(follows: bool) -> AtFlags {
    if follows { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn read_flags(follows: bool) -> OFlags {
    if follows { FOLLOWING_FLAGS } else { READ_FLAGS }
}

impl NameOps for Stat {
    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    fn steps(&self) -> &'static [&'static str] {
        &["stat", "getdents64"]
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let found = rustix::fs::statat(directory, name, self.flags);
        expect(self.is_missing, found)?;
        timer.record_step(0);
        Ok(())
    }
}

/// `openat` for reading, and `close`.
#[derive(Debug)]
pub struct Open {
    flags: OFlags,
    is_missing: bool,
}

impl Open {
    /// An open of names that exist, or of names that are never made if `is_missing`. It follows symbolic links if
    /// `follows` is set.
    pub fn new(is_missing: bool, follows: bool) -> Self {
        Self { flags: read_flags(follows), is_missing }
    }
}

impl NameOps for Open {
    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    fn steps(&self) -> &'static [&'static str] {
        if self.is_missing { &["open", "getdents64"] } else { &["open", "close", "getdents64"] }
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = rustix::fs::openat(directory, name, self.flags, Mode::empty());
        timer.record_step(0);
        if !self.is_missing
            && let Ok(opened) = opened
        {
            close(opened).map_err(|errno| (1, errno.into()))?;
            timer.record_step(1);
            return Ok(());
        }
        expect(self.is_missing, opened)
    }
}

/// `fstatat` of a name. If the file is not empty, also `openat`, a `read` of each chunk, and `close`.
#[derive(Debug)]
pub struct StatContents {
    stat_flags: AtFlags,
    read_flags: OFlags,
    chunk: Box<[u8]>,
}

impl StatContents {
    /// Reads in chunks of `chunk_bytes`, and follows symbolic links if `follows` is set.
    pub fn new(chunk_bytes: u64, follows: bool) -> Self {
        let chunk = vec![0; chunk_bytes.max(1) as usize].into();
        Self { stat_flags: stat_flags(follows), read_flags: read_flags(follows), chunk }
    }
}

/// Reads all of a file in chunks, and returns its bytes. Without a size, it ends after a short read.
pub(super) fn read_whole(file: &OwnedFd, chunk: &mut [u8], size_bytes: Option<u64>) -> Result<u64, Cause> {
    let mut all_bytes = 0;
    while size_bytes != Some(all_bytes) {
        let left_bytes = size_bytes.map_or(u64::MAX, |size_bytes| size_bytes - all_bytes);
        let wanted_bytes = left_bytes.min(chunk.len() as u64) as usize;
        let got_bytes = rustix::io::read(file, &mut chunk[..wanted_bytes])?;
        all_bytes += got_bytes as u64;
        match size_bytes {
            Some(_) if got_bytes == 0 => return Err(Cause::Short { got_bytes, wanted_bytes }),
            None if got_bytes < wanted_bytes => break,
            _ => {}
        }
    }
    Ok(all_bytes)
}

impl NameOps for StatContents {
    fn steps(&self) -> &'static [&'static str] {
        &["stat", "open", "read", "close", "getdents64"]
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let found = rustix::fs::statat(directory, name, self.stat_flags);
        let size_bytes = found.map_err(|errno| (0, errno.into()))?.st_size as u64;
        timer.record_step(0);
        if size_bytes == 0 {
            return Ok(());
        }
        let opened = rustix::fs::openat(directory, name, self.read_flags, Mode::empty());
        let opened = opened.map_err(|errno| (1, errno.into()))?;
        timer.record_step(1);
        read_whole(&opened, &mut self.chunk, Some(size_bytes)).map_err(|cause| (2, cause))?;
        timer.recorder.read(size_bytes);
        timer.record_step(2);
        close(opened).map_err(|errno| (3, errno.into()))?;
        timer.record_step(3);
        Ok(())
    }
}

/// `openat`, a `read` of each chunk, and `close`.
#[derive(Debug)]
pub struct ReadFile {
    chunk: Box<[u8]>,
    /// Size of each file; `None` if they have several.
    size_bytes: Option<u64>,
}

impl ReadFile {
    /// Reads in chunks of `chunk_bytes`. Without a size, a file ends after a short read.
    pub fn new(chunk_bytes: u64, size_bytes: Option<u64>) -> Self {
        Self { chunk: vec![0; chunk_bytes.max(1) as usize].into(), size_bytes }
    }
}

impl NameOps for ReadFile {
    fn steps(&self) -> &'static [&'static str] {
        &["open", "read", "close", "getdents64"]
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = open_first(directory, name, READ_FLAGS, timer)?;
        let read_bytes = read_whole(&opened, &mut self.chunk, self.size_bytes).map_err(|cause| (1, cause))?;
        timer.recorder.read(read_bytes);
        timer.record_step(1);
        finish(opened, false, timer)
    }
}

/// `readlinkat` of a symbolic link.
#[derive(Debug)]
pub struct Readlink {
    /// Room for any path that a link of a set leads to.
    target: Box<[u8]>,
}

impl Readlink {
    /// Reads links to paths of up to this length.
    pub fn new(target_bytes: usize) -> Self {
        Self { target: vec![0; target_bytes + 1].into() }
    }
}

impl NameOps for Readlink {
    fn steps(&self) -> &'static [&'static str] {
        &["readlink", "getdents64"]
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let wanted_bytes = self.target.len();
        let read = rustix::fs::readlinkat_raw(directory, name, &mut self.target[..]);
        let got_bytes = read.map_err(|errno| (0, errno.into()))?;
        timer.record_step(0);
        // A link that fills all of the room was cut off.
        let is_whole = got_bytes > 0 && got_bytes < wanted_bytes;
        is_whole.then_some(()).ok_or((0, Cause::Short { got_bytes, wanted_bytes }))
    }
}

/// `unlinkat` of a name that exists, and `fsync` of its directory if each removal is made durable; or of a name that is
/// never made.
#[derive(Debug)]
pub struct UnlinkNamed {
    is_missing: bool,
    is_durable: bool,
}

impl UnlinkNamed {
    /// An unlink; if `is_durable`, each removal is made durable.
    pub fn new(is_durable: bool) -> Self {
        Self { is_missing: false, is_durable }
    }

    /// An unlink of names that are never made.
    pub fn missing() -> Self {
        Self { is_missing: true, is_durable: false }
    }
}

impl NameOps for UnlinkNamed {
    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    fn steps(&self) -> &'static [&'static str] {
        if self.is_durable { &["unlink", "fsync", "getdents64"] } else { &["unlink", "getdents64"] }
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        expect(self.is_missing, rustix::fs::unlinkat(directory, name, AtFlags::empty()))?;
        timer.record_step(0);
        if self.is_durable {
            rustix::fs::fsync(directory).map_err(|errno| (1, errno.into()))?;
            timer.record_step(1);
        }
        Ok(())
    }
}

/// Content of the files that a verb makes.
#[derive(Debug)]
pub struct Content {
    pool: Pool,
    size_min_bytes: u64,
    size_spread_bytes: u64,
    chunk_bytes: u64,
    seed: u64,
    generation: u32,
}

impl Content {
    /// Content whose sizes are drawn evenly between two bounds, and which is written in chunks. Bytes and sizes follow
    /// from the seed.
    pub fn new(
        size_min_bytes: u64,
        size_max_bytes: u64,
        chunk_bytes: u64,
        seed: u64,
        generation: u32,
    ) -> Self {
        let like = data::Content {
            seed,
            interval_bytes: data::STAMP_INTERVAL_BYTES,
            compress_percent: 0,
            dedupe_percent: 0,
        };
        let chunk_bytes = size_max_bytes.clamp(1, chunk_bytes.max(1));
        let pool = Pool::new(like, chunk_bytes as usize, 1);
        let size_spread_bytes = size_max_bytes - size_min_bytes;
        Self { pool, size_min_bytes, size_spread_bytes, chunk_bytes, seed, generation }
    }

    /// That of empty files.
    pub(super) fn none() -> Self {
        Self::new(0, 0, 1, 0, 0)
    }

    /// Size of a file.
    pub fn size_bytes(&self, file: u64) -> u64 {
        match self.size_spread_bytes {
            0 => self.size_min_bytes,
            spread => self.size_min_bytes + data::mix(self.seed ^ data::mix(file)) % (spread + 1),
        }
    }

    /// Writes what comes between two offsets of a file, at the position of the descriptor.
    pub(super) fn write(
        &mut self,
        file: u64,
        first_bytes: u64,
        size_bytes: u64,
        descriptor: &OwnedFd,
    ) -> Result<(), Errno> {
        let mut offset_bytes = first_bytes;
        while offset_bytes < size_bytes {
            let len = (size_bytes - offset_bytes).min(self.chunk_bytes) as usize;
            let Self { seed, generation, .. } = *self;
            let draft = self.pool.draft(0);
            let (block, phase_bytes) = (&mut draft.bytes[..len], draft.phase_bytes);
            let stamp = Stamp { seed, file: file as u32, generation, offset_bytes, phase_bytes };
            data::stamp(block, data::STAMP_INTERVAL_BYTES, stamp);
            // After a short write, the next write starts where it stopped, with a new stamp.
            offset_bytes += rustix::io::write(descriptor, block)? as u64;
        }
        Ok(())
    }
}

/// `openat(O_CREAT|O_EXCL)`, a write if files have a size, `fsync` if each file is made durable, and `close`.
#[derive(Debug)]
pub struct Create {
    name: Name,
    content: Option<Content>,
    is_durable: bool,
}

impl Create {
    /// Makes the files of a set, empty or with a content. If `is_durable`, each file is made durable.
    pub fn new(names: Names, content: Option<Content>, is_durable: bool) -> Self {
        Self { name: Name::new(names, Kind::File), content, is_durable }
    }
}

impl FileOps for Create {
    fn steps(&self) -> &'static [&'static str] {
        if self.is_durable {
            &["open", "write", "fsync", "close"]
        } else if self.content.is_some() {
            &["open", "write", "close"]
        } else {
            &["open", "close"]
        }
    }

    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let size_bytes = self.content.as_ref().map_or(0, |content| content.size_bytes(file));
        timer.charge(size_bytes)?;
        let made = rustix::fs::openat(place.directory, self.name.path_of(file), CREATE_FLAGS, CREATE_MODE);
        let made = made.map_err(|errno| (0, errno.into()))?;
        timer.record_step(0);
        let mut step = 1;
        if let Some(content) = &mut self.content {
            content.write(file, 0, size_bytes, &made).map_err(|errno| (step, errno.into()))?;
            timer.recorder.write(size_bytes);
            // A file of size 0 takes no write call.
            if size_bytes > 0 {
                timer.record_step(step);
            }
            step += 1;
        }
        if self.is_durable {
            // The file is durable only once its name is, too.
            let synced = rustix::fs::fsync(&made).and_then(|()| rustix::fs::fsync(place.leaf(file)));
            synced.map_err(|errno| (2, errno.into()))?;
            timer.record_step(2);
            step = 3;
        }
        close(made).map_err(|errno| (step, errno.into()))?;
        timer.record_step(step);
        Ok(())
    }
}

/// `linkat` or `symlinkat` to the original, which is a file of the set and itself made when its turn comes. If each
/// link is made durable, `fsync`.
#[derive(Debug)]
pub struct CreateLinks {
    name: Name,
    is_symbolic: bool,
    original: u64,
    /// Path of the original, as a link uses it.
    target: CString,
    is_durable: bool,
}

impl CreateLinks {
    /// Makes hard or symbolic links of a set to one of its files. If `is_durable`, each link is made durable.
    pub fn new(names: Names, is_symbolic: bool, original: u64, is_durable: bool) -> Self {
        let target = if is_symbolic { names.path_from_lowest(original) } else { names.path(original) };
        Self { name: Name::new(names, Kind::File), is_symbolic, original, target, is_durable }
    }
}

impl FileOps for CreateLinks {
    fn steps(&self) -> &'static [&'static str] {
        match (self.is_symbolic, self.is_durable) {
            (false, false) => &["link", "open", "close"],
            (false, true) => &["link", "open", "close", "fsync"],
            (true, false) => &["symlink", "open", "close"],
            (true, true) => &["symlink", "open", "close", "fsync"],
        }
    }

    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let (directory, name) = (place.directory, self.name.path_of(file));
        if file == self.original {
            let made = rustix::fs::openat(directory, name, CREATE_FLAGS, CREATE_MODE);
            let made = made.map_err(|errno| (1, errno.into()))?;
            timer.record_step(1);
            close(made).map_err(|errno| (2, errno.into()))?;
            timer.record_step(2);
        } else {
            let made = if self.is_symbolic {
                rustix::fs::symlinkat(&self.target, directory, name)
            } else {
                rustix::fs::linkat(directory, &self.target, directory, name, AtFlags::empty())
            };
            made.map_err(|errno| (0, errno.into()))?;
            timer.record_step(0);
        }
        if self.is_durable {
            // The original is empty, so it is durable once its name is.
            rustix::fs::fsync(place.leaf(file)).map_err(|errno| (3, errno.into()))?;
            timer.record_step(3);
        }
        Ok(())
    }
}

/// A call that changes one name or two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameCall {
    /// `renameat` from one name to another.
    Rename,
    /// `linkat`: a second name for a file.
    Link,
    /// `symlinkat`: a link to the file of the same number in the same directory.
    Symlink,
    /// `unlinkat` of a file.
    Unlink,
    /// `mkdirat`.
    Mkdir,
    /// `unlinkat(AT_REMOVEDIR)`.
    Rmdir,
}

/// A change of names, and `fsync` of the directory if each change is made durable.
#[derive(Debug)]
pub struct NameChange {
    call: NameCall,
    from: Name,
    to: Name,
    is_durable: bool,
}

impl NameChange {
    /// Makes a call for each file of a set, on its names of two kinds. If `is_durable`, each change is made durable.
    fn new(call: NameCall, names: Names, [from, to]: [Kind; 2], is_durable: bool) -> Self {
        Self { call, from: Name::new(names, from), to: Name::new(names, to), is_durable }
    }

    /// Gives files names of another kind.
    pub fn rename(names: Names, kinds: [Kind; 2], is_durable: bool) -> Self {
        Self::new(NameCall::Rename, names, kinds, is_durable)
    }

    /// Makes hard links to files.
    pub fn link(names: Names, is_durable: bool) -> Self {
        Self::new(NameCall::Link, names, [Kind::File, Kind::Link], is_durable)
    }

    /// Makes symbolic links to files.
    pub fn symlink(names: Names, is_durable: bool) -> Self {
        Self::new(NameCall::Symlink, names, [Kind::File, Kind::Symlink], is_durable)
    }

    /// Removes names of a kind.
    pub fn unlink(names: Names, kind: Kind, is_durable: bool) -> Self {
        Self::new(NameCall::Unlink, names, [kind; 2], is_durable)
    }

    /// Makes directories.
    pub fn mkdir(names: Names, is_durable: bool) -> Self {
        Self::new(NameCall::Mkdir, names, [Kind::Directory; 2], is_durable)
    }

    /// Removes directories.
    pub fn rmdir(names: Names, is_durable: bool) -> Self {
        Self::new(NameCall::Rmdir, names, [Kind::Directory; 2], is_durable)
    }
}

impl FileOps for NameChange {
    fn steps(&self) -> &'static [&'static str] {
        match (self.call, self.is_durable) {
            (NameCall::Rename, false) => &["rename"],
            (NameCall::Rename, true) => &["rename", "fsync"],
            (NameCall::Link, false) => &["link"],
            (NameCall::Link, true) => &["link", "fsync"],
            (NameCall::Symlink, false) => &["symlink"],
            (NameCall::Symlink, true) => &["symlink", "fsync"],
            (NameCall::Unlink, false) => &["unlink"],
            (NameCall::Unlink, true) => &["unlink", "fsync"],
            (NameCall::Mkdir, false) => &["mkdir"],
            (NameCall::Mkdir, true) => &["mkdir", "fsync"],
            (NameCall::Rmdir, false) => &["rmdir"],
            (NameCall::Rmdir, true) => &["rmdir", "fsync"],
        }
    }

    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let (directory, from, to) = (place.directory, &mut self.from, &mut self.to);
        let changed = match self.call {
            NameCall::Rename => {
                rustix::fs::renameat(directory, from.path_of(file), directory, to.path_of(file))
            }
            NameCall::Link => rustix::fs::linkat(
                directory,
                from.path_of(file),
                directory,
                to.path_of(file),
                AtFlags::empty(),
            ),
            NameCall::Symlink => rustix::fs::symlinkat(from.name_of(file), directory, to.path_of(file)),
            NameCall::Unlink => rustix::fs::unlinkat(directory, from.path_of(file), AtFlags::empty()),
            NameCall::Mkdir => rustix::fs::mkdirat(directory, from.path_of(file), Mode::RWXU),
            NameCall::Rmdir => rustix::fs::unlinkat(directory, from.path_of(file), AtFlags::REMOVEDIR),
        };
        changed.map_err(|errno| (0, errno.into()))?;
        timer.record_step(0);
        if self.is_durable {
            rustix::fs::fsync(place.leaf(file)).map_err(|errno| (1, errno.into()))?;
            timer.record_step(1);
        }
        Ok(())
    }
}
