//! Output of getc_putc itself, read and written again: the same to the byte.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use family::getc_putc::{Line, read};
use family::results::table;

fn data(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

fn line(name: &str) -> Line {
    let (mut lines, problems) = read(&data(name));
    assert_eq!((lines.len(), problems.len()), (1, 0), "{name}");
    lines.remove(0)
}

#[test]
fn lines_and_tables_are_rewritten_byte_for_byte() {
    let whole = data("getc_putc-2.00a_64m.txt");
    let fast = line("getc_putc-2.00a_64m.txt");
    // The headings follow the last phrase, on the same line.
    assert!(whole.contains(&fast.to_text()) && whole.contains(&format!("\n{}\n", fast.to_csv())));
    assert_eq!(fast.kib_per_second[..3], [Some(370), Some(1799), None]);
    let timed = line("getc_putc-2.00a_default_q.csv");
    assert_eq!(format!("{}\n", timed.to_csv()), data("getc_putc-2.00a_default_q.csv"));
    assert!(data("getc_putc-2.00a_default_q.stderr").starts_with(&timed.to_text()));
    assert_eq!(line("getc_putc-2.00a_default_q.stderr"), timed);
}

#[test]
fn results_list_only_the_timed_tests() {
    let results =
        ["getc_putc-2.00a_64m.txt", "getc_putc-2.00a_default_q.csv"].map(|name| line(name).results());
    assert_eq!(results.each_ref().map(|results| results.rates.len()), [2, 8]);
    let text = table(&results[1..]);
    assert!(text.starts_with("getc_putc 2.00a  testvm\n"), "{text}");
    let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(last, ["getc_unlocked", "857", "MB/s"], "{text}");
}
