//! The line of bonnie++ from measured tests, and the phrases by which it shows its progress.

use model::run::PhaseRecord;

use super::arguments::{Options, Seed};
use super::{DEFAULT_CHUNK_BYTES, Layout, Line, Test, Translation};

/// Makes the line of a run from the tests that were measured. The rest of the line comes from the options.
pub fn line_of(
    options: &Options,
    translation: &Translation,
    measured: &[(Test, &PhaseRecord)],
    seed: u64,
    host: &str,
) -> Line {
    let mut line = Line::new(options.compat, options.name.as_deref().unwrap_or(host));
    line.concurrency = u64::from(options.concurrency);
    line.seed = match &options.seed {
        Seed::File(path) => path.to_string_lossy().into_owned(),
        Seed::Fresh | Seed::Number(_) => seed.to_string(),
    };
    if let Some(data) = &options.data {
        line.file_size_mib = translation.size_mib;
        line.chunk_bytes = Some(data.chunk_bytes).filter(|bytes| *bytes != DEFAULT_CHUNK_BYTES);
        line.seeks = Some(data.seeks);
        line.seekers = Some(u64::from(data.seekers));
    }
    if let Some(files) = &options.files {
        line.num_files = Some(files.units);
        line.content = files.content;
        line.directories = files.dirs;
    }
    for (test, phase) in measured {
        let elapsed_seconds = phase.counts.elapsed_ns as f64 / 1e9;
        let moved = if test.is_bulk() { phase.counts.bytes as f64 / 1024.0 } else { phase.counts.ops as f64 };
        line.measure(
            *test,
            moved / elapsed_seconds.max(f64::MIN_POSITIVE),
            elapsed_seconds,
            cpu_seconds(phase),
            longest_ns(phase),
        );
    }
    line
}

/// CPU time of a test's threads, in seconds: not the process's time once for each thread.
pub(crate) fn cpu_seconds(phase: &PhaseRecord) -> Option<f64> {
    let budget = phase.seen.budget.as_ref()?;
    let thread_seconds = phase.counts.elapsed_ns as f64 / 1e9 * f64::from(phase.workload.threads);
    Some((budget.user + budget.kernel) * thread_seconds)
}

/// Longest time of one operation; for single bytes, that of many calls in a row, as in the original.
fn longest_ns(phase: &PhaseRecord) -> Option<u64> {
    let calls = phase.figures.slowest_calls.as_ref().map(|slowest| slowest.time_ns);
    calls.or(phase.figures.latency_ns.as_ref().map(|latency| latency.max))
}

/// Message on stderr while a test runs.
pub fn phrase(test: Test, compat: Layout) -> &'static str {
    match (test, compat) {
        (Test::PutChar, Layout::V1_03) => "Writing with putc()...",
        (Test::PutChar, _) => "Writing a byte at a time...",
        (Test::PutBlock, _) => "Writing intelligently...",
        (Test::Rewrite, _) => "Rewriting...",
        (Test::GetChar, Layout::V1_03) => "Reading with getc()...",
        (Test::GetChar, _) => "Reading a byte at a time...",
        (Test::GetBlock, _) => "Reading intelligently...",
        (Test::Seeks, _) => "start 'em...",
        (Test::SequentialCreate, _) => "Create files in sequential order...",
        (Test::SequentialStat, _) => "Stat files in sequential order...",
        (Test::SequentialDelete, _) => "Delete files in sequential order...",
        (Test::RandomCreate, _) => "Create files in random order...",
        (Test::RandomStat, _) => "Stat files in random order...",
        (Test::RandomDelete, _) => "Delete files in random order...",
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::{Content, TestFigures, translate};
    use super::*;
    use crate::dialect::{Command, Dialect};
    use crate::sample::phase;

    fn line(words: &str, measured: &[(Test, &PhaseRecord)]) -> Line {
        let words = words.split(' ').filter(|word| !word.is_empty()).map(OsString::from);
        let Ok(Command::Measure(options)) = Options::parse(words) else { panic!("it is refused") };
        let translation = translate(&options, 1 << 30).unwrap();
        line_of(&options, &translation, measured, 77, "ada")
    }

    #[test]
    fn line_shows_requested_options() {
        let requested = line("-s 4g:64k:2k:3 -n 4:4096:512:8 -c 2", &[]);
        assert_eq!(
            (requested.name.as_str(), requested.seed.as_str(), requested.concurrency),
            ("ada", "77", 2)
        );
        assert_eq!((requested.file_size_mib, requested.chunk_bytes), (Some(4096), Some(65_536)));
        assert_eq!(
            (requested.seeks, requested.seekers, requested.num_files, requested.directories),
            (Some(2048), Some(3), Some(4), 8)
        );
        assert_eq!(requested.content, Content::Sized { max_bytes: 4096, min_bytes: 512 });
        let named = line("-m grace -Z /dev/urandom -s 0", &[]);
        assert_eq!(
            (named.name.as_str(), named.seed.as_str(), named.file_size_mib),
            ("grace", "/dev/urandom", None)
        );
    }

    #[test]
    fn rate_is_amount_divided_by_elapsed_time() {
        let write = phase("write:seq8k", 131_072, 1 << 30, 4_000_000_000);
        let create = phase("create:files=16384", 16_384, 0, 2_000_000_000);
        let line = line("", &[(Test::PutBlock, &write), (Test::RandomCreate, &create)]);
        assert_eq!(line[Test::PutBlock].rate.rate_text(), "262144");
        assert_eq!(line[Test::RandomCreate].rate.rate_text(), "8192");
        assert_eq!(line[Test::Rewrite], TestFigures::default());
    }

    #[test]
    fn cpu_percent_is_summed_over_threads() {
        let seeks = phase("rw:rnd8k:t5", 8192, 8192 << 13, 1_000_000_000);
        // Five threads, each on a CPU half of the time, and not five times that.
        assert_eq!(line("", &[(Test::Seeks, &seeks)])[Test::Seeks].cpu.cpu_text(), "250");
        let one = phase("write:seq8k", 8192, 8192 << 13, 1_000_000_000);
        assert_eq!(line("", &[(Test::PutBlock, &one)])[Test::PutBlock].cpu.cpu_text(), "50");
    }

    #[test]
    fn reported_latency_is_the_maximum() {
        let write = phase("write:seq8k", 8192, 8192 << 13, 1_000_000_000);
        let line = line("", &[(Test::PutBlock, &write)]);
        assert_eq!(line[Test::PutBlock].latency_ns, Some(73_049_999));
        assert!(line.to_csv().contains(",73049us,"), "{}", line.to_csv());
    }

    #[test]
    fn too_fast_rate_is_marked_with_plus_signs() {
        let fast = phase("write:seq8k", 8192, 8192 << 13, 499_000_000);
        let line = line("", &[(Test::PutBlock, &fast)]);
        let [rate, cpu] = [line[Test::PutBlock].rate, line[Test::PutBlock].cpu];
        assert_eq!((rate.rate_text(), cpu.cpu_text()), ("+++++".to_owned(), "+++".to_owned()));
    }
}
