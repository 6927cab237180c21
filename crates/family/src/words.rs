//! Words of the family's command lines: values of flags, and numbers with size suffixes.

use std::ffi::OsString;

use lexopt::Parser;
use model::size::Size;

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

/// Error message for a word that is not understood at all.
pub(crate) fn unknown(error: lexopt::Error) -> String {
    format!("{error}; --help shows all flags")
}

/// Takes the value of a flag.
///
/// # Errors
/// The flag has no value.
pub(crate) fn value(flag: &str, parser: &mut Parser) -> Result<OsString, String> {
    parser.value().map_err(|_| format!("{flag} takes a value and has none; --help shows all flags"))
}

/// Takes the value of a flag, as text.
///
/// # Errors
/// The flag has no value, or one that is not UTF-8.
pub(crate) fn text(flag: &str, parser: &mut Parser) -> Result<String, String> {
    let word = value(flag, parser)?;
    word.into_string().map_err(|word| format!("{flag} `{}` is not text in UTF-8", word.to_string_lossy()))
}

/// Takes the name for results in CSV, as text.
///
/// # Errors
/// The flag has no value, or one with a character that would end a CSV field: the originals' converters know no quotes.
pub(crate) fn label(flag: &str, parser: &mut Parser) -> Result<String, String> {
    let word = text(flag, parser)?;
    match word.chars().any(|c| matches!(c, ',' | '"') || c.is_control()) {
        true => Err(format!(
            "{flag} `{}`: a comma, a quote or a control character ends a field of the line; leave it away",
            model::printable::printable(&word)
        )),
        false => Ok(word),
    }
}

/// Parses a number with an optional size suffix. A number without suffix is counted in `unit`.
pub(crate) fn scaled(text: &str, unit: u64) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(unit);
    }
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Splits `USER` or `USER:GROUP` into user and group.
///
/// # Errors
/// The user or the group is empty.
pub(crate) fn user_and_group(word: &str) -> Result<(String, Option<String>), String> {
    let (user, group) = match word.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (word, None),
    };
    if user.is_empty() || group == Some("") {
        return Err(format!("-u `{word}`: write -u USER or -u USER:GROUP"));
    }
    Ok((user.to_owned(), group.map(str::to_owned)))
}

/// Parses a whole number within a range. The error message uses `what` as its unit.
///
/// # Errors
/// The word is no whole number, or is out of range.
pub(crate) fn within(
    flag: &str,
    word: &str,
    range: std::ops::RangeInclusive<u64>,
    what: &str,
) -> Result<u64, String> {
    word.trim()
        .parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("{flag} `{word}`: write {} to {} {what}", range.start(), range.end()))
}
