//! `/proc/vmstat`: what the memory of the machine was used for since it started.

use super::number::value_of;

/// Pages that were made dirty since the machine started: data on its way through the page cache to a device. `None` where
/// the line is missing.
pub fn dirtied_pages(bytes: &[u8]) -> Option<u64> {
    value_of(bytes, b"nr_dirtied ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::dirtied_pages;

    #[test]
    fn a_real_one() {
        let text = b"nr_dirty 41\nnr_writeback 0\nnr_dirtied 72041\nnr_written 71003\n";
        assert_eq!(dirtied_pages(text), Some(72_041));
        assert_eq!(dirtied_pages(b"nr_dirty 41\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            dirtied_pages(&bytes);
        }
    }
}
