//! Draws stacks of parts with a known capacity, latency and window, and loads for them.
//!
//! A layer is drawn by a method of [`Layers`], from the bottom up. It adds a [`Component`] for each part that can be the
//! bottleneck: the part's bound, and the relief that proves it.
//!
//! To add a part, add a line to [`parts!`] with its right answers, and its component where a layer or the surroundings
//! are drawn. The tests below then want stacks in which it is the bottleneck. Run `cargo xtask rigs --random 10
//! --part WORD --labels` until nearly all labels equal the predictions.

use std::collections::BTreeSet;

use fastrand::Rng;
use model::Limiter;
use model::layer::LayerKind;
use rig::{Daemon, DiskBacking, DiskSpec, FuseSpec, OpenFilePolicy, Spec};

/// Least factor between the bound of the bottleneck and that of any other part: a label is then sure.
const MARGIN: f64 = 1.6;
/// Most operations a second of a stack, so that the CPUs are no bottleneck: one costs them about 60 µs.
const OPS_PER_SECOND_MAX: f64 = 6000.0;
/// Fewest operations a second, so that a second holds enough of them.
const OPS_PER_SECOND_MIN: f64 = 150.0;
/// Operations a second that the CPUs do not reach.
const CPU_BOUND: f64 = 4.0 * OPS_PER_SECOND_MAX;
/// Time of an operation outside of the server: calls, the loop device's worker, the server's threads.
const OVERHEAD_S: f64 = 150e-6;
/// CPU time of an operation in the thread that makes it.
const THREAD_CPU_S: f64 = 12e-6;
/// Most operations in flight where the CPUs are the limit: more threads than that only take turns.
const CPU_IN_FLIGHT_MAX: u32 = 8;
/// Time in which sshfs and sshd answer without any network.
const NETWORK_OVERHEAD_S: f64 = 500e-6;
/// Share of a network link's bytes that are the test's, for blocks of 16 KiB or more.
const PAYLOAD_SHARE: f64 = 0.97;
/// Most draws until one has the wanted bottleneck.
const DRAWS_MAX: u32 = 100_000;
/// Size of the topmost file system, in MiB. Each one below has as much more.
const DISK_MIB: u64 = 320;

macro_rules! parts {
    ($($(#[$about:meta])* $part:ident $word:literal => $($limiter:ident)|+;)+) => {
        /// A part of a stack that can be its bottleneck.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Part { $($(#[$about])* $part,)+ }

        impl Part {
            /// All parts, in the order in which they are listed.
            pub(crate) const ALL: &[Self] = &[$(Self::$part),+];

            /// The part in words.
            pub(crate) fn word(self) -> &'static str {
                match self { $(Self::$part => $word),+ }
            }

            /// Returns the limiters that are right for this bottleneck.
            pub(super) fn right_limiters(self) -> &'static [Limiter] {
                match self { $(Self::$part => &[$(Limiter::$limiter),+]),+ }
            }
        }
    };
}

parts! {
    /// All places of the server are taken.
    Places "full server" => ServerSaturated;
    /// All places of the server below a device are taken: the device is full, by the number or the bytes of its requests.
    LowerPlaces "full server below a device" => DeviceOps | DeviceBandwidth;
    /// The time of one operation of the server, where nothing is full.
    Service "latency of the server" => RemoteLatency;
    /// The same below a device.
    LowerService "latency of the server below a device" => DeviceLatency;
    /// Bytes a second of the server.
    Bandwidth "bandwidth of the server" => ServerSaturated | NetworkBandwidth;
    /// The same below a device.
    LowerBandwidth "bandwidth of the server below a device" => DeviceBandwidth;
    /// The request queue of the upper loop device.
    Window "full queue" => QueueFull;
    /// The request queue of a lower loop device.
    LowerWindow "full queue of a lower device" => QueueFull;
    /// A limit of the upper device.
    Cap "limit of the device" => IoThrottle;
    /// A limit of a device below the upper one.
    LowerCap "limit of a lower device" => IoThrottle;
    /// Bits a second of the network link to the server.
    Line "network link" => NetworkBandwidth;
    /// The page cache of a file system below a loop device or a daemon, which answers all.
    Cache "page cache of a lower layer" => PageCache | KernelCpu | ClientCpu | CpuSaturated | HelperCpu;
    /// A file without blocks, which the file system answers.
    Hole "hole" => PageCache | KernelCpu | ClientCpu | CpuSaturated;
    /// A file with blocks that were never written, which the file system answers.
    Unwritten "unwritten extents" => PageCache | KernelCpu | ClientCpu | CpuSaturated;
    /// CPU time of a cgroup.
    Quota "CPU quota" => CpuQuota;
    /// Other processes on all CPUs.
    Hogs "other processes" => CpuContention;
}

impl Part {
    /// Returns the part with this word.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|part| part.word() == word)
    }

    /// Returns true for limits that an administrator sets.
    pub(super) fn is_limit(self) -> bool {
        matches!(self, Self::Cap | Self::LowerCap | Self::Quota)
    }

    /// Returns true for a window through which the operations pass.
    pub(super) fn is_queue(self) -> bool {
        matches!(self, Self::Window | Self::LowerWindow)
    }

    /// Returns true for parts that answer for all below them.
    pub(super) fn answers(self) -> bool {
        matches!(self, Self::Cache | Self::Hole | Self::Unwritten)
    }

    /// Returns the part that this one is below a device.
    pub(super) fn below_device(self) -> Self {
        match self {
            Self::Places => Self::LowerPlaces,
            Self::Service => Self::LowerService,
            Self::Bandwidth => Self::LowerBandwidth,
            Self::Window => Self::LowerWindow,
            Self::Cap => Self::LowerCap,
            other => other,
        }
    }
}

/// Operations that a part lets pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bound {
    /// This many a second.
    Ops(f64),
    /// This many bytes a second.
    Bytes(f64),
    /// Those in flight, at most this many, each for this time.
    InFlight { count_max: u32, time: Time },
    /// Those of a server with this many slots.
    Slots { count: f64, time: Time },
    /// Those for which the CPUs have time.
    Cpus,
}

impl Bound {
    /// Operations a second under a load.
    pub(super) fn ops_per_second(self, load: Load) -> f64 {
        match self {
            Self::Ops(ops) => ops,
            Self::Bytes(bytes) => bytes / load.block_bytes as f64,
            Self::InFlight { count_max, time } => {
                f64::from(load.in_flight().min(count_max)) / (time.seconds(load) + OVERHEAD_S)
            }
            Self::Slots { count, time } => count / time.seconds(load),
            Self::Cpus => CPU_BOUND,
        }
    }
}

/// Mean time of an operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Time {
    seconds: f64,
    /// Another time with more operations in flight than this.
    crowded: Option<(u32, f64)>,
}

impl Time {
    /// The same for each load.
    pub(super) fn new(seconds: f64) -> Self {
        Self { seconds, crowded: None }
    }

    fn seconds(self, load: Load) -> f64 {
        self.crowded
            .filter(|(count, _)| load.in_flight() > *count)
            .map_or(self.seconds, |(_, seconds)| seconds)
    }
}

/// A change of one part, and the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Relief {
    /// Settings of the rig that is measured.
    Set { relieved: String, restored: String },
    /// Settings of the CPU quota.
    Quota { relieved: String, restored: String },
    /// The other processes end, and are started again.
    Pause,
}

impl Relief {
    /// A setting by a function of its factor.
    fn set(words: impl Fn(u64) -> String) -> Self {
        Self::Set { relieved: words(2), restored: words(1) }
    }
}

/// A part of a drawn stack.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Component {
    pub part: Part,
    pub bound: Bound,
    /// A part without one is never a bottleneck with a label, except for one that answers all, or in a guest.
    pub relief: Option<Relief>,
}

/// Part that lets the fewest operations pass.
pub(super) struct Narrowest {
    pub part: Part,
    /// Operations a second.
    pub rate: f64,
    /// True if all others let pass more by the margin.
    pub is_clear: bool,
}

impl Narrowest {
    /// Finds it; there is none without components.
    pub(super) fn new(components: &[Component], load: Load, margin: f64) -> Option<Self> {
        let bound = |component: &Component| (component.part, component.bound.ops_per_second(load));
        let mut bounds: Vec<_> = components.iter().map(bound).collect();
        bounds.sort_by(|one, other| one.1.total_cmp(&other.1));
        let [(part, rate), rest @ ..] = bounds.as_slice() else { return None };
        let is_clear = rest.iter().all(|(_, other)| *other >= margin * rate);
        Some(Self { part: *part, rate: *rate, is_clear })
    }
}

/// One load on a stack.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub is_read: bool,
    pub block_bytes: u64,
    pub threads: u32,
    pub depth: u32,
}

impl Load {
    /// Draws threads or a depth.
    pub(super) fn draw(random: &mut Rng, is_read: bool, block_bytes: u64, in_flight_max: u32) -> Self {
        let in_flight = 1 << random.u32(0..=in_flight_max.ilog2());
        let depth = if random.bool() { in_flight } else { 1 };
        Self { is_read, block_bytes, threads: in_flight / depth, depth }
    }

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

/// Layers from the bottom up to the one that is measured.
#[derive(Debug, Clone)]
struct Layers {
    spec: Spec,
    components: Vec<Component>,
    /// Devices in it.
    devices: u32,
    in_flight_max: u32,
}

impl Layers {
    /// A server in memory with places and a service time. Half of them are plain.
    fn server(random: &mut Rng, is_read: bool) -> Self {
        let places = 1 << random.u32(0..7);
        let plain_us = log_uniform(random, 400.0, 10_000.0) as u64;
        let plain = Spec::fuse().slots(places).open_policy(OpenFilePolicy::Direct).service_us(plain_us);
        let ServiceTime { mut server, time, slots } = ServiceTime::draw(random, plain, plain_us, is_read);
        let (service, crowded) = (server.timing.service, server.timing.crowded);
        let words = move |by: u64| {
            let us = |time_ns: u64| time_ns / by / 1000;
            let service = format!("service={}us..{}us", us(service.from_ns), us(service.to_ns));
            match crowded {
                Some(step) => format!("{service} crowded={}us@{}", us(step.service.from_ns), step.count),
                None => service,
            }
        };
        let mut components = vec![
            Component {
                part: Part::Places,
                bound: Bound::Slots { count: f64::from(places) * slots, time },
                relief: Some(Relief::set(|by| format!("slots={}", u64::from(places) * by))),
            },
            Component {
                part: Part::Service,
                bound: Bound::InFlight { count_max: u32::MAX, time },
                relief: Some(Relief::set(words)),
            },
        ];
        if random.u8(..4) == 0 {
            let bytes = log_uniform(random, 4e6, 200e6) as u64;
            server = server.bytes_per_second(bytes);
            if random.bool() {
                server = server.burst_bytes(bytes / 10);
            }
            components.push(Component {
                part: Part::Bandwidth,
                bound: Bound::Bytes(bytes as f64),
                relief: Some(Relief::set(|by| format!("rate={}", bytes * by))),
            });
        }
        Self { spec: server.into(), components, devices: 0, in_flight_max: 64 }
    }

    /// A directory behind a network link, mounted by sshfs.
    fn network(random: &mut Rng, is_read: bool) -> Self {
        let mbit = log_uniform(random, 20.0, 400.0) as u64;
        let delay_us = log_uniform(random, 100.0, 4000.0) as u64;
        let network = Spec::network(mbit * 1_000_000).delay_us(delay_us).mount_options("direct_io");
        let mut components = vec![Component {
            part: Part::Line,
            bound: Bound::Bytes(mbit as f64 * 1e6 / 8.0 * PAYLOAD_SHARE),
            relief: Some(Relief::set(|by| format!("rate={}mbit", mbit * by))),
        }];
        // sshfs answers a write before the server does.
        if is_read {
            components.push(Component {
                part: Part::Service,
                bound: Bound::InFlight {
                    count_max: u32::MAX,
                    time: Time::new(2.0 * delay_us as f64 / 1e6 + NETWORK_OVERHEAD_S - OVERHEAD_S),
                },
                relief: Some(Relief::set(|by| format!("delay={}us", delay_us / by))),
            });
        }
        // The kernel sends at most 12 requests to it that no caller waits for.
        Self { spec: network.into(), components, devices: 0, in_flight_max: 8 }
    }

    /// A loop device on an image in memory, on a compressed memory device, or in a file of the disk with this repository.
    fn image(random: &mut Rng, is_read: bool) -> Self {
        let disk = match random.u8(..4) {
            0 => Spec::disk(),
            1 => Spec::disk().on_zram(),
            _ => Spec::disk().in_directory(crate::root()),
        };
        Self { spec: disk.clone().into(), components: Vec::new(), devices: 0, in_flight_max: 64 }
            .with_device(random, is_read, disk)
    }

    /// A loop device on all this.
    fn under_loop(self, random: &mut Rng, is_read: bool) -> Self {
        let disk = match &self.spec {
            Spec::Fuse(server) => Spec::disk().over(server.clone()),
            Spec::Disk(lower) => Spec::disk().on_disk(lower.clone()),
            _ => return self,
        };
        let prefix = if self.devices == 0 { "over." } else { "on." };
        let mut layers = self;
        for component in &mut layers.components {
            component.part = component.part.below_device();
            if let Some(Relief::Set { relieved, restored }) = &mut component.relief {
                for words in [relieved, restored] {
                    *words =
                        words.split(' ').map(|word| format!("{prefix}{word}")).collect::<Vec<_>>().join(" ");
                }
            }
        }
        layers.with_device(random, is_read, disk)
    }

    /// Adds a device with its file system and limits.
    fn with_device(mut self, random: &mut Rng, is_read: bool, mut disk: DiskSpec) -> Self {
        // btrfs writes through the page cache wherever it keeps checksums.
        let file_systems =
            if is_read { &["ext4", "ext4", "xfs", "btrfs"][..] } else { &["ext4", "ext4", "xfs"] };
        disk = disk.size_mib(DISK_MIB).file_system(file_systems[random.usize(..file_systems.len())]);
        if let DiskBacking::Disk(lower) = &mut disk.on {
            grow(lower);
            if is_read && random.u8(..4) == 0 {
                grow(lower);
                self.devices += 1;
                self.spec = disk.striped().into();
                return self;
            }
        }
        let has_cache = (is_read && self.has_server()) || matches!(disk.on, DiskBacking::Directory(_));
        if has_cache && random.u8(..8) == 0 {
            disk = disk.buffered();
            if let DiskBacking::Fuse(server) = &mut disk.on {
                server.open_policy = OpenFilePolicy::Usual;
            }
            self.add_answer(Part::Cache);
        } else if let Some(Bound::InFlight { time: time @ Time { crowded: None, .. }, .. }) = self.latency()
            && random.u8(..3) == 0
        {
            let window: u32 = 4 << random.u32(0..3);
            disk = disk.requests(window);
            self.components.push(Component {
                part: Part::Window,
                bound: Bound::InFlight { count_max: window, time },
                relief: Some(Relief::set(|by| format!("requests={}", u64::from(window) * by))),
            });
        }
        let caps_of_8 = if self.has_server() { 3 } else { 6 };
        if random.u8(..8) < caps_of_8 {
            let component;
            (disk, component) = with_cap(random, is_read, disk);
            self.components.push(component);
        }
        self.devices += 1;
        self.spec = disk.into();
        self
    }

    /// Adds a mount or a state of the file above the devices, for reads.
    fn with_top(mut self, random: &mut Rng) -> (Self, FileState) {
        let mut state = FileState::Written;
        let has_server = self.has_server();
        if let Spec::Disk(disk) = &mut self.spec {
            match random.u8(..12) {
                // An overlay makes one direct write to a file at a time, which no relief shows.
                0..3 => disk.with_overlay = true,
                3 if has_server => {
                    let daemons = [Daemon::Bindfs, Daemon::BindfsThreads, Daemon::Gocryptfs];
                    self.spec = disk.clone().daemon(daemons[random.usize(..daemons.len())]).into();
                    self.add_answer(Part::Cache);
                }
                4 if has_server => {
                    state = FileState::Hole;
                    self.add_answer(Part::Hole);
                }
                5 if has_server => {
                    state = FileState::Unwritten;
                    self.add_answer(Part::Unwritten);
                }
                _ => {}
            }
        }
        (self, state)
    }

    /// Adds a part that answers all, so that none below it is asked.
    fn add_answer(&mut self, part: Part) {
        for below in &mut self.components {
            (below.bound, below.relief) = (Bound::Cpus, None);
        }
        self.in_flight_max = CPU_IN_FLIGHT_MAX;
        self.components.retain(|component| !component.part.answers());
        self.components.push(Component { part, bound: Bound::Cpus, relief: None });
    }

    fn has_server(&self) -> bool {
        self.latency().is_some()
    }

    fn latency(&self) -> Option<Bound> {
        let is_latency = |part: Part| matches!(part, Part::Service | Part::LowerService);
        self.components.iter().find(|component| is_latency(component.part)).map(|component| component.bound)
    }
}

/// Time of a server's operations.
struct ServiceTime {
    server: FuseSpec,
    /// Mean of those that do not wait.
    time: Time,
    /// Operations of such a time that a slot makes, on average.
    slots: f64,
}

impl ServiceTime {
    /// Half are plain: always the same time.
    fn draw(random: &mut Rng, plain: FuseSpec, plain_us: u64, is_read: bool) -> Self {
        const TICK_US: u64 = 1000;
        const UNEVEN: u32 = 3;
        let us = plain_us as f64;
        let with = |server, mean_us: f64| Self { server, time: Time::new(mean_us / 1e6), slots: 1.0 };
        match random.u8(..18) {
            0 => with(plain.service_between_us(plain_us / 2, plain_us * 3 / 2), us),
            1 if plain_us < 3000 => with(plain.slow(0.01, 20 * plain_us), us * (0.99 + 0.01 * 20.0)),
            2 => with(plain.stall_ms(50, 500), us),
            3 if is_read => with(plain.only_reads(), us),
            3 => with(plain.only_writes(), us),
            // Most are answered from a cache of the server.
            4 => with(plain.slow(0.7, plain_us / 10), us * (0.3 + 0.7 * 0.1)),
            // Two offsets that are drawn at random are a third of the file from each other.
            5 => with(plain.seek_us(plain_us), us * (1.0 + 1.0 / 3.0)),
            6 => {
                let whole_us = plain_us / TICK_US * TICK_US;
                // The middle between two ticks: the answer comes at the later one.
                let server = plain.service_us(whole_us + TICK_US / 2).tick_us(TICK_US);
                with(server, (whole_us + TICK_US) as f64)
            }
            7 if plain.timing.slots > Some(1) => {
                let slow = f64::from(UNEVEN);
                let mean = f64::midpoint(1.0, slow);
                let slots = mean * f64::midpoint(1.0, 1.0 / slow);
                Self { slots, ..with(plain.uneven(UNEVEN), us * mean) }
            }
            8 => {
                let crowded_us = if random.bool() { 2 * plain_us } else { plain_us / 2 };
                let above = 3 << random.u32(0..4);
                let crowded = Some((above, crowded_us as f64 / 1e6));
                let time = Time { crowded, ..Time::new(us / 1e6) };
                Self { time, ..with(plain.crowded(above.into(), crowded_us), us) }
            }
            _ => with(plain, us),
        }
    }
}

/// Makes room for an image of the size of a whole file system.
fn grow(disk: &mut DiskSpec) {
    disk.bytes += DISK_MIB << 20;
    if let DiskBacking::Disk(lower) = &mut disk.on {
        grow(lower);
    }
}

fn with_cap(random: &mut Rng, is_read: bool, disk: DiskSpec) -> (DiskSpec, Component) {
    let (unit, value) = if random.bool() {
        ("iops", log_uniform(random, 100.0, 5000.0) as u64)
    } else {
        ("rate", log_uniform(random, 4e6, 200e6) as u64)
    };
    let disk = match (unit, is_read) {
        ("iops", true) => disk.read_iops(value),
        ("iops", false) => disk.write_iops(value),
        (_, true) => disk.read_bytes_per_second(value),
        (_, false) => disk.write_bytes_per_second(value),
    };
    let direction = if is_read { "read" } else { "write" };
    let component = Component {
        part: Part::Cap,
        bound: if unit == "iops" { Bound::Ops(value as f64) } else { Bound::Bytes(value as f64) },
        relief: Some(Relief::set(|by| format!("{direction}_{unit}={}", value * by))),
    };
    (disk, component)
}

/// State of a file before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileState {
    Written,
    /// It has no blocks.
    Hole,
    /// Its blocks were never written.
    Unwritten,
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
    /// CPUs' worth of time for skye.
    pub quota_cpus: Option<f64>,
    /// Reads a second of another program.
    pub neighbour: Option<u64>,
    /// True if it reads in the file system below the uppermost device.
    pub is_neighbour_below: bool,
    /// State of the file that is read.
    pub state: FileState,
    /// True if skye is run by a user without rights.
    pub is_unprivileged: bool,
    /// True if skye sees the kernel's counters of FUSE; `None` as the machine has it.
    pub has_fusectl: Option<bool>,
    /// Loads, each measured by itself.
    pub loads: Vec<Load>,
    components: Vec<Component>,
}

impl Stack {
    /// Draws a stack. Each load has one bottleneck by a clear margin. `wanted` is that of at least one load.
    ///
    /// # Panics
    /// No draw gives this bottleneck: its bound is wrong.
    pub(super) fn draw(seed: u64, wanted: Option<Part>) -> Self {
        let random = &mut Rng::with_seed(seed);
        let wanted = wanted.unwrap_or(Part::ALL[random.usize(..Part::ALL.len())]);
        let mut stacks = (0..DRAWS_MAX).map(|_| {
            let drawn = Self::any(seed, random);
            let loads = drawn.loads.iter().copied().filter(|load| drawn.predicted(*load).is_some()).collect();
            Self { loads, ..drawn }
        });
        // The wanted part makes rare bottlenecks as frequent as others.
        let is_wanted = |stack: &Self| stack.loads.iter().any(|load| stack.predicted(*load) == Some(wanted));
        stacks.find(is_wanted).unwrap_or_else(|| panic!("no stack has the bottleneck {wanted:?}"))
    }

    fn any(seed: u64, random: &mut Rng) -> Self {
        let is_read = random.bool();
        let mut layers = match random.u8(..8) {
            0 => Layers::network(random, is_read),
            1 | 2 => Layers::image(random, is_read),
            _ => Layers::server(random, is_read),
        };
        for _ in 0..random.u8(..3) {
            layers = layers.under_loop(random, is_read);
        }
        let mut state = FileState::Written;
        if is_read {
            (layers, state) = layers.with_top(random);
        }
        let is_answered = layers.components.iter().any(|component| component.part.answers());
        let surrounding = random.u8(..8);
        if surrounding < 2 {
            layers.in_flight_max = CPU_IN_FLIGHT_MAX;
        }
        let block_bytes = 4096 << (2 * random.u32(0..3));
        let mut loads = vec![
            Load::draw(random, is_read, block_bytes, layers.in_flight_max),
            Load::draw(random, is_read, block_bytes, layers.in_flight_max),
        ];
        loads.dedup();
        if is_answered {
            // The server's log is of the whole run.
            loads.truncate(1);
        }
        let devices = layers.devices;
        let mut stack = Self {
            seed,
            spec: layers.spec,
            hogs: None,
            quota_cpus: None,
            neighbour: None,
            is_neighbour_below: false,
            state,
            // A directory of root's on a bare server stays root's.
            is_unprivileged: devices > 0 && random.u8(..4) == 0,
            has_fusectl: None,
            loads,
            components: layers.components,
        };
        stack.has_fusectl = (!stack.is_unprivileged).then(|| random.u8(..6) > 0);
        match surrounding {
            // Who waits for a device or a daemon gets a CPU at once when it wakes up.
            0 if state != FileState::Written => stack.add_hogs(),
            1 => stack.add_quota(random),
            2 if devices > 0 => {
                stack.neighbour = Some(20);
                stack.is_neighbour_below = stack.has_lower_file_system() && random.bool();
            }
            _ => {}
        }
        stack
    }

    fn add_hogs(&mut self) {
        self.hogs = Some(8);
        self.components.push(Component { part: Part::Hogs, bound: Bound::Cpus, relief: Some(Relief::Pause) });
    }

    fn add_quota(&mut self, random: &mut Rng) {
        let cpus = (log_uniform(random, 50.0, 150.0)).round() / 1000.0;
        let words = |cpus: f64| format!("cpus={cpus}");
        self.quota_cpus = Some(cpus);
        self.components.push(Component {
            part: Part::Quota,
            bound: Bound::Ops(cpus / THREAD_CPU_S),
            relief: Some(Relief::Quota { relieved: words(2.0 * cpus), restored: words(cpus) }),
        });
    }

    /// Returns the part that limits this load by a clear margin. It is a prediction, and no truth.
    pub(super) fn predicted(&self, load: Load) -> Option<Part> {
        let Narrowest { part, rate, is_clear } = Narrowest::new(&self.components, load, MARGIN)?;
        let has = |wanted: Part| self.components.iter().any(|component| component.part == wanted);
        let uses_cpus = if has(Part::Hogs) { Some(Part::Hogs) } else { self.answering() };
        // What uses the CPUs limits what would be fast without it.
        if rate >= CPU_BOUND {
            return uses_cpus;
        }
        if has(Part::Hogs) || (has(Part::Quota) && part != Part::Quota) {
            return None;
        }
        let rate_min = self.neighbour.map_or(OPS_PER_SECOND_MIN, |rate| 20.0 * rate as f64);
        let rate_max = if part == Part::Quota { CPU_BOUND / MARGIN } else { OPS_PER_SECOND_MAX };
        let has_relief =
            self.components.iter().any(|component| component.part == part && component.relief.is_some());
        (is_clear && has_relief && (rate_min..=rate_max).contains(&rate)).then_some(part)
    }

    /// Returns the part that answers for all below it.
    pub(super) fn answering(&self) -> Option<Part> {
        self.components.iter().map(|component| component.part).find(|part| part.answers())
    }

    /// Returns true if there is a file system below the uppermost device.
    fn has_lower_file_system(&self) -> bool {
        match &self.spec {
            Spec::Disk(disk) if !disk.with_overlay && disk.daemon.is_none() => {
                !matches!(disk.on, DiskBacking::Memory | DiskBacking::Zram)
            }
            _ => false,
        }
    }

    /// Returns true if the bytes of the disk with this repository show whether a cache answers.
    pub(super) fn is_cached_disk(&self) -> bool {
        !self.has_log() && self.answering().is_some()
    }

    /// Returns true if a server of the rig logs its requests.
    pub(super) fn has_log(&self) -> bool {
        match &self.spec {
            Spec::Disk(disk) => disk.server().is_some(),
            spec => matches!(spec, Spec::Fuse(_)),
        }
    }

    /// Returns the parts that can be relieved, each with the change.
    pub(super) fn reliefs(&self) -> Vec<(Part, Relief)> {
        self.components
            .iter()
            .filter_map(|component| Some((component.part, component.relief.clone()?)))
            .collect()
    }

    /// The stack in words, with what runs beside it.
    pub(super) fn words(&self) -> String {
        let others = [
            self.hogs.map(|count| format!("{count} hogs")),
            self.quota_cpus.map(|cpus| format!("{cpus} CPUs")),
            self.neighbour.map(|rate| {
                format!(
                    "{rate} reads/s by others{}",
                    if self.is_neighbour_below { " below the device" } else { "" }
                )
            }),
            match self.state {
                FileState::Written => None,
                FileState::Hole => Some("hole".into()),
                FileState::Unwritten => Some("unwritten extents".into()),
            },
            self.is_unprivileged.then(|| "unprivileged".into()),
            (self.has_fusectl == Some(false)).then(|| "without fusectl".into()),
        ];
        [self.spec.words().join(" ")]
            .into_iter()
            .chain(others.into_iter().flatten())
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Kinds of its layers from the top down, as far as its parts make them.
    pub(super) fn layers(&self) -> Vec<LayerKind> {
        let mut layers = Vec::new();
        match &self.spec {
            Spec::Disk(disk) => add_layers(disk, &mut layers),
            // sshfs, the rig's relay, ssh, and the link.
            Spec::Network(_) => layers.extend([
                LayerKind::Fuse,
                LayerKind::Daemon,
                LayerKind::Daemon,
                LayerKind::Daemon,
                LayerKind::Line,
            ]),
            _ => layers.extend([LayerKind::Fuse, LayerKind::Daemon]),
        }
        layers
    }

    /// Words of its parts.
    pub(super) fn part_words(&self) -> Vec<String> {
        part_words(&self.components)
    }
}

/// Returns the word of each part once.
pub(super) fn part_words(components: &[Component]) -> Vec<String> {
    let parts: BTreeSet<_> = components.iter().map(|component| component.part).collect();
    parts.into_iter().map(|part| part.word().to_owned()).collect()
}

fn add_layers(disk: &DiskSpec, layers: &mut Vec<LayerKind>) {
    if disk.daemon.is_some() {
        layers.extend([LayerKind::Fuse, LayerKind::Daemon]);
    }
    layers.extend(disk.with_overlay.then_some(LayerKind::Overlay));
    layers.extend([LayerKind::FileSystem, LayerKind::Device]);
    layers.extend(disk.is_buffered.then_some(LayerKind::PageCache));
    match &disk.on {
        DiskBacking::Memory => layers.push(LayerKind::Memory),
        DiskBacking::Zram => layers.extend([LayerKind::FileSystem, LayerKind::Device]),
        DiskBacking::Directory(_) => layers.push(LayerKind::FileSystem),
        DiskBacking::Fuse(_) => layers.extend([LayerKind::Fuse, LayerKind::Daemon]),
        DiskBacking::Disk(lower) => add_layers(lower, layers),
    }
}

/// Draws a number whose logarithm is uniform.
pub(super) fn log_uniform(random: &mut Rng, low: f64, high: f64) -> f64 {
    low * (high / low).powf(random.f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_draws_same_stack() {
        for seed in 0..20 {
            let [one, other] = [Stack::draw(seed, None), Stack::draw(seed, None)];
            assert_eq!((one.words(), one.loads), (other.words(), other.loads));
        }
    }

    #[test]
    fn every_part_is_a_bottleneck_of_some_stack() {
        for part in Part::ALL {
            let stack = Stack::draw(1, Some(*part));
            assert!(stack.part_words().iter().any(|word| word == part.word()), "{stack:?}");
        }
    }

    #[test]
    fn running_rigs_accept_every_relief() {
        for stack in (0..400).map(|seed| Stack::draw(seed, None)) {
            let quota = stack.quota_cpus.map(|cpus| Spec::from(Spec::quota(cpus)));
            for (_, relief) in stack.reliefs() {
                let (spec, relieved, restored) = match relief {
                    Relief::Set { relieved, restored } => (&stack.spec, relieved, restored),
                    Relief::Quota { relieved, restored } => (quota.as_ref().unwrap(), relieved, restored),
                    Relief::Pause => continue,
                };
                let after = spec.with_changes(&relieved.split(' ').collect::<Vec<_>>()).unwrap();
                assert_ne!(after, *spec);
                assert_eq!(after.with_changes(&restored.split(' ').collect::<Vec<_>>()).unwrap(), *spec);
            }
        }
    }
}
