//! A file that answers each read after a known time, and writes down when; as a block device.
//!
//! FUSE, as that is the one file system of which the server is ours. A loop device with direct I/O over it makes it
//! a device with a queue.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, ensure};
use engine::data::mix;
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEntry,
    ReplyOpen, Request, Session,
};
use tempfile::TempDir;

use crate::undo;

const NAME: &str = "file";
const FILE: INodeNo = INodeNo(2);
/// How long the kernel may remember what it was told, which never changes.
const REMEMBER: Duration = Duration::from_secs(3600);
/// Reads that may be under way: the kernel's default of 12 would be a queue that nobody sees.
const BACKGROUND_MAX: u16 = 256;

/// When a read arrived, and when it was answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    pub arrived: Instant,
    pub answered: Instant,
}

/// The file, mounted until it is dropped.
pub(super) struct SlowFile {
    session: Option<BackgroundSession>,
    log: Arc<Mutex<Vec<Served>>>,
    directory: TempDir,
}

impl SlowFile {
    /// A file of zeros. A read takes a time within this range, each as likely as any other: with one time for all,
    /// reads that are answered together would come again together, and queue where nobody sees it.
    pub(super) fn mount(size_bytes: u64, service: Range<Duration>) -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("skye-bench.").tempdir().context("make a mount point")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let (waiting, arrivals) = channel();
        let answers = Arc::clone(&log);
        thread::Builder::new()
            .name(String::from("slow-file"))
            .spawn(move || answer(&arrivals, &answers))
            .context("start a thread")?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(String::from("skye-bench")), MountOption::Subtype(String::from("slow"))];
        let session = Session::new(
            Server { size_bytes, service, waiting: Mutex::new((0, waiting)) },
            directory.path(),
            &config,
        )
        .and_then(Session::spawn)
        .context("mount a FUSE file system")?;
        Ok(Self { session: Some(session), log, directory })
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join(NAME)
    }

    /// What was served since it was last asked.
    pub(super) fn take_log(&self) -> Vec<Served> {
        std::mem::take(&mut *lock(&self.log))
    }
}

impl Drop for SlowFile {
    fn drop(&mut self) {
        // A device that has just been detached is still closing it.
        undo::unmount(self.directory.path());
        self.session.take().into_iter().for_each(undo::end_session);
    }
}

/// A loop device with direct I/O, detached when it is dropped.
pub(super) struct LoopDevice(PathBuf);

impl LoopDevice {
    pub(super) fn attach(file: &SlowFile) -> Result<Self> {
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(file.path());
        let output = losetup.output().context("run losetup")?;
        ensure!(output.status.success(), "{losetup:?}: {}", String::from_utf8_lossy(&output.stderr));
        let device = Self(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        let is_direct = device.attribute("loop/dio")?;
        ensure!(is_direct == "1", "{} makes no direct I/O", device.0.display());
        // What somebody has set outlives a device.
        let slots: u32 = device.attribute("queue/nr_requests")?.parse().context("its requests")?;
        ensure!(slots >= 64, "{} has room for {slots} requests only", device.0.display());
        Ok(device)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn attribute(&self, name: &str) -> Result<String> {
        let device = self.0.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(device).join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// A read that waits for its answer.
struct Waiting {
    due: Instant,
    arrived: Instant,
    length: usize,
    reply: ReplyData,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.due == other.due
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    /// The one that is due first is the greatest, as a heap gives that out.
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.cmp(&self.due)
    }
}

/// Answers every read at its time.
fn answer(arrivals: &Receiver<Waiting>, log: &Mutex<Vec<Served>>) {
    urgent();
    let zeros = vec![0; 1 << 20];
    let mut heap = BinaryHeap::new();
    loop {
        let left = heap.peek().map(|next: &Waiting| next.due.saturating_duration_since(Instant::now()));
        let arrival = match left {
            None => arrivals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => arrivals.recv_timeout(left),
        };
        match arrival {
            Ok(waiting) => heap.push(waiting),
            Err(RecvTimeoutError::Timeout) => {}
            // Those that are left are dropped, which answers them with an error.
            Err(RecvTimeoutError::Disconnected) => return,
        }
        while heap.peek().is_some_and(|next| next.due <= Instant::now()) {
            let Some(Waiting { arrived, length, reply, .. }) = heap.pop() else { break };
            // Before the answer: whoever has it may look at the log.
            lock(log).push(Served { arrived, answered: Instant::now() });
            reply.data(&zeros[..length.min(zeros.len())]);
        }
    }
}

/// The server's threads come before all others, and their sleep ends when it should: what is to be measured is how we
/// measure. Where it is not allowed, times are less exact, and the log says so.
fn urgent() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let thread = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let _ = Command::new("chrt").args(["--fifo", "--pid", "20", &thread]).output();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Server {
    size_bytes: u64,
    service: Range<Duration>,
    /// How many reads there were, and where they wait.
    waiting: Mutex<(u64, Sender<Waiting>)>,
}

impl Server {
    fn attributes(&self, number: INodeNo) -> FileAttr {
        let (kind, size, perm) = match number {
            FILE => (FileType::RegularFile, self.size_bytes, 0o600),
            _ => (FileType::Directory, 4096, 0o700),
        };
        let time = SystemTime::UNIX_EPOCH;
        FileAttr {
            ino: number,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        urgent();
        let unsupported = |_| std::io::Error::from(std::io::ErrorKind::Unsupported);
        // Without it the kernel waits for each direct read before it sends the next.
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(unsupported)?;
        let limits = config.set_max_background(BACKGROUND_MAX);
        limits
            .and_then(|_| config.set_congestion_threshold(BACKGROUND_MAX))
            .map(drop)
            .map_err(|_| std::io::Error::other("the kernel allows too few requests under way"))
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&REMEMBER, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&REMEMBER, &self.attributes(number));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let arrived = Instant::now();
        let length = u64::from(length).min(self.size_bytes.saturating_sub(offset)) as usize;
        let mut waiting = lock(&self.waiting);
        waiting.0 += 1;
        let share = (mix(waiting.0) >> 32) as u32;
        let spread = self.service.end - self.service.start;
        let due = arrived + self.service.start + spread.mul_f64(f64::from(share) / 2f64.powi(32));
        // Should the other thread have ended, the reply is dropped, which answers it with an error.
        let _ = waiting.1.send(Waiting { due, arrived, length, reply });
    }
}

/// Why this machine cannot have one; `None` where it can.
pub(super) fn absent() -> Option<String> {
    ["root", "fuse", "loop"].iter().find_map(|name| {
        let check = crate::capability::find(name).map_or(Ok(()), crate::capability::Capability::check);
        check.err().map(|reason| anyhow!("needs {name}: {reason}").to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_their_time_and_nothing_is_left() {
        crate::require!(root, fuse, loop);
        let service = Duration::from_millis(20);
        let file = SlowFile::mount(1 << 20, service..service * 2).unwrap();
        let directory = file.directory.path().to_owned();
        let device = LoopDevice::attach(&file).unwrap();
        let path = device.path().to_owned();
        let start = Instant::now();
        assert_eq!(std::fs::read(device.path()).unwrap(), vec![0; 1 << 20]);
        assert!(start.elapsed() >= service);
        let log = file.take_log();
        assert!(!log.is_empty() && log.iter().all(|served| served.answered - served.arrived >= service));
        drop(device);
        drop(file);
        assert!(!directory.exists());
        let attached = std::fs::read_to_string(
            "/sys/block".to_owned()
                + path.to_str().unwrap().trim_start_matches("/dev")
                + "/loop/backing_file",
        );
        assert!(attached.is_err() || !attached.unwrap().contains("skye-bench"));
    }
}
