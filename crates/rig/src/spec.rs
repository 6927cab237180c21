//! A description of a rig, as a value and as words of a command line.
//!
//! `fuse slots=4 service=1ms`, `disk fs=ext4 size=256m read_iops=5000`,
//! `disk over over.slots=32 over.service=6ms..9ms`, `disk fs=ext4 on on.fs=ext4 on.read_iops=1700`,
//! `disk fs=ext4 overlay`, `neighbour in=/mnt rate=500`, `hogs count=2`, `quota cpus=0.2`, `memory limit=64m`,
//! `network rate=200mbit`. [`Spec::parse`] reads back the words that [`Spec::words`] writes.

mod group;
mod network;
mod server;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use model::UserError;
use model::size::{self, Size};

use crate::text::{escape, parse_time, time, unescape, unescape_text};
use crate::throttle::Throttle;
use crate::timing::Timing;

pub use group::{MemorySpec, QuotaSpec};
pub use network::NetworkSpec;
use server::put_timing;
pub use server::{FuseSpec, OpenFilePolicy};

/// Prefix of words on the server under a disk.
const SERVER_PREFIX: &str = "over.";
/// Prefix of words on the disk under a disk.
const LOWER_PREFIX: &str = "on.";

/// One rig.
#[derive(Debug, Clone, PartialEq)]
pub enum Spec {
    /// A file system in memory whose answers take a known time.
    Fuse(FuseSpec),
    /// A loop device, with the layers over and under it.
    Disk(DiskSpec),
    /// A reader in the same file system.
    Neighbour(NeighbourSpec),
    /// Threads that need the CPUs.
    Hogs(HogsSpec),
    /// A share of CPU time for the processes put into it.
    Quota(QuotaSpec),
    /// An amount of memory for the processes put into it.
    Memory(MemorySpec),
    /// A network file system.
    Network(NetworkSpec),
}

impl Spec {
    /// A file system in memory that answers at once, until it gets other times.
    pub fn fuse() -> FuseSpec {
        FuseSpec::default()
    }

    /// A loop device of 64 MiB over a file in memory, until it is given more.
    pub fn disk() -> DiskSpec {
        DiskSpec::default()
    }

    /// A neighbour that makes a file in that directory and reads it directly, at this rate.
    pub fn neighbour(directory: impl Into<PathBuf>, reads_per_second: u64) -> NeighbourSpec {
        NeighbourSpec {
            directory: directory.into(),
            reads_per_second,
            block_bytes: 4096,
            file_bytes: 16 << 20,
        }
    }

    /// Threads that do nothing but take CPU time.
    pub fn hogs(count: u32) -> HogsSpec {
        HogsSpec { count }
    }

    /// A group of processes with that much CPU time, given out ten times a second: 0.2 is a fifth of a CPU.
    pub fn quota(cpus: f64) -> QuotaSpec {
        QuotaSpec { cpus, period_us: 100_000 }
    }

    /// A group of processes with that much memory, its page cache included.
    pub fn memory(limit_bytes: u64) -> MemorySpec {
        MemorySpec { limit_bytes }
    }

    /// A file system of 256 MiB behind a network of that rate.
    pub fn network(bits_per_second: u64) -> NetworkSpec {
        NetworkSpec { bits_per_second, delay_ns: 0, bytes: 256 << 20, mount_options: String::new() }
    }
}

/// A loop device, with the layers under it, on it, and between.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSpec {
    /// Size of the device.
    pub bytes: u64,
    /// Place of its bytes.
    pub on: DiskBacking,
    /// Name of the file system to make on it and mount. Without one, the rig is the device alone.
    pub file_system: Option<String>,
    /// Options of `mkfs`, split at blanks.
    pub mkfs_options: String,
    /// Options of `mount`.
    pub mount_options: String,
    /// True for two such devices on the same layer, over which btrfs spreads its data. They take no limits.
    pub is_striped: bool,
    /// True if an overlay is mounted over the file system, with its layers in it; the rig is then the overlay.
    pub with_overlay: bool,
    /// Limits of the device.
    pub throttle: Throttle,
    /// Size of the device's request queue.
    pub requests: Option<u32>,
    /// Bytes that may be dirty in its file system's pages.
    pub dirty_max_bytes: Option<u64>,
    /// True if its bytes go through the page cache of the file system below.
    pub is_buffered: bool,
    /// A daemon that is mounted over the file system; the rig is then its mount.
    pub daemon: Option<Daemon>,
}

/// A program that serves a directory by another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// bindfs with one thread, so that it serves one request at a time.
    Bindfs,
    /// bindfs with as many threads as it wants.
    BindfsThreads,
    /// gocryptfs, which encrypts.
    Gocryptfs,
}

/// Place of a disk's bytes.
#[derive(Debug, Default, Clone, PartialEq)]
pub enum DiskBacking {
    /// In a file in memory, if there is room for it.
    #[default]
    Memory,
    /// In a file of an ext4 on a compressed memory device.
    Zram,
    /// In a file in that directory.
    Directory(PathBuf),
    /// In a file of a server: a device with a queue and known times.
    Fuse(Box<FuseSpec>),
    /// In a file of the file system of another disk.
    Disk(Box<DiskSpec>),
}

impl Default for DiskSpec {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            on: DiskBacking::default(),
            file_system: None,
            mkfs_options: String::new(),
            mount_options: String::new(),
            is_striped: false,
            with_overlay: false,
            throttle: Throttle::default(),
            requests: None,
            dirty_max_bytes: None,
            is_buffered: false,
            daemon: None,
        }
    }
}

impl DiskSpec {
    /// Sets the size of the device. xfs takes no less than 300 MiB, btrfs no less than 109.
    #[must_use]
    pub fn size_mib(mut self, mib: u64) -> Self {
        self.bytes = mib << 20;
        self
    }

    /// Puts its bytes into a file in that directory.
    #[must_use]
    pub fn in_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.on = DiskBacking::Directory(directory.into());
        self
    }

    /// Puts its bytes into a file of an ext4 on a compressed memory device.
    #[must_use]
    pub fn on_zram(mut self) -> Self {
        self.on = DiskBacking::Zram;
        self
    }

    /// Lets that server serve its bytes.
    #[must_use]
    pub fn over(mut self, server: FuseSpec) -> Self {
        self.on = DiskBacking::Fuse(Box::new(server));
        self
    }

    /// Puts its bytes into a file of that disk's file system.
    #[must_use]
    pub fn on_disk(mut self, lower: DiskSpec) -> Self {
        self.on = DiskBacking::Disk(Box::new(lower));
        self
    }

    /// Makes and mounts that file system: ext4, xfs or btrfs.
    #[must_use]
    pub fn file_system(mut self, name: impl Into<String>) -> Self {
        self.file_system = Some(name.into());
        self
    }

    /// Options of `mkfs`: `"-O ^has_journal"`.
    #[must_use]
    pub fn mkfs_options(mut self, options: impl Into<String>) -> Self {
        self.mkfs_options = options.into();
        self
    }

    /// Options of `mount`: `"noatime"`.
    #[must_use]
    pub fn mount_options(mut self, options: impl Into<String>) -> Self {
        self.mount_options = options.into();
        self
    }

    /// Makes and mounts a btrfs whose data is spread over two such devices.
    #[must_use]
    pub fn striped(mut self) -> Self {
        self.is_striped = true;
        self.file_system("btrfs")
    }

    /// Mounts an overlay over the file system, which must exist, as containers have it.
    #[must_use]
    pub fn with_overlay(mut self) -> Self {
        self.with_overlay = true;
        self
    }

    /// Allows at most this many reads a second: a tenth of them in one burst, ten times a second. Over T seconds, a
    /// rate may therefore be off by a share of 0.1 / T. The kernel keeps the other limits in the same way.
    #[must_use]
    pub fn read_iops(mut self, reads: u64) -> Self {
        self.throttle.read_iops = Some(reads);
        self
    }

    /// Allows at most this many writes a second.
    #[must_use]
    pub fn write_iops(mut self, writes: u64) -> Self {
        self.throttle.write_iops = Some(writes);
        self
    }

    /// Allows at most this many bytes read a second.
    #[must_use]
    pub fn read_bytes_per_second(mut self, bytes: u64) -> Self {
        self.throttle.read_bytes_per_second = Some(bytes);
        self
    }

    /// Allows at most this many bytes written a second.
    #[must_use]
    pub fn write_bytes_per_second(mut self, bytes: u64) -> Self {
        self.throttle.write_bytes_per_second = Some(bytes);
        self
    }

    /// Sets the size of the device's request queue.
    #[must_use]
    pub fn requests(mut self, count: u32) -> Self {
        self.requests = Some(count);
        self
    }

    /// Sets the number of bytes that may be dirty in its file system's pages.
    #[must_use]
    pub fn dirty_max_bytes(mut self, bytes: u64) -> Self {
        self.dirty_max_bytes = Some(bytes);
        self
    }

    /// Mounts that daemon over the file system, which must exist.
    #[must_use]
    pub fn daemon(mut self, daemon: Daemon) -> Self {
        self.daemon = Some(daemon);
        self
    }

    /// Returns the server at the bottom, if there is one.
    pub fn server(&self) -> Option<&FuseSpec> {
        match &self.on {
            DiskBacking::Fuse(server) => Some(server),
            DiskBacking::Disk(lower) => lower.server(),
            DiskBacking::Memory | DiskBacking::Zram | DiskBacking::Directory(_) => None,
        }
    }

    /// Returns true if its bytes are on a compressed memory device, at any layer.
    pub(crate) fn is_on_zram(&self) -> bool {
        match &self.on {
            DiskBacking::Zram => true,
            DiskBacking::Disk(lower) => lower.is_on_zram(),
            DiskBacking::Memory | DiskBacking::Directory(_) | DiskBacking::Fuse(_) => false,
        }
    }

    /// Lets its bytes go through the page cache of the file system below.
    #[must_use]
    pub fn buffered(mut self) -> Self {
        self.is_buffered = true;
        self
    }

    fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        if let Some(key) = key.strip_prefix(SERVER_PREFIX) {
            return match &mut self.on {
                DiskBacking::Fuse(server) => server.put(key, value),
                _ => Err("use `over` before the settings of the lower server".into()),
            };
        }
        if let Some(key) = key.strip_prefix(LOWER_PREFIX) {
            return match &mut self.on {
                DiskBacking::Disk(lower) => lower.put(key, value),
                _ => Err("use `on` before the settings of the lower disk".into()),
            };
        }
        if put_throttle(&mut self.throttle, key, value)? {
            return Ok(true);
        }
        match key {
            "size" => self.bytes = bytes(value)?,
            "over" if value.is_empty() => self.on = DiskBacking::Fuse(Box::default()),
            "on" if value.is_empty() => self.on = DiskBacking::Disk(Box::default()),
            "zram" if value.is_empty() => self.on = DiskBacking::Zram,
            "in" => self.on = DiskBacking::Directory(unescape(value).into()),
            "fs" => self.file_system = Some(unescape_text(value)),
            "mkfs" => self.mkfs_options = unescape_text(value),
            "mount" => self.mount_options = unescape_text(value),
            "striped" if value.is_empty() => self.is_striped = true,
            "overlay" if value.is_empty() => self.with_overlay = true,
            "requests" => self.requests = Some(number(value)?),
            "dirty_max" => self.dirty_max_bytes = Some(bytes(value)?),
            "buffered" if value.is_empty() => self.is_buffered = true,
            "daemon" => self.daemon = Some(word(value, &DAEMONS)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Applies a word that a live disk accepts: a limit, a size of a queue, a time of the server, at any layer.
    fn put_live(&mut self, key: &str, value: &str) -> Result<bool, String> {
        if let Some(key) = key.strip_prefix(SERVER_PREFIX) {
            return match &mut self.on {
                DiskBacking::Fuse(server) => put_timing(&mut server.timing, key, value),
                _ => Err("it has no server".into()),
            };
        }
        if let Some(key) = key.strip_prefix(LOWER_PREFIX) {
            return match &mut self.on {
                DiskBacking::Disk(lower) => lower.put_live(key, value),
                _ => Err("it has no lower disk".into()),
            };
        }
        match (key, self.requests) {
            ("requests", Some(_)) => self.requests = Some(number(value)?),
            _ => return put_throttle(&mut self.throttle, key, value),
        }
        Ok(true)
    }

    fn words(&self) -> Vec<String> {
        let mut words = vec![format!("size={}", size::exact(self.bytes))];
        match &self.on {
            DiskBacking::Memory => {}
            DiskBacking::Zram => words.push("zram".into()),
            DiskBacking::Directory(directory) => words.push(format!("in={}", escape(directory))),
            DiskBacking::Fuse(server) => {
                words.push("over".into());
                words.extend(server.words().iter().map(|word| format!("{SERVER_PREFIX}{word}")));
            }
            DiskBacking::Disk(lower) => {
                words.push("on".into());
                words.extend(lower.words().iter().map(|word| format!("{LOWER_PREFIX}{word}")));
            }
        }
        let texts = [
            ("fs", self.file_system.as_deref()),
            ("mkfs", Some(self.mkfs_options.as_str()).filter(|options| !options.is_empty())),
            ("mount", Some(self.mount_options.as_str()).filter(|options| !options.is_empty())),
        ];
        words.extend(
            texts.iter().filter_map(|(key, text)| text.map(|text| format!("{key}={}", escape(text)))),
        );
        words.extend(self.is_striped.then(|| String::from("striped")));
        words.extend(self.with_overlay.then(|| String::from("overlay")));
        words.extend(throttle_words(&self.throttle));
        words.extend(self.requests.map(|count| format!("requests={count}")));
        words.extend(self.dirty_max_bytes.map(|bytes| format!("dirty_max={}", size::exact(bytes))));
        words.extend(self.is_buffered.then(|| String::from("buffered")));
        words.extend(self.daemon.map(|daemon| format!("daemon={}", name(daemon, &DAEMONS))));
        words
    }
}

const DAEMONS: [(&str, Daemon); 3] =
    [("bindfs", Daemon::Bindfs), ("bindfs-threads", Daemon::BindfsThreads), ("gocryptfs", Daemon::Gocryptfs)];

/// A process that makes a file and reads it directly, at random offsets.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighbourSpec {
    /// Directory of its file.
    pub directory: PathBuf,
    /// Reads a second, in equal gaps; fewer if a read takes longer than that.
    pub reads_per_second: u64,
    /// Bytes that it reads at once.
    pub block_bytes: u64,
    /// Size of its file.
    pub file_bytes: u64,
}

impl NeighbourSpec {
    /// Sets the bytes that it reads at once.
    #[must_use]
    pub fn block_bytes(mut self, bytes: u64) -> Self {
        self.block_bytes = bytes;
        self
    }

    fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "in" => self.directory = unescape(value).into(),
            "rate" => self.reads_per_second = number(value)?,
            "block" => self.block_bytes = bytes(value)?,
            "size" => self.file_bytes = bytes(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn words(&self) -> Vec<String> {
        vec![
            format!("in={}", escape(&self.directory)),
            format!("rate={}", self.reads_per_second),
            format!("block={}", size::exact(self.block_bytes)),
            format!("size={}", size::exact(self.file_bytes)),
        ]
    }
}

/// Threads that take CPU time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HogsSpec {
    /// Number of threads.
    pub count: u32,
}

macro_rules! into_spec {
    ($($kind:ident $spec:ident),+) => { $(
        impl From<$spec> for Spec {
            fn from(spec: $spec) -> Self {
                Self::$kind(spec)
            }
        }

        impl From<&$spec> for Spec {
            fn from(spec: &$spec) -> Self {
                Self::$kind(spec.clone())
            }
        }
    )+ };
}
into_spec!(
    Fuse FuseSpec, Disk DiskSpec, Neighbour NeighbourSpec, Hogs HogsSpec, Quota QuotaSpec, Memory MemorySpec,
    Network NetworkSpec
);

impl Spec {
    /// Returns the words of a command line that describe this rig.
    pub fn words(&self) -> Vec<String> {
        let (kind, words) = match self {
            Self::Fuse(spec) => ("fuse", spec.words()),
            Self::Disk(spec) => ("disk", spec.words()),
            Self::Neighbour(spec) => ("neighbour", spec.words()),
            Self::Hogs(spec) => ("hogs", vec![format!("count={}", spec.count)]),
            Self::Quota(spec) => ("quota", spec.words()),
            Self::Memory(spec) => ("memory", spec.words()),
            Self::Network(spec) => ("network", spec.words()),
        };
        [vec![kind.to_owned()], words].concat()
    }

    /// Returns the rig that words describe.
    ///
    /// # Errors
    /// The word that is not understood.
    pub fn parse(words: &[OsString]) -> Result<Self, UserError> {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        let mut spec: Self = match words.first().map(AsRef::as_ref) {
            Some("fuse") => Self::fuse().into(),
            Some("disk") => Self::disk().into(),
            Some("neighbour") => Self::neighbour("", 100).into(),
            Some("hogs") => Self::hogs(1).into(),
            Some("quota") => Self::quota(1.0).into(),
            Some("memory") => Self::memory(64 << 20).into(),
            Some("network") => Self::network(200_000_000).into(),
            kind => {
                let kind = kind.unwrap_or_default();
                return Err(UserError::new(
                    format!("create a rig `{kind}`"),
                    "use fuse, disk, neighbour, hogs, quota, memory or network",
                ));
            }
        };
        for word in &words[1..] {
            spec.put(word)?;
        }
        if let Self::Neighbour(spec) = &spec
            && spec.directory == Path::new("")
        {
            return Err(
                UserError::new("create a neighbour", "its directory is missing").help("add in=DIRECTORY")
            );
        }
        Ok(spec)
    }

    /// Returns the rig after changes that it accepts while it runs.
    ///
    /// # Errors
    /// The word that it does not accept.
    pub fn with_changes(&self, words: &[&str]) -> Result<Self, UserError> {
        Ok(match self {
            Self::Fuse(spec) => {
                FuseSpec { timing: change_timing(spec.timing, words)?, ..spec.clone() }.into()
            }
            Self::Disk(spec) => change_disk(spec.clone(), words)?.into(),
            Self::Quota(spec) => change_quota(spec.clone(), words)?.into(),
            Self::Memory(spec) => change_memory(spec.clone(), words)?.into(),
            Self::Network(spec) => change_network(spec.clone(), words)?.into(),
            Self::Neighbour(_) | Self::Hogs(_) => {
                return Err(UserError::new("change a running rig", "it has no settings"));
            }
        })
    }

    /// Applies one word: `service=2ms`.
    fn put(&mut self, word: &str) -> Result<(), UserError> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let put = match self {
            Self::Fuse(spec) => spec.put(key, value),
            Self::Disk(spec) => spec.put(key, value),
            Self::Neighbour(spec) => spec.put(key, value),
            Self::Quota(spec) => spec.put(key, value),
            Self::Memory(spec) => spec.put(key, value),
            Self::Network(spec) => spec.put(key, value),
            Self::Hogs(spec) => match key {
                "count" => number(value).map(|count| {
                    spec.count = count;
                    true
                }),
                _ => Ok(false),
            },
        };
        let fail = |why: String| Err(UserError::new(format!("parse `{word}` of a rig"), why));
        match put {
            Ok(true) => Ok(()),
            Ok(false) => fail(format!("there is no key `{key}`")),
            Err(why) => fail(why),
        }
    }
}

/// Applies words on times, which a live server accepts: `service=2ms slots=8`.
pub(crate) fn change_timing(timing: Timing, words: &[&str]) -> Result<Timing, UserError> {
    change(timing, words, put_timing)
}

/// Applies words on limits, queues and times, which a live disk accepts: `read_iops=2000`, `on.over.service=2ms`.
pub(crate) fn change_disk(disk: DiskSpec, words: &[&str]) -> Result<DiskSpec, UserError> {
    change(disk, words, DiskSpec::put_live)
}

/// Applies words on the share, which a live group accepts: `cpus=0.5`.
pub(crate) fn change_quota(quota: QuotaSpec, words: &[&str]) -> Result<QuotaSpec, UserError> {
    change(quota, words, QuotaSpec::put)
}

/// Applies words on the memory, which a live group accepts: `limit=32m`.
pub(crate) fn change_memory(memory: MemorySpec, words: &[&str]) -> Result<MemorySpec, UserError> {
    change(memory, words, MemorySpec::put)
}

/// Applies words on the rate, which a live network accepts: `rate=20mbit`.
pub(crate) fn change_network(network: NetworkSpec, words: &[&str]) -> Result<NetworkSpec, UserError> {
    // A network without a delay has no relay.
    let has_delay = network.delay_ns > 0;
    let put = |network: &mut NetworkSpec, key: &str, value: &str| match key {
        "rate" => network.put(key, value),
        "delay" if has_delay => network.put(key, value),
        _ => Ok(false),
    };
    change(network, words, put)
}

fn change<T>(
    mut value: T,
    words: &[&str],
    put: impl Fn(&mut T, &str, &str) -> Result<bool, String>,
) -> Result<T, UserError> {
    for word in words {
        let (key, new) = word.split_once('=').unwrap_or((word, ""));
        let fail = |why| UserError::new(format!("change `{word}` of a running rig"), why);
        match put(&mut value, key, new) {
            Ok(true) => {}
            Ok(false) => return Err(fail(format!("`{key}` cannot be changed"))),
            Err(why) => return Err(fail(why)),
        }
    }
    Ok(value)
}

/// Value that takes back an earlier word.
const NONE: &str = "none";

fn put_throttle(throttle: &mut Throttle, key: &str, value: &str) -> Result<bool, String> {
    match key {
        "read_iops" => throttle.read_iops = optional(value, number)?,
        "write_iops" => throttle.write_iops = optional(value, number)?,
        "read_rate" => throttle.read_bytes_per_second = optional(value, bytes)?,
        "write_rate" => throttle.write_bytes_per_second = optional(value, bytes)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn throttle_words(throttle: &Throttle) -> Vec<String> {
    let Throttle { read_iops, write_iops, read_bytes_per_second, write_bytes_per_second } = throttle;
    let mut words = Vec::new();
    words.extend(read_iops.map(|limit| format!("read_iops={limit}")));
    words.extend(write_iops.map(|limit| format!("write_iops={limit}")));
    words.extend(read_bytes_per_second.map(|limit| format!("read_rate={}", size::exact(limit))));
    words.extend(write_bytes_per_second.map(|limit| format!("write_rate={}", size::exact(limit))));
    words
}

fn optional<T>(value: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if value == NONE { Ok(None) } else { parse(value).map(Some) }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is not a valid number"))
}

fn bytes(value: &str) -> Result<u64, String> {
    match value.parse::<Size>().map_err(|error| error.to_string())? {
        Size::Bytes(bytes) => Ok(bytes),
        _ => Err(format!("`{value}` is not a number of bytes")),
    }
}

fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let known = words.iter().find(|(word, _)| *word == value);
    known.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        format!("use one of {}", names.join(", "))
    })
}

fn name<T: PartialEq>(value: T, words: &[(&'static str, T)]) -> &'static str {
    words.iter().find(|(_, meaning)| *meaning == value).map_or("", |(word, _)| word)
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;
    use crate::timing::{ServiceStep, Slow, Span, Stall, TimedDirections};

    fn parse(line: &str) -> Result<Spec, UserError> {
        Spec::parse(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    fn any_span() -> impl Strategy<Value = Span> {
        (0..u64::MAX / 4, 0..u64::MAX / 4).prop_map(|(from_ns, more)| Span { from_ns, to_ns: from_ns + more })
    }

    fn any_service_step() -> impl Strategy<Value = ServiceStep> {
        (any::<u64>(), any_span()).prop_map(|(count, service)| ServiceStep { count, service })
    }

    prop_compose! {
        fn any_timing()(
            slots in of(0..5000_u32),
            service in any_span(),
            slow in of((0.0..1.0, any_span()).prop_map(|(share, service)| Slow { share, service })),
            [large, crowded, spent, far] in [(); 4].map(|()| of(any_service_step())),
            uneven: Option<u32>,
            seek in of(any_span()),
            [bytes_per_second, burst_bytes, tick_ns]: [Option<u64>; 3],
            stall in of((0..1_000_000_u64, 1..1_000_000_u64)
                .prop_map(|(for_ns, more)| Stall { for_ns, every_ns: for_ns + more })),
            sync in of(any_span()),
            names in of(any_span()),
            cache in of(any_span()),
            timed in prop_oneof![Just(TimedDirections::Both), Just(TimedDirections::Reads), Just(TimedDirections::Writes)],
        ) -> Timing {
            Timing {
                slots, service, slow, large, crowded, spent, far, uneven, seek, bytes_per_second, burst_bytes, tick_ns,
                stall, sync, names, cache, timed
            }
        }
    }

    prop_compose! {
        fn any_fuse()(
            timing in any_timing().boxed(),
            file_bytes: Option<u64>,
            open_policy in prop_oneof![Just(OpenFilePolicy::Usual), Just(OpenFilePolicy::Direct), Just(OpenFilePolicy::DirectRefused)],
            background_max: u16,
        ) -> FuseSpec {
            FuseSpec { timing, file_bytes, open_policy, background_max }
        }
    }

    prop_compose! {
        fn any_disk()(
            bytes: u64,
            on in prop_oneof![
                Just(DiskBacking::Memory),
                Just(DiskBacking::Zram),
                any::<String>().prop_map(|path| DiskBacking::Directory(path.into())),
                any_fuse().boxed().prop_map(|server| DiskBacking::Fuse(Box::new(server))),
            ],
            file_system: Option<String>,
            [mkfs_options, mount_options]: [String; 2],
            [is_striped, with_overlay, is_buffered]: [bool; 3],
            limits: [Option<u64>; 4],
            requests: Option<u32>,
            dirty_max_bytes: Option<u64>,
            daemon in of(prop_oneof![Just(Daemon::Bindfs), Just(Daemon::BindfsThreads), Just(Daemon::Gocryptfs)]),
        ) -> DiskSpec {
            let throttle = Throttle {
                read_iops: limits[0],
                write_iops: limits[1],
                read_bytes_per_second: limits[2],
                write_bytes_per_second: limits[3],
            };
            DiskSpec {
                bytes,
                on,
                file_system,
                mkfs_options,
                mount_options,
                is_striped,
                with_overlay,
                throttle,
                requests,
                dirty_max_bytes,
                is_buffered,
                daemon,
            }
        }
    }

    fn any_spec() -> impl Strategy<Value = Spec> {
        let neighbour =
            (".+", any::<[u64; 3]>()).prop_map(|(directory, [rate, block, file])| NeighbourSpec {
                directory: directory.into(),
                reads_per_second: rate,
                block_bytes: block,
                file_bytes: file,
            });
        prop_oneof![
            any_fuse().prop_map(Spec::from),
            any_disk().boxed().prop_map(Spec::from),
            neighbour.prop_map(Spec::from),
            any::<u32>().prop_map(|count| Spec::hogs(count).into()),
            (0.001..1000.0, any::<u32>())
                .prop_map(|(cpus, period_us)| { QuotaSpec { cpus, period_us: period_us.into() }.into() }),
            (4096..=u64::MAX).prop_map(|limit_bytes| Spec::memory(limit_bytes).into()),
            (1..u64::MAX, 0..u64::MAX / 2, any::<u64>(), any::<String>()).prop_map(
                |(bits_per_second, delay_ns, bytes, mount_options)| {
                    NetworkSpec { bits_per_second, delay_ns, bytes, mount_options }.into()
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn rig_spec_parses_back_from_its_words(spec in any_spec()) {
            let words: Vec<OsString> = spec.words().into_iter().map(Into::into).collect();
            prop_assert_eq!(Spec::parse(&words).unwrap(), spec);
        }

        #[test]
        fn any_words_parse_without_panic(words: Vec<String>) {
            let _ = Spec::parse(&words.into_iter().map(Into::into).collect::<Vec<_>>());
        }
    }

    #[test]
    fn hand_written_rig_spec_parses() {
        let spec = parse("fuse slots=4 service=1ms slow=20ms@0.1 stall=200ms/1s timed=reads").unwrap();
        let same = Spec::fuse().slots(4).service_us(1000).slow(0.1, 20_000).stall_ms(200, 1000).only_reads();
        assert_eq!(spec, same.into());
        let spec = parse("disk fs=ext4 read_iops=5000 mkfs=-O%20^has_journal").unwrap();
        let same = Spec::disk().file_system("ext4").read_iops(5000).mkfs_options("-O ^has_journal");
        assert_eq!(spec, same.into());
        let spec = parse("disk over over.service=6ms..9ms").unwrap();
        assert_eq!(spec, Spec::disk().over(Spec::fuse().service_between_us(6000, 9000)).into());
        let quota = parse("quota cpus=0.2 period=50ms").unwrap();
        assert_eq!(quota, Spec::quota(0.2).period_ms(50).into());
        assert_eq!(parse("memory limit=64m").unwrap(), Spec::memory(64 << 20).into());
        let with_overlay = parse("disk fs=xfs overlay").unwrap();
        assert_eq!(with_overlay, Spec::disk().file_system("xfs").with_overlay().into());
        let network = parse("network rate=40mbit mount=direct_io").unwrap();
        assert_eq!(network, Spec::network(40_000_000).mount_options("direct_io").into());
        assert_eq!(network.words()[1], "rate=40mbit");
    }

    #[test]
    fn invalid_rig_spec_is_refused_with_its_cause() {
        for (line, word) in [
            ("tape", "`tape`"),
            ("fuse slots=four", "`four`"),
            ("fuse colour=red", "`colour`"),
            ("fuse slow=20ms@7", "`7`"),
            ("fuse crowded=10ms", "TIME@NUMBER"),
            ("fuse stall=2s/1s", "never ends"),
            ("fuse opened=ajar", "refuses-direct"),
            ("disk over.slots=4", "use `over`"),
            ("disk size=10%", "bytes"),
            ("neighbour rate=5", "in=DIRECTORY"),
            ("quota cpus=none", "`none`"),
            ("quota cpus=-1", "`-1`"),
            ("memory limit=0", "a page"),
            ("memory limit=half", "`half`"),
            ("disk overlay=on", "`overlay=on`"),
            ("network rate=fast", "200mbit"),
            ("network rate=0bit", "`0bit`"),
        ] {
            let message = parse(line).unwrap_err().to_string();
            assert!(message.contains(word), "{line}: {message}");
        }
        assert!(change_disk(Spec::disk(), &["size=1m"]).is_err());
        let limited = change_disk(Spec::disk(), &["read_iops=2000"]).unwrap();
        assert_eq!(limited.throttle.read_iops, Some(2000));
        assert_eq!(change_disk(limited, &["read_iops=none"]), Ok(Spec::disk()));
    }
}
