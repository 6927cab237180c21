//! Others on the same machine: a reader, and threads that need the CPUs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use model::UserError;
use rustix::fs::OFlags;

use crate::clock::now_ns;
use crate::journal::Journal;
use crate::served::{Direction, Request, RequestLog};
use crate::spec::{HogsSpec, NeighbourSpec};

/// Alignment of direct I/O that all devices accept.
const ALIGNMENT_BYTES: usize = 4096;

/// A thread that reads its own file with direct I/O, at a fixed rate. Dropping it stops it and removes its file.
#[derive(Debug)]
pub struct Neighbour {
    reader: Worker,
    served: Arc<Mutex<RequestLog>>,
    journal: Journal,
}

impl Neighbour {
    /// Makes the file and starts to read.
    ///
    /// # Errors
    /// The file cannot be made there, or cannot be read directly.
    pub fn start(spec: &NeighbourSpec) -> Result<Self, UserError> {
        let mut journal = Journal::open()?;
        let directory = journal.directory_in(&spec.directory)?;
        let path = journal.file_in(&directory, "data", 0)?;
        let fail = |what: &str, error| UserError::new(format!("{what} {}", path.display()), error);
        let blocks = (spec.file_bytes / spec.block_bytes.max(1)).max(1);
        fill(&path, blocks * spec.block_bytes).map_err(|error| fail("write", error))?;
        let direct = OFlags::DIRECT.bits() as i32;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(direct)
            .open(&path)
            .map_err(|error| fail("open with O_DIRECT", error))?;
        // The first read shows if direct reads work at all.
        let mut block = AlignedBuffer::new(spec.block_bytes as usize);
        file.read_exact_at(block.bytes_mut(), 0).map_err(|error| fail("read", error))?;
        let served = Arc::new(Mutex::new(RequestLog::default()));
        let log = Arc::clone(&served);
        let gap_ns = 1_000_000_000 / spec.reads_per_second.max(1);
        let reader =
            Worker::start("rig-neighbour", move |ended| read(&file, block, blocks, gap_ns, &log, ended))?;
        Ok(Self { reader, served, journal })
    }

    /// Returns its reads since the last [`Neighbour::take_served`]; a request arrives when it is due.
    pub fn served(&self) -> RequestLog {
        self.served.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the same, and resets the counts.
    pub fn take_served(&self) -> RequestLog {
        std::mem::take(&mut *self.served.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Ends it. Returns the parts that are left, and why.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        self.reader.end();
        self.journal.undo()
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for left in self.undo() {
            log::warn!("not removed: {left}");
        }
    }
}

/// Writes random data, which no device takes for zeros, so that there is something to read.
fn fill(path: &std::path::Path, bytes: u64) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    let mut random = fastrand::Rng::with_seed(1);
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        random.fill(&mut block);
        let some = left.min(block.len() as u64) as usize;
        file.write_all(&block[..some])?;
        left -= some as u64;
    }
    file.sync_all()
}

fn read(
    file: &File,
    mut block: AlignedBuffer,
    blocks: u64,
    gap_ns: u64,
    served: &Mutex<RequestLog>,
    ended: &AtomicBool,
) {
    let mut random = fastrand::Rng::with_seed(2);
    let length_bytes = block.length as u64;
    let mut due_ns = now_ns();
    while !ended.load(Ordering::Relaxed) {
        let early_ns = due_ns.saturating_sub(now_ns());
        if early_ns > 0 {
            // Sleep no longer than this, so that the thread notices its end.
            thread::sleep(Duration::from_nanos(early_ns.min(50_000_000)));
            continue;
        }
        let offset_bytes = random.u64(0..blocks) * length_bytes;
        let done = file.read_exact_at(block.bytes_mut(), offset_bytes);
        let answered_ns = now_ns();
        if done.is_ok() {
            let request = Request {
                direction: Direction::Read,
                arrived_ns: due_ns,
                answered_ns,
                offset_bytes,
                length_bytes,
            };
            served.lock().unwrap_or_else(PoisonError::into_inner).add(request);
        }
        // Late reads are not made up for: the rate is an upper limit.
        due_ns = (due_ns + gap_ns).max(answered_ns.saturating_sub(gap_ns));
    }
}

/// Memory at an address that suits direct I/O.
struct AlignedBuffer {
    bytes: Vec<u8>,
    at: usize,
    length: usize,
}

impl AlignedBuffer {
    fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT_BYTES];
        // The address lies within the added room, which is as large as the alignment.
        let at = bytes.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        Self { bytes, at, length }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..self.at + self.length]
    }
}

/// Threads that do nothing but take CPU time. Dropping it ends them.
#[derive(Debug)]
pub struct Hogs(Vec<Worker>);

impl Hogs {
    /// Starts the threads.
    ///
    /// # Errors
    /// No more threads can be started.
    pub fn start(spec: &HogsSpec) -> Result<Self, UserError> {
        let spin = |_| {
            Worker::start("rig-hog", |ended| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        };
        (0..spec.count).map(spin).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn end(&mut self) {
        self.0.iter_mut().for_each(Worker::end);
    }
}

/// A thread that works until it is dropped.
#[derive(Debug)]
struct Worker {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn start(name: &str, work: impl FnOnce(&AtomicBool) + Send + 'static) -> Result<Self, UserError> {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let thread = thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&flag))
            .map_err(|error| UserError::new("start a thread", error))?;
        Ok(Self { ended, thread: Some(thread) })
    }

    fn end(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
