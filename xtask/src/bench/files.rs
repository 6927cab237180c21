//! What the loop on files costs: the same calls through it and bare.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use engine::clock::Monotonic;
use engine::files::{Create, FileOps, Place, RoundLimits, Stat, Unlink, Visits, round};
use engine::names::{FILE_DIGITS, Kind, Name, Tree};
use engine::recorder::Recorder;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::drained::while_drained;
use super::pinned::{Pinned, cpu_seconds};
use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Setting, program};
use crate::pairs::alternate_each;

pub(super) const BENCH: Bench =
    Bench { name: "files", measures: "create, stat and unlink on tmpfs: our loop against a bare one", run };

const FILES: u64 = 256 << 10;
/// Least rate through the loop, of the bare one.
const SHARE: f64 = 0.95;
/// Between two runs: the kernel frees unlinked inodes later, in batches.
const PAUSE: Duration = Duration::from_millis(50);

fn run(setting: &Setting) -> Result<Vec<Row>> {
    // Whoever may not mount measures in the tmpfs that is there.
    let mounted = Tmpfs::mount();
    let shared;
    let path = match &mounted {
        Ok(tmpfs) => tmpfs.path(),
        Err(_) => {
            shared = program::scratch_in_memory()?;
            shared.path()
        }
    };
    let pinned = Pinned::new()?;
    let files = Files::new(path, FILES)?;
    let names = files.names();
    let [create, stat, unlink] =
        alternate_each(setting.pairs, || files.ours(&pinned), || files.bare(&names))?;
    let row = |verb: &str, values| Row {
        what: format!("{verb}, ours over bare"),
        unit: "×",
        values,
        limit: Limit::AtLeast(SHARE),
    };
    Ok(vec![row("create", create), row("stat", stat), row("unlink", unlink)])
}

const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// The directory of a run, made and removed by it.
const DIRECTORY: &CStr = c"run";

/// Files that are made, looked at and removed.
struct Files {
    parent: OwnedFd,
    tree: Tree,
    /// Names with their NULs, one behind the other.
    names: Vec<u8>,
}

impl Files {
    fn new(path: &std::path::Path, files: u64) -> Result<Self> {
        let parent = rustix::fs::open(path, DIRECTORY_FLAGS, Mode::empty()).context("open the directory")?;
        let tree = Tree { files, dirs: 1, levels: 1 };
        let mut name = Name::new(tree, Kind::File);
        let names = (0..files).flat_map(|file| name.of(file).to_bytes_with_nul().to_vec()).collect();
        Ok(Self { parent, tree, names })
    }

    fn names(&self) -> Vec<&CStr> {
        // A letter, the digits, and NUL.
        let names = self.names.chunks_exact(FILE_DIGITS + 2);
        names.map(|name| CStr::from_bytes_with_nul(name).unwrap_or_default()).collect()
    }

    /// Operations per second of create, stat and unlink through the loop that the program runs.
    fn ours(&self, pinned: &Pinned) -> Result<[f64; 3]> {
        self.in_fresh_directory(|directory| {
            let place = Place { directory, leaves: &[], tree: self.tree };
            let unlink = Unlink::new(self.tree, Kind::File, Kind::File, false);
            Ok([
                self.through_loop(pinned, &place, Create::new(self.tree, None, false))?,
                self.through_loop(pinned, &place, Stat::<false>::new(self.tree))?,
                self.through_loop(pinned, &place, unlink)?,
            ])
        })
    }

    fn through_loop(&self, pinned: &Pinned, place: &Place<'_>, mut verb: impl FileOps) -> Result<f64> {
        let steps = verb.steps().len();
        let (mut recorder, reader) = Recorder::new(if steps > 1 { steps } else { 0 });
        let stop = AtomicBool::new(false);
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop };
        let visits = Visits::in_sequence(0, self.tree.files);
        let ((seconds, round), counted) = while_drained(pinned, reader, || {
            cpu_seconds(|| round(&mut verb, place, visits, &Monotonic, &mut recorder, limits))
        })?;
        round.result.map_err(|failure| anyhow!("{failure:?}"))?;
        let files = self.tree.files;
        ensure!(
            round.done == files && counted == files,
            "of {files}, {} done, {counted} counted",
            round.done
        );
        Ok(files as f64 / seconds)
    }

    /// The same of a loop that does nothing but the calls.
    fn bare(&self, names: &[&CStr]) -> Result<[f64; 3]> {
        self.in_fresh_directory(|directory| {
            let mode = Mode::RUSR.union(Mode::WUSR);
            Ok([
                bare(names, |name| rustix::fs::openat(directory, name, CREATE_FLAGS, mode).map(drop))?,
                bare(names, |name| {
                    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
                        .map(|stat| _ = std::hint::black_box(&stat))
                })?,
                bare(names, |name| rustix::fs::unlinkat(directory, name, AtFlags::empty()))?,
            ])
        })
    }

    fn in_fresh_directory<T>(&self, work: impl FnOnce(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
        thread::sleep(PAUSE);
        rustix::fs::mkdirat(&self.parent, DIRECTORY, Mode::RWXU).context("make a directory")?;
        let directory = rustix::fs::openat(&self.parent, DIRECTORY, DIRECTORY_FLAGS, Mode::empty())
            .context("open the new directory")?;
        let answer = work(directory.as_fd())?;
        rustix::fs::unlinkat(&self.parent, DIRECTORY, AtFlags::REMOVEDIR).context("remove the directory")?;
        Ok(answer)
    }
}

/// Operations per second of a call on each name.
fn bare(names: &[&CStr], call: impl Fn(&CStr) -> Result<(), rustix::io::Errno>) -> Result<f64> {
    let (seconds, done) = cpu_seconds(|| names.iter().try_for_each(|name| call(name)));
    done?;
    Ok(names.len() as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_do_the_same_and_leave_nothing() {
        let scratch = program::scratch_in_memory().unwrap();
        let files = Files::new(scratch.path(), 100).unwrap();
        let names = files.names();
        assert_eq!((names.len(), names[99]), (100, c"f00000063"));
        let pinned = Pinned::new().unwrap();
        for rates in [files.ours(&pinned).unwrap(), files.bare(&names).unwrap()] {
            assert!(rates.iter().all(|rate| *rate > 0.0), "{rates:?}");
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
