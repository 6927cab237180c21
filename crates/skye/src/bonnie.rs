//! `skye bonnie`: the command line and formats of bonnie 1.4 and Bonnie-64 around our own plan, run and judge.

use std::ffi::OsString;

use family::bonnie::arguments::{Form, Options};
use family::bonnie::{self, Test, Translation};
use model::run::Status;

use crate::dialect::{self, Bench, Clients, Documents, Phrase, Phrases, print_note};
use crate::driver::RunOutcome;
use crate::exit::Failure;
use crate::{CommandResult, terminal};

/// Measures as bonnie does. A refusal ends with bonnie's code for it, 1.
pub fn bonnie(words: &[OsString]) -> CommandResult {
    dialect::run_with_clients(words, measure)
}

fn measure(options: &Options, clients: Option<Clients>) -> CommandResult {
    let bench = Bench::inspect(&options.directory, clients.as_ref())?;
    let translation = bonnie::translate(options, bench.machine.memory_bytes).map_err(Failure::failed)?;
    bonnie::check_room(options, bench.free_bytes()).map_err(Failure::failed)?;
    let seed = options.seed.unwrap_or_else(dialect::fresh_seed);
    let plan = bench.plan(&translation.request)?;
    let documents = Documents::check(options.json.as_deref(), 1, None)?;
    translation.warnings.iter().for_each(|warning| terminal::message("warning", warning));
    translation.notes.iter().for_each(|note| terminal::message("note", note));
    bonnie::opening(options).iter().for_each(|line| print_note(&model::printable::printable(line)));
    let interruption = dialect::catch(clients.as_ref())?;
    let phrases = translation.tests.iter().map(|test| phrase(*test, options)).collect();
    let ended = bench.measure(&plan, seed, &interruption, Some(Phrases::observer(phrases)))?;
    show(options, &translation, &ended, &documents, bench.host())
}

/// Prints the results of a run, and saves the document. Returns the exit code.
fn show(
    options: &Options,
    translation: &Translation,
    ended: &RunOutcome,
    documents: &Documents,
    host: &str,
) -> CommandResult {
    let is_well = ended.report();
    let all = translation.tests.iter().copied().zip(&ended.run.phases);
    let tests: Vec<_> = all.filter(|(_, phase)| phase.status == Status::Done).collect();
    let table = bonnie::table_of(options, &tests, host);
    let text = match options.form {
        Form::Text => table.text(),
        Form::Html => table.html(),
    };
    let mut printed = Ok(());
    // A partial table would be taken for a result.
    if is_well && !ended.interruption.is_raised() {
        printed = terminal::print_line(text.trim_end());
    } else if !tests.is_empty() && !ended.reader_is_gone() {
        print_note(table.text().trim_end());
    }
    if !ended.reader_is_gone() {
        let rows: Vec<_> = tests.iter().map(|(test, phase)| (test.title(), *phase)).collect();
        dialect::print_limits(&rows);
    }
    // The order matters: a place that hangs must not withhold the results, and a missing reader must not prevent the
    // document.
    documents.save(1, ended)?;
    printed?;
    Ok(dialect::code(ended, is_well))
}

/// Returns the phrase of a test, which ends with its rate.
fn phrase(test: Test, options: &Options) -> Phrase {
    let own = options.clone();
    Phrase {
        start_text: bonnie::phrase(test, options),
        done: Box::new(move |phase| {
            bonnie::completion_message(test, &own, bonnie::measured(test, phase).as_ref())
        }),
    }
}
