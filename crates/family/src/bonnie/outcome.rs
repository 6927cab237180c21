//! The table of the measured tests, and the lines on stderr by which the programs show their progress.

use model::run::PhaseRecord;

use super::arguments::Options;
use super::table::{cpu_text, kib_text};
use super::{Head, Program, Table, Test, TestRate};
use crate::bonniepp::outcome::cpu_seconds;

/// Width of a phrase, in characters: as long as the longest.
const PHRASE_WIDTH: usize = 31;

/// Makes the table of a run from the tests that were measured. The rest of the table comes from the options.
pub fn table_of(options: &Options, tests: &[(Test, &PhaseRecord)], host: &str) -> Table {
    let mut table = Table::new(options.program, options.label.as_deref().unwrap_or(host));
    (table.size_mib, table.volumes) = (Some(options.size_mib), options.volumes);
    table.head = (options.program == Program::V1_4).then(|| Head {
        is_synced: options.syncs,
        is_unlocked: options.unlocked,
        is_direct: options.direct,
        thousands_of_seeks: (options.seeks + 500) / 1000,
        seekers: u64::from(options.seekers),
    });
    for (test, phase) in tests {
        table[*test] = measured(*test, phase);
    }
    table
}

/// Rate of a test: its work over its whole time, the sync at the end included. `None` if it took no time.
pub fn measured(test: Test, phase: &PhaseRecord) -> Option<TestRate> {
    let seconds = phase.counts.elapsed_ns as f64 / 1e9;
    // A rewrite counts each byte once.
    let moved = if test == Test::Seeks { phase.counts.ops } else { phase.counts.bytes };
    let cpu_percent = cpu_seconds(phase).map(|cpu_seconds| cpu_seconds / seconds * 100.0);
    (seconds > 0.0).then(|| TestRate { per_second: moved as f64 / seconds, cpu_percent })
}

/// Lines on stderr before the first test.
pub fn opening(options: &Options) -> Vec<String> {
    let directory = options.directory.display();
    let bytes = options.size_mib << 20;
    match options.program {
        Program::V64 => vec![format!("File in '{directory}', size: {bytes}")],
        Program::V1_4 => {
            let volumes = options.volumes;
            let files = if volumes > 1 { "Files" } else { "File" };
            let first = format!("Bonnie 1.4: {files} in '{directory}', size: {bytes}, volumes: {volumes}");
            let direct = options.direct.then(|| "Using O_DIRECT for block based I/O".to_owned());
            [Some(first), direct].into_iter().flatten().collect()
        }
    }
}

/// Message on stderr while a test runs.
pub fn phrase(test: Test, options: &Options) -> String {
    let unlocked = if options.unlocked { "_unlocked" } else { "" };
    let phrase = match test {
        Test::PutChar => format!("Writing with putc{unlocked}()..."),
        Test::Rewrite => "Rewriting...".into(),
        Test::PutBlock => "Writing intelligently...".into(),
        Test::GetChar => format!("Reading with getc{unlocked}()..."),
        Test::GetBlock => "Reading intelligently...".into(),
        Test::Seeks => {
            let seekers = (1..=options.seekers).map(|number| format!("Seeker {number}..."));
            return format!("{}start 'em...", seekers.collect::<String>());
        }
    };
    match options.program {
        Program::V1_4 => format!("{phrase:<PHRASE_WIDTH$}"),
        Program::V64 => phrase,
    }
}

/// Message after the phrase when the test is over.
pub fn completion_message(test: Test, options: &Options, measured: Option<&TestRate>) -> String {
    match (test, options.program, measured) {
        (Test::Seeks, ..) => "done...".repeat(options.seekers as usize),
        (_, Program::V1_4, Some(measured)) => {
            format!("done: {:>6} kB/s {:>5} %CPU", kib_text(measured), with_digit(measured.cpu_percent))
        }
        _ => "done".into(),
    }
}

/// A share of a CPU, here always with one decimal.
fn with_digit(percent: Option<f64>) -> String {
    percent.map_or_else(|| cpu_text(None), |percent| format!("{percent:.1}"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::dialect::{Command, Dialect};
    use crate::sample::phase;

    fn options(words: &str) -> Options {
        let words = words.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        let Ok(Command::Measure(options)) = Options::parse(words) else { panic!("it is refused") };
        *options
    }

    #[test]
    fn table_shows_requested_size() {
        let requested = table_of(&options("-s 200 -v 2 -y -u -S 8499 -p 8"), &[], "ada");
        let head =
            Head { is_synced: true, is_unlocked: true, is_direct: false, thousands_of_seeks: 8, seekers: 8 };
        assert_eq!((requested.label.as_str(), requested.size_mib, requested.volumes), ("ada", Some(200), 2));
        assert_eq!((requested.head, requested.program), (Some(head), Program::V1_4));
        let old = table_of(&options("--compat 64 -m grace"), &[], "ada");
        assert_eq!((old.label.as_str(), old.head, old.program), ("grace", None, Program::V64));
    }

    #[test]
    fn rate_is_amount_divided_by_elapsed_time() {
        let write = phase("write:seq1m", 1024, 1 << 30, 4_000_000_000);
        let seeks = phase("rw:rnd16k:t3", 4000, 4000 << 14, 500_000_000);
        let table = table_of(&options(""), &[(Test::PutBlock, &write), (Test::Seeks, &seeks)], "ada");
        assert_eq!(table[Test::PutBlock].map(|measured| measured.per_second), Some((1u64 << 28) as f64));
        // Each of the three threads is on a CPU half of the time.
        let seeks = table[Test::Seeks].unwrap();
        assert_eq!((seeks.per_second, seeks.cpu_percent.map(f64::round)), (8000.0, Some(150.0)));
        assert_eq!(table[Test::Rewrite], None);
        assert_eq!(measured(Test::PutBlock, &phase("write:seq1m", 0, 0, 0)), None);
    }

    #[test]
    fn progress_lines_on_stderr_match_the_original() {
        let line = |words: &str, test, kib: f64, cpu| {
            let options = options(words);
            let measured = TestRate { per_second: kib * 1024.0, cpu_percent: Some(cpu) };
            phrase(test, &options) + &completion_message(test, &options, Some(&measured))
        };
        for (words, test, kib, cpu, theirs) in [
            (
                "",
                Test::PutChar,
                169_450.0,
                76.7,
                "Writing with putc()...         done: 169450 kB/s  76.7 %CPU",
            ),
            (
                "",
                Test::Rewrite,
                3_851_216.0,
                81.4,
                "Rewriting...                   done: 3851216 kB/s  81.4 %CPU",
            ),
            (
                "",
                Test::GetBlock,
                11_920_838.0,
                100.0,
                "Reading intelligently...       done: 11920838 kB/s 100.0 %CPU",
            ),
            (
                "-u",
                Test::PutChar,
                92_715.0,
                38.9,
                "Writing with putc_unlocked()...done:  92715 kB/s  38.9 %CPU",
            ),
            (
                "-u",
                Test::GetChar,
                798_873.0,
                67.2,
                "Reading with getc_unlocked()...done: 798873 kB/s  67.2 %CPU",
            ),
            ("-p 2", Test::Seeks, 1.0, 1.0, "Seeker 1...Seeker 2...start 'em...done...done..."),
            ("--compat 64", Test::GetBlock, 1.0, 1.0, "Reading intelligently...done"),
        ] {
            assert_eq!(line(words, test, kib, cpu), theirs);
        }
        assert_eq!(
            opening(&options("-d /mnt -v 2 -s 200 -o_direct")),
            [
                "Bonnie 1.4: Files in '/mnt', size: 209715200, volumes: 2",
                "Using O_DIRECT for block based I/O",
            ]
        );
    }
}
