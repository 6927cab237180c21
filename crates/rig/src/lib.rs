//! Devices, servers and neighbours with known answers, each undone however it ends.
//!
//! A [`Spec`] says what a rig is. [`Rig::start`] has it built by another process ([`serve`] is the body of that), in
//! which it lives; [`Fuse`](fuse::Fuse), [`Disk`], [`Neighbour`], [`Hogs`], [`Group`] and [`Network`] are the same in this
//! one.
//!
//! ```no_run
//! # fn main() -> Result<(), model::Trouble> {
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
//! - What outlives a process is in a journal before it is made, and undone from there: by whoever made it, or by
//!   [`clean`] when that was killed.
//! - Only what a journal names is undone, and only while it is what was made: the device is still over our file and
//!   the kernel's sequence number of it the same, the mount on our directory, the limit the one that we set, the
//!   server one with a word on our directory.
//! - A journal that somebody has locked is theirs, unless the kernel says that they were killed.
//! - Neither building nor undoing waits for a time that the rig was told to take.
//! - Nothing is printed; what was answered is told to the owner.

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
    Cleaned, Journal, abandoned, clean, clean_one, is_live, is_mounted, list, plain_directories, steps,
};
pub use lineage::is_own;
pub use neighbour::{Hogs, Neighbour};
pub use network::Network;
pub use owner::Rig;
pub use serve::serve;
pub use served::{Direction, Request, Served};
pub use spec::{
    DiskSpec, FuseSpec, HogsSpec, MemorySpec, NeighbourSpec, NetworkSpec, On, Opened, QuotaSpec, Spec,
};
pub use throttle::Throttle;
pub use timing::{Slow, Span, Stall, Timed, Timing};
pub use undo::unmount;
pub use zram::Zram;

/// What the names of all directories begin with that rigs make.
pub const PREFIX: &str = "skye-rig.";
