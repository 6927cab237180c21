//! Counters of the layers under a test, over its measured parts alone.

use std::fs::File;

use model::layer::{Layer, LayerKind};
use model::run::Flow;

use crate::parse::block_stat;
use crate::probe::counters_off;
use crate::reading::read_start;
use crate::root::Root;

/// Size that holds the counters of a device.
const BUFFER_BYTES: usize = 512;

/// Reads the counters of layers at the start and at the end of each measured part. Allocates nothing during the test.
#[derive(Debug)]
pub struct Flows {
    devices: Vec<CountedDevice>,
    buffer: [u8; BUFFER_BYTES],
}

/// A device whose counters are open.
#[derive(Debug)]
struct CountedDevice {
    stat: File,
    start: Flow,
    sum: Flow,
}

impl CountedDevice {
    /// Returns the counters now; those of the start if they cannot be read.
    fn read(&self, buffer: &mut [u8]) -> Flow {
        let mut now = self.start.clone();
        if let Some(bytes) = read_start(Some(&self.stat), buffer) {
            block_stat::parse_flow(bytes, &mut now);
        }
        now
    }
}

impl Flows {
    /// Opens the counters of the layers that have some.
    pub fn open(root: &Root, layers: &[Layer]) -> Self {
        let open = |(layer, place): (u32, &Layer)| {
            let counts = place.kind == LayerKind::Device && counters_off(root, &place.name).is_none();
            let path = format!("sys/class/block/{}/stat", place.name);
            let stat = counts.then(|| root.open(&path)).flatten()?;
            let flow = Flow { layer, ..Flow::default() };
            Some(CountedDevice { stat, start: flow.clone(), sum: flow })
        };
        Self { devices: (0..).zip(layers).filter_map(open).collect(), buffer: [0; BUFFER_BYTES] }
    }

    /// Begins a part.
    pub fn begin(&mut self) {
        for device in &mut self.devices {
            device.start = device.read(&mut self.buffer);
        }
    }

    /// Ends a part, and adds its counts.
    pub fn end(&mut self) {
        for device in &mut self.devices {
            let part = device.read(&mut self.buffer).each(&device.start, u64::saturating_sub);
            device.sum = device.sum.each(&part, u64::saturating_add);
        }
    }

    /// Returns the sums over the parts since the last call.
    pub fn take(&mut self) -> Vec<Flow> {
        let take = |device: &mut CountedDevice| {
            let none = Flow { layer: device.sum.layer, ..Flow::default() };
            std::mem::replace(&mut device.sum, none)
        };
        self.devices.iter_mut().map(take).collect()
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
        let layer = |kind, name: &str| Layer { kind, name: name.into(), below: Vec::new(), hidden: None };
        let layers = [layer(LayerKind::FileSystem, "ext4"), layer(LayerKind::Device, "vda")];
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
}
