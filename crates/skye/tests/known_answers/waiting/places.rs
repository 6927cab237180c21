//! Disks whose places differ, or do not, and a file that is spread over them.

use rig::{FuseSpec, Spec};
use serde_json::Value;

use crate::quiet::settled;
use crate::support::program::{assert_nothing_left, skye};
use crate::{check_phases, codes, document_of, off, start};

/// Offset from which the disk is slow.
const FAR_BYTES: u64 = 400 << 20;
const WORDS: &str = "--size 128m --places 8 --time 3 --test write:rnd4k:q32 --seed 7";

/// Measures a disk of 2 GiB over a server until there is no complaint, and returns the document.
///
/// # Errors
/// Others disturbed each time.
#[track_caller]
fn measured(server: FuseSpec, complaint: impl FnMut(&Value) -> Option<String>) -> Result<Value, String> {
    let rig = start(Spec::disk().size_mib(2048).file_system("ext4").over(server));
    let mut last = Value::Null;
    let run = || {
        last = document_of(rig.path(), WORDS);
        assert_nothing_left(rig.path());
        last.clone()
    };
    check_phases(run, complaint)?;
    rig.finish().unwrap();
    Ok(last)
}

#[test]
fn slow_half_of_disk_is_named() {
    xtask::require!(root, loop, fuse, ext4);
    let server = Spec::fuse().service_us(20_000).far(FAR_BYTES, 50_000).only_writes();
    let run = settled!(measured(server, |phase| {
        let found = &phase["latency_by_place"];
        let places = found["places"].as_array().unwrap();
        let start =
            |key: &str| places[found[key].as_u64().unwrap() as usize]["place"]["start_bytes"].as_u64();
        let is_named = start("fastest").unwrap() < FAR_BYTES && FAR_BYTES <= start("slowest").unwrap();
        let named = (!is_named || places.len() != 8).then(|| found.to_string());
        named.or_else(|| off("ratio", found["ratio"].as_f64().unwrap(), 2.5, 0.1))
    }));
    let directory = tempfile::tempdir().unwrap();
    let saved = directory.path().join("run.json");
    std::fs::write(&saved, run.to_string()).unwrap();
    let report = skye().words("report").arg(&saved).run().exits(0);
    report.output_contains(&["in the slowest place of the data as in the fastest"]);
    skye()
        .words("why")
        .arg(&saved)
        .arg("1")
        .run()
        .exits(0)
        .output_contains(&["by place", "slowest over fastest 2."]);
}

#[test]
fn even_disk_has_no_slow_place() {
    xtask::require!(root, loop, fuse, ext4);
    let server = Spec::fuse().service_between_us(1000, 3000).only_writes();
    settled!(measured(server, |phase| {
        let found = &phase["latency_by_place"];
        let is_even = found["ratio"].as_f64().unwrap() < 1.2 && !codes(phase).contains(&"uneven_places");
        (!is_even).then(|| found.to_string())
    }));
}
