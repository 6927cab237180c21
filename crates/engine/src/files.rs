//! The measuring loop on files: one round over a set of names, each operation timed.
//!
//! One clock read ends a call and starts the next. Computing the next name and counting lie in between; they take
//! some ten nanoseconds, against a second clock read's twenty.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::data::{self, Pool, Stamp};
use crate::failure::Failure;
use crate::names::{Kind, Name, Tree};
use crate::pattern::Permutation;
use crate::recorder::{INTERVAL_NS, Recorder};

/// Where a thread's files lie.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The directory that names are relative to.
    pub directory: BorrowedFd<'a>,
    /// The lowest directories, where a verb makes each of its changes durable; else empty.
    pub leaves: &'a [OwnedFd],
    /// How files are spread below it.
    pub tree: Tree,
}

impl Place<'_> {
    fn leaf(&self, file: u64) -> BorrowedFd<'_> {
        let leaf = self.leaves.get((file / self.tree.files_per_dir()) as usize);
        leaf.map_or(self.directory, OwnedFd::as_fd)
    }
}

/// Times the calls of an operation, one after the other.
#[derive(Debug)]
pub struct Laps<'a, C> {
    clock: &'a C,
    recorder: &'a mut Recorder,
    last_ns: u64,
}

impl<C: Clock> Laps<'_, C> {
    /// The call of that step has just ended.
    #[inline]
    pub fn lap(&mut self, step: usize) {
        let now_ns = self.clock.now_ns();
        self.recorder.step(step, now_ns.saturating_sub(self.last_ns));
        self.last_ns = now_ns;
    }
}

/// A call that failed: its step, and why.
type CallError = (usize, Errno);

/// One operation on one file.
pub trait FileOps {
    /// The calls that it makes.
    fn steps(&self) -> &'static [&'static str];

    /// Does it to a file, and takes a lap after each call.
    ///
    /// # Errors
    /// The call that failed.
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        file: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError>;
}

/// Counts names that do not exist as found, where that is what is measured.
#[inline]
fn expect<T, const MISSING: bool>(step: usize, result: Result<T, Errno>) -> Result<(), CallError> {
    match result {
        Ok(_) if !MISSING => Ok(()),
        Err(Errno::NOENT) if MISSING => Ok(()),
        Ok(_) => Err((step, Errno::EXIST)),
        Err(errno) => Err((step, errno)),
    }
}

const fn lookup_kind(missing: bool) -> Kind {
    if missing { Kind::Missing } else { Kind::File }
}

/// `fstatat` of a name.
#[derive(Debug)]
pub struct Stat<const MISSING: bool>(Name);

impl<const MISSING: bool> Stat<MISSING> {
    /// Of the files of a tree, or of names that are never made.
    pub fn new(tree: Tree) -> Self {
        Self(Name::new(tree, lookup_kind(MISSING)))
    }
}

impl<const MISSING: bool> FileOps for Stat<MISSING> {
    fn steps(&self) -> &'static [&'static str] {
        &["stat"]
    }

    #[inline]
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        file: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError> {
        let found = rustix::fs::statat(place.directory, self.0.of(file), AtFlags::SYMLINK_NOFOLLOW);
        expect::<_, MISSING>(0, found)?;
        laps.lap(0);
        Ok(())
    }
}

/// `openat` for reading, and `close`.
#[derive(Debug)]
pub struct Open<const MISSING: bool>(Name);

impl<const MISSING: bool> Open<MISSING> {
    /// Of the files of a tree, or of names that are never made.
    pub fn new(tree: Tree) -> Self {
        Self(Name::new(tree, lookup_kind(MISSING)))
    }
}

const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const CREATE_FLAGS: OFlags =
    OFlags::WRONLY.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl<const MISSING: bool> FileOps for Open<MISSING> {
    fn steps(&self) -> &'static [&'static str] {
        if MISSING { &["open"] } else { &["open", "close"] }
    }

    #[inline]
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        file: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError> {
        let opened = rustix::fs::openat(place.directory, self.0.of(file), READ_FLAGS, Mode::empty());
        laps.lap(0);
        if !MISSING && let Ok(opened) = opened {
            drop(opened);
            laps.lap(1);
            return Ok(());
        }
        expect::<_, MISSING>(0, opened)
    }
}

/// What is written into a file that is made.
#[derive(Debug)]
pub struct Content {
    pool: Pool,
    size_min_bytes: u64,
    size_spread_bytes: u64,
    seed: u64,
    generation: u32,
}

/// Most bytes of a file that one call writes.
const WRITE_BYTES_MAX: u64 = 1 << 20;

impl Content {
    /// Sizes drawn evenly between two bounds; bytes and sizes follow from the seed.
    pub fn new(size_min_bytes: u64, size_max_bytes: u64, seed: u64, generation: u32) -> Self {
        let like = data::Content {
            seed,
            interval_bytes: data::STAMP_INTERVAL_BYTES,
            compress_percent: 0,
            dedupe_percent: 0,
        };
        let pool = Pool::new(like, size_max_bytes.clamp(1, WRITE_BYTES_MAX) as usize, 1);
        Self { pool, size_min_bytes, size_spread_bytes: size_max_bytes - size_min_bytes, seed, generation }
    }

    /// Size of a file.
    pub fn size_bytes(&self, file: u64) -> u64 {
        match self.size_spread_bytes {
            0 => self.size_min_bytes,
            spread => self.size_min_bytes + data::mix(self.seed ^ data::mix(file)) % (spread + 1),
        }
    }

    fn write(&mut self, file: u64, descriptor: &OwnedFd) -> Result<u64, Errno> {
        let size_bytes = self.size_bytes(file);
        let mut offset_bytes = 0;
        while offset_bytes < size_bytes {
            let len = (size_bytes - offset_bytes).min(WRITE_BYTES_MAX) as usize;
            let Self { seed, generation, .. } = *self;
            let draft = self.pool.draft(0);
            let (block, phase_bytes) = (&mut draft.bytes[..len], draft.phase_bytes);
            let stamp = Stamp { seed, file: file as u32, generation, offset_bytes, phase_bytes };
            data::stamp(block, data::STAMP_INTERVAL_BYTES, stamp);
            // A short write goes on from where it stopped, with a stamp of its own.
            offset_bytes += rustix::io::write(descriptor, block)? as u64;
        }
        Ok(size_bytes)
    }
}

/// `openat(O_CREAT|O_EXCL)`, a write where files have a size, `fsync` where each is made durable, `close`.
#[derive(Debug)]
pub struct Create {
    name: Name,
    content: Option<Content>,
    durable: bool,
}

impl Create {
    /// Files of a tree, empty or with a content, made durable one by one or not.
    pub fn new(tree: Tree, content: Option<Content>, durable: bool) -> Self {
        Self { name: Name::new(tree, Kind::File), content, durable }
    }
}

impl FileOps for Create {
    fn steps(&self) -> &'static [&'static str] {
        if self.durable {
            &["open", "write", "fsync", "close"]
        } else if self.content.is_some() {
            &["open", "write", "close"]
        } else {
            &["open", "close"]
        }
    }

    #[inline]
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        file: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError> {
        let mode = Mode::RUSR.union(Mode::WUSR);
        let made = rustix::fs::openat(place.directory, self.name.of(file), CREATE_FLAGS, mode);
        let made = made.map_err(|errno| (0, errno))?;
        laps.lap(0);
        let mut step = 1;
        if let Some(content) = &mut self.content {
            let written_bytes = content.write(file, &made).map_err(|errno| (step, errno))?;
            laps.recorder.written(written_bytes);
            // A file of size 0 makes no call.
            if written_bytes > 0 {
                laps.lap(step);
            }
            step += 1;
        }
        if self.durable {
            // The file is durable once its name is, too.
            let synced = rustix::fs::fsync(&made).and_then(|()| rustix::fs::fsync(place.leaf(file)));
            synced.map_err(|errno| (2, errno))?;
            laps.lap(2);
            step = 3;
        }
        drop(made);
        laps.lap(step);
        Ok(())
    }
}

macro_rules! name_change {
    ($(#[$meta:meta])* $name:ident, $step:literal, |$place:ident, $from:ident, $to:ident, $file:ident| $call:expr) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name {
            from: Name,
            to: Name,
            durable: bool,
        }

        impl $name {
            /// Between names of two kinds in a tree, made durable one by one or not.
            pub fn new(tree: Tree, from: Kind, to: Kind, durable: bool) -> Self {
                Self { from: Name::new(tree, from), to: Name::new(tree, to), durable }
            }
        }

        impl FileOps for $name {
            fn steps(&self) -> &'static [&'static str] {
                if self.durable { &[$step, "fsync"] } else { &[$step] }
            }

            #[inline]
            fn operate<C: Clock>(&mut self, $place: &Place<'_>, $file: u64, laps: &mut Laps<'_, C>) -> Result<(), CallError> {
                let ($from, $to) = (&mut self.from, &mut self.to);
                $call.map_err(|errno| (0, errno))?;
                laps.lap(0);
                if self.durable {
                    rustix::fs::fsync($place.leaf($file)).map_err(|errno| (1, errno))?;
                    laps.lap(1);
                }
                Ok(())
            }
        }
    };
}

name_change! {
    /// `renameat` from one name to another.
    Rename, "rename", |place, from, to, file|
        rustix::fs::renameat(place.directory, from.of(file), place.directory, to.of(file))
}
name_change! {
    /// `linkat`: a second name for a file.
    Link, "link", |place, from, to, file|
        rustix::fs::linkat(place.directory, from.of(file), place.directory, to.of(file), AtFlags::empty())
}
name_change! {
    /// `symlinkat`: a link to the file of the same number in the same directory.
    Symlink, "symlink", |place, from, to, file|
        rustix::fs::symlinkat(from.leaf_of(file), place.directory, to.of(file))
}
name_change! {
    /// `unlinkat` of a file.
    Unlink, "unlink", |place, from, _to, file|
        rustix::fs::unlinkat(place.directory, from.of(file), AtFlags::empty())
}
name_change! {
    /// `mkdirat`.
    Mkdir, "mkdir", |place, from, _to, file|
        rustix::fs::mkdirat(place.directory, from.of(file), Mode::RWXU)
}
name_change! {
    /// `unlinkat(AT_REMOVEDIR)`.
    Rmdir, "rmdir", |place, from, _to, file|
        rustix::fs::unlinkat(place.directory, from.of(file), AtFlags::REMOVEDIR)
}

/// `unlinkat` of names that do not exist.
#[derive(Debug)]
pub struct UnlinkMissing(Name);

impl UnlinkMissing {
    /// Of names that are never made.
    pub fn new(tree: Tree) -> Self {
        Self(Name::new(tree, Kind::Missing))
    }
}

impl FileOps for UnlinkMissing {
    fn steps(&self) -> &'static [&'static str] {
        &["unlink"]
    }

    #[inline]
    fn operate<C: Clock>(
        &mut self,
        place: &Place<'_>,
        file: u64,
        laps: &mut Laps<'_, C>,
    ) -> Result<(), CallError> {
        let removed = rustix::fs::unlinkat(place.directory, self.0.of(file), AtFlags::empty());
        expect::<_, true>(0, removed)?;
        laps.lap(0);
        Ok(())
    }
}

/// When a round ends early.
#[derive(Debug, Clone, Copy)]
pub struct RoundLimits<'a> {
    /// No operation starts after this instant.
    pub deadline_ns: u64,
    /// Raised by whoever wants all workers to stop; looked at once an interval.
    pub stop: &'a AtomicBool,
}

/// How a round ended.
#[derive(Debug)]
pub struct Round {
    /// Operations, in the order of the visits: fewer than asked for if it ended early.
    pub done: u64,
    /// When the first of them began.
    pub start_ns: u64,
    /// When the last of them ended.
    pub end_ns: u64,
    /// The first call that failed.
    pub result: Result<(), Failure>,
}

/// Which files a round visits, in which order.
#[derive(Debug, Clone, Copy)]
pub struct Visits {
    /// Number of the first file.
    pub first: u64,
    /// How many from there on are visited.
    pub files: u64,
    /// In this order; in sequence if there is none.
    pub order: Option<Permutation>,
}

impl Visits {
    /// In the order of their numbers.
    pub fn in_sequence(first: u64, files: u64) -> Self {
        Self { first, files, order: None }
    }

    #[inline]
    fn at(&self, place: u64) -> u64 {
        self.first + self.order.map_or(place, |order| order.at(place))
    }
}

/// Does an operation to every file of a set, once.
pub fn round<C: Clock, V: FileOps>(
    verb: &mut V,
    place: &Place<'_>,
    visits: Visits,
    clock: &C,
    recorder: &mut Recorder,
    limits: RoundLimits<'_>,
) -> Round {
    let start_ns = clock.now_ns();
    recorder.start(start_ns);
    let mut next_tick_ns = start_ns + INTERVAL_NS;
    let mut laps = Laps { clock, recorder, last_ns: start_ns };
    let mut done = 0;
    let mut result = Ok(());
    let mut now_ns = start_ns;
    while done < visits.files && now_ns < limits.deadline_ns {
        let file = visits.at(done);
        if let Err((step, errno)) = verb.operate(place, file, &mut laps) {
            let call = verb.steps().get(step).copied().unwrap_or("call");
            result = Err(Failure { call, file, offset_bytes: None, cause: errno.into() });
            break;
        }
        laps.recorder.operation(laps.last_ns.saturating_sub(now_ns), 0);
        now_ns = laps.last_ns;
        done += 1;
        if now_ns >= next_tick_ns {
            laps.recorder.hand_over(now_ns);
            next_tick_ns = now_ns + INTERVAL_NS - (now_ns - next_tick_ns) % INTERVAL_NS;
            if limits.stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    recorder.flush(now_ns);
    Round { done, start_ns, end_ns: now_ns, result }
}

/// Reads the entries of every directory of a set.
#[derive(Debug)]
pub struct Readdir {
    name: Name,
    buffer: Box<[MaybeUninit<u8>]>,
}

impl Readdir {
    /// The calls that it makes.
    pub const STEPS: &'static [&'static str] = &["open", "getdents64", "close"];
    /// Room for the entries that one call returns: what glibc's readdir gives it.
    const BUFFER_BYTES: usize = 32 << 10;

    /// The directories of a tree.
    pub fn new(tree: Tree) -> Self {
        Self { name: Name::new(tree, Kind::File), buffer: Box::new_uninit_slice(Self::BUFFER_BYTES) }
    }

    /// Reads all of them once. One operation is an entry; the latency is of each `getdents64`, which returns as many
    /// as fit into 32 KiB.
    pub fn round<C: Clock>(
        &mut self,
        place: &Place<'_>,
        clock: &C,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        let start_ns = clock.now_ns();
        recorder.start(start_ns);
        let mut round = Round { done: 0, start_ns, end_ns: start_ns, result: Ok(()) };
        let mut next_tick_ns = start_ns + INTERVAL_NS;
        for dir in 0..place.tree.dirs {
            let mut laps = Laps { clock, recorder, last_ns: round.end_ns };
            let read = self.directory(place, dir, &mut laps, &mut round.done, limits);
            round.end_ns = laps.last_ns;
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err((step, errno)) => {
                    let call = Self::STEPS[step];
                    round.result = Err(Failure { call, file: dir, offset_bytes: None, cause: errno.into() });
                    break;
                }
            }
            if round.end_ns >= next_tick_ns {
                recorder.hand_over(round.end_ns);
                next_tick_ns = round.end_ns + INTERVAL_NS;
                if limits.stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        recorder.flush(round.end_ns);
        round
    }

    /// True if the directory was read to its end, false if the deadline came first.
    fn directory<C: Clock>(
        &mut self,
        place: &Place<'_>,
        dir: u64,
        laps: &mut Laps<'_, C>,
        done: &mut u64,
        limits: RoundLimits<'_>,
    ) -> Result<bool, CallError> {
        let flags = READ_FLAGS.union(OFlags::DIRECTORY);
        let opened = rustix::fs::openat(place.directory, self.name.directory(dir), flags, Mode::empty())
            .map_err(|errno| (0, errno))?;
        laps.lap(0);
        let mut entries = RawDir::new(&opened, &mut self.buffer);
        let whole = loop {
            let calls_kernel = entries.is_buffer_empty();
            let entry = entries.next();
            if calls_kernel {
                laps.lap(1);
            }
            match entry {
                None => break true,
                Some(Err(errno)) => return Err((1, errno)),
                Some(Ok(entry)) => {
                    if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                        *done += 1;
                        laps.recorder.operations(1, 0);
                    }
                }
            }
            if calls_kernel && laps.last_ns >= limits.deadline_ns {
                break false;
            }
        };
        drop(opened);
        laps.lap(2);
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Monotonic;
    use crate::recorder::Shape;

    fn place(directory: &std::fs::File, tree: Tree) -> Place<'_> {
        Place { directory: directory.as_fd(), leaves: &[], tree }
    }

    fn all<V: FileOps>(mut verb: V, place: &Place<'_>, visits: Visits) -> (u64, u64, Vec<u64>) {
        let steps = verb.steps().len();
        let (mut recorder, reader) = Recorder::new(Shape::closed(steps));
        let stop = AtomicBool::new(false);
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop };
        let round = round(&mut verb, place, visits, &Monotonic, &mut recorder, limits);
        assert_eq!(round.result, Ok(()));
        let mut sums = (0, 0, vec![0; steps]);
        reader.drain(|delta| {
            sums.0 += delta.ops;
            sums.1 += delta.written_bytes;
            for (sum, step) in sums.2.iter_mut().zip(&delta.steps) {
                *sum += step.count();
            }
        });
        assert_eq!(sums.0, round.done);
        sums
    }

    fn names(path: &std::path::Path) -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn every_verb_does_what_it_says() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 20, dirs: 1, levels: 1 };
        let place = place(&directory, tree);
        let visits = Visits { first: 0, files: 20, order: Some(Permutation::new(20, 3)) };
        let sequence = Visits::in_sequence(0, 20);

        let content = Content::new(100, 5000, 9, 0);
        let sizes: u64 = (0..20).map(|file| content.size_bytes(file)).sum();
        let created = all(Create::new(tree, Some(content), true), &place, visits);
        assert_eq!(created, (20, sizes, vec![20; 4]));
        assert_eq!(names(temp.path())[3], "f00000003");

        assert_eq!(all(Stat::<false>::new(tree), &place, visits).0, 20);
        assert_eq!(all(Stat::<true>::new(tree), &place, visits).0, 20);
        assert_eq!(all(Open::<false>::new(tree), &place, sequence).2, [20, 20]);
        assert_eq!(all(Open::<true>::new(tree), &place, sequence).0, 20);
        assert_eq!(all(UnlinkMissing::new(tree), &place, sequence).0, 20);
        assert_eq!(all(Link::new(tree, Kind::File, Kind::Link, false), &place, sequence).0, 20);
        assert_eq!(all(Symlink::new(tree, Kind::File, Kind::Symlink, true), &place, sequence).2, [20, 20]);
        assert_eq!(std::fs::read_link(temp.path().join("s00000007")).unwrap().to_str(), Some("f00000007"));
        assert_eq!(all(Mkdir::new(tree, Kind::Directory, Kind::Directory, false), &place, sequence).0, 20);
        assert_eq!(names(temp.path()).len(), 80);

        let (mut recorder, reader) = Recorder::new(Shape::closed(Readdir::STEPS.len()));
        let stop = AtomicBool::new(false);
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop };
        assert_eq!(Readdir::new(tree).round(&place, &Monotonic, &mut recorder, limits).done, 80);
        let mut entries = 0;
        reader.drain(|delta| entries += delta.ops);
        assert_eq!(entries, 80);

        all(Rmdir::new(tree, Kind::Directory, Kind::Directory, false), &place, sequence);
        all(Unlink::new(tree, Kind::Link, Kind::Link, false), &place, visits);
        all(Unlink::new(tree, Kind::Symlink, Kind::Symlink, false), &place, sequence);
        all(Rename::new(tree, Kind::File, Kind::Renamed, false), &place, visits);
        assert!(names(temp.path()).iter().all(|name| name.starts_with('r')));
        all(Rename::new(tree, Kind::Renamed, Kind::File, false), &place, visits);
        all(Unlink::new(tree, Kind::File, Kind::File, false), &place, visits);
        assert_eq!(names(temp.path()), [""; 0]);
    }

    #[test]
    fn failures_name_call_and_file() {
        let temp = tempfile::tempdir().unwrap();
        let directory = std::fs::File::open(temp.path()).unwrap();
        let tree = Tree { files: 5, dirs: 1, levels: 1 };
        std::fs::write(temp.path().join("f00000002"), "in the way").unwrap();
        let (mut recorder, _reader) = Recorder::new(Shape::closed(2));
        let stop = AtomicBool::new(false);
        let limits = RoundLimits { deadline_ns: u64::MAX, stop: &stop };
        let mut verb = Create::new(tree, None, false);
        let round = round(
            &mut verb,
            &place(&directory, tree),
            Visits::in_sequence(0, 5),
            &Monotonic,
            &mut recorder,
            limits,
        );
        assert_eq!(round.done, 2);
        let failure = round.result.unwrap_err();
        assert_eq!((failure.call, failure.file, failure.cause), ("open", 2, Errno::EXIST.into()));
        assert_eq!(std::fs::read(temp.path().join("f00000002")).unwrap(), b"in the way");
    }
}
