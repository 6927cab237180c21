//! Parsers of the kernel's files: pure functions, a file for each, that accept any text without panicking.

pub mod block_stat;
pub mod cgroup;
pub mod cpu_list;
pub mod cpu_stat;
pub mod cpuinfo;
pub mod ext4_superblock;
pub mod loadavg;
pub mod mapping_status;
pub mod maps;
pub mod md;
pub mod meminfo;
pub mod mountinfo;
pub mod mountstats;
pub mod net_dev;
mod netlink;
pub mod nfsd;
mod number;
pub mod pressure;
pub mod process_stat;
pub mod qdisc;
pub mod route;
pub mod schedstat;
pub mod self_io;
pub mod task_stat;
pub mod task_syscall;
pub mod tcp_sockets;
pub mod unix_sockets;
pub mod vmstat;
pub mod wchan;
pub mod xfs_geometry;

pub(crate) use number::{first_number, numbers};
