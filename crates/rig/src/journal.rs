//! Changes to the machine that outlive a process, each written down before it is made.
//!
//! A [`Journal`] is a file that stays locked while its process works by it. Dropping it undoes its steps, the last one
//! first, and removes the file. A killed process leaves the file without its lock: then [`clean`] does the same.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::UserError;
use rustix::fs::FlockOperation;

use crate::holder::{Holder, State};
use crate::settings::FirstSettings;
use crate::step::{Outcome, Step};
use crate::{PREFIX, command, mounts};

/// Directory of journals, for users who may write there.
const HOME: &str = "/run/skye-rigs";
/// Extension of a journal's name.
const EXTENSION: &str = "journal";
/// Beginning of its first line, before the words of its holder.
const HEAD: &str = "skye-rig/2";
/// Attempts to make a journal, while others remove the empty directory or take the same name.
const TRIES: usize = 100;

/// The changes made, and the way to undo them. Dropping it undoes them.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    steps: Vec<Step>,
    is_undone: bool,
}

impl Journal {
    /// Begins an empty journal.
    ///
    /// # Errors
    /// It can be written neither in `/run` nor in the directory of temporary files.
    pub fn open() -> Result<Self, UserError> {
        let mut first_error = None;
        for home in homes() {
            match begin(&home) {
                Ok((file, path)) => return Ok(Self { file, path, steps: Vec::new(), is_undone: false }),
                Err(error) => {
                    let action = format!("create a journal in {}", home.display());
                    first_error.get_or_insert(UserError::new(action, error));
                }
            }
        }
        let none = || UserError::new("create a journal", "there is no directory for it");
        Err(first_error.unwrap_or_else(none).help("free some space in /run, or run it as root"))
    }

    /// Path of its file, for [`clean_one`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a step down before it is made.
    pub(crate) fn note(&mut self, step: Step) -> Result<(), UserError> {
        // Write it in one piece: a line without its end was never acted upon.
        let written = step.line().and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()));
        written
            .and_then(|()| self.file.sync_all())
            .map_err(|error| UserError::new(format!("write {}", self.path.display()), error))?;
        self.steps.push(step);
        Ok(())
    }

    /// Writes settings down that commands are about to change. Undoing puts back those with the commands' values. Where these
    /// are not known, it only lists what has changed.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn keep_settings(&mut self, settings: FirstSettings) -> Result<(), UserError> {
        self.note(Step::Settings(settings))
    }

    /// Returns a handle that holds the lock of this journal, for the stdin of a command. Its changes are undone only after it
    /// ends, even if it outlives this process.
    ///
    /// # Errors
    /// No file can be opened any more.
    pub fn lock(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Ends the journal and undoes nothing.
    pub fn forget(mut self) {
        self.steps.clear();
    }

    /// Makes a directory with a unique name.
    ///
    /// # Errors
    /// The directory cannot be made there.
    pub fn directory_in(&mut self, parent: &Path) -> Result<PathBuf, UserError> {
        let parent = parent
            .canonicalize()
            .map_err(|error| UserError::new(format!("find {}", parent.display()), error))?;
        let path = parent.join(unique_name());
        self.note(Step::Directory(path.clone()))?;
        make_directory(&path)
            .map_err(|error| UserError::new(format!("create the directory {}", path.display()), error))?;
        Ok(path)
    }

    /// Makes a directory for files of `bytes` bytes: in memory if they fit there well, else in the directory of
    /// temporary files.
    ///
    /// # Errors
    /// It can be made in neither place.
    pub fn scratch(&mut self, bytes: u64) -> Result<PathBuf, UserError> {
        let room = rustix::fs::statvfs("/dev/shm").map_or(0, |stat| stat.f_bavail * stat.f_frsize);
        // Memory is shared with everything else that runs, so half of it is left alone.
        if room / 2 > bytes
            && let Ok(path) = self.directory_in(Path::new("/dev/shm"))
        {
            return Ok(path);
        }
        self.directory_in(&std::env::temp_dir())
    }

    /// Makes a file in a directory that this journal has made.
    ///
    /// # Errors
    /// It cannot be made, or is larger than a file may be there.
    pub fn file_in(&mut self, directory: &Path, name: &str, bytes: u64) -> Result<PathBuf, UserError> {
        let path = directory.join(name);
        self.note(Step::File(path.clone()))?;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|file| file.set_len(bytes))
            .map_err(|error| UserError::new(format!("create the file {}", path.display()), error))?;
        Ok(path)
    }

    /// Makes a mount point in the directory of temporary files. Within a file system that has to be unmounted itself,
    /// it would be in the way.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn mount_point(&mut self) -> Result<PathBuf, UserError> {
        self.directory_in(&std::env::temp_dir())
    }

    /// Mounts as `mount -t FILE_SYSTEM -o OPTIONS SOURCE` does, at a new mount point.
    ///
    /// # Errors
    /// The message of `mount`.
    pub fn mount(&mut self, file_system: &str, source: &str, options: &str) -> Result<PathBuf, UserError> {
        let at = self.mount_point()?;
        self.note(Step::Mount { file_system: file_system.into(), at: at.clone() })?;
        let mut mount = Command::new("mount");
        mount.args(["-t", file_system]);
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        mount.arg(source).arg(&at);
        self.run(&mut mount, &format!("mount {source} as {file_system}"))?;
        Ok(at)
    }

    /// Runs a command to its end. The command holds the lock of this journal: if it outlives a killed process, its work
    /// is undone only after it ends.
    pub(crate) fn run(&self, command: &mut Command, action: &str) -> Result<String, UserError> {
        let lock = self.file.try_clone().map_err(|error| UserError::new(action, error))?;
        command::run(command.stdin(Stdio::from(lock)), action)
    }

    /// Undoes everything, the last step first. Returns the steps that could not be undone, and why; the journal then
    /// stays for [`clean`]. A second call does nothing.
    pub fn undo(&mut self) -> Vec<String> {
        let steps = std::mem::take(&mut self.steps);
        if std::mem::replace(&mut self.is_undone, true) {
            Vec::new()
        } else {
            undo(&steps, &self.path).leftovers
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for left in self.undo() {
            log::warn!("not removed: {left}");
        }
    }
}

/// Result of cleaning one journal.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct CleanOutcome {
    /// Its file.
    pub journal: PathBuf,
    /// Changes that were undone, in this order.
    pub undone: Vec<String>,
    /// Changes that were not undone, and why.
    pub leftovers: Vec<String>,
}

/// Undoes everything that killed rigs have left. Touches no live rig, no settings of the machine, and nothing that no journal
/// names.
pub fn clean() -> Vec<CleanOutcome> {
    let rigs = list().into_iter().filter(|journal| !has_settings(journal));
    rigs.filter_map(|journal| clean_one(&journal)).collect()
}

/// Returns true for a journal of settings of the machine.
fn has_settings(journal: &Path) -> bool {
    read_path(journal).iter().any(|step| matches!(step, Step::Settings(_)))
}

/// Returns the journal of another program that may change some of these settings, with true if the program still runs. Waits
/// for programs that do not know yet what they change.
pub fn other_owner(own: &Journal, first: &FirstSettings) -> Option<(PathBuf, bool)> {
    let overlaps = |step: &Step| matches!(step, Step::Settings(theirs) if theirs.overlaps(first));
    let is_open = |step: &Step| matches!(step, Step::Settings(theirs) if theirs.is_open());
    let found = |path: &PathBuf| {
        let steps = read_path(path);
        (path != own.path() && steps.iter().any(overlaps)).then(|| (path.clone(), steps.iter().any(is_open)))
    };
    for _ in 0..TRIES {
        let others: Vec<_> =
            list().iter().filter_map(found).map(|(path, open)| (is_live(&path), open, path)).collect();
        if let Some((is_live, _, path)) = others.iter().find(|(is_live, is_open, _)| !(*is_live && *is_open))
        {
            return Some((path.clone(), *is_live));
        }
        if others.is_empty() {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    list().iter().filter_map(found).map(|(path, _)| (path, true)).next()
}

/// Cleans one journal; `None` if a process uses it, or if it does not exist.
pub fn clean_one(journal: &Path) -> Option<CleanOutcome> {
    let mut file = match lock(journal) {
        Ok(file) => file,
        // The process with the lock uses the journal, unless it was killed or has ended.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            match holder(journal)?.state() {
                State::Alive => return None,
                // One of its threads hangs in a dead server, and gets an error this way.
                State::Killed => {
                    for step in File::open(journal).map(|mut file| read(&mut file)).ok()? {
                        step.abort();
                    }
                }
                // A command that it started still works, and will end.
                State::Ended => {}
            }
            match lock_with_timeout(journal) {
                Some(file) => file,
                None => {
                    let leftovers = vec![String::from("all steps: a command that it started does not exit")];
                    return Some(CleanOutcome { journal: journal.to_owned(), undone: Vec::new(), leftovers });
                }
            }
        }
        Err(_) => return None,
    };
    let steps = read(&mut file);
    // Its server, if it had one, died with it.
    let aborted = steps.iter().filter(|step| step.abort()).map(Step::to_string).collect::<Vec<_>>();
    let mut cleaned = undo(&steps, journal);
    cleaned.undone.splice(0..0, aborted);
    Some(cleaned)
}

/// Lists all journals, of live and of dead rigs.
pub fn list() -> Vec<PathBuf> {
    let mut journals = Vec::new();
    for home in homes().into_iter().filter(|home| is_ours(home)) {
        let entries = fs::read_dir(&home).into_iter().flatten().flatten().map(|entry| entry.path());
        journals.extend(entries.filter(|path| path.extension().is_some_and(|found| found == EXTENSION)));
    }
    journals.sort();
    journals
}

/// Returns true if a process works by a journal.
pub fn is_live(journal: &Path) -> bool {
    lock(journal).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// Lists the journals that no process works by any more.
pub fn abandoned() -> Vec<PathBuf> {
    list().into_iter().filter(|journal| !is_live(journal)).collect()
}

/// Puts back the settings that killed programs have left.
pub fn put_settings_back() -> Vec<CleanOutcome> {
    list().into_iter().filter(|path| has_settings(path)).filter_map(|journal| clean_one(&journal)).collect()
}

/// Lists the changes that a journal names, as lines for people.
pub fn steps(journal: &Path) -> Vec<String> {
    read_path(journal).iter().map(Step::to_string).collect()
}

/// Returns the directories of a journal that names nothing else, and none otherwise. If other programs leave files in
/// one, they must remove them before [`clean`] can.
pub fn plain_directories(journal: &Path) -> Vec<PathBuf> {
    let steps = read_path(journal);
    let directory = |step: &Step| match step {
        Step::Directory(path) => Some(path.clone()),
        _ => None,
    };
    steps.iter().map(directory).collect::<Option<_>>().unwrap_or_default()
}

fn homes() -> [PathBuf; 2] {
    let user = rustix::process::geteuid().as_raw();
    [HOME.into(), std::env::temp_dir().join(format!("skye-rigs-{user}"))]
}

/// Returns true if a directory belongs to us alone: files that others can write are not trusted.
fn is_ours(directory: &Path) -> bool {
    let found = fs::symlink_metadata(directory);
    found.is_ok_and(|found| {
        let own = found.uid() == rustix::process::geteuid().as_raw();
        found.is_dir() && own && found.mode() & 0o7777 == 0o700
    })
}

fn begin(home: &Path) -> io::Result<(File, PathBuf)> {
    for _ in 0..TRIES {
        match make_directory(home) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        if !is_ours(home) {
            // Someone else may have removed it, as it was empty.
            if home.exists() {
                return Err(io::Error::other("it is not a private directory of this user"));
            }
            continue;
        }
        let path = home.join(format!("{}-{}.{EXTENSION}", std::process::id(), unique_letters()));
        let made = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
        let mut file = match made {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
                continue;
            }
            made => made?,
        };
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        // A cleaning process may have found it between its making and its locking.
        if file.metadata()?.nlink() == 0 {
            continue;
        }
        file.write_all(format!("{HEAD} {}\n", Holder::this().words()).as_bytes())?;
        file.sync_all()?;
        // If a directory cannot be synced, its entries are durable with the file.
        let _ = File::open(home).and_then(|home| home.sync_all());
        return Ok((file, path));
    }
    Err(io::Error::other("other processes keep removing it"))
}

fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

pub(crate) fn unique_letters() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(8).collect()
}

pub(crate) fn unique_name() -> String {
    format!("{PREFIX}{}", unique_letters())
}

fn lock(journal: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).append(true).open(journal)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn lock_with_timeout(journal: &Path) -> Option<File> {
    (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        lock(journal).ok()
    })
}

/// Returns the process that has begun a journal.
fn holder(journal: &Path) -> Option<Holder> {
    parse_head(fs::read_to_string(journal).ok()?.lines().next()?)
}

fn parse_head(head: &str) -> Option<Holder> {
    Holder::parse(head.strip_prefix(HEAD)?)
}

/// Reads the steps of the journal at a path; none if it cannot be opened.
fn read_path(journal: &Path) -> Vec<Step> {
    File::open(journal).map(|mut file| read(&mut file)).unwrap_or_default()
}

/// Reads the steps of a journal; a line without its end was never acted upon.
fn read(file: &mut File) -> Vec<Step> {
    let mut bytes = Vec::new();
    // Every line that can be read is undone.
    let _ = file.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
    match lines.next() {
        Some(head) if head.starts_with(HEAD) => {
            let is_past = parse_head(head).is_some_and(|holder| holder.is_from_other_boot());
            lines.filter_map(Step::parse).filter(|step| !is_past || step.survives_reboot()).collect()
        }
        _ => Vec::new(),
    }
}

fn undo(steps: &[Step], journal: &Path) -> CleanOutcome {
    let mut cleaned = CleanOutcome { journal: journal.to_owned(), ..CleanOutcome::default() };
    for (index, step) in steps.iter().enumerate().rev() {
        if steps[index + 1..].iter().any(|later| step.is_superseded_by(later)) {
            continue;
        }
        match step.undo() {
            Outcome::Undone => cleaned.undone.push(step.to_string()),
            Outcome::NotThere => {}
            Outcome::Leftover(why) => cleaned.leftovers.push(format!("{step}: {why}")),
            Outcome::Parts(undone, leftovers) => {
                cleaned.undone.extend(undone);
                cleaned.leftovers.extend(leftovers);
            }
        }
    }
    if cleaned.leftovers.is_empty() {
        let _ = fs::remove_file(journal);
        // This succeeds only while it is empty.
        let _ = journal.parent().map(fs::remove_dir);
    }
    cleaned
}

/// Returns true if something is mounted at this very path.
pub fn is_mounted(path: &Path) -> bool {
    !mounts::at(path).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Spec;
    use crate::fuse::{Faults, Fuse};
    use crate::settings::{Place, Settings};

    #[test]
    fn dropped_journal_undoes_its_steps() {
        let mut journal = Journal::open().unwrap();
        let path = journal.path().to_owned();
        let directory = journal.directory_in(&std::env::temp_dir()).unwrap();
        let file = journal.file_in(&directory, "file", 10).unwrap();
        assert!(is_live(&path) && list().contains(&path) && file.exists());
        assert_eq!(steps(&path).len(), 2);
        assert_eq!(clean_one(&path), None, "it lives");
        drop(journal);
        assert!(!directory.exists() && !path.exists());
    }

    #[test]
    fn settings_of_a_killed_program_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let knob = directory.path().join("knob");
        let read = || Settings::read_at([Place::File(knob.clone())].into_iter());
        let set = |value: &str| fs::write(&knob, value).unwrap();
        set("1\n");
        let first = read();
        set("2\n");
        let mut journal = Journal::open().unwrap();
        journal.keep_settings(first.before(&[&read()])).unwrap();
        let is_here = |cleaned: &CleanOutcome| cleaned.journal == journal.path;
        assert!(!put_settings_back().iter().any(is_here), "it lives");
        rustix::fs::flock(&journal.file, FlockOperation::Unlock).unwrap();
        let cleaned = put_settings_back().into_iter().find(is_here).unwrap();
        assert!(cleaned.undone[0].ends_with("knob is 1 again") && cleaned.leftovers.is_empty());
        assert_eq!(fs::read_to_string(&knob).unwrap(), "1\n");
        assert!(!journal.path.exists());
        // Where nobody knows what changed a setting, it stays.
        let mut journal = Journal::open().unwrap();
        journal.keep_settings(read().as_first()).unwrap();
        set("3\n");
        rustix::fs::flock(&journal.file, FlockOperation::Unlock).unwrap();
        let cleaned =
            put_settings_back().into_iter().find(|cleaned| cleaned.journal == journal.path).unwrap();
        assert!(cleaned.leftovers[0].contains("1 → 3") && journal.path.exists(), "{cleaned:?}");
        assert_eq!(fs::read_to_string(&knob).unwrap(), "3\n");
        fs::remove_file(&journal.path).unwrap();
    }

    #[test]
    fn unlocked_journal_is_undone_by_cleaner() {
        let mut journal = Journal::open().unwrap();
        let directory = journal.directory_in(&std::env::temp_dir()).unwrap();
        let file = journal.file_in(&directory, "file", 10).unwrap();
        fs::write(directory.join("foreign"), "").unwrap();
        journal.file.write_all(b"file /half").unwrap();
        let path = journal.path().to_owned();
        // This is what a killed process does: the lock goes, and nothing is undone.
        let Journal { file: lock, .. } = &journal;
        rustix::fs::flock(lock, FlockOperation::Unlock).unwrap();
        let cleaned = clean_one(&path).unwrap();
        assert!(!file.exists() && directory.exists() && path.exists(), "{cleaned:?}");
        assert!(
            cleaned.undone[0].contains("file") && cleaned.leftovers[0].contains("not empty"),
            "{cleaned:?}"
        );
        fs::remove_file(directory.join("foreign")).unwrap();
        let cleaned = clean_one(&path).unwrap();
        assert!(!directory.exists() && !path.exists() && cleaned.leftovers.is_empty(), "{cleaned:?}");
        journal.is_undone = true;
    }

    #[test]
    fn locked_journal_is_kept_even_if_process_is_dead() {
        xtask::require!(root, fuse);
        let mut fuse = Fuse::mount(&Spec::fuse(), Faults::default()).unwrap();
        let path = fuse.journal().path().to_owned();
        let noted = fs::read_to_string(&path).unwrap();
        let (head, steps) = noted.split_once('\n').unwrap();
        let words: Vec<_> = head.split(' ').collect();
        let pretend = |head: &str| fs::write(&path, format!("{head}\n{steps}")).unwrap();
        // No process has this PID. In another namespace, or in an unknown one, that means nothing.
        pretend(&format!("{HEAD} 4194305 1 {} {}", words[3], words[4]));
        assert_eq!(clean_one(&path), None);
        pretend(&format!("{HEAD} 4194305"));
        assert_eq!(clean_one(&path), None);
        // In our namespace the process has ended, and so has its server. The cleaner waits for the lock, and does no
        // more.
        pretend(&format!("{HEAD} 4194305 {} {} {}", words[2], words[3], words[4]));
        let cleaned = clean_one(&path).unwrap();
        assert!(cleaned.undone.is_empty() && cleaned.leftovers[0].contains("does not exit"), "{cleaned:?}");
        assert!(is_mounted(fuse.path()) && path.exists(), "it lives");
        let at = fuse.path().to_owned();
        drop(fuse);
        assert!(!at.exists() && !path.exists());
    }

    #[test]
    fn journal_from_earlier_boot_has_no_device_steps() {
        let path = std::env::temp_dir().join(unique_name());
        let line = Step::Zram { number: "0".into(), bytes: 1, sequence: None }.line().unwrap();
        let steps_after = |head: &str| {
            fs::write(&path, format!("{head}\n{line}\n{{\"File\":\"/x\"}}\n")).unwrap();
            steps(&path).len()
        };
        assert_eq!(steps_after(&format!("{HEAD} {}", Holder::this().words())), 2);
        assert_eq!(steps_after(&format!("{HEAD} 1")), 2);
        assert_eq!(steps_after(&format!("{HEAD} 1 2 3 another-start")), 1);
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn untrusted_journal_directory_is_refused() {
        let home = std::env::temp_dir().join(unique_name());
        DirBuilder::new().mode(0o755).create(&home).unwrap();
        assert!(!is_ours(&home) && begin(&home).is_err());
        fs::remove_dir(&home).unwrap();
        let link = std::env::temp_dir().join(unique_name());
        std::os::unix::fs::symlink("/run", &link).unwrap();
        assert!(!is_ours(&link));
        fs::remove_file(link).unwrap();
    }
}
