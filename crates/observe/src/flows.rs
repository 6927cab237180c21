//! Counters of the layers under a test, over its measured parts alone.

mod line;
mod nfs;

use std::fs::File;

use model::layer::{Layer, LayerKind};
use model::run::Flow;

use self::line::Line;
use self::nfs::Nfs;
use crate::fuse::Connection;
use crate::parse::{block_stat, schedstat};
use crate::probe::counters_off;
use crate::reading::read_start;
use crate::root::{NumberedEntries, Root};
use crate::stack::is_fuse;

/// Size that holds the counters of a device, or of a thread.
const BUFFER_BYTES: usize = 512;

/// Reads the counters of layers at the start and at the end of each measured part. Allocates nothing during the test.
#[derive(Debug)]
pub struct Flows {
    layers: Vec<CountedLayer>,
    hidden: Vec<String>,
    buffer: Vec<u8>,
}

/// A layer whose counters are open.
#[derive(Debug)]
struct CountedLayer {
    source: Source,
    start: Flow,
    sum: Flow,
}

/// Counters of a layer.
#[derive(Debug)]
enum Source {
    /// Counts of a block device since it came up, and the places in its queues.
    Device(File, Option<u64>),
    /// The present number of requests of a FUSE connection.
    Fuse(Connection),
    /// The threads of a program.
    Program(NumberedEntries),
    Nfs(Nfs),
    Line(Line),
}

impl Source {
    /// Opens the counters of a layer that has some. Adds those that cannot be read to `hidden`.
    fn open(root: &Root, layer: &Layer, hidden: &mut Vec<String>) -> Option<Self> {
        let name = &layer.name;
        let has_connection = is_fuse(name) || ["fuseblk", "virtiofs"].contains(&name.as_str());
        let is_nfs = name.starts_with("nfs");
        let source = match layer.kind {
            LayerKind::Device if counters_off(root, name).is_none() => root
                .open(&format!("sys/class/block/{name}/stat"))
                .map(|stat| Self::Device(stat, device_window(root, name))),
            _ if has_connection => Connection::open(root, layer.number?).map(Self::Fuse),
            LayerKind::Daemon => root.numbered(&format!("proc/{}/task", layer.number?)).map(Self::Program),
            LayerKind::Remote if is_nfs => Nfs::open(root, layer.number?).map(Self::Nfs),
            LayerKind::Line => Line::open(root, name).map(Self::Line),
            _ => None,
        };
        let requests = "requests that wait for the file system's server";
        if let (None, Some(number)) = (&source, layer.number) {
            let path = has_connection.then(|| format!("/sys/fs/fuse/connections/{number}/waiting"));
            let path = path.or_else(|| is_nfs.then(|| "/proc/self/mountstats".into()));
            hidden.extend(path.map(|path| format!("{path}: {requests}")));
        }
        source
    }

    /// Puts the counters as they are now into a flow.
    fn read(&self, now: &mut Flow, buffer: &mut Vec<u8>) {
        match self {
            Self::Device(stat, window) => {
                let mut text = [0; BUFFER_BYTES];
                if let Some(bytes) = read_start(Some(stat), &mut text) {
                    block_stat::parse_flow(bytes, now);
                }
                now.window = *window;
            }
            Self::Fuse(connection) => now.window = connection.background_max(),
            // A thread that ends takes its times along. A server that keeps its threads has all of them.
            Self::Program(threads) => {
                (now.cpu_ns, now.run_delay_ns) = (0, 0);
                let mut count = 0;
                threads.visit(|thread| {
                    let mut text = [0; BUFFER_BYTES];
                    let file = threads.open(thread, "schedstat");
                    let times = read_start(file.as_ref(), &mut text).and_then(schedstat::parse);
                    now.cpu_ns += times.map_or(0, |times| times.cpu_ns);
                    now.run_delay_ns += times.map_or(0, |times| times.run_queue_ns);
                    count += 1;
                });
                now.window = Some(count);
            }
            Self::Nfs(nfs) => nfs.read(now, buffer),
            Self::Line(line) => line.read(now, buffer),
        }
    }
}

/// Returns the requests that all queues of a device hold. A driver without queues, such as device mapper, has no such limit, and
/// neither has a partition: its disk has it.
fn device_window(root: &Root, name: &str) -> Option<u64> {
    let attribute = |path: &str| root.number::<u64>(&format!("sys/class/block/{name}/{path}"));
    let queues = root.list(&format!("sys/class/block/{name}/mq")).len() as u64;
    let places = attribute("queue/nr_requests")?.saturating_mul(queues);
    let at_most = attribute("device/queue_depth").unwrap_or(u64::MAX);
    Some(places.min(at_most)).filter(|places| *places > 0)
}

impl CountedLayer {
    /// Returns the counters now; those of the start if they cannot be read.
    fn read(&self, buffer: &mut Vec<u8>) -> Flow {
        let mut now = self.start.clone();
        self.source.read(&mut now, buffer);
        now
    }
}

impl Flows {
    /// Opens the counters of the layers that have some.
    pub fn open(root: &Root, layers: &[Layer]) -> Self {
        let mut hidden = Vec::new();
        let open = |(layer, place): (u32, &Layer)| {
            let flow = Flow { layer, ..Flow::default() };
            Some(CountedLayer {
                source: Source::open(root, place, &mut hidden)?,
                start: flow.clone(),
                sum: flow,
            })
        };
        let layers = (0..).zip(layers).filter_map(open).collect();
        Self { layers, hidden, buffer: Vec::new() }
    }

    /// Returns the sources of a server that could not be opened, as "PATH: missing information".
    pub fn hidden(&self) -> &[String] {
        &self.hidden
    }

    /// Begins a part.
    pub fn begin(&mut self) {
        for layer in &mut self.layers {
            layer.start = layer.read(&mut self.buffer);
        }
    }

    /// Samples what no counter records, at a random time of a measured part.
    pub fn sample(&mut self) {
        for layer in &mut self.layers {
            let Source::Fuse(connection) = &layer.source else { continue };
            if let Some(waiting) = connection.waiting() {
                layer.sum.samples += 1;
                layer.sum.in_flight_sum = layer.sum.in_flight_sum.saturating_add(waiting);
            }
        }
    }

    /// Ends a part, and adds its counts.
    pub fn end(&mut self) {
        for layer in &mut self.layers {
            let part = layer.read(&mut self.buffer).each(&layer.start, u64::saturating_sub);
            layer.sum = part.each(&layer.sum, u64::saturating_add);
        }
    }

    /// Returns the sums over the parts since the last call.
    pub fn take(&mut self) -> Vec<Flow> {
        let take = |layer: &mut CountedLayer| {
            let none = Flow { layer: layer.sum.layer, ..Flow::default() };
            std::mem::replace(&mut layer.sum, none)
        };
        self.layers.iter_mut().map(take).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use model::layer::{Layer, LayerKind};

    use super::Flows;
    use crate::root::Root;

    #[test]
    fn only_measured_parts_count_in_flows() {
        let directory = tempfile::tempdir().unwrap();
        let stat = directory.path().join("sys/class/block/vda");
        fs::create_dir_all(&stat).unwrap();
        let set = |reads: u64| {
            let text = format!("{reads} 0 {} {} 0 0 0 0 0 0 0", 8 * reads, 2 * reads);
            fs::write(stat.join("stat"), text).unwrap();
        };
        set(10);
        let layers = [Layer::new(LayerKind::FileSystem, "ext4"), Layer::new(LayerKind::Device, "vda")];
        let mut flows = Flows::open(&Root::at(directory.path()), &layers);
        for (before, after) in [(20, 25), (100, 101)] {
            set(before);
            flows.begin();
            set(after);
            flows.end();
        }
        let taken = flows.take();
        let counts: Vec<_> =
            taken.iter().map(|flow| (flow.layer, flow.reads, flow.read_bytes, flow.read_ns)).collect();
        assert_eq!(counts, [(1, 6, 6 * 4096, 12_000_000)]);
        assert_eq!(flows.take()[0].reads, 0);
    }

    #[test]
    fn requests_of_fuse_are_sampled_and_its_threads_counted() {
        let directory = tempfile::tempdir().unwrap();
        let connection = directory.path().join("sys/fs/fuse/connections/45");
        let task = |thread: u32| directory.path().join(format!("proc/7/task/{thread}"));
        for path in [&connection, &task(7), &task(8)] {
            fs::create_dir_all(path).unwrap();
        }
        let set = |waiting: u64, cpu_ns: u64, delay_ns: u64| {
            fs::write(connection.join("waiting"), format!("{waiting}\n")).unwrap();
            fs::write(task(7).join("schedstat"), format!("{cpu_ns} {delay_ns} 5\n")).unwrap();
            fs::write(task(8).join("schedstat"), format!("1000 {delay_ns} 5\n")).unwrap();
        };
        set(1, 200, 10);
        let of = |kind, name, number| Layer { number: Some(number), ..Layer::new(kind, name) };
        let layers = [of(LayerKind::Fuse, "fuse.bindfs", 45), of(LayerKind::Daemon, "bindfs", 7)];
        let mut flows = Flows::open(&Root::at(directory.path()), &layers);
        flows.begin();
        for waiting in [4, 6] {
            set(waiting, 500, 30);
            flows.sample();
        }
        flows.end();
        let taken = flows.take();
        assert_eq!((taken[0].samples, taken[0].in_flight_sum, taken[0].window), (2, 10, None));
        assert_eq!((taken[1].cpu_ns, taken[1].run_delay_ns, taken[1].window), (300, 40, Some(2)));
    }
}
