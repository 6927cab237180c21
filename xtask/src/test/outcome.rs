//! The result of one test, as one line of a file: test programs run one after another, in processes of their own.

use std::time::Duration;

/// Outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It ran to its end, perhaps only to list that it cannot run here.
    Passed,
    /// It failed, or its program ended before it did.
    Failed,
    /// Its attributes exclude it from the run.
    Ignored,
}

/// A test that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Test {
    /// Program of the test: "e2e", "model".
    pub target: String,
    /// Words that choose this program for `cargo test`: "-p skye --test e2e".
    pub selection: String,
    /// Path in the program: "limiters::throttles".
    pub name: String,
    /// Outcome of the test.
    pub outcome: Outcome,
    /// Duration of the test.
    pub took: Duration,
}

const WORDS: [(Outcome, &str); 3] =
    [(Outcome::Passed, "ok"), (Outcome::Failed, "failed"), (Outcome::Ignored, "ignored")];

impl Test {
    /// Returns its line in the file of results.
    pub fn line(&self) -> String {
        let Self { target, selection, name, outcome, took } = self;
        let word = WORDS.iter().find(|(known, _)| known == outcome).map_or("", |(_, word)| word);
        format!("{word}\t{}\t{target}\t{selection}\t{name}\n", took.as_millis())
    }

    /// Parses the test from its line.
    pub fn read(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut field = || fields.next();
        let word = field()?;
        let (outcome, _) = WORDS.into_iter().find(|(_, known)| *known == word)?;
        let took = Duration::from_millis(field()?.parse().ok()?);
        let [target, selection, name] = [field()?, field()?, field()?].map(str::to_owned);
        Some(Self { target, selection, name, outcome, took })
    }

    /// Returns its name among the tests of all programs.
    pub fn full_name(&self) -> String {
        format!("{}::{}", self.target, self.name)
    }

    /// Returns the command that runs this test alone.
    pub fn command_line(&self) -> String {
        format!("cargo xtask test -- {} -- --exact {}", self.selection, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_as_the_test() {
        let test = Test {
            target: "e2e".into(),
            selection: "-p skye --test e2e".into(),
            name: "signals::int".into(),
            outcome: Outcome::Failed,
            took: Duration::from_millis(1500),
        };
        assert_eq!(Test::read(test.line().trim_end()), Some(test.clone()));
        assert_eq!(test.full_name(), "e2e::signals::int");
        assert_eq!(test.command_line(), "cargo xtask test -- -p skye --test e2e -- --exact signals::int");
        assert_eq!(Test::read("ok\tsoon\te2e\t-p skye\tx"), None);
    }
}
