//! Exit codes, and the errors that end a command.

use std::fmt;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use model::UserError;
use model::spec::FioKey;
pub use wording::exit_codes::{BEYOND, DAMAGED, DONE, FAILED, INVALID, REFUSED, UNDECIDED};

/// The worse of two codes: damage is worse than a failure, and a failure than a number that is invalid.
pub fn worse(one: u8, other: u8) -> u8 {
    let order = [DONE, UNDECIDED, INVALID, BEYOND, FAILED, DAMAGED];
    let place = |code: u8| order.iter().position(|known| *known == code);
    if place(one) >= place(other) { one } else { other }
}

/// Reason why a command ends.
#[derive(Debug)]
pub enum Failure {
    /// Refused before anything was written: exit code 2.
    Refused(String),
    /// Failed: exit code 1.
    Failed(String),
    /// Ended by a signal after something was written, with the exit code of that signal.
    Ended(String, u8),
    /// The reader of stdout went away: not an error.
    ReaderGone,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) | Self::Failed(message) | Self::Ended(message, _) => {
                formatter.write_str(message)
            }
            Self::ReaderGone => formatter.write_str("the reader of stdout has exited"),
        }
    }
}

impl Failure {
    /// Prints the message, and returns the exit code.
    pub fn report(self) -> u8 {
        match self {
            Self::ReaderGone => crate::signals::exit_code_unread(),
            Self::Refused(_) if crate::job::is_silent() => REFUSED,
            Self::Refused(message) => {
                crate::terminal::error(&message);
                REFUSED
            }
            Self::Failed(message) => {
                crate::terminal::error(&message);
                FAILED
            }
            Self::Ended(message, code) => {
                crate::terminal::message("skye", &message);
                code
            }
        }
    }

    /// Makes a refusal of an error.
    pub fn refused(error: UserError) -> Self {
        Self::Refused(error.to_string())
    }

    /// Makes a failure of an error.
    pub fn failed(error: UserError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Prints clap's message, and returns the exit code. Help and version are not errors; all else has clap's code 2.
pub fn from_clap(mut error: clap::Error) -> ExitCode {
    correct_hint(&mut error);
    let code = if error.use_stderr() { REFUSED } else { DONE };
    // Errors are ignored: a reader that has gone needs no report.
    let _ = (!crate::job::is_silent()).then(|| error.print());
    ExitCode::from(code)
}

/// Explains keys of fio among the options. Drops the hint to an option that only looks like the unknown one.
fn correct_hint(error: &mut clap::Error) {
    let text = |value: Option<&ContextValue>| match value {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return;
    }
    let unknown = text(error.get(ContextKind::InvalidArg));
    let near = text(error.get(ContextKind::SuggestedArg));
    // Other commands have other options of these names.
    let is_run = text(error.get(ContextKind::Usage)).contains("skye run");
    let fio = FioKey::find(&unknown).filter(|_| is_run && unknown.starts_with("--"));
    if fio.is_some() || model::nearest(&unknown, [near.as_str()]).is_none() {
        error.remove(ContextKind::SuggestedArg);
    }
    if let Some(key) = fio {
        let tip = format!("{unknown} is a key of fio: {}; `skye fio` translates command lines", key.advice());
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.replace('`', "").into()]));
    }
}
