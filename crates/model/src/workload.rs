//! One test in the field's words: verb, pattern, block size, depth, threads.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One test: its work, the number of threads, and the queue depth of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// Threads, each with its own disjoint range of the data or its own directory of files.
    pub threads: u32,
    /// Operations that each thread keeps in flight.
    pub iodepth: u32,
    /// The work of the threads.
    pub work: Work,
}

/// Operations on data inside files, or on files as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Reads and writes inside large files.
    Data(DataWork),
    /// Creations, look-ups, removals.
    Files(FilesWork),
}

macro_rules! spec_words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the word for it in specs, flags and JSON.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the value of a word.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

spec_words! {
    /// Unit that counts as one operation on data; its steps are the calls that it makes.
    DataVerb {
        /// One read of a block.
        Read = "read",
        /// One write of a block.
        Write = "write",
        /// A read or a write of a block, drawn by [`DataWork::read_percent`].
        Rw = "rw",
        /// A read and a write of the same block, its bytes counted once; with [`DataWork::reread`] another read of it.
        Rewrite = "rewrite",
        /// A write of a block and an `fdatasync`.
        Fsync = "fsync",
        /// One `write` of one byte.
        ByteWrite = "byte-write",
        /// One `read` of one byte.
        ByteRead = "byte-read",
        /// One `putc`: one byte into the buffer of the C library.
        PutcWrite = "putc-write",
        /// One `getc`: one byte out of the buffer of the C library.
        GetcRead = "getc-read",
    }
}

spec_words! {
    /// Engines that a test may ask for with `engine=`.
    EngineWord {
        /// Plain system calls.
        Sync = "sync",
        /// Requests in an io_uring.
        Uring = "uring",
        /// The full loop without I/O.
        Null = "null",
        /// The ring's own cost: io_uring requests that do nothing.
        Nop = "nop",
    }
}

spec_words! {
    /// Engine that issues the operations of a phase, as it was decided.
    Engine {
        /// Plain system calls.
        Sync = "sync",
        /// Requests in an io_uring.
        Uring = "uring",
        /// The full loop without I/O.
        Null = "null",
        /// io_uring requests that do nothing.
        Nop = "nop",
        /// Calls of the C library, which buffers.
        Stdio = "stdio",
        /// A simulated device, on a clock of its own.
        Sim = "sim",
    }
}

spec_words! {
    /// Unit that counts as one operation on files; its steps are the calls that it makes.
    FileVerb {
        /// `openat(O_CREAT|O_EXCL)`, a write if the file has a size, `close`.
        Create = "create",
        /// `fstatat` of one name.
        Stat = "stat",
        /// `openat(O_RDONLY)`, `close`.
        Open = "open",
        /// One entry returned by `getdents64`.
        Readdir = "readdir",
        /// `renameat` within the directory.
        Rename = "rename",
        /// `linkat`: a second name for the file.
        Link = "link",
        /// `symlinkat` to the file.
        Symlink = "symlink",
        /// `unlinkat` of one file.
        Unlink = "unlink",
        /// `mkdirat` of one directory.
        Mkdir = "mkdir",
        /// `unlinkat(AT_REMOVEDIR)` of one empty directory.
        Rmdir = "rmdir",
    }
}

spec_words! {
    /// Order in which the blocks of a file are visited.
    Access {
        /// From the first block to the last, then again.
        Sequential = "seq",
        /// Every block once in a pseudo-random order, then again in another.
        Random = "rnd",
    }
}

spec_words! {
    /// Order in which the files of a set are visited.
    Order {
        /// In the order of their numbers, which is the order of their creation.
        Sequential = "seq",
        /// In a pseudo-random order.
        Random = "rnd",
        /// In the order in which `getdents64` names them, which is up to the file system.
        Directory = "dir",
    }
}

spec_words! {
    /// Form of the names in a set of files.
    Naming {
        /// A letter and the number.
        Plain = "plain",
        /// The same, and up to 12 letters and digits after it, drawn for each file.
        NumberFirst = "number-first",
        /// Up to 12 letters and digits, drawn for each file, and then the same. Sorted by name, files are in no order.
        LettersFirst = "letters-first",
    }
}

spec_words! {
    /// Kind of the entries in a set of files.
    FileKind {
        /// Files.
        File = "file",
        /// One empty file of each thread, and hard links to it.
        Hardlink = "hardlink",
        /// One empty file of each thread, and symbolic links to it.
        Symlink = "symlink",
    }
}

spec_words! {
    /// When a test makes what it changed durable.
    SyncMode {
        /// Never.
        None = "none",
        /// Never, but the files are closed at the end, within the measured time. A network file system sends at a close
        /// all that it holds back.
        Close = "close",
        /// Once, at the end, inside the measured time.
        End = "end",
        /// After every operation.
        Each = "each",
    }
}

spec_words! {
    /// State of the page cache before a buffered read.
    CacheMode {
        /// The file's own pages are written back and dropped.
        Cold = "cold",
        /// The file is read once before.
        Warm = "warm",
        /// Left as the previous test left it.
        AsIs = "as-is",
        /// All caches of the machine are dropped. Only root may do that, and every other program pays for it.
        DropAll = "drop-all",
    }
}

spec_words! {
    /// Tests on which experiments are made, once all tests are done, to find out what limits them.
    Probing {
        /// No test.
        None = "none",
        /// Tests that change nothing.
        Reads = "reads",
        /// All tests, also those that write and make files.
        Writes = "writes",
    }
}

impl DataVerb {
    /// Returns true if one operation is one byte.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::ByteWrite | Self::ByteRead) || self.is_stdio()
    }

    /// Returns true if it goes through the buffers of the C library.
    pub fn is_stdio(self) -> bool {
        matches!(self, Self::PutcWrite | Self::GetcRead)
    }

    /// Returns true if it writes each file from its beginning to its end and reads nothing, so that it can make its
    /// files.
    pub fn can_make_files(self) -> bool {
        matches!(self, Self::Write | Self::ByteWrite | Self::PutcWrite)
    }

    /// Returns true if it changes the data on the device.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::ByteRead | Self::GetcRead)
    }

    /// Returns true if it reads data.
    pub fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::Fsync | Self::ByteWrite | Self::PutcWrite)
    }
}

impl SyncMode {
    /// Returns true if changes are durable when the test is over.
    pub fn is_durable(self) -> bool {
        matches!(self, Self::End | Self::Each)
    }

    /// Returns true if a step at the end of the test counts within its time.
    pub fn has_end(self) -> bool {
        matches!(self, Self::Close | Self::End)
    }
}

impl Engine {
    /// Returns true if it works on files of the data set.
    pub fn needs_files(self) -> bool {
        matches!(self, Self::Sync | Self::Uring | Self::Stdio)
    }
}

/// Rule for when operations start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next one starts when one ends.
    Closed,
    /// Operations are due at a rate, even if earlier ones have not ended. Latency counts from the time when they were
    /// due.
    Open {
        /// Rate at which they are due, over all threads.
        rate: OpenRate,
        /// True if the gaps between them are drawn from an exponential distribution, as of many independent users.
        /// Otherwise all gaps are the same.
        poisson: bool,
    },
}

/// The rate of an open loop, over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRate {
    /// Operations per second.
    PerSecond(u64),
    /// Percent of the closed-loop rate that the same test reached just before.
    Percent(u8),
}

impl fmt::Display for Arrival {
    /// Writes the words of a spec: none for a closed loop, else `rate=500`, `rate=50%,poisson`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Open { rate, poisson } = self else { return Ok(()) };
        match rate {
            OpenRate::PerSecond(rate) => write!(f, "rate={rate}")?,
            OpenRate::Percent(percent) => write!(f, "rate={percent}%")?,
        }
        if *poisson { f.write_str(",poisson") } else { Ok(()) }
    }
}

impl FileVerb {
    /// Returns true if each operation takes an inode.
    pub fn takes_inodes(self) -> bool {
        matches!(self, Self::Create | Self::Mkdir | Self::Symlink)
    }

    /// Returns true if it changes files or directories.
    pub fn changes(self) -> bool {
        !matches!(self, Self::Stat | Self::Open | Self::Readdir)
    }

    /// Returns true if it works on an existing name and makes none. It can then follow a directory that is read
    /// meanwhile.
    pub fn can_follow_directory(self) -> bool {
        matches!(self, Self::Stat | Self::Open | Self::Unlink)
    }

    /// Returns true if it works on links as on files.
    pub fn can_use_links(self) -> bool {
        self == Self::Create || self.can_follow_directory()
    }
}

/// Most bytes that one call on a file of a set writes or reads, and the default.
pub const CHUNK_BYTES_MAX: u64 = 1 << 20;

/// A test on data inside large files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataWork {
    /// Verb, which defines one operation.
    pub verb: DataVerb,
    /// Order in which blocks are visited.
    pub access: Access,
    /// Bytes of one block, read or written by one call.
    pub block_bytes: u64,
    /// True if the page cache is bypassed (`O_DIRECT`).
    pub direct: bool,
    /// Percent of reads in `rw`.
    pub read_percent: u8,
    /// True if `rw` reads a block just before it writes it, as a program does that changes a record.
    pub update: bool,
    /// True if `rewrite` reads each block again after it was written.
    pub reread: bool,
    /// When writes are made durable.
    pub sync: SyncMode,
    /// True if all threads work in one file instead of one each.
    pub shared: bool,
    /// Number of files in which all threads work, if it was asked for and is not one for each thread; at least 2.
    pub files: Option<u32>,
    /// True if the test makes its files itself: their old contents are cut off before, and it writes them once.
    pub fresh: bool,
    /// Rule for when operations start.
    pub arrival: Arrival,
    /// Percent of each 4 KiB of data that compresses away.
    pub compress_percent: u8,
    /// Percent of the blocks that are copies of one another.
    pub dedupe_percent: u8,
    /// Engine that was asked for; otherwise [`plan`](crate::plan::plan) chooses.
    pub engine: Option<EngineWord>,
    /// True if the ring polls the device for completions instead of waiting for interrupts (`IORING_SETUP_IOPOLL`).
    pub iopoll: bool,
    /// True if a kernel thread takes requests from the ring (`IORING_SETUP_SQPOLL`).
    pub sqpoll: bool,
    /// True for `putc_unlocked` and `getc_unlocked` in place of the calls that lock the stream.
    pub unlocked: bool,
    /// True if the process that calls the C library has a second thread, so that each call takes the stream's lock.
    pub threaded: bool,
    /// Bytes of the C library's buffer (`setvbuf`), if that was asked for; otherwise the library chooses.
    pub stdio_buffer_bytes: Option<u64>,
    /// Ends the phase after that many visits of every block, if set.
    pub passes: Option<u64>,
    /// Ends the phase after that many operations, if set.
    pub ops: Option<u64>,
    /// Ends the phase after that many bytes, if set.
    pub bytes: Option<u64>,
}

impl DataWork {
    /// Returns true if it goes through the page cache from the beginning of a file to its end. The kernel then reads
    /// ahead and writes behind.
    pub fn is_stream(&self) -> bool {
        !self.direct && self.access == Access::Sequential
    }

    /// Returns true if it changes the data on the device.
    pub fn writes(&self) -> bool {
        self.verb.writes()
    }

    /// Returns true if it reads data.
    pub fn reads(&self) -> bool {
        self.verb.reads()
    }
}

/// A test on files as such.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesWork {
    /// Verb, which defines one operation.
    pub verb: FileVerb,
    /// Number of files (or directories, for `mkdir` and `rmdir`), over all threads.
    pub files: u64,
    /// Smallest size of a file in bytes.
    pub size_min_bytes: u64,
    /// Largest size of a file in bytes; sizes are drawn evenly between the two.
    pub size_max_bytes: u64,
    /// Number of directories over which each thread spreads its files.
    pub dirs: u64,
    /// Depth at which those directories lie, in levels.
    pub levels: u32,
    /// Order in which files are visited.
    pub order: Order,
    /// True if all threads work in the same directories instead of their own.
    pub shared: bool,
    /// True if caches of names and inodes are dropped before every round (root, `--cache drop-all`).
    pub cold: bool,
    /// True if the names do not exist, to measure failing look-ups.
    pub missing: bool,
    /// When the directories are made durable, and with them what was written into files.
    pub sync: SyncMode,
    /// Ends the phase after that many rounds over all files, if set.
    pub passes: Option<u64>,
    /// Form of the names.
    pub naming: Naming,
    /// Kind of the entries in the set.
    pub kind: FileKind,
    /// True if `stat` also opens, reads and closes files that are not empty.
    pub contents: bool,
    /// Most bytes that one call writes or reads.
    pub chunk_bytes: u64,
}

impl FilesWork {
    /// Returns `verb` on `files` files, with nothing else asked for: empty files in one directory per thread, in
    /// sequence.
    pub fn new(verb: FileVerb, files: u64) -> Self {
        Self {
            verb,
            files,
            size_min_bytes: 0,
            size_max_bytes: 0,
            dirs: 1,
            levels: 1,
            order: Order::Sequential,
            shared: false,
            cold: false,
            missing: false,
            sync: SyncMode::None,
            passes: None,
            naming: Naming::Plain,
            kind: FileKind::File,
            contents: false,
            chunk_bytes: CHUNK_BYTES_MAX,
        }
    }

    /// Returns true if each operation takes an inode; a hard link has that of its original.
    pub fn takes_inodes(&self) -> bool {
        self.verb.takes_inodes() && self.kind != FileKind::Hardlink
    }

    /// Returns the most bytes written into the files of one full set.
    pub fn set_bytes_max(&self) -> u64 {
        self.files.saturating_mul(self.size_max_bytes)
    }
}

impl Workload {
    /// Returns the verb's word, which is the `name` of a phase.
    pub fn name(&self) -> &'static str {
        match &self.work {
            Work::Data(data) => data.verb.word(),
            Work::Files(files) => files.verb.word(),
        }
    }

    /// Returns the data part of a test on data.
    pub fn data(&self) -> Option<&DataWork> {
        match &self.work {
            Work::Data(data) => Some(data),
            Work::Files(_) => None,
        }
    }

    /// Returns the files part of a test on files.
    pub fn files(&self) -> Option<&FilesWork> {
        match &self.work {
            Work::Files(files) => Some(files),
            Work::Data(_) => None,
        }
    }

    /// Returns the number of operations in flight, over all threads.
    pub fn in_flight(&self) -> u32 {
        self.threads.saturating_mul(self.iodepth)
    }

    /// Returns the number of files in which a test on data works. Where each thread has its own, it is a lower bound.
    pub fn data_files(&self) -> u32 {
        let Some(data) = self.data() else { return 0 };
        if data.shared { 1 } else { data.files.unwrap_or(self.threads) }
    }

    /// Returns the same test, with a number of files only where it is not the default. Depth may become threads, and
    /// one file for each of them is then a different number.
    #[must_use]
    pub fn with_usual_files(mut self) -> Self {
        let usual = (self.iodepth == 1).then_some(self.threads);
        if let Work::Data(data) = &mut self.work {
            data.files = data.files.filter(|files| Some(*files) != usual);
        }
        self
    }

    /// Returns a short description for tables: `4K rnd q32t4`, or `t4` with what is unusual for bytes and files.
    pub fn label(&self) -> String {
        match &self.work {
            Work::Data(data) => {
                let upper = |bytes: u64| crate::size::exact(bytes).to_uppercase();
                let mut label = if data.verb.is_bytes() {
                    format!("t{}", self.threads)
                } else {
                    let random = if data.access == Access::Random { " rnd" } else { "" };
                    let threads = if self.threads > 1 { format!("t{}", self.threads) } else { String::new() };
                    format!("{}{random} q{}{threads}", upper(data.block_bytes), self.iodepth)
                };
                // Only differences from the verb's default are worth a reader's eye.
                let direct_is_default = data.verb != DataVerb::Rewrite;
                if data.direct != direct_is_default && !data.verb.is_bytes() {
                    label.push_str(if data.direct { " direct" } else { " buffered" });
                }
                for (set, word) in
                    [(data.update, " update"), (data.reread, " reread"), (data.shared, " shared")]
                {
                    if set {
                        label.push_str(word);
                    }
                }
                if let Some(files) = data.files {
                    label.push_str(&format!(" files={files}"));
                }
                if data.fresh {
                    label.push_str(" fresh");
                }
                if data.sync != SyncMode::End {
                    label.push_str(&format!(" sync={}", data.sync));
                }
                if let Arrival::Open { rate, poisson } = data.arrival {
                    label.push_str(&match rate {
                        OpenRate::PerSecond(rate) => format!(" @{rate}/s"),
                        OpenRate::Percent(percent) => format!(" @{percent}%"),
                    });
                    label.push_str(if poisson { " poisson" } else { "" });
                }
                for (percent, word) in [(data.compress_percent, "compress"), (data.dedupe_percent, "dedupe")]
                {
                    if percent > 0 {
                        label.push_str(&format!(" {word}={percent}"));
                    }
                }
                for (set, word) in [(data.iopoll, " iopoll"), (data.sqpoll, " sqpoll")] {
                    if set {
                        label.push_str(word);
                    }
                }
                // Reports show beside the label which of the two real engines was taken.
                if let Some(engine @ (EngineWord::Null | EngineWord::Nop)) = data.engine {
                    label.push_str(&format!(" engine={engine}"));
                }
                if data.unlocked {
                    label.push_str(" unlocked");
                }
                if data.threaded {
                    label.push_str(" threaded");
                }
                if let Some(bytes) = data.stdio_buffer_bytes {
                    label.push_str(&format!(" stdio_buffer={}", upper(bytes)));
                }
                label
            }
            Work::Files(files) => {
                let mut label = format!("t{}", self.threads);
                if files.size_max_bytes > 0 {
                    label.push(' ');
                    label.push_str(&crate::size::exact(files.size_max_bytes).to_uppercase());
                }
                if files.order != Order::Sequential {
                    label.push_str(&format!(" {}", files.order));
                }
                if files.naming != Naming::Plain {
                    label.push_str(&format!(" {}", files.naming));
                }
                if files.kind != FileKind::File {
                    label.push_str(&format!(" {}", files.kind));
                }
                for (set, word) in
                    [(files.shared, " shared"), (files.cold, " cold"), (files.missing, " missing")]
                {
                    if set {
                        label.push_str(word);
                    }
                }
                if files.contents {
                    label.push_str(" contents");
                }
                if files.chunk_bytes != CHUNK_BYTES_MAX {
                    let chunk = crate::size::exact(files.chunk_bytes).to_uppercase();
                    label.push_str(&format!(" chunk={chunk}"));
                }
                if files.sync != SyncMode::None {
                    label.push_str(&format!(" sync={}", files.sync));
                }
                label
            }
        }
    }
}
