//! The only place where a verb on files becomes a type.

use std::sync::Arc;

use engine::clock::Clock;
use engine::files::{
    self, Append, Client, Content, Copy, CopyRange, Create, CreateLinks, Entries, FileOps, Flows,
    GetAttribute, Link, Mkdir, NameOps, Numbered, Open, Place, ReadFile, ReadWrite, Readdir, Readlink,
    Reflink, RemoveTree, Rename, Replay, Rmdir, Round, RoundLimits, SetAttribute, Share, SharedFiles, Stat,
    StatContents, Symlink, Truncate, Unexpected, Unlink, UnlinkMissing, UnlinkNamed, Visits, WalkTree,
};
use engine::names::{Kind, Names, Spelling, Tree};
use engine::pacing::OpenLoop;
use engine::recorder::Recorder;
use model::mix::{Mix, Operation};
use model::workload::{CopyWay, FileKind, FileVerb, FilesWork, MixName, Order, SyncMode};

/// A measured round.
pub(super) trait MeasuredRound {
    /// Returns the calls that the round makes.
    fn steps(&self) -> &'static [&'static str];

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round;

    /// Makes a round in which operations start when they are due, for verbs that have an open loop. Returns the number of
    /// those that never started, too.
    fn due<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        _: &mut OpenLoop,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> (Round, u64) {
        (self.round(place, visits, clock, recorder, limits), 0)
    }

    /// Makes the files that a round works on, if that is a matter of its own. Returns the bytes written with it, too.
    fn populate(&mut self, _: &Place<'_>, _: RoundLimits<'_>) -> Option<(Round, u64)> {
        None
    }

    /// Returns the operations that ended in another way than a file says.
    fn unexpected(&self) -> Option<Unexpected> {
        None
    }
}

/// A round over the numbers of files.
struct ByNumber<V>(V);

impl<V: FileOps> MeasuredRound for ByNumber<V> {
    fn steps(&self) -> &'static [&'static str] {
        self.0.steps()
    }

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        files::round(&mut self.0, place, visits, clock, recorder, limits)
    }

    fn due<C: Clock>(
        &mut self,
        place: &Place<'_>,
        _: Visits,
        pacing: &mut OpenLoop,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> (Round, u64) {
        files::due(&mut self.0, place, pacing, clock, recorder, limits)
    }

    fn populate(&mut self, place: &Place<'_>, limits: RoundLimits<'_>) -> Option<(Round, u64)> {
        self.0.populate(place, limits)
    }

    fn unexpected(&self) -> Option<Unexpected> {
        self.0.unexpected()
    }
}

impl<O: NameOps, S: Spelling> MeasuredRound for Entries<O, S> {
    fn steps(&self) -> &'static [&'static str] {
        self.steps()
    }

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl MeasuredRound for Readdir {
    fn steps(&self) -> &'static [&'static str] {
        Self::STEPS
    }

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        _: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, clock, recorder, limits)
    }
}

impl<S: Spelling> MeasuredRound for WalkTree<S> {
    fn steps(&self) -> &'static [&'static str] {
        Self::STEPS
    }

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl<S: Spelling> MeasuredRound for RemoveTree<S> {
    fn steps(&self) -> &'static [&'static str] {
        self.steps()
    }

    fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        visits: Visits,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, Some(visits.files), clock, recorder, limits)
    }
}

/// An action on a verb that has become a type.
pub(super) trait WithVerb {
    type Answer;
    fn call(self, measured: impl MeasuredRound) -> Self::Answer;
}

struct StepsOf;

impl WithVerb for StepsOf {
    type Answer = &'static [&'static str];
    fn call(self, measured: impl MeasuredRound) -> Self::Answer {
        measured.steps()
    }
}

/// Returns the calls of a verb, if an operation makes several kinds.
pub fn steps(work: &FilesWork) -> Vec<&'static str> {
    if work.verb == FileVerb::Mix {
        return Operation::STEPS.to_vec();
    }
    let names = Tree { files: 1, dirs: 1, levels: 1 }.plain();
    let content = (work.size_max_bytes > 0).then(|| Content::new(1, 1, 1, 0, 0));
    let steps = with_verb(work, names, Numbers::default(), content, StepsOf);
    if steps.len() > 1 { steps.to_vec() } else { Vec::new() }
}

/// Change to a set that a round of a verb leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// None.
    Nothing,
    /// New names of a kind.
    Made(Kind),
    /// Other names for the files.
    Renamed,
    /// No more names of a kind.
    Removed(Kind),
    /// Neither files nor directories.
    RemovedTree,
    /// Other sizes of the files.
    Resized,
    /// Attributes of the files.
    Attributed,
    /// Names that only the mix or the load knows.
    Mixed,
}

/// Returns the change that a round of a verb leaves.
pub(super) fn change(verb: FileVerb) -> Change {
    match verb {
        FileVerb::Stat | FileVerb::Open | FileVerb::ReadFile | FileVerb::Readdir => Change::Nothing,
        FileVerb::Readlink | FileVerb::XattrGet | FileVerb::Walk => Change::Nothing,
        FileVerb::Append | FileVerb::Truncate => Change::Resized,
        FileVerb::XattrSet => Change::Attributed,
        FileVerb::Copy => Change::Made(Kind::Copy),
        FileVerb::Remove => Change::RemovedTree,
        FileVerb::Mix | FileVerb::Replay => Change::Mixed,
        FileVerb::Create => Change::Made(Kind::File),
        FileVerb::Link => Change::Made(Kind::Link),
        FileVerb::Symlink => Change::Made(Kind::Symlink),
        FileVerb::Mkdir => Change::Made(Kind::Directory),
        FileVerb::Rename => Change::Renamed,
        FileVerb::Unlink => Change::Removed(Kind::File),
        FileVerb::Rmdir => Change::Removed(Kind::Directory),
    }
}

/// Numbers that tell a thread's files from those of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Numbers {
    /// The file that links lead to.
    pub original: u64,
    /// Number of the thread's files.
    pub files: u64,
    /// Seed of the draws of a mix or a load.
    pub seed: u64,
    /// Number of the thread.
    pub thread: u64,
    /// Number of all threads.
    pub threads: u64,
    /// Files that all threads of a mix share.
    pub shared: Option<Arc<SharedFiles>>,
}

/// Chooses the type of a verb; no code behind it looks at options.
pub(super) fn with_verb<S: Spelling, W: WithVerb>(
    work: &FilesWork,
    names: Names<S>,
    numbers: Numbers,
    content: Option<Content>,
    with: W,
) -> W::Answer {
    let original = numbers.original;
    let durable = work.sync == SyncMode::Each;
    // For a symbolic link, the test asks about its target, as programs do.
    let follows = work.kind == FileKind::Symlink;
    // A buffer larger than the largest file would never be filled.
    let chunk_bytes = work.chunk_bytes.min(work.size_max_bytes);
    match (work.verb, work.missing) {
        (FileVerb::Create, _) => match work.kind {
            FileKind::File => with.call(ByNumber(Create::new(names, content, durable))),
            FileKind::Hardlink => with.call(ByNumber(CreateLinks::<false, _>::new(names, original, durable))),
            FileKind::Symlink => with.call(ByNumber(CreateLinks::<true, _>::new(names, original, durable))),
        },
        (FileVerb::Stat, false) if work.contents => {
            in_order(work, names, StatContents::new(chunk_bytes, follows), with)
        }
        (FileVerb::Stat, false) => in_order(work, names, Stat::<false>::new(follows), with),
        (FileVerb::Stat, true) => with.call(ByNumber(Numbered::new(names, Stat::<true>::new(follows)))),
        (FileVerb::Open, false) => in_order(work, names, Open::<false>::new(follows), with),
        (FileVerb::Open, true) => with.call(ByNumber(Numbered::new(names, Open::<true>::new(follows)))),
        (FileVerb::ReadFile, _) => {
            let size_bytes = (work.size_min_bytes == work.size_max_bytes).then_some(work.size_max_bytes);
            in_order(work, names, ReadFile::new(chunk_bytes, size_bytes), with)
        }
        (FileVerb::Readdir, _) => with.call(Readdir::new(names.tree)),
        (FileVerb::Unlink, false) if work.order == Order::Directory => {
            with.call(Entries::new(names, UnlinkNamed::new(durable)))
        }
        (FileVerb::Unlink, false) => with.call(ByNumber(Unlink::new(names, Kind::File, Kind::File, durable))),
        (FileVerb::Unlink, true) => with.call(ByNumber(Numbered::new(names, UnlinkMissing))),
        (FileVerb::Rename, _) => with.call(ByNumber(Rename::new(names, Kind::File, Kind::Renamed, durable))),
        (FileVerb::Link, _) => with.call(ByNumber(Link::new(names, Kind::File, Kind::Link, durable))),
        (FileVerb::Symlink, _) => {
            with.call(ByNumber(Symlink::new(names, Kind::File, Kind::Symlink, durable)))
        }
        (FileVerb::Mkdir, _) => {
            with.call(ByNumber(Mkdir::new(names, Kind::Directory, Kind::Directory, durable)))
        }
        (FileVerb::Append, _) => in_order(work, names, Append::new(work.chunk_bytes, durable), with),
        (FileVerb::Truncate, _) => {
            with.call(ByNumber(Truncate::new(names, content.unwrap_or_else(no_content), durable)))
        }
        (FileVerb::Copy, _) => {
            let content = content.unwrap_or_else(no_content);
            match work.by {
                CopyWay::ReadWrite => {
                    with.call(ByNumber(Copy::new(names, content, ReadWrite::new(chunk_bytes), durable)))
                }
                CopyWay::CopyRange => {
                    with.call(ByNumber(Copy::new(names, content, CopyRange::new(chunk_bytes), durable)))
                }
                CopyWay::Reflink => with.call(ByNumber(Copy::new(names, content, Reflink, durable))),
            }
        }
        (FileVerb::Readlink, _) => {
            let target_bytes = names.path_from_lowest(original).as_bytes().len();
            with.call(ByNumber(Numbered::new(names, Readlink::new(target_bytes))))
        }
        (FileVerb::XattrSet, _) => in_order(work, names, SetAttribute::new(durable), with),
        (FileVerb::XattrGet, _) => in_order(work, names, GetAttribute, with),
        (FileVerb::Walk, _) => with.call(WalkTree::new(names)),
        (FileVerb::Remove, _) => with.call(RemoveTree::new(names, durable)),
        (FileVerb::Mix, _) => {
            // The plan has the mix, whatever its file is now.
            let mix = work.mix().unwrap_or(Mix::shipped(MixName::Mail));
            let Numbers { files, seed, thread, shared, .. } = numbers;
            match shared {
                None => with.call(ByNumber(Flows::new(mix, files, names.tree, seed))),
                Some(all) => {
                    let share = Share::new(all, thread);
                    with.call(ByNumber(Flows::sharing(share, mix, files, names.tree, seed)))
                }
            }
        }
        (FileVerb::Replay, _) => {
            let client = Client { number: numbers.thread, count: numbers.threads };
            // Only the names of the steps are asked for where no load was read.
            let load = work.load().cloned().unwrap_or_default();
            with.call(ByNumber(Replay::new(load, client, !work.no_resolve, numbers.files, numbers.seed)))
        }
        (FileVerb::Rmdir, _) => {
            with.call(ByNumber(Rmdir::new(names, Kind::Directory, Kind::Directory, durable)))
        }
    }
}

fn no_content() -> Content {
    Content::new(0, 0, 1, 0, 0)
}

/// Chooses an operation on names, which come from numbers or from directories.
fn in_order<S: Spelling, W: WithVerb>(
    work: &FilesWork,
    names: Names<S>,
    operation: impl NameOps,
    with: W,
) -> W::Answer {
    match work.order {
        Order::Directory => with.call(Entries::new(names, operation)),
        Order::Sequential | Order::Random => with.call(ByNumber(Numbered::new(names, operation))),
    }
}

#[cfg(test)]
mod tests {
    use super::steps;
    use model::spec::{Defaults, parse};

    #[test]
    fn steps_are_the_calls_of_what_was_asked_for() {
        for (spec, expected) in [
            ("create", &["open", "close"][..]),
            ("create:size=4k:chunk=512", &["open", "write", "close"]),
            ("create:kind=hardlink", &["link", "open", "close"]),
            ("create:kind=symlink:sync=each", &["symlink", "open", "close", "fsync"]),
            ("stat", &[]),
            ("stat:missing:order=rnd", &[]),
            ("stat:contents", &["stat", "open", "read", "close"]),
            ("stat:contents:order=dir", &["stat", "open", "read", "close", "getdents64"]),
            ("stat:order=dir", &["stat", "getdents64"]),
            ("open:order=dir:kind=symlink", &["open", "close", "getdents64"]),
            ("open:missing", &[]),
            ("unlink", &[]),
            ("unlink:sync=each", &["unlink", "fsync"]),
            ("unlink:order=dir", &["unlink", "getdents64"]),
            ("unlink:order=dir:sync=each", &["unlink", "fsync", "getdents64"]),
            ("read-file:size=3901", &["open", "read", "close"]),
            ("read-file:size=1k..4k:order=dir", &["open", "read", "close", "getdents64"]),
            ("readdir", &["open", "getdents64", "close"]),
            ("rename:names=letters-first:sync=each", &["rename", "fsync"]),
            ("append", &["open", "write", "close"]),
            ("append:order=dir:sync=each", &["open", "write", "fsync", "close", "getdents64"]),
            ("truncate:size=4k", &["open", "ftruncate", "close"]),
            ("copy:size=4k", &["open", "create", "read", "write", "close"]),
            ("copy:size=4k:by=copy-range", &["open", "create", "copy_file_range", "close"]),
            ("copy:size=4k:by=reflink:sync=each", &["open", "create", "reflink", "fsync", "close"]),
            ("readlink", &[]),
            ("xattr-set:sync=each", &["open", "fsetxattr", "fsync", "close"]),
            ("xattr-get:order=dir", &["open", "fgetxattr", "close", "getdents64"]),
            ("walk:tree=3x2", &["open", "getdents64", "stat", "close"]),
            ("remove", &["open", "getdents64", "unlink", "rmdir", "close"]),
            ("remove:sync=each", &["open", "getdents64", "unlink", "rmdir", "close", "fsync"]),
        ] {
            let workload = parse(spec, &Defaults::default()).unwrap();
            assert_eq!(steps(workload.files().unwrap()), expected, "{spec}");
        }
    }
}
