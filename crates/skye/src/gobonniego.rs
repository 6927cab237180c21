//! `skye gobonniego`: its command line and formats around our own plan, run after run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use family::gobonniego::arguments::Options;
use family::gobonniego::{
    CLOSING, Figures, Line, LineContent, Report, Test, Translation, VERSION, check_room, translate,
};
use model::plan::Plan;
use model::printable::printable;
use model::run::{PhaseRecord, Run, Status};

use crate::dialect::{self, Bench, Clients, Documents, print_note};
use crate::driver::{self, RunObserver, RunOutcome};
use crate::exit::{self, Failure};
use crate::signals::Interruption;
use crate::{CommandResult, simulation, terminal};

mod directory;

use directory::TestDirectory;

/// Approximate size of the parts in which JSON is printed. A day of runs gives more than should be held at once.
const JSON_PART_BYTES: usize = 64 << 10;

/// Measures as GoBonnieGo does. Exit codes are the original's: 2 for a wrong flag, 1 for all other failures.
pub fn gobonniego(words: &[OsString]) -> CommandResult {
    let start = StartTime { at: SystemTime::now(), clock: Instant::now() };
    dialect::run_with_clients(words, |options, clients| measure(options, clients, start))
}

/// Start time of the program.
struct StartTime {
    at: SystemTime,
    clock: Instant,
}

fn measure(options: &Options, clients: Option<Clients>, start: StartTime) -> CommandResult {
    // Caught before anything is made: a signal then takes the path that removes the directory.
    let interruption = dialect::catch(clients.as_ref())?;
    let directory = options.directory.clone().unwrap_or_else(std::env::temp_dir);
    let _made = match clients.is_some() || simulation::is_named(&directory) {
        true => None,
        false => TestDirectory::make_if_missing(&directory)?,
    };
    let bench = Bench::inspect(&directory, clients.as_ref())?;
    let translation =
        translate(options, bench.machine.cpus, bench.machine.memory_bytes, bench.is_simulated());
    check_room(options, &translation, &directory.to_string_lossy(), bench.free_bytes())
        .map_err(Failure::failed)?;
    let plan = bench.plan(&translation.request)?;
    let documents = documents(options)?;
    let series = Series { options, translation, bench, plan, directory, documents, interruption, start };
    series.begin();
    series.run()
}

fn documents(options: &Options) -> Result<Documents, Failure> {
    let file = options.document.as_deref();
    if file.is_some_and(crate::outputs::is_stdout) {
        return Err(Failure::Failed("-document `-`: stdout is for the results; choose a file".into()));
    }
    Documents::check(file, 1, None)
}

/// A series of runs, one after another.
struct Series<'a> {
    options: &'a Options,
    translation: Translation,
    bench: Bench,
    plan: Plan,
    directory: PathBuf,
    documents: Documents,
    interruption: Interruption,
    start: StartTime,
}

/// Results of finished runs: a few numbers of each run, however long it was.
#[derive(Default)]
struct CompletedRuns {
    runs: Vec<(SystemTime, Figures)>,
    /// Limiters of the tests in the last run that has any, as text.
    limits: String,
    /// Time that the runs took on the clock of a simulated device.
    virtual_time: Duration,
}

impl Series<'_> {
    /// Says on stderr what is measured, where, and in which way.
    fn begin(&self) {
        let translation = &self.translation;
        print_note(&stamped(LineContent::Starting {
            version: VERSION.to_owned(),
            runs: self.options.runs,
            seconds: self.options.seconds,
            threads: u64::from(translation.threads),
            size_mib: translation.size_mib,
        }));
        if self.options.verbose {
            print_note(&stamped(LineContent::Cores(u64::from(self.bench.machine.cpus))));
            print_note(&stamped(LineContent::MemoryMib(self.bench.machine.memory_bytes >> 20)));
            print_note(&stamped(LineContent::Directory(printable(&self.directory.to_string_lossy()))));
        }
        let notes = translation.notes.iter().chain(&self.plan.notes);
        notes.for_each(|note| terminal::message("note", note));
    }

    fn run(&self) -> CommandResult {
        let mut finished = CompletedRuns::default();
        let mut code = exit::DONE;
        let mut number = 0;
        while code == exit::DONE
            && !self.interruption.is_raised()
            && self.needs_another_run(number, &finished)
        {
            number += 1;
            code = self.once(number, &mut finished).unwrap_or_else(|failure| {
                // The results of earlier runs are kept.
                match failure {
                    Failure::Refused(message) | Failure::Failed(message) | Failure::Ended(message, _) => {
                        terminal::error(&message);
                        exit::FAILED
                    }
                    Failure::ReaderGone => {
                        self.interruption.reader_is_gone();
                        exit::DONE
                    }
                }
            });
        }
        let reader_is_gone = self.interruption.exit_code() == Some(exit::DONE);
        if !reader_is_gone {
            if self.options.json && !finished.runs.is_empty() {
                self.print_json(&finished)?;
            }
            if !finished.limits.is_empty() {
                let which = if number > 1 { ", in the last run" } else { "" };
                print_note(&format!("\nwhat limited each of them{which}:\n{}", finished.limits));
            }
        }
        Ok(self.interruption.exit_code().unwrap_or(code))
    }

    /// Returns true until both the requested number of runs and the requested time are reached.
    fn needs_another_run(&self, number: u64, finished: &CompletedRuns) -> bool {
        let elapsed =
            if self.bench.is_simulated() { finished.virtual_time } else { self.start.clock.elapsed() };
        number < self.options.runs || elapsed < Duration::from_secs(self.options.seconds)
    }

    /// Makes one run: prints its lines, and keeps its numbers. Returns the exit code.
    fn once(&self, number: u64, finished: &mut CompletedRuns) -> Result<u8, Failure> {
        let started_at = SystemTime::now();
        let observer = Lines { is_json: self.options.json, is_verbose: self.options.verbose, running: None };
        let seed = dialect::fresh_seed();
        let ended = self.bench.measure(&self.plan, seed, &self.interruption, Some(Box::new(observer)))?;
        let mut is_well = ended.report() & report_mismatches(&ended.run);
        let phases = &ended.run.phases;
        finished.virtual_time +=
            phases.iter().map(|phase| Duration::from_nanos(phase.counts.elapsed_ns)).sum::<Duration>();
        let figures = Figures::from_phases(phases).filter(|_| is_well);
        if is_well && figures.is_none() && !self.interruption.is_raised() {
            is_well = false;
            terminal::error(&cut_short(number, phases));
        }
        let measured: Vec<_> = (Test::ALL.iter().zip(phases))
            .filter(|(_, phase)| phase.status == Status::Done)
            .map(|(test, phase)| (test.title(), phase))
            .collect();
        // A run without figures, such as an interrupted one, gives limits only if no run before it has.
        if !measured.is_empty() && (figures.is_some() || finished.limits.is_empty()) {
            finished.limits = dialect::limits(&measured);
        }
        finished.runs.extend(figures.map(|figures| (started_at, figures)));
        self.note_end_by_pass(&ended);
        // Larger numbers are of no use in the name of a file, and -runs is less.
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        self.documents.save(number, &ended)?;
        Ok(if is_well { exit::DONE } else { exit::FAILED })
    }

    /// Reports that the IOPS test was shorter than requested, and why: cold data can be read only once.
    fn note_end_by_pass(&self, ended: &RunOutcome) {
        let requested_seconds = self.options.iops_seconds;
        let Some(iops) = ended.run.phases.get(2).filter(|phase| phase.status == Status::Done) else { return };
        let seconds = iops.counts.elapsed_ns as f64 / 1e9;
        if iops.counts.passes >= 1.0 && seconds < requested_seconds {
            terminal::message(
                "note",
                &format!(
                    "the IOPS test ended after {seconds:.1} of {requested_seconds} s: every block was visited, and a \
                     second visit would hit memory; use a larger -size, or -cache as-is"
                ),
            );
        }
    }

    fn print_json(&self, finished: &CompletedRuns) -> Result<(), Failure> {
        let head = Report {
            version: Some(VERSION.to_owned()),
            start_time: Some(rfc3339(self.start.at)),
            directory: Some(self.directory.to_string_lossy().into_owned()),
            disk_space_used_gib: Some(self.translation.size_gib),
            threads: Some(u64::from(self.translation.threads)),
            physical_memory_bytes: Some(self.bench.machine.memory_bytes),
            iops_duration_seconds: Some(self.options.iops_seconds),
            results: Vec::new(),
        };
        let mut part = head.opening();
        for (index, (started_at, figures)) in finished.runs.iter().enumerate() {
            if index > 0 {
                part.push(',');
            }
            part.push_str(&figures.to_result(rfc3339(*started_at)).to_json());
            if part.len() >= JSON_PART_BYTES {
                terminal::print_bytes(part.as_bytes())?;
                part.clear();
            }
        }
        part.push_str(CLOSING);
        terminal::print_bytes(part.as_bytes())
    }
}

/// Returns the reason why a run has no results although nothing failed.
fn cut_short(number: u64, phases: &[PhaseRecord]) -> String {
    let short = phases.iter().find(|phase| phase.status != Status::Done);
    let why = short.map_or("some of its tests did not run".to_owned(), |phase| {
        let reason = phase.reason.as_deref().unwrap_or("its cause is unknown");
        format!("{} {} ended early: {reason}", phase.name, phase.label)
    });
    format!("run {number} has no results: {why}")
}

/// Prints the tests that read data that was not written. Returns true if there are none.
fn report_mismatches(run: &Run) -> bool {
    let damaged: Vec<_> = run.phases.iter().filter(|phase| driver::is_damaged(phase)).collect();
    for phase in &damaged {
        let note = phase.judged.notes.iter().find(|note| note.code == "verification_failed");
        let text = note.map_or("read data differs from written data", |note| &note.text);
        terminal::error(&format!("{} {}: {text}", phase.name, phase.label));
    }
    damaged.is_empty()
}

/// Returns a time as Go writes it: with nanoseconds, but without the zeros at their end.
fn rfc3339(time: SystemTime) -> String {
    let text = humantime::format_rfc3339_nanos(time).to_string();
    let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{digits}Z")
}

/// Returns a line with the time, as Go's log writes it.
fn stamped(content: LineContent) -> String {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let at = now.trim_end_matches('Z').replace('-', "/").replace('T', " ");
    Line::Stamped { at, content }.to_string()
}

/// Audience that prints the lines of each test when the test is over.
struct Lines {
    is_json: bool,
    is_verbose: bool,
    running: Option<Test>,
}

impl RunObserver for Lines {
    fn on_test_start(&mut self, index: usize) -> Result<(), Failure> {
        self.running = Test::ALL.get(index).copied();
        Ok(())
    }

    fn over(&mut self, _: &Plan, record: &PhaseRecord, _: Option<&PhaseRecord>) -> Result<(), Failure> {
        let Some(test) = self.running.take().filter(|_| record.status == Status::Done) else { return Ok(()) };
        if self.is_verbose {
            Figures::details(test, record).into_iter().for_each(|content| print_note(&stamped(content)));
        }
        match self.is_json {
            true => Ok(()),
            false => terminal::print_line(&Figures::line(test, record).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_like_go() {
        let at = |ns: u64| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
        assert_eq!(rfc3339(at(1_523_540_760_274_348_275)), "2018-04-12T13:46:00.274348275Z");
        assert_eq!(rfc3339(at(1_523_540_760_270_000_000)), "2018-04-12T13:46:00.27Z");
        assert_eq!(rfc3339(at(1_523_540_760_000_000_000)), "2018-04-12T13:46:00Z");
        assert_eq!(rfc3339(at(1_523_540_700_000_000_000)), "2018-04-12T13:45:00Z");
    }
}
