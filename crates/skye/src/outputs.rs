//! Files that were asked for by name.

use std::fs::OpenOptions;
use std::path::Path;

use model::Trouble;

use crate::exit::Failure;
use crate::{store, terminal};

/// Whether a name means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn trouble(path: &Path, error: &std::io::Error) -> Trouble {
    Trouble::new(format!("write {}", path.display()), error)
        .remedy("name a file in a directory that you can write to, with room in it")
}

/// Finds out before a run whether a file can be written after it.
///
/// # Errors
/// It cannot.
pub fn check(path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(());
    }
    let existed = path.exists();
    // Not truncated: a run that fails must not have cost an older result.
    OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| Failure::refused(trouble(path, &error)))?;
    if !existed {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Writes a document to a file, or to stdout.
///
/// # Errors
/// The path, and why.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if is_stdout(path) {
        return terminal::print_bytes(bytes);
    }
    store::write_whole(path, bytes).map_err(|error| Failure::failed(trouble(path, &error)))
}
