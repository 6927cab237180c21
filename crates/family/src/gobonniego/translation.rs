//! From the options of GoBonnieGo to tests of skye that do the same work.

use model::UserError;
use model::request::{Request, Seconds};
use model::size;
use model::spec::CONCURRENCY_MAX;
use model::workload::CacheMode;

use super::VERSION;
use super::arguments::Options;
use crate::work;

/// Bytes of each call of the sequential tests.
const BLOCK_BYTES: u64 = 64 << 10;

/// The request for each run, with its sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The same work as a request to skye: write, read, IOPS.
    pub request: Request,
    /// Threads of each test.
    pub threads: u32,
    /// Requested size over all threads, in GiB.
    pub size_gib: f64,
    /// The same size in whole MiB, which are divided among the threads.
    pub size_mib: u64,
    /// Size of all files, in bytes.
    pub size_bytes: u64,
    /// Notes for the user before the run begins, one sentence each.
    pub notes: Vec<String>,
}

/// Translates the options, on a machine with `cpus` CPUs and `memory_bytes` of memory. A simulated device has no files
/// that could be new, and no cache.
pub fn translate(options: &Options, cpus: u32, memory_bytes: u64, is_simulated: bool) -> Translation {
    let threads = options.threads.unwrap_or(cpus).clamp(1, CONCURRENCY_MAX);
    // Twice the memory in whole MiB, converted to GiB.
    let size_gib = options.size_gib.unwrap_or_else(|| (2 * (memory_bytes >> 20)).max(1) as f64 / 1024.0);
    let size_mib = (size_gib * 1024.0) as u64;
    // Each thread writes its last block whole.
    let blocks = (size_mib << 20).div_ceil(u64::from(threads)).div_ceil(BLOCK_BYTES).max(1);
    let size_bytes = blocks * BLOCK_BYTES * u64::from(threads);
    // The time of the writes includes the close of their files; the IOPS test ends with its time.
    let (sync, iops_sync) = if options.cache == CacheMode::AsIs { ("close", "none") } else { ("end", "end") };
    let fresh = if is_simulated { "passes=1" } else { "fresh" };
    let tests = vec![
        format!("write:seq64k:t{threads}:buffered:sync={sync}:{fresh}"),
        format!("read:seq64k:t{threads}:buffered:passes=1"),
        format!("rw:rnd512:q1t{threads}:buffered:sync={iops_sync}:read=90"),
    ];
    let request = Request {
        time: Some(Seconds(options.iops_seconds)),
        cache: Some(options.cache),
        ..work::request(format!("gobonniego {VERSION}"), tests, Some(size_bytes))
    };
    let notes = if is_simulated { Vec::new() } else { vec![cache_note(options.cache).to_owned()] };
    Translation { request, threads, size_gib, size_mib, size_bytes, notes }
}

/// Refuses files that do not fit, in the words of this command line.
///
/// # Errors
/// The files do not fit; the message has their size, the free space, and a remedy.
pub fn check_room(
    options: &Options,
    translation: &Translation,
    directory: &str,
    free_bytes: u64,
) -> Result<(), UserError> {
    if translation.size_bytes <= free_bytes {
        return Ok(());
    }
    let [size, free] = [translation.size_bytes, free_bytes].map(size::binary);
    let why = if options.size_gib.is_none() { ", twice the memory, as -size is not set," } else { "" };
    let cause = format!("the files need {size}{why} and {free} are free");
    Err(UserError::new(format!("test in {directory}"), cause)
        .help("use a smaller -size, such as -size 0.5 for half a GiB, or another -dir"))
}

/// Describes the treatment of the caches.
fn cache_note(cache: CacheMode) -> &'static str {
    match cache {
        CacheMode::AsIs => {
            "-cache as-is: nothing is dropped or synced, as in the original; data that fits into memory is read from \
             memory"
        }
        CacheMode::DropAll => {
            "-cache drop-all: all caches of this machine are dropped before each test, which slows down other \
             programs; writes are synced within their time"
        }
        CacheMode::Cold | CacheMode::Warm => {
            "the files' own pages are dropped before reads and IOPS, and writes are synced within their time; -cache \
             as-is does neither, as the original"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use model::size::Size;
    use model::spec::{self, Defaults};

    use super::*;
    use crate::dialect::{Command, Dialect};

    const MEMORY: u64 = (3 << 30) + 12_345;

    fn translated(line: &str) -> Translation {
        match Options::parse(line.split(' ').filter(|word| !word.is_empty()).map(OsString::from)) {
            Ok(Command::Measure(options)) => translate(&options, 4, MEMORY, false),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn three_tests_are_translated_in_order() {
        let translation = translated("");
        assert_eq!(
            translation.request.tests,
            [
                "write:seq64k:t4:buffered:sync=end:fresh",
                "read:seq64k:t4:buffered:passes=1",
                "rw:rnd512:q1t4:buffered:sync=end:read=90",
            ]
        );
        assert_eq!((translation.size_gib, translation.size_mib, translation.threads), (6.0, 6144, 4));
        assert_eq!(translation.request.size, Some(Size::Bytes(6 << 30)));
        assert_eq!(translation.request.time, Some(Seconds(15.0)));
        assert_eq!(translation.request.cache, Some(CacheMode::Cold));
    }

    #[test]
    fn size_rounds_to_mib_and_whole_blocks_per_thread() {
        let bytes = |line: &str| match translated(line).request.size {
            Some(Size::Bytes(bytes)) => bytes,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(bytes("-size 0.5 -threads 2"), 512 << 20);
        assert_eq!(bytes("-size 0.0015 -threads 1"), 1 << 20);
        // A MiB is 16 blocks: a third of it is 5.33, and each thread writes 6.
        assert_eq!(bytes("-size 0.001 -threads 3"), 3 * 6 * BLOCK_BYTES);
        assert_eq!(bytes("-size 0.001 -threads 4096"), 4096 * BLOCK_BYTES);
        assert_eq!(bytes("-size 1048576 -threads 1"), 1 << 50);
    }

    #[test]
    fn size_above_free_space_is_refused_with_suggestion() {
        let refused = |line: &str, free_bytes: u64| {
            let Ok(Command::Measure(options)) = Options::parse(line.split_whitespace().map(OsString::from))
            else {
                panic!("{line}")
            };
            let checked = check_room(&options, &translate(&options, 4, MEMORY, false), "/mnt", free_bytes);
            checked.err().map(|error| error.to_string())
        };
        assert_eq!(refused("", 6 << 30), None);
        assert_eq!(
            refused("", 5 << 30).unwrap(),
            "cannot test in /mnt: the files need 6 GiB, twice the memory, as -size is not set, and 5 GiB are free; \
             use a smaller -size, such as -size 0.5 for half a GiB, or another -dir"
        );
        assert!(refused("-size 8", 5 << 30).unwrap().contains("need 8 GiB and 5 GiB are free"));
    }

    #[test]
    fn cache_mode_is_cold_by_default() {
        for (line, cache, sync, note) in [
            ("", CacheMode::Cold, "sync=end", "own pages are dropped"),
            ("-cache as-is", CacheMode::AsIs, "sync=close", "nothing is dropped"),
            ("-cache drop-all", CacheMode::DropAll, "sync=end", "all caches of this machine"),
        ] {
            let translation = translated(line);
            assert_eq!(translation.request.cache, Some(cache));
            assert!(translation.request.tests[0].contains(sync));
            assert!(translation.notes.concat().contains(note), "{:?}", translation.notes);
        }
    }

    #[test]
    fn translated_specs_parse_without_error() {
        for line in ["", "-threads 1", "-threads 4096 -cache as-is", "-cache drop-all -size 0.001"] {
            for spec in translated(line).request.tests {
                let parsed = spec::parse(&spec, &Defaults::default());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
        let simulated = translate(&Options::default(), 2, MEMORY, true);
        assert_eq!(simulated.request.tests[0], "write:seq64k:t2:buffered:sync=end:passes=1");
        assert!(simulated.notes.is_empty(), "it has no cache");
    }
}
