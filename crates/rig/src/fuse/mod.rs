//! A file system in memory, served by this process. It fails on request, and takes the requested times.
//!
//! The thread that takes requests only decides when each is answered; another thread answers. So a request takes the
//! time of the queue of slots, not of the server's work, as long as this work takes less.

mod answers;
mod faults;
mod memory;
mod server;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use fuser::{BackgroundSession, Config, INodeNo, MountOption, Session, SessionACL};
use model::UserError;

pub use faults::{Counts, Faults, Hangs, Missing, Space};
/// Error that a request fails with.
pub use fuser::Errno;

use crate::clock::now_ns;
use crate::command::set_realtime_priority;
use crate::journal::Journal;
use crate::served::{Direction, Request, RequestLog};
use crate::spec::{FuseSpec, OpenFilePolicy};
use crate::step::Step;
use crate::timing::{Queue, Timing};
use crate::undo;

use answers::{Reply, ReplyThread};
use memory::{Kind, Memory, Node};

/// The name of a file that exists from the beginning.
pub const FILE_NAME: &str = "file";
/// Type of the file system, as the kernel shows it.
const KIND: &str = "fuse";

/// The mounted file system. Dropping it answers waiting requests, unmounts it, and joins its threads.
pub struct Fuse {
    server: Server,
    /// Unmounts it.
    journal: Journal,
}

impl std::fmt::Debug for Fuse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fuse").field("at", &self.server.at).finish_non_exhaustive()
    }
}

impl Fuse {
    /// Mounts an empty file system, or one with a single file.
    ///
    /// # Errors
    /// FUSE is missing, or not permitted.
    pub fn mount(spec: &FuseSpec, faults: Faults) -> Result<Self, UserError> {
        let mut journal = Journal::open()?;
        let server = Server::mount(&mut journal, spec, faults)?;
        Ok(Self { server, journal })
    }

    /// Path where it is mounted.
    pub fn path(&self) -> &Path {
        &self.server.at
    }

    /// The server that answers its requests.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its journal.
    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Replaces the faults, and resets the counts.
    pub fn set(&self, faults: Faults) {
        self.server.set_faults(faults);
    }

    /// Returns the requests since the last [`Fuse::set`].
    pub fn counts(&self) -> Counts {
        self.server.counts()
    }

    /// Answers everything that hangs, and lets nothing hang any more.
    pub fn release(&self) {
        self.server.release();
    }

    /// Returns the answers and their instants since the last [`Fuse::take_served`].
    pub fn served(&self) -> RequestLog {
        self.server.shared.answers.served()
    }

    /// Returns the same, and resets the log.
    pub fn take_served(&self) -> RequestLog {
        self.server.shared.answers.take()
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.server.release_all();
        self.journal.undo();
    }
}

/// The server of a mount that another owner's journal undoes. It is dropped after the unmount.
pub struct Server {
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    at: PathBuf,
}

impl Server {
    pub(crate) fn mount(journal: &mut Journal, spec: &FuseSpec, faults: Faults) -> Result<Self, UserError> {
        let at = journal.mount_point()?;
        journal.note(Step::Mount { file_system: KIND.into(), at: at.clone() })?;
        let action = || format!("serve a FUSE file system at {}", at.display());
        let fail =
            |error: std::io::Error| UserError::new(action(), error).help("run it as root, with /dev/fuse");
        // A server that takes no time on purpose need not come before all others either.
        let urgent = !spec.timing.is_immediate();
        let mut memory = Memory::new(Faults {
            refuse_direct: faults.refuse_direct || spec.open_policy == OpenFilePolicy::DirectRefused,
            ..faults
        });
        if let Some(bytes) = spec.file_bytes {
            memory.add_file(FILE_NAME, bytes).map_err(|_| {
                UserError::new(action(), format!("there is no space for a file of {bytes} bytes"))
            })?;
        }
        let shared = Arc::new(Shared {
            memory: Mutex::new(memory),
            queue: Mutex::new(Queue::new(spec.timing, now_ns())),
            answers: ReplyThread::start(urgent).map_err(fail)?,
            open_policy: spec.open_policy,
            background_max: spec.background_max,
        });
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName(String::from("skye-rig")), MountOption::DefaultPermissions];
        config.acl = SessionACL::All;
        let server = server::Server(Arc::clone(&shared));
        let mount_point = at.clone();
        // An urgent thread starts the session: the thread that takes requests inherits the priority, and the caller's
        // stays unchanged.
        let spawned = thread::spawn(move || {
            if urgent {
                set_realtime_priority();
            }
            Session::new(server, mount_point, &config).and_then(Session::spawn)
        });
        let session = spawned.join().map_err(|_| UserError::new(action(), "its thread panicked"))?;
        Ok(Self { session: Some(session.map_err(fail)?), shared, at })
    }

    /// Path where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.at
    }

    pub(crate) fn timing(&self) -> Timing {
        lock(&self.shared.queue).timing()
    }

    /// Replaces the times. Waiting requests keep their due times.
    pub fn set_timing(&self, timing: Timing) {
        lock(&self.shared.queue).set(timing, now_ns());
    }

    fn set_faults(&self, faults: Faults) {
        let mut memory = self.shared.memory();
        memory.faults = faults;
        memory.counts = Counts::default();
    }

    fn counts(&self) -> Counts {
        let memory = self.shared.memory();
        Counts { hanging: memory.hanging.len(), ..memory.counts }
    }

    pub(crate) fn served(&self) -> RequestLog {
        self.shared.answers.served()
    }

    pub(crate) fn take_served(&self) -> RequestLog {
        self.shared.answers.take()
    }

    fn release(&self) {
        let mut memory = self.shared.memory();
        (memory.faults.hang_from_read, memory.faults.hang_after_written) = (None, None);
        memory.faults.hang = None;
        for (request, answer) in memory.hanging.drain(..) {
            self.shared.answers.now(request, answer);
        }
    }

    /// Answers all present and future requests at once, so that no process waits for a server that is about to end.
    pub(crate) fn release_all(&self) {
        self.set_timing(Timing::default());
        self.release();
        self.shared.answers.hurry();
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.session.take().into_iter().for_each(undo::end_session);
    }
}

struct Shared {
    memory: Mutex<Memory>,
    queue: Mutex<Queue>,
    answers: ReplyThread,
    open_policy: OpenFilePolicy,
    background_max: u16,
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }

    /// Answers a request on a file when the queue says.
    fn answer(&self, file: u64, request: Request, answer: Reply) {
        let Request { direction, arrived_ns, offset_bytes, length_bytes, .. } = request;
        let due_ns = lock(&self.queue).due_ns(arrived_ns, direction, file, offset_bytes, length_bytes);
        match due_ns {
            Some(due_ns) => self.answers.at(due_ns, request, answer),
            None => self.answers.now(request, answer),
        }
    }

    /// Answers such a call, unless it has to hang.
    fn answer_unless_it_hangs(&self, call: Hangs, give: impl FnOnce() + Send + 'static) {
        let mut memory = self.memory();
        if memory.hangs(call) {
            let request = Request::now(Direction::Name, 0, 0);
            memory.hanging.push((request, Reply::Name(Box::new(give))));
        } else {
            drop(memory);
            self.answer_name(give);
        }
    }

    /// Answers a request on names at the queue's due time. A request without a service time is not recorded: there are
    /// many, and no reader needs them.
    fn answer_name(&self, give: impl FnOnce() + Send + 'static) {
        let request = Request::now(Direction::Name, 0, 0);
        let due_ns = lock(&self.queue).due_ns(request.arrived_ns, Direction::Name, 0, 0, 0);
        match due_ns {
            Some(due_ns) => self.answers.at(due_ns, request, Reply::Name(Box::new(give))),
            None => give(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A request that panicked has already spoilt its test; the others still need answers.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// Adds a file of zeros to the root, before the mount.
    fn add_file(&mut self, name: &str, bytes: u64) -> Result<(), Errno> {
        let room = Vec::<u8>::new().try_reserve_exact(usize::try_from(bytes).map_err(|_| Errno::EFBIG)?);
        room.map_err(|_| Errno::ENOMEM)?;
        // The allocator gets pages of zeros, which the kernel makes on first use.
        let node = Node::new(Kind::File(vec![0; bytes as usize]), 0o600, 0, 0);
        self.add(INodeNo::ROOT, name.as_ref(), node).map(drop)?;
        self.counts = Counts::default();
        Ok(())
    }
}
