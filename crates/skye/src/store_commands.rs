//! Commands on saved runs, and on leftovers of killed runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::UserError;
use report::list::{Entry, Summary};
use report::text::Detail;
use report::trend::RunSummary;
use report::{percentiles, slug};
use run::ceilings::MEMORY;
use run::{CleanOutcome, hang_detection};

use crate::CommandResult;
use crate::cli::{ListArguments, ReportArguments, WhyArguments};
use crate::exit::{self, Failure};

use crate::signals::Interruption;
use crate::{front_ends, outputs, run_names, store, terminal};

/// `skye report`
pub fn report(arguments: &ReportArguments, detail: Detail) -> CommandResult {
    let markdown = (arguments.markdown.as_deref(), report::markdown::write as outputs::Form);
    let forms: Vec<_> = outputs::forms(&arguments.forms).into_iter().chain([markdown]).collect();
    let path = store::find(&arguments.run).map_err(Failure::Refused)?;
    let text = store::text(&path).map_err(Failure::Refused)?;
    if let Some(found) = front_ends::found_in(&text) {
        let wants_more = arguments.forms.summary
            || arguments.forms.percentiles.is_some()
            || forms.iter().any(|(file, _)| file.is_some());
        return match wants_more || arguments.rejudge || arguments.anonymous {
            false => found.show(&path.to_string_lossy()),
            true => Err(Failure::Refused(format!(
                "cannot convert {}: it contains results of {}, not a run of skye; drop the options to print them{}",
                path.display(),
                found.program,
                found.other_uses
            ))),
        };
    }
    outputs::check_stdout(forms.iter().filter_map(|(file, _)| *file))?;
    // The JSON form may replace its source, as both are the same, but not without its names.
    for file in forms.iter().skip(usize::from(!arguments.anonymous)).filter_map(|(file, _)| *file) {
        outputs::check_not_input(file, std::slice::from_ref(&path))?;
    }
    let mut run = store::parse(&path, &text).map_err(Failure::Refused)?;
    if arguments.rejudge {
        judge::rejudge(&mut run);
        run.phases.iter_mut().for_each(wording::fill);
    }
    if let Some(wanted) = &arguments.forms.percentiles {
        percentiles::choose(&mut run, wanted);
    }
    if arguments.anonymous {
        run = report::anonymous::anonymise(&run).map_err(|cause| {
            Failure::failed(UserError::new(format!("replace the names in {}", path.display()), cause))
        })?;
    }
    let mut written = false;
    for (file, form) in forms {
        if let Some(file) = file {
            outputs::write(file, form(&run))?;
            written = true;
        }
    }
    if !written {
        let detail = detail.unless(arguments.forms.summary, arguments.quiet);
        terminal::print_line(&report::text::screen(&run, detail, &terminal::style()))?;
    }
    Ok(exit::DONE)
}

/// `skye why`
pub fn why(arguments: &WhyArguments) -> CommandResult {
    let [first, second] = [&arguments.run, &arguments.row].map(Option::as_deref);
    // A single word is a row of the last run if there is such a row, else a run.
    let last = || store::find("@").and_then(|path| store::read(&path));
    let (run, word) = match (first, second) {
        (Some(word), None) => match last() {
            Ok(run) if !slug::find(&run.phases, word).is_empty() => (Ok(run), Some(word)),
            _ => (store::find(word).and_then(|path| store::read(&path)), None),
        },
        (Some(run), row) => (store::find(run).and_then(|path| store::read(&path)), row),
        (None, _) => (last(), None),
    };
    let run = run.map_err(Failure::Refused)?;
    let rows = match word {
        None => (0..run.phases.len()).collect(),
        Some(word) => slug::find(&run.phases, word),
    };
    let named = |rows: &mut dyn Iterator<Item = usize>| {
        rows.map(|row| format!("{} {}", row + 1, slug::from_phase(&run.phases[row])))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (word, &rows[..]) {
        (Some(word), []) => {
            let all = named(&mut (0..run.phases.len()));
            return Err(Failure::Refused(format!("cannot find the row {word}; the run has {all}")));
        }
        (Some(word), [_, _, ..]) => {
            let all = named(&mut rows.iter().copied());
            return Err(Failure::Refused(format!("{word} is ambiguous: {all}")));
        }
        _ => {}
    }
    terminal::print_line(&report::text::why(&run, &rows, &terminal::style()))?;
    Ok(exit::DONE)
}

/// `skye list`
pub fn list(arguments: &ListArguments) -> CommandResult {
    let paths = store::runs();
    if paths.is_empty() {
        let place = store::directory()
            .map_or("no store, as neither XDG_STATE_HOME nor HOME is set".into(), |place| {
                place.display().to_string()
            });
        terminal::print_line(&format!("no saved runs ({place}); use skye run DIR to measure"))?;
        return Ok(exit::DONE);
    }
    let style = terminal::style();
    // Documents are read one by one: they are large, and the shown part is small.
    let text = if arguments.trend {
        let measured = |path: &PathBuf| store::read(path).ok().map(|run| RunSummary::from(&run));
        report::trend::render(&paths.iter().map(measured).collect::<Vec<_>>(), &style)
    } else {
        let entry = |path: &PathBuf| Entry {
            name: run_names::short(path),
            run: store::read(path).map(|run| Summary::from(&run)),
        };
        report::list::render(&paths.iter().map(entry).collect::<Vec<_>>(), &style)
    };
    terminal::print_line(text.trim_end_matches('\n'))?;
    Ok(exit::DONE)
}

/// `skye clean`
pub fn clean(directory: &Path) -> CommandResult {
    // Caught so that a user who presses ^C while a removal hangs still gets the report.
    let interruption = Interruption::catch()?;
    let mut found = clean_in(directory).map_err(Failure::failed)?.map_err(Failure::refused)?;
    // A killed run may have left the files of its comparison with memory there.
    if directory != Path::new(MEMORY) {
        let removed = |cleaned: &CleanOutcome| matches!(cleaned, CleanOutcome::Removed(_));
        let in_memory = run::clean(MEMORY.as_ref(), &AtomicU64::new(0)).unwrap_or_default();
        found.extend(in_memory.into_iter().filter(|(_, cleaned)| removed(cleaned)));
    }
    // So may a program that was killed while it was sent to this host.
    found.extend(upload_directories().into_iter().flat_map(|place| {
        let removed =
            hang_detection::sample("find leftovers", move || run::clean_uploads(&place)).unwrap_or_default();
        removed.into_iter().map(|path| (path, CleanOutcome::Removed(0)))
    }));
    let settings = rig::put_settings_back();
    let mut code = exit::DONE;
    if found.is_empty() && settings.is_empty() {
        terminal::print_line(&format!(
            "no leftovers of skye in {}",
            report::printable(&directory.display().to_string())
        ))?;
    }
    for (path, cleaned) in found {
        let path = report::printable(&path.display().to_string());
        let line = match cleaned {
            CleanOutcome::Removed(0) => format!("removed  {path}"),
            CleanOutcome::Removed(1) => format!("removed  {path} with 1 file"),
            CleanOutcome::Removed(files) => format!("removed  {path} with {files} files"),
            CleanOutcome::Live(0) => format!("in use   {path}"),
            CleanOutcome::Live(pid) => format!("in use   {path} by process {pid}"),
            CleanOutcome::Leftover(why) => {
                code = exit::FAILED;
                format!("left     {path}: {}", report::printable(&why))
            }
        };
        terminal::print_line(&line)?;
    }
    for line in settings.iter().flat_map(|cleaned| &cleaned.undone) {
        terminal::print_line(&format!("put back {}", report::printable(line)))?;
    }
    for line in settings.iter().flat_map(|cleaned| &cleaned.leftovers) {
        code = exit::FAILED;
        terminal::print_line(&format!("left     {}", report::printable(line)))?;
    }
    Ok(interruption.exit_code().unwrap_or(code))
}

/// Returns the directories in which a host keeps a program that is sent to it.
fn upload_directories() -> Vec<PathBuf> {
    let own = ["XDG_RUNTIME_DIR", "HOME"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let places = own.chain([MEMORY, "/tmp", "/var/tmp"].map(PathBuf::from));
    let mut places: Vec<_> = places.filter(|place| place.is_absolute()).collect();
    places.sort();
    places.dedup();
    places
}

type CleanedDirectories = Vec<(PathBuf, CleanOutcome)>;

/// Cleans as long as something is removed. The target may be on a server that does not answer.
fn clean_in(directory: &Path) -> Result<Result<CleanedDirectories, UserError>, UserError> {
    let progress = Arc::new(AtomicU64::new(0));
    let (seen, theirs) = (Arc::clone(&progress), directory.to_owned());
    let action = format!("clean {}", directory.display());
    hang_detection::wait_with_progress(
        &action,
        || progress.load(Ordering::Relaxed),
        move || run::clean(&theirs, &seen),
    )
}
