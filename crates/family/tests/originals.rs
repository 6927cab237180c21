//! Output of bonnie++ itself, read and written again: the same to the byte, with the exceptions listed here.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use family::bonniepp::{Layout, Line, csv2txt, read, table};

/// Files with CSV lines, and the number of lines in each.
const LINES: [(&str, usize); 10] = [
    ("bonnie++-1.03e_s1500_r700_n4.stdout", 1),
    ("bonnie++-1.03e_x2.csv", 2),
    ("bonnie++-1.03e_phase_io.txt", 1),
    ("bonnie++-1.97_by_hand.stdout", 1),
    ("bonnie++-2.00a_n16_4096_1024_4dirs_4k.txt", 1),
    ("bonnie++-2.00a_phase_io.txt", 1),
    ("bonnie++-2.00a_s0_n128.stdout", 1),
    ("bonnie++-2.00a_s1G_r512_n4.stdout", 1),
    ("bonnie++-2.00a_s512_64k_2000seeks_16procs_c4.out", 1),
    ("bonnie++-2.00a_s512_64k_2000seeks_3procs_c4.out", 1),
];

/// Rows of text tables that are wrong in the original: the file, their row and skye's. CSV lines have no exception.
const WRONG_ROWS: [(&str, &str, &str); 4] = [
    // The number of files in place of their rate.
    (
        "bonnie++-2.00a_n16_4096_1024_4dirs_4k.txt",
        "     16:4096:1024/4 16384  45 +++++ +++ 16384   2 16384  47 +++++ +++ 16384   4",
        "     16:4096:1024/4   910  45 +++++ +++   329   2  1800  47 +++++ +++   804   4",
    ),
    (
        "bonnie++-2.00a_s0_n128.stdout",
        "                128 131072  46 +++++ +++ 131072  44 131072  52 131072  45 131072  45",
        "                128 13891  46 +++++ +++ 40276  44  4265  52 244042  45 39271  45",
    ),
    (
        "bonnie++-2.00a_phase_io.txt",
        "                 16 16384  85 +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++",
        "                 16  7190  85 +++++ +++ +++++ +++ +++++ +++ +++++ +++ +++++ +++",
    ),
    // A number of seekers with one digit is dropped.
    (
        "bonnie++-2.00a_s512_64k_2000seeks_3procs_c4.out",
        "tes 512M:64k:4:2000            223m  42 +++++ +++           +++++ +++ +++++ +++",
        "t 512M:64k:4:2000:3            223m  42 +++++ +++           +++++ +++ +++++ +++",
    ),
];

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

fn lines(name: &str) -> Vec<Line> {
    let (lines, problems) = read(&data(name));
    assert_eq!(problems, [], "{name}");
    lines
}

fn is_csv(row: &str) -> bool {
    ["testvm,", "1.97,", "1.98,"].iter().any(|start| row.starts_with(start))
}

#[test]
fn every_line_is_rewritten_byte_for_byte() {
    let files = LINES.iter().chain(&[("bonnie++-2.00a_x2_header.csv", 2)]);
    for (name, count) in files {
        let text = data(name);
        let theirs: Vec<_> = text.lines().filter(|row| is_csv(row)).collect();
        let ours: Vec<_> = lines(name).iter().map(Line::to_csv).collect();
        assert_eq!(theirs.len(), *count, "{name}");
        assert_eq!(ours, theirs, "{name}");
    }
}

#[test]
fn headings_equal_those_of_the_originals() {
    let first = |name: &str| data(name).lines().next().map(str::to_owned);
    assert_eq!(first("bonnie++-1.03e_x2.csv"), Some(Layout::V1_03.header()));
    assert_eq!(first("bonnie++-2.00a_x2_header.csv"), Some(Layout::V2_00.header()));
    assert_eq!(Layout::V1_97.header(), Layout::V2_00.header());
}

#[test]
fn text_tables_equal_originals_except_known_errors() {
    for (name, _) in LINES.iter().filter(|(name, _)| !name.ends_with(".csv")) {
        let text = data(name);
        let rows = text.lines().skip_while(|row| !row.starts_with("Version")).take_while(|row| !is_csv(row));
        let mut theirs: String = rows.map(|row| format!("{row}\n")).collect();
        for (_, wrong, right) in WRONG_ROWS.iter().filter(|(file, ..)| file == name) {
            assert!(theirs.contains(wrong), "{name}");
            theirs = theirs.replace(wrong, right);
        }
        let mut line = lines(name).remove(0);
        if name.contains("_64k_") {
            // The CSV line does not have the chunk.
            line.chunk_bytes = Some(65536);
        }
        assert_eq!(table(&line), theirs, "{name}");
    }
}

#[test]
fn csv2txt_of_many_lines_matches_original_converters() {
    let old = [lines("bonnie++-1.03e_s1500_r700_n4.stdout"), lines("bonnie++-1.03e_x2.csv")].concat();
    assert_eq!(csv2txt(&old), data("bon_csv2txt-1.03e.txt"));
    let new = [
        "bonnie++-2.00a_n16_4096_1024_4dirs_4k.txt",
        "bonnie++-2.00a_s0_n128.stdout",
        "bonnie++-2.00a_s1G_r512_n4.stdout",
        "bonnie++-2.00a_s512_64k_2000seeks_16procs_c4.out",
        "bonnie++-2.00a_s512_64k_2000seeks_3procs_c4.out",
        "bonnie++-2.00a_x2_header.csv",
    ];
    let new = new.map(lines).concat();
    // The original takes a rate that was too fast for zero.
    let theirs = data("bon_csv2txt-2.00a.txt").replace("   0k +++", "+++++ +++");
    assert_eq!(csv2txt(&new), theirs);
}
