//! Law 1: the layers below a layer count the bytes that it passes on. It answered the others itself.

use model::layer::{Layer, LayerKind};
use model::run::Load;

/// Shortest time of a request between the kernel and a program that serves FUSE: both change over twice.
const FUSE_REQUEST_NS: f64 = 5_000.0;
/// Requests that may be in flight in no sample of many, at 95 % (the rule of three).
const UNSEEN: f64 = 3.0;
/// Largest request to a program that serves FUSE (256 pages, the kernel's `FUSE_MAX_MAX_PAGES`).
const FUSE_REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Bytes that the layers under a test counted in one direction.
pub(crate) struct Ledger<'a> {
    load: &'a Load,
    layers: &'a [Layer],
    is_read: bool,
    /// Most bytes of one request.
    request_bytes: f64,
}

/// Layers that answered operations themselves.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answered {
    /// Place of the last layer above that counts; `None` for the test itself.
    pub counted: Option<usize>,
    /// Places of the layers between that one and the next that count.
    pub between: Vec<usize>,
    /// Places of the next layers that count.
    pub below: Vec<usize>,
    /// Share of the bytes above that came no further.
    pub share: f64,
}

impl<'a> Ledger<'a> {
    /// `block_bytes` is the size of the test's operations at random places; `None` for a sequential test, whose requests may be
    /// larger than its operations.
    pub(crate) fn new(load: &'a Load, layers: &'a [Layer], is_read: bool, block_bytes: Option<u64>) -> Self {
        let request_bytes = block_bytes.unwrap_or(FUSE_REQUEST_BYTES_MAX) as f64;
        Self { load, layers, is_read, request_bytes }
    }

    /// Returns the bytes of the test.
    pub(crate) fn requested(&self) -> f64 {
        (if self.is_read { self.load.read_bytes } else { self.load.written_bytes }) as f64
    }

    /// Returns the first layers that answered more than this share of the bytes themselves. With `from_device`, the layers
    /// above the first that counts are left out.
    pub(crate) fn answered(&self, share_min: f64, from_device: bool) -> Option<Answered> {
        let counted = (0..self.layers.len()).filter(|at| self.bytes(*at).is_some()).map(Some);
        let test = (!from_device).then_some(None);
        test.into_iter().chain(counted).find_map(|counted| {
            let requested = counted.map_or(Some(self.requested()), |at| self.bytes(at))?;
            let below = counted.map_or(vec![0], |at| self.below(at));
            let mut answered = Answered { counted, between: Vec::new(), below: Vec::new(), share: 0.0 };
            let passed_on = self.passed_on(below, (1.0 - share_min) * requested, &mut answered)?;
            answered.share = 1.0 - passed_on / requested;
            (requested > 0.0 && answered.share > share_min).then_some(answered)
        })
    }

    fn below(&self, at: usize) -> Vec<usize> {
        self.layers.get(at).map_or(Vec::new(), |layer| layer.below.iter().map(|at| *at as usize).collect())
    }

    /// Returns the most bytes that reached these layers, by their own counts or those of the layers below them. It is `None`
    /// where some do not count. `few` is an amount that shows that a layer answered.
    fn passed_on(&self, layers: Vec<usize>, few: f64, found: &mut Answered) -> Option<f64> {
        let mut sum = (!layers.is_empty()).then_some(0.0);
        for at in layers {
            let bytes = self.bytes(at).inspect(|_| found.below.push(at)).or_else(|| {
                let before = found.clone();
                found.between.push(at);
                let is_whole = self.layers.get(at).is_some_and(|layer| layer.hidden.is_none());
                let below = is_whole.then(|| self.passed_on(self.below(at), few, found)).flatten();
                // Samples give an upper limit. A program may pass operations on without a request, and the disk counts them.
                let most = self.most_sampled_bytes(at).map(|most| most.max(below.unwrap_or(0.0)));
                if most.is_some_and(|most| most < few || below.is_none()) {
                    *found = before;
                    found.below.push(at);
                    return most;
                }
                below
            });
            sum = sum.zip(bytes).map(|(sum, bytes)| sum + bytes);
        }
        sum
    }

    /// Returns the bytes that a layer counted; `None` if it does not count. An interface also serves other programs, and a mount
    /// may use another one.
    fn bytes(&self, at: usize) -> Option<f64> {
        let layer = self.layers.get(at)?;
        let counts = match layer.kind {
            LayerKind::Device => true,
            LayerKind::Remote => layer.name.starts_with("nfs"),
            _ => false,
        };
        let flow = self.load.flow_of(u32::try_from(at).ok()?).filter(|flow| counts && flow.samples == 0)?;
        Some(if self.is_read { flow.read_bytes } else { flow.written_bytes } as f64)
    }

    /// Returns the most bytes of requests that are only seen in samples: each takes some time.
    fn most_sampled_bytes(&self, at: usize) -> Option<f64> {
        let flow = self.load.flow_of(u32::try_from(at).ok()?).filter(|flow| flow.samples > 0)?;
        let in_flight = (flow.in_flight_sum as f64 + UNSEEN) / flow.samples as f64;
        let requests = in_flight * self.load.elapsed_ns as f64 / FUSE_REQUEST_NS;
        Some(requests * self.request_bytes)
    }
}

#[cfg(test)]
mod tests {
    use model::run::Flow;

    use super::*;
    use crate::fixtures::chain;

    const MIB: u64 = 1 << 20;

    fn load(read_bytes: u64, flows: &[(u32, u64)]) -> Load {
        let flow = |(layer, read_bytes): &(u32, u64)| Flow {
            layer: *layer,
            read_bytes: *read_bytes,
            ..Flow::default()
        };
        let flows = flows.iter().map(flow).collect();
        Load { read_bytes, elapsed_ns: 2_000_000_000, flows, ..Load::default() }
    }

    fn answered(load: &Load, layers: &[Layer]) -> Option<(Vec<usize>, Vec<usize>, f64)> {
        let found = Ledger::new(load, layers, true, Some(4096)).answered(0.05, false)?;
        Some((found.between, found.below, found.share))
    }

    #[test]
    fn program_that_passes_all_on_answers_nothing() {
        let layers = chain(&[Fuse, Daemon, FileSystem, Device]);
        let mut load = load(100 * MIB, &[(0, 0), (3, 100 * MIB)]);
        for (samples, in_flight_sum) in [(300, 300), (300, 0)] {
            (load.flows[0].samples, load.flows[0].in_flight_sum) = (samples, in_flight_sum);
            assert_eq!(answered(&load, &layers), None, "{in_flight_sum}");
        }
        // Its requests may be many, and none came to the disk.
        (load.flows[0].in_flight_sum, load.flows[1].read_bytes) = (300, 0);
        assert_eq!(answered(&load, &layers), Some((vec![0, 1, 2], vec![3], 1.0)));
    }

    #[test]
    fn gap_above_the_first_device_can_be_left_out() {
        let layers = chain(&[FileSystem, Device, PageCache, Device]);
        let load = load(100 * MIB, &[(1, 90 * MIB), (3, 0)]);
        let ledger = Ledger::new(&load, &layers, true, Some(4096));
        assert_eq!(ledger.answered(0.05, false).unwrap().counted, None);
        assert_eq!(ledger.answered(0.05, true).unwrap().counted, Some(1));
    }

    use LayerKind::{Daemon, Device, FileSystem, Fuse, PageCache};

    #[test]
    fn page_cache_of_an_image_answers_reads() {
        let layers = chain(&[FileSystem, Device, PageCache, FileSystem, Device]);
        let hot = load(1000 * MIB, &[(1, 1000 * MIB), (4, 10 * MIB)]);
        assert_eq!(answered(&hot, &layers), Some((vec![2, 3], vec![4], 0.99)));
        let cold = load(1000 * MIB, &[(1, 1000 * MIB), (4, 980 * MIB)]);
        assert_eq!(answered(&cold, &layers), None);
    }

    #[test]
    fn members_of_an_array_count_together() {
        let mut layers = chain(&[FileSystem, Device, Device]);
        (layers[0].below, layers[1].below) = (vec![1, 2], Vec::new());
        assert_eq!(answered(&load(100 * MIB, &[(1, 50 * MIB), (2, 50 * MIB)]), &layers), None);
    }

    #[test]
    fn layers_without_counts_prove_nothing() {
        let mut layers = chain(&[Fuse, Daemon, FileSystem, Device]);
        assert_eq!(answered(&load(100 * MIB, &[]), &layers), None);
        assert_eq!(answered(&load(100 * MIB, &[(3, 0)]), &layers), Some((vec![0, 1, 2], vec![3], 1.0)));
        layers[1].hidden = Some("not visible here".into());
        assert_eq!(answered(&load(100 * MIB, &[(3, 0)]), &layers), None);
    }

    #[test]
    fn fuse_without_requests_in_flight_was_not_reached() {
        let layers = chain(&[Fuse]);
        let mut load = load(1000 * MIB, &[(0, 0)]);
        load.flows[0].samples = 300;
        let found = answered(&load, &layers).unwrap();
        assert!(found.2 > 0.9, "{found:?}");
        load.flows[0].in_flight_sum = 300;
        assert_eq!(answered(&load, &layers), None);
    }
}
