//! `skye compare`: compares saved runs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::request::Percent;
use model::{Comparison, Run, nearest};
use report::compare::{self, Limit, LimitCheck, Side};

use crate::cli::{CompareArguments, ComparisonFormat, DisplayArguments, GateArguments, Undecided};
use crate::exit::{self, Failure};
use crate::{CommandResult, front_ends, outputs, run_names, store, terminal};

/// Compares.
pub fn compare(arguments: &CompareArguments) -> CommandResult {
    let effect = effect(arguments.effect, &arguments.gate.fail_on)?;
    let display = &arguments.display;
    check(display)?;
    if let Some(page) = &display.html {
        let inputs: Vec<_> = arguments.runs.iter().filter_map(|word| store::find(word).ok()).collect();
        outputs::check_not_input(page, &inputs)?;
    }
    let ReadSources { sources, unreadable, has_first } = read_all(&arguments.runs);
    unreadable.iter().for_each(|problem| terminal::error(problem));
    // Without the first, there is nothing to compare the others with. Of more than two, the others still have the
    // first.
    if !unreadable.is_empty() && (!has_first || sources.len() < 2) {
        return Ok(exit::REFUSED);
    }
    let sides = match &arguments.by {
        None => sources.into_iter().map(Source::into_side).collect(),
        Some(key) => group_by(key, sources)?,
    };
    let (sides, runs): (Vec<_>, Vec<_>) = sides.into_iter().unzip();
    let comparison = compare::compare(&sides, effect).map_err(Failure::Refused)?;
    show(&comparison, &runs, display)?;
    let code = reached(&comparison, &arguments.gate);
    Ok(if unreadable.is_empty() { code } else { exit::REFUSED })
}

/// Returns the smallest change that counts.
///
/// # Errors
/// A limit is below the effect: a change that is called the same could never reach it.
pub fn effect(requested: Option<Percent>, limits: &[Limit]) -> Result<f64, Failure> {
    let effect = requested.map_or(compare::EFFECT, Percent::share);
    match limits.iter().any(|limit| limit.is_below(effect)) {
        false => Ok(effect),
        true => Err(Failure::Refused(format!(
            "cannot use --fail-on with less than {}: smaller changes are ignored; add --effect 1% to detect them",
            model::numbers::percent(effect)
        ))),
    }
}

/// Checks that the output can be shown, before anything is measured or read.
///
/// # Errors
/// The page cannot be written there, or two documents would share stdout.
pub fn check(display: &DisplayArguments) -> Result<(), Failure> {
    let Some(file) = &display.html else { return Ok(()) };
    if outputs::is_stdout(file) && !matches!(display.format, ComparisonFormat::Text | ComparisonFormat::Html)
    {
        return Err(Failure::Refused(
            "cannot print two formats of a comparison on stdout: use --html with a file".into(),
        ));
    }
    outputs::check(file)
}

/// Returns true if the comparison is printed as text.
pub fn is_text(display: &DisplayArguments) -> bool {
    let is_page = display.html.as_deref().is_some_and(outputs::is_stdout);
    display.format == ComparisonFormat::Text && !is_page
}

/// Prints a comparison, and writes its page if requested. `runs` are the documents of its sides.
///
/// # Errors
/// The page cannot be written.
pub fn show(comparison: &Comparison, runs: &[Vec<Run>], display: &DisplayArguments) -> Result<(), Failure> {
    if let Some(file) = &display.html {
        outputs::write(file, compare::html(comparison, runs))?;
        if outputs::is_stdout(file) {
            return Ok(());
        }
    }
    let text = match display.format {
        ComparisonFormat::Text => {
            let text = compare::text(comparison, &terminal::style());
            return terminal::print_line(text.trim_end_matches('\n'));
        }
        ComparisonFormat::Markdown => compare::markdown(comparison),
        ComparisonFormat::Csv => compare::csv(comparison),
        ComparisonFormat::Json => report::json::write_comparison(comparison),
        ComparisonFormat::Html => compare::html(comparison, runs),
    };
    terminal::print_bytes(text.as_bytes())
}

/// Returns the exit code that limits call for. A change beyond one decides, whatever the others are.
pub fn reached(comparison: &Comparison, gate: &GateArguments) -> u8 {
    let (mut is_beyond, mut is_undecided) = (false, false);
    for limit in &gate.fail_on {
        match limit.reached(comparison) {
            LimitCheck::Within => {}
            LimitCheck::Exceeded(rows) => {
                terminal::error(&format!("exceeds --fail-on: {}", rows.join(", ")));
                is_beyond = true;
            }
            LimitCheck::Undecided(reason) => {
                terminal::message("warning", &format!("cannot decide --fail-on: {reason}"));
                is_undecided = true;
            }
        }
    }
    match (is_beyond, is_undecided, gate.undecided) {
        (true, ..) | (false, true, Some(Undecided::Fail)) => exit::BEYOND,
        (false, true, None) => exit::UNDECIDED,
        (false, true, Some(Undecided::Pass)) | (false, false, _) => exit::DONE,
    }
}

/// One file that was named.
enum Source {
    Run { name: String, path: PathBuf, run: Box<Run> },
    Foreign(Box<Side>),
}

impl Source {
    /// Returns the source as a side, with its document if it is a run of skye.
    fn into_side(self) -> (Side, Vec<Run>) {
        match self {
            Self::Run { name, path, run } => with_runs(name, vec![(path_text(&path), *run)]),
            Self::Foreign(side) => (*side, Vec::new()),
        }
    }
}

fn with_runs(name: String, documents: Vec<(String, Run)>) -> (Side, Vec<Run>) {
    let side = Side::from_runs(name, &documents);
    (side, documents.into_iter().map(|(_, run)| run).collect())
}

/// Sources that could be read, under distinct names, and the reasons why the rest could not.
struct ReadSources {
    sources: Vec<Source>,
    unreadable: Vec<String>,
    /// True if the first source of all is among them.
    has_first: bool,
}

fn read_all(words: &[String]) -> ReadSources {
    let mut found = ReadSources { sources: Vec::new(), unreadable: Vec::new(), has_first: false };
    for (index, word) in words.iter().enumerate() {
        match read(word) {
            Ok(source) => {
                found.has_first |= index == 0;
                found.sources.push(source);
            }
            Err(problem) => found.unreadable.push(problem),
        }
    }
    make_names_distinct(&mut found.sources);
    found
}

fn read(word: &str) -> Result<Source, String> {
    let path = store::find(word)?;
    let text = store::text(&path)?;
    let name = run_names::short(&path);
    if let Some(found) = front_ends::found_in(&text) {
        return found.side(name, &path_text(&path)).map(|side| Source::Foreign(Box::new(side)));
    }
    Ok(Source::Run { name, run: Box::new(store::parse(&path, &text)?), path })
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}

/// Gives the sources distinct names: the users' own labels, the names of files, or whole paths, whichever are distinct
/// first, else numbers.
fn make_names_distinct(sources: &mut [Source]) {
    let are_apart = |names: &[String]| names.iter().collect::<HashSet<_>>().len() == names.len();
    let names = |of: &dyn Fn(&Source) -> Option<String>, sources: &[Source]| {
        sources.iter().map(of).collect::<Option<Vec<_>>>().filter(|names| are_apart(names))
    };
    let label = |source: &Source| match source {
        Source::Run { run, .. } => run.label.clone(),
        Source::Foreign(_) => None,
    };
    let own = |source: &Source| match source {
        Source::Run { name, .. } => Some(name.clone()),
        Source::Foreign(side) => Some(side.name.clone()),
    };
    let whole = |source: &Source| match source {
        Source::Run { path, .. } => Some(path_text(path)),
        Source::Foreign(side) => side.files.first().cloned(),
    };
    let numbered = || (1..=sources.len()).map(|number| format!("run {number}")).collect();
    let chosen = names(&label, sources)
        .or_else(|| names(&own, sources))
        .or_else(|| names(&whole, sources))
        .unwrap_or_else(numbered);
    for (source, chosen) in sources.iter_mut().zip(chosen) {
        match source {
            Source::Run { name, .. } => *name = chosen,
            Source::Foreign(side) => side.name = chosen,
        }
    }
}

/// Key that identifies a run, wherever its document is saved.
type Identity = (String, String, u64, Option<String>);

fn identity(run: &Run) -> Identity {
    let side = run.pairing.as_ref().map(|pairing| pairing.side.clone());
    (run.started_at.clone(), run.environment.host.clone(), run.seed, side)
}

/// Makes one side for each value of a key.
fn group_by(key: &str, sources: Vec<Source>) -> Result<Vec<(Side, Vec<Run>)>, Failure> {
    let mut groups: Vec<(String, Vec<(String, Run)>)> = Vec::new();
    let mut seen: Vec<(Identity, String)> = Vec::new();
    for source in sources {
        let Source::Run { path, run, .. } = source else {
            return Err(Failure::Refused(
                "cannot group results of older programs by a key: use each file as a separate side".into(),
            ));
        };
        let value = compare::fact(&run, key).map_err(|keys| {
            let near = nearest(key, keys.iter().map(String::as_str));
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            // The whole list would be a page.
            let some = keys.iter().take(12).cloned().collect::<Vec<_>>().join(", ");
            Failure::Refused(format!(
                "cannot group runs by `{key}`: {} has no such key{near} (it has {some}, …)",
                path.display()
            ))
        })?;
        let own = identity(&run);
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == own) {
            return Err(Failure::Refused(format!(
                "cannot use a run twice: {} and {other} are the same run",
                path.display()
            )));
        }
        seen.push((own, path.display().to_string()));
        let document = (path_text(&path), *run);
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, documents)) => documents.push(document),
            None => groups.push((value, vec![document])),
        }
    }
    if let [(value, _)] = groups.as_slice() {
        return Err(Failure::Refused(format!(
            "cannot compare by {key}: it is `{}` in all runs",
            report::printable(value)
        )));
    }
    Ok(groups.into_iter().map(|(value, documents)| with_runs(value, documents)).collect())
}
