//! The layers under a directory, as the document and the first lines have them.

use rig::{Daemon, Rig, Spec};
use serde_json::Value;

use crate::support::program::{parse_document, rig_program, skye};

/// Returns each layer with the layer below it, from the top.
fn layers(rig: &Rig) -> Vec<(String, String)> {
    let ran = skye().arg("run").arg(rig.path()).words("--test write:4k --size 1m --time 0.02 --json -").run();
    let document = parse_document(&ran.did_not_panic().stdout);
    let layers = document["environment"]["target"]["layers"].as_array().unwrap().clone();
    let below = |layer: &Value| layers.get(layer["below"][0].as_u64()? as usize).cloned();
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let mut chain = Vec::new();
    let mut next = layers.first().cloned();
    while let Some(layer) = next {
        chain.push((word(&layer["kind"]), word(&layer["name"])));
        next = below(&layer);
    }
    chain
}

fn kinds(layers: &[(String, String)]) -> Vec<&str> {
    layers.iter().map(|(kind, _)| kind.as_str()).collect()
}

#[test]
fn layers_are_found_down_to_the_server() {
    xtask::require!(root, loop, fuse, ext4, overlay);
    let lower = Spec::disk().file_system("ext4").size_mib(128).over(Spec::fuse());
    let rig =
        Rig::start(&rig_program(), Spec::disk().file_system("ext4").on_disk(lower).buffered().with_overlay());
    let rig = rig.unwrap();
    let found = layers(&rig);
    let expected =
        ["overlay", "file_system", "device", "page_cache", "file_system", "device", "fuse", "daemon"];
    assert_eq!(kinds(&found), expected);
    assert_eq!(found[2].1, rig.device().unwrap().file_name().unwrap().to_string_lossy());
    assert_eq!(found[7].1, "skye");
    rig.finish().unwrap();
}

#[test]
fn layers_below_a_daemon_are_those_of_its_directory() {
    xtask::require!(root, loop, ext4, bindfs, gocryptfs);
    // One keeps its directory open, the other does not.
    for (daemon, name) in [(Daemon::Bindfs, "bindfs"), (Daemon::Gocryptfs, "gocryptfs")] {
        let rig = Rig::start(&rig_program(), Spec::disk().file_system("ext4").daemon(daemon)).unwrap();
        let found = layers(&rig);
        assert_eq!(kinds(&found), ["fuse", "daemon", "file_system", "device", "memory"]);
        assert_eq!((found[1].1.as_str(), found[2].1.as_str()), (name, "ext4"));
        rig.finish().unwrap();
    }
}

#[test]
fn each_device_counts_the_bytes_of_the_calls() {
    xtask::require!(root, loop, ext4);
    let lower = Spec::disk().file_system("ext4").size_mib(128);
    let rig = Rig::start(&rig_program(), Spec::disk().file_system("ext4").on_disk(lower)).unwrap();
    let words = "--test read:rnd64k:q4 --size 16m --time 0.5 --no-probe --json -";
    let document = parse_document(&skye().arg("run").arg(rig.path()).words(words).run().exits(0).stdout);
    let load = &document["phases"][0]["load"];
    let number = |value: &Value| value.as_f64().unwrap();
    let flows = load["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2, "{load}");
    for flow in flows {
        let share = number(&flow["read_bytes"]) / number(&load["read_bytes"]);
        assert!((0.95..1.05).contains(&share), "{load}");
        assert!(
            number(&flow["read_ns"]) > 0.0 && number(&flow["written_bytes"]) < number(&load["read_bytes"])
        );
    }
    rig.finish().unwrap();
}
