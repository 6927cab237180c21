//! `skye zcav`: the rate of files and devices over their length, with zcav's command line and form.

mod scan;
mod target;

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use family::zcav::arguments::Options;
use family::zcav::{self as form, MIB};
use model::Trouble;
use model::numbers::{about, amount, percent};

use crate::dialect::{self, tell};
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::signals::Interruption;
use crate::{Done, outputs, terminal};
use scan::{Outcome, Scans};
use target::{Opened, Refused, refuse_room};

/// Exit code of the original for a target that is too small.
const TOO_SMALL: u8 = 2;
/// Longest results. A longer file is something else, and is not replaced.
const LOOKED_AT_BYTES: u64 = 16 << 20;

/// Measures as zcav does.
pub fn zcav(words: &[OsString]) -> Done {
    dialect::run(words, measure)
}

fn measure(options: &Options) -> Done {
    if options.user.is_some() || options.group.is_some() {
        dialect::become_asked("zcav", options.user.as_deref(), options.group.as_deref(), false)?;
    }
    let mut all = Vec::with_capacity(options.targets.len());
    for target in &options.targets {
        match Opened::open(target, options) {
            Ok(opened) => all.push(opened),
            Err(Refused::TooSmall(trouble)) => {
                terminal::error(&trouble.to_string());
                return Ok(TOO_SMALL);
            }
            Err(Refused::Other(trouble)) => return Err(Failure::failed(trouble)),
        }
    }
    let interruption = Interruption::catch()?;
    refuse_room(&all).map_err(Failure::failed)?;
    let logs = options.targets.iter().filter_map(|target| target.log.as_deref());
    let outputs: Vec<_> = logs
        .map(|log| (log, is_log as fn(&str) -> bool))
        .chain(options.svg.as_deref().map(|svg| (svg, is_drawing as fn(&str) -> bool)))
        .collect();
    outputs.iter().try_for_each(|(path, is_ours)| check_output(path, &all, *is_ours))?;
    refuse_same(outputs.iter().map(|(path, _)| *path))?;
    all.iter().flat_map(|opened| &opened.notes).for_each(|note| terminal::message("note", note));
    let scans = Scans::start(all, &interruption).map_err(Failure::failed)?;
    let mut teller = Teller::new(options, scans, &interruption);
    let told = teller.look_on();
    // A failed print is no reason to lose the rest.
    let code = teller.finish(options)?;
    told.map(|()| code)
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
                Trouble::new(format!("write {}", path.display()), "it is named for other results, too")
                    .remedy("name one file for each"),
            ));
        }
        seen.push(full);
    }
    Ok(())
}

/// Refuses a file for results that holds anything but results: among file names, a wrong one is soon named.
fn check_output(path: &Path, all: &[Opened], is_ours: fn(&str) -> bool) -> Result<(), Failure> {
    let attempt = || format!("write {}", path.display());
    if let Some(opened) = all.iter().find(|opened| opened.is(path)) {
        return Err(Failure::failed(
            Trouble::new(attempt(), format!("it is {}, which is measured", opened.name))
                .remedy("name another file"),
        ));
    }
    outputs::check(path)?;
    if !path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LOOKED_AT_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::failed(Trouble::new(attempt(), error)))?;
    if bytes.len() as u64 <= LOOKED_AT_BYTES && is_ours(&String::from_utf8_lossy(&bytes)) {
        return Ok(());
    }
    Err(Failure::failed(
        Trouble::new(attempt(), "it holds something else than results of zcav")
            .remedy("name another file, or remove it"),
    ))
}

/// Reporter of the progress, and of the results.
struct Teller<'a> {
    scans: Scans,
    interruption: &'a Interruption,
    view: LiveView,
    started: Instant,
    /// Passes of each file that were reported as finished.
    passes_told: Vec<usize>,
    /// Lines of the one file that were printed as they came, its heading included; `None` where lines come at the end.
    printed: Option<usize>,
}

impl<'a> Teller<'a> {
    fn new(options: &Options, scans: Scans, interruption: &'a Interruption) -> Self {
        let is_live = scans.len() == 1 && options.passes == 1 && scans.log_path(0).is_none();
        Self {
            passes_told: vec![0; scans.len()],
            scans,
            interruption,
            view: LiveView::new(false, terminal::style()),
            started: Instant::now(),
            printed: is_live.then_some(0),
        }
    }

    /// Reports until all have ended, or are to end.
    fn look_on(&mut self) -> Result<(), Failure> {
        while self.scans.wait() {
            if self.interruption.is_raised() {
                self.scans.wait_for_end();
                break;
            }
            self.tell_passes();
            if let Err(failure) = self.print_settled() {
                // The reader has gone, or there is no room: nobody would see further results.
                self.interruption.reader_is_gone();
                self.scans.wait_for_end();
                self.view.end();
                return Err(failure);
            }
            if std::io::stderr().is_terminal() {
                self.view.preparing(&self.progress());
            }
        }
        self.tell_passes();
        self.view.end();
        Ok(())
    }

    fn progress(&self) -> String {
        let (moved_bytes, all_bytes) = self.scans.progress_bytes();
        let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
        let (share, rate) = (moved_bytes as f64 / all_bytes.max(1) as f64, moved_bytes as f64 / seconds);
        let left_ns = (all_bytes.saturating_sub(moved_bytes)) as f64 / rate.max(1.0) * 1e9;
        let rate = amount(rate / MIB as f64).unwrap_or_default();
        match moved_bytes {
            0 => "begins".into(),
            _ => format!("{}  {rate} MiB/s  {} left", percent(share), about(left_ns as u64)),
        }
    }

    /// Prints the original's line for each finished pass.
    fn tell_passes(&mut self) {
        for index in 0..self.scans.len() {
            while self.passes_told[index] < self.scans.passes_done(index) {
                self.passes_told[index] += 1;
                let (pass, name) = (self.passes_told[index], report::printable(self.scans.name(index)));
                self.view.above(|| tell(&format!("# Finished loop {pass}, on device {name} at {}", clock())));
            }
        }
    }

    /// Prints the lines that cannot change any more: all but the last.
    fn print_settled(&mut self) -> Result<(), Failure> {
        let Some(printed) = self.printed else { return Ok(()) };
        let log = self.scans.log(0);
        let settled = log.lines.len().saturating_sub(1);
        if settled > printed {
            let text = part(&log, printed, settled);
            self.view.above(|| terminal::print_bytes(text.as_bytes()))?;
            self.printed = Some(settled);
        }
        Ok(())
    }

    /// Prints the remaining lines, writes logs and the drawing, and says what set the rates.
    fn finish(self, options: &Options) -> Done {
        let outcomes: Vec<_> = (0..self.scans.len()).map(|index| self.scans.outcome(index)).collect();
        let mut failures = Vec::new();
        let mut keep = |result: Result<(), Failure>| match result {
            Ok(()) => {}
            Err(failure) => failures.push(failure),
        };
        keep(self.print(&outcomes));
        for (index, outcome) in outcomes.iter().enumerate() {
            if let Some(path) = self.scans.log_path(index).filter(|_| !outcome.log.lines.is_empty()) {
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
        let is_well = self.tell_end(&outcomes) & failures.is_empty();
        for failure in failures {
            match failure {
                Failure::ReaderGone => self.interruption.reader_is_gone(),
                Failure::Refused(message) | Failure::Failed(message) => terminal::error(&message),
            }
        }
        Ok(match self.interruption.exit_code() {
            Some(code) => code,
            None if is_well => exit::DONE,
            None => exit::FAILED,
        })
    }

    /// Prints results to stdout: one file as zcav prints it, several with their names, and apart as gnuplot wants it.
    fn print(&self, outcomes: &[Outcome]) -> Result<(), Failure> {
        let on_stdout = (0..).zip(outcomes).filter(|(index, outcome)| {
            self.scans.log_path(*index).is_none() && !outcome.log.lines.is_empty()
        });
        let logs: Vec<_> = on_stdout.map(|(_, outcome)| &outcome.log).collect();
        let text = match (self.printed, &logs[..]) {
            (Some(printed), [log]) => format!("{}{}", part(log, printed, log.lines.len()), log.tail()),
            (_, [log]) if outcomes.len() == 1 => log.text(),
            (_, logs) => logs
                .iter()
                .map(|log| format!("{}{}", log.title(), log.text()))
                .collect::<Vec<_>>()
                .join("\n\n"),
        };
        terminal::print_bytes(text.as_bytes())
    }

    /// Says what must be known of each file. Returns true if all is well.
    fn tell_end(&self, outcomes: &[Outcome]) -> bool {
        if self.interruption.is_raised() && self.interruption.exit_code() != Some(exit::DONE) {
            terminal::message(
                "note",
                &format!("ended by {}; what was measured so far is kept", self.interruption.name()),
            );
        }
        let mut is_well = true;
        for outcome in outcomes {
            let name = &outcome.log.name;
            if let Some(trouble) = &outcome.trouble {
                is_well = false;
                terminal::error(&trouble.to_string());
            }
            if !outcome.log.lines.is_empty()
                && outcome.log.lines.iter().all(|line| line.mib_per_second.is_none())
            {
                terminal::message(
                    "note",
                    &format!(
                        "{name}: all of it took less than {} s, which is too short for a rate; name a larger one, or read it \
                         more often with -c",
                        form::LEAST_NS as f64 / 1e9
                    ),
                );
            }
            if let Some(sentence) = outcome.effort.sentence() {
                tell(&format!("{}: {sentence}", report::printable(name)));
            }
        }
        is_well
    }
}

/// Returns the lines `from..to`, with the head if they begin with the first.
fn part(log: &form::Log, from: usize, to: usize) -> String {
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
