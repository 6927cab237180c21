//! Reads whole files, up to a size limit for each kind, and refuses sources that have no end.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, Read, Result};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use model::size;
use run::hang_detection;

/// Size limit of a run's document, and of an older program's table. A test of an hour has some 20 MB.
pub const DOCUMENT_BYTES_MAX: u64 = 256 << 20;
/// Size limit of a description that a user writes: a preset, or a simulated device.
pub const DESCRIPTION_BYTES_MAX: u64 = 1 << 20;

/// Device and inode of each file that was read.
static READ_FILES: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// Returns true if a file was read. Nothing that is made from that file may replace it.
pub fn was_read(metadata: &Metadata) -> bool {
    READ_FILES.lock().unwrap_or_else(PoisonError::into_inner).contains(&(metadata.dev(), metadata.ino()))
}

/// Notes that a file is read. Nothing that is made from it may replace it.
pub fn note(metadata: &Metadata) {
    READ_FILES.lock().unwrap_or_else(PoisonError::into_inner).push((metadata.dev(), metadata.ino()));
}

/// Opens a regular file. Refuses devices and pipes, as they may have no end.
///
/// # Errors
/// The file is not regular, or cannot be opened.
pub fn open(path: &Path) -> Result<File> {
    let file = open_any(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Error::other("it is a directory"));
    }
    if !kind.is_file() {
        return Err(Error::other("it is a device or a pipe; choose a file"));
    }
    Ok(file)
}

/// Opens a file of any kind. Does not wait for the writer of a pipe.
///
/// # Errors
/// The file cannot be opened.
pub fn open_any(path: &Path) -> Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    note(&file.metadata()?);
    Ok(file)
}

/// Reads all of a regular file.
///
/// # Errors
/// The file is not regular, cannot be read, or is longer than `bytes_max`.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    with_hang_check(path, move |path| read_limited(open(path)?, bytes_max))
}

/// Accesses a path that may be on a server that does not respond.
///
/// # Errors
/// The access fails, or it hangs.
pub fn with_hang_check<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(&Path) -> Result<T> + Send + 'static,
) -> Result<T> {
    let theirs = path.to_owned();
    let action = format!("inspect {}", path.display());
    hang_detection::wait_with_progress(&action, || 0, move || call(&theirs))
        .map_err(|error| Error::other(error.cause))?
}

/// Reads all of a regular file as text.
///
/// # Errors
/// As [`read`]; or the file is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String> {
    String::from_utf8(read(path, bytes_max)?).map_err(|_| Error::other("it is not text"))
}

/// Reads everything that a reader gives.
///
/// # Errors
/// The reader fails, or gives more than `bytes_max`.
pub fn read_limited(reader: impl Read, bytes_max: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(bytes_max + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(Error::other(format!("it has more than {}", size::binary(bytes_max)))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_long_or_endless_input_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().to_string(), "it has more than 4 B");
        File::options().write(true).open(&path).unwrap().set_len(3 << 30).unwrap();
        assert!(read_text(&path, DESCRIPTION_BYTES_MAX).unwrap_err().to_string().contains("more than 1"));
        let pipe = temp.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for endless in [Path::new("/dev/zero"), &pipe] {
            assert!(read(endless, 5).unwrap_err().to_string().contains("a device or a pipe"), "{endless:?}");
        }
        assert!(read(temp.path(), 5).unwrap_err().to_string().contains("directory"));
    }
}
