//! `xtask/english.toml`: the words of the project, and the findings that each rule may have.

use std::collections::BTreeMap;

use anyhow::Result;
use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

/// Content of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Findings that each rule may have.
    pub allowed: BTreeMap<String, usize>,
    pub lone: Lone,
    pub tests: FirstWords,
    pub sentences: Openings,
    /// Words inside a name, each with the usual ones.
    pub parts: BTreeMap<String, String>,
    phrases: Vec<Phrase>,
    /// Patterns of all phrases: most texts have none, and one search is enough for them.
    #[serde(skip)]
    patterns: RegexSet,
}

/// Words that are no whole name.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lone {
    /// No name of a function or a type.
    pub anything: Vec<String>,
    /// No name of a type.
    pub types: Vec<String>,
}

/// First words that the name of a test may not have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstWords {
    pub articles: Vec<String>,
    pub clauses: Vec<String>,
}

/// First words that a sentence may not have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Openings {
    pub clauses: Vec<String>,
}

/// A phrase that prose may not have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Phrase {
    pub pattern: Pattern,
    /// Pattern that the text on the left matches.
    pub after: Option<Pattern>,
    /// Pattern that the text on the left does not match.
    pub not_after: Option<Pattern>,
    /// Pattern that the text on the right does not match.
    pub not_before: Option<Pattern>,
    /// Usual words.
    pub instead: String,
}

/// A regular expression that ignores case.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(pattern: String) -> Result<Self, regex::Error> {
        Ok(Self(RegexBuilder::new(&pattern).case_insensitive(true).build()?))
    }
}

impl Table {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut table: Self = toml::from_str(text)?;
        let patterns = table.phrases.iter().map(|phrase| phrase.pattern.0.as_str());
        table.patterns = RegexSetBuilder::new(patterns).case_insensitive(true).build()?;
        Ok(table)
    }

    /// Returns the places of phrases in a text, each with the usual words.
    pub(super) fn phrases<'t>(&self, text: &'t str) -> Vec<(&'t str, &str)> {
        let phrases = self.patterns.matches(text).into_iter().map(|index| &self.phrases[index]);
        phrases
            .flat_map(|phrase| phrase.find(text).into_iter().map(|found| (found, &*phrase.instead)))
            .collect()
    }
}

impl Phrase {
    /// Returns all places of the phrase in a text.
    fn find<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let matches =
            |pattern: &Option<Pattern>, side: &str| pattern.as_ref().map(|pattern| pattern.0.is_match(side));
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(place) = self.pattern.0.find_at(text, at) {
            let (left, right) = (&text[..place.start()], &text[place.end()..]);
            let is_found = matches(&self.after, left) != Some(false)
                && matches(&self.not_after, left) != Some(true)
                && matches(&self.not_before, right) != Some(true);
            if is_found && !place.is_empty() {
                found.push(place.as_str());
                at = place.end();
            } else {
                let Some(first) = text[place.start()..].chars().next() else { break };
                at = place.start() + first.len_utf8();
            }
        }
        found
    }
}
