//! `skye bonnie++`: its command line and formats around our own plan, run and judge.

use std::ffi::OsString;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use engine::data::mix;
use family::bonniepp::arguments::{self, Command, HELP, Options, Seed};
use family::bonniepp::{Layout, Test, Translation, line_of, phrase, table, translate};
use model::plan::{self, Plan};
use model::run::{Environment, PhaseRecord, Run, Status};
use model::{Machine, Trouble};
use observe::Root;
use report::text;
use run::Session;

use crate::driver::{self, Audience, Ended, Setup};
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::privileges::{self, Identity};
use crate::signals::Interruption;
use crate::{Done, cli, outputs, terminal};

/// The original's code for INT while the tests on data ran.
const INTERRUPTED: u8 = 5;
/// More of a file says nothing more; some files have no end.
const SEED_BYTES_MAX: u64 = 64 << 20;
/// The number of INT, and of what a shell makes of it.
const INT: u8 = 130;

/// Measures as bonnie++ does. Whatever is refused ends with its code for that, 1.
pub fn bonniepp(words: &[OsString]) -> Done {
    let options = match arguments::parse(words.iter().cloned()) {
        Ok(Command::Measure(options)) => options,
        Ok(Command::Help) => {
            terminal::print_line(HELP)?;
            return Ok(exit::DONE);
        }
        Ok(Command::Version) => {
            terminal::print_line(&format!("skye {}, bonnie++ 1.03, 1.97, 2.00", env!("CARGO_PKG_VERSION")))?;
            return Ok(exit::DONE);
        }
        Err(problem) => return Err(Failure::Failed(format!("bonnie++: {problem}"))),
    };
    match measure(&options) {
        Err(Failure::Refused(message)) => Err(Failure::Failed(message)),
        done => done,
    }
}

fn measure(options: &Options) -> Done {
    let identity = become_asked(options)?;
    let root = Root::system();
    let machine = driver::machine(&root);
    let translation = translate(options, machine.memory_bytes).map_err(Failure::failed)?;
    let seed = match &options.seed {
        Seed::File(path) => seed_of(path)?,
        Seed::Number(seed) => *seed,
        Seed::Fresh => u64::from(fastrand::u32(1..)),
    };
    let target = observe::target(&root, &options.directory).map_err(Failure::failed)?;
    let plan = plan::plan(&translation.request, &target, &machine).map_err(Failure::failed)?;
    if options.json.as_deref().is_some_and(outputs::is_stdout) {
        return Err(Failure::Failed("--json `-`: stdout is for the CSV line; name a file".into()));
    }
    let runs = options.runs.unwrap_or(1);
    for run in 1..=runs {
        json_of(options, run).map_or(Ok(()), |file| outputs::check(&file))?;
    }
    if !options.quiet {
        if let Some(identity) = identity {
            tell(&format!("Using {identity}."));
        }
        translation.notes.iter().for_each(|note| terminal::message("note", note));
    }
    if runs > 1 {
        terminal::print_line(&options.compat.header())?;
    }
    let interruption = Interruption::catch()
        .map_err(|error| Failure::Failed(format!("cannot catch signals: {error}; too many processes?")))?;
    let environment = Environment::new(&machine, target, observe::settings(&root), Vec::new());
    for run in 1..=runs {
        let once = Once { options, translation: &translation, plan: &plan, environment: &environment, seed };
        let ended = once.run(&root, &machine, &interruption)?;
        let code = once.tell(&ended, run)?;
        if code != exit::DONE {
            return Ok(code);
        }
    }
    Ok(exit::DONE)
}

/// Becomes who was asked for; the identity, where there is something to say about it: as root.
fn become_asked(options: &Options) -> Result<Option<Identity>, Failure> {
    let before = Identity::current();
    let (user, group) = (options.user.as_deref(), options.group.as_deref());
    let identity = match (user, group) {
        (None, None) => before,
        _ => privileges::become_user(user, group).map_err(Failure::failed)?,
    };
    if before.is_root() && user.is_none() && !options.quiet {
        terminal::message("note", "running as root, as no -u USER was given; bonnie++ itself would refuse");
    }
    Ok(before.is_root().then_some(identity))
}

/// A seed that follows from what a file holds: the same file, the same offsets and names.
fn seed_of(path: &Path) -> Result<u64, Failure> {
    let attempt = || format!("take random numbers from {}", path.display());
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(SEED_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|error| Failure::failed(Trouble::new(attempt(), error)))?;
    if bytes.is_empty() {
        return Err(Failure::failed(
            Trouble::new(attempt(), "it is empty").remedy("name a file with something in it"),
        ));
    }
    let word = |chunk: &[u8]| chunk.iter().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    Ok(bytes.chunks(8).fold(bytes.len() as u64, |seed, chunk| mix(seed ^ word(chunk))))
}

/// Where the document of a run goes: to the file that was named, with the run's number before its ending from the second
/// on.
fn json_of(options: &Options, run: u32) -> Option<PathBuf> {
    let file = options.json.as_ref()?;
    if run == 1 {
        return Some(file.clone());
    }
    let ending = file.extension().map_or(String::new(), |ending| format!(".{}", ending.to_string_lossy()));
    Some(file.with_extension(format!("{run}{ending}")))
}

fn is_on_data(test: Test) -> bool {
    Test::data().contains(&test)
}

/// Prints a line to stderr, as the original does.
fn tell(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// All twelve tests once.
struct Once<'a> {
    options: &'a Options,
    translation: &'a Translation,
    plan: &'a Plan,
    environment: &'a Environment,
    seed: u64,
}

impl Once<'_> {
    fn run(&self, root: &Root, machine: &Machine, interruption: &Interruption) -> Result<Ended, Failure> {
        let target = &self.environment.target;
        let raised = interruption.raised.clone();
        let mut session =
            Session::open(root, self.plan, target, self.seed, raised).map_err(Failure::failed)?;
        session.set_stdio_program(cli::stdio_program());
        let hidden_sources = session.hidden_sources().to_vec();
        let quiet = self.options.quiet;
        let data = self.options.data.as_ref();
        let audience = Phrases {
            tests: self.translation.tests.clone(),
            compat: self.options.compat,
            seekers: data.map_or(0, |data| data.seekers),
            is_live: std::io::stderr().is_terminal(),
            running: None,
        };
        let setup = Setup {
            started: Instant::now(),
            started_at: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            seed: self.seed,
            interruption: interruption.clone(),
            view: LiveView::new(quiet, terminal::style()),
            audience: (!quiet).then(|| Box::new(audience) as Box<dyn Audience>),
            quiet,
            beside: None,
            environment: Environment { hidden_sources, ..self.environment.clone() },
            plan: self.plan.clone(),
        };
        Ok(driver::drive(setup, session, root, machine))
    }

    /// Prints what came of a run, and saves it where that was asked for; the exit code is the answer.
    fn tell(&self, ended: &Ended, number: u32) -> Result<u8, Failure> {
        let options = self.options;
        let is_well = ended.tell_failures();
        let measured = self.measured(&ended.run);
        let line = line_of(options, self.translation, &measured, self.seed, &self.environment.host);
        if let Some(file) = json_of(options, number).filter(|_| !ended.run.phases.is_empty()) {
            outputs::write(&file, report::json::write(&ended.run).as_bytes())?;
        }
        let is_whole = is_well && !ended.interruption.is_raised();
        // A line of which a part is missing would be taken for a result.
        if is_whole {
            let shows_table = options.runs.is_none();
            if shows_table && options.quiet {
                tell(table(&line).trim_end());
            } else if shows_table {
                terminal::print_line(table(&line).trim_end())?;
            }
            terminal::print_line(line.to_csv().trim_end())?;
        } else if !measured.is_empty() && !ended.reader_is_gone() {
            tell(table(&line).trim_end());
        }
        if !measured.is_empty() && !ended.reader_is_gone() {
            let rows: Vec<_> = measured.iter().map(|(test, phase)| (test.title(), *phase)).collect();
            tell(&format!("\nwhat limited each of them:\n{}", text::limited(&rows, &terminal::style())));
        }
        Ok(self.code(ended, is_well))
    }

    /// The tests that were measured, whole or in part.
    fn measured<'r>(&self, run: &'r Run) -> Vec<(Test, &'r PhaseRecord)> {
        let all = self.translation.tests.iter().copied().zip(&run.phases);
        all.filter(|(_, phase)| matches!(phase.status, Status::Done)).collect()
    }

    /// The original's codes; a signal that it does not catch ends as it does there.
    fn code(&self, ended: &Ended, is_well: bool) -> u8 {
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

/// The phrases of bonnie++ on stderr, by which scripts see how far it is.
struct Phrases {
    tests: Vec<Test>,
    compat: Layout,
    seekers: u32,
    /// Whether something moves on the terminal beneath: then a phrase is printed once it is whole.
    is_live: bool,
    /// The test that runs.
    running: Option<Test>,
}

impl Phrases {
    fn say(view: &LiveView, words: &str) {
        view.above(|| {
            // A stderr that is closed cannot be told so.
            let _ = std::io::stderr().write_all(words.as_bytes());
        });
    }
}

impl Audience for Phrases {
    fn begins(&mut self, view: &LiveView, index: usize) -> Result<(), Failure> {
        self.running = self.tests.get(index).copied();
        if let Some(test) = self.running.filter(|_| !self.is_live) {
            Self::say(view, phrase(test, self.compat));
        }
        Ok(())
    }

    fn over(
        &mut self,
        view: &LiveView,
        _: &Plan,
        record: &PhaseRecord,
        _: Option<&PhaseRecord>,
    ) -> Result<(), Failure> {
        let test = self.running.take();
        let begun = test.filter(|_| self.is_live).map_or("", |test| phrase(test, self.compat));
        let done = match test.filter(|_| record.status == Status::Done) {
            Some(Test::Seeks) => "done...".repeat(self.seekers as usize),
            Some(test) if !is_on_data(test) => "done.".to_owned(),
            Some(_) => "done".to_owned(),
            None => String::new(),
        };
        Self::say(view, &format!("{begun}{done}\n"));
        Ok(())
    }
}
