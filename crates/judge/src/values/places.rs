//! Law 3: where the operations of a test stand. Requests in flight are conserved from layer to layer. The difference between a
//! layer and the next one below waits at the *gate* between them.
//!
//! The outermost gate with waiting operations decides, or the next one inside if all places below it are taken. If the requests
//! inside take as long as one alone, what is inside has room, and the gate is the limit. If they take longer, the inside is full,
//! and the queue at the gate follows from that.

use std::ops::RangeInclusive;

use model::figure::{Figure, Threshold};
use model::layer::LayerKind;
use model::run::{Flow, Load};
use model::target::{DeviceKind, Target};

/// Requests of a layer for each operation, if each operation is one request there. Only then are their numbers comparable.
const ONE_EACH: RangeInclusive<f64> = 0.8..=1.25;
/// The same with one operation in flight: a journal writes at its own pace.
const ONE_EACH_ALONE: RangeInclusive<f64> = 0.8..=1.5;
/// Operations wait at a gate if they are more than this share of those above it.
const AT_GATE_MIN: f64 = 0.15;
/// Largest time of a request over that of one alone, if what serves it has room.
const ROOM_TIMES_MAX: f64 = 1.25;
/// The smallest, if what serves it is full.
const FULL_TIMES_MIN: f64 = 1.5;
/// If requests take less than this share of the time of one alone, that one found another state: a cache, for example.
const ALONE_TIMES_MIN: f64 = 0.9;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("filled", Figure::Share(Flow::FULL_MIN)),
    ("room_times", Figure::Ratio(ROOM_TIMES_MAX)),
    ("full_times", Figure::Ratio(FULL_TIMES_MIN)),
];

/// Layers side by side that count, and that all operations pass through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    /// Number of levels above it.
    pub depth: usize,
    /// Their places in the list of the target's layers.
    pub layers: Vec<usize>,
    /// Places of the layers between the level above and this one: they do not count.
    pub passed: Vec<usize>,
    /// Operations in the level above, or of the test. The gate holds those that are not inside.
    pub above: f64,
    /// Those of them inside.
    pub inside: f64,
    /// Time of a request inside over that of one alone; `None` where no test with one operation shows it.
    pub times_alone: Option<f64>,
    /// A layer whose places are all taken, and their number.
    pub full: Option<(usize, u64)>,
}

impl Level {
    fn has_gate_queue(&self) -> bool {
        self.above - self.inside > AT_GATE_MIN * self.above
    }

    /// True if requests inside wait for each other.
    pub(crate) fn is_slowed(&self) -> bool {
        self.times_alone.is_some_and(|times| times >= FULL_TIMES_MIN)
    }

    /// True if its window is full, and what is inside can serve no more.
    pub(crate) fn is_full_inside(&self) -> bool {
        self.full.is_some() && self.is_slowed()
    }

    /// True if what is inside can serve more.
    pub(crate) fn has_room_inside(&self) -> bool {
        self.times_alone.is_some_and(|times| times <= ROOM_TIMES_MAX)
    }
}

/// The levels under a test whose numbers of operations can be compared, from the top down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Places(Vec<Level>);

impl Places {
    /// `waiting` is the number of operations that the test waits for, and `alone` is its load with one of them.
    pub(crate) fn new(target: &Target, load: &Load, waiting: f64, alone: Option<&Load>) -> Self {
        let mut above = waiting;
        let levels = levels(target, load).into_iter().enumerate().map_while(|(depth, (passed, layers))| {
            let inside = in_flight(load, &layers);
            if !has_one_each(load, &layers, ONE_EACH) {
                return None;
            }
            let alone = alone.filter(|alone| has_one_each(alone, &layers, ONE_EACH_ALONE));
            let times = request_ns(load, &layers).zip(alone.and_then(|alone| request_ns(alone, &layers)));
            let times_alone = times.map(|(own, alone)| own / alone).filter(|times| *times >= ALONE_TIMES_MIN);
            let full = full_window(target, load, passed.iter().chain(&layers), above, inside);
            let level = Level { depth, layers, passed, above, inside, times_alone, full };
            above = inside;
            Some(level)
        });
        Self(levels.collect())
    }

    /// Returns the level below the gate that decides. Layers below a window that is not full are not to blame for what waits
    /// above it.
    pub(crate) fn gate(&self) -> Option<&Level> {
        let mut found = None;
        for level in self.0.iter().filter(|level| level.has_gate_queue()) {
            found = Some(level);
            if level.full.is_none() {
                break;
            }
        }
        found
    }

    /// Returns a level by the number of levels above it.
    pub(crate) fn at(&self, depth: usize) -> Option<&Level> {
        self.0.get(depth)
    }

    /// Returns the lowest level.
    pub(crate) fn last(&self) -> Option<&Level> {
        self.0.last()
    }

    /// Returns true if operations wait above this layer, by the numbers in the layers; `None` if it is not among these.
    pub(crate) fn waits_above(&self, layer: usize) -> Option<bool> {
        let is_at = |level: &&Level| level.layers.contains(&layer);
        self.0.iter().find(is_at).map(|_| self.gate().is_some_and(|gate| is_at(&gate)))
    }
}

/// Returns the layers that count and that all operations pass through, from the top down, each after those that do not count
/// above it. The page cache of an image ends them: operations below it are its own.
fn levels(target: &Target, load: &Load) -> Vec<(Vec<usize>, Vec<usize>)> {
    let layers = &target.layers;
    // The queue of a partition is that of its disk.
    let is_partition =
        |at: usize| target.device_of_layer(at).is_some_and(|device| device.kind == DeviceKind::Partition);
    let counts = |at: &usize| {
        let flow = load.flow_of(*at as u32);
        layers.get(*at).zip(flow).is_some_and(|(layer, flow)| match layer.kind {
            LayerKind::Daemon | LayerKind::Line => false,
            LayerKind::Device => !is_partition(*at),
            _ => flow.in_flight(load.elapsed_ns).is_some(),
        })
    };
    let below = |at: &usize| -> Vec<usize> {
        layers.get(*at).map_or(Vec::new(), |layer| layer.below.iter().map(|at| *at as usize).collect())
    };
    let (mut all, mut passed, mut level) = (Vec::new(), Vec::new(), vec![0]);
    // Each step goes down by a layer, in a sound document.
    for _ in 0..=2 * layers.len() {
        let is_open = |at: &usize| layers.get(*at).is_some_and(|layer| layer.kind != LayerKind::PageCache);
        if level.is_empty() || !level.iter().all(is_open) {
            break;
        }
        let others: Vec<usize> = level.iter().filter(|at| !counts(at)).copied().collect();
        let next: Vec<usize> = if others.is_empty() {
            all.push((std::mem::take(&mut passed), level.clone()));
            level.iter().flat_map(below).collect()
        } else if others.iter().any(|at| below(at).is_empty()) {
            Vec::new()
        } else {
            let next = |at: &usize| if counts(at) { vec![*at] } else { below(at) };
            level.iter().flat_map(next).collect()
        };
        passed.extend(others);
        level = next;
        level.sort_unstable();
        level.dedup();
    }
    all
}

fn flows<'a>(load: &'a Load, level: &'a [usize]) -> impl Iterator<Item = &'a Flow> {
    level.iter().filter_map(|at| load.flow_of(*at as u32))
}

/// A device without a request has none in flight.
fn in_flight(load: &Load, level: &[usize]) -> f64 {
    flows(load, level).map(|flow| flow.in_flight(load.elapsed_ns).unwrap_or(0.0)).sum()
}

/// Returns the reads and writes of a level, and the sum of their times; `None` where only samples show them.
fn requests(load: &Load, level: &[usize]) -> Option<[f64; 2]> {
    let is_sampled = flows(load, level).any(|flow| flow.samples > 0);
    let sums = flows(load, level).fold([0.0; 2], |[requests, times_ns], flow| {
        [requests + (flow.reads + flow.writes) as f64, times_ns + (flow.read_ns + flow.write_ns) as f64]
    });
    Some(sums).filter(|_| !is_sampled)
}

/// Returns true if each operation is about one request, or if requests are not counted.
fn has_one_each(load: &Load, level: &[usize], each: RangeInclusive<f64>) -> bool {
    requests(load, level).is_none_or(|[requests, _]| each.contains(&(requests / load.ops.max(1) as f64)))
}

/// Returns the mean time of a request, or of an operation where only samples show the requests; `None` if they are too few.
fn request_ns(load: &Load, level: &[usize]) -> Option<f64> {
    let [requests, times_ns] = requests(load, level)
        .unwrap_or_else(|| [load.ops as f64, in_flight(load, level) * load.elapsed_ns as f64]);
    Some(times_ns / requests).filter(|time_ns| requests >= Load::REQUESTS_MIN && *time_ns > 0.0)
}

/// Returns a layer whose places are all taken by the operations `inside`, though there are more `above`, and their number.
fn full_window<'a>(
    target: &Target,
    load: &Load,
    mut through: impl Iterator<Item = &'a usize>,
    above: f64,
    inside: f64,
) -> Option<(usize, u64)> {
    through.find_map(|at| {
        let flow = load.flow_of(*at as u32)?;
        let window = flow.window.filter(|window| above > *window as f64)?;
        let is_full = match target.layers[*at].kind {
            // Requests with a caller that waits for them have no limit.
            LayerKind::Fuse => false,
            // One thread of most programs only waits for the others.
            LayerKind::Daemon => inside >= Flow::FULL_MIN * window.saturating_sub(1).max(1) as f64,
            _ => flow.is_full(load.elapsed_ns),
        };
        is_full.then_some((*at, window))
    })
}

#[cfg(test)]
mod tests {
    use model::layer::Layer;

    use super::*;
    use crate::fixtures::{chain, clean, load_of};
    use LayerKind::{Device, FileSystem, Fuse, PageCache};

    fn lower_queue() -> (Vec<Layer>, Load, Load) {
        let layers = chain(&[FileSystem, Device, FileSystem, Device]);
        let own = load_of(2000, &[(1, 31.0, Some(128)), (3, 3.9, Some(4))]);
        (layers, own, load_of(500, &[(1, 0.99, Some(128)), (3, 0.97, Some(4))]))
    }

    fn places(layers: &[Layer], load: &Load, waiting: f64, alone: Option<&Load>) -> Places {
        let mut target = clean("read:rnd4k").environment.target;
        target.layers = layers.to_vec();
        Places::new(&target, load, waiting, alone)
    }

    fn gate(layers: &[Layer], load: &Load, waiting: f64, alone: Option<&Load>) -> Option<Level> {
        places(layers, load, waiting, alone).gate().cloned()
    }

    #[test]
    fn full_lower_queue_with_room_below_is_found() {
        let (layers, own, alone) = lower_queue();
        let places = places(&layers, &own, 32.0, Some(&alone));
        let gate = places.gate().unwrap();
        assert_eq!((gate.layers.as_slice(), gate.full), (&[3][..], Some((3, 4))));
        assert!(gate.has_room_inside() && !gate.is_full_inside() && gate.depth == 1, "{gate:?}");
        assert_eq!([0, 1, 3].map(|layer| places.waits_above(layer)), [None, Some(false), Some(true)]);
    }

    #[test]
    fn full_queue_above_slow_requests_is_full_inside() {
        let (layers, own, mut alone) = lower_queue();
        alone.flows[1].write_ns /= 4;
        let found = gate(&layers, &own, 32.0, Some(&alone)).unwrap();
        assert!(found.is_full_inside() && found.full.is_some(), "{found:?}");
        assert_eq!(gate(&layers, &own, 32.0, None).unwrap().times_alone, None);
    }

    #[test]
    fn operations_all_in_the_last_layer_pass_every_gate() {
        let (layers, _, alone) = lower_queue();
        assert_eq!(gate(&layers, &alone, 1.0, None), None);
    }

    #[test]
    fn members_of_an_array_count_as_one_level() {
        let mut layers = chain(&[FileSystem, Device, Device]);
        (layers[0].below, layers[1].below) = (vec![1, 2], Vec::new());
        let mut own = load_of(1000, &[(1, 4.0, None), (2, 4.0, None)]);
        own.flows.iter_mut().for_each(|flow| flow.writes /= 2);
        assert_eq!(gate(&layers, &own, 8.0, None), None);
        assert_eq!(gate(&layers, &own, 16.0, None).unwrap().inside, 8.0);
    }

    #[test]
    fn partition_and_idle_member_are_passed_by() {
        let (mut layers, own, _) = lower_queue();
        // The clean target has a partition of this name.
        layers[1].name = "nvme0n1p2".into();
        let found = gate(&layers, &own, 32.0, None).unwrap();
        assert_eq!((found.depth, found.passed, found.layers), (0, vec![0, 1, 2], vec![3]));
        let mut layers = chain(&[FileSystem, Device, Device]);
        (layers[0].below, layers[1].below) = (vec![1, 2], Vec::new());
        let mut own = load_of(1000, &[(1, 4.0, Some(4)), (2, 0.0, Some(4))]);
        own.flows[1].writes = 0;
        assert_eq!(gate(&layers, &own, 32.0, None).unwrap().full, Some((1, 4)));
    }

    #[test]
    fn document_with_a_circle_ends() {
        let mut layers = chain(&[Device, Device]);
        layers[1].below = vec![0];
        let own = load_of(1000, &[(0, 8.0, None), (1, 8.0, None)]);
        assert_eq!(gate(&layers, &own, 8.0, None), None);
    }

    #[test]
    fn page_cache_and_merged_requests_end_the_levels() {
        let layers = chain(&[Device, PageCache, FileSystem, Device]);
        let own = load_of(1000, &[(0, 8.0, None), (3, 0.1, None)]);
        assert_eq!(gate(&layers, &own, 8.0, None), None);
        let layers = chain(&[Device, FileSystem, Device]);
        let mut merged = load_of(1000, &[(0, 8.0, None), (2, 0.5, None)]);
        assert!(gate(&layers, &merged, 8.0, None).is_some());
        merged.flows[1].writes = 100;
        assert_eq!(gate(&layers, &merged, 8.0, None), None);
    }

    #[test]
    fn samples_of_fuse_stand_for_its_requests() {
        let layers = chain(&[Fuse, FileSystem, Device]);
        let mut own = load_of(1000, &[(0, 0.0, Some(12)), (2, 1.0, None)]);
        (own.flows[0].samples, own.flows[0].in_flight_sum, own.flows[0].writes) = (100, 3200, 0);
        let found = gate(&layers, &own, 32.0, None).unwrap();
        assert_eq!((found.layers, found.above), (vec![2], 32.0));
    }
}
