//! Draws stacks of parts with a known capacity, latency and window, and loads for them.
//!
//! To add a part, add a variant of [`Part`] with its word, and a draw to [`Stack::any`]. Add its bound to
//! [`Stack::bounds`], its relief to [`Stack::reliefs`], and the right answers to [`Stack::right_limiters`].

use fastrand::Rng;
use model::Limiter;
use rig::{DiskSpec, FuseSpec, OpenFilePolicy, Spec};

/// Least factor between the bound of the bottleneck and that of any other part: a label is then sure.
const MARGIN: f64 = 1.6;
/// Most operations a second of a stack, so that the CPUs are no bottleneck: one costs them about 60 µs.
const OPS_PER_SECOND_MAX: f64 = 6000.0;
/// Fewest operations a second, so that a second holds enough of them.
const OPS_PER_SECOND_MIN: f64 = 100.0;
/// Time of an operation outside of the server: calls, the loop device's worker, the server's threads.
const OVERHEAD_S: f64 = 150e-6;
/// Size of the file systems, in MiB.
const DISK_MIB: u64 = 320;

/// A part of a stack that can be its bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// All places of the server are taken.
    Places,
    /// The time of one operation, where nothing is full.
    Service,
    /// The request queue of a loop device.
    Window,
    /// A limit of the upper device.
    Cap,
    /// A limit of the device below the upper one.
    LowerCap,
    /// Other processes on all CPUs.
    Hogs,
}

impl Part {
    /// All parts, in the order in which they are listed.
    pub(crate) const ALL: [Self; 6] =
        [Self::Places, Self::Service, Self::Window, Self::Cap, Self::LowerCap, Self::Hogs];

    /// Returns the part with this word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.word() == word)
    }

    /// The part in words.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Places => "full server",
            Self::Service => "latency of the server",
            Self::Window => "full queue",
            Self::Cap => "limit of the device",
            Self::LowerCap => "limit of a lower device",
            Self::Hogs => "other processes",
        }
    }
}

/// Layers above the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layers {
    /// Nothing: the server is mounted.
    None,
    /// A loop device.
    Loop,
    /// A loop device on the file system of another loop device.
    Nested,
}

/// A change of one part, and the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Relief {
    /// Settings of the rig.
    Set { relieved: String, restored: String },
    /// The other processes end, and are started again.
    Pause,
}

/// One load on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub is_read: bool,
    pub block_bytes: u64,
    pub threads: u32,
    pub depth: u32,
}

impl Load {
    /// Operations in flight.
    pub(super) fn in_flight(self) -> u32 {
        self.threads * self.depth
    }

    /// The load in the SPEC language.
    pub(super) fn spec(self) -> String {
        let verb = if self.is_read { "read" } else { "write" };
        let kib = self.block_bytes >> 10;
        format!("{verb}:rnd{kib}k:q{}:t{}", self.depth, self.threads)
    }
}

/// A stack as it is drawn.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    /// Seed that draws it again.
    pub seed: u64,
    /// The rig in which it is measured.
    pub spec: Spec,
    /// Threads of other processes that need the CPUs.
    pub hogs: Option<u32>,
    /// Loads, each measured by itself.
    pub loads: Vec<Load>,
    layers: Layers,
    places: u32,
    service_us: u64,
    window: Option<u32>,
    caps: [Option<u64>; 2],
}

impl Stack {
    /// Draws a stack. Each load has one bottleneck by a clear margin. `wanted` is that of at least one load.
    pub(super) fn draw(seed: u64, wanted: Option<Part>) -> Self {
        let random = &mut Rng::with_seed(seed);
        let wanted = wanted.unwrap_or(Part::ALL[random.usize(..Part::ALL.len())]);
        loop {
            let drawn = Self::any(seed, random);
            let loads = drawn.loads.iter().copied().filter(|load| drawn.predicted(*load).is_some()).collect();
            let stack = Self { loads, ..drawn };
            // The wanted part makes rare bottlenecks as frequent as others.
            if stack.loads.iter().any(|load| stack.predicted(*load) == Some(wanted)) {
                return stack;
            }
        }
    }

    fn any(seed: u64, random: &mut Rng) -> Self {
        let layers = [Layers::None, Layers::Loop, Layers::Nested][random.usize(..3)];
        let is_loop = layers != Layers::None;
        let places = 1 << random.u32(0..7);
        let service_us = log_uniform(random, 400.0, 10_000.0) as u64;
        let window = (is_loop && random.u8(..3) == 0).then(|| 4 << random.u32(0..3));
        let cap = |random: &mut Rng| log_uniform(random, 100.0, 5000.0) as u64;
        let caps = [
            (is_loop && random.u8(..3) == 0).then(|| cap(random)),
            (layers == Layers::Nested && random.u8(..3) == 0).then(|| cap(random)),
        ];
        let hogs = (random.u8(..8) == 0).then_some(8);
        let is_read = random.bool();
        let block_bytes = 4096 << (2 * random.u32(0..3));
        let mut load = || {
            let in_flight = 1 << random.u32(0..7);
            let depth = if random.bool() { in_flight } else { 1 };
            Load { is_read, block_bytes, threads: in_flight / depth, depth }
        };
        let mut loads = vec![load(), load()];
        loads.dedup();
        let mut server = Spec::fuse().slots(places).open_policy(OpenFilePolicy::Direct);
        // Half of the servers are plain.
        server = match random.u8(..8) {
            0 => server.service_between_us(service_us / 2, service_us * 3 / 2),
            // The mean is that of `service_us` within a fifth.
            1 => server.service_us(service_us).slow(0.01, 20 * service_us),
            2 => server.service_us(service_us).stall_ms(50, 500),
            3 if is_read => server.service_us(service_us).only_reads(),
            3 => server.service_us(service_us).only_writes(),
            _ => server.service_us(service_us),
        };
        let spec = assembled(layers, server, window, caps, is_read);
        Self { seed, spec, hogs, loads, layers, places, service_us, window, caps }
    }

    /// Returns the most operations a second that each part lets pass with this load.
    fn bounds(&self, load: Load) -> Vec<(Part, f64)> {
        let service_s = self.service_us as f64 / 1e6;
        let latency = |in_flight: u32| f64::from(in_flight) / (service_s + OVERHEAD_S);
        let mut bounds = vec![
            (Part::Places, f64::from(self.places) / service_s),
            (Part::Service, latency(load.in_flight())),
        ];
        bounds.extend(self.window.map(|window| (Part::Window, latency(window))));
        bounds.extend(self.caps[0].map(|cap| (Part::Cap, cap as f64)));
        bounds.extend(self.caps[1].map(|cap| (Part::LowerCap, cap as f64)));
        bounds
    }

    /// Returns the part that limits this load by a clear margin. It is a prediction, and no truth.
    pub(super) fn predicted(&self, load: Load) -> Option<Part> {
        let mut bounds = self.bounds(load);
        bounds.sort_by(|one, other| one.1.total_cmp(&other.1));
        let [(part, rate), rest @ ..] = bounds.as_slice() else { return None };
        let is_clear = rest.iter().all(|(_, other)| *other >= MARGIN * rate);
        let is_slow = (OPS_PER_SECOND_MIN..=OPS_PER_SECOND_MAX).contains(rate);
        match self.hogs {
            // They limit what would be fast without them.
            Some(_) => (*rate > 4.0 * OPS_PER_SECOND_MAX).then_some(Part::Hogs),
            None => (is_clear && is_slow).then_some(*part),
        }
    }

    /// Returns the parts that can be relieved, each with the change.
    pub(super) fn reliefs(&self) -> Vec<(Part, Relief)> {
        let prefix = match self.layers {
            Layers::None => "",
            Layers::Loop => "over.",
            Layers::Nested => "on.over.",
        };
        let set = |relieved: String, restored: String| Relief::Set { relieved, restored };
        let places = |count: u32| format!("{prefix}slots={count}");
        let mut reliefs = vec![(Part::Places, set(places(2 * self.places), places(self.places)))];
        let Spec::Fuse(FuseSpec { timing, .. }) = self.server() else { return reliefs };
        let span = |divisor: u64| {
            format!(
                "{prefix}service={}us..{}us",
                timing.service.from_ns / divisor / 1000,
                timing.service.to_ns / divisor / 1000
            )
        };
        reliefs.push((Part::Service, set(span(2), span(1))));
        let window = |count: u32| format!("requests={count}");
        reliefs.extend(self.window.map(|count| (Part::Window, set(window(2 * count), window(count)))));
        let direction = if self.loads.iter().any(|load| load.is_read) { "read_iops" } else { "write_iops" };
        for (part, prefix, cap) in [(Part::Cap, "", self.caps[0]), (Part::LowerCap, "on.", self.caps[1])] {
            let words = |cap: u64| format!("{prefix}{direction}={cap}");
            reliefs.extend(cap.map(|cap| (part, set(words(2 * cap), words(cap)))));
        }
        reliefs.extend(self.hogs.map(|_| (Part::Hogs, Relief::Pause)));
        reliefs
    }

    /// The stack in words, with what runs beside it.
    pub(super) fn words(&self) -> String {
        let hogs = self.hogs.map_or(String::new(), |count| format!(", {count} hogs"));
        self.spec.words().join(" ") + &hogs
    }

    /// Parts of the stack.
    pub(super) fn parts(&self) -> Vec<Part> {
        self.reliefs().into_iter().map(|(part, _)| part).collect()
    }

    fn server(&self) -> Spec {
        fn below(disk: &DiskSpec) -> Option<&FuseSpec> {
            match &disk.on {
                rig::DiskBacking::Fuse(server) => Some(server),
                rig::DiskBacking::Disk(lower) => below(lower),
                _ => None,
            }
        }
        match &self.spec {
            Spec::Disk(disk) => below(disk).map_or(self.spec.clone(), |server| server.clone().into()),
            other => other.clone(),
        }
    }

    /// Returns the limiters that are right for this bottleneck, in the words of verdicts.
    pub(super) fn right_limiters(&self, truth: Part) -> &'static [Limiter] {
        match (truth, self.layers) {
            (Part::Places, Layers::None) => &[Limiter::ServerSaturated],
            // With enough requests it is full, whether by their number or their bytes.
            (Part::Places, _) => &[Limiter::DeviceOps, Limiter::DeviceBandwidth],
            (Part::Service, Layers::None) => &[Limiter::RemoteLatency],
            (Part::Service, _) => &[Limiter::DeviceLatency],
            (Part::Window, _) => &[Limiter::QueueFull],
            (Part::Cap | Part::LowerCap, _) => &[Limiter::IoThrottle],
            (Part::Hogs, _) => &[Limiter::CpuContention],
        }
    }
}

fn assembled(
    layers: Layers,
    server: FuseSpec,
    window: Option<u32>,
    caps: [Option<u64>; 2],
    is_read: bool,
) -> Spec {
    let disk = |mib: u64, cap: Option<u64>| {
        let disk = Spec::disk().size_mib(mib).file_system("ext4");
        match cap {
            Some(cap) if is_read => disk.read_iops(cap),
            Some(cap) => disk.write_iops(cap),
            None => disk,
        }
    };
    let upper = disk(DISK_MIB, caps[0]);
    let upper = match window {
        Some(count) => upper.requests(count),
        None => upper,
    };
    match layers {
        Layers::None => server.into(),
        Layers::Loop => upper.over(server).into(),
        Layers::Nested => upper.on_disk(disk(2 * DISK_MIB, caps[1]).over(server)).into(),
    }
}

fn log_uniform(random: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.f64())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn same_seed_draws_same_stack() {
        for seed in 0..20 {
            let [one, other] = [Stack::draw(seed, None), Stack::draw(seed, None)];
            assert_eq!((one.spec, one.loads), (other.spec, other.loads));
        }
    }

    #[test]
    fn every_part_is_a_bottleneck_of_some_stack() {
        let stacks: Vec<_> = (0..200).map(|seed| Stack::draw(seed, None)).collect();
        let parts: BTreeSet<_> = stacks
            .iter()
            .flat_map(|stack| stack.loads.iter().filter_map(|load| stack.predicted(*load)))
            .collect();
        assert_eq!(parts, Part::ALL.into());
    }

    #[test]
    fn every_bottleneck_has_a_relief() {
        for stack in (0..200).map(|seed| Stack::draw(seed, None)) {
            let reliefs = stack.reliefs();
            for load in &stack.loads {
                let part = stack.predicted(*load).unwrap();
                assert!(reliefs.iter().any(|(relieved, _)| *relieved == part), "{stack:?}");
            }
        }
    }
}
