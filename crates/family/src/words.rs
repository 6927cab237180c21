//! Words of the family's command lines: values of flags, and numbers with the suffixes of sizes.

use std::ffi::OsString;

use lexopt::Parser;
use model::size::Size;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<Options> {
    /// Measure.
    Measure(Box<Options>),
    /// Print the help.
    Help,
    /// Print which version it is.
    Version,
}

/// What is wrong with a flag that is not understood at all.
pub(crate) fn unknown(error: lexopt::Error) -> String {
    format!("{error}; --help shows all flags")
}

/// The value of a flag.
///
/// # Errors
/// It has none.
pub(crate) fn value(flag: &str, parser: &mut Parser) -> Result<OsString, String> {
    parser.value().map_err(|_| format!("{flag} takes a value and has none; --help shows all flags"))
}

/// The value of a flag, as text.
///
/// # Errors
/// It has none, or one that is no text.
pub(crate) fn text(flag: &str, parser: &mut Parser) -> Result<String, String> {
    let word = value(flag, parser)?;
    word.into_string().map_err(|word| format!("{flag} `{}` is not text in UTF-8", word.to_string_lossy()))
}

/// A name for results in CSV, as text.
///
/// # Errors
/// It has what would end a field there: the converters of the originals know no quotes.
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

/// A number that may carry a suffix of sizes; one without is counted in `unit`.
pub(crate) fn scaled(text: &str, unit: u64) -> Option<u64> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<u64>().ok()?.checked_mul(unit);
    }
    match text.parse() {
        Ok(Size::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// A user and a group, as `USER` or `USER:GROUP` has them.
///
/// # Errors
/// One of them is empty.
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

/// A whole number within a range, of what `what` says.
///
/// # Errors
/// It is none, or another.
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
