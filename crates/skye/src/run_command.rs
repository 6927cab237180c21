//! `skye run`: plan, prepare, run phase after phase, save, report, and leave nothing behind.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fleet::Clients;
use model::run::{PhaseRecord, Run, Trust};
use model::{Machine, Percentiles, Plan};
use observe::Root;
use report::percentiles;
use report::text::{self, Detail, Kind, Style, Widths};
use run::SessionOptions;

use crate::CommandResult;
use crate::cli::RunArguments;
use crate::driver::{self, RunObserver, RunOutcome, Setup, Start, is_damaged};
use crate::exit::{self, Failure};
use crate::fleet_run;
use crate::job::{self, Part};
use crate::keeping::SaveTarget;
use crate::live_view::LiveView;
use crate::loads;
use crate::monitor::Monitor;
use crate::prepared::{FoundTarget, PreparedRun};
use crate::signals::Interruption;
use crate::{outputs, preset, run_names, store, terminal};

/// Measures.
pub fn run(arguments: &RunArguments, detail: Detail) -> CommandResult {
    arguments.hang_timeout.into_iter().for_each(run::hang_detection::set_limit);
    let clients = match job::take_part(arguments)? {
        Part::Alone => fleet_run::clients(&arguments.clients)?.map(Clients::Hosts),
        Part::Coordinator(ranks) => Some(Clients::Ranks(ranks)),
        Part::RankEnded(code) => return Ok(code),
    };
    let detail = detail.unless(arguments.forms.summary, arguments.quiet);
    let start = Start::now();
    if !arguments.quiet {
        translation_notes(arguments).iter().for_each(|note| terminal::message("note", note));
    }
    outputs::check_stdout(documents(arguments))?;
    let is_stdout_taken = documents(arguments).any(outputs::is_stdout);
    let style = terminal::style();
    let shows_text = !arguments.dry_run && !is_stdout_taken;
    let root = Root::system();
    let machine = driver::machine(&root);
    let prepared = prepare(arguments, clients, &root, &machine)?;
    if arguments.dry_run {
        let text = text::dry_run(&prepared.plan, prepared.environment());
        terminal::print_bytes(text.as_bytes())?;
        return Ok(exit::DONE);
    }
    documents(arguments).try_for_each(outputs::check)?;
    arguments.output.as_deref().map_or(Ok(()), outputs::check_directory)?;
    Monitor::check(arguments, &prepared.plan)?;
    let interruption = prepared.interruption().cloned().map_or_else(Interruption::catch, Ok)?;
    let monitor = Monitor::prepare(arguments, prepared.environment(), &start.text, &interruption)?;
    let (plan, seed) = (prepared.plan.clone(), prepared.seed);
    let options = SessionOptions { is_unobserved: arguments.unobserved, ..SessionOptions::default() };
    let (side, environment) = prepared.open(&root, &interruption, options)?;
    if shows_text && !arguments.quiet {
        terminal::message("skye", &text::plan_line(&plan));
    }
    let keeping = keeping(arguments, &plan);
    if let Some(erases) = text::erases(&environment.target).filter(|_| !arguments.quiet) {
        terminal::message("skye", &erases);
    }
    // Output that cannot be written over is written once, at the end.
    let rows = Rc::new(Cell::new(Lines { written: 0, printed: terminal::message_count() }));
    let observer = shows_text.then(|| observer(arguments, style, &rows));
    let setup = Setup {
        start,
        seed,
        interruption,
        view: LiveView::with_log(arguments.quiet),
        observer,
        gate: None,
        is_quiet: arguments.quiet,
        monitor,
        environment,
        plan,
    };
    let mut ended = driver::drive(setup, side, &root, &machine);
    if let Some(wanted) = &arguments.forms.percentiles {
        percentiles::choose(&mut ended.run, wanted);
    }
    let printed = shows_text.then(|| RunOutput { detail, style, rows: rows.get() });
    finish(arguments, ended, &keeping, printed.as_ref())
}

/// Returns the audience of a run: rows on a terminal, or the reader of the answer at the end.
fn observer(arguments: &RunArguments, style: Style, lines: &Rc<Cell<Lines>>) -> Box<dyn RunObserver> {
    if arguments.quiet || !terminal::is_visible() {
        return Box::new(Reader);
    }
    let (percentiles, lines) = (arguments.forms.percentiles.clone(), Rc::clone(lines));
    Box::new(Rows { style, percentiles, last_kind: None, lines })
}

/// Returns the place for the run. Where there is none, a warning says so, unless the user gets the document as a file.
fn keeping(arguments: &RunArguments, plan: &Plan) -> SaveTarget {
    let forms = &arguments.forms;
    let has_document = forms.json.is_some() || forms.html.is_some();
    let named = arguments.output.as_deref();
    if arguments.no_save || (named.is_none() && !store::accepts(plan)) {
        return SaveTarget::Nowhere;
    }
    SaveTarget::find(
        named,
        (!has_document).then_some("choose a directory with -o DIR, add --json -, or add --no-save"),
    )
}

/// Returns what the words of other programs mean here, each note once.
fn translation_notes(arguments: &RunArguments) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for (theirs, ours) in arguments.work.translations() {
        let is = format!("{theirs} is {}", ours.text);
        for note in std::iter::once(is).chain(ours.notes) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}

/// Adds a note to a plan that repeats its tests, but too rarely for a comparison.
fn note_too_few_repetitions(plan: &mut Plan) {
    let (repeated, rows) = (plan.repetitions, plan.phases.len());
    let needed = stats::runs_to_decide(rows, false) as u32;
    if (2..needed).contains(&repeated) {
        plan.notes.push(wording::comparison::too_few_repetitions(repeated, rows, needed));
    }
}

/// Finds the target and plans the run.
fn prepare(
    arguments: &RunArguments,
    clients: Option<Clients>,
    root: &Root,
    machine: &Machine,
) -> Result<PreparedRun, Failure> {
    let requested = arguments.request();
    let mut found = match clients {
        None => FoundTarget::here(root, machine, &arguments.target)?,
        Some(clients) => {
            // A preset may say the limits, too; then they come from this command line all the same.
            let limits = preset::apply_preset(requested.clone(), preset::DEFAULT)?;
            let (target, options, on_loss) =
                (&arguments.target, &arguments.clients, arguments.on_loss.into());
            let interruption = Interruption::catch()?;
            FoundTarget::on_clients(options, target, clients, &limits, on_loss, &interruption)?
        }
    };
    if let FoundTarget::Here(place) = &mut found {
        place.erase_if_requested(root, &arguments.target, &requested)?;
    }
    let request = preset::with_preset(requested, preset::DEFAULT, found.target())?;
    let request = match &found {
        FoundTarget::Here(_) => loads::read(request)?,
        // Clients cannot replay.
        FoundTarget::Clients(_) => request,
    };
    let seed = request.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
    let mut prepared = found.plan(request, machine, seed)?;
    note_too_few_repetitions(&mut prepared.plan);
    Ok(prepared)
}

/// Paths of the requested documents.
fn documents(arguments: &RunArguments) -> impl Iterator<Item = &Path> {
    outputs::forms(&arguments.forms).into_iter().filter_map(|(file, _)| file)
}

/// Rows on a terminal while the run goes on. At the end, the answer is written over them.
struct Rows {
    style: Style,
    /// Percentiles that the user chose.
    percentiles: Option<Percentiles>,
    last_kind: Option<Kind>,
    /// Lines that were written.
    lines: Rc<Cell<Lines>>,
}

/// Reader of the answer at the end, unless it has gone by then.
struct Reader;

impl RunObserver for Reader {
    fn over(
        &mut self,
        _plan: &Plan,
        _record: &PhaseRecord,
        _before: Option<&PhaseRecord>,
    ) -> Result<(), Failure> {
        if terminal::reader_is_gone() { Err(Failure::ReaderGone) } else { Ok(()) }
    }
}

/// Lines of rows on a terminal.
#[derive(Clone, Copy)]
struct Lines {
    written: usize,
    /// Number of messages on stderr before the first line.
    printed: usize,
}

impl RunObserver for Rows {
    fn over(
        &mut self,
        plan: &Plan,
        record: &PhaseRecord,
        before: Option<&PhaseRecord>,
    ) -> Result<(), Failure> {
        let kind = Kind::from_phase(record);
        let widths = Widths::from_plan(plan).with_percentiles(self.percentiles.as_ref());
        let mut lines = Vec::new();
        if self.last_kind != Some(kind) {
            if self.last_kind.is_some() {
                lines.push(String::new());
            }
            lines.push(text::head(kind, &widths, &self.style));
            self.last_kind = Some(kind);
        } else if before.is_some_and(|before| text::is_group_boundary(before, record)) {
            lines.push(String::new());
        }
        let stated = self.percentiles.as_ref().map(|wanted| {
            let mut record = record.clone();
            percentiles::state(&mut record, wanted);
            record
        });
        lines.push(text::row(stated.as_ref().unwrap_or(record), &widths, &self.style));
        lines.extend(text::clients(record, &self.style));
        let Lines { written, printed } = self.lines.get();
        let printed = if written == 0 { terminal::message_count() } else { printed };
        self.lines.set(Lines { written: written + lines.len(), printed });
        terminal::print_line(&lines.join("\n"))
    }
}

/// Output at the end of a run, and its form.
struct RunOutput {
    detail: Detail,
    style: Style,
    /// Lines on the terminal that the output replaces, unless something was printed between them.
    rows: Lines,
}

/// Returns true if a number is not the speed of this storage.
fn is_invalid(phase: &PhaseRecord) -> bool {
    phase.judged.verdict.as_ref().is_some_and(|verdict| verdict.trust == Trust::Invalid)
}

/// Saves the run, prints what is left to say, and decides the exit code.
fn finish(
    arguments: &RunArguments,
    ended: RunOutcome,
    keeping: &SaveTarget,
    printed: Option<&RunOutput>,
) -> CommandResult {
    let mut code = if ended.report() { exit::DONE } else { exit::FAILED };
    let gone = ended.reader_is_gone();
    let RunOutcome { run, interruption, monitor, .. } = ended;
    let quiet = arguments.quiet;
    if arguments.strict && code == exit::DONE && run.phases.iter().any(is_invalid) {
        code = exit::INVALID;
    }
    if run.phases.iter().any(is_damaged) {
        code = exit::DAMAGED;
    }
    let printed = printed.filter(|_| !gone && !run.phases.is_empty());
    if let Some(printed) = printed {
        // Results are printed before they are saved, because the place for saving may hang.
        if printed.rows.printed == terminal::message_count() {
            terminal::erase_above(printed.rows.written);
        }
        print_part(&text::screen(&run, printed.detail, &printed.style), &mut code);
    }
    let mut saved = None;
    // With nothing measured there is nothing to save. A second signal skips saving, too.
    if !run.phases.is_empty() && !interruption.is_repeated() {
        match save(keeping, &run, monitor.as_ref().map(Monitor::document)) {
            Ok(path) => saved = path,
            Err(message) => {
                terminal::error(&message);
                code = exit::worse(code, exit::FAILED);
            }
        }
        match write_outputs(arguments, &run) {
            Err(failure @ Failure::ReaderGone) => return Err(failure),
            Err(Failure::Failed(message) | Failure::Refused(message) | Failure::Ended(message, _)) => {
                terminal::error(&message);
                code = exit::worse(code, exit::FAILED);
            }
            Ok(()) => {}
        }
    }
    if let Some(output_dir) =
        monitor.as_ref().and_then(Monitor::output_dir).filter(|_| saved.is_none() && !quiet && !gone)
    {
        terminal::message("skye", &format!("the monitor's output is in {}", output_dir.display()));
    }
    if let Some((printed, path)) =
        printed.filter(|printed| printed.detail > Detail::Table).zip(saved.as_ref())
    {
        let name = match arguments.output {
            Some(_) => path.display().to_string(),
            None => run_names::short(path),
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        print_part(&format!("\n{}", text::saved(&run, &name, directory, &printed.style)), &mut code);
    }
    Ok(interruption.exit_code().unwrap_or(code))
}

/// Prints a part. A reader that has gone away is no error.
fn print_part(part: &str, code: &mut u8) {
    if let Err(Failure::Failed(message)) = terminal::print_line(part) {
        terminal::error(&message);
        *code = exit::worse(*code, exit::FAILED);
    }
}

/// Saves a run. Saves it as CSV, too, if the user named the directory.
fn save(keeping: &SaveTarget, run: &Run, reserved: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let saved = keeping.keep(run, reserved)?;
    if let Some(path) = saved.as_ref().filter(|_| matches!(keeping, SaveTarget::Named(_))) {
        outputs::write_file(&path.with_extension("csv"), report::csv::write(run).into_bytes())
            .map_err(|error| error.to_string())?;
    }
    Ok(saved)
}

fn write_outputs(arguments: &RunArguments, run: &Run) -> Result<(), Failure> {
    for (file, form) in outputs::forms(&arguments.forms) {
        if let Some(file) = file {
            outputs::write(file, form(run))?;
        }
    }
    Ok(())
}
