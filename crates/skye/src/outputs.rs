//! Files that were asked for by name.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
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
    let refused = |error: std::io::Error| Failure::refused(trouble(path, &error));
    match OpenOptions::new().write(true).create_new(true).open(path) {
        // Only what was made here is taken away again.
        Ok(_) => std::fs::remove_file(path).map_err(refused),
        // Not truncated: a run that fails must not have cost an older result.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let file = OpenOptions::new().append(true).open(path).map_err(refused)?;
            if file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device()) {
                return Err(refused(std::io::Error::other("it is a block device")));
            }
            Ok(())
        }
        Err(error) => Err(refused(error)),
    }
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
