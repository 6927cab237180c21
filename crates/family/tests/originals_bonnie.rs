//! Output of bonnie 1.4 and Bonnie-64 themselves, read and written again: the same to the byte, with the exceptions
//! listed here.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use family::bonnie::{Head, Program, Table, Test, read};

/// Text tables of bonnie 1.4.
const TEXTS: [&str; 3] =
    ["bonnie-1.4_s400.stdout", "bonnie-1.4_y_u_v2_S8000_p8.stdout", "bonnie-1.4_phase_io.txt"];

/// Columns that ran together in the original: the file, their text and skye's.
const RUN_TOGETHER: [(&str, &str, &str); 6] = [
    ("bonnie-1.4_s400.stdout", "83.7362515", "83.7 362515"),
    ("bonnie-1.4_s400.stdout", "89.014751854", "89.0 14751854"),
    ("bonnie-1.4_y_u_v2_S8000_p8.stdout", "65.5284470", "65.5 284470"),
    ("bonnie-1.4_y_u_v2_S8000_p8.stdout", "67.27692452", "67.2 7692452"),
    ("bonnie-1.4_phase_io.txt", "87.4365779", "87.4 365779"),
    ("bonnie-1.4_phase_io.txt", "95.218200238", "95.2 18200238"),
];

/// Outputs without a result.
const WITHOUT: [&str; 6] = [
    "bonnie-1.4_s400.stderr",
    "bonnie-1.4_html.stderr",
    "bonnie-1.4_y_u_v2_S8000_p8.stderr",
    "bonnie-1.4_o_direct_fails.stderr",
    "bonnie-64_s400.stderr",
    "bonnie-64_r_html.stderr",
];

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read_to_string(path).unwrap()
}

#[track_caller]
fn table(text: &str) -> Table {
    let (tables, problems) = read(text);
    assert_eq!((tables.len(), problems), (1, vec![]), "{text}");
    tables[0].clone()
}

#[test]
fn text_tables_are_rewritten_with_separated_columns() {
    for name in TEXTS {
        let text = data(name);
        let rows = text.lines().filter(|row| {
            row.starts_with("     ") || row.starts_with("Machine") || row.starts_with("testvm")
        });
        let mut theirs: String = rows.map(|row| format!("{row}\n")).collect();
        for (_, together, apart) in RUN_TOGETHER.iter().filter(|(file, ..)| *file == name) {
            assert!(theirs.contains(together), "{name}");
            theirs = theirs.replace(together, apart);
        }
        assert_eq!(table(&text).text(), theirs, "{name}");
    }
}

#[test]
fn other_tables_are_rewritten_byte_for_byte() {
    let html = data("bonnie-1.4_html.stdout");
    assert_eq!(table(&html).html(), html);
    let html = data("bonnie-64_r_html.stdout");
    assert_eq!(table(&html).html(), html);
    let text = data("bonnie-64_s400.stdout");
    assert_eq!(table(&text).text(), text);
}

#[test]
fn original_outputs_are_parsed() {
    let found = table(&data("bonnie-1.4_y_u_v2_S8000_p8.stdout"));
    let head =
        Head { is_synced: true, is_unlocked: true, is_direct: false, thousands_of_seeks: 8, seekers: 8 };
    assert_eq!((found.head, found.volumes, found.size_mib), (Some(head), 2, Some(200)));
    let (putc, seeks) = (found[Test::PutChar].unwrap(), found[Test::Seeks].unwrap());
    assert_eq!((putc.per_second, putc.cpu_percent), (372_353.0 * 1024.0, Some(65.5)));
    assert_eq!((seeks.per_second, seeks.cpu_percent), (252_812.5, Some(185.0)));
    let found = table(&data("bonnie-64_s400.stdout"));
    assert_eq!((found.program, found.label.as_str(), found.size_mib), (Program::V64, "testvm", None));
    assert_eq!(found[Test::GetBlock].unwrap().per_second, 6757.0 * 1_048_576.0);
    let found = table(&data("bonnie-64_r_html.stdout"));
    assert_eq!((found.program, found.size_mib), (Program::V64, Some(400)));
    let results = table(&data("bonnie-1.4_html.stdout")).results();
    let last = results.rates.last().unwrap();
    assert_eq!((results.rates.len(), last.test.as_str(), last.cpu_percent), (6, "seeks", Some(112.0)));
}

#[test]
fn progress_lines_before_a_result_are_ignored() {
    for name in WITHOUT {
        assert_eq!(read(&data(name)), (vec![], vec![]), "{name}");
    }
    for name in ["bonnie-1.4_s400", "bonnie-1.4_html", "bonnie-64_s400", "bonnie-64_r_html"] {
        let result = data(&format!("{name}.stdout"));
        let mixed = format!("{}{result}", data(&format!("{name}.stderr")));
        assert_eq!(table(&mixed), table(&result), "{name}");
    }
}

/// The row of a run as its author shows it, without the blanks of its columns.
#[test]
fn row_without_heading_is_read() {
    let found = table("gum07. 1* 400 8701 93.2 26069 14.6 10337 12.2 7950 81.5 23695 11.2 122.1 1.5\n");
    assert_eq!((found.label.as_str(), found.head, found.size_mib), ("gum07.", None, Some(400)));
    assert_eq!(found[Test::Rewrite].unwrap().per_second, 10_337.0 * 1024.0);
}
