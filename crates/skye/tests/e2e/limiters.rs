//! The limiters of simulated devices are known, and must be named.

use std::fs;

use crate::support::program::{parse_document, skye};
use crate::support::scratch;

/// Limiter of a row, and the confidence that is possible.
type Held = (&'static str, &'static str);

/// Devices, tests on them, and the limiter of each test.
const SCENARIOS: &[(&str, &str, &[Held])] = &[
    // The device takes many at a time, and each takes its time.
    (
        "parallelism = 64\nlatency = { kind = \"fixed\", mean_us = 1000 }",
        "read:rnd4k read:rnd4k:q16 read:rnd4k:q4t4 read:seq1m write:rnd4k",
        &[("device_latency", "confirmed"); 5],
    ),
    // The device takes four at a time, of sixteen that come.
    (
        "parallelism = 4\nlatency = { kind = \"fixed\", mean_us = 1000 }",
        "read:rnd4k:q16 read:rnd4k:t16",
        &[("device_ops", "confirmed"); 2],
    ),
    // A cap on operations, which one operation at a time does not reach.
    (
        "parallelism = 64\nops_per_second = 5000\nlatency = { kind = \"fixed\", mean_us = 1000 }",
        "read:rnd4k:q16 read:rnd4k",
        &[("device_ops", "confirmed"), ("device_latency", "confirmed")],
    ),
    // A cap on bytes.
    (
        "parallelism = 64\nbytes_per_second = \"100MB\"\nlatency = { kind = \"fixed\", mean_us = 100 }",
        "read:seq1m:q8 read:seq1m read:rnd64k:q16",
        &[("device_bandwidth", "confirmed"); 3],
    ),
    // Latencies vary, as those of real devices.
    (
        "parallelism = 64\nlatency = { kind = \"lognormal\", mean_us = 90, sigma = 0.3 }",
        "read:rnd4k read:rnd4k:q8",
        &[("device_latency", "confirmed"); 2],
    ),
    // A call takes more CPU time than the device's time.
    (
        "parallelism = 1000\ncpu_ns_per_op = 20_000\nlatency = { kind = \"fixed\", mean_us = 1 }",
        "read:rnd4k:q4 read:rnd4k:q32",
        &[("kernel_cpu", "likely"); 2],
    ),
    // Flushes take longer than the writes before them.
    (
        "parallelism = 16\nlatency = { kind = \"fixed\", mean_us = 50 }\nflush_latency = { kind = \"fixed\", mean_us = 2000 }",
        "fsync:rnd4k",
        &[("fsync_journal", "likely")],
    ),
    // The user asked for this rate.
    (
        "parallelism = 64\nlatency = { kind = \"fixed\", mean_us = 1000 }",
        "read:rnd4k:rate=200 read:rnd4k:q8:rate=500,poisson",
        &[("requested_rate", "confirmed"); 2],
    ),
];

#[test]
fn limiters_of_simulated_devices_are_named() {
    let home = scratch(1 << 20);
    for (number, (device, tests, expected)) in SCENARIOS.iter().enumerate() {
        let file = home.path().join(format!("{number}.toml"));
        fs::write(&file, device).unwrap();
        let mut program = skye().arg("run").arg(format!("sim:{}", file.display())).words("--time 4 --json -");
        for test in tests.split(' ') {
            program = program.arg("--test").arg(test);
        }
        let run = parse_document(&program.run().did_not_panic().exits(0).stdout);
        for (phase, (limiter, confidence)) in run["phases"].as_array().unwrap().iter().zip(*expected) {
            let verdict = &phase["verdict"];
            let found = (verdict["limiter"].as_str().unwrap(), verdict["confidence"].as_str().unwrap());
            assert_eq!(found, (*limiter, *confidence), "{device}\n{}: {verdict:#}", phase["spec"]);
        }
    }
}

#[test]
fn no_probe_option_skips_all_experiments() {
    let home = scratch(1 << 20);
    let file = home.path().join("device.toml");
    fs::write(&file, "parallelism = 64\nlatency = { kind = \"fixed\", mean_us = 1000 }").unwrap();
    let verdict = |more: &str| {
        let program = skye().arg("run").arg(format!("sim:{}", file.display()));
        let run = program.words("--time 4 --json - --test write:rnd4k --test read:rnd4k").words(more).run();
        let run = parse_document(&run.did_not_panic().exits(0).stdout);
        let [write, read] = [0, 1].map(|phase| run["phases"][phase]["sensitivity"].is_object());
        (write, read)
    };
    assert_eq!(verdict(""), (true, true));
    assert_eq!(verdict("--no-probe"), (false, false));
}
