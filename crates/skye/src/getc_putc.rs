//! `skye getc_putc`, and `skye generate_randfile`.

use std::ffi::OsString;
use std::path::Path;

use family::getc_putc::arguments::Options;
use family::getc_putc::{Test, line_of, translate};
use family::randfile;
use model::run::Status;

use crate::dialect::{self, Bench, Documents, Phrase, Phrases, print_note};
use crate::exit;
use crate::signals::Interruption;
use crate::{CommandResult, outputs, terminal};

/// Measures single bytes as getc_putc does. A refusal ends with getc_putc's code for it, 1.
pub fn getc_putc(words: &[OsString]) -> CommandResult {
    dialect::run(words, measure)
}

/// Makes a file of random numbers, as generate_randfile does.
pub fn generate_randfile(words: &[OsString]) -> CommandResult {
    dialect::run(words, |options: &randfile::Options| {
        let mut random = options.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        // The numbers have as many bits as rand(3) gives. The original leaves the other half of its file empty where a
        // long has 8 bytes.
        let numbers = (0..options.count).flat_map(|_| (random.u32(..) >> 1).to_be_bytes());
        outputs::write(options.file.as_deref().unwrap_or(Path::new("-")), numbers.collect::<Vec<u8>>())?;
        Ok(exit::DONE)
    })
}

fn measure(options: &Options) -> CommandResult {
    let json = options.json.as_deref();
    let (user, group) = (options.user.as_deref(), options.group.as_deref());
    let original_user_store = dialect::become_requested_user("getc_putc", user, group, json, options.quiet)?;
    let bench = Bench::inspect(&options.directory, None)?;
    let plan = bench.plan(&translate(options))?;
    let documents = Documents::check(json, 1, original_user_store)?;
    let interruption = Interruption::catch()?;
    let phrase = |test: &Test| Phrase::new(test.phrase(), "done");
    let observer = (!options.quiet).then(|| Phrases::observer(Test::ALL.iter().map(phrase).collect()));
    let ended = bench.measure(&plan, dialect::fresh_seed(), &interruption, observer)?;
    let is_well = ended.report() && !ended.interruption.is_raised();
    let mut printed = Ok(());
    let all = Test::ALL.into_iter().zip(&ended.run.phases);
    let measured: Vec<_> = all.filter(|(_, phase)| phase.status == Status::Done).collect();
    let line = line_of(options.name.as_deref().unwrap_or(bench.host()), &measured);
    // A partial line would be taken for a result.
    if is_well {
        print_note(line.to_text().trim_end());
        printed = terminal::print_line(&line.to_csv());
    }
    if !ended.reader_is_gone() {
        let rows: Vec<_> = measured.iter().map(|(test, phase)| (test.title(), *phase)).collect();
        dialect::print_limits(&rows);
    }
    documents.save(1, &ended)?;
    printed?;
    Ok(dialect::code(&ended, is_well))
}
