//! The directory under which every source is read.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::File;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{CWD, Mode, OFlags, RawDir, ResolveFlags, SeekFrom};
use rustix::io::Errno;

/// Most bytes read of one file. The kernel's files are far smaller, and a fixture cannot exhaust the memory.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Attempts to open a file of a fixture.
const OPEN_ATTEMPTS_MAX: usize = 16;
/// Size of the stack buffer for a list of numbers: each call returns some 200 of them.
const NUMBERED_BUFFER_BYTES: usize = 8192;
/// Size of the buffer for a list that is read while it changes: room for one entry of any name, and few numbers.
const LIVE_BUFFER_BYTES: usize = 288;
/// Room for "2147483647/schedstat" and more.
const NUMBERED_PATH_BYTES: usize = 64;

/// The file system root under which every source is read: "/" or a fixture tree.
///
/// Below a fixture, absolute and climbing symbolic links stay inside it, as in a chroot.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    is_running_system: bool,
    failure: Option<FirstFailure>,
}

/// First error that hides something which is there: the path, and why it cannot be read.
type FirstFailure = Arc<OnceLock<String>>;

impl Root {
    /// Returns the root of the running system.
    pub fn system() -> Self {
        Self::at("/")
    }

    /// Returns the root of a tree that stands in for a machine, with `proc`, `sys` and other files.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let is_running_system = path == Path::new("/");
        Self { path, is_running_system, failure: None }
    }

    /// Returns the same root, which also keeps the first error that hides something. Only what is absent may read as absent
    /// where a wrong answer costs data.
    pub fn recording(&self) -> Self {
        Self { failure: Some(FirstFailure::default()), ..self.clone() }
    }

    /// Returns the first error of a [`Root::recording`] that hid something, as a clause.
    ///
    /// Processes whose files this user may not open are no error: they are listed on their own.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_ref()?.get().map(String::as_str)
    }

    /// Returns true for the running system, which system calls describe too.
    pub fn is_system(&self) -> bool {
        self.is_running_system
    }

    /// Returns the path of `relative` below the root; a leading slash makes no difference.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.path.join(relative.trim_start_matches('/'))
    }

    /// Opens a file for reading, if it is there and may be read.
    pub fn open(&self, relative: &str) -> Option<File> {
        self.descriptor(relative, OFlags::RDONLY | OFlags::NONBLOCK).map(File::from)
    }

    /// Reads the text of a file, if it is there and may be read. Replaces bytes that are not UTF-8.
    pub fn read(&self, relative: &str) -> Option<String> {
        let mut bytes = Vec::new();
        let file = self.open(relative)?;
        let failed = |errno| record(self.failure.as_ref(), &self.path(relative), errno);
        if let Err(error) = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes) {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            // Drivers answer so for an attribute that a device does not have.
            if !is_absent(errno) && !matches!(errno, Errno::INVAL | Errno::OPNOTSUPP) {
                failed(errno);
            }
            return None;
        }
        if bytes.len() as u64 > FILE_BYTES_MAX {
            if is_of_process(&self.path(relative)) {
                return None;
            }
            failed(Errno::FBIG);
            bytes.truncate(FILE_BYTES_MAX as usize);
        }
        Some(
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        )
    }

    /// Reads the text of a file without blanks around it; absent if nothing is left.
    pub fn line(&self, relative: &str) -> Option<String> {
        let text = self.read(relative)?;
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// Reads a file that holds one number.
    pub fn number<T: std::str::FromStr>(&self, relative: &str) -> Option<T> {
        self.line(relative)?.parse().ok()
    }

    /// Returns true if the path exists.
    pub fn exists(&self, relative: &str) -> bool {
        self.descriptor(relative, OFlags::PATH).is_some()
    }

    /// Lists the names in a directory, sorted so that "sda2" comes before "sda10"; empty if the directory is
    /// missing.
    pub fn list(&self, relative: &str) -> Vec<String> {
        let mut names = Vec::new();
        let Some(directory) = self.descriptor(relative, OFlags::RDONLY | OFlags::DIRECTORY) else {
            return names;
        };
        let mut buffer = Vec::with_capacity(8192);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => {
                    record_listing(self.failure.as_ref(), &self.path(relative), errno);
                    break;
                }
            };
            let name = entry.file_name().to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
        }
        names.sort_unstable();
        names.sort_by_cached_key(String::len);
        names
    }

    /// Follows all symbolic links of a path. Returns the result relative to the root, without a leading
    /// slash.
    pub fn real(&self, relative: &str) -> Option<String> {
        let descriptor = self.descriptor(relative, OFlags::PATH)?;
        let real = descriptor_path(&descriptor)
            .inspect_err(|errno| record(self.failure.as_ref(), &self.path(relative), *errno))
            .ok()?;
        if self.is_running_system {
            return Some(real.to_str()?.trim_start_matches('/').to_owned());
        }
        let top = descriptor_path(&rustix::fs::open(&self.path, OFlags::PATH, Mode::empty()).ok()?).ok()?;
        Some(real.strip_prefix(top).ok()?.to_str()?.to_owned())
    }

    /// Opens a directory whose entries are numbers, such as those of processes and threads.
    pub(crate) fn numbered(&self, relative: &str) -> Option<NumberedEntries> {
        let directory = self.descriptor(relative, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let failure = self.failure.clone().map(|failure| (self.path(relative), failure));
        Some(NumberedEntries { directory, failure })
    }

    fn descriptor(&self, relative: &str, flags: OFlags) -> Option<OwnedFd> {
        let path = self.path(relative);
        let opened = self.open_descriptor(&path, relative, flags | OFlags::CLOEXEC);
        let failed = opened.as_ref().err().copied();
        // The mounts of a process that has ended are an invalid argument.
        let is_listed = matches!(failed, Some(Errno::ACCESS | Errno::PERM | Errno::INVAL));
        if let Some(errno) = failed
            && !(is_absent(errno) || is_listed && is_of_process(&path))
        {
            record(self.failure.as_ref(), &path, errno);
        }
        opened.ok()
    }

    fn open_descriptor(&self, path: &Path, relative: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        if self.is_running_system {
            return rustix::fs::open(path, flags, Mode::empty());
        }
        let top = rustix::fs::open(&self.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // After a rename or mount anywhere on the system while ".." is resolved, the kernel requires another try.
        let open = || rustix::fs::openat2(top.as_fd(), relative, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        let mut tries = (0..OPEN_ATTEMPTS_MAX).map(|_| open());
        tries.find(|result| !matches!(result, Err(Errno::AGAIN))).unwrap_or(Err(Errno::AGAIN))
    }
}

/// An open directory with a subdirectory for each process or thread. Only an error allocates here.
#[derive(Debug)]
pub(crate) struct NumberedEntries {
    directory: OwnedFd,
    /// Path of the directory, and what keeps the first error.
    failure: Option<(PathBuf, FirstFailure)>,
}

impl NumberedEntries {
    /// Takes an open directory.
    pub(crate) fn new(directory: OwnedFd) -> Self {
        Self { directory, failure: None }
    }

    /// Calls `visit` with each number that is there now.
    pub(crate) fn visit(&self, visit: impl FnMut(i32)) {
        self.visit_with_buffer(&mut [MaybeUninit::uninit(); NUMBERED_BUFFER_BYTES], visit);
    }

    /// The same, but few numbers are listed before the first of them is visited. The kernel lists numbers in ascending order, so
    /// that a number which comes up during a visit is mostly listed, too.
    pub(crate) fn visit_live(&self, visit: impl FnMut(i32)) {
        self.visit_with_buffer(&mut [MaybeUninit::uninit(); LIVE_BUFFER_BYTES], visit);
    }

    fn visit_with_buffer(&self, buffer: &mut [MaybeUninit<u8>], mut visit: impl FnMut(i32)) {
        let failed = |errno| {
            if let Some((path, failure)) = &self.failure {
                record_listing(Some(failure), path, errno);
            }
        };
        if let Err(errno) = rustix::fs::seek(&self.directory, SeekFrom::Start(0)) {
            return failed(errno);
        }
        let mut entries = RawDir::new(&self.directory, buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return failed(errno),
            };
            let number = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            if let Some(number) = number {
                visit(number);
            }
        }
    }

    /// Opens a file of a process or thread, if it is there and may be read.
    pub(crate) fn open(&self, number: impl Display, name: &str) -> Option<File> {
        let mut path = [0; NUMBERED_PATH_BYTES];
        let mut rest = &mut path[..];
        write!(rest, "{number}/{name}").ok()?;
        let length = NUMBERED_PATH_BYTES - rest.len();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, &path[..length], flags, Mode::empty()).ok().map(File::from)
    }
}

/// Keeps the first error.
fn record(failure: Option<&FirstFailure>, path: &Path, errno: Errno) {
    if let Some(failure) = failure {
        let why = std::io::Error::from(errno);
        let _ = failure.set(format!("{} cannot be read: {why}", path.display()));
    }
}

/// Keeps the first error of a directory that was opened. Only that of a process may have gone since.
fn record_listing(failure: Option<&FirstFailure>, path: &Path, errno: Errno) {
    if !(is_absent(errno) && is_of_process(path)) {
        record(failure, path, errno);
    }
}

/// Returns true for errors of a file, device or process that is not there, or of a path that leads nowhere.
pub(crate) fn is_absent(errno: Errno) -> bool {
    let has_gone = matches!(errno, Errno::NOENT | Errno::SRCH | Errno::NOTDIR | Errno::NXIO | Errno::NODEV);
    has_gone || matches!(errno, Errno::LOOP | Errno::NAMETOOLONG)
}

/// Returns true for a path below the directory of a process.
fn is_of_process(path: &Path) -> bool {
    let below = path.strip_prefix("/proc").ok().filter(|below| below.iter().count() > 1);
    let process = below.and_then(|below| below.iter().next()?.to_str());
    process.is_some_and(|process| process.parse::<u32>().is_ok())
}

fn descriptor_path(descriptor: &OwnedFd) -> Result<PathBuf, Errno> {
    let link = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let path = rustix::fs::readlinkat(CWD, link, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::Root;

    #[test]
    fn symlinks_resolve_inside_the_root() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("etc/inner")).unwrap();
        std::fs::write(directory.path().join("etc/inner/name"), "fixture\n").unwrap();
        std::os::unix::fs::symlink("/etc/inner/name", directory.path().join("absolute")).unwrap();
        std::os::unix::fs::symlink("../../../etc/inner", directory.path().join("climbing")).unwrap();
        let root = Root::at(directory.path());
        assert_eq!(root.line("absolute").as_deref(), Some("fixture"));
        assert_eq!(root.line("/climbing/name").as_deref(), Some("fixture"));
        assert_eq!(root.real("climbing").as_deref(), Some("etc/inner"));
        assert_eq!(root.list("etc"), ["inner"]);
        assert!(!root.exists("etc/passwd"));
        assert_eq!(root.read("etc"), None);
    }

    #[test]
    fn numbered_directory_is_listed_again_after_changes() {
        let directory = tempfile::tempdir().unwrap();
        let make = |name: &str| std::fs::create_dir_all(directory.path().join("task").join(name)).unwrap();
        ["7", "self", "12", "99999999999"].into_iter().for_each(make);
        std::fs::write(directory.path().join("task/7/comm"), "seven\n").unwrap();
        let numbered = Root::at(directory.path()).numbered("task").unwrap();
        let list = || {
            let mut numbers = Vec::new();
            numbered.visit(|number| numbers.push(number));
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(list(), [7, 12]);
        make("13");
        assert_eq!(list(), [7, 12, 13]);
        let mut text = String::new();
        std::io::Read::read_to_string(&mut numbered.open(7, "comm").unwrap(), &mut text).unwrap();
        assert_eq!(text, "seven\n");
        assert!(numbered.open(12, "comm").is_none() && numbered.open(7, &"x".repeat(99)).is_none());
        assert!(Root::at(directory.path()).numbered("nothing").is_none());
    }

    #[test]
    fn system_root_reads_live_files() {
        let root = Root::system();
        assert!(root.is_system());
        assert!(root.line("/proc/self/status").is_some());
        assert!(root.real("proc/self").unwrap().starts_with("proc/"));
    }

    #[test]
    fn first_error_that_hides_something_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("long"), vec![b'x'; 4 << 20 | 1]).unwrap();
        std::fs::create_dir(directory.path().join("directory")).unwrap();
        let root = Root::at(directory.path()).recording();
        assert_eq!((root.read("absent"), root.list("absent").len(), root.list("long").len()), (None, 0, 0));
        assert_eq!(root.failure(), None);
        assert_eq!(root.read("long").map(|text| text.len()), Some(4 << 20));
        assert!(root.failure().unwrap().ends_with("long cannot be read: File too large (os error 27)"));
        assert_eq!(root.read("directory"), None);
        assert!(root.failure().unwrap().contains("long"));
    }
}
