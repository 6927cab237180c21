//! `/proc/vmstat`: how the machine has used its memory since it started.

use super::number::value_of;

/// Pages made dirty since the machine started: data on its way through the page cache to a device. Absent if
/// the line is missing.
pub fn dirtied_pages(bytes: &[u8]) -> Option<u64> {
    value_of(bytes, b"nr_dirtied ")
}

/// The kernel's search for free memory, and its limit on dirty pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paging {
    /// Pages scanned by tasks that needed memory.
    pub direct_scanned_pages: u64,
    /// File pages that were read again soon after they were reclaimed.
    pub refaulted_pages: u64,
    /// Dirty pages above which writers are held back: a state, not a counter.
    pub dirty_threshold_pages: Option<u64>,
}

/// Reads the lines that matter; absent without the first.
pub fn paging(bytes: &[u8]) -> Option<Paging> {
    // Before Linux 5.9 the kernel counted file pages and other pages together.
    let refaulted = value_of(bytes, b"workingset_refault_file ");
    Some(Paging {
        direct_scanned_pages: value_of(bytes, b"pgscan_direct ")?,
        refaulted_pages: refaulted.or_else(|| value_of(bytes, b"workingset_refault ")).unwrap_or(0),
        dirty_threshold_pages: value_of(bytes, b"nr_dirty_threshold "),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Paging, dirtied_pages, paging};

    #[test]
    fn real_vmstat_parses() {
        let text = b"nr_dirty 41\nnr_writeback 0\nnr_dirtied 72041\nnr_written 71003\n";
        assert_eq!(dirtied_pages(text), Some(72_041));
        assert_eq!(dirtied_pages(b"nr_dirty 41\n"), None);
    }

    #[test]
    fn paging_counters_of_old_and_new_kernels_parse() {
        let text = b"workingset_refault_anon 3\nworkingset_refault_file 1777\nnr_dirty_threshold 1172541\n\
                     nr_dirty_background_threshold 585554\npgscan_kswapd 99\npgscan_direct 420\n\
                     pgscan_direct_throttle 1\n";
        let expected = Paging {
            direct_scanned_pages: 420,
            refaulted_pages: 1777,
            dirty_threshold_pages: Some(1_172_541),
        };
        assert_eq!(paging(text), Some(expected));
        let older = Paging { direct_scanned_pages: 1, refaulted_pages: 2, dirty_threshold_pages: None };
        assert_eq!(paging(b"workingset_refault 2\npgscan_direct 1\n"), Some(older));
        assert_eq!(paging(b"nr_dirty_threshold 1\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            dirtied_pages(&bytes);
            paging(&bytes);
        }
    }
}
