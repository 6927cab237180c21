//! A run as one page: a file that shows all results of the run, and holds the run itself.
//!
//! The page has no scripts and fetches nothing; the line that follows the pointer is CSS. Its text is in templates
//! (`templates/`), which escape all values. [`crate::svg`] makes the drawings.
//!
//! A caption of a chart is a conclusion, never a title.

mod card;
mod ceiling_notes;
mod clients;
pub(crate) mod embedded;
mod evidence;
mod findings;
mod heat;
pub(crate) mod histogram;
pub(crate) mod latency;
mod layers;
mod machine;
mod method;
mod results;
mod rounds;
mod sweeps;
pub(crate) mod test;
pub(crate) mod timeline;
pub(crate) mod unit;
mod zones;

use std::fmt;

use askama::{FastWritable, Template, Values, filters::HtmlSafe};
use model::Run;

pub use embedded::embedded;

use crate::text::fit;
use crate::{printable, time};
use method::DownloadLinks;
use test::Test;

/// Maximum bytes of a page with its run, so that it can be mailed and opened everywhere.
pub const PAGE_MAX: usize = 1_000_000;

/// Maximum length of a foreign name: host, path, label, fact below the heading.
const NAME_MAX: usize = 200;
/// Maximum length of a sentence with such names.
const SENTENCE_MAX: usize = 600;

/// Data embedded in a page besides its visible contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embed {
    /// The run and its CSV, which can be extracted again, as long as the page stays below [`PAGE_MAX`].
    Run,
    /// Nothing.
    Nothing,
}

/// Markup made by skye, which templates insert without escaping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markup(pub String);

impl fmt::Display for Markup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FastWritable for Markup {
    fn write_into(&self, writer: &mut dyn fmt::Write, _: &dyn Values) -> askama::Result<()> {
        Ok(writer.write_str(&self.0)?)
    }
}

impl HtmlSafe for Markup {}

/// A drawing with its caption, and the legend of its colours.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figure {
    /// Name of the drawing, as a short heading.
    pub name: String,
    /// The drawing.
    pub drawing: Markup,
    /// Classes of colours, and their meanings.
    pub legend: Vec<(&'static str, String)>,
    /// Conclusion that the drawing shows.
    pub caption: String,
}

/// Frame of every page around its contents.
#[derive(Template)]
#[template(path = "frame.html", whitespace = "minimize")]
pub(crate) struct Frame {
    /// The title of the window.
    pub title: String,
    /// Heading: the subject of the page.
    pub heading: String,
    /// The user's label.
    pub label: Option<String>,
    /// Result in a sentence or two.
    pub headline: String,
    /// Start of the run, or empty.
    pub when: String,
    /// Facts about machine and run: "ext4", "Linux 6.12.9".
    pub facts: Vec<String>,
    /// Anchors and names of the sections.
    pub contents: Vec<(&'static str, &'static str)>,
    /// The sections.
    pub sections: Vec<Markup>,
}

/// Renders the run as a page that is complete by itself. `embed` decides if the run can be extracted again.
pub fn page(run: &Run, embed: Embed) -> String {
    let tests = Test::from_run(&run.phases);
    let mut contents = Vec::new();
    let mut sections = Vec::new();
    let mut add = |anchor: &'static str, name: &'static str, section: Option<Markup>| {
        if let Some(section) = section {
            contents.push((anchor, name));
            sections.push(section);
        }
    };
    // The chart is the answer to a sweep.
    let is_swept = run.plan.sweep.is_some();
    let sweeps = || sweeps::section(run, &tests);
    add("scaling", "Sweeps", is_swept.then(sweeps).flatten());
    add("results", "Results", results::section(run, &tests));
    add("findings", "Findings", findings::section(run, &tests));
    add("tests", "Each test", card::section(run, &tests));
    add("clients", "Clients", clients::section(&tests));
    add("scaling", "Sweeps", (!is_swept).then(sweeps).flatten());
    add("files", "Files", sweeps::files(&tests));
    add("machine", "Machine", Some(machine::section(run)));
    contents.push(("method", "Method"));
    let short = |text: &str| fit(&printable(text), NAME_MAX);
    let heading = format!("{}:{}", short(&run.environment.host), short(&run.environment.target.path));
    sections.push(method::section(run, DownloadLinks::default()));
    let mut frame = Frame {
        title: format!("skye: {heading}"),
        heading,
        label: run.label.as_deref().map(short).filter(|label| !label.trim().is_empty()),
        headline: fit(&crate::answer::from_run(run), SENTENCE_MAX),
        when: time::minute(&run.started_at),
        facts: machine::facts(run).iter().map(|fact| fit(fact, NAME_MAX)).collect(),
        contents,
        sections,
    };
    let mut text = rendered(&frame).0;
    if embed == Embed::Run {
        // The room that is left is known only now: foreign text may become six times as long when escaped.
        let saved = DownloadLinks::new(run, PAGE_MAX.saturating_sub(text.len()));
        frame.sections.pop();
        frame.sections.push(method::section(run, saved));
        text = rendered(&frame).0;
    }
    text + "\n"
}

/// Renders a template. Writing into memory does not fail, and none of our templates does.
pub(crate) fn rendered(template: &impl Template) -> Markup {
    let text = template.render();
    debug_assert!(text.is_ok());
    Markup(text.unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod tests;
