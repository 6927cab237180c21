//! Files that were asked for by name.

use std::collections::HashSet;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

use model::Trouble;
use run::patience;

use crate::exit::Failure;
use crate::{inputs, store, terminal};

/// Whether a name means stdout: `-`, or a name of the very file that stdout leads to, such as /dev/stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || leads_to_stdout(path).unwrap_or(false)
}

fn leads_to_stdout(path: &Path) -> Option<bool> {
    let stdout = rustix::fs::fstat(rustix::stdio::stdout()).ok()?;
    Some(identity(path)? == (stdout.st_dev, stdout.st_ino))
}

/// What tells the file behind a name from all others.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = inputs::patiently(path, Path::metadata).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn trouble(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::new(format!("write {}", path.display()), error)
        .remedy("name a file in a directory that you can write to, with room in it")
}

/// Finds out before a run whether a file can be written after it, without touching what is there.
///
/// # Errors
/// It cannot.
pub fn check(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    patiently(path, |path, _| match path.metadata() {
        // Written to, not replaced: pipes, /dev/null and the like; but never a disk.
        Ok(metadata) if metadata.file_type().is_block_device() => {
            Err(std::io::Error::other("it is a block device"))
        }
        Ok(metadata) if metadata.is_dir() => Err(std::io::Error::other("it is a directory")),
        Ok(metadata) if !metadata.is_file() => Ok(()),
        Ok(metadata) if inputs::was_read(&metadata) => {
            Err(std::io::Error::other("it was read for this very run"))
        }
        _ => store::try_part(path),
    })
    .map_err(Failure::refused)
}

/// Makes or changes a file in a place that may hang.
fn patiently<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce(&Path, &AtomicU64) -> std::io::Result<T> + Send + 'static,
) -> Result<T, Trouble> {
    let theirs = path.to_owned();
    let attempt = format!("write {}", path.display());
    patience::write_patiently(&attempt, move |written| work(&theirs, written))?
        .map_err(|error| trouble(path, &error))
}

/// Whether a file would take the place of one that it is made from.
///
/// # Errors
/// It would.
pub fn check_apart(output: &Path, inputs: &[PathBuf]) -> Result<(), Failure> {
    let Some(own) = identity(output) else { return Ok(()) };
    match inputs.iter().any(|input| identity(input) == Some(own)) {
        false => Ok(()),
        true => Err(Failure::refused(
            Trouble::new(format!("write {}", output.display()), "it is made from that very file")
                .remedy("give it another name"),
        )),
    }
}

/// Whether two documents would share stdout, or a file.
///
/// # Errors
/// They would.
pub fn check_stdout<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let files: Vec<_> = files.into_iter().collect();
    if files.iter().filter(|file| is_stdout(file)).count() > 1 {
        return Err(Failure::Refused(
            "cannot print more than one form on stdout: give the others files".into(),
        ));
    }
    check_distinct(files.into_iter().map(PathBuf::as_path))
}

/// Whether two documents would share a file that is there or is to be made; pipes and devices take several.
///
/// # Errors
/// They would.
pub fn check_distinct(files: impl IntoIterator<Item = impl AsRef<Path>>) -> Result<(), Failure> {
    // Where it will be; `None` of what takes several documents, and of what hangs, which is told when it is tried.
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
        let Some(place) = inputs::patiently(file, place).ok().flatten() else { continue };
        if !seen.insert(place) {
            return Err(Failure::refused(
                Trouble::new(format!("write {}", file.display()), "two documents would have that name")
                    .remedy("give each a name of its own"),
            ));
        }
    }
    Ok(())
}

/// The same for a directory that will be made if need be.
///
/// # Errors
/// It cannot be made, or nothing can be written in it.
pub fn check_directory(directory: &Path) -> Result<(), Failure> {
    patiently(directory, |directory, _| try_directory(directory)).map_err(Failure::refused)
}

/// Makes a directory if need be, and tries whether a file can be made in it.
///
/// # Errors
/// It cannot.
pub fn try_directory(directory: &Path) -> std::io::Result<()> {
    let directory = store::resolved(directory)?;
    std::fs::create_dir_all(&directory).and_then(|()| store::try_part(&directory.join("run.json")))
}

/// Writes a document to a file, or to stdout.
///
/// # Errors
/// The path, and why.
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
/// The path, why, and what to do.
pub fn write_file(path: &Path, bytes: Vec<u8>) -> Result<(), Trouble> {
    patiently(path, move |path, written| {
        store::write_whole(path, |file| store::write_counted(file, &bytes, written))
    })
}
