//! Finds tables of bonnie 1.4 and Bonnie-64 in any text: text tables and rows of HTML, with or without other output of
//! the programs.

use model::printable::printable;

use super::table::{ABSENT, kib_to_bytes, mib_of_gigabytes, mib_to_bytes};
use super::{Head, Program, Table, Test, TestRate};
use crate::bonniepp::Problem;

/// Count of numbers in a row: a rate and a share of a CPU for each test.
const NUMBERS: usize = 2 * Test::COLUMNS.len();
/// Width of the label in a row of bonnie 1.4, in characters.
const LABEL_WIDTH: usize = 6;
/// Largest number of volumes of bonnie 1.4.
const VOLUMES_MAX: u64 = 512;
/// Digits of a share of a CPU that has no point and ran into the next rate. It is the share of one thread, thus little
/// more than 100.
const WHOLE_PERCENT_DIGITS: usize = 3;
/// Most characters of foreign text that a problem repeats.
const EXCERPT_CHARS_MAX: usize = 60;

const ROW_1_4: &str =
    "a label, volumes*MiB and six pairs of a rate and %CPU, as in `ada 1* 400 149956 83.7 …`";
const ROW_64: &str = "a label, GB and six pairs of a rate and %CPU, as in `ada 1 172.0 71.4 …`";
const CELLS_1_4: &str = "14 cells: a label, `MiB * volumes` and six pairs of a rate and %CPU";
const CELLS_64: &str = "14 cells: a label, MB and six pairs of a rate and %CPU";

/// Returns the tables of both programs in the order of the text, and a problem for each text that only looks like a
/// table.
///
/// The text may be a lone row, or the whole output with progress and other lines between. Columns of bonnie 1.4 that
/// ran together are split again: `83.7362515` is 83.7 and 362515. A share of a CPU has one digit after the point; 99.95
/// and more have no point and three digits. Rows of Bonnie-64 need their heading, because it has their unit. HTML may
/// have tags in upper or lower case, attributes, and rows over several lines.
pub fn read(text: &str) -> (Vec<Table>, Vec<Problem>) {
    let mut found = lines(text);
    found.extend(rows(text));
    // The sort is stable: findings on one line stay in their order.
    found.sort_by_cached_key(|(line, _)| *line);
    let (mut tables, mut problems) = (Vec::new(), Vec::new());
    for (_, one) in found {
        match one {
            Ok(table) => tables.push(table),
            Err(problem) => problems.push(problem),
        }
    }
    (tables, problems)
}

/// Tables and problems, each with its line number.
type ParsedTables = Vec<(usize, Result<Table, Problem>)>;

fn problem(line: usize, has: &str, expected: &str) -> Problem {
    let start = printable(&has.trim().chars().take(EXCERPT_CHARS_MAX).collect::<String>());
    let cut = if has.trim().chars().nth(EXCERPT_CHARS_MAX).is_some() { "…" } else { "" };
    let has = if start.is_empty() { "nothing".into() } else { format!("`{start}{cut}`") };
    Problem { line, field: None, has, expected: expected.into() }
}

/// The heading of a text table, as far as it was read.
#[derive(Default)]
struct Heading {
    is_synced: Option<bool>,
    columns: Option<(bool, bool, u64, u64)>,
    /// Program of the row that comes next.
    next_row_program: Option<Program>,
}

impl Heading {
    /// Takes a line and returns true if it belongs to the heading.
    fn accept_line(&mut self, line: &str) -> bool {
        if line.contains("Sequential Output") {
            let is_synced = line.contains("(sync)").then_some(true);
            *self = Self {
                is_synced: is_synced.or(line.contains("(nosync)").then_some(false)),
                ..Self::default()
            };
            return true;
        }
        if line.contains("Rewrite-") && line.contains("Char") {
            self.columns = seeks_of(line).map(|(thousands, seekers)| {
                (line.contains("-CharUnlk-"), line.contains("-DRewrite-"), thousands, seekers)
            });
            return true;
        }
        let is_units = line.trim_start().starts_with("Machine") && line.contains("/sec %CPU");
        if is_units {
            let unit = line.split_whitespace().nth(1);
            self.next_row_program = match unit {
                Some("GB") => Some(Program::V64),
                Some("MB") => Some(Program::V1_4),
                _ => None,
            };
        }
        is_units
    }

    fn head(&self) -> Option<Head> {
        let (is_synced, columns) = (self.is_synced?, self.columns?);
        let (is_unlocked, is_direct, thousands_of_seeks, seekers) = columns;
        Some(Head { is_synced, is_unlocked, is_direct, thousands_of_seeks, seekers })
    }
}

/// Thousands of seeks, and seekers, from the end of `… --04k (03)-`.
fn seeks_of(line: &str) -> Option<(u64, u64)> {
    let (before, seekers) = line.trim_end().trim_end_matches('-').strip_suffix(')')?.rsplit_once(" (")?;
    let thousands = before.strip_suffix('k')?.rsplit('-').next()?;
    Some((parse_integer(thousands)?, parse_integer(seekers)?))
}

/// Finds text tables, and lone rows of them.
fn lines(text: &str) -> ParsedTables {
    let mut found = Vec::new();
    let mut heading = Heading::default();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || heading.accept_line(line) {
            continue;
        }
        let awaited = heading.next_row_program.take();
        let row = match awaited {
            Some(Program::V64) => row_64(line),
            _ => row_1_4(line),
        };
        match (row, awaited) {
            (Some(mut table), _) => {
                table.head = heading.head().filter(|_| awaited == Some(Program::V1_4));
                found.push((index + 1, Ok(table)));
            }
            (None, Some(program)) => {
                let expected = if program == Program::V64 { ROW_64 } else { ROW_1_4 };
                found.push((index + 1, Err(problem(index + 1, line, expected))));
            }
            (None, None) => {}
        }
        heading = Heading::default();
    }
    found
}

/// A row of bonnie 1.4: "testvm 1* 400 149956 83.7…".
fn row_1_4(line: &str) -> Option<Table> {
    let (before, after) = line.rsplit_once('*')?;
    let (label, volumes) = label_and_volumes(before)?;
    let (size, rest) = digits(after.trim_start());
    let numbers = numbers_1_4(rest)?;
    let mut table = Table::new(Program::V1_4, label);
    (table.volumes, table.size_mib) = (volumes, Some(parse_integer(size)?));
    fill(&mut table, &numbers, kib_to_bytes);
    Some(table)
}

/// Label and volumes, from the part of a row before the star. No blank separates a label that fills its column from a
/// number of two digits or more.
fn label_and_volumes(text: &str) -> Option<(&str, u64)> {
    let in_range = |text: &str| parse_integer(text).filter(|volumes| (1..=VOLUMES_MAX).contains(volumes));
    let separated = || {
        let (label, volumes) = text.rsplit_once(char::is_whitespace).unwrap_or(("", text));
        Some((label.trim(), in_range(volumes)?))
    };
    let joined = || {
        let at = text.char_indices().nth(LABEL_WIDTH)?.0;
        Some((text[..at].trim(), in_range(&text[at..])?))
    };
    separated().or_else(joined)
}

/// Returns the numbers of a row and splits those that ran together. Returns `None` if there are too many or too few, or
/// if one is not a number.
fn numbers_1_4(text: &str) -> Option<[Option<f64>; NUMBERS]> {
    let mut numbers = [None; NUMBERS];
    let mut next = 0;
    for word in text.split_whitespace() {
        let mut rest = word;
        while !rest.is_empty() {
            let place = numbers.get_mut(next)?;
            let is_cpu = next % 2 == 1;
            let (number, after) = match rest.strip_prefix(ABSENT) {
                Some(after) => (None, after),
                None => first_number(rest, is_cpu).map(|(number, after)| (Some(number), after))?,
            };
            (*place, rest, next) = (number, after, next + 1);
        }
    }
    (next == NUMBERS).then_some(numbers)
}

/// Returns the first number of a word, and the text that ran into it.
fn first_number(word: &str, is_cpu: bool) -> Option<(f64, &str)> {
    let (before, after) = digits(word);
    let length = match after.strip_prefix('.') {
        // One digit behind the point, as in all numbers with a point that these programs print.
        Some(decimals) if decimals.starts_with(|first: char| first.is_ascii_digit()) => before.len() + 2,
        Some(_) => return None,
        None if is_cpu && before.len() > WHOLE_PERCENT_DIGITS => {
            before.starts_with('1').then_some(WHOLE_PERCENT_DIGITS)?
        }
        None => before.len(),
    };
    Some((decimal(&word[..length])?, &word[length..]))
}

/// A row of Bonnie-64: "testvm      0 172.0 71.4 …".
fn row_64(line: &str) -> Option<Table> {
    let mut rest = line.trim_end();
    let mut last_word = || {
        let (before, word) = rest.rsplit_once(char::is_whitespace).unwrap_or(("", rest));
        rest = before.trim_end();
        word
    };
    let mut numbers = [None; NUMBERS];
    for number in numbers.iter_mut().rev() {
        *number = optional(last_word())?;
    }
    let size_mib = mib_of_gigabytes(decimal(last_word())?);
    let mut table = Table::new(Program::V64, rest.trim_start());
    table.size_mib = size_mib;
    fill(&mut table, &numbers, mib_to_bytes);
    Some(table)
}

/// Assigns numbers in the order of the columns to their tests; `bytes` converts a rate to bytes.
fn fill(table: &mut Table, numbers: &[Option<f64>; NUMBERS], bytes: fn(f64) -> f64) {
    for (test, pair) in Test::COLUMNS.into_iter().zip(numbers.chunks_exact(2)) {
        let per_second = pair[0].map(|rate| if test == Test::Seeks { rate } else { bytes(rate) });
        table[test] = per_second.map(|per_second| TestRate { per_second, cpu_percent: pair[1] });
    }
}

/// Finds rows of HTML.
fn rows(text: &str) -> ParsedTables {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut is_table_of_64 = false;
    let mut starts = tags(&lower, &["tr"]).peekable();
    let (mut line, mut counted) = (1, 0);
    while let Some(start) = starts.next() {
        let end = starts.peek().copied().unwrap_or(lower.len());
        let end = lower[start..end].find("</tr").map_or(end, |length| start + length);
        let cells = cells(&text[start..end], &lower[start..end]);
        line += text[counted..start].matches('\n').count();
        counted = start;
        let (first, second) =
            (cells.first().map_or("", String::as_str), cells.get(1).map_or("", String::as_str));
        if (first, second) == ("Machine", "MB") {
            is_table_of_64 = true;
        } else if let Some((size, volumes)) = size_and_volumes(second) {
            let table = table_of_cells(&cells).map(|table| Table { size_mib: size, volumes, ..table });
            found.push((line, table.ok_or_else(|| problem(line, &cells.join(" "), CELLS_1_4))));
        } else if let Some(size) = optional_integer(second).filter(|_| is_table_of_64) {
            let program = Program::V64;
            let table = table_of_cells(&cells).map(|table| Table { program, size_mib: size, ..table });
            found.push((line, table.ok_or_else(|| problem(line, &cells.join(" "), CELLS_64))));
            is_table_of_64 = false;
        }
    }
    found
}

/// Contents of a row's cells, without tags and with references resolved; `lower` is the row in lower case.
fn cells(row: &str, lower: &str) -> Vec<String> {
    let mut cells = Vec::new();
    for tag in tags(lower, &["td", "th"]) {
        let Some(open) = lower[tag..].find('>') else { break };
        let start = tag + open + 1;
        let length = lower[start..].find('<').unwrap_or(lower.len() - start);
        let content = row[start..start + length].trim();
        cells.push(
            content.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"),
        );
    }
    cells
}

/// Offsets at which these tags begin, in text in lower case.
fn tags<'a>(lower: &'a str, names: &'a [&'a str]) -> impl Iterator<Item = usize> + 'a {
    let ends = |rest: &str| rest.starts_with(|next: char| next == '>' || next.is_ascii_whitespace());
    let is_tag = move |rest: &str| names.iter().any(|name| rest.strip_prefix(name).is_some_and(ends));
    lower.match_indices('<').filter(move |(at, _)| is_tag(&lower[at + 1..])).map(|(at, _)| at)
}

/// "400 * 1": MiB and volumes.
fn size_and_volumes(text: &str) -> Option<(Option<u64>, u64)> {
    let (size, volumes) = text.split_once('*')?;
    Some((optional_integer(size.trim())?, parse_integer(volumes.trim())?))
}

/// Makes a table of a row of 14 cells; the caller reads the second.
fn table_of_cells(cells: &[String]) -> Option<Table> {
    let [label, _, pairs @ ..] = cells else { return None };
    let mut numbers = [None; NUMBERS];
    if pairs.len() != NUMBERS {
        return None;
    }
    for (number, cell) in numbers.iter_mut().zip(pairs) {
        *number = optional(cell)?;
    }
    let mut table = Table::new(Program::V1_4, label.as_str());
    fill(&mut table, &numbers, kib_to_bytes);
    Some(table)
}

/// Splits a text after the digits with which it begins.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Parses a number that has only digits.
fn parse_integer(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Parses a whole number, or the sign for an absent one.
fn optional_integer(text: &str) -> Option<Option<u64>> {
    if text == ABSENT { Some(None) } else { parse_integer(text).map(Some) }
}

/// Parses a number that has only digits, with or without a point and more digits.
fn decimal(text: &str) -> Option<f64> {
    let (before, after) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = [before, after].iter().all(|part| !part.is_empty() && digits(part).1.is_empty());
    text.parse().ok().filter(|number: &f64| is_number && number.is_finite())
}

/// Parses a decimal number, or the sign for an absent one.
fn optional(text: &str) -> Option<Option<f64>> {
    if text == ABSENT { Some(None) } else { decimal(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADING: &str =
        "Machine    MB K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU K/sec %CPU   /sec %CPU\n";

    fn one(text: &str) -> Table {
        let (tables, problems) = read(text);
        assert_eq!((tables.len(), problems), (1, vec![]), "{text}");
        tables[0].clone()
    }

    fn rates(table: &Table) -> Vec<(f64, f64)> {
        let pair = |test: &Test| {
            let measured = table[*test].unwrap();
            (measured.per_second, measured.cpu_percent.unwrap())
        };
        Test::COLUMNS.iter().map(pair).collect()
    }

    #[test]
    fn joined_columns_are_split() {
        let table =
            one("testvm 1* 400 149956 83.7362515 65.8 3851216 81.4 295254 89.014751854 77.9 68255.9 64.8");
        let kib: Vec<_> = rates(&table).iter().map(|(rate, cpu)| (rate / 1024.0, *cpu)).collect();
        assert_eq!(kib[..2], [(149_956.0, 83.7), (362_515.0, 65.8)]);
        assert_eq!(kib[3..5], [(295_254.0, 89.0), (14_751_854.0, 77.9)]);
        assert_eq!((table.label.as_str(), table.volumes, table.size_mib), ("testvm", 1, Some(400)));
        // From 99.95 on, a share has no point.
        // If a number is missing, the next one is not split.
        assert_eq!(read("testvm 1* 400 149956 362515 65.8 3 81.4 4 89.0 5 77.9 6.0 64.8").0, []);
        let table =
            one("testvm 1* 400 149956  100362515 65.8 3851216 81.4 295254  11214751854 77.9 68255.9  185");
        let found = rates(&table);
        assert_eq!([found[0].1, found[3].1, found[5].1], [100.0, 112.0, 185.0]);
        assert_eq!([found[1].0, found[4].0], [362_515.0 * 1024.0, 14_751_854.0 * 1024.0]);
        // Volumes run into a label that fills its column.
        for (row, label, volumes) in [
            ("testvm12* 400", "testvm", 12),
            ("node1212* 400", "node12", 12),
            ("ab 123500* 400", "ab 123", 500),
        ] {
            let table = one(&format!("{row} 1 1.0 2 2.0 3 3.0 4 4.0 5 5.0 6.0 6.0"));
            assert_eq!((table.label.as_str(), table.volumes), (label, volumes), "{row}");
        }
    }

    #[test]
    fn heading_applies_to_the_next_row_only() {
        let head = Head {
            is_synced: true,
            is_unlocked: true,
            is_direct: true,
            thousands_of_seeks: 100,
            seekers: 128,
        };
        let mut table = Table::new(Program::V1_4, "ada");
        (table.head, table.size_mib, table.volumes) = (Some(head), Some(9), 12);
        for test in Test::ALL {
            table[test] = Some(TestRate { per_second: 1024.0, cpu_percent: None });
        }
        let text = format!("Reading with getc()... done: 5 kB/s\n{}\nreal 1s\n", table.text());
        assert_eq!(one(&text), table);
        // A heading applies to the next line alone.
        let row = table.text().lines().last().unwrap().to_owned();
        let (tables, _) = read(&format!("{}{row}\n", table.text()));
        assert_eq!([tables[0].head, tables[1].head], [Some(head), None]);
    }

    #[test]
    fn malformed_row_is_reported_with_line_number() {
        for (text, line, parts) in [
            (format!("{HEADING}testvm 1* 400 149956 83.7\n"), 2, ["`testvm 1* 400", "volumes*MiB"]),
            (
                format!("\n{HEADING}testvm 400 1 1.0 2 2.0 3 3.0 4 4.0 5 5.0 6.0 6.0\n"),
                3,
                ["`testvm 400", "volumes*MiB"],
            ),
            ("Machine    GB M/sec %CPU\nada 1 fast\n".into(), 2, ["`ada 1 fast`", "GB and six pairs"]),
            ("<TR><TD>a</TD><TD>400 * 1</TD><TD>5</TD></TR>".into(), 1, ["`a 400 * 1 5`", "14 cells"]),
        ] {
            let (tables, problems) = read(&text);
            assert_eq!((tables.len(), problems.len()), (0, 1), "{text}");
            let message = problems[0].to_string();
            assert!(message.starts_with(&format!("line {line}: has ")), "{message}");
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
    }

    #[test]
    fn output_of_other_programs_is_ignored() {
        for text in [
            "",
            "Version  2.00a       ------Sequential Output------ --Sequential Input- --Random-\n\
             Name:Size etc        /sec %CP  /sec %CP\ntestvm 2G 1 2 3\n",
            "1.98,2.00a,testvm,1,1,1G,,8192,5,+++++",
            "<table><tr><td>2.00a</td><td>ada</td><td>7</td></tr></table>",
            "2 * 3 = 6\n* a list\n",
        ] {
            assert_eq!(read(text), (vec![], vec![]), "{text}");
        }
    }

    #[test]
    fn html_with_other_attributes_and_case_is_parsed() {
        let numbers =
            (1..=12).map(|number| format!("\n <td align=right> {number}.5</TD>")).collect::<String>();
        let table = one(&format!(
            "<table border>\n<tr class=a>\n<td>a &amp; b</td><td>10 * 2</td>{numbers}\n</table>"
        ));
        assert_eq!((table.label.as_str(), table.size_mib, table.volumes), ("a & b", Some(10), 2));
        assert_eq!(rates(&table)[5], (11.5, 12.5));
    }

    fn any_measured(decimals: f64) -> impl Strategy<Value = Option<(f64, Option<f64>)>> {
        let cpu = prop_oneof![
            (0u64..999).prop_map(|tenths| tenths as f64 / 10.0),
            (100u64..1000).prop_map(|percent| percent as f64),
        ];
        let rate = (0u64..1 << 40).prop_map(move |number| number as f64 / decimals);
        proptest::option::of((rate, proptest::option::of(cpu)))
    }

    fn any_head() -> impl Strategy<Value = Option<Head>> {
        let flags = any::<(bool, bool, bool)>();
        proptest::option::of((flags, 0u64..10_000, 1u64..1000).prop_map(
            |(flags, thousands_of_seeks, seekers)| {
                let (is_synced, is_unlocked, is_direct) = flags;
                Head { is_synced, is_unlocked, is_direct, thousands_of_seeks, seekers }
            },
        ))
    }

    fn any_table(program: Program, is_html: bool) -> impl Strategy<Value = Table> {
        let is_1_4 = program == Program::V1_4;
        let unit = if is_1_4 || is_html { 1024.0 } else { 1_048_576.0 };
        let decimals = if is_1_4 || is_html { 1.0 } else { 10.0 };
        let seeks = if is_1_4 || is_html { 10.0 } else { 1.0 };
        let label =
            if is_html { "([!-~]([ -~]{0,70}[!-~])?)?" } else { "([!-;=-~]([ -;=-~]{0,70}[!-;=-~])?)?" };
        let bulk = prop::array::uniform5(any_measured(decimals));
        (label, 1u64..1 << 30, 1u64..=512, any_head(), bulk, any_measured(seeks)).prop_map(
            move |(label, size_mib, volumes, head, bulk, seeks)| {
                let mut table = Table::new(program, label);
                table.size_mib = Some(size_mib);
                if is_1_4 {
                    table.volumes = volumes;
                    table.head = head.filter(|_| !is_html);
                }
                let bulk = bulk.map(|pair| pair.map(|(rate, cpu)| (rate * unit, cpu)));
                let mut results = bulk.into_iter().chain([seeks]);
                for test in Test::COLUMNS {
                    let pair = results.next().flatten();
                    table[test] = pair.map(|(per_second, cpu_percent)| TestRate { per_second, cpu_percent });
                }
                table
            },
        )
    }

    proptest! {
        #[test]
        fn text_table_of_version_1_4_reads_back(table in any_table(Program::V1_4, false)) {
            let text = table.text();
            prop_assert_eq!(read(&text), (vec![table], vec![]), "{}", text);
        }

        #[test]
        fn text_table_of_bonnie_64_reads_back(table in any_table(Program::V64, false)) {
            let text = table.text();
            prop_assert_eq!(read(&text), (vec![table], vec![]), "{}", text);
        }

        #[test]
        fn html_table_of_version_1_4_reads_back(table in any_table(Program::V1_4, true)) {
            let html = table.html();
            prop_assert_eq!(read(&html), (vec![table], vec![]), "{}", html);
        }

        #[test]
        fn html_table_of_bonnie_64_reads_back(table in any_table(Program::V64, true)) {
            let html = table.html();
            prop_assert_eq!(read(&html), (vec![table], vec![]), "{}", html);
        }

        #[test]
        fn any_text_parses_without_panic(text: String) {
            let _ = read(&text);
        }

        #[test]
        fn table_like_text_reads_without_panic(text in "((Machine    (MB K|GB M)/sec %CPU\n)?[a-z0-9é]{0,8}[0-9 ]{0,4}\\*? ?([0-9]{0,9}[. -]?){0,16}\n|<[tT][rRdD]?>?|</tr>|[0-9é *]{0,5}){0,20}") {
            let _ = read(&text);
        }
    }
}
