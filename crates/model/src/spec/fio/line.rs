//! A command line of fio, and that of skye which does the same.

use super::super::{Defaults, parse};
use super::job::{Job, bytes, count, flag, unknown_engine};
use super::{FioKey, Meaning, Translation};
use crate::nearest;
use crate::percentile::Percentiles;
use crate::plan::WRITE_LIMIT_BYTES;
use crate::size;

/// Translates a command line of fio into the words after `skye`. Each `--name` begins a job, and what comes before the first
/// holds for all.
///
/// # Errors
/// A key is unknown, has another meaning, or does not exist here.
pub fn command_line(words: &[String]) -> Result<Translation, String> {
    let mut common = Job::default();
    let mut jobs: Vec<Job> = Vec::new();
    let mut rest = words.iter().peekable();
    let mut problems = Vec::new();
    while let Some(word) = rest.next() {
        let Some(option) = word.strip_prefix('-') else {
            return Err(format!("`{word}`: skye does not read job files; give their keys as --KEY=VALUE"));
        };
        let (name, value) = match option.trim_start_matches('-').split_once('=') {
            Some((name, value)) => (name, value),
            None => {
                let value = rest.next_if(|next| !next.starts_with('-')).map_or("", String::as_str);
                (option.trim_start_matches('-'), value)
            }
        };
        let Some(key) = FioKey::find(name) else {
            let hint = nearest(name, FioKey::all_names())
                .map_or(String::new(), |near| format!(", did you mean `{near}`?"));
            problems.push(format!("`{word}` is not a key that skye knows{hint}"));
            continue;
        };
        if key.is_neutral(name, value) {
            continue;
        }
        if key.meaning == Meaning::Missing {
            problems.push(format!("`{word}`: {}", key.advice()));
            continue;
        }
        if key.names.contains(&"ioengine") {
            problems.extend(unknown_engine(value));
        }
        if key.names.contains(&"name") {
            jobs.push(common.clone());
        }
        jobs.last_mut().unwrap_or(&mut common).set(key, name, value);
    }
    if jobs.is_empty() {
        jobs.push(common);
    }
    if jobs[1..].iter().any(|job| job.parsed("stonewall", flag) != Ok(Some(true))) {
        problems.push(
            "jobs without stonewall run at once, and tests here one after another; add --stonewall, or translate one job"
                .into(),
        );
    }
    jobs.iter_mut().for_each(Job::use_default_units);
    let mut line = Line::default();
    for problem in jobs.iter().filter_map(|job| line.add(job).err()) {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    if problems.is_empty() { Ok(line.finish()) } else { Err(problems.join("; ")) }
}

/// Devices without storage.
const NO_DISKS: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// A command line of skye.
#[derive(Debug, Default)]
struct Line {
    target: Option<String>,
    tests: Vec<String>,
    options: Vec<(&'static str, String)>,
    notes: Vec<String>,
    /// Bytes of the files that skye lays out.
    laid_out_bytes: u64,
    /// Bytes that the tests write, each block once in a pass.
    written_bytes: u64,
    /// True if a test writes until its time is over.
    has_timed_writes: bool,
}

impl Line {
    /// Adds the test of a job, and its options.
    fn add(&mut self, job: &Job) -> Result<(), String> {
        let mut job = job.clone();
        if job.value("rw").is_none()
            && let Some(rw) = FioKey::find("rw")
        {
            job.set(rw, "rw", "read");
        }
        let threads = job.threads()?;
        let depth = job.depth()?;
        if job.value("ioengine").is_none() && depth > 1 {
            job.remove("iodepth");
            self.notes.push(format!(
                "iodepth={depth}: fio's default engine makes one call at a time; add --ioengine=io_uring for a depth"
            ));
        }
        let all_bytes = self.all_bytes(&mut job, threads)?;
        self.option("--size", all_bytes.map(size::exact))?;
        let is_counted = job.is_counted();
        self.time(&mut job, all_bytes)?;
        self.target(&job)?;
        self.add_options(&job)?;
        let Translation { text, notes } = job.translation()?;
        self.notes.extend(notes);
        let workload = parse(&text, &Defaults::default()).map_err(|error| error.to_string())?;
        if is_verified(&job)? && workload.writes() {
            self.notes.push(
                "verify: --verify compares what a test reads; fio also reads back what the job wrote: add --test read after it"
                    .into(),
            );
        }
        let words: Vec<_> = text.split(':').collect();
        self.note_end(&job, &words, is_counted)?;
        self.has_timed_writes |= workload.writes() && job.value("runtime").is_some();
        if !self.target.as_ref().is_some_and(|target| is_device(target)) {
            if all_bytes.is_none() {
                self.notes
                    .push("without a size, skye lays out what takes four seconds, at most 4 GiB".into());
            }
            if workload.data().is_some_and(|data| data.writes() && !data.reads()) {
                let fresh = if words[1].starts_with("seq") { "; fresh writes new ones" } else { "" };
                self.notes.push(format!("write overwrites files that skye laid out before{fresh}"));
            }
            if self.tests.is_empty() {
                self.laid_out_bytes = all_bytes.unwrap_or(0);
            }
        }
        // A test that ends with its time writes each block once, at least.
        let passes = job.parsed("loops", count)?.unwrap_or(1).max(1);
        let written = workload.writes().then_some(all_bytes).flatten().unwrap_or(0);
        self.written_bytes = self.written_bytes.saturating_add(written.saturating_mul(passes));
        self.tests.push(text);
        Ok(())
    }

    /// Returns the bytes of all files of a job, if it has a size. A file of several threads becomes shared.
    fn all_bytes(&mut self, job: &mut Job, threads: u64) -> Result<Option<u64>, String> {
        let has_one_file = job.value("filename").is_some();
        let is_shared = has_one_file && threads > 1;
        if is_shared {
            job.push("shared".into());
        }
        // All of it is the default.
        if job.value("size") == Some("100%") {
            job.remove("size");
        }
        let bytes = match (job.parsed("size", bytes)?, job.parsed("filesize", bytes)?) {
            (Some(_), Some(_)) => return Err("size and filesize: use filesize and io_size".into()),
            (size, filesize) => size.or(filesize),
        };
        Ok(match bytes {
            Some(bytes) if is_shared => Some(self.shared_bytes(job, bytes, threads)?),
            Some(bytes) if has_one_file => Some(bytes),
            Some(bytes) => Some(bytes.saturating_mul(threads)),
            None => {
                if is_shared {
                    self.parts(job, "in fio, each job has all of it");
                }
                None
            }
        })
    }

    /// Adds the options of a job that hold for all tests.
    fn add_options(&mut self, job: &Job) -> Result<(), String> {
        self.option("--verify", is_verified(job)?.then(String::new))?;
        let seed = job.parsed("randseed", count)?;
        self.option("--seed", seed.map(|seed| seed.to_string()))?;
        let percentiles = self.percentiles(job);
        self.option("--percentiles", percentiles)?;
        self.option("--json", job.value("output").map(str::to_owned))?;
        let is_warm = job.parsed("pre_read", flag)? == Some(true);
        let is_as_is = job.parsed("invalidate", flag)? == Some(false);
        let cache = if is_warm { Some("warm") } else { is_as_is.then_some("as-is") };
        self.option("--cache", cache.map(str::to_owned))
    }

    /// Notes that a job with a time may end earlier or later than in fio. `words` are those of its test.
    fn note_end(&mut self, job: &Job, words: &[&str], is_counted: bool) -> Result<(), String> {
        if job.value("runtime").is_none() {
            return Ok(());
        }
        let is_timed = job.parsed("time_based", flag)? == Some(true);
        let is_durable = words.iter().any(|word| word.starts_with("sync=") && *word != "sync=end");
        let ends_after_pass = words.contains(&"buffered") && !is_durable;
        if ends_after_pass && is_timed {
            self.notes.push(
                "a buffered test ends after one pass, before its time: memory would answer a second".into(),
            );
        } else if !ends_after_pass && !is_timed && !is_counted {
            self.notes.push("without time_based, fio may end earlier, after one pass".into());
        }
        Ok(())
    }

    /// Adds the time of a job. One without it ends after a pass, unless a count ends it.
    fn time(&mut self, job: &mut Job, all_bytes: Option<u64>) -> Result<(), String> {
        let seconds = job.parsed("runtime", seconds)?;
        let is_timed = job.parsed("time_based", flag)?.unwrap_or(false);
        if is_timed {
            // Its time counts, however many passes that are.
            job.remove("loops");
        }
        match seconds {
            None if is_timed => return Err("time_based needs a runtime; add --runtime=60".into()),
            None if job.is_counted() => {}
            None if job.value("random_distribution").is_some_and(|value| value.starts_with("zipf")) => {
                let bytes = all_bytes
                    .ok_or("a job with zipf and no runtime needs a size; add --size or --runtime")?;
                job.push(format!("bytes={}", size::exact(bytes)));
            }
            None => job.push("passes=1".into()),
            Some(_) if job.is_counted() => {
                // A count may be there to fill the time, and would take hours on a slow target.
                job.remove_counts();
                self.notes.push(
                    "fio ends with the time or the count, whichever comes first; here the time ends it"
                        .into(),
                );
            }
            Some(_) => {}
        }
        self.option("--time", seconds)
    }

    /// Returns the percentiles that skye can show of those of a job, in ascending order.
    fn percentiles(&mut self, job: &Job) -> Option<String> {
        let list = job.value("percentile_list")?;
        let requested: Vec<f64> = list.split([':', ',']).filter_map(|percent| percent.parse().ok()).collect();
        let chosen = Percentiles::from_percents(&requested).map_or_else(Vec::new, |chosen| chosen.percents());
        if chosen.len() < requested.len() {
            self.notes.push("percentile_list: skye shows up to eight percentiles below 100".into());
        }
        let words: Vec<_> = chosen.iter().map(f64::to_string).collect();
        (!words.is_empty()).then(|| words.join(","))
    }

    /// Returns the bytes of one file for several threads. In fio, each job has `bytes` from its own offset.
    fn shared_bytes(&mut self, job: &mut Job, bytes: u64, threads: u64) -> Result<u64, String> {
        let apart = job.parsed("offset_increment", super::job::bytes)?.unwrap_or(0);
        let what = match apart {
            0 => "in fio, each job has all of it",
            apart if apart < bytes => "in fio, the parts of the jobs overlap",
            _ => {
                job.remove("offset_increment");
                return Ok(bytes.saturating_mul(threads));
            }
        };
        self.parts(job, what);
        Ok(apart.saturating_mul(threads - 1).saturating_add(bytes))
    }

    /// Notes that each thread has its part of one file.
    fn parts(&mut self, job: &mut Job, in_fio: &str) {
        job.remove("offset_increment");
        self.notes.push(format!("filename: each thread has its part of the file; {in_fio}"));
    }

    fn target(&mut self, job: &Job) -> Result<(), String> {
        // Without a filename, fio's files begin with the name, which may be a path.
        let name = job.value("name").filter(|name| name.contains('/'));
        let (directory, file) = (job.value("directory"), job.value("filename").or(name));
        if [directory, file].into_iter().flatten().any(|path| path.contains(':')) {
            return Err(
                "filename: skye makes its own files, and a run has one target; name one directory or device"
                    .into(),
            );
        }
        if let Some(file) = file.filter(|file| NO_DISKS.contains(file)) {
            return Err(format!(
                "`filename={file}`: that is no disk; use ioengine=null to measure skye alone"
            ));
        }
        let path = match (directory, file.and_then(|file| file.rsplit_once('/'))) {
            _ if file.is_some_and(is_device) => {
                self.notes.push("a device is only read, unless you add --erase ID".into());
                file.unwrap_or_default()
            }
            (Some(directory), None) => directory,
            (None, Some((parent, _))) if !parent.is_empty() => parent,
            (None, Some(_)) => "/",
            (Some(_), Some(_)) => return Err("filename and directory: give the path in one of them".into()),
            (None, None) => ".",
        };
        if file.is_some_and(|file| !is_device(file)) {
            self.notes.push(
                "filename: skye makes its own files, in the directory; a file as the target is only read"
                    .into(),
            );
        }
        match self.target.replace(path.to_owned()) {
            Some(other) if other != path => Err(format!(
                "a run has one target, and these jobs have {other} and {path}; translate one job"
            )),
            _ => Ok(()),
        }
    }

    fn option(&mut self, flag: &'static str, value: Option<String>) -> Result<(), String> {
        let value = value.map(|value| (flag, value));
        match (self.options.iter().find(|(known, _)| *known == flag).cloned(), value) {
            (None, Some(option)) if self.tests.is_empty() => self.options.push(option),
            (None, None) => {}
            (Some(known), Some(option)) if known == option => {}
            _ => {
                return Err(format!(
                    "{flag} is for all tests, and these jobs differ in it; translate one job"
                ));
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Translation {
        let mut words = vec!["run".to_owned(), quoted(&self.target.unwrap_or_default())];
        words.extend(self.tests.iter().flat_map(|test| ["--test".to_owned(), quoted(test)]));
        let options = self.options.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]);
        words.extend(options.filter(|word| !word.is_empty()).map(|word| quoted(&word)));
        let bytes = self.laid_out_bytes.saturating_add(self.written_bytes);
        let mut limit = "40 GB, unless you raise it".to_owned();
        if bytes > WRITE_LIMIT_BYTES {
            // Probes and whole blocks come on top.
            let gigabytes = (bytes as f64 * 1.05 / 1e9).ceil();
            words.extend(["--write-limit".to_owned(), format!("{gigabytes}GB")]);
            limit = format!("{gigabytes} GB");
            if self.laid_out_bytes > 0 {
                limit += &format!(", of which the layout takes {}", size::decimal(self.laid_out_bytes));
            }
        }
        if self.has_timed_writes || bytes > WRITE_LIMIT_BYTES {
            self.notes.push(format!("writes end at --write-limit: {limit}"));
        }
        self.notes.sort();
        self.notes.dedup();
        Translation { text: words.join(" "), notes: self.notes }
    }
}

/// Returns true for a device, which has no files of skye.
fn is_device(path: &str) -> bool {
    path.starts_with("/dev/") && !path.starts_with("/dev/shm/")
}

/// Returns true if a job compares the data that it reads.
fn is_verified(job: &Job) -> Result<bool, String> {
    let has_method = job.value("verify").is_some_and(|value| !matches!(value, "0" | "none"));
    Ok(has_method && job.parsed("do_verify", flag)? != Some(false))
}

/// Parses a time of fio, in seconds if it has no unit. Returns it in seconds.
fn seconds(value: &str) -> Result<String, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("", 1.0)];
    let seconds = units.iter().find_map(|(unit, factor)| {
        let number: u32 = value.strip_suffix(unit)?.parse().ok()?;
        Some(f64::from(number) * factor)
    });
    let seconds = seconds.filter(|seconds| *seconds > 0.0).ok_or("use a time such as 60 or 5m")?;
    Ok(seconds.to_string())
}

/// Returns a word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=+,@%".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
