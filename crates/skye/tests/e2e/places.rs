//! Places where people measure: small volumes, few inodes, many clients.

use std::path::Path;

use crate::support::mounts::LoopFs;
use crate::support::program::{Ran, assert_nothing_left, document, phases, skye};

/// Measures with the preset `quick`, for a short time.
fn quick(directory: &Path, words: &str) -> Ran {
    skye().arg("run").arg(directory).words("--preset quick --time 0.2").words(words).run().did_not_panic()
}

#[test]
fn presets_fit_on_a_small_volume() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 256, &[], "");
    for (name, _) in model::request::PRESETS {
        let words = format!("--preset {name} --dry-run");
        skye().arg("run").arg(ext4.path()).words(&words).run().did_not_panic().exits(0);
    }
}

#[test]
fn quick_measures_with_few_inodes() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 256, &["-N", "1024"], "");
    let ran = quick(ext4.path(), "").exits(0).tells(&["MiB is small", "as few as 256 of them"]);
    let run = document(&ran.saved()[0]);
    assert_eq!((run["run_status"].as_str(), phases(&run).len()), (Some("complete"), 9), "{ran}");
    assert_nothing_left(ext4.path());
}

#[test]
fn many_clients_share_a_small_volume() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 1024, &[], "");
    let ran = quick(ext4.path(), "--hosts local*20").exits(0);
    let run = document(&ran.saved()[0]);
    assert!(
        run["phases"].as_array().unwrap().iter().all(|phase| phase["hosts"].as_array().unwrap().len() == 20)
    );
    assert_nothing_left(ext4.path());
}
