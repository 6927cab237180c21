//! Files that the user named for output.

use std::collections::HashSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use model::{Run, UserError};
use report::html::Embed;
use run::hang_detection;

use crate::cli::FormArguments;
use crate::exit::Failure;
use crate::{inputs, store, terminal};

/// Returns true if a name means stdout: `-`, or a name of the very file behind stdout, such as /dev/stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || leads_to_stdout(path).unwrap_or(false)
}

fn leads_to_stdout(path: &Path) -> Option<bool> {
    let stdout = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    Some(identity(path)? == (stdout.st_dev, stdout.st_ino))
}

/// Returns the device and inode of the file behind a name.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = inputs::with_hang_check(path, Path::metadata).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn write_error(path: &Path, error: &std::io::Error) -> UserError {
    UserError::new(format!("write {}", path.display()), error)
        .help("choose a file in a writable directory with free space")
}

/// Checks before a run that a file can be written after it. Leaves an existing file untouched.
///
/// # Errors
/// The file cannot be written.
pub fn check(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    with_hang_check(path, |path, _| match path.metadata() {
        // Pipes, /dev/null and the like are written to, not replaced. A disk is never written to.
        Ok(metadata) if metadata.file_type().is_block_device() => {
            Err(std::io::Error::other("it is a block device"))
        }
        Ok(metadata) if metadata.is_dir() => Err(std::io::Error::other("it is a directory")),
        Ok(metadata) if !metadata.is_file() => Ok(()),
        Ok(metadata) if inputs::was_read(&metadata) => Err(std::io::Error::other("this run reads it")),
        _ => store::try_temporary(path),
    })
    .map_err(Failure::refused)
}

/// Makes or changes a file in a place that may hang.
fn with_hang_check<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path, &AtomicU64) -> std::io::Result<T> + Send + 'static,
) -> Result<T, UserError> {
    let theirs = path.to_owned();
    let action = format!("write {}", path.display());
    hang_detection::write_with_progress(&action, move |written| work(&theirs, written))?
        .map_err(|error| write_error(path, &error))
}

/// Checks that a file does not replace one of its sources.
///
/// # Errors
/// The output is one of the inputs.
pub fn check_not_input(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let Some(own) = identity(output) else { return Ok(()) };
    match inputs.iter().any(|input| identity(input) == Some(own)) {
        false => Ok(()),
        true => Err(Failure::refused(
            UserError::new(format!("write {}", output.display()), "that file is its input")
                .help("choose another name"),
        )),
    }
}

/// A run as a document.
pub type Form = fn(&Run) -> String;

/// Returns the requested output files, each with its form; JSON is the first.
pub fn forms(arguments: &FormArguments) -> [(Option<&Path>, Form); 5] {
    [
        (arguments.json.as_deref(), report::json::write),
        (arguments.csv.as_deref(), report::csv::write),
        (arguments.csv_long.as_deref(), report::csv::long::write),
        (arguments.html.as_deref(), |run| report::html::page(run, Embed::Run)),
        (arguments.openmetrics.as_deref(), report::openmetrics::write),
    ]
}

/// Checks that no two documents share stdout or a file.
///
/// # Errors
/// Two documents share stdout or a file.
pub fn check_stdout<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<(), Failure> {
    let files: Vec<_> = files.into_iter().collect();
    if files.iter().filter(|file| is_stdout(file)).count() > 1 {
        return Err(Failure::Refused(
            "cannot print more than one format on stdout: use files for the others".into(),
        ));
    }
    check_distinct(files)
}

/// Checks that no two documents share a file, existing or not. Pipes and devices take several documents.
///
/// # Errors
/// Two documents share a file.
pub fn check_distinct(files: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<(), Failure> {
    // Place of the file. `None` if it takes several documents, or if it hangs, which the attempt to write reports.
    let place = |file: &Path| {
        let takes_one = file.metadata().map_or(true, |metadata| metadata.is_file());
        Ok(store::resolved(file).ok().filter(|_| takes_one))
    };
    let mut seen = HashSet::new();
    for file in files {
        let file = file.as_ref();
        if is_stdout(file) {
            continue;
        }
        let Some(place) = inputs::with_hang_check(file, place).ok().flatten() else { continue };
        if !seen.insert(place) {
            return Err(Failure::refused(
                UserError::new(format!("write {}", file.display()), "two documents would have this name")
                    .help("choose a separate name for each"),
            ));
        }
    }
    Ok(())
}

/// Checks that documents can be written in a directory, which is made if need be.
///
/// # Errors
/// The directory cannot be made, or nothing can be written in it.
pub fn check_directory(directory: &Path) -> Result<(), Failure> {
    with_hang_check(directory, |directory, _| try_directory(directory)).map_err(Failure::refused)
}

/// Makes a directory if need be, and tries to make a file in it.
///
/// # Errors
/// The directory or the file cannot be made.
pub fn try_directory(directory: &Path) -> std::io::Result<()> {
    let directory = store::resolved(directory)?;
    std::fs::create_dir_all(&directory).and_then(|()| store::try_temporary(&directory.join("run.json")))
}

/// Writes a document to a file, or to stdout.
///
/// # Errors
/// The message contains the path and the cause.
pub fn write(path: &Path, document: impl Into<Vec<u8>>) -> Result<(), Failure> {
    let bytes = document.into();
    if is_stdout(path) {
        return terminal::print_bytes(&bytes);
    }
    write_file(path, bytes).map_err(Failure::failed)
}

/// Writes a document to a file.
///
/// # Errors
/// The message contains the path, the cause, and what to do.
pub fn write_file(path: &Path, bytes: Vec<u8>) -> Result<(), UserError> {
    with_hang_check(path, move |path, written| {
        store::write_whole(path, |file| store::write_counted(file, &bytes, written))
    })
}
