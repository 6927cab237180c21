//! A file system that a rig serves, and its times, as words.

use model::size;

use super::{bytes, name, number, optional, parse_time, time, word};
use crate::timing::{ServiceStep, Slow, Span, Stall, TimedDirections, Timing};

/// A file system in memory, served by the rig.
#[derive(Debug, Clone, PartialEq)]
pub struct FuseSpec {
    /// Times of its answers.
    pub timing: Timing,
    /// Size of a file named `file` that exists from the beginning, full of zeros.
    pub file_bytes: Option<u64>,
    /// Treatment of its open files by the kernel.
    pub open_policy: OpenFilePolicy,
    /// Most requests that the kernel sends before one is answered, among those that no caller waits for alone.
    pub background_max: u16,
}

/// Treatment of a server's open files by the kernel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum OpenFilePolicy {
    /// As on other file systems: through the page cache, or past it with `O_DIRECT`. The kernel then makes one direct
    /// write to a file at a time.
    #[default]
    Usual,
    /// Never through the page cache, with direct writes to one file in parallel.
    Direct,
    /// `O_DIRECT` is refused with EINVAL.
    DirectRefused,
}

impl Default for FuseSpec {
    fn default() -> Self {
        // The kernel's default of 12 would be a hidden queue.
        Self {
            timing: Timing::default(),
            file_bytes: None,
            open_policy: OpenFilePolicy::default(),
            background_max: 256,
        }
    }
}

impl FuseSpec {
    /// Serves this many requests at a time; without this, all of them.
    #[must_use]
    pub fn slots(mut self, count: u32) -> Self {
        self.timing.slots = Some(count);
        self
    }

    /// Each request takes this time.
    #[must_use]
    pub fn service_us(mut self, time_us: u64) -> Self {
        self.timing.service = Span::ns(time_us * 1000);
        self
    }

    /// Each request takes a time between these, all equally likely.
    #[must_use]
    pub fn service_between_us(mut self, from_us: u64, to_us: u64) -> Self {
        self.timing.service = Span { from_ns: from_us * 1000, to_ns: to_us * 1000 };
        self
    }

    /// A share of the requests, drawn at random, takes that time instead.
    #[must_use]
    pub fn slow(mut self, share: f64, time_us: u64) -> Self {
        self.timing.slow = Some(Slow { share, service: Span::ns(time_us * 1000) });
        self
    }

    /// Requests of more bytes than this take that time instead.
    #[must_use]
    pub fn large(mut self, above_bytes: u64, time_us: u64) -> Self {
        self.timing.large = Some(ServiceStep { count: above_bytes, service: Span::ns(time_us * 1000) });
        self
    }

    /// Requests that bring more than this many in flight take that time instead.
    #[must_use]
    pub fn crowded(mut self, above: u64, time_us: u64) -> Self {
        self.timing.crowded = Some(ServiceStep { count: above, service: Span::ns(time_us * 1000) });
        self
    }

    /// Requests after this many take that time instead.
    #[must_use]
    pub fn spent(mut self, after: u64, time_us: u64) -> Self {
        self.timing.spent = Some(ServiceStep { count: after, service: Span::ns(time_us * 1000) });
        self
    }

    /// Requests that begin at this offset or beyond take that time instead.
    #[must_use]
    pub fn far(mut self, from_bytes: u64, time_us: u64) -> Self {
        self.timing.far = Some(ServiceStep { count: from_bytes, service: Span::ns(time_us * 1000) });
        self
    }

    /// Every second slot takes this many times as long.
    #[must_use]
    pub fn uneven(mut self, factor: u32) -> Self {
        self.timing.uneven = Some(factor);
        self
    }

    /// The longest seek takes this time, a shorter one less in proportion.
    #[must_use]
    pub fn seek_us(mut self, time_us: u64) -> Self {
        self.timing.seek = Some(Span::ns(time_us * 1000));
        self
    }

    /// Answers come at multiples of this time only.
    #[must_use]
    pub fn tick_us(mut self, time_us: u64) -> Self {
        self.timing.tick_ns = Some(time_us * 1000);
        self
    }

    /// Saves up this many unused bytes of its rate.
    #[must_use]
    pub fn burst_bytes(mut self, bytes: u64) -> Self {
        self.timing.burst_bytes = Some(bytes);
        self
    }

    /// Moves at most this many bytes a second.
    #[must_use]
    pub fn bytes_per_second(mut self, bytes: u64) -> Self {
        self.timing.bytes_per_second = Some(bytes);
        self
    }

    /// Begins no request for that long, at the end of each such period.
    #[must_use]
    pub fn stall_ms(mut self, for_ms: u64, every_ms: u64) -> Self {
        self.timing.stall = Some(Stall { for_ns: for_ms * 1_000_000, every_ns: every_ms * 1_000_000 });
        self
    }

    /// fsync takes this time, in a slot like the others.
    #[must_use]
    pub fn sync_us(mut self, time_us: u64) -> Self {
        self.timing.sync = Some(Span::ns(time_us * 1000));
        self
    }

    /// Requests on names and attributes take this time, in a slot like the others: a lookup, a creation.
    #[must_use]
    pub fn metadata_us(mut self, time_us: u64) -> Self {
        self.timing.names = Some(Span::ns(time_us * 1000));
        self
    }

    /// Data that was read before is read again in this time and without a slot.
    #[must_use]
    pub fn cache_us(mut self, time_us: u64) -> Self {
        self.timing.cache = Some(Span::ns(time_us * 1000));
        self
    }

    /// Writes are answered at once.
    #[must_use]
    pub fn only_reads(mut self) -> Self {
        self.timing.timed = TimedDirections::Reads;
        self
    }

    /// Reads are answered at once.
    #[must_use]
    pub fn only_writes(mut self) -> Self {
        self.timing.timed = TimedDirections::Writes;
        self
    }

    /// Adds a file named `file`, full of zeros, from the beginning.
    #[must_use]
    pub fn file_bytes(mut self, bytes: u64) -> Self {
        self.file_bytes = Some(bytes);
        self
    }

    /// Sets the kernel's treatment of its open files.
    #[must_use]
    pub fn open_policy(mut self, open_policy: OpenFilePolicy) -> Self {
        self.open_policy = open_policy;
        self
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        if put_timing(&mut self.timing, key, value)? {
            return Ok(true);
        }
        match key {
            "file" => self.file_bytes = Some(bytes(value)?),
            "opened" => self.open_policy = word(value, &OPEN_POLICIES)?,
            "background" => self.background_max = number(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Self { timing, file_bytes, open_policy, background_max } = self;
        let mut words = timing_words(timing);
        words.extend(file_bytes.map(|bytes| format!("file={}", size::exact(bytes))));
        words.push(format!("opened={}", name(*open_policy, &OPEN_POLICIES)));
        words.push(format!("background={background_max}"));
        words
    }
}

const OPEN_POLICIES: [(&str, OpenFilePolicy); 3] = [
    ("usual", OpenFilePolicy::Usual),
    ("direct", OpenFilePolicy::Direct),
    ("refuses-direct", OpenFilePolicy::DirectRefused),
];
const TIMED_DIRECTIONS: [(&str, TimedDirections); 3] =
    [("both", TimedDirections::Both), ("reads", TimedDirections::Reads), ("writes", TimedDirections::Writes)];
pub(super) fn put_timing(timing: &mut Timing, key: &str, value: &str) -> Result<bool, String> {
    match key {
        "slots" => timing.slots = optional(value, number)?,
        "service" => timing.service = span(value)?,
        "slow" => timing.slow = optional(value, slow)?,
        "large" => timing.large = optional(value, service_step)?,
        "crowded" => timing.crowded = optional(value, service_step)?,
        "spent" => timing.spent = optional(value, service_step)?,
        "far" => timing.far = optional(value, service_step)?,
        "uneven" => timing.uneven = optional(value, number)?,
        "seek" => timing.seek = optional(value, span)?,
        "rate" => timing.bytes_per_second = optional(value, bytes)?,
        "burst" => timing.burst_bytes = optional(value, bytes)?,
        "tick" => timing.tick_ns = optional(value, parse_time)?,
        "stall" => timing.stall = optional(value, stall)?,
        "sync" => timing.sync = optional(value, span)?,
        "names" => timing.names = optional(value, span)?,
        "cache" => timing.cache = optional(value, span)?,
        "timed" => timing.timed = word(value, &TIMED_DIRECTIONS)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn timing_words(timing: &Timing) -> Vec<String> {
    let Timing {
        slots,
        service,
        slow,
        large,
        crowded,
        spent,
        far,
        uneven,
        seek,
        bytes_per_second,
        burst_bytes,
        tick_ns,
        stall,
        sync,
        names,
        cache,
        timed,
    } = timing;
    let mut words = vec![
        format!("service={}", span_word(*service)),
        format!("timed={}", name(*timed, &TIMED_DIRECTIONS)),
    ];
    words.extend(slots.map(|slots| format!("slots={slots}")));
    words.extend(slow.map(|slow| format!("slow={}@{}", span_word(slow.service), slow.share)));
    for (key, step) in [("large", large), ("crowded", crowded), ("spent", spent), ("far", far)] {
        words.extend(step.map(|step| format!("{key}={}@{}", span_word(step.service), step.count)));
    }
    words.extend(uneven.map(|factor| format!("uneven={factor}")));
    words.extend(seek.map(|seek| format!("seek={}", span_word(seek))));
    words.extend(bytes_per_second.map(|rate| format!("rate={}", size::exact(rate))));
    words.extend(burst_bytes.map(|bytes| format!("burst={}", size::exact(bytes))));
    words.extend(tick_ns.map(|tick_ns| format!("tick={}", time(tick_ns))));
    words.extend(stall.map(|stall| format!("stall={}/{}", time(stall.for_ns), time(stall.every_ns))));
    words.extend(sync.map(|sync| format!("sync={}", span_word(sync))));
    words.extend(names.map(|names| format!("names={}", span_word(names))));
    words.extend(cache.map(|cache| format!("cache={}", span_word(cache))));
    words
}

/// Parses `1ms`, or `1ms..2ms`.
fn span(value: &str) -> Result<Span, String> {
    let (from, to) = value.split_once("..").unwrap_or((value, value));
    let span = Span { from_ns: parse_time(from)?, to_ns: parse_time(to)? };
    if span.from_ns <= span.to_ns { Ok(span) } else { Err(format!("`{value}` ends before it starts")) }
}

fn span_word(span: Span) -> String {
    match span {
        Span { from_ns, to_ns } if from_ns == to_ns => time(from_ns),
        Span { from_ns, to_ns } => format!("{}..{}", time(from_ns), time(to_ns)),
    }
}

/// Parses `20ms@0.1`: this time, for this share.
fn slow(value: &str) -> Result<Slow, String> {
    let (service, share) = value.split_once('@').ok_or(format!("`{value}` is not TIME@SHARE"))?;
    let slow = Slow { share: number(share)?, service: span(service)? };
    if (0.0..=1.0).contains(&slow.share) { Ok(slow) } else { Err(format!("`{share}` is not a share")) }
}

/// Parses `6ms@4096`: this time, beyond this number.
fn service_step(value: &str) -> Result<ServiceStep, String> {
    let (service, count) = value.split_once('@').ok_or(format!("`{value}` is not TIME@NUMBER"))?;
    Ok(ServiceStep { count: number(count)?, service: span(service)? })
}

/// Parses `200ms/1s`: a stall of this length, once in that time.
fn stall(value: &str) -> Result<Stall, String> {
    let (long, every) = value.split_once('/').ok_or(format!("`{value}` is not TIME/PERIOD"))?;
    let stall = Stall { for_ns: parse_time(long)?, every_ns: parse_time(every)? };
    if stall.for_ns < stall.every_ns { Ok(stall) } else { Err(format!("`{value}` never ends")) }
}
