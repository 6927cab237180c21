//! `cargo xtask docs`: the pages and tables of the documentation that the code declares. They are committed, and a test
//! compares them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use model::layer::{LayerKind, LayerProperties};
use model::plan::WRITE_LIMIT_BYTES;
use model::request::{PRESETS, Seconds, preset_purpose};
use model::size::{self, Size};
use model::spec::{FIO_EXAMPLES, FIO_KEYS, FioExample, FioKey};
use model::workload::{DATA_KEYS, DataVerb, DataWork, FILE_KEYS, FileVerb, FilesWork, Key};
use model::{Request, numbers};
use wording::{FINDING_HELP, FindingHelp};

use crate::{limiters, rigs};

mod formats;

/// Returns each page that is generated, or has generated tables, with its text of the current code.
fn pages() -> Result<Vec<(PathBuf, String)>> {
    let page = |name: &str| crate::root().join("docs").join(name);
    let with_tables = |name: &str, tables: &[(&str, String)]| {
        let path = page(name);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let text = tables.iter().try_fold(text, |text, (head, rows)| with_table(&text, head, rows))?;
        Ok::<_, anyhow::Error>((path, text))
    };
    let data: Vec<_> = DataVerb::ALL.iter().map(|verb| (DataWork::new(*verb), verb.word())).collect();
    let files: Vec<_> = FileVerb::ALL.iter().map(|verb| (FilesWork::new(*verb, 1), verb.word())).collect();
    let spec = [
        ("| verbs on data | one operation | if absent |", data_verbs(false)),
        ("| verbs on bytes | one operation |", data_verbs(true)),
        ("| verbs on files | one operation |", FileVerb::WORDS.iter().map(|word| row(&verb(word))).collect()),
        ("| keys of tests on data and bytes | tests | meaning |", rows(DATA_KEYS, &data)),
        ("| keys of tests on files | tests | meaning |", rows(FILE_KEYS, &files)),
    ];
    let reference = [
        (
            "| preset | purpose | test, at least | at most | precision | whole run, at most | writes, at most | tests |",
            presets()?,
        ),
        ("| exit code | meaning |", exit_codes()),
    ];
    let formats = (page("formats.md"), formats::page()?);
    let limiters = (page("limiters.md"), limiters::generate());
    let exam = (page("exam.md"), rigs::random::page()?);
    let remarks = [("| code | mark | meaning |", codes())];
    let guide = [("| layer | counts | takes at most | may answer itself |", layers())];
    let fio = [
        ("| purpose | keys of fio | test of skye |", fio_examples(FIO_EXAMPLES, true)),
        ("| key of fio | skye |", fio_keys()),
    ];
    let readme = ("| keys of fio | test of skye |", fio_examples(&FIO_EXAMPLES[..README_EXAMPLES], false));
    let methodology = [("| invalid | suspect | either | remark |", trust())];
    Ok(vec![
        limiters,
        exam,
        formats,
        with_tables("spec.md", &spec)?,
        with_tables("fio.md", &fio)?,
        with_tables("../README.md", &[readme])?,
        with_tables("guide.md", &guide)?,
        with_tables("reference.md", &reference)?,
        with_tables("remarks.md", &remarks)?,
        with_tables("methodology.md", &methodology)?,
    ])
}

/// Returns one row of a table.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | "))
}

/// Returns the cells of a verb: its word and its meaning.
fn verb((word, meaning): &(&str, &str)) -> Vec<String> {
    vec![format!("`{word}`"), meaning.trim_end_matches('.').to_owned()]
}

/// Returns a row for each verb on bytes, or for each on data in blocks, with the pattern of a test that names none.
fn data_verbs(on_bytes: bool) -> String {
    let verbs = DataVerb::ALL.iter().zip(DataVerb::WORDS).filter(|(verb, _)| verb.is_bytes() == on_bytes);
    let cells = verbs.map(|(one, word)| {
        let DataWork { access, block_bytes, direct, .. } = DataWork::new(*one);
        let path = match (*one, direct) {
            (DataVerb::Discard, _) => "",
            (_, true) => ", direct",
            (_, false) => ", buffered",
        };
        let usual = (!on_bytes).then(|| format!("`{access}{}`{path}", size::exact(block_bytes)));
        verb(word).into_iter().chain(usual).collect::<Vec<_>>()
    });
    cells.map(|cells| row(&cells)).collect()
}

/// Examples of fio that README has.
const README_EXAMPLES: usize = 10;

/// Returns a row for each example of a job of fio.
fn fio_examples(examples: &[FioExample], has_purpose: bool) -> String {
    let cells = |one: &FioExample| {
        let purpose = has_purpose.then(|| one.purpose.to_owned());
        let [keys, spec] = [one.keys, one.spec].map(|text| format!("`{text}`"));
        row(&purpose.into_iter().chain([keys, spec]).collect::<Vec<_>>())
    };
    examples.iter().map(cells).collect()
}

/// Most names of a key of fio in its row. `skye fio` and `skye explain` know all of them.
const FIO_NAMES_MAX: usize = 4;

/// Returns a row for each key of fio, with its first other names.
fn fio_keys() -> String {
    let names = |key: &FioKey| {
        let more = if key.names.len() > FIO_NAMES_MAX { " …" } else { "" };
        let first: Vec<_> = key.names.iter().take(FIO_NAMES_MAX).map(|name| format!("`{name}`")).collect();
        format!("{}{more}", first.join(" "))
    };
    FIO_KEYS.iter().map(|key| row(&[names(key), key.here.to_owned()])).collect()
}

/// Returns a row for each preset.
fn presets() -> Result<String> {
    let time = |time: Option<Seconds>| time.map_or_else(String::new, |time| numbers::duration(time.as_ns()));
    let rows = PRESETS.iter().map(|(name, text)| {
        let request = Request::from_toml(text).map_err(anyhow::Error::msg)?;
        let bytes = match request.write_limit {
            Some(Size::Bytes(bytes)) => bytes,
            Some(_) => bail!("the write limit of the preset {name} depends on the machine"),
            None => WRITE_LIMIT_BYTES,
        };
        let times = request.repeat.map(|times| format!("{times} times, each on fresh files:"));
        let tests = request.tests.iter().map(|test| format!("`{test}`"));
        let possible = request.tests_where_possible.iter().map(|test| format!("`{test}` where possible"));
        Ok(row(&[
            format!("`{name}`"),
            preset_purpose(text).trim_end_matches('.').to_owned(),
            time(request.time_min),
            time(request.time),
            request.precision.map_or_else(String::new, |precision| format!("{} %", precision.0)),
            time(request.total),
            size::decimal(bytes),
            times.into_iter().chain(tests).chain(possible).collect::<Vec<_>>().join(" "),
        ]))
    });
    rows.collect()
}

/// Returns a row for each exit code.
fn exit_codes() -> String {
    wording::exit_codes::all().map(|(code, meaning)| row(&[code, meaning.into()])).collect()
}

/// Returns a row for each kind of layer that counts something or may answer itself.
fn layers() -> String {
    let all = LayerKind::ALL.iter().map(|kind| kind.properties());
    let cells = |LayerProperties { word, counts, window, early, .. }: LayerProperties| {
        let early = early.iter().map(|early| early.word()).collect::<Vec<_>>().join(", ");
        row(&[word.into(), counts.into(), window.into(), early])
    };
    all.filter(|layer| !layer.counts.is_empty() || !layer.early.is_empty()).map(cells).collect()
}

/// Returns a row for each code of findings.
fn codes() -> String {
    let cells = |FindingHelp { code, mark, meaning, .. }: &FindingHelp| {
        let signs: Vec<_> = ["`!`", "`?`", "`·`"].into_iter().filter(|sign| mark.contains(sign)).collect();
        row(&[format!("`{code}`"), signs.join(" "), (*meaning).into()])
    };
    FINDING_HELP.iter().map(cells).collect()
}

/// Returns a row with the codes of findings, by the trust that their marks leave.
fn trust() -> String {
    let mut cells = [const { String::new() }; 4];
    for FindingHelp { code, mark, .. } in FINDING_HELP {
        let column = match *mark {
            "`!`" => 0,
            "`?`" => 1,
            mark if mark.contains(['!', '?']) => 2,
            _ => 3,
        };
        cells[column].push_str(&format!(" `{code}`"));
    }
    format!("|{} |\n", cells.join(" |"))
}

/// Returns a row for each key, with the tests that take it.
fn rows<W>(keys: &[Key<W>], verbs: &[(W, &str)]) -> String {
    let mut text = String::new();
    for key in keys {
        let (taking, others): (Vec<_>, Vec<_>) = verbs.iter().partition(|(work, _)| key.accepts(work));
        let listed = |verbs: &[&(W, &str)]| {
            verbs.iter().map(|(_, verb)| format!("`{verb}`")).collect::<Vec<_>>().join(" ")
        };
        let tests = match others.len() {
            0 => "all".to_owned(),
            few if few < taking.len() => format!("all but {}", listed(&others)),
            _ => listed(&taking),
        };
        let equals = if key.form.is_empty() { "" } else { "=" };
        text.push_str(&row(&[format!("`{}{equals}{}`", key.name, key.form), tests, key.help.to_owned()]));
    }
    text
}

/// Replaces the rows of the table that has this head.
fn with_table(page: &str, head: &str, rows: &str) -> Result<String> {
    let (before, after) =
        page.split_once(&format!("{head}\n")).with_context(|| format!("no table `{head}`"))?;
    let rest = after.split_once("\n\n").map_or(String::new(), |(_, rest)| format!("\n{rest}"));
    let columns = head.matches('|').count() - 1;
    Ok(format!("{before}{head}\n|{}\n{rows}{rest}", "---|".repeat(columns)))
}

/// Writes the pages to their files.
///
/// # Errors
/// A page cannot be read or written, or lacks a table.
pub fn command() -> Result<bool> {
    for (path, text) in pages()? {
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_pages_are_up_to_date() {
        for (path, text) in pages().unwrap() {
            let committed = fs::read_to_string(&path).unwrap_or_default();
            assert!(committed == text, "{} is out of date: run `cargo xtask docs`", path.display());
        }
    }

    #[test]
    fn table_replacement_keeps_the_rest() {
        let page = "a\n\n| b | c |\n|---|---|\n| 1 | 2 |\n\nd\n";
        let replaced = with_table(page, "| b | c |", "| 3 | 4 |\n").unwrap();
        assert_eq!(replaced, page.replace("| 1 | 2 |", "| 3 | 4 |"));
        assert!(with_table(page, "| x |", "").is_err());
    }
}
