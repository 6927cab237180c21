//! The one shape of every message about something that did not work.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A failure: the attempt, its cause, and what the user can do about it.
///
/// Displayed as one line: `cannot ATTEMPT: CAUSE; REMEDY`. Parts are lower-case fragments without a full stop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub struct Trouble {
    /// The attempt, with its path: "create the work directory in /mnt".
    pub attempt: String,
    /// Cause of the failure: "Read-only file system".
    pub cause: String,
    /// Remedy, where there is one: "choose a directory that you can write to".
    pub remedy: Option<String>,
}

impl Trouble {
    /// Returns a trouble without a remedy; see [`Trouble::remedy`].
    pub fn new(attempt: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { attempt: attempt.into(), cause: without_number(cause.to_string()), remedy: None }
    }

    /// Adds the remedy.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
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

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.attempt, self.cause)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}
