//! Calls of verbs on files, and the changes that they leave.

use engine::files::{Content, Part, measured};
use engine::names::{Kind, Tree};
use model::mix::Operation;
use model::workload::{FileVerb, FilesWork};

/// Returns the calls of a verb, if an operation makes several kinds.
pub fn steps(work: &FilesWork) -> Vec<&'static str> {
    if work.verb == FileVerb::Mix {
        return Operation::STEPS.to_vec();
    }
    let names = Tree { files: 1, dirs: 1, levels: 1 }.plain();
    let content = (work.size_max_bytes > 0).then(|| Content::new(1, 1, 1, 0, 0));
    let steps = measured(work, Part::single_thread(names, content, 0)).steps();
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
    AttributesSet,
    /// Names that only the mix or the load knows.
    Mixed,
}

/// Returns the change that a round of a verb leaves.
pub(super) fn change(verb: FileVerb) -> Change {
    match verb {
        FileVerb::Stat | FileVerb::Open | FileVerb::ReadFile | FileVerb::Readdir => Change::Nothing,
        FileVerb::Readlink | FileVerb::XattrGet | FileVerb::Walk => Change::Nothing,
        FileVerb::Append | FileVerb::Truncate => Change::Resized,
        FileVerb::XattrSet => Change::AttributesSet,
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

#[cfg(test)]
mod tests {
    use super::steps;
    use model::spec::{Defaults, parse};

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
            assert_eq!(steps(workload.files().unwrap()), expected, "{spec}");
        }
    }
}
