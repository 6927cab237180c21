//! A load, and the work of each layer under it.

use serde::{Deserialize, Serialize};

use crate::document::document;

document! {
    /// A load, and the work of each layer under it, over the same time.
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
    }
}

impl Load {
    /// True if its calls read more than they wrote.
    pub fn is_read(&self) -> bool {
        self.read_bytes > self.written_bytes
    }
}

impl Flow {
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
        }
    }
}
