//! Older programs of the family, which skye replaces: by a command, or by the name under which skye is started.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

use family::bonniepp::{self, Line, Problem};
use family::results::{self, Results};
use model::UserError;
use report::compare::{ForeignRate, Side};

use crate::cli::{self, FamilyCommand};
use crate::exit::{self, Failure};
use crate::{CommandResult, bonnie, bonniepp as measuring, getc_putc, gobonniego, inputs, terminal, zcav};

/// A replaced program: its name, as a command and as a program, and the function for the words after its name.
pub struct FrontEnd {
    name: &'static str,
    run: fn(&[OsString]) -> CommandResult,
}

const ALL: &[FrontEnd] = &[
    FrontEnd { name: "bonnie++", run: measuring::bonniepp },
    FrontEnd { name: "bonnie", run: bonnie::bonnie },
    FrontEnd { name: "gobonniego", run: gobonniego::gobonniego },
    FrontEnd { name: "zcav", run: zcav::zcav },
    FrontEnd { name: "getc_putc", run: getc_putc::getc_putc },
    FrontEnd { name: "generate_randfile", run: getc_putc::generate_randfile },
    FrontEnd { name: "bon_csv2html", run: csv2html },
    FrontEnd { name: "bon_csv2txt", run: csv2txt },
];

impl FrontEnd {
    /// Returns the front end of that name.
    fn by_name(word: &OsString) -> Option<&'static Self> {
        let name = Path::new(word).file_name()?;
        ALL.iter().find(|known| name == known.name)
    }

    /// Returns the front end that the command line selects, its arguments, and true if the user requested more
    /// messages.
    pub fn select(words: &[OsString]) -> Option<(&'static Self, &[OsString], bool)> {
        let (program, rest) = words.split_first()?;
        if let Some(front_end) = Self::by_name(program) {
            return Some((front_end, rest, false));
        }
        let verbose_words = rest.iter().take_while(|word| cli::is_verbose(word)).count();
        let rest = &rest[verbose_words..];
        let (command, rest) = rest.split_first()?;
        // A path to a directory of that name is not the command.
        let is_word = Path::new(command).components().count() == 1;
        Self::by_name(command).filter(|_| is_word).map(|front_end| (front_end, rest, verbose_words > 0))
    }

    /// Does what the program of that name does.
    pub fn run(&self, words: &[OsString]) -> CommandResult {
        (self.run)(words)
    }
}

/// Runs a command of the family that clap has parsed. Mostly, [`FrontEnd::select`] has taken the words before.
pub fn run(command: &FamilyCommand) -> CommandResult {
    match command {
        FamilyCommand::BonniePp(arguments) => measuring::bonniepp(&arguments.words),
        FamilyCommand::Bonnie(arguments) => bonnie::bonnie(&arguments.words),
        FamilyCommand::GoBonnieGo(arguments) => gobonniego::gobonniego(&arguments.words),
        FamilyCommand::Zcav(arguments) => zcav::zcav(&arguments.words),
        FamilyCommand::GetcPutc(arguments) => getc_putc::getc_putc(&arguments.words),
        FamilyCommand::GenerateRandfile(arguments) => getc_putc::generate_randfile(&arguments.words),
        FamilyCommand::CsvToHtml(arguments) => csv2html(&arguments.words),
        FamilyCommand::CsvToTxt(arguments) => csv2txt(&arguments.words),
    }
}

fn csv2html(words: &[OsString]) -> CommandResult {
    convert("bon_csv2html", "an HTML page", words, bonniepp::csv2html)
}

fn csv2txt(words: &[OsString]) -> CommandResult {
    convert("bon_csv2txt", "text", words, bonniepp::csv2txt)
}

/// Reads lines from a file or from stdin, and prints them in another form.
fn convert(program: &str, form: &str, words: &[OsString], render: fn(&[Line]) -> String) -> CommandResult {
    match words {
        [word] if word == "-h" || word == "--help" => {
            terminal::print_line(&format!(
                "Usage: skye {program} [FILE]\n\nPrints the results in FILE, or on stdin, as {form}: CSV lines of \
                 bonnie++ 1.03 to 2.00a, or its whole\noutput. Other lines are reported on stderr.\n\nExit codes: 0 \
                 done, 1 nothing to show."
            ))?;
            Ok(exit::DONE)
        }
        [] => read("stdin", || Ok(std::io::stdin())).and_then(|found| show("stdin", &found, render)),
        [file] => {
            let name = file.to_string_lossy();
            read(&name, || inputs::open(Path::new(file))).and_then(|found| show(&name, &found, render))
        }
        [_, second, ..] => Err(Failure::Failed(format!(
            "{program}: `{}` is one file too many; use skye {program} FILE, or cat FILE… | skye {program}",
            second.to_string_lossy()
        ))),
    }
}

/// Lines of bonnie++, and the problems of text that is none.
type Lines = (Vec<Line>, Vec<Problem>);

fn read<R: Read>(source: &str, open: impl FnOnce() -> std::io::Result<R>) -> Result<Lines, Failure> {
    let bytes = open()
        .and_then(|reader| inputs::read_limited(reader, inputs::DOCUMENT_BYTES_MAX))
        .map_err(|error| Failure::failed(UserError::new(format!("read results from {source}"), error)))?;
    Ok(bonniepp::read(&String::from_utf8_lossy(&bytes)))
}

/// Prints lines as `render` formats them, and reports those that could not be read.
fn show(source: &str, (lines, problems): &Lines, render: fn(&[Line]) -> String) -> CommandResult {
    let output = (!lines.is_empty()).then(|| render(lines));
    ParsedResults { output, problems: texts(problems), ..IN_BONNIEPP }.show(source)
}

/// Results of an older program that were found in a text.
pub struct ParsedResults {
    /// The program: "bonnie++".
    pub program: &'static str,
    /// Other uses of the results, as the end of a sentence; empty where there are none.
    pub other_uses: &'static str,
    /// Content that the text lacks where nothing can be shown, as a message.
    missing_content: &'static str,
    /// Problems in parts of the text, with their places.
    problems: Vec<String>,
    /// Results as text; `None` where nothing could be read.
    output: Option<String>,
    /// Results as rates, by run.
    runs: Vec<Results>,
}

/// Template for results of bonnie++, still empty.
const IN_BONNIEPP: ParsedResults = ParsedResults {
    program: "bonnie++",
    other_uses: ", and skye bon_csv2html prints them as an HTML page",
    missing_content: "it has no line of bonnie++, with 27, 48 or 50 fields",
    problems: Vec::new(),
    output: None,
    runs: Vec::new(),
};

/// Result parsers, one per program, the most specific format first. The first that finds results wins.
const READERS: &[fn(&str) -> Option<ParsedResults>] =
    &[parse_gobonniego, parse_bonniepp, parse_bonnie, parse_zcav, parse_getc_putc];

/// Returns the results of the family in a text that is no document of skye, if there are any.
pub fn found_in(text: &str) -> Option<ParsedResults> {
    let all = || READERS.iter().filter_map(|read| read(text));
    // Where nothing can be shown, the problems are still worth reporting.
    all().find(|found| found.output.is_some()).or_else(|| all().next())
}

/// Returns results in the form that all programs share, if there are any.
fn in_common(program: &'static str, runs: Vec<Results>, problems: &[impl ToString]) -> Option<ParsedResults> {
    let output = (!runs.is_empty()).then(|| results::table(&runs));
    let missing_content = "it has no readable results";
    let is_any = output.is_some() || !problems.is_empty();
    is_any.then(|| ParsedResults {
        program,
        other_uses: "",
        missing_content,
        problems: texts(problems),
        output,
        runs,
    })
}

/// Returns a text that is no JSON. In a document of skye, anything may look like a line.
fn as_lines(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.trim_start().starts_with('{'))
}

fn parse_bonnie(text: &str) -> Option<ParsedResults> {
    let (tables, problems) = family::bonnie::read(as_lines(text)?);
    in_common("bonnie", tables.iter().map(family::bonnie::Table::results).collect(), &problems)
}

fn parse_zcav(text: &str) -> Option<ParsedResults> {
    let (logs, problems) = family::zcav::read(as_lines(text)?);
    in_common("zcav", logs.iter().map(family::zcav::results).collect(), &problems)
}

fn parse_getc_putc(text: &str) -> Option<ParsedResults> {
    let (lines, problems) = family::getc_putc::read(as_lines(text)?);
    in_common("getc_putc", lines.iter().map(family::getc_putc::Line::results).collect(), &problems)
}

fn parse_gobonniego(text: &str) -> Option<ParsedResults> {
    let reading = family::gobonniego::read(text);
    let runs = reading.results();
    (!reading.is_empty()).then(|| ParsedResults {
        program: "GoBonnieGo",
        other_uses: "",
        missing_content: "it has no result of a GoBonnieGo run",
        problems: texts(&reading.problems),
        output: (!runs.is_empty()).then(|| results::table(&runs)),
        runs,
    })
}

fn parse_bonniepp(text: &str) -> Option<ParsedResults> {
    let (lines, problems) = bonniepp::read(as_lines(text)?);
    let output = (!lines.is_empty()).then(|| bonniepp::csv2txt(&lines))?;
    let runs = lines.iter().map(Line::results).collect();
    Some(ParsedResults { output: Some(output), problems: texts(&problems), runs, ..IN_BONNIEPP })
}

fn texts(problems: &[impl ToString]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

impl ParsedResults {
    /// Returns the rates, by run, as one side of a comparison. Prints the problems of the file.
    ///
    /// # Errors
    /// The file has no rates.
    pub fn side(self, name: String, source: &str) -> Result<Side, String> {
        self.warn(source);
        let foreign = |rate: results::Rate| ForeignRate {
            test: rate.test,
            per_second: rate.per_second,
            is_bytes: rate.unit == results::Unit::Bytes,
        };
        let Some(program) = self.runs.first().map(|run| run.program.clone()) else {
            return Err(format!("cannot compare {source}: {}", self.missing_content));
        };
        let runs = self.runs.into_iter().map(|run| (run.name, run.rates.into_iter().map(foreign).collect()));
        Ok(Side::from_foreign_runs(name, source.to_owned(), &program, &runs.collect::<Vec<_>>()))
    }

    fn warn(&self, source: &str) {
        let warn = |problem| terminal::message("warning", &format!("{source}: {problem}"));
        self.problems.iter().for_each(warn);
    }

    /// Prints the results, and the problems of the file.
    pub fn show(&self, source: &str) -> CommandResult {
        self.warn(source);
        let Some(output) = &self.output else {
            return Err(Failure::Failed(format!("cannot show {source}: {}", self.missing_content)));
        };
        terminal::print_bytes(output.as_bytes())?;
        Ok(exit::DONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_format_of_each_program_is_detected() {
        let data = |name: &str| {
            let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../family/tests/data");
            std::fs::read_to_string(directory.join(name)).unwrap()
        };
        for (name, program) in [
            ("bonnie++-1.03e_s1500_r700_n4.stdout", "bonnie++"),
            ("bonnie++-2.00a_x2_header.csv", "bonnie++"),
            ("bonnie-1.4_s400.stdout", "bonnie"),
            ("bonnie-1.4_html.stdout", "bonnie"),
            ("bonnie-64_s400.stdout", "bonnie"),
            ("bonnie-64_r_html.stdout", "bonnie"),
            ("gobonniego-1.0.10_nonroot_1GiB.txt", "GoBonnieGo"),
            ("gobonniego-1.0.10_root_json_2runs.json", "GoBonnieGo"),
            ("zcav-2.00a_b8192_sparsefile.txt", "zcav"),
            ("zcav-2.00a_c3.log", "zcav"),
            ("getc_putc-2.00a_64m.txt", "getc_putc"),
            ("getc_putc-2.00a_default_q.csv", "getc_putc"),
        ] {
            let found = found_in(&data(name)).unwrap_or_else(|| panic!("{name}: nothing is found"));
            assert_eq!((found.program, found.problems), (program, vec![]), "{name}");
            assert!(found.output.is_some_and(|output| output.lines().count() > 1), "{name}");
        }
        let broken = found_in(&data("bonnie-1.4_s400.stdout").replace("149956", "fast")).unwrap();
        assert!(broken.output.is_none() && broken.problems[0].contains("line 4"), "{:?}", broken.problems);
        for text in ["", "{}", "{\"schema\": \"skye.run.v1\"}", "a,b,c\n1,2,3\n", "# MiB/s\n"] {
            assert!(found_in(text).is_none(), "{text}");
        }
    }

    #[test]
    fn front_end_is_selected_by_command_or_program_name() {
        let select = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            FrontEnd::select(&words).map(|(front_end, rest, _)| (front_end.name, rest.len()))
        };
        assert_eq!(select("skye bonnie++ -d /mnt"), Some(("bonnie++", 2)));
        assert_eq!(select("/usr/bin/bonnie++ -q"), Some(("bonnie++", 1)));
        assert_eq!(select("./bon_csv2html"), Some(("bon_csv2html", 0)));
        assert_eq!(select("skye -v bonnie -v 4 -d /mnt"), Some(("bonnie", 4)));
        assert_eq!(select("skye bon_csv2txt file"), Some(("bon_csv2txt", 1)));
        for line in ["skye", "skye run bonnie++", "skye ./bonnie++", "skye report"] {
            assert_eq!(select(line), None, "{line}");
        }
    }
}
