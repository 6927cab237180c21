//! `skye zcav`: the rate of files and devices over their length, with zcav's command line and form, around our own plan,
//! run and judge.

mod reading;
mod target;
mod zeros;

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use family::zcav::arguments::Options;
use family::zcav::{self as form, Log};
use model::UserError;
use model::run::PhaseRecord;
use observe::Root;

use crate::dialect::{self, Documents, print_note};
use crate::driver::RunOutcome;
use crate::exit::{self, Failure};
use crate::keeping::OriginalUserStore;
use crate::signals::Interruption;
use crate::{CommandResult, outputs, terminal};
use target::{ResolvedTarget, TargetError};

/// Exit code of the original for a target that is too small.
const TOO_SMALL: u8 = 2;
/// Longest results. A longer file is something else, and is not replaced.
const HEAD_BYTES_MAX: u64 = 16 << 20;

/// Measures as zcav does.
pub fn zcav(words: &[OsString]) -> CommandResult {
    dialect::run(words, measure)
}

/// Result of one file.
pub struct Outcome {
    /// Results of its blocks, perhaps not of all.
    log: Log,
    /// Reason why it ended early, if that is not in the run.
    error: Option<String>,
    /// Note on parts that lie nowhere.
    holes: Option<String>,
    /// The run; `None` for one that could not begin, and where zeros were written.
    ended: Option<RunOutcome>,
}

fn measure(options: &Options) -> CommandResult {
    let (user, group, json) = (options.user.as_deref(), options.group.as_deref(), options.json.as_deref());
    let becomes = user.is_some() || group.is_some();
    let original_user_store = becomes
        .then(|| dialect::become_requested_user("zcav", user, group, json, false))
        .transpose()?
        .flatten();
    let root = Root::system();
    let mut all = Vec::with_capacity(options.targets.len());
    for target in &options.targets {
        match ResolvedTarget::find(&root, target, options) {
            Ok(found) => all.push(found),
            Err(TargetError::TooSmall(error)) => {
                terminal::error(&error.to_string());
                return Ok(TOO_SMALL);
            }
            Err(TargetError::Other(error)) => return Err(Failure::failed(error)),
        }
    }
    let interruption = Interruption::catch()?;
    let (writings, readings) = match options.writes {
        true => (zeros::open(&all).map_err(Failure::failed)?, Vec::new()),
        false => (Vec::new(), reading::plan(&all)?),
    };
    let documents = check_outputs(options, &all, original_user_store)?;
    let notes = all.iter().flat_map(|found| found.notes.iter().cloned());
    notes.chain(writings.iter().map(zeros::Writing::note)).for_each(|note| terminal::message("note", &note));
    let is_live = all.len() == 1 && options.passes == 1 && all[0].log.is_none();
    let reporter = Arc::new(ProgressReporter { is_live, printed: AtomicUsize::new(0) });
    let outcomes = match options.writes {
        true => zeros::write(writings, options.passes, &interruption, &reporter),
        false => reading::read(&readings, &interruption, &reporter),
    };
    finish(options, &all, &outcomes, &documents, &reporter, &interruption)
}

/// Refuses files for results that are measured, that hold something else, or that are named twice.
fn check_outputs(
    options: &Options,
    all: &[ResolvedTarget],
    original_user_store: Option<OriginalUserStore>,
) -> Result<Documents, Failure> {
    let runs = all.len() as u32;
    let documents: Vec<_> =
        options.json.iter().flat_map(|file| (1..=runs).map(|run| dialect::numbered(file, run))).collect();
    let logs = options.targets.iter().filter_map(|target| target.log.as_deref());
    let outputs: Vec<_> = logs
        .map(|log| (log, is_log as fn(&str) -> bool))
        .chain(options.svg.as_deref().map(|svg| (svg, is_drawing as fn(&str) -> bool)))
        .collect();
    let paths = || outputs.iter().map(|(path, _)| *path).chain(documents.iter().map(PathBuf::as_path));
    paths().try_for_each(|path| refuse_measured(path, all))?;
    outputs.iter().try_for_each(|(path, is_ours)| check_output(path, *is_ours))?;
    refuse_same(paths())?;
    Documents::check(options.json.as_deref(), runs, original_user_store)
}

/// Returns true if a text is a log and nothing else.
fn is_log(text: &str) -> bool {
    let (logs, problems) = form::read(text);
    let [log] = &logs[..] else { return false };
    problems.is_empty() && (text == log.text() || text == format!("{}{}", log.title(), log.text()))
}

fn is_drawing(text: &str) -> bool {
    text.starts_with("<svg") && text.contains(form::PLOT_TITLE)
}

/// Refuses one file for two results, under whatever names.
fn refuse_same<'a>(paths: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths.filter(|path| !outputs::is_stdout(path)) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let by_parent = || Some(parent.canonicalize().ok()?.join(path.file_name()?));
        let full = path.canonicalize().ok().or_else(by_parent).unwrap_or_else(|| path.to_owned());
        if seen.contains(&full) {
            return Err(Failure::failed(
                UserError::new(format!("write {}", path.display()), "other results go to the same file")
                    .help("use a separate file for each"),
            ));
        }
        seen.push(full);
    }
    Ok(())
}

/// Refuses a measured file for results.
fn refuse_measured(path: &Path, all: &[ResolvedTarget]) -> Result<(), Failure> {
    let Some(found) = all.iter().find(|found| found.is(path)) else { return Ok(()) };
    let cause = format!("it is {}, which is measured", found.name);
    Err(Failure::failed(
        UserError::new(format!("write {}", path.display()), cause).help("choose another file"),
    ))
}

/// Refuses a file for results that holds anything but results: among file names, a wrong one is soon named.
fn check_output(path: &Path, is_ours: fn(&str) -> bool) -> Result<(), Failure> {
    let action = || format!("write {}", path.display());
    outputs::check(path)?;
    if !path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(HEAD_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::failed(UserError::new(action(), error)))?;
    if bytes.len() as u64 <= HEAD_BYTES_MAX && is_ours(&String::from_utf8_lossy(&bytes)) {
        return Ok(());
    }
    Err(Failure::failed(
        UserError::new(action(), "it contains data that is not from zcav")
            .help("choose another file, or remove it"),
    ))
}

/// Progress reporter: the passes of all files, and the lines of a single one.
pub struct ProgressReporter {
    /// True if lines are printed as they come: those of one file in one pass.
    is_live: bool,
    /// Lines that were printed, the heading with the first.
    printed: AtomicUsize,
}

impl ProgressReporter {
    /// Prints the original's line for a finished pass.
    fn pass(&self, pass: usize, name: &str) {
        let name = report::printable(name);
        print_note(&format!("# Finished loop {pass}, on device {name} at {}", clock()));
    }

    /// Prints the lines that cannot change any more: all but the last.
    fn print_settled(&self, log: impl FnOnce() -> Log) -> Result<(), Failure> {
        if !self.is_live {
            return if terminal::reader_is_gone() { Err(Failure::ReaderGone) } else { Ok(()) };
        }
        let log = log();
        let (printed, print_settled) =
            (self.printed.load(Ordering::Relaxed), log.lines.len().saturating_sub(1));
        if print_settled > printed {
            let text = part(&log, printed, print_settled);
            terminal::print_bytes(text.as_bytes())?;
            self.printed.store(print_settled, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns what is left to print: one file as zcav prints it, several with their names, and apart as gnuplot wants
    /// it.
    fn rest(&self, all: &[ResolvedTarget], outcomes: &[Outcome]) -> String {
        let on_stdout = all
            .iter()
            .zip(outcomes)
            .filter(|(found, outcome)| found.log.is_none() && !outcome.log.lines.is_empty());
        let logs: Vec<_> = on_stdout.map(|(_, outcome)| &outcome.log).collect();
        match &logs[..] {
            [log] if self.is_live => {
                format!("{}{}", part(log, self.printed.load(Ordering::Relaxed), log.lines.len()), log.tail())
            }
            [log] if outcomes.len() == 1 => log.text(),
            logs => {
                let texts = logs.iter().map(|log| format!("{}{}", log.title(), log.text()));
                texts.collect::<Vec<_>>().join("\n\n")
            }
        }
    }
}

/// Prints the remaining lines, writes logs, drawing and documents, and says what set the rates.
fn finish(
    options: &Options,
    all: &[ResolvedTarget],
    outcomes: &[Outcome],
    documents: &Documents,
    reporter: &ProgressReporter,
    interruption: &Interruption,
) -> CommandResult {
    let mut failures = Vec::new();
    let mut keep = |result: Result<(), Failure>| failures.extend(result.err());
    keep(terminal::print_bytes(reporter.rest(all, outcomes).as_bytes()));
    for (found, outcome) in all.iter().zip(outcomes) {
        if let Some(path) = found.log.as_deref().filter(|_| !outcome.log.lines.is_empty()) {
            let written = outputs::write(path, outcome.log.text());
            // The results took time to measure, and are not lost for want of room.
            if written.is_err() {
                let text = format!("{}{}", outcome.log.title(), outcome.log.text());
                keep(terminal::print_bytes(text.as_bytes()));
            }
            keep(written);
        }
    }
    if let Some(path) = &options.svg {
        let logs: Vec<_> = outcomes.iter().map(|outcome| outcome.log.clone()).collect();
        keep(outputs::write(path, form::plot(&logs)));
    }
    let is_well = report_end(outcomes, interruption);
    for (number, outcome) in (1..).zip(outcomes) {
        let saved = outcome.ended.iter().map(|ended| documents.save(number, ended));
        saved.for_each(&mut keep);
    }
    let is_well = is_well & failures.is_empty();
    for failure in failures {
        match failure {
            Failure::ReaderGone => interruption.reader_is_gone(),
            Failure::Refused(message) | Failure::Failed(message) | Failure::Ended(message, _) => {
                terminal::error(&message);
            }
        }
    }
    let of_run = if is_well { exit::DONE } else { exit::FAILED };
    Ok(interruption.exit_code().unwrap_or(of_run))
}

/// Says what must be known of each file. Returns true if all is well.
fn report_end(outcomes: &[Outcome], interruption: &Interruption) -> bool {
    let reader_is_gone = interruption.exit_code() == Some(exit::DONE);
    if interruption.is_raised() && !reader_is_gone {
        let name = interruption.name();
        terminal::message("note", &format!("ended by {name}; the results so far are kept"));
    }
    let mut is_well = true;
    let mut rows = Vec::new();
    for Outcome { log, error, holes, ended } in outcomes {
        let name = &log.name;
        if let Some(error) = error {
            is_well = false;
            terminal::error(error);
        }
        is_well &= ended.as_ref().is_none_or(RunOutcome::report_failures);
        if !log.lines.is_empty() && log.lines.iter().all(|line| line.mib_per_second.is_none()) {
            terminal::message(
                "note",
                &format!(
                    "{name}: all of it took less than {} s, too short for a rate; use a larger one, or more passes \
                     with -c",
                    form::LEAST_NS as f64 / 1e9
                ),
            );
        }
        holes.iter().for_each(|holes| terminal::message("note", holes));
        let mut phases = ended.iter().flat_map(|ended| &ended.run.phases);
        let last = phases.rfind(|record| !record.figures.zones.is_empty());
        rows.extend(last.map(|record| (report::printable(name), record)));
    }
    if !reader_is_gone {
        let rows: Vec<(&str, &PhaseRecord)> = rows.iter().map(|(name, record)| (&**name, *record)).collect();
        dialect::print_limits(&rows);
    }
    is_well
}

/// Returns the lines `from..to`, with the head if they begin with the first.
fn part(log: &Log, from: usize, to: usize) -> String {
    let head = if from == 0 { log.head() } else { String::new() };
    let lines: String =
        log.lines[from..to].iter().map(|line| format!("{}\n", line.text(log.offset_decimals))).collect();
    format!("{head}{lines}")
}

/// Returns the time of day, in the original's form. The original uses local time, which the kernel does not know.
fn clock() -> String {
    let since =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() % 86_400;
    format!("{}:{:02}:{:02} UTC", since / 3600, since / 60 % 60, since % 60)
}
