//! Finds lines of every layout in any text, as far as they differ from the rest.

use std::fmt;

use super::figure::{parse_chunk, parse_count, parse_latency, parse_size};
use super::{Cell, Content, Layout, Line, Test};
use model::printable::printable;

/// Least number of fields in a broken line of 1.03. A line with blanks, fewer fields and no version at its start is a
/// sentence with commas.
const BROKEN_LINE_FIELDS_MIN: usize = 6;
/// Most characters of foreign text that a problem repeats.
const EXCERPT_CHARS_MAX: usize = 60;

/// Reason why a line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line of the text, counted from 1.
    pub line: usize,
    /// Field of the line, counted from 1, and the name of its column; `None` if the number of fields is wrong.
    pub field: Option<(usize, String)>,
    /// Text found there, harmless for a terminal.
    pub has: String,
    /// Text that was expected there.
    pub expected: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some((field, column)) = &self.field {
            write!(f, ", field {field} ({column})")?;
        }
        write!(f, ": has {}, expected {}", self.has, self.expected)
    }
}

impl std::error::Error for Problem {}

/// Returns the lines of bonnie++ in a text, and a problem for each line that only looks like one.
///
/// The text may be CSV alone, or the whole output of bonnie++. Headings, text tables, other lines without commas, and
/// sentences with few commas are skipped. Lines of 27, 48 and 50 fields may be mixed. The reader also accepts blanks
/// around fields, either kind of line ends, quoted fields, and surplus empty fields at the end. Names with commas need
/// no quotes.
pub fn read(text: &str) -> (Vec<Line>, Vec<Problem>) {
    let mut lines = Vec::new();
    let mut problems = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, text) in text.lines().enumerate() {
        match read_line(index + 1, text) {
            Some(Ok(line)) => lines.push(line),
            Some(Err(problem)) => problems.push(problem),
            None => {}
        }
    }
    (lines, problems)
}

/// Returns `None` for a heading, and for text that is no CSV of bonnie++.
fn read_line(number: usize, text: &str) -> Option<Result<Line, Problem>> {
    let fields = split(text);
    let first = fields.first().map_or("", String::as_str);
    let second = fields.get(1)?;
    let is_heading =
        matches!((first, second.as_str()), ("format_version", "bonnie_version") | ("name", "file_size"));
    let has_blanks = text.trim().contains(char::is_whitespace);
    let is_sentence = has_blanks && fields.len() < BROKEN_LINE_FIELDS_MIN && !is_version(first);
    if is_heading || is_sentence {
        return None;
    }
    let Some(layout) = layout(&fields) else {
        return Some(Err(wrong_count(number, &fields, "27, 48 or 50 fields")));
    };
    Some(parse_or_repair(number, layout, fields))
}

/// True for versions: "1.96", "1.93c", "2.00".
fn is_version(text: &str) -> bool {
    let Some((major, minor)) = text.split_once('.') else { return false };
    let digits = minor.trim_end_matches(|c: char| c.is_ascii_lowercase());
    major.len() == 1
        && digits.len() == 2
        && minor.len() <= 3
        && parse_count(major).and(parse_count(digits)).is_some()
}

/// Returns the most likely layout of a line, even if the line is incomplete.
fn layout(fields: &[String]) -> Option<Layout> {
    // The name of a machine may be 1.98.
    if fields.len() == Layout::V1_03.fields() && parse_size_and_chunk(&fields[1]).is_some() {
        return Some(Layout::V1_03);
    }
    match (fields[0].as_str(), fields.len()) {
        ("1.96" | "1.97", _) => Some(Layout::V1_97),
        ("1.98", _) => Some(Layout::V2_00),
        (_, 48) => Some(Layout::V1_97),
        (_, 50) => Some(Layout::V2_00),
        (_, 27) => Some(Layout::V1_03),
        (first, 28..) if !is_version(first) => Some(Layout::V1_03),
        _ => None,
    }
}

fn all_empty(fields: &[String]) -> bool {
    fields.iter().all(String::is_empty)
}

/// Parses a line of this layout, or one that can be repaired without guessing.
fn parse_or_repair(number: usize, layout: Layout, fields: Vec<String>) -> Result<Line, Problem> {
    let expected = layout.fields();
    let wrong = || wrong_count(number, &fields, &format!("{expected} fields"));
    if fields.len() < expected {
        return Err(wrong());
    }
    let (kept, surplus) = fields.split_at(expected);
    let plain = if all_empty(surplus) { parse(number, layout, kept) } else { Err(wrong()) };
    if plain.is_ok() || surplus.is_empty() {
        return plain;
    }
    with_commas_in_name(number, layout, &fields).or(plain)
}

/// Parses a line whose name has commas: the originals do not quote names, so such names make more fields. The field
/// after the name must be there. Otherwise, a line that is merely too long could pass for one with an odd name.
fn with_commas_in_name(number: usize, layout: Layout, fields: &[String]) -> Result<Line, Problem> {
    let name = if layout == Layout::V1_03 { 0 } else { 2 };
    let next = name + 1 + (fields.len() - layout.fields());
    let follows = match layout {
        Layout::V1_03 => parse_size_and_chunk(&fields[next]).is_some_and(|(size, _)| size.is_some()),
        Layout::V1_97 | Layout::V2_00 => parse_count(&fields[next]).is_some(),
    };
    if !follows {
        return Err(wrong_count(number, fields, &format!("{} fields", layout.fields())));
    }
    let joined = [&fields[..name], &[fields[name..next].join(",")], &fields[next..]].concat();
    parse(number, layout, &joined)
}

fn wrong_count(line: usize, fields: &[String], expected: &str) -> Problem {
    Problem { line, field: None, has: format!("{} fields", fields.len()), expected: expected.into() }
}

/// Splits a line into fields, without the blanks around them and with quotes resolved.
fn split(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (field, after) = quoted_field(text.trim_start()).unwrap_or_else(|| plain_field(text));
        fields.push(field);
        rest = after;
    }
    fields
}

/// Returns the first field, and the text after its comma.
fn plain_field(text: &str) -> (String, Option<&str>) {
    let (field, after) = text.split_once(',').map_or((text, None), |(field, after)| (field, Some(after)));
    (field.trim().to_owned(), after)
}

/// Returns the same for a field in quotes; `None` if there are none, or if they do not close at the end of the field.
fn quoted_field(text: &str) -> Option<(String, Option<&str>)> {
    let mut rest = text.strip_prefix('"')?;
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        field.push_str(part);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
            continue;
        }
        let after = after.trim_start();
        return match after.strip_prefix(',') {
            Some(next) => Some((field, Some(next))),
            None => after.is_empty().then_some((field, None)),
        };
    }
}

/// Fields that are read one after another.
struct Cells<'a> {
    number: usize,
    layout: Layout,
    fields: &'a [String],
    next: usize,
}

impl<'a> Cells<'a> {
    fn text(&mut self) -> &'a str {
        let text = self.fields.get(self.next).map_or("", String::as_str);
        self.next += 1;
        text
    }

    fn read<T>(&mut self, expected: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Problem> {
        let text = self.text();
        parse(text).ok_or_else(|| {
            let column = self.layout.columns().into_iter().nth(self.next - 1).unwrap_or_default();
            let start = printable(&text.chars().take(EXCERPT_CHARS_MAX).collect::<String>());
            let cut = if text.chars().nth(EXCERPT_CHARS_MAX).is_some() { "…" } else { "" };
            Problem {
                line: self.number,
                field: Some((self.next, column)),
                has: if text.is_empty() { "nothing".into() } else { format!("`{start}{cut}`") },
                expected: expected.into(),
            }
        })
    }

    fn count(&mut self) -> Result<Option<u64>, Problem> {
        self.read("a whole number or nothing", |text| parse_optional(text, parse_count))
    }

    fn figures(&mut self, line: &mut Line, tests: &[Test]) -> Result<(), Problem> {
        for test in tests {
            line[*test].rate = self.read("a rate per second, +++++ or nothing", Cell::parse)?;
            line[*test].cpu = self.read("percent of a processor, +++ or nothing", Cell::parse)?;
        }
        Ok(())
    }
}

fn parse_optional<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { parse(text).map(Some) }
}

/// Parses as many fields as the layout has.
fn parse(number: usize, layout: Layout, fields: &[String]) -> Result<Line, Problem> {
    let mut cells = Cells { number, layout, fields, next: 0 };
    let mut line = Line::new(layout, "");
    match layout {
        Layout::V1_03 => parse_1_03(&mut cells, &mut line)?,
        Layout::V1_97 | Layout::V2_00 => parse_later(&mut cells, &mut line)?,
    }
    Ok(line)
}

fn parse_1_03(cells: &mut Cells, line: &mut Line) -> Result<(), Problem> {
    line.name = cells.text().into();
    (line.file_size_mib, line.chunk_bytes) =
        cells.read("a size such as 1500M, 2G or 256M:64k, or nothing", parse_size_and_chunk)?;
    cells.figures(line, Test::data())?;
    (line.num_files, line.content, line.directories) =
        cells.read("files such as 16, 64:4096:512/4 or 16:link, or nothing", parse_files)?;
    cells.figures(line, Test::files())
}

fn parse_later(cells: &mut Cells, line: &mut Line) -> Result<(), Problem> {
    let version = |text: &str| is_version(text).then(|| text.to_owned());
    line.format_version = cells.read("a version such as 1.97 or 1.98", version)?;
    line.program_version = cells.text().into();
    line.name = cells.text().into();
    line.concurrency = cells.count()?.unwrap_or(1);
    line.seed = cells.text().into();
    line.file_size_mib =
        cells.read("a size such as 1500M or 2G, or nothing", |text| parse_optional(text, parse_size))?;
    line.chunk_bytes =
        cells.read("a chunk such as 64k or 512, or nothing", |text| parse_optional(text, parse_chunk))?;
    if line.layout == Layout::V2_00 {
        line.seeks = cells.count()?;
        line.seekers = cells.count()?;
    }
    cells.figures(line, Test::data())?;
    line.num_files = cells.count()?;
    line.content = parse_content(cells)?;
    (line.directories, line.file_chunk_bytes) = parse_directories(cells)?;
    cells.figures(line, Test::files())?;
    for test in Test::ALL {
        line[test].latency_ns =
            cells.read("a latency such as 11589us, 453ms or 2s, or nothing", parse_latency)?;
    }
    Ok(())
}

fn parse_content(cells: &mut Cells) -> Result<Content, Problem> {
    let links = |text: &str| match text {
        "link" => Some(Content::HardLinks),
        "symlink" => Some(Content::SymbolicLinks),
        _ => None,
    };
    let sized = |max_bytes| Content::Sized { max_bytes, min_bytes: 0 };
    let content = cells.read("bytes, link, symlink or nothing", |text| {
        links(text).or_else(|| parse_optional(text, parse_count).map(|max| sized(max.unwrap_or(0))))
    })?;
    let min = cells.count()?.unwrap_or(0);
    Ok(match content {
        Content::Sized { max_bytes, .. } => Content::Sized { max_bytes, min_bytes: min },
        links => links,
    })
}

/// Parses the directories and the chunk of the tests on files. The originals leave the documented column of the
/// directories empty, and write their number into the column of the chunk. If the first column is not empty, the line
/// follows the documentation.
fn parse_directories(cells: &mut Cells) -> Result<(u64, Option<u64>), Problem> {
    let documented = cells.count()?;
    let second = cells.read("a whole number or nothing", |text| parse_optional(text, parse_chunk))?;
    Ok(match documented {
        Some(directories) => (directories.max(1), second),
        None => (second.unwrap_or(1).max(1), None),
    })
}

/// Parses "1500M", "256M:64k", ":512" or nothing.
fn parse_size_and_chunk(text: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (size, chunk) = text.split_once(':').map_or((text, None), |(size, chunk)| (size, Some(chunk)));
    let chunk = match chunk {
        Some(chunk) => Some(parse_chunk(chunk)?),
        None => None,
    };
    Some((parse_optional(size, parse_size)?, chunk))
}

/// Parses "16", "64:4096:512/4", "16:link" or nothing.
fn parse_files(text: &str) -> Option<(Option<u64>, Content, u64)> {
    if text.is_empty() {
        return Some((None, Content::EMPTY, 1));
    }
    let (text, directories) = match text.split_once('/') {
        Some((text, directories)) => (text, parse_count(directories)?.max(1)),
        None => (text, 1),
    };
    let parts: Vec<_> = text.split(':').collect();
    let content = match parts[1..] {
        [] => Content::EMPTY,
        ["link"] => Content::HardLinks,
        ["symlink"] => Content::SymbolicLinks,
        [max] => Content::Sized { max_bytes: parse_count(max)?, min_bytes: 0 },
        [max, min] => Content::Sized { max_bytes: parse_count(max)?, min_bytes: parse_count(min)? },
        _ => return None,
    };
    Some((Some(parse_count(parts[0])?), content, directories))
}

#[cfg(test)]
mod tests;
