//! A load, and the work of each layer under it.

use serde::{Deserialize, Serialize};

use crate::document::document;

document! {
    /// A load, and the work of each layer under it, over the same time.
    #[derive(Default)]
    pub struct Load {
        /// Length of the measured parts.
        pub elapsed_ns: u64,
        /// Operations.
        pub ops: u64,
        /// Bytes that the calls of the test read.
        pub read_bytes: u64,
        /// Bytes that they wrote.
        pub written_bytes: u64,
        /// Most operations in flight.
        pub in_flight_max: u64,
        /// Layers that count, each before those below it.
        pub flows: Vec<Flow>,
    }

    /// Work of a layer.
    #[derive(Default)]
    pub struct Flow {
        /// Its place in the list of the target's layers.
        pub layer: u32,
        /// Bytes read.
        pub read_bytes: u64,
        /// Bytes written.
        pub written_bytes: u64,
        /// Read requests completed.
        pub reads: u64,
        /// Write requests completed.
        pub writes: u64,
        /// Sum of the times of all read requests, each from its start to its end.
        pub read_ns: u64,
        /// Sum of the times of all write requests.
        pub write_ns: u64,
        /// Other requests completed: discards of a device, names and attributes of a server.
        #[serde(default)]
        pub others: u64,
        /// Sum of their times.
        #[serde(default)]
        pub other_ns: u64,
        /// Most requests that it takes at once: those of a device's queue, slots of an NFS mount, threads of a program. For
        /// FUSE, those without a waiting caller. Null where it has no limit, or an unknown one.
        #[serde(default)]
        pub window: Option<u64>,
        /// Samples of the number of requests, where the kernel counts no times.
        #[serde(default)]
        pub samples: u64,
        /// Sum of the numbers of requests in flight in all samples.
        #[serde(default)]
        pub in_flight_sum: u64,
        /// CPU time of a program's threads.
        #[serde(default)]
        pub cpu_ns: u64,
        /// Time in which they waited for a CPU.
        #[serde(default)]
        pub run_delay_ns: u64,
    }
}

impl Load {
    /// Fewest requests whose mean time says anything: the kernel counts it in milliseconds.
    pub const REQUESTS_MIN: f64 = 20.0;

    /// Adds two loads of the same kind on the same layers.
    pub fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (&one, &other) else { return one.or(other) };
        let add = u64::saturating_add;
        Some(Self {
            elapsed_ns: add(one.elapsed_ns, other.elapsed_ns),
            ops: add(one.ops, other.ops),
            read_bytes: add(one.read_bytes, other.read_bytes),
            written_bytes: add(one.written_bytes, other.written_bytes),
            in_flight_max: one.in_flight_max.max(other.in_flight_max),
            flows: one.flows.iter().zip(&other.flows).map(|(one, other)| one.each(other, add)).collect(),
        })
    }

    /// Returns the work of a layer, by its place in the list of the target's layers; `None` if it does not count.
    pub fn flow_of(&self, layer: u32) -> Option<&Flow> {
        self.flows.iter().find(|flow| flow.layer == layer)
    }

    /// Returns a layer's bytes, its requests, and the sum of their times in nanoseconds. They are those of the directions in
    /// which the calls of the test moved bytes.
    pub fn counts(&self, flow: &Flow) -> [f64; 3] {
        let reads = [flow.read_bytes, flow.reads, flow.read_ns].map(|count| count as f64);
        let writes = [flow.written_bytes, flow.writes, flow.write_ns].map(|count| count as f64);
        match (self.read_bytes, self.written_bytes) {
            (_, 0) => reads,
            (0, _) => writes,
            _ => std::array::from_fn(|at| reads[at] + writes[at]),
        }
    }

    /// Returns the mean time of a layer's requests of these directions in nanoseconds; `None` if they are too few.
    pub fn request_ns(&self, flow: &Flow) -> Option<f64> {
        let [_, requests, time_ns] = self.counts(flow);
        (requests >= Self::REQUESTS_MIN).then(|| time_ns / requests)
    }

    /// True if its calls read more than they wrote.
    pub fn is_read(&self) -> bool {
        self.read_bytes > self.written_bytes
    }
}

impl Flow {
    /// A queue is full with this share of its places taken.
    pub const FULL_MIN: f64 = 0.85;

    /// Returns the mean number of requests in flight by samples; `None` without any.
    pub fn sampled_in_flight(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.in_flight_sum as f64 / self.samples as f64)
    }

    /// Returns the mean number of requests in flight over a time by its own counters; `None` if it has none.
    pub fn in_flight(&self, elapsed_ns: u64) -> Option<f64> {
        let requests = self.reads.saturating_add(self.writes).saturating_add(self.others);
        let times_ns = [self.read_ns, self.write_ns, self.other_ns].map(|time_ns| time_ns as f64);
        let counted = || times_ns.iter().sum::<f64>() / elapsed_ns as f64;
        self.sampled_in_flight().or_else(|| (requests > 0 && elapsed_ns > 0).then(counted))
    }

    /// Returns true if its places were taken over a time.
    pub fn is_full(&self, elapsed_ns: u64) -> bool {
        let in_flight = self.window.zip(self.in_flight(elapsed_ns));
        in_flight.is_some_and(|(window, in_flight)| in_flight >= Self::FULL_MIN * window as f64)
    }

    /// Applies `of` to each counter and the same one of `other`.
    pub fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            layer: self.layer,
            read_bytes: of(self.read_bytes, other.read_bytes),
            written_bytes: of(self.written_bytes, other.written_bytes),
            reads: of(self.reads, other.reads),
            writes: of(self.writes, other.writes),
            read_ns: of(self.read_ns, other.read_ns),
            write_ns: of(self.write_ns, other.write_ns),
            others: of(self.others, other.others),
            other_ns: of(self.other_ns, other.other_ns),
            window: self.window.or(other.window),
            samples: of(self.samples, other.samples),
            in_flight_sum: of(self.in_flight_sum, other.in_flight_sum),
            cpu_ns: of(self.cpu_ns, other.cpu_ns),
            run_delay_ns: of(self.run_delay_ns, other.run_delay_ns),
        }
    }
}
