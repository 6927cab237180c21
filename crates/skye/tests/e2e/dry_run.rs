//! `--dry-run` prints a plan that gives the same plan when it is read as a preset. It writes nothing.

use std::fs;
use std::path::Path;

use model::request::{PRESETS, Request};
use xtask::sized;

use crate::support::mounts::Tmpfs;
use crate::support::program::{assert_nothing_left, skye};
use crate::support::scratch;

#[track_caller]
fn planned(directory: &Path, words: &str, preset: Option<&Path>) -> String {
    let mut program = skye().arg("run").arg(directory).arg("--dry-run").words(words);
    if let Some(preset) = preset {
        program = program.arg("--preset").arg(preset);
    }
    let ran = program.run().did_not_panic().exits(0);
    assert!(ran.saved().is_empty(), "{ran}");
    // The free space is no part of the plan, and others change it meanwhile.
    let lines = ran.stdout.lines().filter(|line| !line.starts_with("# target"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Plans with these words, reads the plan back, and expects the same plan.
#[track_caller]
fn comes_back(directory: &Path, words: &str) {
    let home = scratch(0);
    let file = home.path().join("plan.toml");
    let first = planned(directory, words, None);
    fs::write(&file, &first).unwrap();
    let second = planned(directory, "", Some(&file));
    let differs = first.lines().zip(second.lines()).find(|(first, second)| first != second);
    assert!(differs.is_none() && first.lines().count() == second.lines().count(), "{words}: {differs:?}");
}

#[test]
fn dry_run_of_every_preset_reproduces_its_plan() {
    xtask::require!(root, tmpfs);
    // The test has its own file system: writes of others would change the free space.
    let tmpfs = Tmpfs::new("64g", None);
    for (preset, _) in PRESETS {
        comes_back(tmpfs.path(), &format!("--preset {preset}"));
    }
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0);
}

#[test]
fn dry_run_of_random_flags_reproduces_its_plan() {
    let home = scratch(0);
    for seed in 0..sized(60, 200) {
        comes_back(home.path(), &random_flags(&mut fastrand::Rng::with_seed(seed)));
    }
    assert_nothing_left(home.path());
}

fn random_flags(random: &mut fastrand::Rng) -> String {
    let mut words = vec![format!("--size {}m", 64 * random.u32(2..8))];
    words.push(format!("--allow {}", random.choice(&["low-space", "low-space,busy"]).unwrap()));
    if random.bool() {
        // The more CPUs there are, the larger a set does `peak` need. `zones` refuses to be swept over threads, and
        // `ssd` refuses buffered tests, which have no rounds.
        let presets: Vec<_> =
            PRESETS.iter().filter(|(preset, _)| !["peak", "zones", "ssd"].contains(preset)).collect();
        words.push(format!("--preset {}", random.choice(&presets).unwrap().0));
    } else {
        for _ in 0..random.usize(1..5) {
            words.push(format!("--test {}", random_test(random)));
        }
    }
    // Many of these tests have no rounds, or look up no names, and a plan without any is refused. Memory has no places.
    let left_out = ["size", "allow", "precondition", "cold", "places"];
    for option in Request::OPTIONS.iter().filter(|option| !left_out.contains(&option.name)) {
        if random.u32(0..3) == 0 {
            words.extend(random.choice(option.examples).map(|example| (*example).to_owned()));
        }
    }
    words.join(" ")
}

fn random_test(random: &mut fastrand::Rng) -> String {
    let data = ["read", "write", "rw", "rewrite", "fsync"];
    let files =
        ["create", "stat", "open", "readdir", "rename", "link", "symlink", "unlink", "mkdir", "rmdir"];
    let mut parts = Vec::new();
    if random.bool() {
        parts.push((*random.choice(&data).unwrap()).to_owned());
        parts.push(format!("{}{}k", random.choice(&["seq", "rnd"]).unwrap(), 4 << random.u32(0..6)));
        parts.push(format!("q{}t{}", random.u32(1..9), random.u32(1..5)));
        if random.bool() {
            parts.push(
                (*random.choice(&["direct", "buffered", "shared", "passes=2", "ops=100"]).unwrap())
                    .to_owned(),
            );
        }
    } else {
        parts.push((*random.choice(&files).unwrap()).to_owned());
        parts.push(format!("t{}", random.u32(1..5)));
        if random.bool() {
            let keys = ["files=64", "size=0..16k", "dirs=3", "levels=2", "order=rnd", "order=seq"];
            parts.push((*random.choice(&keys).unwrap()).to_owned());
        }
    }
    parts.join(":")
}
