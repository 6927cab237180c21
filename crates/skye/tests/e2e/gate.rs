//! How often a gate of `skye compare` claims a loss, where the truth is known. The runs are copies of one run, whose rates
//! are replaced by random ones.

use std::fs;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use serde_json::Value;
use xtask::sized;

use crate::support::program::{document, skye};
use crate::support::scratch;

/// Tests of a run, as many as a gate has.
const TESTS: [&str; 5] =
    ["read:seq1m:q8", "write:seq1m:q8", "read:rnd4k:q32", "write:rnd4k:q32", "read:rnd4k"];
/// Standard deviation of the logarithm of a rate, from one repetition to the next.
const NOISE: f64 = 0.1;

/// Exit codes of gates, by their meaning.
#[derive(Debug, Default)]
struct Gates {
    beyond: u64,
    undecided: u64,
    within: u64,
}

/// Returns the document of six repetitions of the tests.
fn template(directory: &Path) -> Value {
    let (device, path) = (directory.join("device.toml"), directory.join("template.json"));
    fs::write(&device, "latency = { kind = \"fixed\", mean_us = 100 }\nparallelism = 8\n").unwrap();
    let tests = TESTS.iter().flat_map(|test| ["--test".to_owned(), format!("{test}:ops=64")]);
    let program =
        skye().arg("run").arg(format!("sim:{}", device.display())).words("--repeat 6 --quiet --json");
    tests.fold(program.arg(&path), |program, word| program.arg(word)).run().exits(0);
    document(&path)
}

/// A normally distributed number (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Writes a run with noise, whose tests have the given shares of the rate.
fn write(path: &Path, template: &Value, rng: &mut Rng, shares: &[f64]) {
    let mut run = template.clone();
    for (at, phase) in run["phases"].as_array_mut().unwrap().iter_mut().enumerate() {
        let factor = shares[at % TESTS.len()] * (NOISE * normal(rng)).exp();
        for (key, rate) in [("bytes_per_second", 1e9), ("ops_per_second", 5e4)] {
            phase["rate"][key] = (rate * factor).into();
        }
    }
    fs::write(path, run.to_string()).unwrap();
}

/// Runs gates on pairs of runs, the second with the given shares of the first's rates.
fn gates(shares: [f64; TESTS.len()], attempts: u64) -> Gates {
    let directory = scratch(16 << 20);
    let template = template(directory.path());
    let files: [PathBuf; 2] = ["before.json", "after.json"].map(|name| directory.path().join(name));
    let mut gates = Gates::default();
    for seed in 0..attempts {
        let mut rng = Rng::with_seed(seed);
        write(&files[0], &template, &mut rng, &[1.0; TESTS.len()]);
        write(&files[1], &template, &mut rng, &shares);
        let program = skye().arg("compare").arg(&files[0]).arg(&files[1]);
        let ran = program.words("--fail-on throughput<-5%").run().did_not_panic();
        match ran.code {
            Some(4) => gates.beyond += 1,
            Some(6) => gates.undecided += 1,
            Some(0) => gates.within += 1,
            other => panic!("exit code {other:?}: {}", ran.stderr),
        }
    }
    eprintln!("{attempts} gates, shares {shares:?}: {gates:?}");
    gates
}

#[test]
fn gate_rarely_claims_loss_of_unchanged_runs() {
    let attempts = sized(40, 1000);
    let gates = gates([1.0; 5], attempts);
    assert!(gates.beyond * 40 <= attempts * 3, "{gates:?}");
}

#[test]
fn gate_finds_loss_of_twenty_percent() {
    let attempts = sized(40, 1000);
    let gates = gates([0.8; 5], attempts);
    assert!(gates.beyond * 40 >= attempts * 36, "{gates:?}");
}

#[test]
fn gate_finds_loss_in_one_of_five_tests() {
    let attempts = sized(40, 1000);
    let gates = gates([1.0, 1.0, 0.8, 1.0, 1.0], attempts);
    // The difference is four standard errors, and p must be at most 0.01. A loss that is not found is at least open.
    assert!(gates.beyond * 40 >= attempts * 30 && gates.within * 40 <= attempts, "{gates:?}");
}
