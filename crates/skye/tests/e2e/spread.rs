//! Files that are spread over a file system.

use serde_json::Value;

use crate::places::watched;
use crate::support::mounts::LoopFs;
use crate::support::program::{Output, assert_nothing_left, document, skye};

fn row(ran: &Output) -> Value {
    document(&ran.saved()[0])["phases"][0].clone()
}

#[test]
fn file_lies_in_as_many_places_as_requested() {
    xtask::require!(root, loop, ext4, xfs);
    for kind in ["ext4", "xfs"] {
        let fs = LoopFs::new(kind, 2048, &[], "");
        let measured = |places: u32| {
            let words = format!("--size 64m --places {places} --verify --time 0.3 --no-probe --allow busy");
            let ran = skye().arg("run").arg(fs.path()).words(&words).words("--test read:rnd4k").run();
            let ran = ran.did_not_panic().exits(0);
            assert_nothing_left(fs.path());
            let row = row(&ran);
            assert_eq!(row["extents"]["unwritten_share"], 0.0, "{row}");
            row["places"].as_array().unwrap().clone()
        };
        // An allocation group of XFS may end within a piece.
        let [one, four] = [measured(1), measured(4)].map(|places| places.len());
        assert!(one == 1 && (4..=5).contains(&four), "{kind}: {one} and {four}");
        // A request that does not fit is refused before anything is written.
        let refused = skye().arg("run").arg(fs.path()).words("--size 1g --places 8 --test read").run();
        refused.exits(2).stderr_contains(&["too little space is free"]);
    }
}

#[test]
fn full_file_system_keeps_its_reserve_while_files_spread() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 1024, &[], "");
    let words = "--size 64m --places 8 --time 0.3 --no-probe --allow busy --test read:rnd4k";
    let (ran, before_mib, least_mib) = watched(&ext4, words);
    ran.exits(0);
    assert!(least_mib > before_mib / 4, "{least_mib} of {before_mib} MiB were free");
}
