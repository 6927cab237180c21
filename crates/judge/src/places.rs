//! Law 3: where the operations of a test stand. Requests in flight are conserved from layer to layer. The difference between a
//! layer and the next one below waits at the *gate* between them.
//!
//! The outermost gate with waiting operations decides, or the next one inside if all places below it are taken. If the requests
//! inside take as long as one alone, what is inside has room, and the gate is the limit. If they take longer, the inside is full,
//! and the queue at the gate follows from that.

use std::ops::RangeInclusive;

use model::figure::{Figure, Threshold};
use model::layer::{Layer, LayerKind};
use model::run::{Flow, Load};

/// Requests of a layer for each operation, if each operation is one request there. Only then are their numbers comparable.
const ONE_EACH: RangeInclusive<f64> = 0.8..=1.25;
/// Operations wait at a gate if they are more than this share of those above it.
const AT_GATE_MIN: f64 = 0.15;
/// A window with this share of its places taken is full.
pub(crate) const FULL_MIN: f64 = 0.85;
/// Largest time of a request over that of one alone, if what serves it has room.
const ROOM_TIMES_MAX: f64 = 1.25;
/// The smallest, if what serves it is full.
const FULL_TIMES_MIN: f64 = 1.5;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("filled", Figure::Share(FULL_MIN)),
    ("room_times", Figure::Ratio(ROOM_TIMES_MAX)),
    ("full_times", Figure::Ratio(FULL_TIMES_MIN)),
];

/// Layers side by side that count, and that all operations pass through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    /// Their places in the list of the target's layers.
    pub layers: Vec<usize>,
    /// Operations in the level above, or of the test. The gate holds those that are not inside.
    pub above: f64,
    /// Those of them inside.
    pub inside: f64,
    /// Time of a request inside over the least under any load; `None` without another load.
    pub times_alone: Option<f64>,
    /// A layer whose places are all taken, and their number.
    pub full: Option<(usize, u64)>,
}

impl Level {
    fn has_gate_queue(&self) -> bool {
        self.above - self.inside > AT_GATE_MIN * self.above
    }

    /// True if what is inside can serve no more.
    pub(crate) fn is_full_inside(&self) -> bool {
        self.times_alone.is_some_and(|times| times >= FULL_TIMES_MIN)
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
    /// `waiting` is the number of operations that the test waits for, and `others` are loads of the same test at other depths.
    pub(crate) fn new(layers: &[Layer], load: &Load, waiting: f64, others: &[&Load]) -> Self {
        let mut above = waiting;
        let levels = levels(layers, load).into_iter().map_while(|(passed, level)| {
            let inside = in_flight(load, &level).filter(|_| is_one_each(load, &level))?;
            let alike = others.iter().filter(|other| is_one_each(other, &level));
            let least_ns = alike.filter_map(|other| request_ns(other, &level)).reduce(f64::min);
            let times = request_ns(load, &level).zip(least_ns).map(|(own, least)| (own / least).max(1.0));
            let full = full_window(layers, load, passed.iter().chain(&level), above, inside);
            let level = Level { layers: level, above, inside, times_alone: times, full };
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

    /// Returns the lowest level.
    pub(crate) fn last(&self) -> Option<&Level> {
        self.0.last()
    }

    /// Returns true if operations wait above this layer, by the numbers in the layers; `None` if it is not among these.
    pub(crate) fn waits_above(&self, layer: usize) -> Option<bool> {
        let is_at = |level: &&Level| level.layers.contains(&layer);
        self.0.iter().find(is_at).map(|_| self.gate().is_some_and(|gate| is_at(&gate)))
    }

    /// Returns true if operations wait above the uppermost layer that counts.
    pub(crate) fn is_top(&self, level: &Level) -> bool {
        self.0.first().is_some_and(|first| first.layers == level.layers)
    }
}

/// Returns the layers that count and that all operations pass through, from the top down, each with those that do not count
/// above it. The page cache of an image ends them: operations below it are its own.
fn levels(layers: &[Layer], load: &Load) -> Vec<(Vec<usize>, Vec<usize>)> {
    let counts = |at: &usize| {
        let layer = layers.get(*at);
        layer.is_some_and(|layer| layer.kind != LayerKind::Daemon && layer.kind != LayerKind::Line)
            && load.flow_of(*at as u32).is_some_and(|flow| flow.in_flight(load.elapsed_ns).is_some())
    };
    let below = |at: &usize| -> Vec<usize> {
        layers.get(*at).map_or(Vec::new(), |layer| layer.below.iter().map(|at| *at as usize).collect())
    };
    let (mut all, mut passed, mut level) = (Vec::new(), Vec::new(), vec![0]);
    while !level.is_empty() && level.iter().all(|at| layers.get(*at).is_some_and(passes_on)) {
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

fn passes_on(layer: &Layer) -> bool {
    layer.kind != LayerKind::PageCache
}

fn flows<'a>(load: &'a Load, level: &'a [usize]) -> impl Iterator<Item = &'a Flow> {
    level.iter().filter_map(|at| load.flow_of(*at as u32))
}

fn in_flight(load: &Load, level: &[usize]) -> Option<f64> {
    flows(load, level).map(|flow| flow.in_flight(load.elapsed_ns)).sum()
}

/// Returns true if each operation is one request, or if requests are not counted.
fn is_one_each(load: &Load, level: &[usize]) -> bool {
    let is_sampled = flows(load, level).any(|flow| flow.samples > 0);
    let requests: f64 = flows(load, level).map(|flow| load.main_counts(flow)[1]).sum();
    is_sampled || ONE_EACH.contains(&(requests / load.ops.max(1) as f64))
}

/// Returns the mean time of a request, or of an operation where only samples show the requests.
fn request_ns(load: &Load, level: &[usize]) -> Option<f64> {
    if flows(load, level).any(|flow| flow.samples > 0) {
        return in_flight(load, level)
            .filter(|_| load.ops > 0)
            .map(|in_flight| in_flight * load.elapsed_ns as f64 / load.ops as f64);
    }
    let each: Option<Vec<f64>> = flows(load, level).map(|flow| load.request_ns(flow)).collect();
    let each = each.filter(|each| !each.is_empty())?;
    Some(each.iter().sum::<f64>() / each.len() as f64)
}

/// Returns a layer whose places are all taken by the operations `inside`, though there are more `above`, and their number.
fn full_window<'a>(
    layers: &[Layer],
    load: &Load,
    mut through: impl Iterator<Item = &'a usize>,
    above: f64,
    inside: f64,
) -> Option<(usize, u64)> {
    through.find_map(|at| {
        let flow = load.flow_of(*at as u32)?;
        // Requests of FUSE with a caller that waits for them have no limit.
        let window = flow.window.filter(|_| layers[*at].kind != LayerKind::Fuse)?;
        let here =
            if layers[*at].kind == LayerKind::Daemon { inside } else { flow.in_flight(load.elapsed_ns)? };
        (here >= FULL_MIN * window as f64 && above > window as f64).then_some((*at, window))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{chain, load_of};
    use LayerKind::{Device, FileSystem, Fuse, PageCache};

    fn lower_queue() -> (Vec<Layer>, Load, Load) {
        let layers = chain(&[FileSystem, Device, FileSystem, Device]);
        let own = load_of(2000, &[(1, 31.0, Some(128)), (3, 3.9, Some(4))]);
        (layers, own, load_of(500, &[(1, 0.99, Some(128)), (3, 0.97, Some(4))]))
    }

    fn gate(layers: &[Layer], load: &Load, waiting: f64, others: &[&Load]) -> Option<Level> {
        Places::new(layers, load, waiting, others).gate().cloned()
    }

    #[test]
    fn full_lower_queue_with_room_below_is_found() {
        let (layers, own, alone) = lower_queue();
        let places = Places::new(&layers, &own, 32.0, &[&alone]);
        let gate = places.gate().unwrap();
        assert_eq!((gate.layers.as_slice(), gate.full), (&[3][..], Some((3, 4))));
        assert!(gate.has_room_inside() && !gate.is_full_inside() && !places.is_top(gate), "{gate:?}");
        assert_eq!([0, 1, 3].map(|layer| places.waits_above(layer)), [None, Some(false), Some(true)]);
    }

    #[test]
    fn full_queue_above_slow_requests_is_full_inside() {
        let (layers, own, mut alone) = lower_queue();
        alone.flows[1].write_ns /= 4;
        let found = gate(&layers, &own, 32.0, &[&alone]).unwrap();
        assert!(found.is_full_inside() && found.full.is_some(), "{found:?}");
        assert_eq!(gate(&layers, &own, 32.0, &[]).unwrap().times_alone, None);
    }

    #[test]
    fn operations_all_in_the_last_layer_pass_every_gate() {
        let (layers, _, alone) = lower_queue();
        assert_eq!(gate(&layers, &alone, 1.0, &[]), None);
    }

    #[test]
    fn members_of_an_array_count_as_one_level() {
        let mut layers = chain(&[FileSystem, Device, Device]);
        (layers[0].below, layers[1].below) = (vec![1, 2], Vec::new());
        let mut own = load_of(1000, &[(1, 4.0, None), (2, 4.0, None)]);
        own.flows.iter_mut().for_each(|flow| flow.writes /= 2);
        assert_eq!(gate(&layers, &own, 8.0, &[]), None);
        assert_eq!(gate(&layers, &own, 16.0, &[]).unwrap().inside, 8.0);
    }

    #[test]
    fn page_cache_and_merged_requests_end_the_levels() {
        let layers = chain(&[Device, PageCache, FileSystem, Device]);
        let own = load_of(1000, &[(0, 8.0, None), (3, 0.1, None)]);
        assert_eq!(gate(&layers, &own, 8.0, &[]), None);
        let layers = chain(&[Device, FileSystem, Device]);
        let mut merged = load_of(1000, &[(0, 8.0, None), (2, 0.5, None)]);
        assert!(gate(&layers, &merged, 8.0, &[]).is_some());
        merged.flows[1].writes = 100;
        assert_eq!(gate(&layers, &merged, 8.0, &[]), None);
    }

    #[test]
    fn samples_of_fuse_stand_for_its_requests() {
        let layers = chain(&[Fuse, FileSystem, Device]);
        let mut own = load_of(1000, &[(0, 0.0, Some(12)), (2, 1.0, None)]);
        (own.flows[0].samples, own.flows[0].in_flight_sum, own.flows[0].writes) = (100, 3200, 0);
        let found = gate(&layers, &own, 32.0, &[]).unwrap();
        assert_eq!((found.layers, found.above), (vec![2], 32.0));
    }
}
