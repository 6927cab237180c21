//! Lines that are read, lines that are skipped, and problems that are reported.

use super::super::sample;
use super::*;
use proptest::prelude::*;

const OLD: &str = "testvm,256M:64k,,,470557,91,+++++,+++,,,+++++,+++,100.5,1,64:4096:512/4,\
    6220,89,+++++,+++,68178,85,13554,91,114312,93,59650,82";
const MIDDLE: &str = "1.97,1.97,testvm,1,1545782353,2G,64k,1113,97,78993,7,75546,11,2102,92,271440,13,463.5,53,\
    16,,,,,407,7,+++++,+++,1328,12,526,6,+++++,+++,1704,13,\
    21103us,801ms,1565ms,19930us,21978us,9956us,65891us,18799us,81134us,31558us,3596us,10771us";
const NEW: &str = "1.98,2.00a,testvm,4,42,512M,,2000,3,,,227926,42,+++++,+++,,,+++++,+++,+++++,+++,\
    ,,,,,,,,,,,,,,,,,,35421us,4086us,,10509us,25326us,,,,,,";

fn lines(text: &str) -> Vec<Line> {
    let (lines, problems) = read(text);
    assert_eq!(problems, []);
    lines
}

fn problem(text: &str) -> String {
    let (lines, problems) = read(text);
    assert_eq!((lines.len(), problems.len()), (0, 1), "{text}");
    problems[0].to_string()
}

#[test]
fn three_layouts_in_one_text_are_read() {
    let read = lines(&format!("\u{feff}{OLD}\r\n{MIDDLE}\r\n\r\n{NEW}"));
    let layouts: Vec<_> = read.iter().map(|line| line.layout).collect();
    assert_eq!(layouts, Layout::ALL);
    assert_eq!(read.iter().map(Line::to_csv).collect::<Vec<_>>(), [OLD, MIDDLE, NEW]);
    let [old, middle, new] = &read[..] else { panic!() };
    assert_eq!((old.file_size_mib, old.chunk_bytes, old.directories), (Some(256), Some(65536), 4));
    assert_eq!(old.content, Content::Sized { max_bytes: 4096, min_bytes: 512 });
    assert_eq!(old[Test::PutChar].rate, Cell::Absent);
    assert_eq!(old[Test::GetBlock].rate, Cell::TooFast);
    assert_eq!(middle.chunk_bytes, Some(65536));
    assert_eq!(middle[Test::Seeks].rate, Cell::Number { value: 463.5, decimals: 1 });
    assert_eq!(middle[Test::PutBlock].latency_ns, Some(801_000_000));
    assert_eq!((new.concurrency, new.seeks, new.seekers), (4, Some(2000), Some(3)));
    assert_eq!((new.seed.as_str(), new.num_files), ("42", None));
}

#[test]
fn format_1_96_is_parsed_like_1_97() {
    let text = MIDDLE.replace("1.97", "1.96");
    let read = lines(&text);
    assert_eq!((read[0].layout, read[0].format_version.as_str()), (Layout::V1_97, "1.96"));
    assert_eq!(read[0].to_csv(), text);
}

#[test]
fn headings_tables_and_progress_lines_are_ignored() {
    let heading = Layout::V2_00.header();
    let old_heading = Layout::V1_03.header();
    let text = format!(
        "Using uid:0, gid:0.\nWriting a byte at a time...done\n{heading}\n{NEW}\n{old_heading}\n\
         Version 2.00a       ------Sequential Output------\nName:Size etc        /sec %CP\n\nreal\t0m6,024s\n1.98\n"
    );
    assert_eq!(lines(&text).len(), 1);
}

#[test]
fn short_csv_line_is_reported_as_a_problem() {
    assert_eq!(problem("a,b,c"), "line 1: has 3 fields, expected 27, 48 or 50 fields");
}

#[test]
fn blanks_quotes_and_trailing_commas_are_accepted() {
    let spaced = OLD.replace(',', " ,\t");
    assert_eq!(lines(&spaced)[0].to_csv(), OLD);
    let quoted = format!("\"a \"\"b\"\", c\" , {}", &OLD["testvm,".len()..]);
    assert_eq!(lines(&quoted)[0].name, "a \"b\", c");
    let unclosed = OLD.replace("testvm", "\"5 inch");
    assert_eq!(lines(&unclosed)[0].name, "\"5 inch");
    for line in [OLD, MIDDLE, NEW] {
        assert_eq!(lines(&format!("{line},,")), lines(line));
    }
}

#[test]
fn unquoted_machine_name_with_commas_is_parsed() {
    for line in [OLD, MIDDLE, NEW] {
        let read = lines(&line.replace("testvm", "lab,rack 3,testvm"));
        assert_eq!(read[0].name, "lab,rack 3,testvm");
    }
}

#[test]
fn machine_named_like_version_or_column_is_read() {
    for name in ["1.98", "1.97", "name", "format_version", "2.00a"] {
        let read = lines(&OLD.replace("testvm", name));
        assert_eq!((read[0].name.as_str(), read[0].layout), (name, Layout::V1_03));
    }
}

#[test]
fn directories_are_read_from_actual_and_documented_columns() {
    let really = NEW.replacen("+++,,,,,,,", "+++,16,4096,1024,,4,,", 1);
    let documented = NEW.replacen("+++,,,,,,,", "+++,16,4096,1024,4,512,,", 1);
    let (really, documented) = (lines(&really).remove(0), lines(&documented).remove(0));
    assert_eq!((really.directories, really.file_chunk_bytes), (4, None));
    assert_eq!((documented.directories, documented.file_chunk_bytes), (4, Some(512)));
    let links = lines(&NEW.replacen("+++,,,,,,,", "+++,16,symlink,,,4,,", 1));
    assert_eq!((links[0].content, links[0].directories), (Content::SymbolicLinks, 4));
}

#[test]
fn problem_states_line_field_and_expected_value() {
    assert_eq!(
        problem(&MIDDLE.replace("78993", "fast")),
        "line 1, field 10 (put_block): has `fast`, expected a rate per second, +++++ or nothing"
    );
    assert_eq!(
        problem(&format!("\n\n{}", NEW.replace("512M", "512X\u{1b}"))),
        r"line 3, field 6 (file_size): has `512X\u{1b}`, expected a size such as 1500M or 2G, or nothing"
    );
    assert_eq!(
        problem(&OLD.replace("64:4096", "64:no")),
        "line 1, field 15 (num_files): has `64:no:512/4`, expected files such as 16, 64:4096:512/4 or 16:link, or \
         nothing"
    );
    assert_eq!(
        problem(&NEW.replace("10509us", "10509")),
        "line 1, field 43 (get_block_latency): has `10509`, expected a latency such as 11589us, 453ms or 2s, or nothing"
    );
    assert_eq!(
        problem(&format!("x{NEW}")),
        "line 1, field 1 (format_version): has `x1.98`, expected a version such as 1.97 or 1.98"
    );
    assert_eq!(problem("1.98,2.00a,short"), "line 1: has 3 fields, expected 50 fields");
    assert_eq!(problem(&format!("{NEW},1,2,3")), "line 1: has 53 fields, expected 50 fields");
    assert_eq!(problem("a,b,c,d,e,f,g"), "line 1: has 7 fields, expected 27, 48 or 50 fields");
    let long = problem(&OLD.replace("470557", &"9".repeat(500)));
    assert!(long.len() < 200 && long.contains('…'), "{long}");
}

#[test]
fn broken_line_does_not_affect_other_lines() {
    let (lines, problems) = read(&format!("{OLD}\n1.98,2.00a,short\n{NEW}\n"));
    assert_eq!((lines.len(), problems.len()), (2, 1));
    assert_eq!(problems[0].line, 2);
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "(?s).{0,400}", commas in "[a-z0-9.+:/\",\n ]{0,600}") {
        let _ = (read(&text), read(&commas));
    }

    #[test]
    fn changed_lines_parse_without_panic(
        line in prop::sample::select(vec![OLD, MIDDLE, NEW]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<char>()), 1..8),
    ) {
        let mut text: Vec<char> = line.chars().collect();
        for (place, what, character) in edits {
            if text.is_empty() {
                break;
            }
            let at = place.index(text.len());
            match what {
                0 => text[at] = character,
                1 => text.insert(at, ','),
                2 => { text.remove(at); }
                _ => text.truncate(at.max(1)),
            }
        }
        let (lines, problems) = read(&text.iter().collect::<String>());
        for line in &lines {
            let (again, wrong) = read(&line.to_csv());
            prop_assert_eq!(wrong, vec![]);
            prop_assert_eq!(again.len(), 1);
        }
        prop_assert!(problems.iter().all(|problem| !problem.to_string().contains('\n')));
    }

    #[test]
    fn written_lines_read_back_unchanged(line in sample::any_line()) {
        let (lines, problems) = read(&line.to_csv());
        prop_assert_eq!(problems, vec![]);
        prop_assert_eq!(lines, vec![line]);
    }
}
