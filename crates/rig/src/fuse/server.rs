//! The file system, as the kernel calls it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::OFlags;

use super::Shared;
use super::answers::Reply;
use super::faults::{Faults, Hangs, Missing};
use super::memory::{BLOCK_BYTES, Kind, Node};
use crate::served::{self, Direction};
use crate::spec::OpenFilePolicy;

/// Time for which the kernel may remember answers. Everything changes through the kernel, so its memory is never wrong.
const ATTRIBUTE_TTL: Duration = Duration::from_secs(1);

/// Place in a directory behind all its entries.
const ENDLESS_FROM: u64 = 1 << 40;

/// Answers a request on names with its result, or with its error, when it is due.
macro_rules! answer {
    ($shared:expr, $reply:ident, $found:expr, $ok:expr) => {{
        let found = $found;
        $shared.answer_name(move || match found {
            Ok(found) => {
                let ok = $ok;
                ok($reply, found)
            }
            Err(error) => $reply.error(error),
        });
    }};
}

fn reply_entry(reply: ReplyEntry, attributes: FileAttr) {
    reply.entry(&ATTRIBUTE_TTL, &attributes, Generation(0));
}

fn reply_attributes(reply: ReplyAttr, attributes: FileAttr) {
    reply.attr(&ATTRIBUTE_TTL, &attributes);
}

fn reply_empty(reply: ReplyEmpty, (): ()) {
    reply.ok();
}

fn wants_direct(flags: i32) -> bool {
    OFlags::from_bits_retain(flags as u32).contains(OFlags::DIRECT)
}

pub(super) struct Server(pub Arc<Shared>);

impl Server {
    fn fopen_flags(&self) -> FopenFlags {
        match self.0.open_policy {
            OpenFilePolicy::Direct => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            OpenFilePolicy::Usual | OpenFilePolicy::DirectRefused => FopenFlags::empty(),
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let unsupported = |_| io::Error::from(io::ErrorKind::Unsupported);
        // Without this, the kernel waits for each direct read before it sends the next.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(unsupported)?;
        // Without this, it also waits for each lookup in a directory. A kernel that is too old for it still does.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let limits = config.set_max_background(self.0.background_max);
        limits
            .and_then(|_| config.set_congestion_threshold(self.0.background_max))
            .map(drop)
            .map_err(|_| io::Error::other("the kernel allows too few requests in flight"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = {
            let mut memory = self.0.memory();
            memory.find(parent, name).and_then(|number| memory.entry(number))
        };
        self.0.answer_unless_it_hangs(Hangs::Lookup, move || match found {
            Ok(found) => reply_entry(reply, found),
            Err(error) => reply.error(error),
        });
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        let mut memory = self.0.memory();
        if let Ok(node) = memory.node(number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            memory.free_node(number.0);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let mut memory = self.0.memory();
        let found = memory.attributes(number);
        answer!(self.0, reply, found, reply_attributes);
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
        let mut memory = self.0.memory();
        let found = memory.node(number).map(|node| {
            node.mode = mode.map_or(node.mode, |mode| mode & 0o7777);
            node.user = user.unwrap_or(node.user);
            node.group = group.unwrap_or(node.group);
            if let (Kind::File(data), Some(size)) = (&mut node.kind, size) {
                data.resize(size as usize, 0);
            }
        });
        let found = found.and_then(|()| memory.attributes(number));
        answer!(self.0, reply, found, reply_attributes);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let mut memory = self.0.memory();
        let found = memory.node(number).and_then(|node| match &node.kind {
            Kind::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL),
        });
        answer!(self.0, reply, found, |reply: ReplyData, target: PathBuf| {
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
        let mut memory = self.0.memory();
        let made = memory.add(parent, name, node).and_then(|number| memory.entry(number));
        answer!(self.0, reply, made, reply_entry);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let time = self.0.memory().faults.unlink_time;
        thread::sleep(time);
        let mut memory = self.0.memory();
        let removed = if memory.faults.keeps_files { Ok(()) } else { memory.remove(parent, name, false) };
        drop(memory);
        self.0.answer_unless_it_hangs(Hangs::Unlink, move || match removed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        });
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer!(self.0, reply, self.0.memory().remove(parent, name, true), reply_empty);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let node = Node::new(Kind::Symlink(target.to_owned()), 0o777, request.uid(), request.gid());
        let mut memory = self.0.memory();
        let made = memory.add(parent, name, node).and_then(|number| memory.entry(number));
        answer!(self.0, reply, made, reply_entry);
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
        if self.0.memory().faults.missing == Some(Missing::Rename) {
            return reply.error(Errno::ENOSYS);
        }
        let renamed = self.0.memory().rename((parent, name), (new_parent, new_name), flags);
        answer!(self.0, reply, renamed, reply_empty);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut memory = self.0.memory();
        let made = (|| {
            if memory.children(parent)?.contains_key(name) {
                return Err(Errno::EEXIST);
            }
            memory.count_create()?;
            memory.node(number)?.links += 1;
            memory.name(parent, name, number.0)?;
            memory.entry(number.0)
        })();
        answer!(self.0, reply, made, reply_entry);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut memory = self.0.memory();
        if memory.faults.refuse_direct && wants_direct(flags.0) {
            return reply.error(Errno::EINVAL);
        }
        let found = memory.node(number).map(drop);
        // For other files, the kernel takes a short read for the end of the file.
        let answers_in_parts = memory.faults.read_bytes_max.is_some();
        drop(memory);
        let flags = if answers_in_parts { FopenFlags::FOPEN_DIRECT_IO } else { self.fopen_flags() };
        self.0.answer_unless_it_hangs(Hangs::Open, move || match found {
            Ok(()) => reply.opened(FileHandle(0), flags),
            Err(error) => reply.error(error),
        });
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
        let mut memory = self.0.memory();
        let made = memory.add(parent, name, node);
        if made.is_ok() && memory.faults.refuse_direct && wants_direct(flags) {
            return reply.error(Errno::EINVAL);
        }
        let made = made.and_then(|number| memory.entry(number));
        let flags = self.fopen_flags();
        answer!(self.0, reply, made, |reply: ReplyCreate, attributes: FileAttr| {
            reply.created(&ATTRIBUTE_TTL, &attributes, Generation(0), FileHandle(0), flags);
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
        let request = served::Request::now(Direction::Read, offset, length);
        let mut memory = self.0.memory();
        let found = memory.read(number, offset, length);
        let hangs = memory.faults.hang_from_read.is_some_and(|from| memory.counts.reads >= from);
        match found {
            Ok(data) if hangs => memory.hanging.push((request, Reply::Data(reply, data))),
            Ok(data) => {
                drop(memory);
                self.0.answer(number.0, request, Reply::Data(reply, data));
            }
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
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let request = served::Request::now(Direction::Write, offset, data.len() as u32);
        let mut memory = self.0.memory();
        if memory.faults.refuse_direct_writes && wants_direct(flags.0) {
            return reply.error(Errno::EINVAL);
        }
        let hangs =
            memory.faults.hang_after_written.is_some_and(|after| memory.counts.bytes_written >= after);
        match memory.write(number, offset, data) {
            Ok(written) if hangs => memory.hanging.push((request, Reply::Written(reply, written))),
            Ok(written) => {
                drop(memory);
                self.0.answer(number.0, request, Reply::Written(reply, written));
            }
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, number: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let mut memory = self.0.memory();
        memory.restore(number);
        let error = memory.faults.close_error;
        drop(memory);
        self.0.answer_unless_it_hangs(Hangs::Close, move || match error {
            Some(error) => reply.error(error),
            None => reply.ok(),
        });
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let request = served::Request::now(Direction::Sync, 0, 0);
        let mut memory = self.0.memory();
        let hangs = memory.hangs(Hangs::Sync);
        if memory.faults.missing == Some(Missing::Sync) {
            return reply.error(Errno::ENOSYS);
        }
        match memory.faults.sync_error_after {
            Some((after, error)) if memory.counts.syncs > after => reply.error(error),
            _ if hangs => memory.hanging.push((request, Reply::Done(reply))),
            _ => {
                drop(memory);
                self.0.answer(number.0, request, Reply::Done(reply));
            }
        }
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut memory = self.0.memory();
        let children = match memory.children(number) {
            Ok(children) => children.clone(),
            Err(error) => return reply.error(error),
        };
        let kind = |number: u64| match memory.nodes.get(&number).map(|node| &node.kind) {
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
        if memory.faults.lists_endlessly {
            let mut place = offset.max(ENDLESS_FROM);
            while !reply.add(number, place + 1, FileType::RegularFile, format!("x{place}")) {
                place += 1;
            }
        }
        drop(memory);
        self.0.answer_unless_it_hangs(Hangs::Readdir, move || reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let Faults { space, missing, .. } = self.0.memory().faults;
        if missing == Some(Missing::Statfs) {
            return reply.error(Errno::ENOSYS);
        }
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        let free = blocks(space.free_bytes);
        let (files, free_files) = (space.files, space.free_files);
        self.0.answer_unless_it_hangs(Hangs::Statfs, move || {
            let total = blocks(space.total_bytes);
            reply.statfs(total, free, free, files, free_files, BLOCK_BYTES, 255, BLOCK_BYTES);
        });
    }
}
