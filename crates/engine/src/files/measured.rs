//! The only module where a verb on files becomes a type, and so the only one where its loop is compiled.

use std::sync::Arc;

use model::mix::Mix;
use model::workload::{FileKind, FileVerb, FilesWork, MixName, Order, SyncMode};

use super::{
    Append, Client, Content, Copy, Create, CreateLinks, Entries, FileLocation, FileOps, Flows, GetAttribute,
    IndexedOps, NameChange, NameOps, Open, ReadFile, Readdir, Readlink, RemoveTree, Replay, Round,
    RoundLimits, SetAttribute, Share, SharedFiles, Stat, StatContents, Truncate, Unexpected, UnlinkNamed,
    VisitOrder, WalkTree, round,
};
use crate::clock::Timer;
use crate::names::{Kind, Names};
use crate::pacing::OpenLoop;
use crate::recorder::Recorder;

/// A verb with all that its rounds need. The caller makes one indirect call for a round.
pub trait Measured {
    /// Names of the calls that a round makes.
    fn steps(&self) -> &'static [&'static str];

    /// Performs an operation on every file of a set, once.
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round;

    /// Makes the files that a round works on, if only the verb knows them. Returns the bytes written, too.
    fn populate(&mut self, _: &FileLocation<'_>, _: RoundLimits<'_>) -> Option<(Round, u64)> {
        None
    }

    /// Returns the operations that returned another result than in the load file.
    fn unexpected(&self) -> Option<Unexpected> {
        None
    }
}

impl<V: FileOps> Measured for V {
    fn steps(&self) -> &'static [&'static str] {
        FileOps::steps(self)
    }

    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        round(self, place, visits, clock, recorder, limits)
    }

    fn populate(&mut self, place: &FileLocation<'_>, limits: RoundLimits<'_>) -> Option<(Round, u64)> {
        FileOps::populate(self, place, limits)
    }

    fn unexpected(&self) -> Option<Unexpected> {
        FileOps::unexpected(self)
    }
}

impl<O: NameOps> Measured for Entries<O> {
    fn steps(&self) -> &'static [&'static str] {
        self.steps()
    }

    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl Measured for Readdir {
    fn steps(&self) -> &'static [&'static str] {
        Self::STEPS
    }

    fn round(
        &mut self,
        place: &FileLocation<'_>,
        _: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, clock, recorder, limits)
    }
}

impl Measured for WalkTree {
    fn steps(&self) -> &'static [&'static str] {
        Self::STEPS
    }

    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl Measured for RemoveTree {
    fn steps(&self) -> &'static [&'static str] {
        self.steps()
    }

    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, Some(visits.files), clock, recorder, limits)
    }
}

/// A thread's part of a test.
#[derive(Debug)]
pub struct Part {
    /// Names of its files.
    pub names: Names,
    /// Content of its files; without one, they are empty.
    pub content: Option<Content>,
    /// The file that links lead to.
    pub original: u64,
    /// Number of its files.
    pub files: u64,
    /// Seed of the draws of a mix or a load.
    pub seed: u64,
    /// Number of the thread.
    pub thread: u64,
    /// Number of all threads.
    pub threads: u64,
    /// Files that all threads of a mix share.
    pub shared: Option<Arc<SharedFiles>>,
    /// Times at which flows are due; without any, each follows the one before.
    pub pacing: Option<OpenLoop>,
}

impl Part {
    /// The only thread, with all files of a tree.
    pub fn single_thread(names: Names, content: Option<Content>, seed: u64) -> Self {
        let files = names.tree.files;
        Self { names, content, original: 0, files, seed, thread: 0, threads: 1, shared: None, pacing: None }
    }
}

/// Makes a verb with its options, so that the loop has no branch for them.
pub fn measured(work: &FilesWork, part: Part) -> Box<dyn Measured> {
    let Part { names, content, original, .. } = part;
    let is_durable = work.sync == SyncMode::Each;
    // For a symbolic link, the test asks about its target, as programs do.
    let follows = work.kind == FileKind::Symlink;
    // A buffer larger than the largest file would never be filled.
    let chunk_bytes = work.chunk_bytes.min(work.size_max_bytes);
    match work.verb {
        FileVerb::Create if work.kind == FileKind::File => Box::new(Create::new(names, content, is_durable)),
        FileVerb::Create => Box::new(CreateLinks::new(names, follows, original, is_durable)),
        FileVerb::Stat if work.contents && !work.missing => {
            in_order(work, names, StatContents::new(chunk_bytes, follows))
        }
        FileVerb::Stat => in_order(work, names, Stat::new(work.missing, follows)),
        FileVerb::Open => in_order(work, names, Open::new(work.missing, follows)),
        FileVerb::ReadFile => {
            let size_bytes = (work.size_min_bytes == work.size_max_bytes).then_some(work.size_max_bytes);
            in_order(work, names, ReadFile::new(chunk_bytes, size_bytes))
        }
        FileVerb::Readdir => Box::new(Readdir::new(names.tree)),
        FileVerb::Unlink if work.missing => in_order(work, names, UnlinkNamed::missing()),
        FileVerb::Unlink if work.order == Order::Directory => {
            Box::new(Entries::new(names, UnlinkNamed::new(is_durable)))
        }
        FileVerb::Unlink => Box::new(NameChange::unlink(names, Kind::File, is_durable)),
        FileVerb::Rename => Box::new(NameChange::rename(names, [Kind::File, Kind::Renamed], is_durable)),
        FileVerb::Link => Box::new(NameChange::link(names, is_durable)),
        FileVerb::Symlink => Box::new(NameChange::symlink(names, is_durable)),
        FileVerb::Mkdir => Box::new(NameChange::mkdir(names, is_durable)),
        FileVerb::Rmdir => Box::new(NameChange::rmdir(names, is_durable)),
        FileVerb::Append => in_order(work, names, Append::new(work.chunk_bytes, is_durable)),
        FileVerb::Truncate => {
            Box::new(Truncate::new(names, content.unwrap_or_else(Content::none), is_durable))
        }
        FileVerb::Copy => {
            let content = content.unwrap_or_else(Content::none);
            Box::new(Copy::new(names, content, work.by, chunk_bytes, is_durable))
        }
        FileVerb::Readlink => {
            let target_bytes = names.path_from_lowest(original).as_bytes().len();
            Box::new(IndexedOps::new(names, Readlink::new(target_bytes)))
        }
        FileVerb::XattrSet => in_order(work, names, SetAttribute::new(is_durable)),
        FileVerb::XattrGet => in_order(work, names, GetAttribute),
        FileVerb::Walk => Box::new(WalkTree::new(names)),
        FileVerb::Remove => Box::new(RemoveTree::new(names, is_durable)),
        FileVerb::Mix => {
            // The plan has the mix, whatever its file is now.
            let mix = work.mix().unwrap_or(Mix::shipped(MixName::Mail));
            let Part { files, seed, thread, shared, pacing, .. } = part;
            match shared {
                None => Box::new(Flows::new(mix, files, names.tree, seed).paced(pacing)),
                Some(all) => {
                    let share = Share::new(all, thread);
                    Box::new(Flows::sharing(share, mix, files, names.tree, seed).paced(pacing))
                }
            }
        }
        FileVerb::Replay => {
            let client = Client { number: part.thread, count: part.threads };
            // Without a load, only the names of the steps are used.
            let load = work.load().cloned().unwrap_or_default();
            Box::new(Replay::new(load, client, !work.no_resolve, part.files, part.seed))
        }
    }
}

/// Makes a verb of an operation on names from numbers or from directories. Missing names are in no directory.
fn in_order(work: &FilesWork, names: Names, operation: impl NameOps + 'static) -> Box<dyn Measured> {
    match work.order {
        Order::Directory if !work.missing => Box::new(Entries::new(names, operation)),
        _ => Box::new(IndexedOps::new(names, operation)),
    }
}
