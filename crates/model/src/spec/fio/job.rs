//! A job of fio, and its test as a SPEC.

use super::super::{Concurrency, parse_pattern};
use super::{FioKey, Meaning, Translation};
use crate::size::{self, Size};
use crate::workload::{Access, DATA_KEYS, DataVerb, FILE_KEYS, FileVerb};

/// Block size of fio where a job has none.
const FIO_BLOCK: &str = "4k";

/// Keys that end a job by a count.
const COUNTS: [&str; 3] = ["number_ios", "io_size", "loops"];

/// Engines of fio that make one call at a time, each for one block.
const SYNC_ENGINES: [&str; 5] = ["sync", "psync", "vsync", "pvsync", "pvsync2"];

/// Other engines that skye has, under fio's names.
const ENGINES: [&str; 5] = ["io_uring", "libaio", "posixaio", "mmap", "null"];

/// Engines of fio that skye does not have, and what to use.
const MISSING_ENGINES: &[(&[&str], &str)] = &[
    (&["rbd", "rados"], "map the image with `rbd map`, and measure its device"),
    (&["nbd"], "attach the export with `nbd-client`, and measure its device"),
    (&["libiscsi"], "log in with `iscsiadm`, and measure the device"),
    (&["gfapi", "gfapi_async", "nfs", "libhdfs"], "mount it, and measure the directory"),
    (&["libpmem", "dev-dax", "pmemblk"], "use ioengine=mmap on a file system with DAX"),
    (&["io_uring_cmd", "sg", "xnvme", "libblkio"], "use ioengine=io_uring on the block device"),
    (&["filecreate", "fileoperations"], "use --test create"),
    (&["filestat"], "use --test stat"),
    (&["filedelete"], "use --test unlink"),
    (&["falloc", "ftruncate", "e4defrag"], "no test makes these calls alone"),
    (&["cpuio"], "start another program for load on the CPUs"),
    (
        &["net", "netsplice", "rdma", "http", "splice", "solarisaio", "windowsaio"],
        "skye measures files and devices",
    ),
];

/// Keys whose values have parts between colons: numbers, or sizes with shares.
const KEYS_WITH_COLONS: [&str; 3] = ["random_distribution", "percentile_list", "bssplit"];

/// A job: its keys, each with its last value, and words of a SPEC.
#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    keys: Vec<KeyValue>,
    /// Verb that is not a value of `rw`, and the name that follows it.
    verb: Option<Verb>,
    name: Option<String>,
    /// Pattern in words of neither.
    access: Option<Access>,
    block: Option<String>,
    /// True if a word belongs to another program than fio.
    has_others: bool,
    words: Vec<String>,
}

#[derive(Debug, Clone)]
struct KeyValue {
    key: &'static FioKey,
    name: String,
    value: String,
}

#[derive(Debug, Clone)]
struct Verb {
    word: String,
    /// Order, if the word says one.
    access: Option<Access>,
}

impl Job {
    /// Takes the words of a SPEC.
    pub fn from_spec(spec: &str) -> Result<Self, String> {
        let mut job = Self::default();
        let mut words: Vec<_> = spec.split(':').map(str::trim).collect();
        if words.first().is_some_and(|word| job.take_verb(word)) {
            words.remove(0);
            if job.verb.as_ref().is_some_and(Verb::has_name) && !words.is_empty() {
                job.name = Some(words.remove(0).to_owned());
            }
        }
        // It decides what the others mean.
        let (first, others): (Vec<_>, Vec<_>) = words.into_iter().partition(|word| is_rw(word));
        let mut words = first.into_iter().chain(others).peekable();
        let mut problems = Vec::new();
        while let Some(word) = words.next() {
            let is_one = |key: &str| KEYS_WITH_COLONS.iter().any(|known| known.eq_ignore_ascii_case(key));
            let has_colons = word.split_once('=').is_some_and(|(key, _)| is_one(key));
            let mut word = word.to_owned();
            let is_rest = |next: &&str| has_colons && (next.parse::<f64>().is_ok() || next.contains('/'));
            while let Some(rest) = words.next_if(is_rest) {
                word = format!("{word}:{rest}");
            }
            problems.extend(job.take(&word).err());
        }
        match problems.is_empty() {
            true => Ok(job),
            false => Err(problems.join("; ")),
        }
    }

    /// Returns true if it has a word of another program.
    pub fn is_foreign(&self) -> bool {
        self.has_others || !self.keys.is_empty()
    }

    /// Returns the value of a key, by its first name.
    pub fn value(&self, name: &str) -> Option<&str> {
        let given = self.keys.iter().find(|given| given.key.names.first() == Some(&name))?;
        Some(&given.value)
    }

    /// Gives a key a value. Returns true if it had one.
    pub fn set(&mut self, key: &'static FioKey, name: &str, value: &str) -> bool {
        let before = self.keys.len();
        // Names that only leave a note may share a key.
        let is_same = |given: &KeyValue| given.key.meaning != Meaning::Always || given.name == name;
        self.keys.retain(|given| !(std::ptr::eq(given.key, key) && is_same(given)));
        self.keys.push(KeyValue { key, name: name.to_owned(), value: value.to_owned() });
        self.keys.len() == before
    }

    /// Removes a key, by its first name.
    pub fn remove(&mut self, name: &str) {
        self.keys.retain(|given| given.key.names.first() != Some(&name));
    }

    /// Adds a word of a SPEC.
    pub fn push(&mut self, word: String) {
        self.words.push(word);
    }

    /// Returns the parsed value of a key, by its first name.
    pub fn parsed<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let parse = |value| parse(value).map_err(|problem| format!("`{name}={value}`: {problem}"));
        self.value(name).map(parse).transpose()
    }

    /// Takes the first word if it is a verb of skye or of another program.
    fn take_verb(&mut self, word: &str) -> bool {
        let lower = word.to_ascii_lowercase();
        let is_ours = lower.parse::<DataVerb>().is_ok() || lower.parse::<FileVerb>().is_ok();
        let (word, access) = match lower.as_str() {
            _ if is_ours => (lower.as_str(), None),
            "seqread" => ("read", None),
            "seqwrite" | "seqrewrite" => ("write", None),
            other => match fio_verb(other) {
                Ok((verb, access)) => (verb, Some(access)),
                Err(_) => return false,
            },
        };
        self.has_others = !is_ours;
        self.verb = Some(Verb { word: word.to_owned(), access });
        true
    }

    /// Takes another word of a SPEC.
    fn take(&mut self, word: &str) -> Result<(), String> {
        // Sizes keep their case, in which `kB` is not `KiB`.
        let after = |prefix: &str| {
            let (start, rest) = word.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        let depth = after("qd=").or_else(|| after("qd")).filter(|digits| digits.parse::<u64>().is_ok());
        let is_fio = self.value("rw").is_some();
        if let Some(size) = after("rand").filter(|size| is_size(size)) {
            (self.access, self.block) = (Some(Access::Random), Some(size.to_owned()));
        } else if is_size(word) && is_fio {
            return Err(format!("`{word}`: with rw=, a size is fio's gap between blocks; use bs={word}"));
        } else if is_size(word) {
            self.block = Some(word.to_owned());
        } else if let Some(depth) = depth {
            self.words.push(format!("q{depth}"));
        } else if let Some((name, value, key)) = self.fio_key(word, is_fio) {
            return match key.meaning {
                Meaning::Test | Meaning::Always if self.set(key, name, value) => {
                    Err(format!("`{word}`: {name} is there twice"))
                }
                Meaning::Test | Meaning::Always => Ok(()),
                Meaning::ForRun => Err(format!("`{word}` is for all tests: {}", key.advice())),
                Meaning::Missing if key.is_neutral(name, value) => Ok(()),
                Meaning::Missing => Err(format!("`{word}`: {}", key.advice())),
            };
        } else {
            self.words.push(word.to_owned());
            return Ok(());
        }
        self.has_others = true;
        Ok(())
    }

    /// Returns a word as a key of fio, unless it is a word of a SPEC.
    fn fio_key<'w>(&self, word: &'w str, is_fio: bool) -> Option<(&'w str, &'w str, &'static FioKey)> {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let is_on_files = self.verb.as_ref().is_some_and(Verb::is_on_files);
        let is_ours = match is_on_files {
            true => FILE_KEYS.iter().any(|key| key.name.eq_ignore_ascii_case(name)),
            false => DATA_KEYS.iter().any(|key| key.name.eq_ignore_ascii_case(name)),
        };
        let is_meant = match name {
            "direct" | "buffered" | "uncached" | "atomic" => is_fio || !value.is_empty(),
            // In bytes, and files that are opened for synchronous writes.
            "rate" => is_fio && !value.contains(['/', '%']),
            "sync" => is_fio && matches!(value, "0" | "1" | "none" | "sync" | "dsync"),
            _ => !is_ours,
        };
        if is_meant { Some((name, value, FioKey::find(name)?)) } else { None }
    }

    /// Returns the test as a SPEC, with what differs.
    pub fn translation(&self) -> Result<Translation, String> {
        if let Some((alone, note)) = self.without_unused_depth()? {
            let mut translation = alone.translation()?;
            translation.notes.push(note);
            return Ok(translation);
        }
        let mut notes = Vec::new();
        let verb = self.verb()?;
        let threads = self.threads()?;
        let mut words = vec![verb.word.clone()];
        words.extend(self.name.clone());
        words.extend(self.pattern(&verb)?);
        words.extend(self.concurrency()?);
        let cache = self.cache(&verb, &mut notes)?;
        words.extend(cache.map(str::to_owned));
        words.extend(self.engine(&verb, &mut notes)?);
        words.extend(self.sync(&verb, &mut notes)?);
        words.extend(self.rate(&verb, threads)?);
        words.extend(self.counts(threads)?);
        let files = self.parsed("nrfiles", count)?.filter(|files| *files > 1);
        words.extend(files.map(|files| format!("files={}", files.saturating_mul(threads))));
        words.extend(self.distribution_and_mix(&verb)?);
        words.extend(self.words.iter().cloned());
        let own_rate =
            self.words.iter().find(|word| word.strip_prefix("rate=").is_some_and(|n| count(n).is_ok()));
        if let Some(rate) = own_rate.filter(|_| verb.access.is_some()) {
            return Err(format!(
                "`{rate}`: it is bytes in fio and operations here; use rate_iops=N or rate=SIZE/s"
            ));
        }
        let is_in_order =
            verb.access == Some(Access::Sequential) || self.value("percentage_random") == Some("0");
        if self.value("rw").is_some() && verb.word == "rw" && is_in_order {
            notes.push("reads and writes share one stream; in fio, each direction has its own".into());
        }
        if self.value("number_ios").is_some() {
            notes.push("in fio, number_ios ends a job before its size, and never after it".into());
        }
        if verb.word == "discard" && self.depth()? > 1 {
            notes.push("in fio, libaio and io_uring discard one block at a time, whatever iodepth is".into());
        }
        if ["rate", "rate_iops"].iter().any(|name| self.value(name).is_some()) {
            notes.push(
                "latency counts from the time at which an operation is due; in fio, from its call".into(),
            );
        }
        // A skewed order draws blocks, and a stream has one order.
        let is_skewed = self.value("random_distribution").is_some_and(|value| value.starts_with("zipf"));
        let holds = |key: &FioKey| match key.names[0] {
            "norandommap" => !(is_skewed || is_in_order),
            "randrepeat" => !is_in_order && self.value("randseed").is_none(),
            _ => true,
        };
        let always =
            self.keys.iter().filter(|given| given.key.meaning == Meaning::Always && given.value != "0");
        let always = always.filter(|given| holds(given.key));
        notes.extend(always.map(|given| format!("{}: {}", given.name, given.key.here.replace('`', ""))));
        Ok(Translation { text: words.join(":"), notes })
    }

    /// Returns the operations in flight that the job names.
    pub fn depth(&self) -> Result<u64, String> {
        Ok(self.parsed("iodepth", count)?.unwrap_or(1))
    }

    /// Returns the job with depth 1, and the reason, if fio's engine does not use the depth that it has.
    fn without_unused_depth(&self) -> Result<Option<(Self, String)>, String> {
        let depth = self.depth()?;
        let Some(key) = FioKey::find("iodepth").filter(|_| depth > 1) else { return Ok(None) };
        let reason = match self.value("ioengine") {
            Some("libaio")
                if self.value("rw").is_some()
                    && self.cache(&self.verb()?, &mut Vec::new())? == Some("buffered") =>
            {
                "in fio, libaio waits for each buffered call".to_owned()
            }
            Some(engine) if SYNC_ENGINES.contains(&engine) || engine == "mmap" => {
                format!("fio's {engine} makes one call at a time; use ioengine=io_uring for a depth")
            }
            _ => return Ok(None),
        };
        let mut alone = self.clone();
        alone.set(key, "iodepth", "1");
        Ok(Some((alone, format!("iodepth={depth}: {reason}"))))
    }

    /// Replaces units of fio's `kb_base=1000` by those of its default: `4k` is 4000 then, and `4KiB` is 4096.
    pub fn use_default_units(&mut self) {
        if self.value("kb_base") != Some("1000") {
            return;
        }
        self.remove("kb_base");
        let is_size =
            |given: &&mut KeyValue| {
                given.key.names.iter().any(|name| {
                    ["bs", "size", "filesize", "io_size", "rate", "offset_increment"].contains(name)
                })
            };
        for given in self.keys.iter_mut().filter(is_size) {
            let lower = given.value.to_ascii_lowercase();
            let decimal = lower.strip_suffix('b').unwrap_or(&lower);
            let factor = match decimal.as_bytes().last() {
                Some(b'k') => 1000,
                Some(b'm') => 1_000_000,
                Some(b'g') => 1_000_000_000,
                Some(b't') => 1_000_000_000_000_u64,
                _ => 1,
            };
            let digits = decimal.trim_end_matches(['k', 'm', 'g', 't']);
            if let Some(bytes) = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
                given.value = bytes.to_string();
            } else if let Some(binary) = decimal.strip_suffix('i') {
                given.value = binary.to_owned();
            }
        }
    }

    fn verb(&self) -> Result<Verb, String> {
        match (self.value("rw"), &self.verb) {
            (Some(rw), None) => {
                let (word, access) = fio_verb(rw).map_err(|problem| format!("`rw={rw}`: {problem}"))?;
                let word = match self.read_percent()?.filter(|_| word == "rw") {
                    Some(100) => "read",
                    Some(0) => "write",
                    _ => word,
                };
                Ok(Verb { word: word.to_owned(), access: Some(access) })
            }
            (Some(rw), Some(verb)) => {
                Err(format!("the test has the verb {} and rw={rw}; drop one of them", verb.word))
            }
            (None, Some(verb)) => Ok(verb.clone()),
            (None, None) => Err("the test has no verb; add for example rw=randread".into()),
        }
    }

    fn read_percent(&self) -> Result<Option<u8>, String> {
        let written = self.parsed("rwmixwrite", percent)?.map(|percent| 100 - percent);
        Ok(self.parsed("rwmixread", percent)?.or(written))
    }

    fn pattern(&self, verb: &Verb) -> Result<Option<String>, String> {
        let has_own = self.words.iter().any(|word| matches!(parse_pattern(word), Ok(Some(_))));
        if verb.word == "rw" && verb.access.is_none() && !self.keys.is_empty() && !has_own {
            return Err(
                "`rw` is random here and sequential in fio; begin with rw=randrw or rw=readwrite, or with \
                        rw:rnd4k or rw:seq4k"
                    .into(),
            );
        }
        let block = self.parsed("bs", block)?.or_else(|| self.block.clone());
        let access = match self.value("percentage_random").filter(|_| verb.access == Some(Access::Random)) {
            None | Some("100") => self.access.or(verb.access),
            Some("0") => Some(Access::Sequential),
            Some(_) => {
                return Err(
                    "`percentage_random`: a test is all random or all sequential; use 0 or 100".into()
                );
            }
        };
        if block.is_none() && access.is_none() {
            return Ok(None);
        }
        let own =
            if matches!(verb.word.as_str(), "rw" | "fsync") { Access::Random } else { Access::Sequential };
        Ok(Some(format!("{}{}", access.unwrap_or(own), block.as_deref().unwrap_or(FIO_BLOCK))))
    }

    /// Returns the number of threads, in words of either program.
    pub fn threads(&self) -> Result<u64, String> {
        let mut own = Concurrency::default();
        for word in &self.words {
            own.parse(word, 1)?;
        }
        match self.parsed("numjobs", count)? {
            Some(_) if own.threads > 1 => Err("numjobs and tN are the same; drop one of them".into()),
            Some(0) => Err("`numjobs=0`: use 1 or more".into()),
            threads => Ok(threads.unwrap_or(own.threads.into())),
        }
    }

    fn concurrency(&self) -> Result<Option<String>, String> {
        let part =
            |letter: &str, number: Option<u64>| number.map_or(String::new(), |n| format!("{letter}{n}"));
        let word = part("q", self.parsed("iodepth", count)?) + &part("t", self.parsed("numjobs", count)?);
        Ok(Some(word).filter(|word| !word.is_empty()))
    }

    /// Returns the word for the page cache. In fio, a job uses it unless it says otherwise.
    fn cache(&self, verb: &Verb, notes: &mut Vec<String>) -> Result<Option<&'static str>, String> {
        let (direct, buffered) = (self.parsed("direct", flag)?, self.parsed("buffered", flag)?);
        let is_direct = match (direct, buffered) {
            // A discard has none.
            _ if verb.word == "discard" => return Ok(None),
            (Some(direct), Some(buffered)) if direct == buffered => {
                return Err("direct and buffered contradict each other; drop one of them".into());
            }
            (Some(direct), _) => direct,
            (None, Some(buffered)) => !buffered,
            (None, None) if self.value("rw").is_some() => {
                notes.push("buffered, as in fio without direct=1".into());
                false
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(if is_direct { "direct" } else { "buffered" }))
    }

    /// Returns the word for the engine.
    fn engine(&self, verb: &Verb, notes: &mut Vec<String>) -> Result<Option<String>, String> {
        let depth = self.depth()?;
        match self.value("ioengine") {
            None if depth > 1 && self.value("rw").is_some() => {
                notes.push(format!(
                    "iodepth={depth} as with ioengine=io_uring; fio's default engine ignores it"
                ));
                Ok(None)
            }
            None => Ok(None),
            Some("io_uring") => Ok(Some("engine=uring".into())),
            Some(engine @ ("libaio" | "posixaio")) => {
                notes.push(format!(
                    "ioengine={engine}: skye has io_uring, or plain calls where that does the same"
                ));
                if depth > 1 && self.sync_every(verb)? == Some(1) {
                    notes.push(format!(
                        "each operation waits for its own sync; in fio, {engine} makes one at a time"
                    ));
                }
                if depth > 1 && engine == "posixaio" {
                    notes.push("in fio, posixaio may do the operations on a file one after another".into());
                }
                Ok(None)
            }
            Some(engine @ ("mmap" | "null")) => Ok(Some(format!("engine={engine}"))),
            Some(engine) if SYNC_ENGINES.contains(&engine) => Ok(Some("engine=sync".into())),
            Some(other) => Err(unknown_engine(other).unwrap_or_default()),
        }
    }

    /// Returns the number of writes of a job after which fio calls `fsync` or `fdatasync`, if it does.
    fn sync_every(&self, verb: &Verb) -> Result<Option<u64>, String> {
        let [fdatasync, fsync] = ["fdatasync", "fsync"].map(|name| self.parsed(name, count));
        let (fdatasync, fsync) = (fdatasync?.unwrap_or(0), fsync?.unwrap_or(0));
        // fio syncs after writes alone.
        if matches!(verb.word.as_str(), "read" | "discard") || verb.is_on_files() {
            return Ok(None);
        }
        if fdatasync > 0 && fsync > 0 {
            return Err("fsync and fdatasync are one key here; drop one of them".into());
        }
        Ok(Some(fdatasync.max(fsync)).filter(|writes| *writes > 0))
    }

    /// Returns the word for syncs.
    fn sync(&self, verb: &Verb, notes: &mut Vec<String>) -> Result<Option<String>, String> {
        let [end, close] = ["end_fsync", "fsync_on_close"].map(|name| self.parsed(name, flag));
        let is_at_end = end?.unwrap_or(false) | close?.unwrap_or(false);
        let is_synchronous = match self.value("sync") {
            None | Some("0" | "none") => false,
            Some("" | "1" | "sync" | "dsync") => true,
            Some(other) => return Err(format!("`sync={other}`: use 0, 1, sync or dsync")),
        };
        if matches!(verb.word.as_str(), "read" | "discard") || verb.is_on_files() {
            return Ok(None);
        }
        let word = match self.sync_every(verb)? {
            None | Some(2..) if is_synchronous => "sync=dsync".to_owned(),
            None if is_at_end => return Ok(Some("sync=end".into())),
            None => {
                if self.value("rw").is_some() {
                    notes.push("a sync at the end counts here, as with end_fsync=1".into());
                }
                return Ok(None);
            }
            Some(writes) => {
                // A thread of its own stands for each operation in flight.
                let depth = self.depth()?;
                if writes > 1 && depth > 1 {
                    notes.push(format!(
                        "syncs after {writes} writes: {depth} threads stand for the depth, each with a part of the data, and \
                         share these writes"
                    ));
                }
                match if writes > 1 { (writes / depth.max(1)).max(1) } else { 1 } {
                    1 => "sync=each".to_owned(),
                    writes => format!("sync={writes}"),
                }
            }
        };
        if word == "sync=dsync" {
            if self.value("sync") != Some("dsync") {
                notes
                    .push("each write is durable with the metadata that it needs, as with sync=dsync".into());
            }
        } else if self.parsed("fsync", count)?.is_some_and(|writes| writes > 0) {
            notes.push("syncs are fdatasync here".into());
        }
        Ok(Some(word))
    }

    /// Returns the word for a rate. In fio, each job has it; here, all threads together.
    fn rate(&self, verb: &Verb, threads: u64) -> Result<Option<String>, String> {
        let (bytes, ops) = (self.parsed("rate", bytes)?, self.parsed("rate_iops", count)?);
        let process = match self.value("rate_process") {
            None | Some("linear") => "",
            Some("poisson") => ",poisson",
            Some(other) => return Err(format!("`rate_process={other}`: use linear or poisson")),
        };
        let rate = match (bytes, ops) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => return Err("rate and rate_iops are two rates; drop one of them".into()),
            _ if verb.word == "rw" => {
                let given = self
                    .keys
                    .iter()
                    .find(|given| given.key.names.first().is_some_and(|n| n.starts_with("rate")));
                let word = given.map_or(String::new(), |given| format!("`{}={}`: ", given.name, given.value));
                return Err(format!(
                    "{word}in fio, reads and writes have a rate each; drop it, and add :rate=N for both to the test"
                ));
            }
            (Some(bytes), None) => format!("{}/s", size::exact(bytes.saturating_mul(threads))),
            (None, Some(ops)) => ops.saturating_mul(threads).to_string(),
        };
        Ok(Some(format!("rate={rate}{process}")))
    }

    /// Returns true if a count ends the test.
    pub fn is_counted(&self) -> bool {
        COUNTS.iter().any(|name| self.value(name).is_some())
    }

    /// Removes the counts that would end the test.
    pub fn remove_counts(&mut self) {
        COUNTS.iter().for_each(|name| self.remove(name));
    }

    fn counts(&self, threads: u64) -> Result<Vec<String>, String> {
        let all = |number: Option<u64>| number.map(|number| number.saturating_mul(threads));
        let (ops, bytes) = (all(self.parsed("number_ios", count)?), all(self.parsed("io_size", bytes)?));
        let passes = self.parsed("loops", count)?;
        let words = [
            ops.map(|ops| format!("ops={ops}")),
            bytes.map(|bytes| format!("bytes={}", size::exact(bytes))),
            passes.map(|passes| format!("passes={passes}")),
        ];
        Ok(words.into_iter().flatten().collect())
    }

    fn distribution_and_mix(&self, verb: &Verb) -> Result<Vec<String>, String> {
        let mut words = Vec::new();
        // A job that only reads or only writes has no use for it.
        if verb.word == "rw" {
            words.extend(self.read_percent()?.map(|percent| format!("read={percent}")));
        }
        match self.value("random_distribution").map(|value| value.split_once(':').unwrap_or((value, ""))) {
            None | Some(("random", _)) => {}
            Some(("zipf", "")) => words.push("zipf=1.1".into()),
            Some(("zipf", theta)) => words.push(format!("zipf={theta}")),
            Some((other, _)) => {
                return Err(format!(
                    "`random_distribution={other}`: use random or zipf, or hot=A/B for hot blocks"
                ));
            }
        }
        for (name, word) in [
            ("hipri", "iopoll"),
            ("sqthread_poll", "sqpoll"),
            ("zero_buffers", "compress=100"),
            ("uncached", "uncached"),
            ("atomic", "atomic"),
        ] {
            words.extend(self.parsed(name, flag)?.filter(|is_on| *is_on).map(|_| word.to_owned()));
        }
        for (name, word) in [("buffer_compress_percentage", "compress"), ("dedupe_percentage", "dedupe")] {
            words.extend(self.parsed(name, percent)?.map(|percent| format!("{word}={percent}")));
        }
        Ok(words)
    }
}

impl Verb {
    fn is_on_files(&self) -> bool {
        self.word.parse::<FileVerb>().is_ok()
    }

    /// Returns true if a name follows the verb.
    fn has_name(&self) -> bool {
        matches!(self.word.as_str(), "mix" | "replay")
    }
}

fn is_rw(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    name.eq_ignore_ascii_case("rw") || name.eq_ignore_ascii_case("readwrite")
}

/// Returns what to use for an engine of fio that skye does not have; `None` for one that it has.
pub(super) fn unknown_engine(name: &str) -> Option<String> {
    if ENGINES.contains(&name) || SYNC_ENGINES.contains(&name) {
        return None;
    }
    let remedy = MISSING_ENGINES.iter().find(|(names, _)| names.contains(&name)).map_or(
        "use io_uring, also for libaio and posixaio, sync, also for psync and pvsync, mmap or null",
        |(_, remedy)| remedy,
    );
    Some(format!("`ioengine={name}`: skye does not have it; {remedy}"))
}

/// Returns skye's verb for a value of fio's `rw`, and its order.
fn fio_verb(value: &str) -> Result<(&'static str, Access), String> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "read" => ("read", Access::Sequential),
        "write" => ("write", Access::Sequential),
        "randread" => ("read", Access::Random),
        "randwrite" => ("write", Access::Random),
        "rw" | "readwrite" => ("rw", Access::Sequential),
        "randrw" => ("rw", Access::Random),
        "trim" => ("discard", Access::Sequential),
        "randtrim" => ("discard", Access::Random),
        "trimwrite" | "randtrimwrite" => {
            return Err("no verb discards a block and writes it; use discard or write".into());
        }
        word if word.contains(':') => {
            return Err(
                "no word stands for what follows the colon: blocks have no gaps, and none is read backwards; drop it".into()
            );
        }
        _ => return Err("use read, write, rw, randread, randwrite, randrw, trim or randtrim".into()),
    })
}

/// Parses a number.
pub(super) fn count(value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| "use one whole number".into())
}

fn percent(value: &str) -> Result<u8, String> {
    let percent = value.trim_end_matches('%').parse().ok().filter(|percent| *percent <= 100);
    percent.ok_or_else(|| "use one number from 0 to 100".into())
}

/// Parses a size of fio, whose `k`, `kb` and `KB` are 1024.
pub(super) fn bytes(value: &str) -> Result<u64, String> {
    match block(value)?.parse::<Size>() {
        Ok(Size::Bytes(bytes)) => Ok(bytes),
        Ok(_) => Err("use bytes, such as 4k or 1g".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns a size of fio as a SPEC has it.
fn block(value: &str) -> Result<String, String> {
    let lower = value.to_ascii_lowercase();
    if lower.ends_with("ib") {
        let remedy = lower.trim_end_matches("ib");
        return Err(format!("in fio, {value} has units of 1000; use {remedy} for units of 1024"));
    }
    if lower.contains(',') {
        return Err("reads and writes have one value here".into());
    }
    if lower.contains([':', '/']) {
        return Err("a test has one block size; use a test for each".into());
    }
    let is_binary = lower.strip_suffix('b').is_some_and(|size| size.ends_with(['k', 'm', 'g', 't']));
    let ours = if is_binary { value[..value.len() - 1].to_owned() } else { value.to_owned() };
    match ours.parse::<Size>() {
        Ok(Size::Bytes(_)) => Ok(ours),
        Ok(_) => Err("use bytes, such as 4k or 1g".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a switch. A key without a value is on.
pub(super) fn flag(value: &str) -> Result<bool, String> {
    match value {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err("use 0 or 1".into()),
    }
}

/// Returns true for the size of a block, such as "4k".
fn is_size(word: &str) -> bool {
    let digits = word.trim_end_matches(|letter: char| "kmgib".contains(letter.to_ascii_lowercase()));
    digits.len() < word.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}
