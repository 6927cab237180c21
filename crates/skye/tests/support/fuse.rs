//! A file system in memory, served by this process, that fails where a test tells it to.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;
use tempfile::TempDir;
use xtask::undo;

use super::PREFIX;

const BLOCK_BYTES: u32 = 4096;
/// How long the kernel may remember what it was told; everything changes through the kernel, so it is never wrong.
const REMEMBER: Duration = Duration::from_secs(1);

/// What goes wrong, and when. Amounts are counted from the last [`Fuse::set`].
#[derive(Debug, Clone, Copy)]
pub struct Faults {
    /// Opening with `O_DIRECT` is refused with EINVAL; a file that the same call creates is there nevertheless, as
    /// on Linux's own file systems without direct I/O.
    pub refuse_direct: bool,
    /// Writes fail with this once so many bytes are written.
    pub write_error_after: Option<(u64, Errno)>,
    /// Reads fail with this once so many bytes are read.
    pub read_error_after: Option<(u64, Errno)>,
    /// Reads find the end of every file here, whatever its size is said to be: those that cross it are short.
    pub reads_end_at: Option<u64>,
    /// Making files, directories and links fails with this once there were so many.
    pub create_error_after: Option<(u64, Errno)>,
    /// fsync and fdatasync of files fail with this once there were so many.
    pub sync_error_after: Option<(u64, Errno)>,
    /// From this read on (the first is 1), reads are not answered before [`Fuse::release`].
    pub hang_from_read: Option<u64>,
    /// Once so many bytes are written, writes are done and not answered before [`Fuse::release`].
    pub hang_after_written: Option<u64>,
    /// Each removal of a file takes so long, and everything else waits: time for a signal to arrive in.
    pub unlink_time: Duration,
    /// What statfs says of size, free space (bytes), files and free files.
    pub space: Space,
}

/// What statfs says.
#[derive(Debug, Clone, Copy)]
pub struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub files: u64,
    pub free_files: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            refuse_direct: false,
            write_error_after: None,
            read_error_after: None,
            reads_end_at: None,
            create_error_after: None,
            sync_error_after: None,
            hang_from_read: None,
            hang_after_written: None,
            unlink_time: Duration::ZERO,
            space: Space { total_bytes: 64 << 30, free_bytes: 60 << 30, files: 1 << 22, free_files: 1 << 22 },
        }
    }
}

/// What was asked of the file system since the last [`Fuse::set`].
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub reads: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub creates: u64,
    pub syncs: u64,
    pub unlinks: u64,
    /// Reads and writes that wait for an answer.
    pub hanging: usize,
}

/// The mounted file system; dropped, it answers what hangs, is unmounted, and its thread joined.
pub struct Fuse {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    directory: TempDir,
}

impl Fuse {
    /// Mounts an empty one.
    pub fn new(faults: Faults) -> Self {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a mount point");
        let shared = Arc::new(Shared { inner: Mutex::new(Inner::new(faults)) });
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!("{PREFIX}fuse")),
            MountOption::Subtype(String::from("memory")),
            MountOption::DefaultPermissions,
        ];
        config.acl = SessionACL::All;
        let server = Server(Arc::clone(&shared));
        let session = Session::new(server, directory.path(), &config).expect("a mounted FUSE file system");
        let session = Some(session.spawn().expect("its thread"));
        Self { shared, session, directory }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Changes what goes wrong from now on, and begins to count anew.
    pub fn set(&self, faults: Faults) {
        let mut inner = self.shared.lock();
        inner.faults = faults;
        inner.counts = Counts::default();
    }

    /// What was asked of it so far.
    pub fn counts(&self) -> Counts {
        let inner = self.shared.lock();
        Counts { hanging: inner.hanging.len() + inner.hanging_writes.len(), ..inner.counts }
    }

    /// Answers every read and write that hangs, and hangs no more.
    pub fn release(&self) {
        let mut inner = self.shared.lock();
        (inner.faults.hang_from_read, inner.faults.hang_after_written) = (None, None);
        for (reply, data) in inner.hanging.drain(..) {
            reply.data(&data);
        }
        for (reply, written) in inner.hanging_writes.drain(..) {
            reply.written(written);
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.release();
        undo::unmount(self.path());
        self.session.take().into_iter().for_each(undo::end_session);
    }
}

struct Shared {
    inner: Mutex<Inner>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A request that panicked has spoilt its test already; the others still need answers.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Inner {
    faults: Faults,
    counts: Counts,
    nodes: HashMap<u64, Node>,
    next: u64,
    hanging: Vec<(ReplyData, Vec<u8>)>,
    hanging_writes: Vec<(ReplyWrite, u32)>,
}

enum Kind {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, Child>),
    Symlink(PathBuf),
}

#[derive(Clone, Copy)]
struct Child {
    number: u64,
    /// Place in the listing, which never changes: positions would shift while a reader removes what it has read,
    /// and every other name would be skipped.
    place: u64,
}

struct Node {
    kind: Kind,
    links: u32,
    /// Lookups that the kernel has not forgotten: a removed file that is open is still read and written.
    lookups: u64,
    mode: u32,
    user: u32,
    group: u32,
    modified: SystemTime,
}

impl Inner {
    fn new(faults: Faults) -> Self {
        let root = Node::new(Kind::Directory(BTreeMap::new()), 0o755, 0, 0);
        let nodes = HashMap::from([(INodeNo::ROOT.0, root)]);
        Self {
            faults,
            counts: Counts::default(),
            nodes,
            next: INodeNo::ROOT.0 + 1,
            hanging: Vec::new(),
            hanging_writes: Vec::new(),
        }
    }

    fn node(&mut self, number: INodeNo) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number.0).ok_or(Errno::ENOENT)
    }

    fn children(&mut self, directory: INodeNo) -> Result<&mut BTreeMap<OsString, Child>, Errno> {
        match &mut self.node(directory)?.kind {
            Kind::Directory(children) => Ok(children),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn find(&mut self, parent: INodeNo, name: &OsStr) -> Result<u64, Errno> {
        self.children(parent)?.get(name).map(|child| child.number).ok_or(Errno::ENOENT)
    }

    /// Attributes for an answer that makes the kernel remember the node.
    fn entry(&mut self, number: u64) -> Result<FileAttr, Errno> {
        let node = self.node(INodeNo(number))?;
        node.lookups += 1;
        Ok(node.attributes(number))
    }

    fn count_create(&mut self) -> Result<(), Errno> {
        if let Some((after, error)) = self.faults.create_error_after
            && self.counts.creates >= after
        {
            return Err(error);
        }
        self.counts.creates += 1;
        Ok(())
    }

    fn add(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Result<u64, Errno> {
        if self.children(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.count_create()?;
        let number = self.next;
        self.nodes.insert(number, node);
        self.name(parent, name, number)?;
        Ok(number)
    }

    fn name(&mut self, parent: INodeNo, name: &OsStr, number: u64) -> Result<(), Errno> {
        // Numbers are never used twice, for nodes or for places.
        let child = Child { number, place: self.next };
        self.next += 1;
        self.children(parent)?.insert(name.to_owned(), child);
        Ok(())
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let number = self.find(parent, name)?;
        let node = self.node(INodeNo(number))?;
        match (&node.kind, directory) {
            (Kind::Directory(children), true) if !children.is_empty() => return Err(Errno::ENOTEMPTY),
            (Kind::Directory(_), false) => return Err(Errno::EISDIR),
            (Kind::File(_) | Kind::Symlink(_), true) => return Err(Errno::ENOTDIR),
            _ => {}
        }
        node.links = node.links.saturating_sub(1);
        self.children(parent)?.remove(name);
        self.bury(number);
        Ok(())
    }

    /// Drops a node that has no name and that the kernel has forgotten.
    fn bury(&mut self, number: u64) {
        if self.nodes.get(&number).is_some_and(|node| node.links == 0 && node.lookups == 0) {
            self.nodes.remove(&number);
        }
    }

    fn rename(
        &mut self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return Err(Errno::EINVAL);
        }
        let number = self.find(from.0, from.1)?;
        match self.find(to.0, to.1) {
            Ok(_) if flags.contains(RenameFlags::RENAME_NOREPLACE) => return Err(Errno::EEXIST),
            Ok(there) if there == number => return Ok(()),
            Ok(there) => {
                let directory = matches!(self.node(INodeNo(there))?.kind, Kind::Directory(_));
                self.remove(to.0, to.1, directory)?;
            }
            Err(_) => {}
        }
        self.children(from.0)?.remove(from.1);
        self.name(to.0, to.1, number)
    }

    fn read(&mut self, number: INodeNo, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        self.counts.reads += 1;
        if let Some((after, error)) = self.faults.read_error_after
            && self.counts.bytes_read >= after
        {
            return Err(error);
        }
        let end = self.faults.reads_end_at.map_or(usize::MAX, |end| end as usize);
        let Kind::File(data) = &self.node(number)?.kind else { return Err(Errno::EISDIR) };
        let end = data.len().min(end);
        let from = end.min(offset as usize);
        let to = end.min(from + length as usize);
        let data = data[from..to].to_vec();
        self.counts.bytes_read += data.len() as u64;
        Ok(data)
    }

    fn write(&mut self, number: INodeNo, offset: u64, new: &[u8]) -> Result<u32, Errno> {
        if let Some((after, error)) = self.faults.write_error_after
            && self.counts.bytes_written + new.len() as u64 > after
        {
            return Err(error);
        }
        let node = self.node(number)?;
        let Kind::File(data) = &mut node.kind else { return Err(Errno::EISDIR) };
        let end = offset as usize + new.len();
        if data.len() < end {
            data.resize(end, 0);
        }
        data[offset as usize..end].copy_from_slice(new);
        node.modified = SystemTime::now();
        self.counts.bytes_written += new.len() as u64;
        Ok(new.len() as u32)
    }
}

impl Node {
    fn new(kind: Kind, mode: u32, user: u32, group: u32) -> Self {
        Self { kind, links: 1, lookups: 0, mode: mode & 0o7777, user, group, modified: SystemTime::now() }
    }

    fn attributes(&self, number: u64) -> FileAttr {
        let (kind, size) = match &self.kind {
            Kind::File(data) => (FileType::RegularFile, data.len() as u64),
            Kind::Directory(_) => (FileType::Directory, u64::from(BLOCK_BYTES)),
            Kind::Symlink(target) => (FileType::Symlink, target.as_os_str().len() as u64),
        };
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: self.modified,
            mtime: self.modified,
            ctime: self.modified,
            crtime: self.modified,
            kind,
            perm: self.mode as u16,
            nlink: self.links,
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }
}

/// Answers a request with what a closure found, or with its error.
macro_rules! answer {
    ($reply:ident, $found:expr, $ok:expr) => {
        match $found {
            Ok(found) => {
                let ok = $ok;
                ok($reply, found)
            }
            Err(error) => $reply.error(error),
        }
    };
}

fn give_entry(reply: ReplyEntry, attributes: FileAttr) {
    reply.entry(&REMEMBER, &attributes, Generation(0));
}

fn give_attributes(reply: ReplyAttr, attributes: FileAttr) {
    reply.attr(&REMEMBER, &attributes);
}

fn give_nothing(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

fn wants_direct(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(OFlags::DIRECT)
}

struct Server(Arc<Shared>);

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut inner = self.0.lock();
        let found = inner.find(parent, name).and_then(|number| inner.entry(number));
        answer!(reply, found, give_entry);
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let mut inner = self.0.lock();
        if let Ok(node) = inner.node(number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            inner.bury(number.0);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut inner = self.0.lock();
        let found = inner.node(number).map(|node| node.attributes(number.0));
        answer!(reply, found, give_attributes);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut inner = self.0.lock();
        let found = inner.node(number).map(|node| {
            node.mode = mode.map_or(node.mode, |mode| mode & 0o7777);
            node.user = user.unwrap_or(node.user);
            node.group = group.unwrap_or(node.group);
            if let (Kind::File(data), Some(size)) = (&mut node.kind, size) {
                data.resize(size as usize, 0);
            }
            node.attributes(number.0)
        });
        answer!(reply, found, give_attributes);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let mut inner = self.0.lock();
        let found = inner.node(number).and_then(|node| match &node.kind {
            Kind::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        });
        answer!(reply, found, |reply: ReplyData, target: PathBuf| {
            reply.data(target.as_os_str().as_encoded_bytes());
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let node = Node::new(Kind::Directory(BTreeMap::new()), mode & !umask, request.uid(), request.gid());
        let mut inner = self.0.lock();
        let made = inner.add(parent, name, node).and_then(|number| inner.entry(number));
        answer!(reply, made, give_entry);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut inner = self.0.lock();
        inner.counts.unlinks += 1;
        let time = inner.faults.unlink_time;
        drop(inner);
        thread::sleep(time);
        answer!(reply, self.0.lock().remove(parent, name, false), give_nothing);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(reply, self.0.lock().remove(parent, name, true), give_nothing);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let node = Node::new(Kind::Symlink(target.to_owned()), 0o777, request.uid(), request.gid());
        let mut inner = self.0.lock();
        let made = inner.add(parent, name, node).and_then(|number| inner.entry(number));
        answer!(reply, made, give_entry);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.0.lock().rename((parent, name), (new_parent, new_name), flags);
        answer!(reply, renamed, give_nothing);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut inner = self.0.lock();
        let made = (|| {
            if inner.children(parent)?.contains_key(name) {
                return Err(Errno::EEXIST);
            }
            inner.count_create()?;
            inner.node(number)?.links += 1;
            inner.name(parent, name, number.0)?;
            inner.entry(number.0)
        })();
        answer!(reply, made, give_entry);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut inner = self.0.lock();
        if inner.faults.refuse_direct && wants_direct(flags.0) {
            return reply.error(Errno::EINVAL);
        }
        let found = inner.node(number).map(drop);
        answer!(reply, found, |reply: ReplyOpen, ()| reply.opened(FileHandle(0), FopenFlags::empty()));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let node = Node::new(Kind::File(Vec::new()), mode & !umask, request.uid(), request.gid());
        let mut inner = self.0.lock();
        let made = inner.add(parent, name, node);
        if made.is_ok() && inner.faults.refuse_direct && wants_direct(flags) {
            return reply.error(Errno::EINVAL);
        }
        let made = made.and_then(|number| inner.entry(number));
        answer!(reply, made, |reply: ReplyCreate, attributes: FileAttr| {
            reply.created(&REMEMBER, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
        });
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut inner = self.0.lock();
        let found = inner.read(number, offset, length);
        let hangs = inner.faults.hang_from_read.is_some_and(|from| inner.counts.reads >= from);
        match found {
            Ok(data) if hangs => inner.hanging.push((reply, data)),
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut inner = self.0.lock();
        let hangs = inner.faults.hang_after_written.is_some_and(|after| inner.counts.bytes_written >= after);
        match inner.write(number, offset, data) {
            Ok(written) if hangs => inner.hanging_writes.push((reply, written)),
            written => answer!(reply, written, ReplyWrite::written),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut inner = self.0.lock();
        inner.counts.syncs += 1;
        let synced = match inner.faults.sync_error_after {
            Some((after, error)) if inner.counts.syncs > after => Err(error),
            _ => Ok(()),
        };
        answer!(reply, synced, give_nothing);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut inner = self.0.lock();
        let children = match inner.children(number) {
            Ok(children) => children.clone(),
            Err(error) => return reply.error(error),
        };
        let kind = |number: u64| match inner.nodes.get(&number).map(|node| &node.kind) {
            Some(Kind::Directory(_)) => FileType::Directory,
            Some(Kind::Symlink(_)) => FileType::Symlink,
            _ => FileType::RegularFile,
        };
        let mut entries: Vec<_> =
            children.into_iter().map(|(name, child)| (child.place + 2, child.number, name)).collect();
        entries.extend([(1, number.0, OsString::from(".")), (2, number.0, OsString::from(".."))]);
        entries.sort();
        for (place, child, name) in entries.into_iter().filter(|(place, ..)| *place > offset) {
            let kind = if place <= 2 { FileType::Directory } else { kind(child) };
            if reply.add(INodeNo(child), place, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let space = self.0.lock().faults.space;
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        let free = blocks(space.free_bytes);
        let (files, free_files) = (space.files, space.free_files);
        reply.statfs(blocks(space.total_bytes), free, free, files, free_files, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
