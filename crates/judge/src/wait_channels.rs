//! What threads wait for, by the kernel's function in which they sleep.
//!
//! The names are those that `wchan` shows: of a lock it is the function that wanted it, as the slow paths of sleeping
//! locks belong to the scheduler, which `wchan` skips. Observed on Linux 6.18 with ext4, xfs, btrfs, overlay, FUSE and
//! sshfs; those of NFS are from the kernel's source and were not seen. Symbols that no prefix fits have no class: they are
//! shown as they are and count for nothing.

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// An answer of the device to a read or a write.
    Device,
    /// A page that is being read or written back.
    Page,
    /// A commit of the journal or log, or a flush.
    Sync,
    /// A lock that another thread holds.
    Lock,
    /// Dirty pages to become fewer.
    Dirty,
    /// Memory to be found.
    Reclaim,
    /// A place in a queue.
    Queue,
    /// Its turn, given out by writeback throttling, io.cost or io.latency.
    Paced,
    /// An answer of a server.
    Remote,
    /// A completion of a ring, whatever that waits for.
    Ring,
    /// A time to come.
    Time,
}

impl Class {
    /// The word in documents.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Page => "page",
            Self::Sync => "sync",
            Self::Lock => "lock",
            Self::Dirty => "dirty",
            Self::Reclaim => "reclaim",
            Self::Queue => "queue",
            Self::Paced => "paced",
            Self::Remote => "remote",
            Self::Ring => "ring",
            Self::Time => "time",
        }
    }
}

/// Beginnings of symbols, the longer ones first where one begins with another.
const PREFIXES: &[(&str, Class)] = &[
    ("__iomap_dio_rw", Class::Device),
    ("iomap_dio", Class::Device),
    ("__blkdev_direct_IO", Class::Device),
    ("blkdev_direct_IO", Class::Device),
    ("dio_await", Class::Device),
    ("__blockdev_direct_IO", Class::Device),
    // Writes of a device: a flush, or a read of a raw device. Which of them it is depends on the verb.
    ("submit_bio_wait", Class::Sync),
    ("folio_wait", Class::Page),
    ("filemap_update_page", Class::Page),
    ("filemap_read", Class::Page),
    ("wait_on_page", Class::Page),
    ("__lock_page", Class::Page),
    ("wait_on_buffer", Class::Page),
    ("__wait_on_buffer", Class::Page),
    ("btrfs_start_ordered_extent", Class::Page),
    ("jbd2_", Class::Sync),
    ("__jbd2", Class::Sync),
    ("do_get_write_access", Class::Sync),
    ("wait_transaction_locked", Class::Sync),
    ("add_transaction_credits", Class::Sync),
    ("start_this_handle", Class::Sync),
    ("ext4_fc_", Class::Sync),
    ("xlog_", Class::Sync),
    ("xfs_log_", Class::Sync),
    ("xfs_buf_iowait", Class::Sync),
    ("wait_log_commit", Class::Sync),
    ("btrfs_sync_log", Class::Sync),
    ("btrfs_sync_file", Class::Sync),
    ("btrfs_btree_wait_writeback_range", Class::Sync),
    ("btrfs_wait_ordered", Class::Sync),
    ("wait_for_commit", Class::Sync),
    ("wait_current_trans", Class::Sync),
    ("write_all_supers", Class::Sync),
    ("barrier_all_devices", Class::Sync),
    ("__sync_dirty_buffer", Class::Sync),
    ("fsync_buffers_list", Class::Sync),
    ("blkdev_issue_flush", Class::Sync),
    ("wb_wait_for_completion", Class::Sync),
    ("balance_dirty_pages", Class::Dirty),
    ("__reserve_bytes", Class::Dirty),
    ("reclaim_throttle", Class::Reclaim),
    ("shrink_", Class::Reclaim),
    ("throttle_direct_reclaim", Class::Reclaim),
    ("mem_cgroup_handle_over_high", Class::Reclaim),
    ("try_to_free", Class::Reclaim),
    ("blk_mq_get_tag", Class::Queue),
    ("rq_qos_wait", Class::Paced),
    ("fuse_get_req", Class::Queue),
    ("rpc_wait_bit_killable", Class::Remote),
    ("xprt_", Class::Queue),
    ("request_wait_answer", Class::Remote),
    ("__fuse_request_send", Class::Remote),
    ("fuse_direct_IO", Class::Remote),
    ("fuse_direct_io", Class::Remote),
    ("wait_on_commit", Class::Remote),
    ("nfs_", Class::Remote),
    ("cifs_", Class::Remote),
    ("wait_for_response", Class::Remote),
    ("p9_client_rpc", Class::Remote),
    ("ceph_", Class::Remote),
    ("io_cqring_wait", Class::Ring),
    ("__do_sys_io_uring_enter", Class::Ring),
    ("hrtimer_nanosleep", Class::Time),
    ("common_nsleep", Class::Time),
    ("do_nanosleep", Class::Time),
    ("ext4_buffered_write_iter", Class::Lock),
    ("ext4_file_write_iter", Class::Lock),
    ("ext4_dio_write_iter", Class::Lock),
    ("ext4_file_read_iter", Class::Lock),
    ("xfs_ilock", Class::Lock),
    ("xfs_file_", Class::Lock),
    ("xfs_buf_lock", Class::Lock),
    ("btrfs_inode_lock", Class::Lock),
    ("btrfs_tree_lock", Class::Lock),
    ("btrfs_tree_read_lock", Class::Lock),
    ("fuse_file_write_iter", Class::Lock),
    ("fuse_direct_write_iter", Class::Lock),
    ("fuse_dio_lock", Class::Lock),
    ("fuse_cache_write_iter", Class::Lock),
    ("path_openat", Class::Lock),
    ("open_last_lookups", Class::Lock),
    ("lookup_slow", Class::Lock),
    ("do_unlinkat", Class::Lock),
    ("do_rmdir", Class::Lock),
    ("filename_create", Class::Lock),
    ("filename_unlinkat", Class::Lock),
    ("start_creating", Class::Lock),
    ("start_dirop", Class::Lock),
    ("lock_rename", Class::Lock),
    ("vfs_unlink", Class::Lock),
    ("iterate_dir", Class::Lock),
    ("generic_file_write_iter", Class::Lock),
    ("shmem_file_write_iter", Class::Lock),
    ("f2fs_", Class::Lock),
    ("inode_dio_wait", Class::Lock),
];

/// What is waited for in the function of that name.
pub fn class(symbol: &str) -> Option<Class> {
    PREFIXES.iter().find(|(prefix, _)| symbol.starts_with(prefix)).map(|(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::{Class, PREFIXES, class};

    #[test]
    fn no_prefix_hides_another() {
        for (index, (prefix, meant)) in PREFIXES.iter().enumerate() {
            let found = PREFIXES.iter().position(|(earlier, _)| prefix.starts_with(earlier));
            assert_eq!(found, Some(index), "{prefix} is never found");
            assert_eq!(class(prefix), Some(*meant));
        }
    }

    #[test]
    fn what_is_not_known_has_no_class() {
        assert_eq!(class("zfs_read"), None);
        assert_eq!(class("folio_wait_bit_common"), Some(Class::Page));
        assert_eq!(class("balance_dirty_pages_ratelimited_flags"), Some(Class::Dirty));
    }
}
