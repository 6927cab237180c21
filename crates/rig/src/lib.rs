//! Devices, servers and neighbours with known results, each undone whatever its end.
//!
//! A [`Spec`] describes a rig. [`Rig::start`] starts another process, which builds the rig and holds it ([`serve`]).
//! [`Fuse`](fuse::Fuse), [`Disk`], [`Neighbour`], [`Hogs`], [`Group`] and [`Network`] are the same in this process. The
//! journal of all changes is in `journal`, and one change is a `Step`. [`cases`] holds the selftest's cases, as values.
//!
//! ```no_run
//! # fn main() -> Result<(), model::UserError> {
//! use rig::{Rig, Spec};
//!
//! let program = ["skye".into(), "rig-server".into()];
//! let rig = Rig::start(&program, Spec::fuse().slots(4).service_us(1000))?;
//! // … measure rig.path() …
//! let served = rig.served()?;
//! assert!(served.quantile_ns(0.999) >= 1_000_000);
//! rig.finish()
//! # }
//! ```
//!
//! Invariants:
//! - A change that outlives a process is in a locked journal (`/run/skye-rigs`) before it is made. A rig undoes itself
//!   when its owner exits or is killed.
//! - A killed rig is undone by its owner, by the next `skye selftest`, by `skye selftest --clean`, or by `cargo xtask
//!   rigs --clean`. All of them use [`clean`].
//! - Undoing touches only objects in a journal, and only while they are the ones that the rig made. The device still
//!   has the rig's backing file and its sequence number. The mount is alone on the rig's directory. The limit has the
//!   rig's value. The server's command line has a path in the rig's directory.
//! - A locked journal belongs to its holder, unless the holder has a pending SIGKILL.
//! - Neither building nor undoing waits for service times of the spec.
//! - This crate prints nothing; the owner gets all replies.

pub mod cases;
mod cgroup;
mod clock;
mod command;
mod device;
mod disk;
pub mod fuse;
mod group;
mod holder;
mod identity;
mod journal;
mod lineage;
mod lines;
mod mounts;
mod neighbour;
mod network;
mod owner;
mod relay;
mod serve;
mod served;
mod servers;
mod settings;
mod spec;
mod step;
mod text;
mod throttle;
mod timing;
mod undo;
mod zram;

pub use clock::now_ns;
pub use device::LoopDevice;
pub use disk::Disk;
pub use group::Group;
pub use journal::{
    CleanOutcome, Journal, abandoned, clean, clean_one, is_live, is_mounted, list, other_owner,
    plain_directories, put_settings_back, steps,
};
pub use lineage::is_own;
pub use neighbour::{Hogs, Neighbour};
pub use network::{Network, PREPARE_SSHD};
pub use owner::Rig;
pub use serve::serve;
pub use served::{Direction, Request, RequestLog};
pub use settings::{Change, FirstSettings, Place, PutBack, Settings};
pub use spec::{
    Daemon, DiskBacking, DiskSpec, FuseSpec, HogsSpec, MemorySpec, NeighbourSpec, NetworkSpec,
    OpenFilePolicy, QuotaSpec, Spec,
};
pub use throttle::Throttle;
pub use timing::{Slow, Span, Stall, TimedDirections, Timing};
pub use undo::unmount;
pub use zram::Zram;

/// Prefix of the names of all directories that rigs make.
pub const PREFIX: &str = "skye-rig.";
