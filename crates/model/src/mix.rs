//! Mixes: flows of operations over a population of files, as a program makes them.
//!
//! A flow is a sequence of operations. Its weight is its share of all flows. Each flow begins with a file drawn evenly
//! from the population, and `create` and `pick` change to another. Creations and deletions balance: a file is deleted
//! in the order of creation, so the population stays as large as it was.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::digest::digest;
use crate::size::Size;
use crate::toml_text::from_toml;
use crate::workload::{CHUNK_BYTES_MAX, MixName};

/// Most flows that weights may sum up to: those that are shuffled together.
const WEIGHTS_MAX: u64 = 1000;
/// Most operations of one flow.
const OPERATIONS_MAX: usize = 64;
/// Largest file of a mix, and largest part of one that an operation reads or writes.
pub const BYTES_MAX: u64 = 1 << 30;
/// Length of a log, which is written again and again.
pub const LOG_BYTES: u64 = 16 << 20;
/// Longest pause after a flow.
const THINK_MS_MAX: u64 = 60_000;
/// Quantile of the standard normal distribution at 90 %.
const NORMAL_P90: f64 = 1.281_551_6;

/// The texts of the shipped mixes.
const TEXTS: [(MixName, &str); 6] = [
    (MixName::Mail, include_str!("../../../mixes/mail.toml")),
    (MixName::Web, include_str!("../../../mixes/web.toml")),
    (MixName::Home, include_str!("../../../mixes/home.toml")),
    (MixName::Build, include_str!("../../../mixes/build.toml")),
    (MixName::Database, include_str!("../../../mixes/database.toml")),
    (MixName::Photos, include_str!("../../../mixes/photos.toml")),
];

/// The shipped mixes, in the order of their texts.
static SHIPPED: LazyLock<[Mix; TEXTS.len()]> = LazyLock::new(|| {
    // A test parses each of them.
    TEXTS.map(|(name, text)| {
        Mix::parse(text).unwrap_or_else(|problem| unreachable!("mixes/{name}.toml: {problem}"))
    })
});

/// Ending of the names of files that have a mix.
const ENDING: &str = ".toml";

/// The mixes of files, by the names that tests have for them.
pub type Mixes = BTreeMap<String, Arc<Mix>>;

/// A mix as it is written in a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedMix {
    /// A shipped one.
    Shipped(MixName),
    /// One from a file.
    File {
        /// The path, as the user wrote it.
        path: String,
        /// The mix; `None` where only the name is known, as in a document.
        mix: Option<Arc<Mix>>,
    },
}

impl NamedMix {
    /// Finds a mix by its name in a SPEC. Files are those of `mixes`.
    ///
    /// # Errors
    /// The names that would be understood.
    pub fn find(name: &str, mixes: &Mixes) -> Result<Self, String> {
        if is_file(name) {
            return Ok(Self::File { path: name.to_owned(), mix: mixes.get(name).cloned() });
        }
        let known = MixName::FORM.replace('|', " ");
        let unknown = |_| format!("`mix:{name}`: use {known}, or a file such as mix:mine.toml");
        name.parse().map(Self::Shipped).map_err(unknown)
    }

    /// Returns the mix; `None` where only its name is known.
    pub fn get(&self) -> Option<&Mix> {
        match self {
            Self::Shipped(name) => Some(Mix::shipped(*name)),
            Self::File { mix, .. } => mix.as_deref(),
        }
    }

    /// Takes the mix of its name, if there is one.
    pub fn resolve_from(&mut self, mixes: &Mixes) {
        if let Self::File { path, mix } = self {
            *mix = mixes.get(path).cloned().or(mix.take());
        }
    }

    /// Returns its name without directory and ending.
    pub fn short(&self) -> &str {
        match self {
            Self::Shipped(name) => name.word(),
            Self::File { path, .. } => {
                Path::new(path).file_stem().and_then(|name| name.to_str()).unwrap_or(path)
            }
        }
    }
}

impl fmt::Display for NamedMix {
    /// Writes the name that a SPEC has for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped(name) => f.write_str(name.word()),
            Self::File { path, .. } => f.write_str(path),
        }
    }
}

fn is_file(name: &str) -> bool {
    name.ends_with(ENDING)
}

/// Returns the path of the file that has the mix of a test, if one has it.
pub fn file_of(spec: &str) -> Option<&str> {
    let mut words = spec.split(':').map(str::trim);
    (words.next() == Some("mix")).then(|| words.next())?.filter(|name| is_file(name))
}

/// Parses the texts of mixes, by their names.
///
/// # Errors
/// The name of the first that is none, and its problem.
pub fn parse_all(texts: &BTreeMap<String, String>) -> Result<Mixes, String> {
    let parsed = texts.iter().map(|(name, text)| match Mix::parse(text) {
        Ok(mix) => Ok((name.clone(), Arc::new(mix))),
        Err(problem) => Err(format!("{name}: {problem}")),
    });
    parsed.collect()
}

/// A mix of operations.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// Version of the mix: flows per second compare only within one.
    #[serde(default = "one")]
    pub version: u32,
    /// The work that it is like, in one sentence.
    #[serde(default)]
    pub about: String,
    /// Sources of its figures.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Properties of the real work that it lacks.
    #[serde(default)]
    pub limitations: String,
    /// Most bytes that one call reads or writes.
    #[serde(default = "chunk_max")]
    pub chunk: Bytes,
    /// The files of each thread.
    pub population: Population,
    /// The flows.
    #[serde(rename = "flow")]
    pub flows: Vec<Flow>,
    /// Hash of its text, to tell mixes of one name apart.
    #[serde(skip)]
    pub digest: u64,
}

/// Files that a thread works on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// Number of files.
    pub files: u64,
    /// Number of directories over which they are spread.
    #[serde(default = "one")]
    pub dirs: u64,
    /// Levels of directories.
    #[serde(default = "one")]
    pub levels: u32,
    /// Sizes of the files.
    pub sizes: Sizes,
}

fn one<N: From<u8>>() -> N {
    N::from(1)
}

fn chunk_max() -> Bytes {
    Bytes(CHUNK_BYTES_MAX)
}

/// Distribution of sizes: log-normal, cut at a maximum.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Half of the files are no larger.
    pub median: Bytes,
    /// Nine in ten files are no larger; the same as the median if all have one size.
    pub p90: Bytes,
    /// No file is larger.
    pub max: Bytes,
}

/// A number of bytes, written as in a SPEC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Bytes(pub u64);

impl TryFrom<String> for Bytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.parse::<Size>() {
            Ok(Size::Bytes(bytes)) if (1..=BYTES_MAX).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(format!("`{text}` is not a size from 1 byte to 1 GiB, such as 16k")),
        }
    }
}

impl Sizes {
    /// Returns the size below which a share of the files lies; `share` is between 0 and 1.
    pub fn quantile(&self, share: f64) -> u64 {
        let Self { median: Bytes(median), p90: Bytes(p90), max: Bytes(max) } = *self;
        let sigma = (p90 as f64 / median as f64).ln() / NORMAL_P90;
        let size = median as f64 * (sigma * normal_quantile(share)).exp();
        (size.round() as u64).clamp(1, max)
    }

    /// Returns the mean size.
    pub fn mean_bytes(&self) -> u64 {
        const POINTS: u32 = 256;
        let at = |point: u32| self.quantile((f64::from(point) + 0.5) / f64::from(POINTS));
        (0..POINTS).map(at).sum::<u64>() / u64::from(POINTS)
    }
}

/// Returns the quantile of the standard normal distribution (Abramowitz and Stegun, "Handbook of Mathematical
/// Functions", 26.2.23; error below 0.00045).
fn normal_quantile(share: f64) -> f64 {
    let (tail, sign) = if share < 0.5 { (share, -1.0) } else { (1.0 - share, 1.0) };
    let t = (-2.0 * tail.max(1e-9).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    sign * (t - above / below)
}

/// A sequence of operations.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Its name.
    pub name: String,
    /// Its number among the sum of all weights.
    pub weight: u64,
    /// Pause after it, in milliseconds. An open loop makes none.
    #[serde(default)]
    pub think_ms: u64,
    /// Its operations, in order.
    #[serde(rename = "do")]
    pub operations: Vec<Operation>,
}

/// How a new file gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileCreation {
    /// It is created with it.
    Named,
    /// It is written under another name, and renamed.
    Renamed,
    /// It is written under another name, linked to its own, and the other name is removed.
    Linked,
}

/// One operation on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Operation {
    /// Takes another file of the population.
    Pick,
    /// Makes a file, writes all of it, and closes it.
    Create {
        /// How it gets its name.
        arrival: FileCreation,
        /// True if it is synced before it gets its name.
        is_synced: bool,
    },
    /// Opens the file, reads all of it, and closes it.
    Read,
    /// Opens the file, reads that many bytes at a random offset, and closes it.
    ReadPart(u64),
    /// Opens the file, writes that many bytes at its end, and closes it.
    Append {
        /// Number of bytes.
        bytes: u64,
        /// True if it is synced.
        is_synced: bool,
    },
    /// Opens the file, writes that many bytes at a random offset, and closes it.
    Overwrite {
        /// Number of bytes.
        bytes: u64,
        /// True if it is synced.
        is_synced: bool,
    },
    /// Opens the file, truncates it to zero, writes all of it again, and closes it.
    Rewrite {
        /// True if it is synced.
        is_synced: bool,
    },
    /// Writes that many bytes at the end of a log that stays open.
    Log {
        /// Number of bytes.
        bytes: u64,
        /// True if it is synced.
        is_synced: bool,
    },
    /// Opens the file, truncates it to half of its size, and closes it.
    Truncate,
    /// Reads the attributes of the file.
    Stat,
    /// Requests the attributes of a name that does not exist.
    StatMissing,
    /// Opens the directory of the file, reads all its names, and closes it.
    List,
    /// Gives the file another name in its directory.
    Rename,
    /// Gives the file a second name in its directory; removes that name if there is one.
    Link,
    /// Deletes the oldest file, with all its names. Of files that threads share, it deletes any.
    Delete,
}

impl Operation {
    /// Names of the kinds of operations that are counted and timed.
    pub const STEPS: &[&str] = &[
        "create",
        "read",
        "read-part",
        "append",
        "overwrite",
        "rewrite",
        "log",
        "truncate",
        "stat",
        "stat-missing",
        "list",
        "rename",
        "link",
        "delete",
    ];

    /// Returns the position of its kind among [`Operation::STEPS`].
    pub const fn step(self) -> usize {
        match self {
            Self::Create { .. } | Self::Pick => 0,
            Self::Read => 1,
            Self::ReadPart(_) => 2,
            Self::Append { .. } => 3,
            Self::Overwrite { .. } => 4,
            Self::Rewrite { .. } => 5,
            Self::Log { .. } => 6,
            Self::Truncate => 7,
            Self::Stat => 8,
            Self::StatMissing => 9,
            Self::List => 10,
            Self::Rename => 11,
            Self::Link => 12,
            Self::Delete => 13,
        }
    }

    /// Returns true if it ends with a sync.
    pub fn is_synced(self) -> bool {
        match self {
            Self::Create { is_synced, .. }
            | Self::Append { is_synced, .. }
            | Self::Overwrite { is_synced, .. } => is_synced,
            Self::Rewrite { is_synced } | Self::Log { is_synced, .. } => is_synced,
            _ => false,
        }
    }

    /// Returns the most bytes that one call of it moves, if they do not depend on the file.
    pub fn part_bytes(self) -> u64 {
        match self {
            Self::ReadPart(bytes)
            | Self::Append { bytes, .. }
            | Self::Overwrite { bytes, .. }
            | Self::Log { bytes, .. } => bytes,
            _ => 0,
        }
    }
}

impl TryFrom<String> for Operation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Operation {
    type Err = String;

    /// Parses for example `create rename fsync` or `append=16k`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, value) = first.split_once('=').map_or((first, None), |(name, value)| (name, Some(value)));
        let bytes = || {
            let value = value.ok_or_else(|| format!("`{text}`: use {name}=SIZE, such as {name}=8k"))?;
            Ok::<_, String>(Bytes::try_from(value.to_owned())?.0)
        };
        let (mut is_synced, mut arrival) = (false, FileCreation::Named);
        for word in words {
            match word {
                "fsync" => is_synced = true,
                "rename" => arrival = FileCreation::Renamed,
                "link" => arrival = FileCreation::Linked,
                _ => return Err(format!("`{text}`: `{word}` is not fsync, rename or link")),
            }
        }
        let operation = match name {
            "pick" => Self::Pick,
            "create" => Self::Create { arrival, is_synced },
            "read" => Self::Read,
            "read-part" => Self::ReadPart(bytes()?),
            "append" => Self::Append { bytes: bytes()?, is_synced },
            "overwrite" => Self::Overwrite { bytes: bytes()?, is_synced },
            "rewrite" => Self::Rewrite { is_synced },
            "log" => Self::Log { bytes: bytes()?, is_synced },
            "truncate" => Self::Truncate,
            "stat" => Self::Stat,
            "stat-missing" => Self::StatMissing,
            "list" => Self::List,
            "rename" => Self::Rename,
            "link" => Self::Link,
            "delete" => Self::Delete,
            _ => {
                return Err(format!(
                    "`{text}`: unknown operation; use one of pick {}",
                    Self::STEPS.join(" ")
                ));
            }
        };
        let takes_sync =
            matches!(operation, Self::Create { .. } | Self::Append { .. } | Self::Overwrite { .. })
                || matches!(operation, Self::Rewrite { .. } | Self::Log { .. });
        if is_synced && !takes_sync {
            return Err(format!("`{text}`: {name} writes nothing to sync; drop fsync"));
        }
        if arrival != FileCreation::Named && !matches!(operation, Self::Create { .. }) {
            return Err(format!("`{text}`: rename and link are only for created files"));
        }
        if value.is_some() && operation.part_bytes() == 0 {
            return Err(format!("`{text}`: {name} takes no size"));
        }
        Ok(operation)
    }
}

impl Mix {
    /// Returns the text of a shipped mix.
    pub fn text(name: MixName) -> &'static str {
        TEXTS.iter().find(|(shipped, _)| *shipped == name).map_or("", |(_, text)| text)
    }

    /// Returns a shipped mix.
    pub fn shipped(name: MixName) -> &'static Self {
        let at = TEXTS.iter().position(|(shipped, _)| *shipped == name);
        &SHIPPED[at.unwrap_or_else(|| unreachable!("a test finds mixes/{name}.toml"))]
    }

    /// Parses the text of a mix.
    ///
    /// # Errors
    /// The problem with it: what it lacks, or why the population would not stay as large as it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mix: Self = from_toml(text)?;
        mix.check()?;
        Ok(Self { digest: digest(text), ..mix })
    }

    fn check(&self) -> Result<(), String> {
        let Population { files, dirs, levels, sizes } = &self.population;
        if !(1..=crate::spec::DIRS_MAX).contains(dirs) || !(1..=crate::spec::LEVELS_MAX).contains(levels) {
            return Err("population: the range of dirs is 1 to 65536, of levels 1 to 16".into());
        }
        if sizes.median > sizes.p90 || sizes.p90 > sizes.max {
            return Err("population.sizes: median <= p90 <= max is required".into());
        }
        let weights: u64 = self.flows.iter().map(|flow| flow.weight).sum();
        if !(1..=WEIGHTS_MAX).contains(&weights) || self.flows.iter().any(|flow| flow.weight == 0) {
            return Err(format!("weights of flows are at least 1, and at most {WEIGHTS_MAX} in total"));
        }
        if let Some(flow) =
            self.flows.iter().find(|flow| !(1..=OPERATIONS_MAX).contains(&flow.operations.len()))
        {
            return Err(format!("flow {}: the range is 1 to {OPERATIONS_MAX} operations", flow.name));
        }
        let created = self.created();
        let deleted = self.count(|one| matches!(one, Operation::Delete));
        if created != deleted {
            return Err(format!(
                "the population would change in size: {weights} flows create {created} files and delete {deleted}"
            ));
        }
        if deleted == 0 && self.count(|one| matches!(one, Operation::Append { .. })) > 0 {
            return Err(
                "files that are never deleted would grow without bound; use log instead of append".into()
            );
        }
        if deleted == 0 && self.count(|one| matches!(one, Operation::Truncate)) > 0 {
            return Err(
                "truncated files that are never deleted all become empty; add delete and create".into()
            );
        }
        if let Some(flow) = self.flows.iter().find(|flow| flow.think_ms > THINK_MS_MAX) {
            return Err(format!("flow {}: think_ms is at most {THINK_MS_MAX}", flow.name));
        }
        if self.chunk.0 > CHUNK_BYTES_MAX {
            return Err("chunk: the maximum is 1m per call".into());
        }
        if self.count(|one| matches!(one, Operation::Log { bytes, .. } if *bytes > LOG_BYTES)) > 0 {
            return Err("a log file has at most 16 MiB; use a smaller size".into());
        }
        if *files < self.files_min() {
            return Err(format!("population.files: these flows need {} or more", self.files_min()));
        }
        Ok(())
    }

    /// Returns the number of such operations for the flows of all weights.
    fn count(&self, wanted: fn(&Operation) -> bool) -> u64 {
        let each =
            |flow: &Flow| flow.weight * flow.operations.iter().filter(|one| wanted(one)).count() as u64;
        self.flows.iter().map(each).sum()
    }

    /// Returns the number of files that the flows of all weights create, and delete.
    pub fn created(&self) -> u64 {
        self.count(|one| matches!(one, Operation::Create { .. }))
    }

    /// Returns the fewest files of a thread: some flows may delete before others create.
    pub fn files_min(&self) -> u64 {
        self.created() + 2
    }

    /// Returns its operations with this name among [`Operation::STEPS`].
    pub fn operations_named(&self, name: &str) -> impl Iterator<Item = Operation> {
        let all = self.flows.iter().flat_map(|flow| &flow.operations).copied();
        all.filter(move |one| *one != Operation::Pick && Operation::STEPS[one.step()] == name)
    }

    /// Returns true if an operation of it is synced.
    pub fn syncs(&self) -> bool {
        self.count(|one| one.is_synced()) > 0
    }

    /// Returns true if an operation writes to the log.
    pub fn has_log(&self) -> bool {
        self.count(|one| matches!(one, Operation::Log { .. })) > 0
    }

    /// Returns about the most bytes that `files` files of `threads` threads take, with their logs.
    pub fn bytes_max(&self, files: u64, threads: u32) -> u64 {
        // Files grow by appends until they are deleted, and as many are created as are deleted.
        let appended = |one: &Operation| if let Operation::Append { bytes, .. } = one { *bytes } else { 0 };
        let of_flow = |flow: &Flow| flow.weight * flow.operations.iter().map(appended).sum::<u64>();
        let in_life = self.flows.iter().map(of_flow).sum::<u64>() / self.created().max(1);
        let logs = if self.has_log() { u64::from(threads) * LOG_BYTES } else { 0 };
        let file_bytes = self.population.sizes.mean_bytes().saturating_add(in_life);
        files.saturating_mul(file_bytes).saturating_add(logs)
    }

    /// Returns the most bytes that one call on a part of a file moves.
    pub fn part_bytes_max(&self) -> u64 {
        let all = self.flows.iter().flat_map(|flow| &flow.operations);
        all.map(|one| one.part_bytes()).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_mixes_cite_their_sources() {
        for name in MixName::ALL {
            let mix = Mix::shipped(*name);
            assert!(!mix.sources.is_empty() && mix.sources.iter().all(|source| source.len() > 10), "{name}");
            assert!(mix.about.len() > 10 && mix.limitations.len() > 10 && mix.version >= 1, "{name}");
        }
    }

    #[test]
    fn file_sizes_have_the_requested_quantiles() {
        let sizes = Sizes { median: Bytes(2_000), p90: Bytes(23_000), max: Bytes(1 << 20) };
        let near = |share: f64, bytes: f64| (sizes.quantile(share) as f64 / bytes - 1.0).abs() < 0.01;
        assert!(near(0.5, 2_000.0) && near(0.9, 23_000.0) && near(0.1, 2_000.0 * 2_000.0 / 23_000.0));
        assert_eq!((sizes.quantile(0.999_999), sizes.quantile(0.0) > 0), (1 << 20, true));
        let same = Sizes { median: Bytes(4096), p90: Bytes(4096), max: Bytes(4096) };
        assert_eq!((same.quantile(0.01), same.quantile(0.99), same.mean_bytes()), (4096, 4096, 4096));
    }

    #[test]
    fn invalid_mix_is_refused_with_the_reason() {
        let text = |operations: &str| {
            format!(
                "version = 1\nabout = 'a'\nsources = ['s']\nlimitations = 'l'\n[population]\nfiles = 10\n\
                 sizes = {{ median = '4k', p90 = '8k', max = '1m' }}\n[[flow]]\nname = 'f'\nweight = 2\ndo = [{operations}]\n"
            )
        };
        let problem = |operations: &str| Mix::parse(&text(operations)).unwrap_err();
        assert!(
            Mix::parse(&text("'create link fsync', 'delete', 'append=4k fsync', 'stat-missing'")).is_ok()
        );
        assert!(problem("'create'").contains("2 flows create 2 files and delete 0"));
        assert!(problem("'append=4k'").contains("grow without bound"));
        assert!(problem("'truncate'").contains("all become empty"));
        assert!(Mix::parse(&format!("chunk = '4k'\n{}", text("'link', 'stat'"))).is_ok());
        assert!(
            Mix::parse(&format!("chunk = '4m'\n{}", text("'stat'")))
                .unwrap_err()
                .contains("the maximum is 1m")
        );
        let pause = |think_ms: u32| text("'stat'") + &format!("think_ms = {think_ms}\n");
        assert!(Mix::parse(&pause(60_000)).is_ok() && Mix::parse(&pause(60_001)).is_err());
        assert!(problem("'append'").contains("use append=SIZE"));
        assert!(problem("'stat fsync'").contains("drop fsync"));
        assert!(problem("'read link'").contains("only for created files"));
        assert!(problem("'read=4k'").contains("takes no size"));
        assert!(problem("'reed'").contains("unknown operation; use one of pick create read"));
        assert!(problem("'delete', 'delete', 'delete', 'delete', 'delete', 'create', 'create', 'create', 'create', 'create'").contains("12 or more"));
    }
}
