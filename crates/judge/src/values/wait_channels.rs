//! Class of a wait, by the kernel function in which a thread sleeps.
//!
//! The names are those that `wchan` shows. For a lock, it shows the function that takes the lock: `wchan` skips the
//! scheduler, which has the slow paths of sleeping locks. The names were observed on Linux 6.18 with ext4, xfs, btrfs,
//! overlay, FUSE and sshfs. Those of NFS are from the kernel's source and were not seen. Symbols without a matching
//! prefix have no class: they are shown unchanged and are no evidence.

use model::Limiter;
use model::figure::WaitClass;

/// Prefixes of symbols, the longer ones first where one begins with another.
const PREFIXES: &[(&str, WaitClass)] = &[
    ("__iomap_dio_rw", WaitClass::Device),
    ("iomap_dio", WaitClass::Device),
    ("__blkdev_direct_IO", WaitClass::Device),
    ("blkdev_direct_IO", WaitClass::Device),
    ("dio_await", WaitClass::Device),
    ("__blockdev_direct_IO", WaitClass::Device),
    // Waits for a device: a flush, or a read of a raw device. The test decides which of them it is.
    ("submit_bio_wait", WaitClass::Sync),
    ("folio_wait", WaitClass::Page),
    ("filemap_update_page", WaitClass::Page),
    ("filemap_read", WaitClass::Page),
    ("wait_on_page", WaitClass::Page),
    ("__lock_page", WaitClass::Page),
    ("wait_on_buffer", WaitClass::Page),
    ("__wait_on_buffer", WaitClass::Page),
    ("btrfs_start_ordered_extent", WaitClass::Page),
    ("jbd2_", WaitClass::Sync),
    ("__jbd2", WaitClass::Sync),
    ("do_get_write_access", WaitClass::Sync),
    ("wait_transaction_locked", WaitClass::Sync),
    ("add_transaction_credits", WaitClass::Sync),
    ("start_this_handle", WaitClass::Sync),
    ("ext4_fc_", WaitClass::Sync),
    ("xlog_", WaitClass::Sync),
    ("xfs_log_", WaitClass::Sync),
    ("xfs_buf_iowait", WaitClass::Sync),
    ("wait_log_commit", WaitClass::Sync),
    ("btrfs_sync_log", WaitClass::Sync),
    ("btrfs_sync_file", WaitClass::Sync),
    ("btrfs_btree_wait_writeback_range", WaitClass::Sync),
    ("btrfs_wait_ordered", WaitClass::Sync),
    ("wait_for_commit", WaitClass::Sync),
    ("wait_current_trans", WaitClass::Sync),
    ("write_all_supers", WaitClass::Sync),
    ("barrier_all_devices", WaitClass::Sync),
    ("__sync_dirty_buffer", WaitClass::Sync),
    ("fsync_buffers_list", WaitClass::Sync),
    ("blkdev_issue_flush", WaitClass::Sync),
    ("wb_wait_for_completion", WaitClass::Sync),
    ("balance_dirty_pages", WaitClass::Dirty),
    ("__reserve_bytes", WaitClass::Dirty),
    ("reclaim_throttle", WaitClass::Reclaim),
    ("shrink_", WaitClass::Reclaim),
    ("throttle_direct_reclaim", WaitClass::Reclaim),
    ("mem_cgroup_handle_over_high", WaitClass::Reclaim),
    ("try_to_free", WaitClass::Reclaim),
    ("blk_mq_get_tag", WaitClass::Queue),
    ("rq_qos_wait", WaitClass::Paced),
    ("fuse_get_req", WaitClass::Queue),
    ("rpc_wait_bit_killable", WaitClass::Remote),
    ("xprt_", WaitClass::Queue),
    ("request_wait_answer", WaitClass::Remote),
    ("__fuse_request_send", WaitClass::Remote),
    ("fuse_direct_IO", WaitClass::Remote),
    ("fuse_direct_io", WaitClass::Remote),
    ("wait_on_commit", WaitClass::Remote),
    ("nfs_", WaitClass::Remote),
    ("cifs_", WaitClass::Remote),
    ("wait_for_response", WaitClass::Remote),
    ("p9_client_rpc", WaitClass::Remote),
    ("ceph_", WaitClass::Remote),
    ("io_cqring_wait", WaitClass::Ring),
    ("__do_sys_io_uring_enter", WaitClass::Ring),
    ("hrtimer_nanosleep", WaitClass::Time),
    ("common_nsleep", WaitClass::Time),
    ("do_nanosleep", WaitClass::Time),
    ("ext4_buffered_write_iter", WaitClass::Lock),
    ("ext4_file_write_iter", WaitClass::Lock),
    ("ext4_dio_write_iter", WaitClass::Lock),
    ("ext4_file_read_iter", WaitClass::Lock),
    ("xfs_ilock", WaitClass::Lock),
    ("xfs_file_", WaitClass::Lock),
    ("xfs_buf_lock", WaitClass::Lock),
    ("btrfs_inode_lock", WaitClass::Lock),
    ("btrfs_tree_lock", WaitClass::Lock),
    ("btrfs_tree_read_lock", WaitClass::Lock),
    ("fuse_file_write_iter", WaitClass::Lock),
    ("fuse_direct_write_iter", WaitClass::Lock),
    ("fuse_dio_lock", WaitClass::Lock),
    ("fuse_cache_write_iter", WaitClass::Lock),
    ("path_openat", WaitClass::Lock),
    ("open_last_lookups", WaitClass::Lock),
    ("lookup_slow", WaitClass::Lock),
    ("do_unlinkat", WaitClass::Lock),
    ("do_rmdir", WaitClass::Lock),
    ("filename_create", WaitClass::Lock),
    ("filename_unlinkat", WaitClass::Lock),
    ("start_creating", WaitClass::Lock),
    ("start_dirop", WaitClass::Lock),
    ("lock_rename", WaitClass::Lock),
    ("vfs_unlink", WaitClass::Lock),
    ("iterate_dir", WaitClass::Lock),
    ("generic_file_write_iter", WaitClass::Lock),
    ("shmem_file_write_iter", WaitClass::Lock),
    ("f2fs_", WaitClass::Lock),
    ("inode_dio_wait", WaitClass::Lock),
];

/// Returns the class of a wait in the function of that name, in a test that writes or does not.
pub fn class(symbol: &str, writes: bool) -> Option<WaitClass> {
    let (prefix, class) = PREFIXES.iter().find(|(prefix, _)| symbol.starts_with(prefix))?;
    // Where nothing is written, there is no flush to wait for.
    Some(if *prefix == "submit_bio_wait" && !writes { WaitClass::Device } else { *class })
}

/// Returns the limiter of threads that wait for something of that class; `None` where the class does not tell. On a remote
/// target, pages are a server's.
pub fn limiter(class: WaitClass, is_remote: bool) -> Option<Limiter> {
    Some(match class {
        WaitClass::Lock => Limiter::LockContention,
        WaitClass::Sync => Limiter::FsyncJournal,
        WaitClass::Dirty => Limiter::DirtyThrottling,
        WaitClass::Reclaim => Limiter::MemoryPressure,
        WaitClass::Queue => Limiter::QueueFull,
        WaitClass::Remote => Limiter::RemoteLatency,
        WaitClass::Page if is_remote => Limiter::RemoteLatency,
        WaitClass::Device | WaitClass::Page => Limiter::DeviceLatency,
        WaitClass::Paced | WaitClass::Ring | WaitClass::Time => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{PREFIXES, WaitClass, class};

    #[test]
    fn no_wait_channel_prefix_shadows_a_later_one() {
        for (index, (prefix, meant)) in PREFIXES.iter().enumerate() {
            let found = PREFIXES.iter().position(|(earlier, _)| prefix.starts_with(earlier));
            assert_eq!(found, Some(index), "{prefix} is never found");
            assert_eq!(class(prefix, true), Some(*meant));
        }
    }

    #[test]
    fn raw_device_read_does_not_wait_for_flush() {
        assert_eq!(class("submit_bio_wait", true), Some(WaitClass::Sync));
        assert_eq!(class("submit_bio_wait", false), Some(WaitClass::Device));
        assert_eq!(class("jbd2_log_wait_commit", false), Some(WaitClass::Sync));
    }

    #[test]
    fn unknown_wait_channel_has_no_class() {
        assert_eq!(class("zfs_read", true), None);
        assert_eq!(class("folio_wait_bit_common", true), Some(WaitClass::Page));
        assert_eq!(class("balance_dirty_pages_ratelimited_flags", true), Some(WaitClass::Dirty));
    }
}
