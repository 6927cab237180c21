//! Programs of the family whose place this one takes, by a command or by the name under which it is started.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use family::bonniepp::{self, Line, Problem};
use model::Trouble;

use crate::exit::{self, Failure};
use crate::{Done, bonniepp as measuring, terminal};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontEnd {
    /// Measures.
    BonniePp,
    /// Shows results as a page.
    CsvToHtml,
    /// Shows results as text.
    CsvToTxt,
}

/// Their names, as commands and as programs.
const NAMES: [(&str, FrontEnd); 3] = [
    ("bonnie++", FrontEnd::BonniePp),
    ("bon_csv2html", FrontEnd::CsvToHtml),
    ("bon_csv2txt", FrontEnd::CsvToTxt),
];

impl FrontEnd {
    /// The one that is meant, and the words for it.
    pub fn called(words: &[OsString]) -> Option<(Self, &[OsString])> {
        let named = |word: &OsString| {
            let name = Path::new(word).file_name()?;
            NAMES.iter().find(|(known, _)| name == *known).map(|(_, front_end)| *front_end)
        };
        let (program, rest) = words.split_first()?;
        if let Some(front_end) = named(program) {
            return Some((front_end, rest));
        }
        let (command, rest) = rest.split_first()?;
        // A directory of that name is not the command.
        let is_word = Path::new(command).components().count() == 1;
        named(command).filter(|_| is_word).map(|front_end| (front_end, rest))
    }

    /// Does what the program of that name does.
    pub fn run(self, words: &[OsString]) -> Done {
        match self {
            Self::BonniePp => measuring::bonniepp(words),
            Self::CsvToHtml => convert("bon_csv2html", "a page in HTML", words, bonniepp::csv2html),
            Self::CsvToTxt => convert("bon_csv2txt", "text", words, bonniepp::csv2txt),
        }
    }
}

/// Reads lines from a file or from stdin, and prints them in another form.
fn convert(program: &str, form: &str, words: &[OsString], render: fn(&[Line]) -> String) -> Done {
    match words {
        [word] if word == "-h" || word == "--help" => {
            terminal::print_line(&format!(
                "Usage: skye {program} [FILE]\n\nPrints the results in FILE, or on stdin, as {form}: CSV lines of bonnie++ \
                 1.03 to 2.00a, or its whole\noutput. A line that is none is named on stderr.\n\nExit codes: 0 done, 1 \
                 nothing to show."
            ))?;
            Ok(exit::DONE)
        }
        [] => read("stdin", || Ok(std::io::stdin())).and_then(|found| show("stdin", &found, render)),
        [file] => {
            let name = file.to_string_lossy();
            read(&name, || File::open(file)).and_then(|found| show(&name, &found, render))
        }
        [_, second, ..] => Err(Failure::Failed(format!(
            "{program}: `{}` is one file too many; write skye {program} FILE, or cat FILE… | skye {program}",
            second.to_string_lossy()
        ))),
    }
}

/// What was found in a text: lines, and what is wrong with those that are none.
type Found = (Vec<Line>, Vec<Problem>);

fn read<R: Read>(source: &str, open: impl FnOnce() -> std::io::Result<R>) -> Result<Found, Failure> {
    let mut bytes = Vec::new();
    open()
        .and_then(|mut reader| reader.read_to_end(&mut bytes))
        .map_err(|error| Failure::failed(Trouble::new(format!("read results from {source}"), error)))?;
    Ok(bonniepp::read(&String::from_utf8_lossy(&bytes)))
}

/// What a text holds, if that is results of the family rather than a document of ours.
pub fn found_in(text: &str) -> Option<Found> {
    let is_document = text.trim_start().starts_with('{');
    Some(text).filter(|_| !is_document).map(bonniepp::read).filter(|(lines, _)| !lines.is_empty())
}

/// Prints lines in a form, and names those that are none.
pub fn show(source: &str, (lines, problems): &Found, render: fn(&[Line]) -> String) -> Done {
    problems.iter().for_each(|problem| terminal::message("warning", &format!("{source}: {problem}")));
    if lines.is_empty() {
        return Err(Failure::Failed(format!(
            "cannot show {source}: it has no line of 27, 48 or 50 fields, as bonnie++ prints them"
        )));
    }
    terminal::print_bytes(render(lines).as_bytes())?;
    Ok(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_by_command_or_by_name() {
        let called = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            FrontEnd::called(&words).map(|(front_end, rest)| (front_end, rest.len()))
        };
        assert_eq!(called("skye bonnie++ -d /mnt"), Some((FrontEnd::BonniePp, 2)));
        assert_eq!(called("/usr/bin/bonnie++ -q"), Some((FrontEnd::BonniePp, 1)));
        assert_eq!(called("./bon_csv2html"), Some((FrontEnd::CsvToHtml, 0)));
        assert_eq!(called("skye bon_csv2txt file"), Some((FrontEnd::CsvToTxt, 1)));
        for line in ["skye", "skye run bonnie++", "skye ./bonnie++", "skye report"] {
            assert_eq!(called(line), None, "{line}");
        }
    }
}
