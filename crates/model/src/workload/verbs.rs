//! Verbs on files: one entry for each.
//!
//! From it follow the checks of a plan, and the files that a test needs. The measuring loops have the numbers of its
//! steps, and the record has their names and the kernel's calls in which they sleep. The calls themselves are in
//! `engine/src/files`.

use super::{CopyWay, FileKind, FilesWork, Order, SyncMode, spec_words};
use crate::{load, mix};

/// The kind of object that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A file of the set.
    File = b'f',
    /// The same file after its renaming.
    Renamed = b'r',
    /// A hard link to the file.
    Link = b'l',
    /// A symbolic link to the file.
    Symlink = b's',
    /// A file with the same data as the file.
    Copy = b'c',
    /// A directory made by `mkdir`.
    Directory = b'm',
    /// A name that is never made.
    Missing = b'x',
}

impl Kind {
    /// Kinds of files that tests make.
    pub const FILES: [Self; 5] = [Self::File, Self::Renamed, Self::Link, Self::Symlink, Self::Copy];

    /// First letter of the names of this kind.
    pub const fn letter(self) -> char {
        self as u8 as char
    }
}

/// Change to a set of files that a round of a verb leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// None that a later round or test could see.
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
    AttributesSet,
    /// Names that only the mix or the load knows.
    Mixed,
}

/// A step of an operation: a call whose time is measured apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbStep {
    /// Number among all steps of its verb.
    pub number: usize,
    /// Name in results.
    pub name: &'static str,
    /// Names of the kernel's calls for it.
    pub calls: &'static [&'static str],
}

/// Properties of a verb.
#[derive(Debug)]
struct Properties {
    change: Change,
    /// Kind of the entries in its sets.
    kind: FileKind,
    /// True if it works on an existing name and makes none. It can then follow a directory while that is read.
    follows_directories: bool,
    /// True if it goes through whole trees of directories, in the order that these have.
    walks_trees: bool,
    /// True if one operation is one entry of a directory, also of another client.
    counts_entries: bool,
    /// True if it works on an extended attribute of each file.
    uses_attributes: bool,
    /// True if it may look for names that do not exist.
    can_miss: bool,
    /// True if it reads or writes data in calls of `chunk` bytes.
    moves_data: bool,
    /// Size of the files, as in an example, if it needs files with data.
    size_needed: Option<&'static str>,
    /// Bytes by which a round lets each file, or a new one beside it, grow.
    grown_bytes: fn(&FilesWork) -> u64,
    /// Bytes that a round writes for each file, with those that restore it; `None` if it writes the set or nothing.
    written_bytes: Option<fn(&FilesWork) -> u64>,
}

/// Properties of a look-up of files.
const LOOKUP: Properties = Properties {
    change: Change::Nothing,
    kind: FileKind::File,
    follows_directories: false,
    walks_trees: false,
    counts_entries: false,
    uses_attributes: false,
    can_miss: false,
    moves_data: false,
    size_needed: None,
    grown_bytes: |_| 0,
    written_bytes: None,
};

/// A step, and the condition under which the operations of a test have it.
type Condition = (VerbStep, fn(&FilesWork) -> bool);

/// Calls: the name of each in results, and its names in the kernel. Older architectures have more of them.
mod calls {
    pub type Call = (&'static str, &'static [&'static str]);

    pub const OPEN: Call = ("open", &["open", "openat"]);
    pub const CREATE: Call = ("create", OPEN.1);
    pub const CLOSE: Call = ("close", &["close"]);
    pub const STAT: Call = ("stat", &["stat", "newfstatat", "statx"]);
    pub const READ: Call = ("read", &["read"]);
    pub const WRITE: Call = ("write", &["write"]);
    pub const FSYNC: Call = ("fsync", &["fsync"]);
    pub const FTRUNCATE: Call = ("ftruncate", &["ftruncate"]);
    pub const COPY_FILE_RANGE: Call = ("copy_file_range", &["copy_file_range"]);
    pub const REFLINK: Call = ("reflink", &["ioctl"]);
    pub const FSETXATTR: Call = ("fsetxattr", &["fsetxattr"]);
    pub const FGETXATTR: Call = ("fgetxattr", &["fgetxattr"]);
    pub const GETDENTS: Call = ("getdents64", &["getdents64"]);
    pub const RENAME: Call = ("rename", &["rename", "renameat", "renameat2"]);
    pub const LINK: Call = ("link", &["link", "linkat"]);
    pub const SYMLINK: Call = ("symlink", &["symlink", "symlinkat"]);
    pub const READLINK: Call = ("readlink", &["readlinkat"]);
    pub const UNLINK: Call = ("unlink", &["unlink", "unlinkat"]);
    pub const MKDIR: Call = ("mkdir", &["mkdir", "mkdirat"]);
    pub const RMDIR: Call = ("rmdir", &["rmdir", "unlinkat"]);
    /// The first file of a set of links is no link.
    pub const OPEN_ORIGINAL: Call = OPEN;
    pub const CLOSE_ORIGINAL: Call = CLOSE;
    pub const FSYNC_LINK: Call = FSYNC;
}

/// Declares the verbs. Each has its help, its word, the properties in which it differs from a look-up, and the steps of
/// its operations. A step without a condition is in every operation. The steps are constants in a module of that name.
macro_rules! verbs {
    ($(
        $(#[doc = $help:tt])+
        $variant:ident = $word:literal { $($property:ident: $value:expr),* }
        $(in $steps:ident [$($step:ident $(if $condition:expr)?),+ $(,)?])?;
    )+) => {
        spec_words! {
            /// Unit that counts as one operation on files; its steps are the calls that it makes.
            FileVerb { $($(#[doc = $help])+ $variant = $word,)+ }
        }

        $($(
            #[doc = concat!("Steps of `", $word, "`.")]
            pub mod $steps {
                use super::*;

                #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "they have the constants' names")]
                enum Number { $($step),+ }

                $(
                    #[doc = concat!("The step `", stringify!($step), "`.")]
                    pub const $step: VerbStep = VerbStep {
                        number: Number::$step as usize,
                        name: calls::$step.0,
                        calls: calls::$step.1,
                    };
                )+

                pub(super) const ALL: &[Condition] = &[$(($step, verbs!(@if $($condition)?))),+];
            }
        )?)+

        impl FileVerb {
            /// Returns its properties.
            const fn properties(self) -> &'static Properties {
                match self { $(Self::$variant => &Properties { $($property: $value,)* ..LOOKUP },)+ }
            }

            /// Returns all steps, in the order of results; none for a verb whose operations have other verbs in them.
            const fn steps(self) -> &'static [Condition] {
                match self { $(Self::$variant => verbs!(@of $($steps)?),)+ }
            }
        }
    };
    (@if) => { |_| true };
    (@if $condition:expr) => { $condition };
    (@of) => { &[] };
    (@of $steps:ident) => { $steps::ALL };
}

verbs! {
    /// `openat` of a new name, a write if files have a size, `close`.
    Create = "create" { change: Change::Made(Kind::File), moves_data: true }
        in create [
            OPEN if is_file, WRITE if |work| is_file(work) && work.size_max_bytes > 0,
            FSYNC if |work| is_file(work) && is_durable(work), CLOSE if is_file,
            LINK if |work| work.kind == FileKind::Hardlink, SYMLINK if |work| work.kind == FileKind::Symlink,
            OPEN_ORIGINAL if is_link, CLOSE_ORIGINAL if is_link,
            FSYNC_LINK if |work| is_link(work) && is_durable(work),
        ];
    /// `fstatat` of a name.
    Stat = "stat" { follows_directories: true, can_miss: true, moves_data: true }
        in stat [
            STAT, OPEN if has_contents, READ if has_contents, CLOSE if has_contents, GETDENTS if is_in_directories,
        ];
    /// `openat` for reading, `close`.
    Open = "open" { follows_directories: true, can_miss: true }
        in open [OPEN, CLOSE if |work| !work.missing, GETDENTS if is_in_directories];
    /// `openat` of a name, a `read` of all of the file, `close`.
    ReadFile = "read-file" { follows_directories: true, moves_data: true, size_needed: Some("4k") }
        in read_file [OPEN, READ, CLOSE, GETDENTS if is_in_directories];
    /// One entry that `getdents64` returns.
    Readdir = "readdir" { counts_entries: true }
        in readdir [OPEN, GETDENTS, CLOSE];
    /// `renameat` within its directory.
    Rename = "rename" { change: Change::Renamed }
        in rename [RENAME, FSYNC if is_durable];
    /// `linkat`: a second name for the file.
    Link = "link" { change: Change::Made(Kind::Link) }
        in link [LINK, FSYNC if is_durable];
    /// `symlinkat`: a link to the file.
    Symlink = "symlink" { change: Change::Made(Kind::Symlink) }
        in symlink [SYMLINK, FSYNC if is_durable];
    /// `unlinkat` of a file.
    Unlink = "unlink" { change: Change::Removed(Kind::File), follows_directories: true, can_miss: true }
        in unlink [UNLINK, FSYNC if |work| is_durable(work) && !work.missing, GETDENTS if is_in_directories];
    /// `mkdirat` of a directory.
    Mkdir = "mkdir" { change: Change::Made(Kind::Directory) }
        in mkdir [MKDIR, FSYNC if is_durable];
    /// `unlinkat` of an empty directory.
    Rmdir = "rmdir" { change: Change::Removed(Kind::Directory) }
        in rmdir [RMDIR, FSYNC if is_durable];
    /// `openat` of a file, one `write` at its end, `close`.
    Append = "append" {
        change: Change::Resized, follows_directories: true, moves_data: true,
        grown_bytes: |work| work.chunk_bytes, written_bytes: Some(|work| work.chunk_bytes)
    }
        in append [OPEN, WRITE, FSYNC if is_durable, CLOSE, GETDENTS if is_in_directories];
    /// `openat` of a file, `ftruncate` to half of its size, `close`.
    Truncate = "truncate" {
        change: Change::Resized, size_needed: Some("64k"),
        written_bytes: Some(|work| work.size_max_bytes.div_ceil(2))
    }
        in truncate [OPEN, FTRUNCATE, FSYNC if is_durable, CLOSE];
    /// A second file with the same data: `openat` of both, the copy, `close` of both.
    Copy = "copy" {
        change: Change::Made(Kind::Copy), moves_data: true, size_needed: Some("64k"),
        grown_bytes: |work| work.size_max_bytes, written_bytes: Some(|work| work.size_max_bytes)
    }
        in copy [
            OPEN, CREATE, READ if |work| work.by == CopyWay::ReadWrite, WRITE if |work| work.by == CopyWay::ReadWrite,
            COPY_FILE_RANGE if |work| work.by == CopyWay::CopyRange, REFLINK if |work| work.by == CopyWay::Reflink,
            FSYNC if is_durable, CLOSE,
        ];
    /// `readlinkat` of a symbolic link.
    Readlink = "readlink" { kind: FileKind::Symlink }
        in readlink [READLINK];
    /// `openat` of a file, `fsetxattr` of 64 bytes, `close`.
    XattrSet = "xattr-set" { change: Change::AttributesSet, follows_directories: true, uses_attributes: true }
        in xattr_set [OPEN, FSETXATTR, FSYNC if is_durable, CLOSE, GETDENTS if is_in_directories];
    /// `openat` of a file, `fgetxattr` of 64 bytes, `close`.
    XattrGet = "xattr-get" { follows_directories: true, uses_attributes: true }
        in xattr_get [OPEN, FGETXATTR, CLOSE, GETDENTS if is_in_directories];
    /// One entry below a directory, as in find or a backup: `fstatat`, and all of its entries if it is a directory.
    Walk = "walk" { walks_trees: true, counts_entries: true }
        in walk [OPEN, GETDENTS, STAT, CLOSE];
    /// One entry of an `rm -r`: `unlinkat` of a file, or of an emptied directory.
    Remove = "remove" { change: Change::RemovedTree, walks_trees: true }
        in remove [OPEN, GETDENTS, UNLINK, RMDIR, CLOSE, FSYNC if is_durable];
    /// One flow of a mix: several calls on several files, as in a program.
    Mix = "mix" { change: Change::Mixed };
    /// One line of a load file of dbench: a call, or a few.
    Replay = "replay" { change: Change::Mixed };
}

/// Returns true if each change is made durable.
fn is_durable(work: &FilesWork) -> bool {
    work.sync == SyncMode::Each
}

/// Returns true if names come from directories, which list no missing ones.
fn is_in_directories(work: &FilesWork) -> bool {
    work.order == Order::Directory && !work.missing
}

fn has_contents(work: &FilesWork) -> bool {
    work.contents && !work.missing
}

fn is_file(work: &FilesWork) -> bool {
    work.kind == FileKind::File
}

fn is_link(work: &FilesWork) -> bool {
    !is_file(work)
}

impl FileVerb {
    /// Returns the change that a round leaves.
    pub fn change(self) -> Change {
        self.properties().change
    }

    /// Returns true if it changes files or directories.
    pub fn changes(self) -> bool {
        self.change() != Change::Nothing
    }

    /// Returns true if it changes what files hold, or their attributes, and not their names alone.
    pub fn changes_files(self) -> bool {
        matches!(self.change(), Change::Resized | Change::AttributesSet | Change::Made(Kind::Copy))
    }

    /// Returns true if it works on files that must exist before.
    pub fn visits_files(self) -> bool {
        let is_of_directories = matches!(
            self.change(),
            Change::Made(Kind::File | Kind::Directory) | Change::Removed(Kind::Directory)
        );
        !is_of_directories && self != Self::Replay
    }

    /// Returns true if each operation takes an inode.
    pub fn takes_inodes(self) -> bool {
        match self.change() {
            Change::Made(kind) => kind != Kind::Link,
            change => change == Change::Mixed,
        }
    }

    /// Returns true if it works on an existing name and makes none. It can then follow a directory while that is read.
    pub fn can_follow_directory(self) -> bool {
        self.properties().follows_directories
    }

    /// Returns true if it goes through whole trees of directories, in the order that these have.
    pub fn walks_trees(self) -> bool {
        self.properties().walks_trees
    }

    /// Returns true if one operation is one entry of a directory, also of another client.
    pub fn counts_entries(self) -> bool {
        self.properties().counts_entries
    }

    /// Returns true if it works on an extended attribute of each file.
    pub fn uses_attributes(self) -> bool {
        self.properties().uses_attributes
    }

    /// Returns true if it needs files that have an attribute.
    pub fn reads_attributes(self) -> bool {
        self.uses_attributes() && !self.changes()
    }

    /// Returns true if it may look for names that do not exist.
    pub fn can_miss(self) -> bool {
        self.properties().can_miss
    }

    /// Returns true if it works on links as on files. Links lead to empty files.
    pub fn can_use_links(self) -> bool {
        self == Self::Create || self.can_miss()
    }

    /// Returns true if it reads or writes data in calls of `chunk` bytes.
    pub(crate) fn moves_data(self) -> bool {
        self.properties().moves_data
    }

    /// Returns the size of files in an example, if it needs files with data.
    pub(crate) fn size_needed(self) -> Option<&'static str> {
        self.properties().size_needed
    }

    /// Returns the kind of the entries in its sets, if a test names none.
    pub(crate) fn default_kind(self) -> FileKind {
        self.properties().kind
    }
}

impl FilesWork {
    /// Returns the steps that its operations have, in the order of results; none if all operations are one call.
    pub fn steps(&self) -> Vec<VerbStep> {
        let operations = |names: &[&'static str]| {
            let step = |(number, name): (usize, &&'static str)| VerbStep { number, name, calls: &[] };
            names.iter().enumerate().map(step).collect::<Vec<_>>()
        };
        let steps = match self.verb {
            FileVerb::Mix => operations(mix::Operation::STEPS),
            FileVerb::Replay => operations(load::Operation::STEPS),
            verb => verb.steps().iter().filter(|(_, is_made)| is_made(self)).map(|(step, _)| *step).collect(),
        };
        if steps.len() > 1 { steps } else { Vec::new() }
    }

    /// Returns the bytes by which a round lets each file, or a new one beside it, grow.
    pub(super) fn grown_bytes(&self) -> u64 {
        (self.verb.properties().grown_bytes)(self)
    }

    /// Returns the bytes that a round writes for each file, with those that restore it; `None` if it writes the set or
    /// nothing.
    pub(super) fn written_bytes(&self) -> Option<u64> {
        self.verb.properties().written_bytes.map(|bytes| bytes(self))
    }
}

#[cfg(test)]
mod tests {
    use crate::spec::{Defaults, parse};

    #[test]
    fn steps_match_the_system_calls_of_the_spec() {
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
            let steps = workload.files().unwrap().steps();
            assert_eq!(steps.iter().map(|step| step.name).collect::<Vec<_>>(), expected, "{spec}");
            assert!(steps.is_sorted_by(|step, next| step.number < next.number));
        }
    }
}
