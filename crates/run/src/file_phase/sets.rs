//! Sets of files: their directories, and the files that are made, restored and removed around a round.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use engine::clock::Timer;
use engine::files::{
    Create, CreateLinks, FileLocation, FileOps, IndexedOps, NameChange, RemoveTree, Restore, Round,
    SetAttribute, StepTimer, VisitOrder,
};
use engine::names::{Kind, Names};
use engine::recorder::{self, Recorder};
use engine::{Failure, failure::Cause};
use model::workload::verbs::Change;
use model::workload::{FileKind, FileVerb, FilesWork, Order, SyncMode};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::{FileSet, Member, THREAD_DIGITS, empty_round};
use crate::removal::DIRECTORY_FLAGS;

/// Returns the files that a round visits.
pub(super) fn visited(work: &FilesWork, set: &FileSet) -> u64 {
    match work.verb.change() {
        Change::Removed(Kind::Directory) => set.dirs_made.iter().sum(),
        _ if work.verb.visits_files() && !work.missing => set.made.iter().sum(),
        _ => work.files,
    }
}

/// Returns the operations of a full round.
pub(super) fn operations(work: &FilesWork, set: &FileSet) -> u64 {
    let (files, threads) = (visited(work, set), set.made.len() as u64);
    let directories = set.shape.map_or(0, |shape| shape.tree.directories());
    match work.verb {
        // Each thread meets the files of all.
        verb if verb.walks_trees() && work.shared => (files + directories) * threads,
        verb if verb.walks_trees() => files + directories * threads,
        FileVerb::Readlink => files.saturating_sub(threads),
        // Each thread makes all calls.
        FileVerb::Replay => work.load().map_or(0, |load| load.operations).saturating_mul(threads),
        _ => files,
    }
}

/// Two operations on each file, one after the other.
struct TwoOperations<'a>(&'a mut dyn FileOps, &'a mut dyn FileOps);

impl FileOps for TwoOperations<'_> {
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), (&'static str, Cause)> {
        self.0.operate(place, file, timer)?;
        self.1.operate(place, file, timer)
    }
}

fn failed(call: &'static str) -> impl FnOnce(Errno) -> Failure {
    move |errno| Failure { call, file: 0, offset_bytes: None, cause: errno.into() }
}

fn make_directory(parent: BorrowedFd<'_>, path: &str) -> Result<(), Failure> {
    match rustix::fs::mkdirat(parent, path, Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        made => made.map_err(failed("mkdir")),
    }
}

impl Member {
    /// Opens the directories of this member, and makes those that do not exist yet.
    pub(super) fn open_directories(&self) -> Result<(OwnedFd, Vec<OwnedFd>), Failure> {
        let name = format!("t{:0THREAD_DIGITS$x}", self.owner);
        make_directory(self.parent.as_fd(), &name)?;
        let directory = rustix::fs::openat(&self.parent, name.as_str(), DIRECTORY_FLAGS, Mode::empty())
            .map_err(failed("open"))?;
        let leaves = self.make_directories(directory.as_fd())?;
        Ok((directory, leaves))
    }

    /// Makes the directories below that of this member which do not exist yet. Opens the lowest if each change is made
    /// durable in them.
    pub(super) fn make_directories(&self, directory: BorrowedFd<'_>) -> Result<Vec<OwnedFd>, Failure> {
        let mut leaves = Vec::new();
        // A directory that is held open keeps its inode after its removal.
        let opens = self.work.sync == SyncMode::Each && self.work.verb.change() != Change::RemovedTree;
        for dir in 0..if self.tree.dirs > 1 { self.tree.dirs } else { 0 } {
            let path = self.tree.directory(dir);
            for (end, _) in path.match_indices('/') {
                make_directory(directory, &path[..end])?;
            }
            make_directory(directory, &path)?;
            if opens {
                let leaf = rustix::fs::openat(directory, path.as_str(), DIRECTORY_FLAGS, Mode::empty());
                leaves.push(leaf.map_err(failed("open"))?);
            }
        }
        Ok(leaves)
    }

    /// Makes the files of the set that do not exist yet; true if all of them exist then.
    pub(super) fn make_rest(
        &mut self,
        names: Names,
        place: &FileLocation<'_>,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let rest = VisitOrder::in_sequence(self.first + self.made, self.files - self.made);
        let (mut round, is_whole) = self.make_files(names, place, rest, deadline_ns);
        if let Some(content) = self.content() {
            let made = rest.first..rest.first + round.done;
            self.untimed_bytes += made.map(|file| content.size_bytes(file)).sum::<u64>();
        }
        self.made += round.done;
        // Otherwise the first sync, or the first shared block, would wait for data that preparation left in memory.
        let is_new = round.done > 0 && self.work.verb == FileVerb::Copy;
        let is_changed = self.work.sync.is_durable() && self.work.verb.changes_files();
        if round.result.is_ok() && (is_new || is_changed) {
            round.result = rustix::fs::syncfs(place.directory).map_err(failed("syncfs"));
        }
        (round, is_whole)
    }

    /// Makes these files of the set.
    fn make_files(
        &self,
        names: Names,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        deadline_ns: u64,
    ) -> (Round, bool) {
        match self.work.kind {
            FileKind::File => {
                let mut create = Create::new(names, self.content(), false);
                if !self.work.verb.reads_attributes() {
                    return self.run_uncounted(&mut create, place, visits, deadline_ns);
                }
                let mut set = IndexedOps::new(names, SetAttribute::new(false));
                self.run_uncounted(&mut TwoOperations(&mut create, &mut set), place, visits, deadline_ns)
            }
            kind => {
                let is_symbolic = kind == FileKind::Symlink;
                let mut links = CreateLinks::new(names, is_symbolic, self.first, false);
                self.run_uncounted(&mut links, place, visits, deadline_ns)
            }
        }
    }

    /// Returns the visits that reach all files which a round has changed.
    pub(super) fn changed(&self, done: u64) -> VisitOrder {
        let visits = self.visits();
        // A directory may have named any of them.
        if self.work.order == Order::Directory { visits } else { VisitOrder { files: done, ..visits } }
    }

    /// Gives the files that a round has changed their sizes and contents back.
    pub(super) fn restore(
        &mut self,
        names: Names,
        place: &FileLocation<'_>,
        done: u64,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let mut restore = Restore::new(names, self.content());
        let restored = self.run_uncounted(&mut restore, place, self.changed(done), deadline_ns);
        self.untimed_bytes += restore.written_bytes();
        restored
    }

    /// Removes what the removal of a tree has left.
    pub(super) fn remove_rest(
        &mut self,
        names: Names,
        place: &FileLocation<'_>,
        done: u64,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let rest = (self.made + self.tree.directories()).saturating_sub(done);
        self.made = 0;
        if rest == 0 {
            return (empty_round(), true);
        }
        let (mut recorder, _) = Recorder::new(recorder::Shape::default());
        let limits = self.untimed_until(deadline_ns);
        let mut remove = RemoveTree::new(names, false);
        let round = remove.round(place, None, &Timer::Kernel, &mut recorder, limits);
        let is_whole = round.done == rest;
        (round, is_whole)
    }

    /// Returns the files that a round did not reach.
    pub(super) fn rest_of(&self, done: u64) -> impl Iterator<Item = u64> + use<> {
        let VisitOrder { first, files, order } = self.visits();
        (done..files).map(move |place| first + order.map_or(place, |order| order.at(place)))
    }

    pub(super) fn remove_files(
        &mut self,
        names: Names,
        place: &FileLocation<'_>,
        deadline_ns: u64,
    ) -> (Round, bool) {
        let mut unlink = NameChange::unlink(names, Kind::File, false);
        let made = VisitOrder::in_sequence(self.first, self.made);
        let (round, is_whole) = self.run_uncounted(&mut unlink, place, made, deadline_ns);
        self.made = 0;
        (round, is_whole)
    }
}
