//! `--dry-run` prints a plan that gives the same plan when it is read as a preset. It writes nothing.

use std::fs;
use std::path::Path;

use crate::support::mounts::Tmpfs;
use crate::support::program::{assert_nothing_left, skye};
use crate::support::scratch;

const PRESETS: &[&str] = &["quick", "standard", "rigorous", "classic", "disk", "peak", "bytes"];

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
fn every_preset_comes_back() {
    xtask::require!(root, tmpfs);
    // The test has its own file system: writes of others would change the free space.
    let tmpfs = Tmpfs::new("64g", None);
    for preset in PRESETS {
        comes_back(tmpfs.path(), &format!("--preset {preset}"));
    }
    assert_eq!(fs::read_dir(tmpfs.path()).unwrap().count(), 0);
}

#[test]
fn two_hundred_random_sets_of_flags_come_back() {
    let home = scratch(0);
    for seed in 0..200 {
        comes_back(home.path(), &random_flags(&mut fastrand::Rng::with_seed(seed)));
    }
    assert_nothing_left(home.path());
}

fn random_flags(random: &mut fastrand::Rng) -> String {
    let mut words = vec![String::from("--size"), format!("{}m", 64 * random.u32(2..8))];
    words.push(String::from("--allow"));
    words.push((*random.choice(&["low-space", "low-space,busy"]).unwrap()).to_owned());
    if random.bool() {
        // The more CPUs there are, the larger a set does `peak` need.
        let presets: Vec<_> = PRESETS.iter().filter(|preset| **preset != "peak").collect();
        words.extend([String::from("--preset"), (**random.choice(&presets).unwrap()).to_owned()]);
    } else {
        for _ in 0..random.usize(1..5) {
            words.extend([String::from("--test"), random_test(random)]);
        }
    }
    let mut maybe = |name: &str, values: &[&str], random: &mut fastrand::Rng| {
        if random.u32(0..3) == 0 {
            words.extend([name.to_owned(), (*random.choice(values).unwrap()).to_owned()]);
        }
    };
    maybe("--time", &["0.25", "3", "7s", "1m"], random);
    maybe("--files", &["100", "1k", "4096"], random);
    maybe("--repeat", &["1", "2", "3"], random);
    maybe("--seed", &["0", "7311", "18446744073709551615"], random);
    maybe("--label", &["plain", "with\"quote", "näme", "back\\slash"], random);
    maybe("--cache", &["cold", "warm", "as-is"], random);
    maybe("--write-limit", &["500GB", "1t"], random);
    if random.u32(0..3) == 0 {
        words.push((*random.choice(&["--direct", "--buffered"]).unwrap()).to_owned());
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
