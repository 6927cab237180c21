//! Load files of dbench: the operations of a file server's client, one a line, as they were recorded.
//!
//! [`Load::parse`] reads versions 4 and 5 of the format. Names of a load never reach the disk: each component of a path
//! becomes a number, one per name. The tree keeps its structure and depth. Handles become slots of a table, as dbench
//! would fill it.

mod parse;
mod tree;

use std::fmt;
use std::sync::Arc;

use crate::digest::digest;
use crate::spec::{DIRS_MAX, LEVELS_MAX};

/// Name of the operation that makes a file durable.
pub const FLUSH: &str = "Flush";
/// Most bytes that one line reads or writes.
pub const PART_BYTES_MAX: u64 = 16 << 20;
/// Most handles that are open at a time. dbench has 200.
pub const HANDLES_MAX: usize = 1024;
/// Most different names of files.
pub const NAMES_MAX: u64 = 1 << 20;

/// A load file by its name, with the load once the file was read. Two are equal if their names are.
#[derive(Clone, Default)]
pub struct LoadFile {
    /// Name of the file, as the SPEC has it.
    pub name: String,
    /// The load; `None` in a SPEC that was only read, such as that of a document.
    pub load: Option<Arc<Load>>,
}

impl fmt::Debug for LoadFile {
    /// Writes the name alone: a load has a call for each of its lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LoadFile").field(&self.name).finish()
    }
}

impl PartialEq for LoadFile {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for LoadFile {}

impl LoadFile {
    /// Returns the last part of the name.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }
}

/// A load, ready to be replayed; by default, one without any line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Number of lines of the file.
    pub lines: u64,
    /// Checksum of its text (64-bit FNV-1a), which identifies the load.
    pub digest: u64,
    /// The calls of one pass, in order.
    pub calls: Box<[Call]>,
    /// Line of each call, from 1.
    pub line_of: Box<[u32]>,
    /// Time from the begin of a pass before which each call does not start; empty if no line has a time.
    pub due_ns: Box<[u64]>,
    /// Offsets that are drawn or continued.
    pub offsets: Box<[Offset]>,
    /// Files and directories. The first is the thread's own directory; each other comes after its parent.
    pub nodes: Box<[Node]>,
    /// Numbers of files that names have.
    pub files: u64,
    /// Numbers of directories that names have.
    pub dirs: u64,
    /// Directories on the way to the deepest name.
    pub levels: u32,
    /// Places in the table of handles.
    pub handles: usize,
    /// Operations of a pass.
    pub operations: u64,
    /// Bytes that a pass writes.
    pub written_bytes: u64,
    /// Largest size of the tree: the sum of the highest ends of all files.
    pub tree_bytes: u64,
    /// Bytes that a pass may add to the files that the one before has left. Its writes at random offsets do so, unless
    /// the file is emptied in each pass.
    pub growth_bytes: u64,
    /// Largest part that one operation reads.
    pub read_part_bytes: u64,
    /// Largest part that one operation writes.
    pub written_part_bytes: u64,
    /// Lines that are left out, by their first word.
    pub left_out: Vec<LeftOut>,
}

/// Lines with the same first word that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The word.
    pub word: String,
    /// Number of lines.
    pub lines: u64,
    /// The first of them, from 1.
    pub first_line: u64,
}

/// A file or a directory of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Directory in which it lies.
    pub parent: u32,
    /// True for a directory.
    pub is_directory: bool,
    /// Number of its name.
    pub number: u32,
}

/// One call of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The operation.
    pub operation: Operation,
    /// Its end as the file has it.
    pub expected: Expected,
}

/// End of an operation as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It succeeds.
    Success,
    /// It fails.
    Failure,
    /// Either.
    Any,
}

/// Offset of a part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOffset {
    /// A number.
    Fixed(u64),
    /// The number of one of [`Load::offsets`].
    Found(u32),
}

/// Offset that is found when the operation runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offset {
    /// A random number of 64 bits, then changed in this order.
    Random(Box<[Change]>),
    /// The offset of the operation before, and so much more.
    RelativeBytes(u64),
    /// The offset of the operation before, and the number of the client more.
    RelativeByClientNumber,
    /// The offset of the operation before, and the number of clients more.
    RelativeByClientCount,
}

/// Change to a random number. No operand is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The rest of a division.
    Modulo(u64),
    /// The next lower multiple.
    Multiple(u64),
    /// A sum.
    Plus(u64),
}

/// Operation of a load. Paths are numbers of [`Load::nodes`], and slots are entries of the table of handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `NTCreateX`.
    Open {
        /// The file or directory.
        path: u32,
        /// Place of the handle; `None` if the file expects a failure.
        slot: Option<u32>,
        /// True if a missing file is made.
        creates_file: bool,
        /// True if a file is cut to nothing.
        truncates_file: bool,
        /// True if a directory is made, if it is missing, and opened.
        is_directory: bool,
    },
    /// `Close`.
    Close(u32),
    /// `ReadX`.
    Read(Part),
    /// `WriteX`.
    Write(Part),
    /// `Flush`.
    Flush(u32),
    /// `LockX`.
    Lock(Part),
    /// `UnlockX`.
    Unlock(Part),
    /// `Unlink`.
    Unlink(u32),
    /// `Rename`.
    Rename {
        /// The old path.
        from: u32,
        /// The new path.
        to: u32,
    },
    /// `Mkdir`.
    Mkdir(u32),
    /// `Rmdir`.
    Rmdir(u32),
    /// `Deltree`.
    Deltree(u32),
    /// `FIND_FIRST`.
    Find {
        /// The pattern, as a path.
        path: u32,
        /// Most entries to read; `None` for a name without wildcards, which is looked up alone.
        entries: Option<u32>,
    },
    /// `QUERY_PATH_INFORMATION`.
    QueryPath(u32),
    /// `QUERY_FILE_INFORMATION`.
    QueryFile(u32),
    /// `QUERY_FS_INFORMATION`.
    QueryFs,
    /// `SET_FILE_INFORMATION`.
    SetFile {
        /// Place of the handle.
        slot: u32,
        /// The path by which it was opened.
        path: u32,
    },
    /// Repeats the next call this many times. It is no operation by itself.
    Repeat(u32),
    /// Sleeps for this many nanoseconds. It is no operation by itself.
    Sleep(u64),
    /// Jumps back to a call, until the loop has made its turns. It is no operation by itself.
    EndLoop {
        /// Number of the first call of the loop.
        start: u32,
        /// Number of turns.
        turns: u32,
    },
}

/// Part of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Place of the handle.
    pub slot: u32,
    /// Offset in the file.
    pub at: PartOffset,
    /// Length in bytes.
    pub bytes: u32,
    /// Bytes that were moved when the load was recorded; no meaning for locks.
    pub moved: u32,
}

impl Operation {
    /// Names of the kinds of operations, as load files and dbench have them.
    pub const STEPS: &[&str] = &[
        "NTCreateX",
        "Close",
        "ReadX",
        "WriteX",
        FLUSH,
        "LockX",
        "UnlockX",
        "Unlink",
        "Rename",
        "Mkdir",
        "Rmdir",
        "Deltree",
        "FIND_FIRST",
        "QUERY_PATH_INFORMATION",
        "QUERY_FILE_INFORMATION",
        "QUERY_FS_INFORMATION",
        "SET_FILE_INFORMATION",
    ];

    /// Returns the position of its kind among [`Operation::STEPS`]; `None` if it only directs other calls.
    #[inline]
    pub const fn step(self) -> Option<usize> {
        Some(match self {
            Self::Open { .. } => 0,
            Self::Close(_) => 1,
            Self::Read(_) => 2,
            Self::Write(_) => 3,
            Self::Flush(_) => 4,
            Self::Lock(_) => 5,
            Self::Unlock(_) => 6,
            Self::Unlink(_) => 7,
            Self::Rename { .. } => 8,
            Self::Mkdir(_) => 9,
            Self::Rmdir(_) => 10,
            Self::Deltree(_) => 11,
            Self::Find { .. } => 12,
            Self::QueryPath(_) => 13,
            Self::QueryFile(_) => 14,
            Self::QueryFs => 15,
            Self::SetFile { .. } => 16,
            Self::Repeat(_) | Self::Sleep(_) | Self::EndLoop { .. } => return None,
        })
    }
}

impl Load {
    /// Reads the text of a load file.
    ///
    /// # Errors
    /// The first line that is invalid or exceeds a limit, with its number. A text without any known operation.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text)
    }

    /// Returns a sentence on the lines that are left out; `None` if there are none.
    pub fn left_out_note(&self, name: &str) -> Option<String> {
        let entry = |left: &LeftOut| {
            let LeftOut { word, lines, first_line } = left;
            match lines {
                1 => format!("{word} (line {first_line})"),
                _ => format!("{word} ({lines} lines, the first is {first_line})"),
            }
        };
        let each: Vec<_> = self.left_out.iter().map(entry).collect();
        (!each.is_empty()).then(|| format!("{name}: skipped unknown operations: {}", each.join(", ")))
    }

    /// Returns true if it makes anything durable.
    pub fn syncs(&self) -> bool {
        self.calls.iter().any(|call| matches!(call.operation, Operation::Flush(_)))
    }
}

#[cfg(test)]
mod tests;
