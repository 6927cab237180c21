//! One test in the field's words: verb, pattern, block size, depth, threads.

mod data;
mod engine;
mod files;
pub(crate) mod keys;
mod skew;
pub mod verbs;
mod zones;

use std::fmt;

pub use data::{DATA_KEYS, DataWork};
pub use engine::{Engine, RequestedEngine};
pub use files::{CHUNK_BYTES_MAX, FILE_KEYS, FilesWork};
pub use keys::Key;
pub use skew::{HotPart, Theta};
pub use verbs::FileVerb;
pub use zones::{ZONES_MAX, Zones};

use verbs::Change;

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

/// Declares an enumeration by its words. The comment on each is its meaning in help and documentation.
macro_rules! spec_words {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $help:tt])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub enum $name { $($(#[doc = $help])+ #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// All values, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// All words, as the form of a value.
            pub const FORM: &str = concat!($("|", $word),+).split_at(1).1;

            /// All words with their meanings, as Markdown.
            pub const HELP: &str = concat!($("`", $word, "`:", $($help),+, " "),+).trim_ascii();

            /// Each word with its meaning, in the same order.
            pub const WORDS: &[(&str, &str)] = &[$(($word, concat!($($help),+).trim_ascii()),)+];

            /// Returns the word for it in specs, flags and JSON.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns its meaning, as Markdown.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+).trim_ascii(),)+ }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|value| value.word() == word);
                found.ok_or_else(|| format!("`{word}` is not one of {}", [$($word),+].join(", ")))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}
pub(crate) use spec_words;

spec_words! {
    /// Unit that counts as one operation on data; its steps are the calls that it makes.
    DataVerb {
        /// Reads a block.
        Read = "read",
        /// Writes a block.
        Write = "write",
        /// Reads or writes a block, chosen at random.
        Rw = "rw",
        /// Reads a block and writes it back; its bytes count once. With `reread`, it reads the block again.
        Rewrite = "rewrite",
        /// Writes a block, then `fdatasync`.
        Fsync = "fsync",
        /// Discards a block: punches a hole into the file, or discards it on a block device. At most one pass.
        Discard = "discard",
        /// One `write` of a single byte, in sequence, through the page cache.
        ByteWrite = "byte-write",
        /// One `read` of a single byte, in sequence, through the page cache.
        ByteRead = "byte-read",
        /// One `putc`: a byte into the buffer of the C library.
        PutcWrite = "putc-write",
        /// One `getc`: a byte out of the buffer of the C library.
        GetcRead = "getc-read",
    }
}

spec_words! {
    /// How `copy` moves the data.
    CopyWay {
        /// `read` and `write` in turn.
        ReadWrite = "read-write",
        /// `copy_file_range`: the kernel or a server copies, and may share blocks.
        CopyRange = "copy-range",
        /// `FICLONE`: both files share their blocks.
        Reflink = "reflink",
    }
}

spec_words! {
    /// A shipped mix of operations.
    MixName {
        /// A mail server that keeps each message in a file.
        Mail = "mail",
        /// A web server of static files, with a log.
        Web = "web",
        /// Home directories on a file server.
        Home = "home",
        /// A compile.
        Build = "build",
        /// Pages at random, and a log that is synced.
        Database = "database",
        /// A collection of photos.
        Photos = "photos",
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
        /// In the order of `getdents64`, which depends on the file system.
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
        /// Never, but the files are closed at the end, within the measured time. A network file system sends its data
        /// at a close.
        Close = "close",
        /// Once, at the end, inside the measured time.
        End = "end",
        /// After every operation.
        Each = "each",
        /// With every write: its call is durable when it returns (`RWF_DSYNC`).
        Dsync = "dsync",
    }
}

spec_words! {
    /// State of the page cache before a buffered read.
    CacheMode {
        /// The file's own pages are written back and dropped.
        Cold = "cold",
        /// The file is read once before.
        Warm = "warm",
        /// Unchanged since the previous test.
        AsIs = "as-is",
        /// All caches of the machine are dropped; root only, slows down other programs.
        DropAll = "drop-all",
    }
}

impl DataVerb {
    /// Returns the pattern of a test that names none.
    fn pattern(self) -> (Access, u64) {
        match self {
            Self::Rw | Self::Fsync => (Access::Random, 4 << 10),
            _ if self.is_bytes() => (Access::Sequential, 1),
            _ => (Access::Sequential, 1 << 20),
        }
    }

    /// Returns true if a test that does not say otherwise bypasses the page cache.
    fn is_direct(self) -> bool {
        self != Self::Rewrite && !self.is_bytes()
    }

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

    /// Returns true if it changes the data on the device. A discard does so without moving a byte.
    pub fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::ByteRead | Self::GetcRead)
    }

    /// Returns true if it reads data.
    pub fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::Fsync | Self::Discard | Self::ByteWrite | Self::PutcWrite)
    }
}

impl SyncMode {
    /// Returns true if changes are durable when the test is over.
    pub fn is_durable(self) -> bool {
        matches!(self, Self::End) || self.is_each()
    }

    /// Returns true if each change is durable before the next one.
    pub fn is_each(self) -> bool {
        matches!(self, Self::Each | Self::Dsync)
    }

    /// Returns true if a step at the end of the test counts within its time.
    pub fn has_final_sync(self) -> bool {
        matches!(self, Self::Close | Self::End)
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
        is_poisson: bool,
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

impl Arrival {
    /// Returns the part of a test's label: none for a closed loop, else `@500/s` or `@50% poisson`.
    pub(crate) fn label(self) -> Option<String> {
        let Self::Open { rate, is_poisson } = self else { return None };
        let rate = match rate {
            OpenRate::PerSecond(rate) => format!("@{rate}/s"),
            OpenRate::Percent(percent) => format!("@{percent}%"),
        };
        Some(if is_poisson { format!("{rate} poisson") } else { rate })
    }
}

impl fmt::Display for Arrival {
    /// Writes the value of `rate`: none for a closed loop, else `500` or `50%,poisson`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Open { rate, is_poisson } = self else { return Ok(()) };
        match rate {
            OpenRate::PerSecond(rate) => write!(f, "{rate}")?,
            OpenRate::Percent(percent) => write!(f, "{percent}%")?,
        }
        if *is_poisson { f.write_str(",poisson") } else { Ok(()) }
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

    /// Returns true if it writes data, or makes or changes files.
    pub fn writes(&self) -> bool {
        match &self.work {
            Work::Data(data) => data.writes(),
            Work::Files(files) => files.verb.changes(),
        }
    }

    /// Returns the same test with another number of threads. A mix or a load keeps its own number of files for each thread.
    #[must_use]
    pub fn with_threads(&self, threads: u32) -> Self {
        let mut other = Self { threads, ..self.clone() };
        if let Work::Files(files) = &mut other.work
            && files.own_files(self.threads) == Some(files.files)
        {
            files.files = files.own_files(threads).unwrap_or(files.files);
        }
        other
    }

    /// Returns the rule for when its operations start.
    pub fn arrival(&self) -> Arrival {
        match &self.work {
            Work::Data(data) => data.arrival,
            Work::Files(files) => files.arrival,
        }
    }

    /// Returns the same test with another rule for when its operations start.
    #[must_use]
    pub fn with_arrival(&self, arrival: Arrival) -> Self {
        let mut other = self.clone();
        match &mut other.work {
            Work::Data(data) => data.arrival = arrival,
            Work::Files(files) => files.arrival = arrival,
        }
        other
    }

    /// Returns true if the test is one measured part. Other tests on files have rounds, with gaps between them.
    pub fn is_continuous(&self) -> bool {
        self.files().is_none_or(|files| files.verb.change() == Change::Mixed)
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
    pub fn with_default_files(mut self) -> Self {
        let usual = (self.iodepth == 1).then_some(self.threads);
        if let Work::Data(data) = &mut self.work {
            data.files = data.files.filter(|files| Some(*files) != usual);
        }
        self
    }

    /// Returns a short description for tables: `4K rnd q32t4`, or `t4` with what is unusual for bytes and files.
    pub fn label(&self) -> String {
        let threads = format!("t{}", self.threads);
        let mut words = match &self.work {
            Work::Data(data) if !data.verb.is_bytes() => {
                let random = (data.access == Access::Random).then(|| "rnd".to_owned());
                let threads = if self.threads > 1 { threads } else { String::new() };
                let depth = format!("q{}{threads}", self.iodepth);
                [Some(crate::size::exact(data.block_bytes).to_uppercase()), random, Some(depth)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Work::Files(files) if files.verb == FileVerb::Mix => vec![files.mix.short().to_owned(), threads],
            Work::Files(files) if files.verb == FileVerb::Replay => {
                vec![files.load_file.short_name().to_owned(), threads]
            }
            Work::Data(_) | Work::Files(_) => vec![threads],
        };
        match &self.work {
            Work::Data(data) => words.extend(DATA_KEYS.iter().filter_map(|key| key.label(data))),
            Work::Files(files) => words.extend(FILE_KEYS.iter().filter_map(|key| key.label(files))),
        }
        words.join(" ")
    }
}
