//! The SPEC language: `VERB[:PATTERN][:QnTm][:KEY[=VALUE]…]`, for example `read:rnd4k:q32t4` or `create:t4:files=1m`.
//!
//! [`parse`] fills in from [`Defaults`] what a spec leaves out. [`print()`] writes a spec that means the same under the
//! built-in defaults, so that a result can always be repeated from its own text.

mod fio;

pub use fio::{FIO_EXAMPLES, FIO_KEYS, FioExample, FioKey, Translation, command_line, translated};

use crate::mix::{Mix, Mixes, NamedMix};
use crate::nearest;
use crate::size;
use crate::workload::keys::{RATE_MAX, bytes};
use crate::workload::{
    Access, Arrival, CopyWay, DATA_KEYS, DataVerb, DataWork, FILE_KEYS, FileKind, FileVerb, FilesWork, Key,
    MixName, OpenRate, Order, RequestedEngine, SyncMode, Work, Workload, Zones,
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
/// Largest share by which a rate in bytes may be rounded to whole blocks.
const RATE_ROUNDED_MAX: f64 = 0.01;
/// Most levels of directories, so that a path always fits `PATH_MAX`.
pub const LEVELS_MAX: u32 = 16;

/// Values for what a spec leaves out; flags such as `--files` and `--engine` change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults<'a> {
    /// Files of a file test.
    pub files: u64,
    /// True if data tests bypass the page cache; `None` leaves it to the verb.
    pub direct: Option<bool>,
    /// How data tests in blocks are issued; `None` leaves it to the plan.
    pub engine: Option<RequestedEngine>,
    /// Distance to the client whose data buffered reads want; `None` for one's own.
    pub shift: Option<u32>,
    /// Number of threads that `tN` means: the CPUs that may be used.
    pub cpus: u32,
    /// Mixes of files. A test keeps only the name of any other mix.
    pub mixes: &'a Mixes,
}

static NO_MIXES: Mixes = Mixes::new();

impl Default for Defaults<'_> {
    fn default() -> Self {
        Self { files: 64 << 10, direct: None, engine: None, shift: None, cpus: 1, mixes: &NO_MIXES }
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

/// Parses one spec, which may have words of fio; `defaults` fills in what it leaves out.
///
/// # Errors
/// A [`SpecError`] with the word and the valid forms.
pub fn parse(spec: &str, defaults: &Defaults<'_>) -> Result<Workload, SpecError> {
    let fail = |problem: String| SpecError { spec: spec.to_owned(), problem };
    let translation = translated(spec).map_err(fail)?;
    let ours = translation.as_ref().map_or(spec, |translation| &translation.text);
    let mut words = ours.split(':').map(str::trim);
    let verb = words.next().unwrap_or_default();
    let parsed = if let Ok(verb) = verb.parse::<DataVerb>() {
        parse_data(verb, words, defaults)
    } else if let Ok(verb) = verb.parse::<FileVerb>() {
        parse_files(verb, words, defaults)
    } else {
        let known = || verbs().collect::<Vec<_>>().join(" ");
        Err(match nearest(verb, verbs()) {
            Some(near) => format!("unknown verb `{verb}`, did you mean `{near}`?"),
            None => format!("unknown verb `{verb}`; use {}", known()),
        })
    };
    parsed.map_err(fail)
}

/// Returns true for a text that begins as a test does: with a verb of skye or fio, and a colon.
pub fn is_test(text: &str) -> bool {
    let is_verb = |first: &str| verbs().any(|verb| verb == first) || matches!(translated(first), Ok(Some(_)));
    text.split_once(':').is_some_and(|(first, _)| is_verb(first))
}

fn verbs() -> impl Iterator<Item = &'static str> {
    let data = DataVerb::ALL.iter().map(|verb| verb.word());
    data.chain(FileVerb::ALL.iter().map(|verb| verb.word()))
}

fn parse_data<'a>(
    verb: DataVerb,
    words: impl Iterator<Item = &'a str>,
    defaults: &Defaults<'_>,
) -> Result<Workload, String> {
    let mut concurrency = Concurrency::default();
    let in_blocks = !verb.is_bytes();
    let mut data = DataWork::new(verb);
    let mut is_direct_explicit = false;
    // A discard moves no bytes, past the page cache or through it.
    if in_blocks && verb != DataVerb::Discard {
        data.direct = defaults.direct.unwrap_or(data.direct);
    }
    if in_blocks {
        data.engine = defaults.engine;
    }
    let mut rate_bytes = None;
    for word in words {
        is_direct_explicit |= word == "direct";
        if let Some(rate) = parse_byte_rate(word).filter(|_| in_blocks) {
            rate_bytes = Some((word, rate?));
            continue;
        }
        if word.starts_with("rate=") {
            rate_bytes = None;
        }
        if set_key(&mut data, DATA_KEYS, word, verb.word())? || concurrency.parse(word, defaults.cpus)? {
            continue;
        }
        let Some(pattern) = parse_pattern(word)? else { return Err(unknown(word, verb.word(), DATA_KEYS)) };
        if !in_blocks {
            return Err(format!(
                "`{word}`: {verb} works byte by byte and has no pattern; use {}:{word} for blocks",
                if verb.writes() { DataVerb::Write } else { DataVerb::Read }
            ));
        }
        (data.access, data.block_bytes) = pattern;
    }
    check_call_flags(&mut data, is_direct_explicit)?;
    if data.verb == DataVerb::Read && !data.direct {
        data.shift = data.shift.or(defaults.shift);
    }
    if let Some((word, rate)) = rate_bytes {
        data.arrival = arrival_of_byte_rate(word, rate, data.block_bytes)?;
    }
    check_units(&data, &concurrency)?;
    check_mapping(&mut data, is_direct_explicit)?;
    check_ring(&data)?;
    check_syncs(&data)?;
    check_discard(&data)?;
    check_fresh(&mut data)?;
    let in_flight = concurrency.in_flight();
    check_zones(&mut data, in_flight)?;
    check_skew(&data)?;
    check_interleaved(&data)?;
    normalise_files(&mut data, concurrency.iodepth == 1 && concurrency.threads == 1)?;
    if in_flight > u64::from(IN_FLIGHT_MAX) {
        return Err(format!(
            "{in_flight} operations in flight are more than {IN_FLIGHT_MAX}; use less depth or fewer threads"
        ));
    }
    Ok(concurrency.with(Work::Data(data)).with_default_files())
}

/// Returns the arrival of a rate in bytes per second, which may be one of a Poisson process. The rate is near a whole
/// number of blocks.
fn arrival_of_byte_rate(
    word: &str,
    (bytes, is_poisson): (u64, bool),
    block_bytes: u64,
) -> Result<Arrival, String> {
    let blocks = (bytes as f64 / block_bytes as f64).round() as u64;
    let is_near =
        bytes.abs_diff(blocks.saturating_mul(block_bytes)) as f64 <= RATE_ROUNDED_MAX * bytes as f64;
    if !(1..=RATE_MAX).contains(&blocks) || !is_near {
        let block = size::exact(block_bytes);
        return Err(format!("`{word}`: that is no whole number of blocks of {block} a second; use rate=N"));
    }
    Ok(Arrival::Open { rate: OpenRate::PerSecond(blocks), is_poisson })
}

/// Refuses a depth and syncs for single bytes, and a count of bytes below one block.
fn check_units(data: &DataWork, concurrency: &Concurrency) -> Result<(), String> {
    let DataWork { verb, sync, block_bytes, .. } = *data;
    if verb.is_bytes() && concurrency.iodepth != 1 {
        return Err(format!(
            "{verb} works byte by byte and has no depth; use t{} for several at once",
            concurrency.in_flight()
        ));
    }
    if let Some(bytes) = data.bytes.filter(|bytes| *bytes < block_bytes) {
        return Err(format!(
            "bytes={bytes} is less than one block; use bytes={} or more",
            size::exact(block_bytes)
        ));
    }
    if sync.is_each() && verb.is_bytes() {
        return Err(format!("`sync={sync}`: tests on bytes do not sync each byte; use sync=none|close|end"));
    }
    Ok(())
}

/// Refuses words that do not go with `fresh`: such a test writes each of its files once, from the beginning to the end.
fn check_fresh(data: &mut DataWork) -> Result<(), String> {
    if !data.fresh {
        return Ok(());
    }
    if data.access == Access::Random {
        let block = size::exact(data.block_bytes);
        return Err(format!(
            "fresh writes new files sequentially; use seq{block} instead of rnd{block}, or drop fresh"
        ));
    }
    if let Some(engine) = data.engine.filter(|engine| !engine.needs_files()) {
        return Err(format!("fresh creates files, and engine={engine} uses none; drop one of them"));
    }
    let passes = data.passes.filter(|passes| *passes != 1);
    let counts = [("passes", passes), ("ops", data.ops), ("bytes", data.bytes)];
    if let Some((key, Some(count))) = counts.iter().find(|(_, count)| count.is_some()) {
        return Err(format!(
            "fresh ends when its files are full, so {key}={} has no effect; drop {key}, and use --size",
            size::exact(*count)
        ));
    }
    data.passes = Some(1);
    Ok(())
}

/// Refuses words that do not go with `zones`: such a test makes one pass, one call after the other.
fn check_zones(data: &mut DataWork, in_flight: u64) -> Result<(), String> {
    let Some(zones) = data.zones else {
        return match data.every {
            1 => Ok(()),
            every => Err(format!("every={every} requires zones; add for example zones=256m")),
        };
    };
    let block = size::exact(data.block_bytes);
    if data.access == Access::Random {
        return Err(format!("zones are read sequentially; use seq{block} instead of rnd{block}"));
    }
    if in_flight != 1 || data.arrival != Arrival::Closed {
        return Err("zones are timed one call at a time; drop depth, threads and rate".into());
    }
    if let Zones::Size(bytes) = zones
        && !bytes.is_multiple_of(data.block_bytes)
    {
        return Err(format!("zones={}: use a multiple of the block size {block}", size::exact(bytes)));
    }
    let passes = data.passes.filter(|passes| *passes != 1);
    let counts = [("passes", passes), ("ops", data.ops), ("bytes", data.bytes)];
    if let Some((key, Some(count))) = counts.iter().find(|(_, count)| count.is_some()) {
        let count = size::exact(*count);
        return Err(format!("zones end after one pass, so {key}={count} has no effect; drop {key}"));
    }
    data.passes = Some(1);
    Ok(())
}

/// Refuses words that do not go with a skewed order, which draws each block independently.
fn check_skew(data: &DataWork) -> Result<(), String> {
    let word = match (data.zipf, data.hot) {
        (None, None) => return Ok(()),
        (Some(_), Some(_)) => {
            return Err("zipf and hot are different distributions; drop one of them".into());
        }
        (Some(_), None) => "zipf",
        (None, Some(_)) => "hot",
    };
    if data.access == Access::Sequential {
        let block = size::exact(data.block_bytes);
        return Err(format!(
            "{word} is a random distribution; use rnd{block} instead of seq{block}, or drop {word}"
        ));
    }
    if let Some(passes) = data.passes {
        return Err(format!(
            "{word} draws some blocks more often, so it has no passes; drop passes={}, or use ops=N or bytes=SIZE",
            size::exact(passes)
        ));
    }
    Ok(())
}

/// Smallest block of a discard: a page, which is the block of most file systems. Part of a block cannot be given back.
const DISCARD_BYTES_MIN: u64 = 4096;

/// Refuses words that do not go with `interleaved`: it is an order of blocks in one file.
fn check_interleaved(data: &DataWork) -> Result<(), String> {
    let others = [("range", data.range.is_some()), ("zones", data.zones.is_some())];
    match others.iter().find(|(_, is_there)| *is_there) {
        _ if !data.interleaved => Ok(()),
        Some((word, _)) => Err(format!("interleaved does not support {word}; drop {word} or interleaved")),
        None if !data.shared && data.files != Some(1) => {
            Err("interleaved is an order of blocks in one file; add shared".into())
        }
        None => Ok(()),
    }
}

/// Refuses discards of parts of a block, and a second pass, which finds nothing left to discard.
fn check_discard(data: &DataWork) -> Result<(), String> {
    if data.verb != DataVerb::Discard {
        return Ok(());
    }
    if !data.block_bytes.is_multiple_of(DISCARD_BYTES_MIN) {
        let whole = size::exact(data.block_bytes.next_multiple_of(DISCARD_BYTES_MIN));
        return Err(format!("discard works on whole file system blocks; use {}{whole}", data.access));
    }
    if let Some(passes) = data.passes.filter(|passes| *passes > 1) {
        return Err(format!("a second pass has nothing to discard; drop passes={}", size::exact(passes)));
    }
    Ok(())
}

/// Refuses `reread` with `sync=each`: a read after each sync would be a third kind of operation that is not measured. Refuses
/// `update` with `sync=N`.
fn check_syncs(data: &DataWork) -> Result<(), String> {
    if let Some(writes) = data.sync_every.filter(|_| data.update) {
        return Err(format!("`sync={writes}`: update syncs after each write; use sync=each, or drop update"));
    }
    if data.reread && data.sync == SyncMode::Each {
        return Err(
            "reread reads each block before it is durable; use sync=none|close|end, or drop reread".into()
        );
    }
    Ok(())
}

/// Turns one file for several threads into `shared`. Refuses `shared` with more than one file.
fn normalise_files(data: &mut DataWork, is_alone: bool) -> Result<(), String> {
    match data.files {
        Some(files) if data.shared && files > 1 => {
            return Err(format!("shared is one file for all threads; drop shared or files={files}"));
        }
        Some(1) => {
            data.shared |= !is_alone;
            data.files = None;
        }
        _ => {}
    }
    Ok(())
}

/// Makes a test through a mapping a buffered one: it goes through the page cache by its nature. Refuses words that do not
/// go with it.
fn check_mapping(data: &mut DataWork, is_direct_explicit: bool) -> Result<(), String> {
    let Some(engine) = data.engine.filter(|engine| engine.maps_files()) else { return Ok(()) };
    if is_direct_explicit {
        return Err(format!("engine={engine} uses the page cache; drop direct or engine={engine}"));
    }
    if data.fresh {
        return Err(format!("engine={engine} maps whole files, and fresh ones are empty; drop one of them"));
    }
    if data.verb == DataVerb::Discard {
        return Err(format!(
            "discard is a system call, and engine={engine} makes none; drop engine={engine}"
        ));
    }
    data.direct = false;
    Ok(())
}

/// Makes an uncached test a buffered one. Refuses words that do not go with flags of a call.
fn check_call_flags(data: &mut DataWork, is_direct_explicit: bool) -> Result<(), String> {
    let is_dsync = data.sync == SyncMode::Dsync;
    let flags = [(is_dsync, "sync=dsync"), (data.uncached, "uncached"), (data.atomic, "atomic")];
    let Some((_, flag)) = flags.into_iter().find(|(is_set, _)| *is_set) else { return Ok(()) };
    if let Some(engine) = data.engine.filter(|engine| !engine.takes_flags()) {
        return Err(format!(
            "{flag} is a flag of calls, and engine={engine} makes none; drop engine={engine} or {flag}"
        ));
    }
    if data.uncached && is_direct_explicit {
        return Err("uncached uses the page cache; drop direct or uncached".into());
    }
    data.direct &= !data.uncached;
    if data.atomic && !data.direct {
        return Err("atomic writes bypass the page cache; use direct, or drop atomic".into());
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
    if let Some(engine) = data.engine.filter(|engine| *engine != RequestedEngine::Uring) {
        return Err(format!(
            "{word} is for io_uring, not for engine={engine}; use engine=uring, or drop {word}"
        ));
    }
    if data.iopoll && !data.direct {
        return Err("iopoll does not work with buffered I/O; use direct, or drop iopoll".into());
    }
    if data.iopoll && data.syncs_each() {
        return Err("iopoll works only for reads and writes, not for a sync after each; drop iopoll".into());
    }
    if !data.direct && data.engine.is_none() {
        return Err(
            "sqpoll is for io_uring, and buffered tests use plain system calls; add engine=uring or direct"
                .into(),
        );
    }
    Ok(())
}

fn parse_files<'a>(
    verb: FileVerb,
    mut words: impl Iterator<Item = &'a str>,
    defaults: &Defaults<'_>,
) -> Result<Workload, String> {
    let mut concurrency = Concurrency::default();
    let mut files = FilesWork::new(verb, defaults.files);
    if verb == FileVerb::Mix {
        files.files = 0;
        let Some(name) = words.next() else {
            return Err(format!(
                "the mix has no name; use mix:NAME, with NAME one of {}",
                MixName::FORM.replace('|', " ")
            ));
        };
        files.mix = NamedMix::find(name, defaults.mixes)?;
    }
    if verb == FileVerb::Replay {
        files.files = 0;
        match words.next().filter(|name| !name.is_empty()) {
            Some(name) => files.load_file.name = name.to_owned(),
            None => return Err("replay needs a load file of dbench; use replay:FILE".into()),
        }
    }
    for word in words {
        if !set_key(&mut files, FILE_KEYS, word, verb.word())? && !concurrency.parse(word, defaults.cpus)? {
            return Err(unknown(word, verb.word(), FILE_KEYS));
        }
    }
    match files.sync {
        SyncMode::Close => {
            return Err(format!("`sync=close`: {verb} always closes each file; use sync=none|end|each"));
        }
        SyncMode::Dsync => return Err("`sync=dsync` is for write and rw; use sync=none|end|each".into()),
        SyncMode::None | SyncMode::End | SyncMode::Each => {}
    }
    if concurrency.iodepth != 1 {
        return Err(format!(
            "file operations have no depth; use t{} for several at once",
            concurrency.in_flight()
        ));
    }
    if verb == FileVerb::Mix {
        apply_mix_defaults(&mut files, u64::from(concurrency.threads))?;
    }
    if verb == FileVerb::Replay {
        files.files = files.own_files(concurrency.threads).unwrap_or_default();
    }
    if files.files > FILES_MAX {
        return Err(format!("{} files are more than {}", size::exact(files.files), size::exact(FILES_MAX)));
    }
    if files.files < u64::from(concurrency.threads) {
        return Err(format!(
            "{} files are too few for {} threads; use files={} or more",
            files.files, concurrency.threads, concurrency.threads
        ));
    }
    if verb == FileVerb::Readlink && files.files < 2 * u64::from(concurrency.threads) {
        return Err(format!(
            "the first file of each thread is not a link; use files={} or more",
            2 * concurrency.threads
        ));
    }
    check_order(&files)?;
    check_kind(&files)?;
    check_chunk(&files)?;
    Ok(concurrency.with(Work::Files(files)))
}

/// Sets the values that a mix defines. For a mix without contents, a thread has at least one file.
fn apply_mix_defaults(files: &mut FilesWork, threads: u64) -> Result<(), String> {
    let name = files.mix.clone();
    let (own, least) = match name.get() {
        Some(mix) => {
            (files.dirs, files.levels) = (mix.population.dirs, mix.population.levels);
            (mix.population.files, mix.files_min())
        }
        None => (1, 1),
    };
    if files.files == 0 {
        files.files = own * threads;
    }
    if files.files < least * threads {
        let least = least * threads;
        return Err(format!("mix:{name} needs at least {least} files for {threads} threads"));
    }
    Ok(())
}

/// Refuses visits in the order of a directory where there is none to follow.
fn check_order(files: &FilesWork) -> Result<(), String> {
    let FilesWork { verb, order, .. } = files;
    if *order != Order::Directory {
        return Ok(());
    }
    if !verb.can_follow_directory() {
        let follow = FileVerb::ALL.iter().filter(|verb| verb.can_follow_directory());
        let follow: Vec<_> = follow.map(|verb| verb.word()).collect();
        let (last, others) = follow.split_last().unwrap_or((&"none", &[]));
        return Err(format!(
            "`order=dir`: only {} and {last} support it; use order=seq|rnd for {verb}",
            others.join(", ")
        ));
    }
    if files.missing {
        return Err("a directory does not list missing names; use order=seq|rnd, or drop missing".into());
    }
    if files.shared {
        return Err("in a shared directory, each thread would list all threads' files; drop shared, or use order=seq|rnd"
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
    if *verb == FileVerb::Readlink && files.size_max_bytes > 0 {
        return Err("readlink reads links, which have no data; drop size".into());
    }
    if files.size_max_bytes > 0 {
        return Err(format!("links have no data; drop size, or use kind=file instead of kind={kind}"));
    }
    if files.missing {
        return Err(format!("a missing file is not a {kind}; drop missing or kind={kind}"));
    }
    if *verb == FileVerb::Create && files.order == Order::Random {
        return Err(format!(
            "all files of kind={kind} link to the first one, which must exist; use order=seq, or drop order"
        ));
    }
    Ok(())
}

/// Refuses contents of names that do not exist, and chunks where nothing is written or read.
fn check_chunk(files: &FilesWork) -> Result<(), String> {
    let verb = files.verb;
    if files.contents && files.missing {
        return Err("a missing file has no contents; drop missing or contents".into());
    }
    if let Some(size) = verb.size_needed().filter(|_| files.size_max_bytes == 0) {
        return Err(format!("{verb} needs files with data; use for example {verb}:size={size}"));
    }
    if files.chunk_bytes == FilesWork::new(verb, files.files).chunk_bytes {
        return Ok(());
    }
    let chunk = size::exact(files.chunk_bytes);
    match verb {
        FileVerb::Copy if files.by == CopyWay::Reflink => Err(format!(
            "`chunk={chunk}`: a reflink is one call per file; drop chunk, or use by=read-write or by=copy-range"
        )),
        FileVerb::Stat if !files.contents => {
            Err(format!("`chunk={chunk}`: stat reads no data; add contents, or drop chunk"))
        }
        _ if !files.writes_data() => {
            Err(format!("`chunk={chunk}`: the files are empty; add size=SIZE, or drop chunk"))
        }
        _ => Ok(()),
    }
}

/// Sets the key that a word names. Returns false if the word is no key.
fn set_key<W>(work: &mut W, keys: &[Key<W>], word: &str, verb: &str) -> Result<bool, String> {
    let (name, value) = split_key(word);
    // A key may have several forms, each for some verbs.
    let named = || keys.iter().filter(|key| key.name == name);
    let Some(key) = named().find(|key| key.accepts(work)) else {
        let Some(key) = named().next() else { return Ok(false) };
        let taken = || keys.iter().filter(|key| key.accepts(work)).map(|key| key.name).collect::<Vec<_>>();
        let remedy = match key.remedy {
            "" if verb.parse().is_ok_and(DataVerb::is_bytes) => {
                format!(", which works byte by byte; use tN {}", taken().join(" "))
            }
            remedy => remedy.to_owned(),
        };
        return Err(format!("`{word}` does not apply to {verb}{remedy}"));
    };
    match (key.form, value) {
        ("", Some(_)) => Err(format!("`{word}`: `{name}` takes no value")),
        (form, None) if !form.is_empty() => Err(format!("`{word}`: use {name}={form}")),
        _ => (key.set)(work, value.unwrap_or_default()).map(|()| true),
    }
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
                return Err(format!("`{word}`: the range is 1 to {CONCURRENCY_MAX}"));
            }
            *target = value as u32;
        }
        Ok(true)
    }

    fn in_flight(&self) -> u64 {
        u64::from(self.iodepth) * u64::from(self.threads)
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
    for access in Access::ALL {
        let Some((name, size)) = word.split_at_checked(access.word().len()) else { continue };
        if name.eq_ignore_ascii_case(access.word()) {
            let block_bytes = bytes("block size", size)?;
            if !(1..=BLOCK_BYTES_MAX).contains(&block_bytes) {
                return Err(format!(
                    "`{word}`: the range of blocks is 1 byte to {}",
                    size::exact(BLOCK_BYTES_MAX)
                ));
            }
            return Ok(Some((*access, block_bytes)));
        }
    }
    Ok(None)
}

/// Parses `rate=200MB/s` or `rate=1g/s,poisson` into bytes a second, and true for random intervals; `None` if the word is not a rate in
/// bytes.
fn parse_byte_rate(word: &str) -> Option<Result<(u64, bool), String>> {
    let rate = word.strip_prefix("rate=")?;
    let (size, is_poisson) = match rate.strip_suffix(",poisson") {
        Some(size) => (size, true),
        None => (rate, false),
    };
    let size = size.strip_suffix("/s")?;
    Some(bytes("rate", size).map(|bytes| (bytes, is_poisson)))
}

/// Returns the message for a word that a verb does not take.
fn unknown<W>(word: &str, verb: &str, keys: &[Key<W>]) -> String {
    let (name, _) = split_key(word);
    if DATA_KEYS.iter().any(|key| key.name == name) || FILE_KEYS.iter().any(|key| key.name == name) {
        return format!("`{word}` does not apply to {verb}");
    }
    match nearest(name, keys.iter().map(|key| key.name).chain(FioKey::all_names())) {
        Some(near) => format!("unknown keyword `{word}`, did you mean `{near}`?"),
        None => format!("unknown keyword `{word}`; `skye help spec` lists the keywords of {verb}"),
    }
}

/// Returns a spec that [`parse`] understands as this workload under the built-in defaults. It has the pattern wherever
/// there is one, and other words only where they differ from these defaults.
pub fn print(workload: &Workload) -> String {
    let mut words = vec![workload.name().to_owned()];
    if let Some(files) = workload.files().filter(|files| files.verb == FileVerb::Mix) {
        words.push(files.mix.to_string());
    }
    if let Some(files) = workload.files().filter(|files| files.verb == FileVerb::Replay) {
        words.push(files.load_file.name.clone());
    }
    if let Some(data) = workload.data().filter(|data| !data.verb.is_bytes()) {
        words.push(format!("{}{}", data.access, size::exact(data.block_bytes)));
    }
    push_concurrency(&mut words, workload);
    match &workload.work {
        // Fresh files are written once, and zones are read once: there is no need to say so.
        Work::Data(data) if data.fresh || data.zones.is_some() => {
            let data = DataWork { passes: None, ..data.clone() };
            words.extend(DATA_KEYS.iter().filter_map(|key| key.word(&data)));
        }
        Work::Data(data) => words.extend(DATA_KEYS.iter().filter_map(|key| key.word(data))),
        Work::Files(files) => {
            let is_mix = files.verb == FileVerb::Mix;
            let own = shipped_files(files).map(|own| own * u64::from(workload.threads));
            if is_mix && own != Some(files.files) {
                words.push(format!("files={}", size::exact(files.files)));
            }
            let keys = FILE_KEYS.iter().filter(|key| !is_mix || key.name != "files");
            words.extend(keys.filter_map(|key| key.word(files)));
        }
    }
    words.join(":")
}

/// Returns the default number of files per thread of a built-in mix. A mix from a file has none, as the file may
/// change.
fn shipped_files(files: &FilesWork) -> Option<u64> {
    let NamedMix::Shipped(name) = files.mix else { return None };
    (files.verb == FileVerb::Mix).then(|| Mix::shipped(name).population.files)
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
