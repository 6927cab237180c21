//! The SPEC language: `VERB[:PATTERN][:QnTm][:KEY[=VALUE]…]`, for example `read:rnd4k:q32t4` or `create:t4:files=1m`.
//!
//! [`parse`] fills in from [`Defaults`] what a spec leaves out. [`print()`] writes a spec that means the same under the
//! built-in defaults, so that a result can always be repeated from its own text.

mod foreign;

pub use foreign::translated;

use crate::nearest;
use crate::size::{self, Size};
use crate::workload::{
    Access, Arrival, CHUNK_BYTES_MAX, DataVerb, DataWork, EngineWord, FileKind, FileVerb, FilesWork, Naming,
    OpenRate, Order, SyncMode, Work, Workload,
};

/// Most threads, and largest depth of each.
pub const CONCURRENCY_MAX: u32 = 4096;
/// Largest number of operations in flight over all threads: what 4,096 threads or deep rings have to share.
pub const IN_FLIGHT_MAX: u32 = 1 << 16;
/// Largest block: one call moves at most 2 GiB less a page, and a buffer per operation must fit in memory.
pub const BLOCK_BYTES_MAX: u64 = 1 << 30;
/// Largest buffer that a test may ask the C library for.
pub const STDIO_BUFFER_BYTES_MAX: u64 = 64 << 20;
/// Most files of one test: names carry eight hexadecimal digits.
pub const FILES_MAX: u64 = 1 << 32;
/// Most directories of one thread.
pub const DIRS_MAX: u64 = 1 << 16;
/// Smallest chunk that one call on a file of a set may be asked to write or read. With less, only the calls are
/// measured.
pub const CHUNK_BYTES_MIN: u64 = 256;
/// Most levels of directories, so that a path always fits `PATH_MAX`.
pub const LEVELS_MAX: u32 = 16;

/// Values for what a spec leaves out; flags such as `--files` and `--engine` change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Files of a file test.
    pub files: u64,
    /// True if data tests bypass the page cache; `None` leaves it to the verb.
    pub direct: Option<bool>,
    /// How data tests in blocks are issued; `None` leaves it to the plan.
    pub engine: Option<EngineWord>,
    /// Number of threads that `tN` means: the CPUs that may be used.
    pub cpus: u32,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { files: 64 << 10, direct: None, engine: None, cpus: 1 }
    }
}

/// Reason why a spec is not understood, always with the spec and with what would be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("test `{spec}`: {problem}")]
pub struct SpecError {
    /// The whole spec as it was written.
    pub spec: String,
    /// The problem with it.
    pub problem: String,
}

/// One key of a spec: its name, the value it takes, and what it means.
#[derive(Debug)]
pub struct Key {
    /// The word before the `=`.
    pub name: &'static str,
    /// Form of the value; empty for a key without one.
    pub value: &'static str,
    /// Its meaning in one sentence.
    pub help: &'static str,
}

/// Keys of data tests.
pub const DATA_KEYS: &[Key] = &[
    Key {
        name: "direct",
        value: "",
        help: "bypass the page cache with O_DIRECT (the default but for rewrite)",
    },
    Key { name: "buffered", value: "", help: "go through the page cache" },
    Key { name: "read", value: "PERCENT", help: "share of reads in rw (50)" },
    Key { name: "update", value: "", help: "what rw writes was read just before" },
    Key { name: "reread", value: "", help: "each block is read again after it was written (rewrite)" },
    Key {
        name: "sync",
        value: "none|close|end|each",
        help: "when writes are made durable (end); close: never, but files are closed within the measured time",
    },
    Key { name: "shared", value: "", help: "all threads in one file" },
    Key { name: "files", value: "N", help: "all threads in N files (one for each thread)" },
    Key {
        name: "fresh",
        value: "",
        help: "the test makes its files: they are empty when it begins, and it ends when they are full (write, byte-write, putc-write)",
    },
    Key {
        name: "rate",
        value: "N|P%[,poisson]",
        help: "open loop: N operations a second over all threads, or P% of what the test before reached",
    },
    Key { name: "compress", value: "PERCENT", help: "share of each 4 KiB that compresses away (0)" },
    Key { name: "dedupe", value: "PERCENT", help: "share of blocks that are copies of one another (0)" },
    Key {
        name: "engine",
        value: "sync|uring|null|nop",
        help: "plain system calls, io_uring, no I/O at all, an empty io_uring (the plan chooses)",
    },
    Key { name: "iopoll", value: "", help: "poll the device for completions (io_uring, direct)" },
    Key { name: "sqpoll", value: "", help: "a kernel thread takes the requests (io_uring)" },
    Key { name: "unlocked", value: "", help: "putc_unlocked and getc_unlocked (putc-write, getc-read)" },
    Key {
        name: "threaded",
        value: "",
        help: "beside a second thread, for which the C library takes locks (putc-write, getc-read)",
    },
    Key {
        name: "stdio_buffer",
        value: "SIZE",
        help: "buffer of the C library (putc-write, getc-read; its own choice)",
    },
    Key { name: "passes", value: "N", help: "stop after N visits of every block" },
    Key { name: "ops", value: "N", help: "stop after N operations" },
    Key { name: "bytes", value: "SIZE", help: "stop after SIZE" },
];

/// Words that tests of single bytes take, and the words that tests through the C library take besides.
const BYTE_WORDS: &str = "tN sync shared files passes ops bytes, where it writes fresh, with stdio unlocked, threaded and stdio_buffer";

/// Keys of file tests.
pub const FILE_KEYS: &[Key] = &[
    Key { name: "files", value: "N", help: "how many files, over all threads (64k)" },
    Key { name: "size", value: "SIZE|MIN..MAX", help: "bytes of each file (0)" },
    Key { name: "dirs", value: "N", help: "directories of each thread (1)" },
    Key { name: "levels", value: "N", help: "how deep they lie (1)" },
    Key {
        name: "order",
        value: "seq|rnd|dir",
        help: "order of the visits: by number, at random, as the directory names them (seq)",
    },
    Key {
        name: "names",
        value: "plain|number-first|letters-first",
        help: "nothing beside the number, or up to 12 letters after or before it (plain)",
    },
    Key {
        name: "kind",
        value: "file|hardlink|symlink",
        help: "files, or one and links to it (create, stat, open, unlink; file)",
    },
    Key { name: "shared", value: "", help: "all threads in the same directories" },
    Key {
        name: "cold",
        value: "",
        help: "drop cached names before each round (root, with --cache drop-all)",
    },
    Key { name: "missing", value: "", help: "names that do not exist (stat, open, unlink)" },
    Key { name: "contents", value: "", help: "also open, read and close what is not empty (stat)" },
    Key {
        name: "chunk",
        value: "SIZE",
        help: "most bytes of one call (create with size, stat with contents; 1m)",
    },
    Key {
        name: "sync",
        value: "none|end|each",
        help: "when directories, and what is in files, are made durable (none)",
    },
    Key { name: "passes", value: "N", help: "stop after N visits of every file" },
];

/// Parses one spec; `defaults` fills in what it leaves out.
///
/// # Errors
/// A [`SpecError`] that names the word and what would have been understood.
pub fn parse(spec: &str, defaults: &Defaults) -> Result<Workload, SpecError> {
    let fail = |problem: String| SpecError { spec: spec.to_owned(), problem };
    let mut words = spec.split(':').map(str::trim);
    let verb = words.next().unwrap_or_default();
    let parsed = if let Some(verb) = DataVerb::from_word(verb) {
        parse_data(verb, words, defaults)
    } else if let Some(verb) = FileVerb::from_word(verb) {
        parse_files(verb, words, defaults)
    } else {
        let known = || verbs().collect::<Vec<_>>().join(" ");
        Err(match nearest(verb, verbs()) {
            Some(near) => format!("unknown verb `{verb}`, did you mean `{near}`?"),
            None => format!("unknown verb `{verb}`; verbs are {}", known()),
        })
    };
    parsed.map_err(fail)
}

fn verbs() -> impl Iterator<Item = &'static str> {
    let data = DataVerb::ALL.iter().map(|verb| verb.word());
    data.chain(FileVerb::ALL.iter().map(|verb| verb.word()))
}

fn parse_data<'a>(
    verb: DataVerb,
    words: impl Iterator<Item = &'a str>,
    defaults: &Defaults,
) -> Result<Workload, String> {
    let (mut access, mut block_bytes) = default_pattern(verb);
    let mut concurrency = Concurrency::default();
    let in_blocks = !verb.is_bytes();
    let mut data = DataWork {
        verb,
        access,
        block_bytes,
        direct: in_blocks && defaults.direct.unwrap_or(verb != DataVerb::Rewrite),
        read_percent: 50,
        update: false,
        reread: false,
        sync: SyncMode::End,
        shared: false,
        files: None,
        fresh: false,
        arrival: Arrival::Closed,
        compress_percent: 0,
        dedupe_percent: 0,
        engine: defaults.engine.filter(|_| in_blocks),
        iopoll: false,
        sqpoll: false,
        unlocked: false,
        threaded: false,
        stdio_buffer_bytes: None,
        passes: None,
        ops: None,
        bytes: None,
    };
    for word in words {
        let (key, value) = split_key(word);
        match (key, value) {
            ("direct", None) if in_blocks => data.direct = true,
            ("buffered", None) => data.direct = false,
            ("shared", None) => data.shared = true,
            ("files", Some(value)) => {
                data.files = Some(parse_number(key, value, 1..=u64::from(CONCURRENCY_MAX))? as u32);
            }
            ("fresh", None) if verb.can_make_files() => data.fresh = true,
            ("fresh", None) => {
                return Err(format!(
                    "`fresh` has no meaning for {verb}: only tests that write and nothing else make their files; put \
                     write:fresh before it"
                ));
            }
            ("read", Some(value)) if verb == DataVerb::Rw => {
                data.read_percent = parse_number(key, value, 0..=100)? as u8;
            }
            ("update", None) if verb == DataVerb::Rw => data.update = true,
            ("reread", None) if verb == DataVerb::Rewrite => data.reread = true,
            ("reread", None) => {
                return Err(format!("`reread` has no meaning for {verb}; write rewrite:reread"));
            }
            ("sync", Some("each")) if verb.is_bytes() => {
                return Err(format!("`{word}`: no program makes each byte durable; write sync=none|close|end"));
            }
            ("sync", Some(value)) if verb.writes() => data.sync = parse_word(key, value)?,
            ("rate", Some(value)) if in_blocks => data.arrival = parse_rate(value)?,
            ("compress", Some(value)) if in_blocks => {
                data.compress_percent = parse_number(key, value, 0..=100)? as u8;
            }
            ("dedupe", Some(value)) if in_blocks => {
                data.dedupe_percent = parse_number(key, value, 0..=100)? as u8;
            }
            ("engine", Some(value)) if in_blocks => data.engine = Some(parse_word(key, value)?),
            ("iopoll", None) if in_blocks => data.iopoll = true,
            ("sqpoll", None) if in_blocks => data.sqpoll = true,
            ("unlocked", None) if verb.is_stdio() => data.unlocked = true,
            ("threaded", None) if verb.is_stdio() => data.threaded = true,
            ("stdio_buffer", Some(value)) if verb.is_stdio() => {
                let bytes = parse_bytes(key, value)?;
                if !(1..=STDIO_BUFFER_BYTES_MAX).contains(&bytes) {
                    return Err(format!("`{word}`: 1 byte to {}", size::exact(STDIO_BUFFER_BYTES_MAX)));
                }
                data.stdio_buffer_bytes = Some(bytes);
            }
            ("unlocked" | "threaded" | "stdio_buffer", _) if !verb.is_stdio() => {
                return Err(format!("`{word}` has no meaning for {verb}; putc-write and getc-read take it"));
            }
            ("passes", Some(value)) => data.passes = Some(parse_number(key, value, 1..=u64::MAX)?),
            ("ops", Some(value)) => data.ops = Some(parse_number(key, value, 1..=u64::MAX)?),
            ("bytes", Some(value)) => data.bytes = Some(parse_bytes(key, value)?),
            (_, None) if let Some(parsed) = parse_pattern(word)? => {
                if !in_blocks {
                    return Err(format!(
                        "`{word}`: {verb} works byte by byte: it has no pattern; write {}:{word} for blocks",
                        if verb.writes() { DataVerb::Write } else { DataVerb::Read }
                    ));
                }
                (access, block_bytes) = parsed;
            }
            (_, None) if concurrency.parse(word, defaults.cpus)? => {}
            _ => return Err(unknown(word, verb.word(), DATA_KEYS)),
        }
    }
    (data.access, data.block_bytes) = (access, block_bytes);
    let in_flight = u64::from(concurrency.iodepth) * u64::from(concurrency.threads);
    if !in_blocks && concurrency.iodepth != 1 {
        return Err(format!(
            "{verb} works byte by byte: it has no depth; write t{in_flight} for several at once"
        ));
    }
    if let Some(bytes) = data.bytes.filter(|bytes| *bytes < block_bytes) {
        return Err(format!(
            "bytes={bytes} is less than one block; write bytes={} or more",
            size::exact(block_bytes)
        ));
    }
    check_ring(&data)?;
    check_reread(&data)?;
    check_fresh(&mut data)?;
    settle_files(&mut data, concurrency.iodepth == 1 && concurrency.threads == 1)?;
    if in_flight > u64::from(IN_FLIGHT_MAX) {
        return Err(format!(
            "{in_flight} operations in flight are more than {IN_FLIGHT_MAX}; ask for less depth or fewer threads"
        ));
    }
    Ok(concurrency.with(Work::Data(data)).with_usual_files())
}

/// Refuses words that do not go with `fresh`: such a test writes each of its files once, from the beginning to the end.
fn check_fresh(data: &mut DataWork) -> Result<(), String> {
    if !data.fresh {
        return Ok(());
    }
    if data.access == Access::Random {
        let block = size::exact(data.block_bytes);
        return Err(format!(
            "fresh writes new files from their beginning to their end; write seq{block} for rnd{block}, or leave fresh \
             away"
        ));
    }
    if let Some(engine @ (EngineWord::Null | EngineWord::Nop)) = data.engine {
        return Err(format!(
            "fresh makes files, which engine={engine} does not touch; leave one of them away"
        ));
    }
    let passes = data.passes.filter(|passes| *passes != 1);
    let counts = [("passes", passes), ("ops", data.ops), ("bytes", data.bytes)];
    if let Some((key, Some(count))) = counts.iter().find(|(_, count)| count.is_some()) {
        return Err(format!(
            "fresh ends when its files are full, and {key}={} is another end; leave {key} away, and ask for files of \
             another --size",
            size::exact(*count)
        ));
    }
    data.passes = Some(1);
    Ok(())
}

/// Refuses `reread` with `sync=each`: a read after each sync would be a third kind of operation that nobody measures.
fn check_reread(data: &DataWork) -> Result<(), String> {
    if data.reread && data.sync == SyncMode::Each {
        return Err(
            "reread reads what was just written, before it is durable; write sync=none|close|end, or leave reread \
                    away"
                .into(),
        );
    }
    Ok(())
}

/// Turns one file for several threads into `shared`. Refuses `shared` with more than one file.
fn settle_files(data: &mut DataWork, is_alone: bool) -> Result<(), String> {
    match data.files {
        Some(files) if data.shared && files > 1 => {
            return Err(format!("shared is one file for all threads; leave shared or files={files} away"));
        }
        Some(1) => {
            data.shared |= !is_alone;
            data.files = None;
        }
        _ => {}
    }
    Ok(())
}

/// Refuses words that do not go with a polling ring.
fn check_ring(data: &DataWork) -> Result<(), String> {
    let word = match (data.iopoll, data.sqpoll) {
        (true, _) => "iopoll",
        (_, true) => "sqpoll",
        _ => return Ok(()),
    };
    if let Some(engine) = data.engine.filter(|engine| *engine != EngineWord::Uring) {
        return Err(format!(
            "{word} is a way of io_uring, which engine={engine} is not; write engine=uring or leave {word} away"
        ));
    }
    if data.iopoll && !data.direct {
        return Err(
            "iopoll polls the device, which buffered I/O does not wait for; write direct or leave iopoll away"
                .into(),
        );
    }
    if data.iopoll && (data.verb == DataVerb::Fsync || data.sync == SyncMode::Each) {
        return Err(
            "iopoll finds the ends of reads and writes only, not of a sync after each; leave iopoll away"
                .into(),
        );
    }
    if !data.direct && data.engine.is_none() {
        return Err(
            "sqpoll is a way of io_uring, which buffered tests do not use by themselves; add engine=uring or direct"
                .into(),
        );
    }
    Ok(())
}

/// Most operations per second of an open loop: already more than drawing their start times leaves time for.
pub(crate) const RATE_MAX: u64 = 100_000_000;

/// Parses `500` or `50%`, either with `,poisson`.
fn parse_rate(value: &str) -> Result<Arrival, String> {
    let (number, poisson) = match value.split_once(',') {
        None => (value, false),
        Some((number, "poisson")) => (number, true),
        Some((number, _)) => {
            return Err(format!("`rate={value}`: write rate={number} or rate={number},poisson"));
        }
    };
    let (digits, is_percent) = number.strip_suffix('%').map_or((number, false), |percent| (percent, true));
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let rate = match digits.parse::<u64>() {
        Ok(0) => {
            return Err(format!(
                "`rate={value}`: nothing would ever start; write rate=500 for 500 operations a second, or leave \
                 rate away for as fast as it goes"
            ));
        }
        Ok(percent @ 1..=100) if is_number && is_percent => OpenRate::Percent(percent as u8),
        Ok(_) if is_number && is_percent => {
            return Err(format!(
                "`rate={value}`: 1% to 100% of the closed loop can be asked for; write rate=500 for 500 \
                 operations a second"
            ));
        }
        Ok(rate) if is_number && rate > RATE_MAX => {
            return Err(format!("`rate={value}`: at most {RATE_MAX} operations a second can be asked for"));
        }
        Ok(rate) if is_number => OpenRate::PerSecond(rate),
        _ => {
            return Err(format!(
                "`rate={value}`: `{number}` is neither operations a second, such as 500, nor a share of the \
                 closed loop, such as 50%"
            ));
        }
    };
    Ok(Arrival::Open { rate, poisson })
}

fn default_pattern(verb: DataVerb) -> (Access, u64) {
    match verb {
        DataVerb::Rw | DataVerb::Fsync => (Access::Random, 4 << 10),
        _ if verb.is_bytes() => (Access::Sequential, 1),
        _ => (Access::Sequential, 1 << 20),
    }
}

fn parse_files<'a>(
    verb: FileVerb,
    words: impl Iterator<Item = &'a str>,
    defaults: &Defaults,
) -> Result<Workload, String> {
    let mut concurrency = Concurrency::default();
    let mut files = FilesWork::new(verb, defaults.files);
    let can_miss = matches!(verb, FileVerb::Stat | FileVerb::Open | FileVerb::Unlink);
    for word in words {
        let (key, value) = split_key(word);
        match (key, value) {
            ("files", Some(value)) => files.files = parse_number(key, value, 1..=FILES_MAX)?,
            ("size", Some(value)) => {
                (files.size_min_bytes, files.size_max_bytes) = parse_range(key, value)?;
            }
            ("dirs", Some(value)) => files.dirs = parse_number(key, value, 1..=DIRS_MAX)?,
            ("levels", Some(value)) => {
                files.levels = parse_number(key, value, 1..=u64::from(LEVELS_MAX))? as u32;
            }
            ("order", Some(value)) => files.order = parse_word(key, value)?,
            ("sync", Some("close")) => {
                return Err(format!("`{word}`: {verb} closes each file by itself; write sync=none|end|each"));
            }
            ("sync", Some(value)) => files.sync = parse_word(key, value)?,
            ("passes", Some(value)) => files.passes = Some(parse_number(key, value, 1..=u64::MAX)?),
            ("shared", None) => files.shared = true,
            ("cold", None) => files.cold = true,
            ("missing", None) if can_miss => files.missing = true,
            ("names", Some(value)) => files.naming = parse_word(key, value)?,
            ("kind", Some(value)) if verb.can_use_links() => files.kind = parse_word(key, value)?,
            ("kind", Some(_)) => {
                return Err(format!(
                    "`{word}` has no meaning for {verb}; create, stat, open and unlink take it"
                ));
            }
            ("contents", None) if verb == FileVerb::Stat => files.contents = true,
            ("contents", None) => {
                return Err(format!("`contents` has no meaning for {verb}; write stat:contents"));
            }
            ("chunk", Some(value)) => files.chunk_bytes = parse_chunk(word, value)?,
            (_, None) if concurrency.parse(word, defaults.cpus)? => {}
            _ => return Err(unknown(word, verb.word(), FILE_KEYS)),
        }
    }
    if concurrency.iodepth != 1 {
        return Err(format!(
            "file operations have no depth; write t{} for as many at once",
            u64::from(concurrency.iodepth) * u64::from(concurrency.threads)
        ));
    }
    if files.files > FILES_MAX {
        return Err(format!("{} files are more than {}", size::exact(files.files), size::exact(FILES_MAX)));
    }
    if files.files < u64::from(concurrency.threads) {
        return Err(format!(
            "{} files are too few for {} threads; write files={} or more",
            files.files, concurrency.threads, concurrency.threads
        ));
    }
    check_order(&files)?;
    check_kind(&files)?;
    check_chunk(&files)?;
    Ok(concurrency.with(Work::Files(files)))
}

/// Refuses visits in the order of a directory where there is none to follow.
fn check_order(files: &FilesWork) -> Result<(), String> {
    let FilesWork { verb, order, .. } = files;
    if *order != Order::Directory {
        return Ok(());
    }
    if !verb.can_follow_directory() {
        return Err(format!(
            "`order=dir`: only stat, open and unlink follow a directory; write order=seq|rnd for {verb}"
        ));
    }
    if files.missing {
        return Err(
            "no directory names what does not exist; write order=seq|rnd or leave missing away".into()
        );
    }
    if files.shared {
        return Err("in one directory, each thread would come upon the files of all; leave shared away, or \
                    write order=seq|rnd"
            .into());
    }
    Ok(())
}

/// Refuses words that do not go with links.
fn check_kind(files: &FilesWork) -> Result<(), String> {
    let FilesWork { verb, kind, .. } = files;
    if *kind == FileKind::File {
        return Ok(());
    }
    if files.size_max_bytes > 0 {
        return Err(format!(
            "links have no bytes of their own; leave size away, or write kind=file in place of kind={kind}"
        ));
    }
    if files.missing {
        return Err(format!("what does not exist is no {kind}; leave missing or kind={kind} away"));
    }
    if *verb == FileVerb::Create && files.order == Order::Random {
        return Err(format!(
            "all of kind={kind} link to the first, which is made first; write order=seq or leave order away"
        ));
    }
    Ok(())
}

/// Refuses contents of names that do not exist, and chunks where nothing is written or read.
fn check_chunk(files: &FilesWork) -> Result<(), String> {
    let verb = files.verb;
    if files.contents && files.missing {
        return Err("what does not exist has no contents; leave missing or contents away".into());
    }
    if files.chunk_bytes == CHUNK_BYTES_MAX {
        return Ok(());
    }
    let chunk = size::exact(files.chunk_bytes);
    match verb {
        FileVerb::Stat if !files.contents => {
            Err(format!("`chunk={chunk}`: stat reads nothing by itself; add contents or leave chunk away"))
        }
        FileVerb::Create | FileVerb::Stat if files.size_max_bytes > 0 => Ok(()),
        FileVerb::Create | FileVerb::Stat => {
            Err(format!("`chunk={chunk}`: the files are empty; add size=SIZE or leave chunk away"))
        }
        _ => Err(format!(
            "`chunk={chunk}` has no meaning for {verb}; create:size=SIZE and stat:contents:size=SIZE take it"
        )),
    }
}

fn parse_chunk(word: &str, value: &str) -> Result<u64, String> {
    let bytes = parse_bytes("chunk", value)?;
    let range = CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX;
    if range.contains(&bytes) {
        return Ok(bytes);
    }
    Err(format!("`{word}`: {CHUNK_BYTES_MIN} to {} can be asked for", size::exact(CHUNK_BYTES_MAX)))
}

struct Concurrency {
    iodepth: u32,
    threads: u32,
}

impl Default for Concurrency {
    fn default() -> Self {
        Self { iodepth: 1, threads: 1 }
    }
}

impl Concurrency {
    /// Takes `q8`, `t4` or `q8t4`; false if the word is not one of these.
    fn parse(&mut self, word: &str, cpus: u32) -> Result<bool, String> {
        let lower = word.to_ascii_lowercase();
        let (depth, threads) = match (lower.strip_prefix('q'), lower.strip_prefix('t')) {
            (Some(rest), _) => match rest.split_once('t') {
                Some((depth, threads)) => (Some(depth), Some(threads)),
                None => (Some(rest), None),
            },
            (_, Some(threads)) => (None, Some(threads)),
            _ => return Ok(false),
        };
        let number = |text: &str| match text {
            "n" => Some(u64::from(cpus)),
            _ => text.parse::<u64>().ok(),
        };
        for (text, target) in [(depth, &mut self.iodepth), (threads, &mut self.threads)] {
            let Some(text) = text else { continue };
            let Some(value) = number(text) else { return Ok(false) };
            if !(1..=u64::from(CONCURRENCY_MAX)).contains(&value) {
                return Err(format!("`{word}`: 1 to {CONCURRENCY_MAX} can be asked for"));
            }
            *target = value as u32;
        }
        Ok(true)
    }

    fn with(self, work: Work) -> Workload {
        Workload { threads: self.threads, iodepth: self.iodepth, work }
    }
}

fn split_key(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (word, None),
    }
}

/// Parses `seq64k` or `rnd4k`; `None` if the word does not begin like a pattern.
fn parse_pattern(word: &str) -> Result<Option<(Access, u64)>, String> {
    let lower = word.to_ascii_lowercase();
    for access in Access::ALL {
        if let Some(size) = lower.strip_prefix(access.word()) {
            let block_bytes = parse_bytes("block size", size)?;
            if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
                return Err(format!("`{word}`: blocks are 1 byte to {}", size::exact(BLOCK_BYTES_MAX)));
            }
            return Ok(Some((*access, block_bytes)));
        }
    }
    Ok(None)
}

/// Parses a count within `range`, which may carry the binary suffixes of sizes.
fn parse_number(key: &str, value: &str, range: std::ops::RangeInclusive<u64>) -> Result<u64, String> {
    match value.parse::<Size>() {
        Ok(Size::Bytes(number)) if range.contains(&number) => Ok(number),
        Ok(Size::Bytes(_)) => {
            Err(format!("`{key}={value}`: {} to {} can be asked for", range.start(), range.end()))
        }
        _ => Err(format!("`{key}={value}`: `{value}` is not a whole number such as 8192 or 64k")),
    }
}

fn parse_bytes(key: &str, value: &str) -> Result<u64, String> {
    match value.parse::<Size>() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(_) => Err(format!("{key}: `{value}` must be absolute here, such as 64k or 1g")),
        Err(error) => Err(format!("{key}: {error}")),
    }
}

fn parse_range(key: &str, value: &str) -> Result<(u64, u64), String> {
    let (low, high) = value.split_once("..").unwrap_or((value, value));
    let (low, high) = (parse_bytes(key, low)?, parse_bytes(key, high)?);
    if low > high {
        return Err(format!("`{key}={value}`: the smaller size stands first"));
    }
    if high > BLOCK_BYTES_MAX {
        return Err(format!(
            "`{key}={value}`: files of these tests are at most {}; use a data test",
            size::exact(BLOCK_BYTES_MAX)
        ));
    }
    Ok((low, high))
}

trait Word: Sized + 'static {
    const WORDS: &'static [Self];
    fn as_word(&self) -> &'static str;
}

macro_rules! word_impl {
    ($($name:ident),+) => { $(impl Word for $name {
        const WORDS: &'static [Self] = Self::ALL;
        fn as_word(&self) -> &'static str { self.word() }
    })+ };
}
word_impl!(SyncMode, Order, EngineWord, Naming, FileKind);

fn parse_word<W: Word + Copy>(key: &str, value: &str) -> Result<W, String> {
    W::WORDS.iter().copied().find(|w| w.as_word() == value).ok_or_else(|| {
        let known: Vec<_> = W::WORDS.iter().map(Word::as_word).collect();
        format!("`{key}={value}`: write {key}={}", known.join("|"))
    })
}

fn unknown(word: &str, verb: &str, keys: &[Key]) -> String {
    let (name, value) = split_key(word);
    if let Some(key) = keys.iter().find(|key| key.name == name) {
        return match (key.value, value) {
            ("", Some(_)) => format!("`{word}`: `{name}` takes no value"),
            (form, None) if !form.is_empty() => format!("`{word}`: write {name}={form}"),
            _ if DataVerb::from_word(verb).is_some_and(DataVerb::is_bytes) => {
                format!("`{word}` has no meaning for {verb}, which works byte by byte; it takes {BYTE_WORDS}")
            }
            _ => format!("`{word}` has no meaning for {verb}"),
        };
    }
    if [DATA_KEYS, FILE_KEYS].iter().any(|all| all.iter().any(|key| key.name == name)) {
        return format!("`{word}` has no meaning for {verb}");
    }
    match nearest(name, keys.iter().map(|key| key.name)) {
        Some(near) => format!("unknown word `{word}`, did you mean `{near}`?"),
        None => format!("unknown word `{word}`; `skye help spec` has the words that {verb} takes"),
    }
}

/// Returns a spec that [`parse`] understands as this workload under the built-in defaults. It has the pattern wherever
/// there is one, and other words only where they differ from these defaults.
pub fn print(workload: &Workload) -> String {
    let mut words = vec![workload.name().to_owned()];
    match &workload.work {
        Work::Data(data) => {
            if !data.verb.is_bytes() {
                words.push(format!("{}{}", data.access, size::exact(data.block_bytes)));
            }
            push_concurrency(&mut words, workload);
            match (data.direct, data.verb != DataVerb::Rewrite && !data.verb.is_bytes()) {
                (true, false) => words.push("direct".into()),
                (false, true) => words.push("buffered".into()),
                _ => {}
            }
            if data.verb == DataVerb::Rw && data.read_percent != 50 {
                words.push(format!("read={}", data.read_percent));
            }
            for (set, word) in [(data.update, "update"), (data.reread, "reread")] {
                if set {
                    words.push(word.into());
                }
            }
            if data.sync != SyncMode::End {
                words.push(format!("sync={}", data.sync));
            }
            if data.shared {
                words.push("shared".into());
            }
            if let Some(files) = data.files {
                words.push(format!("files={files}"));
            }
            if data.fresh {
                words.push("fresh".into());
            }
            if data.arrival != Arrival::Closed {
                words.push(data.arrival.to_string());
            }
            for (key, percent) in [("compress", data.compress_percent), ("dedupe", data.dedupe_percent)] {
                if percent != 0 {
                    words.push(format!("{key}={percent}"));
                }
            }
            if let Some(engine) = data.engine {
                words.push(format!("engine={engine}"));
            }
            for (set, word) in [
                (data.iopoll, "iopoll"),
                (data.sqpoll, "sqpoll"),
                (data.unlocked, "unlocked"),
                (data.threaded, "threaded"),
            ] {
                if set {
                    words.push(word.into());
                }
            }
            if let Some(bytes) = data.stdio_buffer_bytes {
                words.push(format!("stdio_buffer={}", size::exact(bytes)));
            }
            // Fresh files are written once, and there is no need to say so.
            let passes = data.passes.filter(|_| !data.fresh);
            for (key, limit) in [("passes", passes), ("ops", data.ops), ("bytes", data.bytes)] {
                if let Some(limit) = limit {
                    words.push(format!("{key}={}", size::exact(limit)));
                }
            }
        }
        Work::Files(files) => {
            push_concurrency(&mut words, workload);
            let default = Defaults::default();
            if files.files != default.files {
                words.push(format!("files={}", size::exact(files.files)));
            }
            let (low, high) = (files.size_min_bytes, files.size_max_bytes);
            if low != high {
                words.push(format!("size={}..{}", size::exact(low), size::exact(high)));
            } else if high != 0 {
                words.push(format!("size={}", size::exact(high)));
            }
            if files.dirs != 1 {
                words.push(format!("dirs={}", files.dirs));
            }
            if files.levels != 1 {
                words.push(format!("levels={}", files.levels));
            }
            if files.order != Order::Sequential {
                words.push(format!("order={}", files.order));
            }
            if files.naming != Naming::Plain {
                words.push(format!("names={}", files.naming));
            }
            if files.kind != FileKind::File {
                words.push(format!("kind={}", files.kind));
            }
            for (set, word) in [
                (files.shared, "shared"),
                (files.cold, "cold"),
                (files.missing, "missing"),
                (files.contents, "contents"),
            ] {
                if set {
                    words.push(word.into());
                }
            }
            if files.chunk_bytes != CHUNK_BYTES_MAX {
                words.push(format!("chunk={}", size::exact(files.chunk_bytes)));
            }
            if files.sync != SyncMode::None {
                words.push(format!("sync={}", files.sync));
            }
            if let Some(passes) = files.passes {
                words.push(format!("passes={passes}"));
            }
        }
    }
    words.join(":")
}

fn push_concurrency(words: &mut Vec<String>, workload: &Workload) {
    match (workload.iodepth, workload.threads) {
        (1, 1) => {}
        (1, threads) => words.push(format!("t{threads}")),
        (iodepth, 1) => words.push(format!("q{iodepth}")),
        (iodepth, threads) => words.push(format!("q{iodepth}t{threads}")),
    }
}

#[cfg(test)]
mod tests;
