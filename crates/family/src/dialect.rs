//! Dialects: a program's command line as a table of flags. The parser and the help follow from the table.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use model::nearest;

use crate::words::FlagParser;

/// Widest line of the usage, in columns.
const USAGE_COLUMNS: usize = 110;

/// Flag that chooses the version of a program.
const COMPAT: &str = "--compat";

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<Options> {
    /// Measure.
    Measure(Box<Options>),
    /// Print the help.
    Help,
    /// Print the version.
    Version,
}

/// A flag: one row of a dialect's table. [`flags!`] makes it.
pub struct Flag<O> {
    /// Form in the usage: `-d DIR`, `-f[MIB]`, `-b`. A form without a dash is that of words that belong to no flag.
    pub(crate) form: &'static str,
    /// Lines of the help; none for a flag that is not shown.
    pub(crate) help: &'static [&'static str],
    /// Puts the flag into the options.
    pub(crate) take: fn(&mut O, &mut FlagParser) -> Result<(), String>,
}

/// Makes the table of a dialect. A row has its lines of help, its form, perhaps a check that refuses it for some
/// versions, and its effect on the options. The effect takes the flag's value, if it has one.
macro_rules! flags {
    (|$options:ident, $flag:ident| $(
        $(#[doc = $help:literal])* $form:literal $(if $check:path)? => $effect:expr,
    )*) => {
        &[$($crate::dialect::Flag {
            form: $form,
            help: &[$($help),*],
            take: |$options, $flag| {
                let _ = (&$options, &$flag);
                $($check($options, &$flag.name)?;)?
                $effect;
                Ok(())
            },
        },)*]
    };
}
pub(crate) use flags;

/// Makes a struct of options. A field that differs from its type's default has its default behind an `=`.
macro_rules! options {
    (
        $(#[$meta:meta])* pub struct $name:ident {
            $($(#[$doc:meta])* pub $field:ident: $type:ty $(= $default:expr)?,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: options!(@default $($default)?),)* }
            }
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
}
pub(crate) use options;

impl<O> Flag<O> {
    /// Name with its dashes.
    pub(crate) fn name(&self) -> &'static str {
        self.form.split([' ', '[']).next().unwrap_or_default()
    }

    pub(crate) fn is_positional(&self) -> bool {
        !self.form.starts_with('-')
    }

    /// Word of the usage: in brackets if it is optional.
    fn usage(&self) -> String {
        if self.is_positional() { self.form.into() } else { format!("[{}]", self.form) }
    }

    /// Form without the optional parts of its value, for the help.
    fn head(&self) -> &'static str {
        self.form.split("[:").next().unwrap_or_default()
    }
}

/// The command line of a program. Its options implement it; their default is a command line without flags.
pub trait Dialect: Default + 'static {
    /// Name of the program.
    const NAME: &'static str;
    /// Programs whose formats it has.
    const FORMATS: &'static str;
    /// Paragraph of the help before the flags.
    const ABOUT: &'static str;
    /// Flags, in the order of the help.
    const FLAGS: &'static [Flag<Self>];
    /// Paragraphs of the help after the flags.
    const CLOSING: &'static str;
    /// Flag of the size of the data, if there is one.
    const SIZE_FLAG: Option<&'static str> = None;
    /// True if a flag of several letters has one dash or two, as in Go's package `flag`.
    const IS_GO: bool = false;

    /// Returns the text that `--version` prints, from the version of skye.
    fn version(of_skye: &str) -> String {
        format!("skye {of_skye}, {}", Self::FORMATS)
    }

    /// Name of the program in refusals. It may depend on the version.
    fn program(&self) -> &'static str {
        Self::NAME
    }

    /// Checks options that depend on each other, after the last flag.
    ///
    /// # Errors
    /// One sentence with a remedy.
    fn finish(self) -> Result<Self, String> {
        Ok(self)
    }

    /// Parses the words after the program's name.
    ///
    /// # Errors
    /// One sentence: the flag, its value, the allowed values, and a remedy.
    fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command<Self>, String> {
        let words: Vec<_> = words.into_iter().collect();
        let row_of = |name: &str| Self::FLAGS.iter().find(|row| row.name() == name);
        let mut flag = FlagParser::new(words.clone());
        let mut options = Self::default();
        // The meaning of all other words depends on the version, wherever it is given.
        if let Some(row) = row_of(COMPAT) {
            flag.name = COMPAT.into();
            for version in versions(&words) {
                flag.attached = Some(version);
                (row.take)(&mut options, &mut flag)?;
            }
        }
        while flag.advance::<Self>()? {
            match (flag.name.as_str(), Self::IS_GO) {
                ("-h", _) | ("--help", false) | ("-help", true) => return Ok(Command::Help),
                ("-V" | "--version", false) => return Ok(Command::Version),
                _ => {}
            }
            let row = row_of(&flag.name).ok_or_else(|| unknown(&options, &flag.name))?;
            match flag.name == COMPAT {
                true => drop(flag.value()?),
                false => (row.take)(&mut options, &mut flag)?,
            }
            if let Some(value) = &flag.attached {
                let value = value.to_string_lossy();
                return Err(format!("{0}=`{value}`: {0} takes no value; use {0} alone", flag.name));
            }
        }
        match flag.shows_version {
            true => Ok(Command::Version),
            false => options.finish().map(|options| Command::Measure(Box::new(options))),
        }
    }

    /// Returns the text that `--help` prints.
    fn help() -> String {
        let mut text = format!("Usage: skye {}", Self::NAME);
        let indent = text.len();
        let mut columns = indent;
        let documented = || Self::FLAGS.iter().filter(|flag| !flag.help.is_empty());
        for flag in documented() {
            let word = flag.usage();
            if columns + 1 + word.len() > USAGE_COLUMNS {
                let _ = write!(text, "\n{:indent$}", "");
                columns = indent;
            }
            columns += 1 + word.len();
            let _ = write!(text, " {word}");
        }
        let _ = write!(text, "\n\n{}\n\n", Self::ABOUT);
        for flag in documented() {
            let mut head = flag.head();
            for line in flag.help {
                let _ = writeln!(text, "  {head:<11}  {}", line.trim());
                head = "";
            }
        }
        text + "\n" + Self::CLOSING
    }
}

/// Finds the versions that the arguments request, before they are parsed. One that is missing is empty.
fn versions(words: &[OsString]) -> impl Iterator<Item = OsString> {
    words.iter().enumerate().filter_map(|(index, word)| {
        match word.as_bytes().strip_prefix(COMPAT.as_bytes())? {
            b"" => Some(words.get(index + 1).cloned().unwrap_or_default()),
            rest => rest.strip_prefix(b"=").map(|value| OsStr::from_bytes(value).to_owned()),
        }
    })
}

fn unknown<O: Dialect>(options: &O, name: &str) -> String {
    let bare = |name: &'static str| name.trim_start_matches('-');
    let known = || O::FLAGS.iter().map(Flag::name);
    let suggestion = nearest(name.trim_start_matches('-'), known().map(bare))
        .and_then(|suggestion| known().find(|known| bare(known) == suggestion))
        .map_or(";".into(), |suggestion| format!(", did you mean {suggestion}?"));
    format!("{name} is not a flag of {}{suggestion} --help shows them all", options.program())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bonnie, bonniepp, getc_putc, gobonniego, randfile, zcav};

    /// Calls a generic function for each dialect.
    macro_rules! each {
        ($check:ident) => {
            $check::<bonniepp::arguments::Options>();
            $check::<bonnie::arguments::Options>();
            $check::<gobonniego::arguments::Options>();
            $check::<zcav::arguments::Options>();
            $check::<getc_putc::arguments::Options>();
            $check::<randfile::Options>();
        };
    }

    #[test]
    fn help_text_snapshot_fits_120_columns() {
        fn check<O: Dialect>() {
            insta::assert_snapshot!(O::NAME, O::help());
            assert!(O::help().lines().all(|line| line.chars().count() <= 120), "{}", O::NAME);
        }
        each!(check);
    }

    #[test]
    fn every_flag_is_in_the_help() {
        fn check<O: Dialect>() {
            for flag in O::FLAGS.iter().filter(|flag| !flag.help.is_empty()) {
                let help = O::help();
                assert!(help.contains(&format!(" {}", flag.usage())), "{}: {}", O::NAME, flag.form);
                assert!(help.contains(&format!("\n  {} ", flag.head())), "{}: {}", O::NAME, flag.form);
            }
        }
        each!(check);
    }

    #[test]
    fn every_name_is_unique() {
        fn check<O: Dialect>() {
            let mut names: Vec<_> = O::FLAGS.iter().map(Flag::name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}: {names:?}", O::NAME);
        }
        each!(check);
    }

    /// Parses words for each version that may know them.
    fn in_versions<O: Dialect>(words: &[&str]) -> Vec<Result<Command<O>, String>> {
        let all = [&[][..], &["--compat=1.03"], &["--compat=64"]];
        all.iter()
            .map(|version| O::parse([version, words].concat().into_iter().map(OsString::from)))
            .collect()
    }

    #[test]
    fn flag_takes_value_as_its_help_form_shows() {
        fn check<O: Dialect + PartialEq + std::fmt::Debug>() {
            for flag in O::FLAGS.iter().filter(|flag| !flag.help.is_empty() && !flag.is_positional()) {
                let name = flag.name();
                let is_help = |words: &[&str]| in_versions::<O>(words).contains(&Ok(Command::Help));
                let takes_value = flag.form.contains(' ');
                assert_ne!(is_help(&[name, "-h"]), takes_value, "{}: {name} -h", O::NAME);
                let lacks = |parsed: &Result<_, String>| {
                    parsed.as_ref().is_err_and(|why| why.contains("needs a value") || why.contains("``"))
                };
                assert_eq!(in_versions::<O>(&[name]).iter().any(lacks), takes_value, "{}: {name}", O::NAME);
                for value in if takes_value { ["5", "/x"] } else { ["=", "maybe"] } {
                    let attached = in_versions::<O>(&[&format!("{name}={value}"), "x"]);
                    if takes_value {
                        assert_eq!(
                            attached,
                            in_versions::<O>(&[name, value, "x"]),
                            "{}: {name} {value}",
                            O::NAME
                        );
                    } else {
                        assert!(attached.iter().all(Result::is_err), "{}: {name}={value}", O::NAME);
                    }
                }
            }
        }
        each!(check);
    }
}
