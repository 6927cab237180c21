//! The result of one test.

use std::time::Duration;

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ran to its end, perhaps only to list that it cannot run here.
    Passed,
    /// It failed, or its program ended before it did.
    Failed,
    /// It runs only with `--long`.
    Ignored,
}

/// A test that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    /// Program of the test: "e2e", "model".
    pub target: String,
    /// Words that choose this program for `cargo test`: "-p skye --test e2e".
    pub selection: String,
    /// Path in the program: "limiters::cgroup_io_throttle_is_named".
    pub name: String,
    /// Outcome of the test.
    pub outcome: Outcome,
    /// Duration of the test.
    pub took: Duration,
}

impl Test {
    /// Returns its name among the tests of all programs.
    pub fn full_name(&self) -> String {
        format!("{}::{}", self.target, self.name)
    }

    /// Returns the command that runs this test alone.
    pub fn command_line(&self) -> String {
        format!("cargo xtask test -- {} -- --include-ignored --exact {}", self.selection, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_test_has_command_that_reruns_it() {
        let test = Test {
            target: "e2e".into(),
            selection: "-p skye --test e2e".into(),
            name: "signals::int".into(),
            outcome: Outcome::Failed,
            took: Duration::from_millis(1500),
        };
        assert_eq!(test.full_name(), "e2e::signals::int");
        let words = "-p skye --test e2e -- --include-ignored --exact signals::int";
        assert_eq!(test.command_line(), format!("cargo xtask test -- {words}"));
    }
}
