//! Words of the family's command lines: a flag as it is given, and its value.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::{Arg, Parser};
use model::printable::printable;
use model::size::Size;

use crate::dialect::{Dialect, Flag};

/// A flag as it is given, and the words behind it.
pub(crate) struct FlagParser {
    parser: Parser,
    /// Name of the flag, with its dashes.
    pub name: String,
    /// Value in the same word as the flag, until it is taken. lexopt keeps those of the flags that it parses.
    pub attached: Option<OsString>,
    /// True if the version is requested, unless a later flag is wrong.
    pub shows_version: bool,
}

impl FlagParser {
    pub fn new(words: Vec<OsString>) -> Self {
        Self { parser: Parser::from_args(words), name: String::new(), attached: None, shows_version: false }
    }

    /// Goes on to the next flag. A word that belongs to no flag is the value of the dialect's row for such words.
    /// Returns false after the last word.
    ///
    /// # Errors
    /// The flag before has a value that it does not take, or the dialect has no row for the word.
    pub fn advance<O: Dialect>(&mut self) -> Result<bool, String> {
        // lexopt does not know flags of several letters with one dash.
        let is_whole = |word: &OsStr| match O::IS_GO {
            true => word.as_bytes().starts_with(b"-") && word != "-" && word != "--",
            false => {
                O::FLAGS.iter().any(|flag| flag.has_long_name() && name_and_value(word).0 == flag.name())
            }
        };
        let whole = self.parser.try_raw_args().and_then(|mut words| words.next_if(is_whole));
        (self.name, self.attached) = match whole {
            Some(word) => {
                let (name, value) = name_and_value(&word);
                match name[1..].strip_prefix('-').unwrap_or(&name[1..]) {
                    bare if bare.is_empty() || bare.starts_with('-') => {
                        (format!("`{}`", word.to_string_lossy()), None)
                    }
                    bare => (format!("-{bare}"), value),
                }
            }
            None => match self.parser.next().map_err(|error| format!("{error}; --help shows all flags"))? {
                None => return Ok(false),
                Some(Arg::Short(letter)) => (format!("-{letter}"), None),
                Some(Arg::Long(name)) => (format!("--{name}"), None),
                Some(Arg::Value(word)) => match O::FLAGS.iter().find(|row| row.is_positional()) {
                    Some(row) => (row.name().to_owned(), Some(word)),
                    None => return Err(leftover::<O>(&word.to_string_lossy())),
                },
            },
        };
        Ok(true)
    }

    /// Takes the value.
    pub fn value(&mut self) -> Result<OsString, String> {
        self.attached
            .take()
            .map_or_else(|| self.parser.value(), Ok)
            .map_err(|_| format!("{} needs a value; --help shows all flags", self.name))
    }

    /// Takes the value, as the name of a file.
    pub fn path(&mut self) -> Result<PathBuf, String> {
        let word = self.value()?;
        match word.is_empty() {
            true => Err(format!("{0} has an empty value; use a name, or drop {0}", self.name)),
            false => Ok(word.into()),
        }
    }

    /// Takes the value, as text.
    pub fn text(&mut self) -> Result<String, String> {
        let word = self.value()?.into_string();
        word.map_err(|word| format!("{} `{}` is not text in UTF-8", self.name, word.to_string_lossy()))
    }

    /// Takes the value, as the name for results in CSV: the originals' converters know no quotes.
    pub fn label(&mut self) -> Result<String, String> {
        let word = self.text()?;
        match word.chars().any(|c| matches!(c, ',' | '"') || c.is_control()) {
            true => Err(format!(
                "{} `{}`: a comma, a quote or a control character ends a CSV field; drop it",
                self.name,
                printable(&word)
            )),
            false => Ok(word),
        }
    }

    /// Takes and parses the value. The error message contains `allowed`.
    pub fn parsed<T>(
        &mut self,
        parse: impl FnOnce(&str) -> Option<T>,
        allowed: impl Display,
    ) -> Result<T, String> {
        let word = self.text()?;
        parse(&word).ok_or_else(|| format!("{} `{word}`: use {allowed}", self.name))
    }

    /// Takes one of a few words, and returns its value.
    pub fn choice<T: Copy>(&mut self, choices: &[(&str, T)], allowed: &str) -> Result<T, String> {
        let chosen = |word: &str| choices.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        self.parsed(chosen, allowed)
    }

    /// Takes a number within a range. The error message uses `what` as its unit.
    pub fn within<N>(&mut self, range: RangeInclusive<N>, what: &str) -> Result<N, String>
    where
        N: FromStr + PartialOrd + Display,
    {
        let allowed = format!("{} to {} {what}", range.start(), range.end());
        self.parsed(|word| word.trim().parse().ok().filter(|number| range.contains(number)), allowed)
    }

    /// Takes a seed of the 32 bits that the originals' seeds have.
    pub fn seed(&mut self) -> Result<u64, String> {
        self.within(0..=u64::from(u32::MAX), "as seed")
    }

    /// Takes `USER` or `USER:GROUP`.
    pub fn user(&mut self, user: &mut Option<String>, group: &mut Option<String>) -> Result<(), String> {
        let both = |word: &str| {
            let (user, group) =
                word.split_once(':').map_or((word, None), |(user, group)| (user, Some(group)));
            let is_whole = !user.is_empty() && group != Some("");
            is_whole.then(|| (user.to_owned(), group.map(str::to_owned)))
        };
        let (name, its_group) = self.parsed(both, "-u USER or -u USER:GROUP")?;
        *user = Some(name);
        its_group.map_or(Ok(()), |its_group| set_group(group, its_group))
    }

    /// Takes a group.
    pub fn group(&mut self, group: &mut Option<String>) -> Result<(), String> {
        set_group(group, self.text()?)
    }

    /// Takes the truth value that a switch of Go may have in its own word; a bare switch is true.
    pub fn switch(&mut self) -> Result<bool, String> {
        let Some(word) = self.attached.take() else { return Ok(true) };
        let word = word.to_string_lossy();
        boolean(&word).ok_or_else(|| format!("{0}=`{word}`: use {0}, {0}=true or {0}=false", self.name))
    }

    /// Looks for the number of a flag that may have one, and returns true if it has. A number apart from the flag belongs
    /// to it, too: it could mean nothing else.
    pub fn has_number(&mut self) -> bool {
        let is_number = |word: &OsStr| word.as_bytes().first().is_some_and(u8::is_ascii_digit);
        let apart = |parser: &mut Parser| parser.try_raw_args()?.next_if(is_number);
        self.attached = self.parser.optional_value().or_else(|| apart(&mut self.parser));
        self.attached.is_some()
    }

    /// Refuses the flag. The reason continues a sentence that begins with its name.
    pub fn refuse(&self, why: &str) -> Result<(), String> {
        Err(format!("{} {why}", self.name))
    }
}

impl<O> Flag<O> {
    /// True for a name of several letters behind one dash.
    fn has_long_name(&self) -> bool {
        self.name().len() > 2 && self.name().starts_with('-') && !self.name().starts_with("--")
    }
}

/// Splits a word into the part before the first `=` and the part behind it.
fn name_and_value(word: &OsStr) -> (String, Option<OsString>) {
    let mut name_and_value = word.as_bytes().splitn(2, |byte| *byte == b'=');
    let name = String::from_utf8_lossy(name_and_value.next().unwrap_or_default()).into_owned();
    (name, name_and_value.next().map(|value| OsStr::from_bytes(value).to_owned()))
}

/// Error message for a word that belongs to no flag. GoBonnieGo ignores it, and all flags that follow it.
fn leftover<O: Dialect>(word: &str) -> String {
    match O::IS_GO && boolean(word).is_some() {
        true => {
            format!("`{word}` is not a flag's value; add it after an =, such as -json={word}")
        }
        false => {
            let directory = O::FLAGS.first().map_or("", Flag::name);
            format!("`{word}` is not a flag's value; use {directory} for the directory to test in")
        }
    }
}

/// Parses the words that Go accepts as a truth value.
fn boolean(word: &str) -> Option<bool> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

fn set_group(group: &mut Option<String>, group_name: String) -> Result<(), String> {
    if let Some(before) = group {
        return Err(format!(
            "-g `{group_name}`: the group is already `{before}`; use either -u USER:GROUP or -g GROUP"
        ));
    }
    *group = Some(group_name);
    Ok(())
}

/// Parses a number with an optional size suffix. A number without suffix is counted in `unit`.
pub(crate) fn scaled(text: &str, unit: u64) -> Option<u64> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(unit);
    }
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Parses whole MiB, with or without a suffix.
pub(crate) fn mib(text: &str) -> Option<u64> {
    scaled(text, 1 << 20).filter(|bytes| bytes.is_multiple_of(1 << 20)).map(|bytes| bytes >> 20)
}
