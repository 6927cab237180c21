//! The process of a rig: builds it, obeys its owner, and undoes it, however the owner goes.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use model::UserError;
use rustix::process::{PidfdFlags, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clock::now_ns;
use crate::disk::Disk;
use crate::fuse::{Faults, Fuse};
use crate::group::Group;
use crate::lines::{JOIN, Lines, Next, QUIT, Reply, SERVED, SET, TAKE};
use crate::neighbour::{Hogs, Neighbour};
use crate::network::Network;
use crate::relay;
use crate::served::RequestLog;
use crate::spec::{self, Spec};

/// Runs the rig that the words describe. It ends when `commands` end, on a signal, or when the parent process is gone.
/// Returns true if everything was built and undone; else `replies` get the errors.
///
/// The rig owns the whole process: it takes over the handling of signals.
pub fn serve(words: &[OsString], commands: impl AsFd, mut replies: impl Write) -> bool {
    if let Some(words) = relay::words(words) {
        let passed = relay::run(words);
        // Its standard output belongs to the program in front of it.
        if let Err(error) = &passed {
            let _ = writeln!(io::stderr(), "{error}");
        }
        return passed.is_ok();
    }
    let built = Spec::parse(words).and_then(|spec| Ok((ends()?, Work::build(&spec, &own_program(words))?)));
    let (ends, mut work) = match built {
        Ok(built) => built,
        Err(error) => {
            // The owner may be gone.
            let _ = Reply::Failed(error).send(&mut replies);
            return false;
        }
    };
    let obeyed = obey(&mut work, commands, &ends, &mut replies);
    let left = work.undo();
    let is_undone = left.is_empty();
    for reply in left.into_iter().map(Reply::Leftover).chain([Reply::Done(now_ns())]) {
        let _ = reply.send(&mut replies);
    }
    obeyed.is_ok() && is_undone
}

/// Our own command line without the words of the rig.
fn own_program(words: &[OsString]) -> Vec<OsString> {
    let mut program: Vec<_> = std::env::args_os().collect();
    program.truncate(program.len().saturating_sub(words.len()));
    // A bare name may find another program, or none.
    for (own, found) in program.first_mut().into_iter().zip(std::env::current_exe()) {
        *own = found.into();
    }
    program
}

/// Descriptors that can be read when the rig must end without a command.
type Ends = Vec<Box<dyn AsFd>>;

fn ends() -> Result<Ends, UserError> {
    let fail = |error| UserError::new("catch signals", error);
    let (from, to) = UnixStream::pair().map_err(fail)?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, to.try_clone().map_err(fail)?).map_err(fail)?;
    }
    let mut ends: Ends = vec![Box::new(from)];
    // The end of `commands` shows it too, unless another process has inherited the other end of that pipe. The signal
    // that a parent's death can send will not do. It comes with the end of the thread that started us, which may be
    // long before.
    let parent = rustix::process::getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    ends.extend(parent.map(|parent| Box::new(parent) as Box<dyn AsFd>));
    Ok(ends)
}

fn obey(work: &mut Work, commands: impl AsFd, ends: &Ends, replies: &mut impl Write) -> io::Result<()> {
    work.ready().send(replies)?;
    replies.flush()?;
    let mut lines = Lines::new(commands);
    let others: Vec<&dyn AsFd> = ends.iter().map(AsRef::as_ref).collect();
    while let Next::Line(line) = lines.next(&others, None)? {
        let mut words = line.split_ascii_whitespace();
        let done = match words.next() {
            Some(QUIT) => return Ok(()),
            Some(SET) => work.set(&words.collect::<Vec<_>>()),
            Some(JOIN) => work.join(&words.collect::<Vec<_>>()),
            Some(SERVED) => send_served(work.served(), replies),
            Some(TAKE) => send_served(work.take_served(), replies),
            _ => Err(UserError::new(
                format!("understand `{line}`"),
                format!("the commands are {SET}, {JOIN}, {SERVED}, {TAKE} and {QUIT}"),
            )),
        };
        done.map_or_else(Reply::Failed, |()| Reply::Done(now_ns())).send(replies)?;
        replies.flush()?;
    }
    Ok(())
}

fn send_served(served: Option<RequestLog>, replies: &mut impl Write) -> Result<(), UserError> {
    let served = served.ok_or_else(|| {
        UserError::new("report the request log", "this rig has no server")
            .help("use a `fuse` rig, a `disk` over one, or a `neighbour`")
    })?;
    let mut text = io::BufWriter::new(replies);
    let sent = served.requests.iter().try_for_each(|request| Reply::Request(*request).send(&mut text));
    sent.and_then(|()| text.flush()).map_err(|error| UserError::new("report the request log", error))
}

/// The rig that was built.
enum Work {
    Fuse(Fuse),
    Disk(Box<Disk>),
    Neighbour(Neighbour),
    Hogs(Hogs),
    Group(Group),
    Network(Network),
}

impl Work {
    fn build(spec: &Spec, program: &[OsString]) -> Result<Self, UserError> {
        Ok(match spec {
            Spec::Fuse(spec) => Self::Fuse(Fuse::mount(spec, Faults::default())?),
            Spec::Disk(spec) => Self::Disk(Box::new(Disk::build(spec)?)),
            Spec::Neighbour(spec) => Self::Neighbour(Neighbour::start(spec)?),
            Spec::Hogs(spec) => Self::Hogs(Hogs::start(spec)?),
            Spec::Quota(spec) => Self::Group(Group::quota(spec)?),
            Spec::Memory(spec) => Self::Group(Group::memory(spec)?),
            Spec::Network(spec) => Self::Network(Network::build(spec, program)?),
        })
    }

    fn ready(&mut self) -> Reply {
        let (path, device, journal) = match self {
            Self::Fuse(fuse) => (fuse.path().to_owned(), None, Some(fuse.journal())),
            Self::Disk(disk) => (disk.path(), Some(disk.device().path()), Some(disk.journal())),
            Self::Neighbour(neighbour) => (PathBuf::new(), None, Some(neighbour.journal())),
            Self::Hogs(_) => (PathBuf::new(), None, None),
            Self::Group(group) => (group.path().to_owned(), None, Some(group.journal())),
            Self::Network(network) => (network.path().to_owned(), None, Some(network.journal())),
        };
        Reply::Ready(path, device, journal.map(|journal| journal.path().to_owned()))
    }

    fn set(&mut self, words: &[&str]) -> Result<(), UserError> {
        match self {
            Self::Fuse(fuse) => {
                let server = fuse.server();
                server.set_timing(spec::change_timing(server.timing(), words)?);
                Ok(())
            }
            Self::Disk(disk) => disk.set(words),
            Self::Group(group) => group.set(words),
            Self::Network(network) => network.set(words),
            Self::Neighbour(_) | Self::Hogs(_) => Err(UserError::new(
                format!("change `{}` of a rig", words.join(" ")),
                "it has no settings to change",
            )),
        }
    }

    fn join(&mut self, words: &[&str]) -> Result<(), UserError> {
        let action = || format!("move process `{}` into a rig", words.join(" "));
        match (self, words) {
            (Self::Group(group), [process]) => match process.parse() {
                Ok(process) => group.join(process),
                Err(_) => Err(UserError::new(action(), "it is not a process ID")),
            },
            _ => Err(UserError::new(action(), "the rig has no process group")
                .help("use a rig with a quota or a memory limit")),
        }
    }

    fn served(&self) -> Option<RequestLog> {
        match self {
            Self::Fuse(fuse) => Some(fuse.served()),
            Self::Disk(disk) => disk.served(),
            Self::Neighbour(neighbour) => Some(neighbour.served()),
            Self::Hogs(_) | Self::Group(_) | Self::Network(_) => None,
        }
    }

    fn take_served(&self) -> Option<RequestLog> {
        match self {
            Self::Fuse(fuse) => Some(fuse.take_served()),
            Self::Disk(disk) => disk.take_served(),
            Self::Neighbour(neighbour) => Some(neighbour.take_served()),
            Self::Hogs(_) | Self::Group(_) | Self::Network(_) => None,
        }
    }

    fn undo(&mut self) -> Vec<String> {
        match self {
            Self::Fuse(fuse) => {
                fuse.server().release_all();
                fuse.journal().undo()
            }
            Self::Disk(disk) => disk.undo(),
            Self::Neighbour(neighbour) => neighbour.undo(),
            Self::Hogs(hogs) => {
                hogs.end();
                Vec::new()
            }
            Self::Group(group) => group.journal().undo(),
            Self::Network(network) => network.undo(),
        }
    }
}
