//! Tests on data inside large files, and their keys.

use super::keys::{Bytes, Count, Flag, Form, Key, Label, Maybe, Rate, Words, any_verb, keys};
use super::skew::{HotPart, OpsToBlocks, Theta, Thousandths};
use super::zones::{CountOrSize, SizeRange};
use super::{Access, Arrival, DataVerb, RequestedEngine, SyncMode, Zones};
use crate::hosts::CLIENTS_MAX;
use crate::spec::{CONCURRENCY_MAX, STDIO_BUFFER_BYTES_MAX};

fn in_blocks(work: &DataWork) -> bool {
    !work.verb.is_bytes()
}

fn moves_blocks(work: &DataWork) -> bool {
    in_blocks(work) && work.verb != DataVerb::Discard
}

fn writes_blocks(work: &DataWork) -> bool {
    moves_blocks(work) && work.verb.writes()
}

fn is_rw(work: &DataWork) -> bool {
    work.verb == DataVerb::Rw
}

fn is_stdio(work: &DataWork) -> bool {
    work.verb.is_stdio()
}

/// Remedy for keys of the C library's calls.
const STDIO_REMEDY: &str = "; use it with putc-write and getc-read";

keys! {
    /// A test on data inside large files.
    DataWork, DATA_KEYS,
    new(verb: DataVerb) usual(|work: &DataWork| DataWork::new(work.verb))

    /// Order in which blocks are visited.
    field access: Access = verb.pattern().0;
    /// Bytes of one block, read or written by one call.
    field block_bytes: u64 = verb.pattern().1;
    /// True if the page cache is bypassed (`O_DIRECT`).
    field direct: bool = verb.is_direct();
    key "direct" "" [set_direct, value_of_direct] for moves_blocks, "";
        label Label::Key; "bypasses the page cache (`O_DIRECT`); the default of tests in blocks, except `rewrite`. Where the file system refuses it, the row has `!`";
    key "buffered" "" [set_buffered, value_of_buffered] for |work| work.verb != DataVerb::Discard, "";
        label Label::Key; "uses the page cache";

    /// True if the pages of each call leave the page cache after it (`RWF_DONTCACHE`).
    field uncached: bool = false;
    key "uncached" "" [uncached: Flag] for moves_blocks, "";
        label Label::Key; "through the page cache, whose pages are dropped after each call (`RWF_DONTCACHE`, Linux 6.14)";

    /// True if a crash leaves each block either whole or unwritten (`RWF_ATOMIC`).
    field atomic: bool = false;
    key "atomic" "" [atomic: Flag] for writes_blocks, "";
        label Label::Key; "writes each block whole or not at all (`RWF_ATOMIC`, Linux 6.11); direct, on a device that can";

    /// Exponent of Zipf's law, by which blocks are drawn; `None` if each is visited once in a pass.
    field zipf: Option<Theta> = None;
    key "zipf" "THETA" [zipf: Maybe(Thousandths)] for moves_blocks, "";
        label Label::Key;
        "draws blocks by Zipf's law: the probability of rank k among a thread's blocks, in random order, is proportional to 1/k^THETA, 0.001 to 10. With `rnd`; a write waits while the same block is in flight";

    /// Part of the blocks that takes a larger part of the operations; `None` if there is none.
    field hot: Option<HotPart> = None;
    key "hot" "A/B" [hot: Maybe(OpsToBlocks)] for moves_blocks, "";
        label Label::Key;
        "A % of a thread's operations go to B % of its blocks, scattered at random, such as `hot=90/10`. With `rnd`; a write waits while the same block is in flight";

    /// Percent of reads in `rw`.
    field read_percent: u8 = 50;
    key "read" "PERCENT" [read_percent: Count(0, 100)] for is_rw, "";
        label Label::Nothing; "share of reads; default 50";

    /// True if `rw` reads a block just before it writes it, as a program does that changes a record.
    field update: bool = false;
    key "update" "" [update: Flag] for is_rw, "";
        label Label::Key; "reads each block before writing it";

    /// True if `rewrite` reads each block again after it was written.
    field reread: bool = false;
    key "reread" "" [reread: Flag] for |work| work.verb == DataVerb::Rewrite, "; use rewrite:reread";
        label Label::Key; "reads each block again after writing it, but not with `sync=each`";

    /// When writes are made durable.
    field sync: SyncMode = SyncMode::End;
    /// Number of a thread's writes after which it also syncs; `None` for the times that `sync` says alone.
    field sync_every: Option<u32> = None;
    key "sync" (SYNC_FORM) [set_sync, value_of_sync] for |work| in_blocks(work) && work.verb.writes(), "";
        label Label::Key;
        "when writes are synced: never, at the end within the measured time (default), each, or in `write` and `rw` after each N of a thread; `dsync` makes each write durable by itself (`RWF_DSYNC`); `close` only closes the files in that time, which makes a network file system send its data";
    key "sync" "none|close|end" [sync: Words] for |work| work.verb.is_bytes() && work.verb.writes(), "";
        label Label::Key; "as above, without `each`";

    /// True if all threads work in one file instead of one each.
    field shared: bool = false;
    key "shared" "" [shared: Flag] for any_verb, "";
        label Label::Key; "one file for all threads, and with `--hosts` for all clients; by default each has its own part of the data";

    /// Number of files in which all threads work, if requested and not one for each thread; at least 2.
    field files: Option<u32> = None;
    key "files" "N" [files: Maybe(Count(1, CONCURRENCY_MAX as u64))] for any_verb, "";
        label Label::Key; "N files for all threads; default one per thread. `shared` is `files=1`";

    /// True if the blocks of all threads alternate in the shared file; otherwise each thread has its own part.
    field interleaved: bool = false;
    key "interleaved" "" [interleaved: Flag] for moves_blocks, "";
        label Label::Key;
        "with `shared`: the blocks of all threads, and with `--hosts` of all clients, alternate in the file (segments of IOR). A test with `fresh` creates that file, and others with the same block size use it";

    /// True if the test makes its files itself: it truncates them first, and writes them once.
    field fresh: bool = false;
    key "fresh" "" [fresh: Flag] for |work| work.verb.can_make_files(),
        ": only pure write tests create their files; add write:fresh before it";
        label Label::Key;
        "the test creates its files: they are empty at the start, and it ends when they are full; by default skye writes them before it measures. Sequential, with `--size`";

    /// Rule for when operations start.
    field arrival: Arrival = Arrival::Closed;
    key "rate" "N|SIZE/s|P%[,poisson]" [arrival: Rate] for in_blocks, "";
        label Label::Own(|work| work.arrival.label());
        "open loop: N operations, or SIZE, are due each second over all threads, or P % of the rate of the same test without `rate` before it; latency counts from the due time. `,poisson` makes the intervals random, as with many independent users";

    /// Percent of each 4 KiB of data that compresses away.
    field compress_percent: u8 = 0;
    key "compress" "PERCENT" [compress_percent: Count(0, 100)] for in_blocks, "";
        label Label::Key; "compressible share of each 4 KiB; default 0";

    /// Percent of the blocks that are copies of one another.
    field dedupe_percent: u8 = 0;
    key "dedupe" "PERCENT" [dedupe_percent: Count(0, 100)] for in_blocks, "";
        label Label::Key; "share of duplicate blocks; default 0";

    /// Requested engine; otherwise [`plan`](crate::plan::plan) chooses.
    field engine: Option<RequestedEngine> = None;
    key "engine" (RequestedEngine::FORM) [engine: Maybe(Words)] for in_blocks, "";
        label Label::Own(label_of_engine); RequestedEngine::HELP;

    /// True if the ring polls the device for completions instead of waiting for interrupts (`IORING_SETUP_IOPOLL`).
    field iopoll: bool = false;
    key "iopoll" "" [iopoll: Flag] for moves_blocks, "";
        label Label::Key; "io_uring polls the device for completions instead of waiting for interrupts; direct tests, if the device has poll queues";

    /// True if a kernel thread takes requests from the ring (`IORING_SETUP_SQPOLL`).
    field sqpoll: bool = false;
    key "sqpoll" "" [sqpoll: Flag] for in_blocks, "";
        label Label::Key; "a kernel thread polls the submission queue";

    /// True for `putc_unlocked` and `getc_unlocked` instead of the calls that lock the stream.
    field unlocked: bool = false;
    key "unlocked" "" [unlocked: Flag] for is_stdio, STDIO_REMEDY;
        label Label::Key; "`putc_unlocked` and `getc_unlocked`, which do not lock the stream";

    /// True if the process that calls the C library has a second thread, so that each call takes the stream's lock.
    field threaded: bool = false;
    key "threaded" "" [threaded: Flag] for is_stdio, STDIO_REMEDY;
        label Label::Key; "the process has a second, idle thread, so the C library locks the stream";

    /// Requested size of the C library's buffer in bytes (`setvbuf`); otherwise the library chooses.
    field stdio_buffer_bytes: Option<u64> = None;
    key "stdio_buffer" "SIZE" [stdio_buffer_bytes: Maybe(Bytes(1, STDIO_BUFFER_BYTES_MAX, "1 byte"))] for is_stdio, STDIO_REMEDY;
        label Label::Key; "buffer size of the C library, up to 64 MiB; default: chosen by the library";

    /// Distance to the client whose data the test reads, in the order of the clients: 0 for its own. `None` until a plan
    /// decides.
    field shift: Option<u32> = None;
    key "shift" "N" [shift: Maybe(Count(0, CLIENTS_MAX as u64))] for |work| work.verb == DataVerb::Read,
        "; use read:shift";
        label Label::Own(label_of_shift);
        "reads the data of the client that is N ranks higher, which this client has not cached; default: the number of clients on the first machine for buffered tests of clients in one remote directory, otherwise 0";

    /// Part of the data that the test reads; `None` for all of it.
    field range: Option<std::ops::Range<u64>> = None;
    key "range" "FROM..TO" [range: Maybe(SizeRange)] for |work| work.verb == DataVerb::Read, "; use read:range";
        label Label::Key; "reads only bytes FROM to TO of a device or a file, such as `range=10g..20g`";

    /// Zones that the test visits one after the other, and whose times are taken.
    field zones: Option<Zones> = None;
    key "zones" "N|SIZE" [zones: Maybe(CountOrSize)] for |work| work.verb == DataVerb::Read, "; use read:zones";
        label Label::Key;
        "measures the rate over the offset: one sequential pass, one call at a time, in N equal zones or zones of SIZE, such as `zones=256m`";

    /// Number of zones of which the first is visited.
    field every: u64 = 1;
    key "every" "N" [every: Count(1, 1 << 20)] for |work| work.verb == DataVerb::Read, "; use read:zones";
        label Label::Key; "reads only the first of each N zones";

    /// Ends the phase after that many visits of every block, if set.
    field passes: Option<u64> = None;
    key "passes" "N" [passes: Maybe(Count(1, u64::MAX))] for any_verb, "";
        label Label::Nothing; "ends after N passes. Without a count, a test is time-based; buffered tests that write, or read with a cold cache, end after one pass, as a second would measure memory";

    /// Ends the phase after that many operations, if set.
    field ops: Option<u64> = None;
    key "ops" "N" [ops: Maybe(Count(1, u64::MAX))] for any_verb, "";
        label Label::Nothing; "ends after N operations";

    /// Ends the phase after that many bytes, if set.
    field bytes: Option<u64> = None;
    key "bytes" "SIZE" [bytes: Maybe(Bytes(0, u64::MAX, "0"))] for any_verb, "";
        label Label::Nothing; "ends after SIZE";
}

/// Form of `sync` in tests on blocks.
const SYNC_FORM: &str = "none|close|end|each|dsync|N";

fn set_sync(work: &mut DataWork, value: &str) -> Result<(), String> {
    let can_choose = matches!(work.verb, DataVerb::Write | DataVerb::Rw);
    (work.sync, work.sync_every) = match value.parse::<u32>() {
        Ok(0) => return Err("`sync=0`: use sync=none for no sync".into()),
        Ok(1) => (SyncMode::Each, None),
        Ok(writes) if can_choose => (SyncMode::End, Some(writes)),
        Ok(_) => return Err(format!("`sync={value}`: {} syncs after each write; use sync=each", work.verb)),
        Err(_) => (Words.parse("sync", SYNC_FORM, value)?, None),
    };
    if work.sync == SyncMode::Dsync && !can_choose {
        return Err(format!("`sync=dsync` is for write and rw; use sync=each with {}", work.verb));
    }
    Ok(())
}

fn value_of_sync(work: &DataWork) -> Option<String> {
    let mode = (work.sync != SyncMode::End).then(|| work.sync.to_string());
    work.sync_every.map(|writes| writes.to_string()).or(mode)
}

fn set_direct(work: &mut DataWork, _: &str) -> Result<(), String> {
    work.direct = true;
    Ok(())
}

fn set_buffered(work: &mut DataWork, _: &str) -> Result<(), String> {
    work.direct = false;
    Ok(())
}

fn value_of_direct(work: &DataWork) -> Option<String> {
    (work.direct && !DataWork::new(work.verb).direct).then(String::new)
}

/// A mapping goes through the page cache by its nature.
fn value_of_buffered(work: &DataWork) -> Option<String> {
    let maps_files = work.engine.is_some_and(RequestedEngine::maps_files);
    (!work.direct && !maps_files && DataWork::new(work.verb).direct).then(String::new)
}

fn label_of_shift(work: &DataWork) -> Option<String> {
    work.reads_from_other_clients().then(|| format!("shift={}", work.shift.unwrap_or_default()))
}

/// Reports show beside the label if calls went through a ring.
fn label_of_engine(work: &DataWork) -> Option<String> {
    let engine = work.engine.filter(|engine| !engine.is_automatic())?;
    Some(if engine.does_io() { engine.to_string() } else { format!("engine={engine}") })
}

impl DataWork {
    /// Returns true if it goes through the page cache from the beginning of a file to its end. The kernel then reads
    /// ahead and writes behind.
    pub fn is_stream(&self) -> bool {
        !self.direct && self.access == Access::Sequential
    }

    /// Returns true if it draws each block independently, some more often than others. Such a test has no passes.
    pub fn is_skewed(&self) -> bool {
        self.zipf.is_some() || self.hot.is_some()
    }

    /// Returns true if it changes the data on the device.
    pub fn writes(&self) -> bool {
        self.verb.writes()
    }

    /// Returns true if it reads data.
    pub fn reads(&self) -> bool {
        self.verb.reads()
    }

    /// Returns true if it reads what another client wrote.
    pub fn reads_from_other_clients(&self) -> bool {
        self.shift.is_some_and(|shift| shift > 0)
    }

    /// Returns true if a step at the end, and no earlier one, makes its writes durable or sends them.
    pub fn syncs_at_end(&self) -> bool {
        self.sync.has_final_sync() && self.sync_every.is_none()
    }

    /// Returns true if it makes its writes durable while it runs, each or several at a time.
    pub fn syncs_each(&self) -> bool {
        self.verb == DataVerb::Fsync || self.sync.is_each() || self.sync_every.is_some()
    }
}
