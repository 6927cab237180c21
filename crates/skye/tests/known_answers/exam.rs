//! The exam on live stacks: changing each shows the bottleneck that it was drawn for, and a kept row gets the same verdict.

use std::path::Path;

use super::exclusive_lock;

const PARTS: [&str; 3] = ["full server", "limit of the device", "page cache of a lower layer"];

#[test]
fn live_stacks_have_the_drawn_bottleneck() {
    xtask::require!(root, loop, fuse, blkio, ext4, xfs, btrfs, overlay, bindfs);
    let _alone = exclusive_lock();
    for part in PARTS {
        let faults = || xtask::rigs::random::faults(Path::new(env!("CARGO_BIN_EXE_skye")), part).unwrap();
        // Another process may have disturbed the first.
        let faults = Some(faults()).filter(Vec::is_empty).unwrap_or_else(faults);
        assert_eq!(faults, Vec::<String>::new());
    }
}
