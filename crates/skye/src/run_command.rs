//! `skye run`: plan, prepare, run phase after phase, save, report, and leave nothing behind.

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use model::Plan;
use model::nearest;
use model::plan;
use model::run::{Environment, PhaseRecord, Run, Trust};
use observe::Root;
use report::html::Embed;
use report::text::{self, Kind, Style, Widths};

use crate::Done;
use crate::beside::Beside;
use crate::cli::RunArguments;
use crate::driver::{self, Audience, Ended, Setup, is_damaged};
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::place::Place;
use crate::signals::Interruption;
use crate::{outputs, preset, store, terminal};

/// Measures.
pub fn run(arguments: &RunArguments) -> Done {
    let started = Instant::now();
    let started_at = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let request = preset::beneath(arguments.request(), &arguments.work, preset::DEFAULT)?;
    let on_stdout = documents(arguments).filter(|path| outputs::is_stdout(path)).count();
    if on_stdout > 1 {
        return Err(Failure::Refused(
            "cannot print more than one of JSON, CSV and HTML on stdout: give the others files".into(),
        ));
    }
    let seed = request.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let style = terminal::style();
    let shows_text = !arguments.dry_run && on_stdout == 0;
    let root = Root::system();
    let machine = driver::machine(&root);
    let place = Place::find(&root, &arguments.target).map_err(|failure| mistyped(arguments, failure))?;
    let plan = plan::plan(&request, &place.target, &machine).map_err(Failure::refused)?;
    let environment = Environment::new(&machine, place.target.clone(), observe::settings(&root), Vec::new());
    if arguments.dry_run {
        terminal::print_bytes(text::dry_run(&plan, &environment).as_bytes())?;
        return Ok(exit::DONE);
    }
    outputs::check_distinct(documents(arguments))?;
    for file in documents(arguments) {
        outputs::check(file)?;
    }
    if let Some(directory) = &arguments.output {
        outputs::check_directory(directory)?;
    }
    Beside::check(arguments, &plan)?;
    if shows_text && !arguments.quiet {
        let title = text::title(
            env!("CARGO_PKG_VERSION"),
            &plan.preset,
            seed,
            &machine.host,
            &started_at,
            plan.label.as_deref(),
            &style,
        );
        terminal::print_line(&format!("{title}\n"))?;
    }
    let interruption = Interruption::catch()?;
    let beside = Beside::prepare(arguments, &environment, &started_at, &interruption)?;
    let mut session = place.open(&root, &plan, seed, interruption.raised.clone())?;
    // What is hidden is known by now, and nothing has been written but an empty directory.
    let environment = Environment { hidden_sources: session.hidden_sources().to_vec(), ..environment };
    if shows_text && !arguments.quiet {
        terminal::print_line(&format!("{}\n", text::preamble(&plan, &environment, &style)))?;
    }
    session.set_observed(!arguments.unobserved);
    let audience = shows_text.then(|| Box::new(Rows { style, last_kind: None }) as Box<dyn Audience>);
    let setup = Setup {
        started,
        started_at,
        seed,
        interruption,
        view: LiveView::new(arguments.quiet, style),
        audience,
        quiet: arguments.quiet,
        beside,
        environment,
        plan,
    };
    let ended = driver::drive(setup, session, &root, &machine);
    finish(arguments, ended, &style, shows_text)
}

/// The documents that were asked for by name.
fn documents(arguments: &RunArguments) -> impl Iterator<Item = &Path> {
    [&arguments.json, &arguments.csv, &arguments.html].into_iter().filter_map(Option::as_deref)
}

/// Rows of the table on stdout.
struct Rows {
    style: Style,
    last_kind: Option<Kind>,
}

impl Audience for Rows {
    fn over(
        &mut self,
        view: &LiveView,
        plan: &Plan,
        record: &PhaseRecord,
        before: Option<&PhaseRecord>,
    ) -> Result<(), Failure> {
        let kind = Kind::of(record);
        let widths = Widths::of_plan(plan);
        let mut lines = Vec::new();
        if self.last_kind != Some(kind) {
            if self.last_kind.is_some() {
                lines.push(String::new());
            }
            lines.push(text::head(kind, &widths, &self.style));
            self.last_kind = Some(kind);
        } else if before.is_some_and(|before| text::apart(before, record)) {
            lines.push(String::new());
        }
        lines.push(text::row(record, &widths, &self.style));
        view.above(|| terminal::print_line(&lines.join("\n")))
    }

    fn judged_later(
        &mut self,
        view: &LiveView,
        plan: &Plan,
        records: &[&PhaseRecord],
    ) -> Result<(), Failure> {
        let later = text::judged_later(records.iter().copied(), &Widths::of_plan(plan), &self.style);
        view.above(|| terminal::print_line(&format!("\n{later}")))
    }
}

/// Whether a number is not the speed of this storage.
fn is_invalid(phase: &PhaseRecord) -> bool {
    phase.verdict.as_ref().is_some_and(|verdict| verdict.trust == Trust::Invalid)
}

/// A word that is no directory may be a mistyped command.
fn mistyped(arguments: &RunArguments, failure: Failure) -> Failure {
    let word = arguments.target.to_string_lossy();
    let near = nearest(&word, ["report", "compare", "list", "doctor", "clean", "completions", "man"])
        .filter(|_| !arguments.target.exists());
    match (failure, near) {
        (Failure::Refused(problem), Some(command)) => {
            Failure::Refused(format!("{problem}; or did you mean `skye {command}`?"))
        }
        (failure, _) => failure,
    }
}

/// Saves, prints what is left to be said, and decides about the exit code.
fn finish(arguments: &RunArguments, ended: Ended, style: &Style, shows_text: bool) -> Done {
    let mut code = if ended.tell() { exit::DONE } else { exit::FAILED };
    let gone = ended.reader_is_gone();
    let Ended { run, interruption, beside, .. } = ended;
    let quiet = arguments.quiet;
    if arguments.strict && code == exit::DONE && run.phases.iter().any(is_invalid) {
        code = exit::INVALID;
    }
    if run.phases.iter().any(is_damaged) {
        code = exit::DAMAGED;
    }
    let tells = shows_text && !gone && !run.phases.is_empty();
    if tells {
        // What was measured is said before it is saved, in a place that may hang.
        let parts = [text::notes(&run.phases, style), text::limits(&run.phases, style)];
        print_parts(&parts, &mut code);
    }
    let mut saved = None;
    // With nothing measured there is nothing to save; a second signal skips the saving, too.
    if !run.phases.is_empty() && !interruption.is_repeated() {
        let keeps = !arguments.no_save;
        match keeps.then(|| save(arguments, &run, beside.as_ref().map(Beside::document))).transpose() {
            Ok(path) => saved = path.flatten(),
            Err(message) => {
                terminal::error(&message);
                code = exit::worse(code, exit::FAILED);
            }
        }
        match write_outputs(arguments, &run) {
            Err(failure @ Failure::ReaderGone) => return Err(failure),
            Err(Failure::Failed(message) | Failure::Refused(message)) => {
                terminal::error(&message);
                code = exit::worse(code, exit::FAILED);
            }
            Ok(()) => {}
        }
    }
    if let Some(kept) = beside.as_ref().and_then(Beside::kept).filter(|_| saved.is_none() && !quiet && !gone)
    {
        terminal::message(
            "skye",
            &format!("what ran beside the tests has left its output in {}", kept.display()),
        );
    }
    if tells {
        let name = saved.as_ref().map(|path| match arguments.output {
            Some(_) => path.display().to_string(),
            None => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        });
        print_parts(&[text::footer(&run, name.as_deref(), style)], &mut code);
    }
    Ok(interruption.exit_code().unwrap_or(code))
}

/// Prints the parts that say something, each after an empty line. A reader that has gone away misses nothing that is not
/// saved.
fn print_parts(parts: &[String], code: &mut u8) {
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if let Err(Failure::Failed(message)) = terminal::print_line(&format!("\n{part}")) {
            terminal::error(&message);
            *code = exit::worse(*code, exit::FAILED);
        }
    }
}

/// Saves a run, as CSV too where the user named the directory.
fn save(arguments: &RunArguments, run: &Run, reserved: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let wanted = arguments.output.as_deref();
    let homeless = "cannot save the run: neither XDG_STATE_HOME nor HOME is set; name a directory with -o DIR, or add --no-save";
    let saved = store::keep(run, wanted, reserved, homeless)?;
    if let Some(path) = saved.as_ref().filter(|_| wanted.is_some()) {
        outputs::write_file(&path.with_extension("csv"), report::csv::write(run).into_bytes())
            .map_err(|trouble| trouble.to_string())?;
    }
    Ok(saved)
}

fn write_outputs(arguments: &RunArguments, run: &Run) -> Result<(), Failure> {
    if let Some(file) = &arguments.json {
        outputs::write(file, report::json::write(run))?;
    }
    if let Some(file) = &arguments.csv {
        outputs::write(file, report::csv::write(run))?;
    }
    if let Some(file) = &arguments.html {
        outputs::write(file, report::html::page(run, Embed::Run))?;
    }
    Ok(())
}
