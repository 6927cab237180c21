//! The store of runs: one JSON file each, named by time and a word, in the state directory of the user.

use std::fs::File;
use std::io::{Error, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use model::health::RunStore;
use model::run::{Environment, PhaseRecord, Place, RateRange, Status};
use model::target::Target;
use model::{Plan, Run, UserError};
use run::hang_detection;

use crate::{inputs, run_names};

/// Bytes of one write. The slowest place writes them in much less time than the limit of the wait.
const CHUNK_BYTES: usize = 64 << 10;

/// Returns the directory of saved runs: `$XDG_STATE_HOME/skye/runs`, or below `$HOME/.local/state`; `None` without
/// either.
pub fn directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("skye/runs"))
}

/// Returns whether the store can be written to, and its free space. Nothing is written.
pub fn state() -> RunStore {
    let Some(directory) = directory() else {
        return RunStore { path: None, unwritable: None, free_bytes: None };
    };
    let state = |directory: &Path| {
        use rustix::fs::{Access, AtFlags, CWD, accessat, statvfs};
        use rustix::io::Errno;
        let place = resolved(directory)?;
        // Missing directories are made with the first run.
        let existing = place.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        if !existing.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        accessat(CWD, existing, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        let space = statvfs(existing)?;
        Ok::<_, Error>(space.f_bavail.saturating_mul(space.f_frsize))
    };
    let found = inputs::with_hang_check(&directory, state);
    let path = Some(directory.display().to_string());
    match found {
        Ok(free) => RunStore { path, unwritable: None, free_bytes: Some(free) },
        Err(error) => RunStore { path, unwritable: Some(UserError::new("", error).cause), free_bytes: None },
    }
}

/// Returns the directory for files that belong beside a document.
fn output_dir_of(document: &Path) -> PathBuf {
    document.with_extension("monitor")
}

/// Makes the directory for files that belong beside the document of a run that has begun. This reserves the document's
/// name, too. Returns the directory, and the name under which [`save`] is to save the run.
///
/// # Errors
/// The directory cannot be made.
pub fn reserve(directory: &Path, started_at: &str) -> std::io::Result<(PathBuf, PathBuf)> {
    let directory = &resolved(directory)?;
    std::fs::create_dir_all(directory)?;
    for document in run_names::free(directory, started_at).filter(|document| !document.exists()) {
        let output_dir = output_dir_of(&document);
        match std::fs::create_dir(&output_dir) {
            Ok(()) => return Ok((output_dir, document)),
            // Another run began in the same second.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::other("all names are in use"))
}

/// Returns true if a run with this plan belongs into the store. Numbers that were never on a device must not be found
/// among results.
pub fn accepts(plan: &Plan) -> bool {
    plan.phases.iter().all(|phase| phase.workload.data().is_none() || phase.engine.needs_files())
}

/// Saves a run under a new name, or under `reserved` if it has that name already. Creates the directory if needed.
///
/// # Errors
/// The message contains the path, the cause, and what to do.
pub fn save(run: &Run, directory: &Path, reserved: Option<&Path>) -> Result<PathBuf, UserError> {
    let action = format!("save the run in {}", directory.display());
    let document = report::json::write(run).into_bytes();
    let started_at = run.started_at.clone();
    let (directory, reserved) = (directory.to_owned(), reserved.map(Path::to_owned));
    let work = move |written: &AtomicU64| {
        let place = resolved(&directory)?;
        std::fs::create_dir_all(&place)?;
        // Takes the file name from the path that the user knows, but not the directory.
        let there = |path: PathBuf| Some(place.join(path.file_name()?));
        let names = run_names::free(&place, &started_at);
        let reserved = reserved.and_then(there).filter(|path| !path.exists());
        // A file with the same stem belongs to another run.
        let is_free = |path: &PathBuf| {
            !(path.exists() || path.with_extension("csv").exists() || output_dir_of(path).exists())
        };
        for path in reserved.into_iter().chain(names.filter(is_free)) {
            match write_new(&path, &document, written) {
                // Another run ended in the same moment.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                done => return done.map(|()| directory.join(path.file_name().unwrap_or_default())),
            }
        }
        Err(Error::other("all names are in use"))
    };
    hang_detection::write_with_progress(&action, work)?.map_err(|error| {
        UserError::new(action, error)
            .help("choose another directory with -o DIR, or free some space; the run is printed here")
    })
}

/// Writes a file so that it is there whole or not at all.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut File) -> std::io::Result<()>) -> std::io::Result<()> {
    match path.metadata() {
        // A disk is never meant.
        Ok(metadata) if metadata.file_type().is_block_device() => {
            return Err(Error::other("it is a block device"));
        }
        // Other devices, pipes and the like cannot be replaced; they are written to.
        Ok(metadata) if !metadata.is_file() => {
            return write(&mut std::fs::OpenOptions::new().write(true).open(path)?);
        }
        _ => {}
    }
    let path = &resolved(path)?;
    write_temporary(path, |part, file| {
        if let Ok(before) = path.metadata() {
            // Copies mode and owner as far as we may: the new file is no more open than the one that it replaces.
            file.set_permissions(before.permissions())?;
            let _ = std::os::unix::fs::fchown(&*file, Some(before.uid()), Some(before.gid()));
        }
        write(file)?;
        file.sync_all()?;
        std::fs::rename(part, path)
    })
}

/// Writes a file in the same way, but only if it is not there yet.
fn write_new(path: &Path, bytes: &[u8], written: &AtomicU64) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    write_temporary(path, |part, file| {
        write_counted(file, bytes, written)?;
        file.sync_all()?;
        match renameat_with(CWD, part, CWD, path, RenameFlags::NOREPLACE) {
            // This file system cannot. A second name (hard link) is refused as well if the path exists.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                std::fs::hard_link(part, path)?;
                std::fs::remove_file(part)
            }
            renamed => Ok(renamed?),
        }
    })
}

/// Writes bytes, and counts the written ones.
pub fn write_counted(file: &mut File, bytes: &[u8], written: &AtomicU64) -> std::io::Result<()> {
    bytes.chunks(CHUNK_BYTES).try_for_each(|chunk| {
        file.write_all(chunk)?;
        written.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        Ok(())
    })
}

/// Makes the unfinished form of a file, and removes it if it does not become one.
fn write_temporary(
    path: &Path,
    fill: impl FnOnce(&Path, &mut File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let part = temporary_path(path);
    let mut file = File::create_new(&part)?;
    let filled = fill(&part, &mut file);
    filled.map_err(|error| match std::fs::remove_file(&part) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => leftovers(&part, &error),
        _ => error,
    })
}

/// Returns the path without links: a write replaces the file behind a link, not the link. A link that another user has
/// put where others write may lead to anything. It is refused, wherever in the path it is.
///
/// # Errors
/// The path has such a link, or too many links, or means something that no path leads to, as `/dev/fd/3` may.
pub fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    /// Most links that the kernel follows (path_resolution(7)).
    const LINKS_MAX: usize = 40;
    const OTHERS_WRITE: u32 = 0o022;
    let own = rustix::process::geteuid().as_raw();
    let parts =
        |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut left = parts(&std::path::absolute(path)?);
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(part) = left.pop() {
        match Path::new(&part).components().next() {
            Some(Component::ParentDir) => {
                at.pop();
                continue;
            }
            Some(Component::CurDir) | None => continue,
            _ => {}
        }
        let next = at.join(part);
        match next.symlink_metadata() {
            Ok(link) if link.is_symlink() => {
                links += 1;
                let is_writable_by_others = at.metadata()?.mode() & OTHERS_WRITE != 0;
                if is_writable_by_others && ![own, 0].contains(&link.uid()) {
                    let (path, user) = (next.display(), link.uid());
                    return Err(Error::other(format!(
                        "{path} is a symbolic link of user {user}, in a directory that other users can write to"
                    )));
                }
                if links > LINKS_MAX {
                    return Err(Error::other("it has too many links"));
                }
                left.extend(parts(&next.read_link()?));
            }
            // A missing part will be made, or the error comes then.
            _ => at = next,
        }
    }
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    match (identity(path), identity(&at)) {
        (Some(meant), found) if found != Some(meant) => {
            Err(Error::other("no path without symbolic links reaches it"))
        }
        _ => Ok(at),
    }
}

/// Returns the same error, with the remark that a file is left.
fn leftovers(part: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{error}, and {} was not removed", part.display()))
}

/// Returns the name of a file until it is whole.
fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Letters are random: processes in different containers may have the same number.
    let letters: String = std::iter::repeat_with(fastrand::alphanumeric).take(6).collect();
    name.push(format!(".{letters}.part"));
    path.with_file_name(name)
}

/// Checks that a file could be written at that path: makes its unfinished form, and removes it again.
///
/// # Errors
/// The file could not be written.
pub fn try_temporary(path: &Path) -> std::io::Result<()> {
    let part = temporary_path(&resolved(path)?);
    File::create_new(&part)?;
    std::fs::remove_file(&part).map_err(|error| leftovers(&part, &error))
}

/// Returns the paths of saved runs, newest first.
pub fn runs() -> Vec<PathBuf> {
    directory().map_or_else(Vec::new, |directory| runs_in(&directory))
}

/// Returns the saved runs of a directory, the last one first.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let paths = |directory: &Path| -> std::io::Result<Vec<_>> {
        Ok(std::fs::read_dir(directory)?.flatten().map(|entry| entry.path()).collect())
    };
    let paths = inputs::with_hang_check(directory, paths).ok();
    let mut paths: Vec<_> = paths
        .into_iter()
        .flatten()
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .collect();
    // Of two runs that began in the same second, the one that was saved last is the later.
    let saved = |path: &PathBuf| path.metadata().and_then(|found| found.modified()).ok();
    let second = |path: &PathBuf| {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().chars().take(run_names::TIME_LEN).collect::<String>())
    };
    paths.sort_by_cached_key(|path| (second(path), saved(path)));
    paths.reverse();
    paths
}

/// Number of newest runs in the store that are searched for earlier rates.
const EARLIER_RUNS_MAX: usize = 12;
/// Minimum number of runs, including the present one, for a prediction interval of another run.
const RUNS_MIN: usize = 4;

/// The tests of earlier runs on one place.
#[derive(Debug, Default)]
pub struct EarlierRuns(Vec<PhaseRecord>);

impl EarlierRuns {
    /// Returns the tests of the store's runs of the same version, on the same system and target.
    pub fn on(environment: &Environment) -> Self {
        let is_same = |run: &Run| {
            let (one, other) = (&run.environment, environment);
            let place = |target: &Target| {
                let devices: Vec<_> = target
                    .device_stack
                    .iter()
                    .map(|device| (device.name.clone(), device.size_bytes))
                    .collect();
                (target.source.clone(), target.mount_point.clone(), target.mount_options.clone(), devices)
            };
            run.skye_version == env!("CARGO_PKG_VERSION")
                && run.plan.clients.is_none()
                && (&one.host, &one.kernel) == (&other.host, &other.kernel)
                && place(&one.target) == place(&other.target)
        };
        let runs = runs().into_iter().take(EARLIER_RUNS_MAX).filter_map(|path| read(&path).ok());
        // Repetitions of one run resemble each other more than other runs do.
        let first = |phase: &PhaseRecord| phase.repetition == 1 && phase.status == Status::Done;
        Self(runs.filter(is_same).flat_map(|run| run.phases).filter(first).collect())
    }

    /// Returns the earlier runs of a test.
    fn runs_of(&self, record: &PhaseRecord) -> impl Iterator<Item = &PhaseRecord> {
        self.0.iter().filter(|phase| {
            phase.spec == record.spec
                && phase.workload == record.workload
                && phase.engine.name == record.engine.name
        })
    }

    /// Returns the rates of earlier runs of that test in other places; `None` without any.
    pub fn elsewhere(&self, record: &PhaseRecord) -> Option<RateRange> {
        let is_elsewhere = |phase: &&PhaseRecord| !Place::are_same(&record.seen.places, &phase.seen.places);
        let rates: Vec<f64> = self
            .runs_of(record)
            .filter(is_elsewhere)
            .filter_map(|phase| phase.figures.rate.ops_per_second)
            .collect();
        Some(RateRange {
            runs: rates.len() as u64,
            low_ops_per_second: rates.iter().copied().reduce(f64::min)?,
            high_ops_per_second: rates.iter().copied().reduce(f64::max)?,
        })
    }

    /// Returns the range in which another run's rate of that test is expected; `None` where too few runs are kept.
    pub fn next_after(&self, record: &PhaseRecord) -> Option<RateRange> {
        let rates: Vec<f64> = std::iter::once(record)
            .chain(self.runs_of(record))
            .filter_map(|phase| phase.figures.rate.ops_per_second)
            .collect();
        let next = stats::prediction_interval(&rates).filter(|_| rates.len() >= RUNS_MIN)?;
        Some(RateRange {
            runs: rates.len() as u64,
            low_ops_per_second: next.low,
            high_ops_per_second: next.high,
        })
    }
}

/// Returns the file that is meant by `@`, `@-1`, a path, the name of a saved run or its beginning, or a label. A directory means
/// the last run that was saved there with `-o`.
///
/// # Errors
/// There are fewer saved runs, or several are meant.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let Some(rest) = name.strip_prefix('@') else { return find_named(name) };
    let back = match rest {
        "" => Some(0),
        _ => rest.strip_prefix('-').and_then(|number| number.parse::<usize>().ok()),
    };
    let Some(back) = back else {
        return Err(format!("cannot find {name}: use @ for the last saved run, @-1 for the one before"));
    };
    let runs = runs();
    runs.get(back).cloned().ok_or_else(|| {
        let place = directory().map_or("a store (neither XDG_STATE_HOME nor HOME is set)".into(), |place| {
            place.display().to_string()
        });
        format!(
            "cannot find {name}: {place} has {}; use a file, or measure first with skye run DIR",
            plural(runs.len())
        )
    })
}

fn find_named(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    if path.is_dir() {
        // Names of saved runs begin with their times.
        return runs_in(&path).into_iter().next().ok_or_else(|| format!("cannot find a saved run in {name}"));
    }
    // A name has no directory in it.
    if name.contains('/') || name.is_empty() || path.symlink_metadata().is_ok() {
        return Ok(path);
    }
    let runs = runs();
    let mut found = run_names::matching(&runs, name);
    if found.is_empty() {
        let has_label = |path: &PathBuf| read(path).is_ok_and(|run| run.label.as_deref() == Some(name));
        found = runs.into_iter().filter(has_label).collect();
    }
    match &found[..] {
        [] => Ok(path),
        [only] => Ok(only.clone()),
        fleet_run => {
            let names: Vec<_> = fleet_run.iter().map(|path| run_names::short(path)).collect();
            Err(format!("{name} is ambiguous: {}", names.join(", ")))
        }
    }
}

fn plural(runs: usize) -> String {
    if runs == 1 { "1 run".into() } else { format!("{runs} runs") }
}

/// Reads a run from a file.
///
/// # Errors
/// The message contains the path, and what was expected where.
pub fn read(path: &Path) -> Result<Run, String> {
    parse(path, &text(path)?)
}

/// Returns the text of a file that should be a run, compressed or not. For a page that holds its run, returns the run's
/// text.
///
/// # Errors
/// The message contains the path, and why it cannot be read.
pub fn text(path: &Path) -> Result<String, String> {
    let bytes = inputs::read(path, inputs::DOCUMENT_BYTES_MAX).map_err(|error| {
        UserError::new(format!("read the run {}", path.display()), error)
            .help("use a saved run; skye list lists them")
            .to_string()
    })?;
    let refused = |problem: String| format!("cannot read the run {}: {problem}", path.display());
    if let Some(text) = report::json::gunzip(&bytes) {
        return text.map_err(refused);
    }
    let text = String::from_utf8(bytes).map_err(|_| refused("it is not text".into()))?;
    match report::html::embedded(&text) {
        None => Ok(text),
        Some(run) => run.map_err(refused),
    }
}

/// Parses the text of a run.
///
/// # Errors
/// The message contains the path, and what was expected where.
pub fn parse(path: &Path, text: &str) -> Result<Run, String> {
    report::json::read(text).map_err(|problem| format!("cannot read the run {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    #[test]
    fn earlier_runs_predict_the_range_of_the_next() {
        let row = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/rows/operations.json.gz");
        let record = read(&row).unwrap().phases.remove(0);
        let of_rate = |ops_per_second: f64| {
            let mut phase = record.clone();
            phase.figures.rate.ops_per_second = Some(ops_per_second);
            phase
        };
        let earlier = EarlierRuns([980.0, 1000.0, 1020.0].map(of_rate).into());
        let next = earlier.next_after(&of_rate(1010.0)).unwrap();
        assert_eq!(next.runs, 4);
        assert!(next.low_ops_per_second < 980.0 && next.high_ops_per_second > 1020.0, "{next:?}");
        // Other work, or too few runs, give no range.
        let other = PhaseRecord { spec: "read:rnd4k:q17".into(), ..of_rate(1010.0) };
        assert_eq!(earlier.next_after(&other), None);
        assert_eq!(EarlierRuns([980.0, 1000.0].map(of_rate).into()).next_after(&of_rate(1010.0)), None);
    }

    #[test]
    fn symlinks_of_other_users_in_sticky_directories_are_refused() {
        xtask::require!(root);
        let temp = tempfile::tempdir().unwrap();
        let temp = temp.path().canonicalize().unwrap();
        let at = |name: &str| temp.join(name);
        std::fs::create_dir(at("below")).unwrap();
        std::fs::write(at("below/file"), "precious").unwrap();
        for (name, to) in [("own", "below/file"), ("theirs", "own"), ("to-theirs", "theirs"), ("gone", "new")]
        {
            symlink(to, at(name)).unwrap();
        }
        symlink("below", at("directory")).unwrap();
        symlink(at("below"), at("their-directory")).unwrap();
        for name in ["theirs", "their-directory"] {
            lchown(at(name), Some(xtask::capability::OTHER_USER), None).unwrap();
        }
        let leads = |name: &str| resolved(&at(name)).ok();
        assert!(leads("theirs").is_some(), "nobody else could have put it there");
        std::fs::set_permissions(&temp, PermissionsExt::from_mode(0o1777)).unwrap();
        for name in ["below/file", "own", "directory/file", "below/../own", "./directory/../below/file"] {
            assert_eq!(leads(name), Some(at("below/file")), "{name}");
        }
        assert_eq!(leads("gone"), Some(at("new")));
        for name in ["theirs", "to-theirs", "their-directory", "their-directory/file"] {
            assert_eq!(leads(name), None, "{name}");
        }
        let gone = File::create(at("removed")).unwrap();
        std::fs::remove_file(at("removed")).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&gone);
        assert!(resolved(Path::new(&format!("/proc/self/fd/{number}"))).is_err());
        symlink("loop", at("loop")).unwrap();
        assert_eq!(leads("loop"), None);
        assert!(write_whole(&at("theirs"), |file| file.write_all(b"new")).is_err());
        assert!(try_temporary(&at("their-directory/file")).is_err());
        assert_eq!(std::fs::read_to_string(at("own")).unwrap(), "precious");
    }
}
