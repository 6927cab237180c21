//! Tests on files as such, and their keys.

use std::sync::Arc;

use super::keys::{self, Bytes, Count, Flag, Form, Key, Label, Maybe, Rate, Words, keys};
use super::verbs::Change;
use super::{Arrival, CopyWay, FileKind, FileVerb, MixName, Naming, Order, SyncMode};
use crate::load::{self, Load, LoadFile};
use crate::mix::{self, Mix, NamedMix};
use crate::size;
use crate::spec::{BLOCK_BYTES_MAX, CHUNK_BYTES_MIN, DIRS_MAX, Defaults, FILES_MAX, LEVELS_MAX};

/// Most bytes that one call on a file of a set writes or reads, and the default.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;
/// Default bytes that `append` writes: a page, as loggers write it.
const APPENDED_BYTES: u64 = 4 << 10;
/// Fewest directories in each directory of a tree. With fewer, there would be no tree.
const WIDTH_MIN: u64 = 2;

keys! {
    /// A test on files as such.
    FilesWork, FILE_KEYS,
    new(verb: FileVerb, files: u64) usual(|work: &FilesWork| FilesWork::new(work.verb, Defaults::default().files))

    /// The mix, for `mix`; a SPEC has its name behind the verb.
    field mix: NamedMix = NamedMix::Shipped(MixName::Mail);
    /// The load file, for `replay`; a SPEC has its name behind the verb.
    field load_file: LoadFile = LoadFile::default();
    /// Number of files (or directories, for `mkdir` and `rmdir`), over all threads.
    field files: u64 = files;
    key "files" "N" [files: Count(1, FILES_MAX)] for |work| work.verb != FileVerb::Replay, MIX_REMEDY;
        label Label::Nothing; "number of files over all threads; default 64k or as many as fit; a mix sets its own number per thread";

    /// Smallest size of a file in bytes.
    field size_min_bytes: u64 = 0;
    /// Largest size of a file in bytes; sizes are drawn evenly between the two.
    field size_max_bytes: u64 = 0;
    key "size" "SIZE|MIN..MAX" [set_size, value_of_size] for makes_set, MIX_REMEDY;
        label Label::Own(label_of_size); "size of each file, with MIN..MAX uniformly distributed; default 0, but `read-file`, `truncate` and `copy` need one";

    /// Number of directories over which each thread spreads its files.
    field dirs: u64 = 1;
    key "dirs" "N" [set_dirs, value_of_dirs] for makes_set, MIX_REMEDY;
        label Label::Nothing; "directories per thread; default 1";

    /// Depth at which those directories lie, in levels.
    field levels: u32 = 1;
    key "levels" "N" [set_levels, value_of_levels] for makes_set, MIX_REMEDY;
        label Label::Key; "depth of these directories; default 1";
    key "tree" "WIDTHxDEPTH" [set_tree, value_of_tree] for makes_set, MIX_REMEDY;
        label Label::Key; "WIDTH directories in each directory, over DEPTH levels: `tree=10x3` is `dirs=1000:levels=3`";

    /// Order in which files are visited.
    field order: Order = Order::Sequential;
    key "order" "seq|rnd|dir" [order: Words] for |work| work.verb.can_follow_directory(), "";
        label Label::Value; "order: by number, random, or as the directory lists the files; default `seq`";
    key "order" "seq|rnd" [order: Words]
        for |work| makes_set(work) && !work.verb.can_follow_directory() && !work.verb.walks_trees(), MIX_REMEDY;
        label Label::Value; "order: by number or random; default `seq`";

    /// Form of the names.
    field naming: Naming = Naming::Plain;
    key "names" (Naming::FORM) [naming: Words] for makes_set, MIX_REMEDY;
        label Label::Value; "names are a number, or have up to 12 random letters after or before it; default `plain`";

    /// Kind of the entries in the set.
    field kind: FileKind = verb.default_kind();
    key "kind" (FileKind::FORM) [kind: Words] for |work| work.verb.can_use_links(),
        "; use it with create, stat, open and unlink";
        label Label::Value; "files, or one file per thread and links to it; default `file`";

    /// True if all threads work in the same directories instead of one for each, and a mix on the same files.
    field shared: bool = false;
    key "shared" "" [shared: Flag] for |work| !matches!(work.verb, FileVerb::Remove | FileVerb::Replay),
         ": each thread has its own tree";
        label Label::Key; "the same directories for all threads, and with `--hosts` for all clients; by default each has its own. The threads of a mix share its files; one thread at a time uses a file";

    /// True if caches of names and inodes are dropped before every round (root, `--cache drop-all`).
    field cold: bool = false;
    key "cold" "" [cold: Flag] for makes_set, MIX_REMEDY;
        label Label::Key; "drops cached names before each round; as root, with `--cache drop-all`";

    /// True if the names do not exist, to measure failing look-ups.
    field missing: bool = false;
    key "missing" "" [missing: Flag] for |work| work.verb.can_miss(), "";
        label Label::Key; "uses names that do not exist";

    /// True if `stat` also opens, reads and closes files that are not empty.
    field contents: bool = false;
    key "contents" "" [contents: Flag] for |work| work.verb == FileVerb::Stat, "; use stat:contents";
        label Label::Key; "also opens, reads and closes files that are not empty";

    /// Most bytes that one call writes or reads.
    field chunk_bytes: u64 = default_chunk_bytes(verb);
    key "chunk" "SIZE" [chunk_bytes: Bytes(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX, "256")] for |work| work.verb.moves_data(),
        "; use it with append, or with size=SIZE and create, read-file, copy or stat:contents";
        label Label::Key; "maximum bytes per call, 256 bytes to 1 MiB (`create` with `size`, `read-file`, `stat` with `contents`, `copy`), and the bytes that `append` writes; default 1 MiB, and 4 KiB for `append`";

    /// How `copy` moves the data.
    field by: CopyWay = CopyWay::ReadWrite;
    key "by" (CopyWay::FORM) [by: Words] for |work| work.verb == FileVerb::Copy, "; use it with copy";
        label Label::Value; "`read` and `write` in turn, `copy_file_range`, or `FICLONE`, which shares the blocks; default `read-write`";

    /// When the directories are made durable, and with them what was written into files.
    field sync: SyncMode = SyncMode::None;
    key "sync" "none|end|each" [sync: Words] for makes_set, MIX_REMEDY;
        label Label::Key; "when directories and file data are synced: never (default), at the end of each round within the measured time, or with each operation";

    /// Rule for when flows start.
    field arrival: Arrival = Arrival::Closed;
    key "rate" "N|P%[,poisson]" [arrival: Rate] for |work| work.verb == FileVerb::Mix, "; use it with a mix";
        label Label::Own(|work| work.arrival.label());
        "open loop of a mix: N flows are due each second over all threads, or P % of the rate of the same mix without `rate` before it; latency counts from the due time. `,poisson` makes the intervals random";

    /// Ends the phase after that many rounds over all files, if set.
    field passes: Option<u64> = None;
    key "passes" "N" [passes: Maybe(Count(1, u64::MAX))] for |work| work.verb != FileVerb::Mix, MIX_REMEDY;
        label Label::Own(|work| (work.passes == Some(1)).then(|| "once".to_owned())); "ends after N passes, or when each thread has replayed the load N times";

    /// True if a missing path is not looked up case-insensitively in its directory.
    field no_resolve: bool = false;
    key "no-resolve" "" [no_resolve: Flag] for |work| work.verb == FileVerb::Replay, "";
        label Label::Key; "does not read the directory of a missing path; by default it does, as dbench and case-insensitive file servers do";
}

/// Remedy for keys of what a mix or a load defines itself.
const MIX_REMEDY: &str = ", which has its own files and calls";

/// Returns true if the keys define the set of files.
fn makes_set(work: &FilesWork) -> bool {
    work.verb.change() != Change::Mixed
}

/// Returns the default for the most bytes of one call.
fn default_chunk_bytes(verb: FileVerb) -> u64 {
    if verb == FileVerb::Append { APPENDED_BYTES } else { CHUNK_BYTES_MAX }
}

fn set_dirs(work: &mut FilesWork, value: &str) -> Result<(), String> {
    work.dirs = Count(1, DIRS_MAX).parse("dirs", "N", value)?;
    Ok(())
}

fn set_levels(work: &mut FilesWork, value: &str) -> Result<(), String> {
    work.levels = Count(1, LEVELS_MAX.into()).parse("levels", "N", value)?;
    Ok(())
}

fn value_of_dirs(work: &FilesWork) -> Option<String> {
    (work.dirs != 1 && work.width().is_none()).then(|| size::exact(work.dirs))
}

fn value_of_levels(work: &FilesWork) -> Option<String> {
    (work.levels != 1 && work.width().is_none()).then(|| size::exact(work.levels.into()))
}

fn value_of_tree(work: &FilesWork) -> Option<String> {
    work.width().map(|width| format!("{width}x{}", work.levels))
}

fn set_tree(work: &mut FilesWork, value: &str) -> Result<(), String> {
    let parts = value.split_once('x').and_then(|(width, depth)| {
        let width = width.parse::<u64>().ok().filter(|width| *width >= WIDTH_MIN)?;
        Some((width, depth.parse::<u32>().ok().filter(|depth| (1..=LEVELS_MAX).contains(depth))?))
    });
    let Some((width, depth)) = parts else {
        return Err(format!(
            "`tree={value}`: use WIDTHxDEPTH, such as tree=10x3, with {WIDTH_MIN} or more directories and 1 to \
             {LEVELS_MAX} levels"
        ));
    };
    let dirs = width.checked_pow(depth).filter(|dirs| *dirs <= DIRS_MAX);
    let Some(dirs) = dirs else {
        return Err(format!(
            "`tree={value}`: the lowest level has more than {DIRS_MAX} directories; use a narrower or flatter tree"
        ));
    };
    (work.dirs, work.levels) = (dirs, depth);
    Ok(())
}

fn set_size(work: &mut FilesWork, value: &str) -> Result<(), String> {
    let (low, high) = value.split_once("..").unwrap_or((value, value));
    let (low, high) = (keys::bytes("size", low)?, keys::bytes("size", high)?);
    if low > high {
        return Err(format!("`size={value}`: the smaller size comes first"));
    }
    if high > BLOCK_BYTES_MAX {
        return Err(format!(
            "`size={value}`: files of file tests are at most {}; use a data test",
            size::exact(BLOCK_BYTES_MAX)
        ));
    }
    (work.size_min_bytes, work.size_max_bytes) = (low, high);
    Ok(())
}

fn value_of_size(work: &FilesWork) -> Option<String> {
    let (low, high) = (work.size_min_bytes, work.size_max_bytes);
    match low == high {
        true => (high > 0).then(|| size::exact(high)),
        false => Some(format!("{}..{}", size::exact(low), size::exact(high))),
    }
}

fn label_of_size(work: &FilesWork) -> Option<String> {
    (work.size_max_bytes > 0).then(|| size::exact(work.size_max_bytes).to_uppercase())
}

impl FilesWork {
    /// Returns true if each operation takes an inode; a hard link has that of its original.
    pub fn takes_inodes(&self) -> bool {
        self.verb.takes_inodes() && self.kind != FileKind::Hardlink
    }

    /// Returns true if it looks up names and changes nothing.
    pub fn is_lookup(&self) -> bool {
        !self.verb.changes() || self.missing
    }

    /// Returns true if its rate depends on cold names: it looks up names that exist. For names that do not exist, only
    /// the directory is read, and of an empty one hardly that.
    pub fn can_be_cold(&self) -> bool {
        let takes_key = || FILE_KEYS.iter().any(|key| key.name == "cold" && key.accepts(self));
        self.is_lookup() && !self.missing && takes_key()
    }

    /// Returns the inodes that the sets of all threads take, without their directories.
    pub fn inodes(&self, threads: u32) -> u64 {
        match self.kind {
            _ if self.missing => 0,
            // A hard link has the inode of its original; a symbolic link has another one.
            FileKind::Hardlink => u64::from(threads),
            _ if self.verb.visits_files() && self.verb.takes_inodes() => self.files.saturating_mul(2),
            _ => self.files_max(threads),
        }
    }

    /// Returns the mix, if it is one and more than its name is known.
    pub fn mix(&self) -> Option<&Mix> {
        if self.verb == FileVerb::Mix { self.mix.get() } else { None }
    }

    /// Returns the number of directories in each directory of a tree of several levels, if it is the same everywhere.
    pub fn width(&self) -> Option<u64> {
        let root = (self.dirs as f64).powf(1.0 / f64::from(self.levels.max(1))).round() as u64;
        let is_full = root >= WIDTH_MIN && root.checked_pow(self.levels) == Some(self.dirs);
        (self.levels > 1 && is_full).then_some(root)
    }

    /// Returns the load, if it replays one that was read.
    pub fn load(&self) -> Option<&Arc<Load>> {
        self.load_file.load.as_ref().filter(|_| self.verb == FileVerb::Replay)
    }

    /// Returns the number of files over all threads, where the test itself has one for each thread.
    pub fn own_files(&self, threads: u32) -> Option<u64> {
        let of_each = match self.verb {
            FileVerb::Mix => self.mix()?.population.files,
            // A separate directory, in which the load has its files.
            FileVerb::Replay => 1,
            _ => return None,
        };
        Some(of_each.saturating_mul(threads.into()))
    }

    /// Returns the most files that all threads have at once. Of a load, every name may exist.
    pub fn files_max(&self, threads: u32) -> u64 {
        self.load().map_or(self.files, |load| (load.nodes.len() as u64).saturating_mul(threads.into()))
    }

    /// Returns true if it writes data into files.
    pub fn writes_data(&self) -> bool {
        self.size_max_bytes > 0 || self.written_bytes().is_some() || self.verb.change() == Change::Mixed
    }

    /// Returns true if it makes something durable.
    pub fn syncs(&self) -> bool {
        self.sync != SyncMode::None
            || self.mix().is_some_and(|mix| mix.syncs())
            || self.verb == FileVerb::Replay && self.load().is_none_or(|load| load.syncs())
    }

    /// Returns true if the operation of this name makes something durable. `None` where no operations have names, or the
    /// mix is not known.
    pub fn syncs_in(&self, operation: &str) -> Option<bool> {
        match self.verb {
            FileVerb::Mix => Some(self.mix()?.operations_named(operation).any(mix::Operation::is_synced)),
            FileVerb::Replay => Some(operation == load::FLUSH),
            _ => None,
        }
    }

    /// Returns the most bytes that the files of all threads hold, with all that a round adds. For a load, it is those
    /// that one pass writes.
    pub fn set_bytes_max(&self, threads: u32) -> u64 {
        let file_bytes = self.size_max_bytes.saturating_add(self.grown_bytes());
        match (self.mix(), self.load()) {
            (Some(mix), _) => mix.bytes_max(self.files, threads),
            (_, Some(load)) => load.written_bytes.saturating_mul(threads.into()),
            (None, None) => self.files.saturating_mul(file_bytes),
        }
    }

    /// Returns the most bytes written into files of all threads before anything is measured.
    pub fn prepared_bytes_max(&self, threads: u32) -> u64 {
        if self.verb == FileVerb::Replay { 0 } else { self.set_bytes_max(threads) }
    }

    /// Returns the most space that the files of all threads take. For a load without `passes` whose files grow, it is
    /// that of the first pass.
    pub fn space_bytes_max(&self, threads: u32) -> u64 {
        match self.load() {
            Some(load) => {
                let later = self.passes.map_or(0, |passes| passes.saturating_sub(1));
                let grown_bytes = load.growth_bytes.saturating_mul(later);
                load.tree_bytes.saturating_add(grown_bytes).saturating_mul(threads.into())
            }
            None => self.set_bytes_max(threads),
        }
    }

    /// Returns the most bytes that a round writes, with those that restore the files after it.
    pub fn round_bytes_max(&self, threads: u32) -> u64 {
        let of_all = |bytes: u64| self.files.saturating_mul(bytes);
        self.written_bytes().map_or_else(|| self.set_bytes_max(threads), of_all)
    }

    /// Returns the most bytes that this number of rounds writes, with the set of a verb that does not write it again.
    pub fn rounds_bytes_max(&self, rounds: u64, threads: u32) -> u64 {
        let prepared_bytes =
            self.written_bytes().map_or(0, |_| self.files.saturating_mul(self.size_max_bytes));
        prepared_bytes.saturating_add(rounds.saturating_mul(self.round_bytes_max(threads)))
    }
}
