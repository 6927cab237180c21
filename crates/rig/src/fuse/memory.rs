//! Files, directories and links in memory.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags};

use super::answers::Reply;
use super::faults::{Counts, Faults, Hangs};
use crate::served::Request;

pub(super) const BLOCK_BYTES: u32 = 4096;

/// The files, their faults, and the counts of requests.
pub(super) struct Memory {
    pub faults: Faults,
    pub counts: Counts,
    pub nodes: HashMap<u64, Node>,
    next: u64,
    /// Requests that get no answer before they are released.
    pub hanging: Vec<(Request, Reply)>,
    /// Parent and name of removed files, by number, which come back when they are closed.
    removed: HashMap<u64, (INodeNo, OsString)>,
}

pub(super) enum Kind {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, Child>),
    Symlink(PathBuf),
}

#[derive(Clone, Copy)]
pub(super) struct Child {
    pub number: u64,
    /// Place in the listing, which never changes. Positions would shift while a reader removes the names that it has
    /// read, and it would skip every other name.
    pub place: u64,
}

pub(super) struct Node {
    pub kind: Kind,
    pub links: u32,
    /// Lookups that the kernel has not forgotten: a removed file that is open can still be read and written.
    pub lookups: u64,
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    modified: SystemTime,
}

impl Memory {
    pub(super) fn new(faults: Faults) -> Self {
        let root = Node::new(Kind::Directory(BTreeMap::new()), 0o755, 0, 0);
        let nodes = HashMap::from([(INodeNo::ROOT.0, root)]);
        let (next, hanging, removed) = (INodeNo::ROOT.0 + 1, Vec::new(), HashMap::new());
        Self { faults, counts: Counts::default(), nodes, next, hanging, removed }
    }

    /// Counts a call, and returns true if it has to hang.
    pub(super) fn hangs(&mut self, call: Hangs) -> bool {
        let Counts { syncs, unlinks, readdirs, closes, lookups, opens, statfs, .. } = &mut self.counts;
        let count = match call {
            Hangs::Sync => syncs,
            Hangs::Unlink => unlinks,
            Hangs::Readdir => readdirs,
            Hangs::Close => closes,
            Hangs::Lookup => lookups,
            Hangs::Open => opens,
            Hangs::Statfs => statfs,
        };
        *count += 1;
        self.faults.hang.is_some_and(|(hangs, from)| hangs == call && *count >= from)
    }

    pub(super) fn node(&mut self, number: INodeNo) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number.0).ok_or(Errno::ENOENT)
    }

    pub(super) fn children(&mut self, directory: INodeNo) -> Result<&mut BTreeMap<OsString, Child>, Errno> {
        match &mut self.node(directory)?.kind {
            Kind::Directory(children) => Ok(children),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn find(&mut self, parent: INodeNo, name: &OsStr) -> Result<u64, Errno> {
        self.children(parent)?.get(name).map(|child| child.number).ok_or(Errno::ENOENT)
    }

    /// Attributes for an answer that makes the kernel remember the node.
    pub(super) fn entry(&mut self, number: u64) -> Result<FileAttr, Errno> {
        self.node(INodeNo(number))?.lookups += 1;
        self.attributes(INodeNo(number))
    }

    /// Attributes of a node, with the mode that all have if there is one.
    pub(super) fn attributes(&mut self, number: INodeNo) -> Result<FileAttr, Errno> {
        let mode = self.faults.mode;
        let attributes = self.node(number)?.attributes(number.0);
        Ok(FileAttr { perm: mode.map_or(attributes.perm, |mode| mode as u16), ..attributes })
    }

    pub(super) fn count_create(&mut self) -> Result<(), Errno> {
        if let Some((after, error)) = self.faults.create_error_after
            && self.counts.creates >= after
        {
            return Err(error);
        }
        self.counts.creates += 1;
        Ok(())
    }

    pub(super) fn add(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Result<u64, Errno> {
        if self.children(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.count_create()?;
        let number = self.next;
        self.nodes.insert(number, node);
        self.name(parent, name, number)?;
        Ok(number)
    }

    pub(super) fn name(&mut self, parent: INodeNo, name: &OsStr, number: u64) -> Result<(), Errno> {
        // Numbers are never used twice, for nodes or for places.
        let child = Child { number, place: self.next };
        self.next += 1;
        self.children(parent)?.insert(name.to_owned(), child);
        Ok(())
    }

    pub(super) fn remove(&mut self, parent: INodeNo, name: &OsStr, directory: bool) -> Result<(), Errno> {
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
        if self.faults.restores_at_close && !directory {
            self.removed.insert(number, (parent, name.to_owned()));
        }
        self.free_node(number);
        Ok(())
    }

    /// Restores the name of a removed file.
    pub(super) fn restore(&mut self, number: INodeNo) {
        if let Some((parent, name)) = self.removed.remove(&number.0)
            && let Ok(node) = self.node(number)
        {
            node.links += 1;
            let _ = self.name(parent, &name, number.0);
        }
    }

    /// Drops a node that has no name and that the kernel has forgotten.
    pub(super) fn free_node(&mut self, number: u64) {
        if self.nodes.get(&number).is_some_and(|node| node.links == 0 && node.lookups == 0) {
            self.nodes.remove(&number);
        }
    }

    pub(super) fn rename(
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

    pub(super) fn read(&mut self, number: INodeNo, offset: u64, length: u32) -> Result<Vec<u8>, Errno> {
        self.counts.reads += 1;
        if let Some((after, error)) = self.faults.read_error_after
            && self.counts.bytes_read >= after
        {
            return Err(error);
        }
        let end = self.faults.reads_end_at.map_or(usize::MAX, |end| end as usize);
        let length = length.min(self.faults.read_bytes_max.unwrap_or(u32::MAX));
        let Kind::File(data) = &self.node(number)?.kind else { return Err(Errno::EISDIR) };
        let end = data.len().min(end);
        let from = end.min(offset as usize);
        let to = end.min(from + length as usize);
        let data = data[from..to].to_vec();
        self.counts.bytes_read += data.len() as u64;
        Ok(data)
    }

    pub(super) fn write(&mut self, number: INodeNo, offset: u64, new: &[u8]) -> Result<u32, Errno> {
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
    pub(super) fn new(kind: Kind, mode: u32, user: u32, group: u32) -> Self {
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
