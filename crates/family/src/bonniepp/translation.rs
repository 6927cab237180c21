//! From the options of bonnie++ to tests of skye that do the same work.

use model::UserError;
use model::request::Request;
use model::size::{self, Size};
use model::spec::FILES_MAX;

use super::arguments::{ByteTests, DataOptions, FILES_UNIT, FileOptions, Options, Seed};
use super::{Content, Layout, Test};
use crate::work;

/// Least default size of a file, in MiB.
const SIZE_MIB_MIN: u64 = 300;

/// A request, and the test of bonnie++ behind each of its tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The same work as a request to skye.
    pub request: Request,
    /// The test of bonnie++ for each test of the request, in its order.
    pub tests: Vec<Test>,
    /// Size of each copy's file, in MiB; `None` without tests on data.
    pub size_mib: Option<u64>,
    /// Notes for the user before the run begins, one sentence each.
    pub notes: Vec<String>,
}

/// Translates the options, on a machine with `memory_bytes` of memory.
///
/// # Errors
/// The file is smaller than twice the memory, or there are too many files. The message has the request and a
/// remedy.
pub fn translate(options: &Options, memory_bytes: u64) -> Result<Translation, UserError> {
    let memory_mib = options.memory_mib.unwrap_or(memory_bytes >> 20);
    let copies = u64::from(options.concurrency);
    let mut specs = Vec::new();
    let mut notes = Vec::new();
    let mut size_mib = None;
    if let Some(data) = &options.data {
        let mib = size_of(data, memory_mib, copies, options)?;
        specs.extend(data_tests(options, data, mib));
        size_mib = Some(mib);
        notes.extend(data_notes(options, data));
    }
    if let Some(files) = &options.files {
        let all = files.units * FILES_UNIT * copies;
        if all > FILES_MAX {
            return Err(UserError::new(
                format!("test with -n {} -c {copies}", files.units),
                format!("{all} files are more than {FILES_MAX}"),
            )
            .help("use a smaller -n"));
        }
        specs.extend(file_tests(options, files, all));
    }
    let size_bytes = size_mib.map(|mib| (mib << 20).saturating_mul(copies));
    if let (Some(server), Some(bytes)) = (options.server_ram_bytes, size_bytes)
        && bytes < server.saturating_mul(2)
    {
        notes.push(format!(
            "the server has {} of memory: reads of {} may come from it; twice the memory avoids that",
            size::binary(server),
            size::binary(bytes)
        ));
    }
    if copies > 1 {
        notes.push(format!(
            "-c {copies}: {copies} copies of each test run concurrently, each on its own files"
        ));
    }
    notes.extend(options.ignored.iter().map(|flag| format!("{flag} is ignored")));
    let (tests, specs) = specs.into_iter().unzip();
    let program = format!("bonnie++ {}", options.compat.program_version());
    let request = Request {
        seed: match options.seed {
            Seed::Number(seed) => Some(seed),
            Seed::Fresh | Seed::File(_) => None,
        },
        label: options.name.clone(),
        server_ram: options.server_ram_bytes.map(Size::Bytes),
        ..work::request(program, specs, size_bytes)
    };
    Ok(Translation { request, tests, size_mib, notes })
}

/// Size of each copy's file, in MiB: the given size, or by default twice the memory. A given size must make files of at
/// least twice the memory.
fn size_of(data: &DataOptions, memory_mib: u64, copies: u64, options: &Options) -> Result<u64, UserError> {
    let Some(mib) = data.size_mib else {
        let wished = (2 * memory_mib).max(SIZE_MIB_MIN);
        // More than half a GiB becomes a whole one, as in the original.
        return Ok(if wished % 1024 > 512 { wished.next_multiple_of(1024) } else { wished });
    };
    if mib.saturating_mul(copies) >= 2 * memory_mib {
        return Ok(mib);
    }
    let memory = match options.memory_mib {
        Some(mib) => format!("-r sets {mib} MiB of memory"),
        None => format!("this system has {memory_mib} MiB of memory"),
    };
    let least = (2 * memory_mib).div_ceil(copies);
    Err(UserError::new(
        format!("test with -s {mib}{}", if copies > 1 { format!(" -c {copies}") } else { String::new() }),
        format!("{memory}, and a file smaller than twice that is read from memory"),
    )
    .help(format!(
        "use -s {least} or more, -r 0 for no check, or -D with -r 0 for direct I/O; skye without bonnie++ reads from \
         the device at any size"
    )))
}

/// `:tN` for several copies, each in a separate file.
fn threads(copies: u32) -> String {
    if copies > 1 { format!(":t{copies}") } else { String::new() }
}

fn data_tests(options: &Options, data: &DataOptions, size_mib: u64) -> Vec<(Test, String)> {
    let copies = options.concurrency;
    let chunk = data.chunk_bytes;
    let how = if options.direct { "direct" } else { "buffered" };
    // Until 1.90, data was made durable only on request. The time of a test includes the close of its file.
    let syncs = options.compat != Layout::V1_03 || options.syncs_each;
    let sync = if syncs { "end" } else { "close" };
    let t = threads(copies);
    let mut tests = Vec::new();
    let (byte_write, byte_read) = match data.bytes {
        ByteTests::None => (None, None),
        ByteTests::Whole => {
            (Some(format!("putc-write{t}:sync={sync}:passes=1")), Some(format!("getc-read{t}:passes=1")))
        }
        ByteTests::Mib(mib) => {
            let bytes = mib.min(size_mib) * u64::from(copies);
            (
                Some(format!("byte-write{t}:sync={sync}:bytes={bytes}m")),
                Some(format!("byte-read{t}:bytes={bytes}m")),
            )
        }
    };
    tests.extend(byte_write.map(|spec| (Test::PutChar, spec)));
    tests.push((Test::PutBlock, format!("write:seq{chunk}{t}:{how}:sync={sync}:fresh")));
    tests.push((Test::Rewrite, format!("rewrite:seq{chunk}{t}:{how}:sync={sync}:passes=1")));
    tests.extend(byte_read.map(|spec| (Test::GetChar, spec)));
    tests.push((Test::GetBlock, format!("read:seq{chunk}{t}:{how}:passes=1")));
    let (seekers, seeks) = (data.seekers * copies, data.seeks * u64::from(copies));
    let sync = if options.syncs_each { "each" } else { sync };
    tests.push((
        Test::Seeks,
        format!("rw:rnd{chunk}:q1t{seekers}:files={copies}:{how}:sync={sync}:read=90:update:ops={seeks}"),
    ));
    tests
}

fn file_tests(options: &Options, files: &FileOptions, all: u64) -> Vec<(Test, String)> {
    let mut common = format!("{}:files={all}", threads(options.concurrency));
    let mut content = String::new();
    match files.content {
        Content::Sized { max_bytes: 0, .. } => {}
        Content::Sized { min_bytes, max_bytes } => {
            common.push_str(&format!(":size={min_bytes}..{max_bytes}"));
            content = format!(":chunk={}", files.chunk_bytes);
        }
        Content::HardLinks => common.push_str(":kind=hardlink"),
        Content::SymbolicLinks => common.push_str(":kind=symlink"),
    }
    if files.dirs > 1 {
        common.push_str(&format!(":dirs={}", files.dirs));
    }
    let sync = match (options.syncs_each, options.compat) {
        (true, _) => ":sync=each",
        (false, Layout::V1_03) => "",
        (false, Layout::V1_97 | Layout::V2_00) => ":sync=end",
    };
    let reads = if content.is_empty() { String::new() } else { format!("{content}:contents") };
    let round = |names: &str, order: &str, tests: [Test; 3]| {
        let common = format!("{common}:names={names}:passes=1");
        let [create, stat, delete] = tests;
        [
            (create, format!("create{common}{content}{sync}")),
            (stat, format!("stat{common}{reads}:order={order}")),
            (delete, format!("unlink{common}{sync}:order={order}")),
        ]
    };
    let sequential =
        round("number-first", "dir", [Test::SequentialCreate, Test::SequentialStat, Test::SequentialDelete]);
    let random = round("letters-first", "rnd", [Test::RandomCreate, Test::RandomStat, Test::RandomDelete]);
    sequential.into_iter().chain(random).collect()
}

fn data_notes(options: &Options, data: &DataOptions) -> Vec<String> {
    let mut notes = Vec::new();
    if !options.direct {
        notes.push(
            "reads use the page cache, as in bonnie++: data that fits into memory is read from memory; -D bypasses \
             the page cache"
                .into(),
        );
    } else if data.bytes != ByteTests::None {
        notes.push("-D: direct I/O in every test in chunks; single bytes use the page cache".into());
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use model::size::Size;
    use model::spec::{self, Defaults};

    use super::*;
    use crate::dialect::{Command, Dialect};

    const MEMORY: u64 = 800 << 20;

    fn translated(line: &str) -> Result<Translation, String> {
        let words = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        match Options::parse(words) {
            Ok(Command::Measure(options)) => translate(&options, MEMORY).map_err(|error| error.to_string()),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn specs(line: &str) -> Vec<String> {
        translated(line).unwrap().request.tests
    }

    #[test]
    fn twelve_tests_are_translated_in_order() {
        let translation = translated("").unwrap();
        assert_eq!(translation.tests, Test::ALL);
        assert_eq!(
            translation.request.tests,
            [
                "byte-write:sync=end:bytes=3m",
                "write:seq8192:buffered:sync=end:fresh",
                "rewrite:seq8192:buffered:sync=end:passes=1",
                "byte-read:bytes=3m",
                "read:seq8192:buffered:passes=1",
                "rw:rnd8192:q1t5:files=1:buffered:sync=end:read=90:update:ops=8192",
                "create:files=16384:names=number-first:passes=1:sync=end",
                "stat:files=16384:names=number-first:passes=1:order=dir",
                "unlink:files=16384:names=number-first:passes=1:sync=end:order=dir",
                "create:files=16384:names=letters-first:passes=1:sync=end",
                "stat:files=16384:names=letters-first:passes=1:order=rnd",
                "unlink:files=16384:names=letters-first:passes=1:sync=end:order=rnd",
            ]
        );
        // 1,600 MiB become 2 GiB.
        assert_eq!(
            (translation.size_mib, translation.request.size),
            (Some(2048), Some(Size::Bytes(2 << 30)))
        );
        assert_eq!(specs("-s 0").len(), 6);
        assert_eq!(
            translated("-n 0 -f").unwrap().tests,
            [Test::PutBlock, Test::Rewrite, Test::GetBlock, Test::Seeks]
        );
    }

    #[test]
    fn translated_specs_parse_without_error() {
        for line in [
            "",
            "--compat 1.03",
            "--compat 1.03 -b",
            "--compat 1.97 -f",
            "-b -D",
            "-c 4 -f1",
            "-r 0 -s 64:1m:100:16 -n 1:4096:1024:4:512",
            "-r 0 -s 64:256 -n 2:-1",
            "-n 1:-2:0:8 -c 3",
        ] {
            for spec in specs(line) {
                let parsed = spec::parse(&spec, &Defaults::default());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn sync_mode_follows_version_and_flag() {
        let syncs = |line: &str| {
            let word =
                |spec: String| spec.split(':').find_map(|word| Some(word.strip_prefix("sync=")?.to_owned()));
            specs(line).into_iter().map(word).map(Option::unwrap_or_default).collect::<Vec<_>>().join(" ")
        };
        // Each file test syncs its own directories, never the whole system.
        assert_eq!(syncs(""), "end end end   end end  end end  end");
        assert_eq!(syncs("-b"), "end end end   each each  each each  each");
        assert_eq!(syncs("--compat 1.03"), "close close close   close      ");
        assert_eq!(syncs("--compat 1.03 -b"), "end end end   each each  each each  each");
    }

    #[test]
    fn concurrent_copies_use_separate_files() {
        let translation = translated("-c 4 -s 512 -f1 -n 2").unwrap();
        let tests = &translation.request.tests;
        assert_eq!(tests[0], "byte-write:t4:sync=end:bytes=4m");
        assert_eq!(tests[1], "write:seq8192:t4:buffered:sync=end:fresh");
        assert_eq!(tests[5], "rw:rnd8192:q1t20:files=4:buffered:sync=end:read=90:update:ops=32768");
        assert_eq!(tests[6], "create:t4:files=8192:names=number-first:passes=1:sync=end");
        assert_eq!(translation.request.size, Some(Size::Bytes(2 << 30)));
        assert!(translation.notes.iter().any(|note| note.contains("4 copies")), "{:?}", translation.notes);
    }

    #[test]
    fn file_fitting_in_memory_is_refused() {
        let refused = |line: &str| translated(line).unwrap_err();
        let message = refused("-s 1599");
        for part in ["-s 1599", "800 MiB of memory", "-s 1600", "-r 0", "skye without bonnie++"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(refused("-r 1000 -s 1999").contains("-r sets 1000 MiB"));
        assert!(refused("-c 2 -s 799").contains("-s 800 or more"));
        for line in ["-s 1600", "-c 2 -s 800", "-r 0 -s 1", "-r 8 -s 16", "-s 0"] {
            assert!(translated(line).is_ok(), "{line}");
        }
        let notes = |line: &str| translated(line).unwrap().notes.join(" ");
        assert!(notes("").contains("page cache") && notes("-s 0").is_empty());
        assert!(notes("-D").contains("direct I/O in every test in chunks") && notes("-D -f").is_empty());
        assert!(notes("-s 0 -l x").contains("-l is ignored"));
        let server = notes("--server-ram 128g -r 0 -s 64");
        assert!(server.contains("the server has 128 GiB") && server.contains("of 64 MiB"), "{server}");
        assert!(!notes("--server-ram 32 -r 0 -s 64").contains("server"));
    }
}
