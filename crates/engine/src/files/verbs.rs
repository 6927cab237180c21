//! Verbs on files, reached by their numbers or by names that come from directories.
//!
//! It is the only module where a verb on files becomes a type, and so the only one where its loop is compiled.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use model::mix::Mix;
use model::workload::verbs::{
    VerbStep, create, link, mkdir, open, read_file, readlink, rename, rmdir, stat, symlink, unlink,
};
use model::workload::{FileKind, FileVerb, FilesWork, MixName, Order, SyncMode};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{
    Append, CallError, Client, Copy, Entries, FileLocation, FileOps, Flows, GetAttribute, Measured, NameOps,
    READ_FLAGS, Readdir, RemoveTree, Replay, SetAttribute, Share, SharedFiles, StepTimer, Truncate, WalkTree,
    close_step, fails, open_step, sync_step,
};
use crate::data::{self, Pool, Stamp};
use crate::failure::Cause;
use crate::names::{Kind, Name, Names};
use crate::pacing::OpenLoop;

pub(super) const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
pub(super) const CREATE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Same as [`READ_FLAGS`], but follows symbolic links.
const FOLLOWING_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC);

/// A thread's part of a test.
#[derive(Debug)]
pub struct Part {
    /// Names of its files.
    pub names: Names,
    /// Content of its files; without one, they are empty.
    pub content: Option<Content>,
    /// The file that links lead to.
    pub original: u64,
    /// Number of its files.
    pub files: u64,
    /// Seed of the draws of a mix or a load.
    pub seed: u64,
    /// Number of the thread.
    pub thread: u64,
    /// Number of all threads.
    pub threads: u64,
    /// Files that all threads of a mix share.
    pub shared: Option<Arc<SharedFiles>>,
    /// Times at which flows are due; without any, each follows the one before.
    pub pacing: Option<OpenLoop>,
}

impl Part {
    /// The only thread, with all files of a tree.
    pub fn single_thread(names: Names, content: Option<Content>, seed: u64) -> Self {
        let files = names.tree.files;
        Self { names, content, original: 0, files, seed, thread: 0, threads: 1, shared: None, pacing: None }
    }
}

/// Makes a verb with its options, so that the loop has no branch for them.
pub fn measured(work: &FilesWork, part: Part) -> Box<dyn Measured> {
    let Part { names, content, original, .. } = part;
    let is_durable = work.sync == SyncMode::Each;
    // For a symbolic link, the test asks about its target, as programs do.
    let follows = work.kind == FileKind::Symlink;
    // A buffer larger than the largest file would never be filled.
    let chunk_bytes = work.chunk_bytes.min(work.size_max_bytes);
    match work.verb {
        FileVerb::Create if work.kind == FileKind::File => Box::new(Create::new(names, content, is_durable)),
        FileVerb::Create => Box::new(CreateLinks::new(names, follows, original, is_durable)),
        FileVerb::Stat if work.contents && !work.missing => {
            in_order(work, names, StatContents::new(chunk_bytes, follows))
        }
        FileVerb::Stat => in_order(work, names, Stat::new(work.missing, follows)),
        FileVerb::Open => in_order(work, names, Open::new(work.missing, follows)),
        FileVerb::ReadFile => {
            let size_bytes = (work.size_min_bytes == work.size_max_bytes).then_some(work.size_max_bytes);
            in_order(work, names, ReadFile::new(chunk_bytes, size_bytes))
        }
        FileVerb::Readdir => Box::new(Readdir::new(names.tree)),
        FileVerb::Unlink if work.missing => in_order(work, names, UnlinkNamed::missing()),
        FileVerb::Unlink if work.order == Order::Directory => {
            Box::new(Entries::new(names, UnlinkNamed::new(is_durable)))
        }
        FileVerb::Unlink => Box::new(NameChange::unlink(names, Kind::File, is_durable)),
        FileVerb::Rename => Box::new(NameChange::rename(names, [Kind::File, Kind::Renamed], is_durable)),
        FileVerb::Link => Box::new(NameChange::link(names, is_durable)),
        FileVerb::Symlink => Box::new(NameChange::symlink(names, is_durable)),
        FileVerb::Mkdir => Box::new(NameChange::mkdir(names, is_durable)),
        FileVerb::Rmdir => Box::new(NameChange::rmdir(names, is_durable)),
        FileVerb::Append => in_order(work, names, Append::new(work.chunk_bytes, is_durable)),
        FileVerb::Truncate => {
            Box::new(Truncate::new(names, content.unwrap_or_else(Content::none), is_durable))
        }
        FileVerb::Copy => {
            let content = content.unwrap_or_else(Content::none);
            Box::new(Copy::new(names, content, work.by, chunk_bytes, is_durable))
        }
        FileVerb::Readlink => Box::new(Readlink::new(names, original)),
        FileVerb::XattrSet => in_order(work, names, SetAttribute::new(is_durable)),
        FileVerb::XattrGet => in_order(work, names, GetAttribute),
        FileVerb::Walk => Box::new(WalkTree::new(names)),
        FileVerb::Remove => Box::new(RemoveTree::new(names, is_durable)),
        FileVerb::Mix => {
            // The plan has the mix, whatever its file is now.
            let mix = work.mix().unwrap_or(Mix::shipped(MixName::Mail));
            let Part { files, seed, thread, shared, pacing, .. } = part;
            match shared {
                None => Box::new(Flows::new(mix, files, names.tree, seed).paced(pacing)),
                Some(all) => {
                    let share = Share::new(all, thread);
                    Box::new(Flows::sharing(share, mix, files, names.tree, seed).paced(pacing))
                }
            }
        }
        FileVerb::Replay => {
            let client = Client { number: part.thread, count: part.threads };
            // Without a load, only the names of the steps are used.
            let load = work.load().cloned().unwrap_or_default();
            Box::new(Replay::new(load, client, !work.no_resolve, part.files, part.seed))
        }
    }
}

/// Makes a verb of an operation on names from numbers or from directories. Missing names are in no directory.
fn in_order(work: &FilesWork, names: Names, operation: impl NameOps + 'static) -> Box<dyn Measured> {
    match work.order {
        Order::Directory if !work.missing => Box::new(Entries::new(names, operation)),
        _ => Box::new(IndexedOps::new(names, operation)),
    }
}

/// Counts a missing name as success if it should be missing, and an existing one as an error.
#[inline]
fn expect<T>(is_missing: bool, step: VerbStep, result: Result<T, Errno>) -> Result<(), CallError> {
    match result {
        Ok(_) if !is_missing => Ok(()),
        Err(Errno::NOENT) if is_missing => Ok(()),
        Ok(_) => Err(fails(step.name)(Errno::EXIST)),
        Err(errno) => Err(fails(step.name)(errno)),
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
    const GETDENTS: VerbStep = stat::GETDENTS;

    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let found = rustix::fs::statat(directory, name, self.flags);
        expect(self.is_missing, stat::STAT, found)?;
        timer.record_step(stat::STAT);
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
    const GETDENTS: VerbStep = open::GETDENTS;

    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = rustix::fs::openat(directory, name, self.flags, Mode::empty());
        timer.record_step(open::OPEN);
        if !self.is_missing
            && let Ok(opened) = opened
        {
            return close_step(opened, open::CLOSE, timer);
        }
        expect(self.is_missing, open::OPEN, opened)
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
    const GETDENTS: VerbStep = stat::GETDENTS;

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let found = rustix::fs::statat(directory, name, self.stat_flags);
        let size_bytes = found.map_err(fails(stat::STAT.name))?.st_size as u64;
        timer.record_step(stat::STAT);
        if size_bytes == 0 {
            return Ok(());
        }
        let opened = open_step(directory, name, self.read_flags, stat::OPEN, timer)?;
        read_whole(&opened, &mut self.chunk, Some(size_bytes)).map_err(fails(stat::READ.name))?;
        timer.recorder.read(size_bytes);
        timer.record_step(stat::READ);
        close_step(opened, stat::CLOSE, timer)
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
    const GETDENTS: VerbStep = read_file::GETDENTS;

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let opened = open_step(directory, name, READ_FLAGS, read_file::OPEN, timer)?;
        let read = read_whole(&opened, &mut self.chunk, self.size_bytes);
        timer.recorder.read(read.map_err(fails(read_file::READ.name))?);
        timer.record_step(read_file::READ);
        close_step(opened, read_file::CLOSE, timer)
    }
}

/// `readlinkat` of a symbolic link of a set.
#[derive(Debug)]
pub struct Readlink {
    name: Name,
    /// Room for any path that a link of a set leads to.
    target: Box<[u8]>,
}

impl Readlink {
    /// Reads the links of a set, which lead to one of its files.
    pub fn new(names: Names, original: u64) -> Self {
        let target_bytes = names.path_from_lowest(original).as_bytes().len();
        Self { name: Name::new(names, Kind::File), target: vec![0; target_bytes + 1].into() }
    }
}

impl FileOps for Readlink {
    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let wanted_bytes = self.target.len();
        let path = self.name.path_of(file);
        let read = rustix::fs::readlinkat_raw(place.directory, path, &mut self.target[..]);
        let got_bytes = read.map_err(fails(readlink::READLINK.name))?;
        timer.record_step(readlink::READLINK);
        // A link that fills all of the room was cut off.
        let is_whole = got_bytes > 0 && got_bytes < wanted_bytes;
        is_whole.then_some(()).ok_or((readlink::READLINK.name, Cause::Short { got_bytes, wanted_bytes }))
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
    const GETDENTS: VerbStep = unlink::GETDENTS;

    fn kind(&self) -> Kind {
        lookup_kind(self.is_missing)
    }

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        expect(self.is_missing, unlink::UNLINK, rustix::fs::unlinkat(directory, name, AtFlags::empty()))?;
        timer.record_step(unlink::UNLINK);
        sync_step(directory, self.is_durable, unlink::FSYNC, timer)
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
        let made = made.map_err(fails(create::OPEN.name))?;
        timer.record_step(create::OPEN);
        if let Some(content) = &mut self.content {
            content.write(file, 0, size_bytes, &made).map_err(fails(create::WRITE.name))?;
            timer.recorder.write(size_bytes);
            // A file of size 0 takes no write call.
            if size_bytes > 0 {
                timer.record_step(create::WRITE);
            }
        }
        if self.is_durable {
            // The file is durable only once its name is, too.
            let synced = rustix::fs::fsync(&made).and_then(|()| rustix::fs::fsync(place.leaf(file)));
            synced.map_err(fails(create::FSYNC.name))?;
            timer.record_step(create::FSYNC);
        }
        close_step(made, create::CLOSE, timer)
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
            let made = made.map_err(fails(create::OPEN_ORIGINAL.name))?;
            timer.record_step(create::OPEN_ORIGINAL);
            close_step(made, create::CLOSE_ORIGINAL, timer)?;
        } else if self.is_symbolic {
            let made = rustix::fs::symlinkat(&self.target, directory, name);
            made.map_err(fails(create::SYMLINK.name))?;
            timer.record_step(create::SYMLINK);
        } else {
            let made = rustix::fs::linkat(directory, &self.target, directory, name, AtFlags::empty());
            made.map_err(fails(create::LINK.name))?;
            timer.record_step(create::LINK);
        }
        // The original is empty, so it is durable once its name is.
        sync_step(place.leaf(file), self.is_durable, create::FSYNC_LINK, timer)
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

impl NameCall {
    /// Returns the step of the call, and that of making it durable. Each has the same number for all calls, so that the
    /// loop need not look it up.
    #[inline]
    const fn steps(self) -> (VerbStep, VerbStep) {
        match self {
            Self::Rename => (rename::RENAME, rename::FSYNC),
            Self::Link => (link::LINK, link::FSYNC),
            Self::Symlink => (symlink::SYMLINK, symlink::FSYNC),
            Self::Unlink => (unlink::UNLINK, unlink::FSYNC),
            Self::Mkdir => (mkdir::MKDIR, mkdir::FSYNC),
            Self::Rmdir => (rmdir::RMDIR, rmdir::FSYNC),
        }
    }
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
        let (step, sync) = self.call.steps();
        changed.map_err(fails(step.name))?;
        timer.record_step(step);
        sync_step(place.leaf(file), self.is_durable, sync, timer)
    }
}
