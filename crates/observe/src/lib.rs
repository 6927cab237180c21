//! Reads the state of the machine from the kernel's own files: mounts, devices, CPU, memory and their counters.
//!
//! `tests/fixtures/` has file trees of machines that are not available.
//!
//! Invariants:
//! - This crate reads and never writes.
//! - Every file is opened below a [`Root`], so that fixtures can replace machines. System calls query the running
//!   kernel, and only if the root is the system's.
//! - Parsers are pure functions of a text, in [`parse`]; no text makes them panic.
//! - A missing or unreadable value is absent, never an error and never invented.
//! - A [`Probe`] keeps its files open. A [`Probe::snapshot`] and a sample of [`Waits`] or [`Flows`] allocate
//!   nothing (`tests/no_allocation.rs`).

mod alive;
mod bcache;
mod block_device;
mod busy;
mod calls;
mod cgroup;
mod conditions;
mod denial;
mod device;
mod device_reads;
mod erasable;
mod extents;
mod file_status;
mod flows;
mod fuse;
mod geometry;
mod health;
mod hiding;
mod holding;
mod identity;
mod idle;
mod layers;
mod link;
mod loop_file;
mod machine;
mod maintenance;
mod mapping;
mod mapping_status;
mod mount;
mod netlink;
mod nfsd;
mod numa;
mod openers;
pub mod parse;
mod probe;
mod quota;
mod raid;
mod readable;
mod reading;
mod residency;
mod root;
mod sensors;
mod settings;
mod snapshot;
mod stack;
mod stuck;
mod subvolume;
mod system_sampler;
mod target;
pub mod thread;
mod virtualisation;
mod waits;
mod xfs_geometry;

pub use alive::is_process_alive;
pub use block_device::BlockDevice;
pub use conditions::conditions;
pub use denial::denial;
pub use device_reads::device_reads;
pub use erasable::{Obstacles, obstacles};
pub use extents::{ExtentAddress, FileExtents, extents, few_extents};
pub use file_status::FileStatus;
pub use flows::Flows;
pub use health::health;
pub use holding::{Traffic, disk_of, holding, traffic};
pub use identity::{
    EXT4_MAGIC, FUSE_MAGIC, Identity, OVERLAY_MAGIC, XFS_MAGIC, atomic_writes, direct_io, file_system_magic,
    space, space_at,
};
pub use idle::{IdleTraffic, idle_traffic};
pub use loop_file::LoopFile;
pub use machine::{dirty_and_writeback_bytes, lockable_bytes, machine, open_files_max};
pub use nfsd::NfsServer;
pub use numa::near_cpus;
pub use probe::Probe;
pub use readable::{kind_of, readable};
pub use residency::{Resident, resident};
pub use root::Root;
pub use sensors::cpu_throttled;
pub use settings::{is_recorded, settings};
pub use snapshot::Snapshot;
pub use stuck::{call_of, is_own_thread_alive, stuck_call, times_scheduled};
pub use system_sampler::SystemSampler;
pub use target::{resolve, target};
pub use waits::{STEPS_MAX, StepReader, Waits};
