//! From the options of bonnie to tests of skye that do the same work.

use model::UserError;
use model::request::Request;

use super::arguments::Options;
use super::{Program, Test};
use crate::work;

/// Bytes of each seek, and of every chunk of Bonnie-64.
const SEEK_BYTES: u64 = 16 << 10;
/// Bytes of each chunk of bonnie since version 1.3.
const CHUNK_BYTES: u64 = 1 << 20;
/// Share of seeks that only read, in percent.
const READ_PERCENT: u32 = 90;

/// A request, and the test of bonnie behind each of its tests.
#[derive(Debug, Clone, PartialEq)]
pub struct Translation {
    /// The same work as a request to skye.
    pub request: Request,
    /// The test of bonnie for each test of the request, in its order.
    pub tests: Vec<Test>,
    /// Notes for the user before the run begins, one sentence each.
    pub notes: Vec<String>,
    /// Reasons why numbers are not what they seem, one sentence each.
    pub warnings: Vec<String>,
}

/// Translates the options, on a machine with `memory_bytes` of memory.
///
/// # Errors
/// The files are too small for the seekers; the message has the request and a remedy.
pub fn translate(options: &Options, memory_bytes: u64) -> Result<Translation, UserError> {
    let all_bytes = options.all_mib().saturating_mul(1 << 20);
    let sought_bytes = u64::from(options.seekers) * SEEK_BYTES;
    if sought_bytes > all_bytes {
        return Err(UserError::new(
            format!("seek with -p {} in -s {}", options.seekers, options.size_mib),
            format!(
                "each seek thread needs a separate 16 KiB block, and there are {}",
                all_bytes / SEEK_BYTES
            ),
        )
        .help(format!("use -s {} or more", sought_bytes.div_ceil(1 << 20))));
    }
    let (tests, specs) = tests(options).into_iter().unzip();
    let request = Request {
        seed: options.seed,
        label: options.label.clone(),
        ..work::request(options.program.name(), specs, Some(all_bytes))
    };
    let warnings = in_memory(options, memory_bytes >> 20).into_iter().collect();
    Ok(Translation { request, tests, notes: notes(options), warnings })
}

/// Refuses files that do not fit into `free_bytes`.
///
/// # Errors
/// The files do not fit; the message has the needed and the free space.
pub fn check_room(options: &Options, free_bytes: u64) -> Result<(), UserError> {
    let (all_mib, free_mib) = (options.all_mib(), free_bytes >> 20);
    if all_mib <= free_mib {
        return Ok(());
    }
    let (options_text, help) = match options.volumes {
        1 => (format!("-s {}", options.size_mib), "use a smaller -s, or free some space"),
        volumes => {
            (format!("-s {} -v {volumes}", options.size_mib), "use a smaller -s or -v, or free some space")
        }
    };
    Err(UserError::new(
        format!("test with {options_text} in {}", options.directory.display()),
        format!("it needs {all_mib} MiB, and {free_mib} MiB are free"),
    )
    .help(help))
}

fn tests(options: &Options) -> Vec<(Test, String)> {
    let Options { volumes, seekers, seeks, .. } = options;
    let chunk = if options.program == Program::V64 { SEEK_BYTES } else { CHUNK_BYTES };
    let how = if options.direct { "direct" } else { "buffered" };
    // The time of a test includes the close of its file.
    let sync = |syncs: bool| if syncs { "end" } else { "close" };
    let unlocked = if options.unlocked { ":unlocked" } else { "" };
    let reread = if options.reread { ":reread" } else { "" };
    // The rewrite uses the file that putc makes. With -o_direct, the original always makes that file durable.
    let putc_sync = sync(options.syncs || options.direct);
    let sync = sync(options.syncs);
    vec![
        (Test::PutChar, format!("putc-write{unlocked}:files={volumes}:sync={putc_sync}:fresh")),
        (Test::Rewrite, format!("rewrite:seq{chunk}:files={volumes}:{how}:sync={sync}{reread}:passes=1")),
        (Test::PutBlock, format!("write:seq{chunk}:files={volumes}:{how}:sync={sync}:fresh")),
        (Test::GetChar, format!("getc-read{unlocked}:files={volumes}:passes=1")),
        (Test::GetBlock, format!("read:seq{chunk}:files={volumes}:{how}:passes=1")),
        (
            Test::Seeks,
            // Writes of the seeks are never made durable, as in the original.
            format!(
                "rw:rnd{SEEK_BYTES}:q1t{seekers}:files={volumes}:{how}:sync=none:read={READ_PERCENT}:update:ops={seeks}"
            ),
        ),
    ]
}

fn notes(options: &Options) -> Vec<String> {
    let mut notes = Vec::new();
    if options.volumes > 1 {
        notes.push(format!("-v {}: seeks use all volumes; in bonnie 1.4, only the first", options.volumes));
    }
    if options.direct {
        notes.push(
            "-o_direct: direct I/O in every test in chunks, including seeks; putc and getc use the page cache, as \
             the C library's buffer is not aligned"
                .into(),
        );
    }
    notes.extend(
        options.ignored.iter().map(|flag| {
            format!("{flag} has no effect: data is always incompressible, and all blocks differ")
        }),
    );
    notes
}

/// Warns if the reads come from memory, with a remedy.
fn in_memory(options: &Options, memory_mib: u64) -> Option<String> {
    let all_mib = options.all_mib();
    if options.direct || all_mib > memory_mib {
        return None;
    }
    let enough = (2 * memory_mib).div_ceil(options.volumes);
    let what = match options.volumes {
        1 => format!("-s {}: a file of {all_mib} MiB fits", options.size_mib),
        volumes => format!("-s {} -v {volumes}: {all_mib} MiB of files fit", options.size_mib),
    };
    let direct = match options.program {
        Program::V1_4 => "-o_direct to bypass it",
        Program::V64 => "-o_direct instead of --compat 64 to bypass it",
    };
    Some(format!(
        "{what} into the {memory_mib} MiB of memory and will be read from memory; use -s {enough} for twice the \
         memory, or {direct}; skye without bonnie reads from the device at any size"
    ))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use model::size::Size;
    use model::spec::{self, Defaults};

    use super::*;
    use crate::dialect::{Command, Dialect};

    const MEMORY: u64 = 800 << 20;

    fn translated(line: &str) -> Translation {
        let words = line.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        match Options::parse(words) {
            Ok(Command::Measure(options)) => translate(&options, MEMORY).unwrap(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn six_tests_are_translated_in_order() {
        let translation = translated("-s 2g");
        assert_eq!(translation.tests, Test::ALL);
        assert_eq!(
            translation.request.tests,
            [
                "putc-write:files=1:sync=close:fresh",
                "rewrite:seq1048576:files=1:buffered:sync=close:passes=1",
                "write:seq1048576:files=1:buffered:sync=close:fresh",
                "getc-read:files=1:passes=1",
                "read:seq1048576:files=1:buffered:passes=1",
                "rw:rnd16384:q1t3:files=1:buffered:sync=none:read=90:update:ops=4000",
            ]
        );
        assert_eq!((translation.notes, translation.warnings), (vec![], Vec::<String>::new()));
        assert_eq!(translation.request.size, Some(Size::Bytes(2 << 30)));
    }

    #[test]
    fn flags_are_translated_into_test_specs() {
        let all = translated("-s 1g -v 4 -y -u -o_direct -p 8 -S 8000 --reread").request;
        assert_eq!(
            all.tests,
            [
                "putc-write:unlocked:files=4:sync=end:fresh",
                "rewrite:seq1048576:files=4:direct:sync=end:reread:passes=1",
                "write:seq1048576:files=4:direct:sync=end:fresh",
                "getc-read:unlocked:files=4:passes=1",
                "read:seq1048576:files=4:direct:passes=1",
                "rw:rnd16384:q1t8:files=4:direct:sync=none:read=90:update:ops=8000",
            ]
        );
        assert_eq!(all.size, Some(Size::Bytes(4 << 30)));
        // Without -y, only the file of putc is made durable, because the next test is direct.
        let direct = translated("-s 2g -o_direct");
        let syncs: Vec<_> = direct.request.tests.iter().map(|test| test.contains("sync=end")).collect();
        assert_eq!(syncs, [true, false, false, false, false, false]);
        assert!(direct.notes[0].contains("C library's buffer is not aligned"), "{:?}", direct.notes);
        let old = translated("--compat 64 -s 2g -r");
        assert_eq!(old.request.tests[0], "putc-write:files=1:sync=end:fresh");
        assert_eq!(old.request.tests[1], "rewrite:seq16384:files=1:buffered:sync=end:passes=1");
        assert!(old.request.tests[5].contains("sync=none") && old.notes[0].starts_with("-r has no effect"));
    }

    #[test]
    fn translated_specs_parse_without_error() {
        for line in ["", "-v 512 -p 128 -S 1m -y -u -o_direct --reread", "--compat 64 --reread", "-v 3 -p 3"]
        {
            for spec in translated(line).request.tests {
                let parsed = spec::parse(&spec, &Defaults::default());
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn file_fitting_in_memory_gives_warning() {
        let warned = |line: &str| translated(line).warnings.join(" ");
        for (line, parts) in [
            (
                "-s 800",
                &[
                    "-s 800: a file of 800 MiB",
                    "the 800 MiB of memory",
                    "-s 1600",
                    "-o_direct",
                    "skye without",
                ][..],
            ),
            ("-s 100 -v 4", &["-s 100 -v 4: 400 MiB of files", "-s 400 "]),
            ("--compat 64", &["a file of 100 MiB", "instead of --compat 64"]),
        ] {
            let message = warned(line);
            assert!(parts.iter().all(|part| message.contains(part)), "{line}: {message}");
        }
        for line in ["-s 801", "-s 400 -v 3", "-s 1 -o_direct"] {
            assert_eq!(warned(line), "", "{line}");
        }
    }

    #[test]
    fn files_larger_than_free_space_are_refused() {
        let words = ["-s", "10", "-v", "3"].map(OsString::from);
        let Ok(Command::Measure(options)) = Options::parse(words) else { panic!("it is refused") };
        assert!(check_room(&options, 30 << 20).is_ok());
        let message = check_room(&options, (30 << 20) - 1).unwrap_err().to_string();
        assert!(
            ["-s 10 -v 3", "it needs 30 MiB", "29 MiB are free"].iter().all(|part| message.contains(part)),
            "{message}"
        );
    }

    #[test]
    fn more_seekers_than_blocks_are_refused() {
        let words = ["-s", "1", "-p", "65"].map(OsString::from);
        let Ok(Command::Measure(options)) = Options::parse(words) else { panic!("it is refused") };
        let message = translate(&options, 0).unwrap_err().to_string();
        assert!(["-p 65", "-s 1", "64", "use -s 2"].iter().all(|part| message.contains(part)), "{message}");
        assert_eq!(translated("-s 1 -p 64").tests.len(), 6);
    }
}
