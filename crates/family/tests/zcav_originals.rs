//! Output of zcav itself, read and written again: the same to the byte, except for lines that are not its results.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use family::zcav::{Log, Verb, read, results};

/// Files with a log, the name of the measured file, the number of lines, and the number of lines with a rate.
const LOGS: [(&str, &str, usize, usize); 3] = [
    ("zcav-2.00a_b256.txt", "SCRATCH/dev.img", 4, 0),
    ("zcav-2.00a_b8192_sparsefile.txt", "sparse.img", 4, 4),
    ("zcav-2.00a_c3.log", "", 9, 0),
];

/// Beginnings of lines that are no results: those of zcav on stderr, and those of the program that measured its time.
const OTHERS: [&str; 5] = ["# Finished loop", "real\t", "user\t", "sys\t", "\n"];

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn log(name: &str) -> Log {
    let (mut logs, problems) = read(&data(name));
    assert_eq!((logs.len(), problems), (1, vec![]), "{name}");
    logs.remove(0)
}

#[test]
fn every_log_is_rewritten_byte_for_byte() {
    for (name, device, lines, timed) in LOGS {
        let text = data(name);
        let is_result = |line: &&str| !OTHERS.iter().any(|other| line.starts_with(other));
        let theirs: String = text.split_inclusive('\n').filter(is_result).collect();
        let log = log(name);
        assert_eq!(log.text(), theirs, "{name}");
        assert_eq!((log.name.as_str(), log.lines.len()), (device, lines), "{name}");
        assert_eq!(log.lines.iter().filter(|line| line.mib_per_second.is_some()).count(), timed, "{name}");
    }
}

#[test]
fn original_logs_convert_to_results() {
    let rates = results(&log("zcav-2.00a_b8192_sparsefile.txt")).rates;
    let formatted: Vec<_> = rates.iter().map(|rate| (rate.test.as_str(), rate.text())).collect();
    // 849 MiB/s by its own summary.
    assert_eq!(formatted[0], ("sequential read", "891 MB/s".into()));
    assert_eq!((formatted.len(), formatted[1].1.as_str()), (3, "370 MB/s"));
    // A rate that was too fast to be timed is no number.
    assert_eq!(results(&log("zcav-2.00a_c3.log")).rates, []);
    let passes = log("zcav-2.00a_c3.log").passes;
    assert_eq!((passes.len(), passes[1].verb, passes[1].mib_per_second), (3, Verb::Read, 5892));
}
