//! The cost of the loop on files: the same calls through it and bare.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use engine::budget::UNLIMITED;
use engine::clock::Timer;
use engine::files::{Create, FileLocation, IndexedOps, Measured, NameChange, RoundLimits, Stat, VisitOrder};
use engine::names::{FILE_DIGITS, Kind, Name, Tree};
use engine::recorder::{Recorder, Shape};
use model::workload::{FileVerb, FilesWork};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::drained::{with_counts_reader, with_second_thread};
use super::pinned::{Pinned, cpu_seconds};
use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Rows, Setting};
use crate::pairs::interleave;

pub(super) const BENCH: Bench =
    Bench { name: "files", measures: "create, stat and unlink on tmpfs: our loop against a bare one", run };

const FILES: u64 = 256 << 10;
/// Slices of a run, some 20 ms each.
const SLICES: usize = 16;
/// Directories of a pair, which makes and removes them.
const OURS: &CStr = c"ours";
const BARE: &CStr = c"bare";
/// Least rate through the loop, relative to the bare one.
const SHARE: f64 = 0.95;
/// Pause between two pairs: the kernel frees unlinked inodes later, in batches.
const PAUSE: Duration = Duration::from_millis(50);

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let tmpfs = Tmpfs::mount_or_share()?;
    let path = tmpfs.path();
    let pinned = Pinned::new()?;
    let files = Files::new(path, FILES)?;
    let names = files.names();
    let [mut create, mut stat, mut unlink] = [const { Vec::new() }; 3];
    // The first pair loads programs and caches, and memory for all the files.
    for pair in 0..=setting.pairs {
        let ratios = files.pair(pair, &names, &pinned)?;
        if pair > 0 {
            create.push(ratios[0]);
            stat.push(ratios[1]);
            unlink.push(ratios[2]);
        }
    }
    let row =
        |verb: &str, values| Row::new(format!("{verb}, ours over bare"), "×", values, Limit::AtLeast(SHARE));
    rows.extend([row("create", create), row("stat", stat), row("unlink", unlink)])
}

const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Files that are made, looked at and removed.
struct Files {
    parent: OwnedFd,
    tree: Tree,
    /// Names with their NULs, one after the other.
    names: Vec<u8>,
    timer: Timer,
}

impl Files {
    fn new(path: &std::path::Path, files: u64) -> Result<Self> {
        let parent = rustix::fs::open(path, DIRECTORY_FLAGS, Mode::empty()).context("open the directory")?;
        let tree = Tree { files, dirs: 1, levels: 1 };
        let mut name = Name::new(tree.plain(), Kind::File);
        let names = (0..files).flat_map(|file| name.path_of(file).to_bytes_with_nul().to_vec()).collect();
        Ok(Self { parent, tree, names, timer: Timer::best() })
    }

    fn names(&self) -> Vec<&CStr> {
        // A letter, the digits, and NUL.
        let names = self.names.chunks_exact(FILE_DIGITS + 2);
        names.map(|name| CStr::from_bytes_with_nul(name).unwrap_or_default()).collect()
    }

    /// Returns the speed of create, stat and unlink through the program's loop, relative to a loop of bare calls. Each
    /// loop has a separate new directory, and runs in slices.
    fn pair(&self, pair: usize, names: &[&CStr], pinned: &Pinned) -> Result<[f64; 3]> {
        thread::sleep(PAUSE);
        let (ours, theirs) = (self.make_directory(OURS)?, self.make_directory(BARE)?);
        let place = FileLocation { directory: ours.as_fd(), leaves: &[], tree: self.tree };
        let mode = Mode::RUSR.union(Mode::WUSR);
        let create = |name: &CStr| rustix::fs::openat(&theirs, name, CREATE_FLAGS, mode).map(drop);
        let stat = |name: &CStr| {
            let found = rustix::fs::statat(&theirs, name, AtFlags::SYMLINK_NOFOLLOW)?;
            std::hint::black_box(&found);
            Ok(())
        };
        let unlink = |name: &CStr| rustix::fs::unlinkat(&theirs, name, AtFlags::empty());
        let slice = |at: usize| names.len() * at / SLICES..names.len() * (at + 1) / SLICES;
        let ours_names = self.tree.plain();
        let mut ours_create = Create::new(ours_names, None, false);
        let mut ours_stat = IndexedOps::new(ours_names, Stat::new(false, false));
        let mut ours_unlink = NameChange::unlink(ours_names, Kind::File, false);
        let create_shape = Shape::from(&FilesWork::new(FileVerb::Create, 1).steps()[..]);
        let ratios = [
            interleave(
                SLICES,
                pair,
                |at| through_loop(&mut ours_create, create_shape, &place, slice(at), self.timer, pinned),
                |at| bare(&names[slice(at)], pinned, create),
            )?,
            interleave(
                SLICES,
                pair,
                |at| through_loop(&mut ours_stat, Shape::default(), &place, slice(at), self.timer, pinned),
                |at| bare(&names[slice(at)], pinned, stat),
            )?,
            interleave(
                SLICES,
                pair,
                |at| through_loop(&mut ours_unlink, Shape::default(), &place, slice(at), self.timer, pinned),
                |at| bare(&names[slice(at)], pinned, unlink),
            )?,
        ];
        for directory in [OURS, BARE] {
            rustix::fs::unlinkat(&self.parent, directory, AtFlags::REMOVEDIR)
                .context("remove a directory")?;
        }
        Ok(ratios)
    }

    fn make_directory(&self, name: &CStr) -> Result<OwnedFd> {
        rustix::fs::mkdirat(&self.parent, name, Mode::RWXU).context("create a directory")?;
        rustix::fs::openat(&self.parent, name, DIRECTORY_FLAGS, Mode::empty()).context("open a new directory")
    }
}

/// Seconds that the program's loop takes for some of the files.
fn through_loop(
    verb: &mut dyn Measured,
    shape: Shape,
    place: &FileLocation<'_>,
    files: Range<usize>,
    timer: Timer,
    pinned: &Pinned,
) -> Result<f64> {
    let (mut recorder, reader) = Recorder::new(shape);
    let stop = AtomicBool::new(false);
    let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop, budget: &UNLIMITED };
    let timer = timer.anchored();
    let visits = VisitOrder::in_sequence(files.start as u64, files.len() as u64);
    let ((seconds, round), counted) = with_counts_reader(pinned, reader, || {
        cpu_seconds(|| verb.round(place, visits, &timer, &mut recorder, limits))
    })?;
    round.result.map_err(|failure| anyhow!("{failure:?}"))?;
    let done = round.done;
    ensure!(
        done == visits.files && counted.ops == done,
        "of {visits:?}, {done} done, {} counted",
        counted.ops
    );
    Ok(seconds)
}

/// Seconds of a bare loop that makes one call for each name.
fn bare(names: &[&CStr], pinned: &Pinned, call: impl Fn(&CStr) -> Result<(), Errno>) -> Result<f64> {
    let every = || names.iter().try_for_each(|name| call(name));
    let (seconds, done) = with_second_thread(pinned, || cpu_seconds(every))?;
    done?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::program;

    #[test]
    fn bare_and_skye_file_loops_leave_no_files() {
        let scratch = program::scratch_in_memory().unwrap();
        let files = Files::new(scratch.path(), 100).unwrap();
        let names = files.names();
        assert_eq!((names.len(), names[99]), (100, c"f00000063"));
        let pinned = Pinned::new().unwrap();
        let ratios = files.pair(0, &names, &pinned).unwrap();
        assert!(ratios.iter().all(|ratio| *ratio > 0.0), "{ratios:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
