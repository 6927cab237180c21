//! A disk that is slower in one place than in another, and files that are spread over it.

use rig::{FuseSpec, Rig, Spec};
use serde_json::Value;

use crate::places::watched;
use crate::support::mounts::LoopFs;
use crate::support::program::{Output, assert_nothing_left, document, rig_program, skye};

/// Offset from which the disk is slow.
const FAR_BYTES: u64 = 400 << 20;
const WORDS: &str =
    "--size 128m --places 8 --time 3 --no-probe --allow low-space,busy --test write:rnd4k:q32 --seed 7";

/// Measures on a disk of 2 GiB over a server.
fn measured(server: FuseSpec) -> Output {
    let disk = Spec::disk().size_mib(2048).file_system("ext4").over(server);
    let rig = Rig::start(&rig_program(), disk).unwrap();
    let ran = skye().arg("run").arg(rig.path()).words(WORDS).run().did_not_panic().exits(0);
    assert_nothing_left(rig.path());
    rig.finish().unwrap();
    ran
}

fn row(ran: &Output) -> Value {
    document(&ran.saved()[0])["phases"][0].clone()
}

#[test]
fn slow_half_of_disk_is_named() {
    xtask::require!(root, loop, fuse, ext4);
    let ran = measured(Spec::fuse().service_us(20_000).far(FAR_BYTES, 50_000).only_writes());
    let row = row(&ran);
    let found = &row["latency_by_place"];
    let places = found["places"].as_array().unwrap();
    assert_eq!(places.len(), 8, "{found}");
    let at =
        |key: &str| places[found[key].as_u64().unwrap() as usize]["place"]["start_bytes"].as_u64().unwrap();
    assert!(at("fastest") < FAR_BYTES && FAR_BYTES <= at("slowest"), "{found}");
    let ratio = found["ratio"].as_f64().unwrap();
    assert!((2.25..2.75).contains(&ratio), "{found}");
    let ran = ran.output_contains(&["in the slowest place of the data as in the fastest"]);
    let why = skye().words("why").arg(&ran.saved()[0]).arg("1").run().exits(0);
    why.output_contains(&["by place", "slowest over fastest 2."]);
}

#[test]
fn even_disk_has_no_slow_place() {
    xtask::require!(root, loop, fuse, ext4);
    let ran = measured(Spec::fuse().service_between_us(1000, 3000).only_writes());
    let row = row(&ran);
    assert!(row["latency_by_place"]["ratio"].as_f64().is_some_and(|ratio| ratio < 1.2), "{row}");
    assert!(!row["notes"].to_string().contains("uneven_places"), "{row}");
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
