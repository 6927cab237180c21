//! The one shape of every message about something that did not work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A failure: the action, its cause, and what the user can do about it.
///
/// Displayed as one line: `cannot ACTION: CAUSE; HELP`. Parts are lower-case fragments without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub struct UserError {
    /// The action that failed, with its path: "create the work directory in /mnt".
    pub action: String,
    /// Cause of the failure: "Read-only file system".
    pub cause: String,
    /// Help, where there is any: "choose a directory that you can write to".
    pub help: Option<String>,
}

impl UserError {
    /// Returns an error without help; see [`UserError::help`].
    pub fn new(action: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { action: action.into(), cause: without_number(cause.to_string()), help: None }
    }

    /// Adds the help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Removes "(os error 2)", which the standard library adds to the system's message and which does not help a user.
fn without_number(mut cause: String) -> String {
    while let Some(start) = cause.find(" (os error ") {
        let Some(length) = cause[start..].find(')') else { break };
        cause.replace_range(start..=start + length, "");
    }
    cause
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.cause)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}
