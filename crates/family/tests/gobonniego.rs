//! Output of GoBonnieGo itself, read and written again: the same to the byte, without an exception.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use family::gobonniego::{Report, read};
use family::results::table;

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn json_is_rewritten_byte_for_byte() {
    let text = data("gobonniego-1.0.10_root_json_2runs.json");
    let reading = read(&text);
    assert_eq!((reading.problems.len(), reading.lines.len()), (0, 0));
    let written: String = reading.reports.iter().map(Report::to_json).collect();
    assert_eq!(written, text);
}

#[test]
fn lines_are_rewritten_byte_for_byte() {
    let text = data("gobonniego-1.0.10_nonroot_1GiB.txt");
    let reading = read(&text);
    assert_eq!(reading.problems, []);
    let written: String = reading.lines.iter().map(|line| format!("{line}\n")).collect();
    // The rest is from `time`, which measured the program.
    let (theirs, of_time) = text.split_at(text.find("\nreal").unwrap());
    assert_eq!(written, theirs);
    assert!(of_time.lines().count() == 4 && reading.lines.len() == 15);
}

#[test]
fn text_and_json_output_convert_to_results() {
    let result_table = |name: &str| table(&read(&data(name)).results());
    assert_eq!(
        result_table("gobonniego-1.0.10_nonroot_1GiB.txt"),
        "GoBonnieGo 1.0.10  SCRATCH\n  Sequential Write       473 MB/s\n  Sequential Read     10,215 MB/s\n  IOPS              353,158 ops/s\n"
    );
    assert_eq!(
        result_table("gobonniego-1.0.10_root_json_2runs.json"),
        "GoBonnieGo 1.0.10  SCRATCH/gobonniego, 1 GiB, 4 threads, run 1 of 2\n\
         \x20 Sequential Write     3,985 MB/s\n  Sequential Read      8,479 MB/s\n  IOPS              286,026 ops/s\n\n\
         GoBonnieGo 1.0.10  SCRATCH/gobonniego, 1 GiB, 4 threads, run 2 of 2\n\
         \x20 Sequential Write     2,973 MB/s\n  Sequential Read      8,958 MB/s\n  IOPS              292,604 ops/s\n"
    );
}

#[test]
fn rates_are_bytes_over_seconds() {
    for run in &read(&data("gobonniego-1.0.10_root_json_2runs.json")).reports[0].results {
        for (rate, amount, seconds, unit) in [
            (run.write_megabytes_per_second, run.write_bytes, run.write_seconds, 1e6),
            (run.read_megabytes_per_second, run.read_bytes, run.read_seconds, 1e6),
            (run.iops, run.io_operations, run.io_seconds, 1.0),
        ] {
            let expected = amount.unwrap() as f64 / seconds.unwrap() / unit;
            assert!((rate.unwrap() / expected - 1.0).abs() < 1e-12, "{rate:?} {expected}");
        }
    }
}
