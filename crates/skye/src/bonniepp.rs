//! `skye bonnie++`: its command line and formats around our own plan, run and judge.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use engine::data::mix;
use family::bonniepp::arguments::{Barrier, Options, Seed, Semaphore};
use family::bonniepp::{Test, Translation, line_of, phrase, table, translate};
use model::UserError;
use model::run::{PhaseRecord, Run, Status};

use crate::dialect::{self, Bench, Clients, Documents, Phrase, Phrases, print_note};
use crate::driver::{Gate, RunObserver, RunOutcome};
use crate::exit::{self, Failure};
use crate::signals::Interruption;
use crate::start_barrier::{self, Seat};
use crate::{CommandResult, inputs, terminal};

/// Exit code of the original for INT during the tests on data.
const INTERRUPTED: u8 = 5;
/// Most bytes that are read of a seed file. More bytes say nothing more, and some files have no end.
const SEED_BYTES_MAX: u64 = 64 << 20;
/// Exit code for INT, as shells form it: 128 and the signal's number.
const INT: u8 = 130;

/// Measures as bonnie++ does. A refusal ends with bonnie++'s code for it, 1.
pub fn bonniepp(words: &[OsString]) -> CommandResult {
    dialect::run_with_clients(words, measure)
}

fn measure(options: &Options, clients: Option<Clients>) -> CommandResult {
    let json = options.json.as_deref();
    let (user, group) = (options.user.as_deref(), options.group.as_deref());
    let original_user_store = dialect::become_requested_user("bonnie++", user, group, json, options.quiet)?;
    if let Some(semaphore) = options.semaphore {
        let done = match semaphore {
            Semaphore::Created(count) => start_barrier::prepare(count),
            Semaphore::Removed => start_barrier::remove(),
        };
        return done.map(|()| exit::DONE).map_err(Failure::failed);
    }
    let bench = Bench::inspect(&options.directory, clients.as_ref())?;
    let translation = translate(options, bench.machine.memory_bytes).map_err(Failure::failed)?;
    let seed = match &options.seed {
        Seed::File(path) => seed_of(path)?,
        Seed::Number(seed) => *seed,
        Seed::Fresh => dialect::fresh_seed(),
    };
    let plan = bench.plan(&translation.request)?;
    let runs = options.runs.unwrap_or(1);
    let documents = Documents::check(json, runs, original_user_store)?;
    if !options.quiet {
        translation.notes.iter().for_each(|note| terminal::message("note", note));
    }
    if runs > 1 {
        terminal::print_line(&options.compat.header())?;
    }
    let interruption = dialect::catch(clients.as_ref())?;
    let once = SingleRun { options, translation: &translation, bench: &bench, documents: &documents, seed };
    let seat = match options.barrier {
        Barrier::Semaphore => Some(Seat::take(interruption.raised.clone()).map_err(Failure::failed)?),
        Barrier::None | Barrier::Prompt => None,
    };
    let seat = seat.map(|seat| Rc::new(RefCell::new(seat)));
    for run in 1..=runs {
        let waits = options.barrier != Barrier::None;
        let gate = waits.then(|| once.gate(seat.clone(), run, &interruption));
        let ended = bench.measure_gated(gate, &plan, seed, &interruption, once.observer())?;
        let code = once.report(&ended, run)?;
        if code != exit::DONE {
            return Ok(code);
        }
    }
    Ok(exit::DONE)
}

/// Returns a seed that follows from a file's content: the same file gives the same offsets and names.
fn seed_of(path: &Path) -> Result<u64, Failure> {
    let action = || format!("read random numbers from {}", path.display());
    let mut bytes = Vec::new();
    inputs::open_any(path)
        .and_then(|file| file.take(SEED_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| Failure::failed(UserError::new(action(), error)))?;
    if bytes.is_empty() {
        return Err(Failure::failed(
            UserError::new(action(), "it is empty").help("choose a file with data in it"),
        ));
    }
    let word = |chunk: &[u8]| chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    Ok(bytes.chunks(8).fold(bytes.len() as u64, |seed, chunk| mix(seed ^ word(chunk))))
}

fn is_on_data(test: Test) -> bool {
    Test::data().contains(&test)
}

/// One run of all twelve tests.
struct SingleRun<'a> {
    options: &'a Options,
    translation: &'a Translation,
    bench: &'a Bench,
    documents: &'a Documents,
    seed: u64,
}

impl SingleRun<'_> {
    /// Returns the audience that reports progress, if that is wanted.
    fn observer(&self) -> Option<Box<dyn RunObserver>> {
        let seekers = self.options.data.as_ref().map_or(0, |data| data.seekers);
        let done = |test: Test| match test {
            Test::Seeks => "done...".repeat(seekers as usize),
            test if is_on_data(test) => "done".into(),
            _ => "done.".into(),
        };
        let phrase = |test: &Test| Phrase::new(phrase(*test, self.options.compat), done(*test));
        let tests = &self.translation.tests;
        (!self.options.quiet).then(|| Phrases::observer(tests.iter().map(phrase).collect()))
    }

    /// Returns the wait before each test: for other programs, or without a seat for the user.
    fn gate(&self, seat: Option<Rc<RefCell<Seat>>>, run: u32, interruption: &Interruption) -> Gate {
        let (tests, compat) = (self.translation.tests.clone(), self.options.compat);
        let raised = interruption.raised.clone();
        Box::new(move |index| match &seat {
            Some(seat) => {
                let ordinal = Test::ALL.iter().position(|known| *known == tests[index]).unwrap_or(0);
                let place = run as usize * Test::ALL.len() + ordinal;
                for number in seat.borrow_mut().wait(place as u64) {
                    let missing = format!("the program at position {} of the barrier has exited", number + 1);
                    terminal::message("warning", &missing);
                }
            }
            None => {
                let phrase = phrase(tests[index], compat).trim_end_matches('.');
                print_note(&format!("\npress Enter to start: {phrase}"));
                terminal::wait_for_line(&raised);
            }
        })
    }

    /// Prints the results of a run, and saves the document. Returns the exit code.
    fn report(&self, ended: &RunOutcome, number: u32) -> Result<u8, Failure> {
        let options = self.options;
        let is_well = ended.report();
        let measured = self.measured(&ended.run);
        let line = line_of(options, self.translation, &measured, self.seed, self.bench.host());
        let mut printed = Ok(());
        let is_whole = is_well && !ended.interruption.is_raised();
        // A partial line would be taken for a result.
        if is_whole {
            let shows_table = options.runs.is_none();
            if shows_table && options.quiet {
                print_note(table(&line).trim_end());
            } else if shows_table {
                printed = terminal::print_line(table(&line).trim_end());
            }
            printed = printed.and_then(|()| terminal::print_line(line.to_csv().trim_end()));
        } else if !measured.is_empty() && !ended.reader_is_gone() {
            print_note(table(&line).trim_end());
        }
        if !ended.reader_is_gone() {
            let rows: Vec<_> = measured.iter().map(|(test, phase)| (test.title(), *phase)).collect();
            dialect::print_limits(&rows);
        }
        self.documents.save(number, ended)?;
        printed?;
        Ok(self.code(ended, is_well))
    }

    /// Returns the tests that are done, with their records.
    fn measured<'r>(&self, run: &'r Run) -> Vec<(Test, &'r PhaseRecord)> {
        let all = self.translation.tests.iter().copied().zip(&run.phases);
        all.filter(|(_, phase)| matches!(phase.status, Status::Done)).collect()
    }

    /// Returns the original's exit code. A signal that the original does not catch ends as it does there.
    fn code(&self, ended: &RunOutcome, is_well: bool) -> u8 {
        let data_tests = self.translation.tests.iter().filter(|test| is_on_data(**test)).count();
        match ended.interruption.exit_code() {
            Some(INT) if ended.run.phases.len() < data_tests => INTERRUPTED,
            Some(INT) => exit::FAILED,
            Some(code) => code,
            None if is_well => exit::DONE,
            None => exit::FAILED,
        }
    }
}
