//! Places of data on the storage.

use serde::{Deserialize, Serialize};

use crate::document::document;

document! {
    /// A range of addresses on the storage.
    #[derive(Copy, Eq)]
    pub struct Place {
        /// First byte.
        pub start_bytes: u64,
        /// Byte after the last one.
        pub end_bytes: u64,
    }
}

document! {
    /// Mean latency in one place.
    #[derive(Copy)]
    pub struct PlaceLatency {
        /// The place.
        pub place: Place,
        /// Mean latency of the operations there, some of which are counted.
        pub latency_mean_ns: u64,
    }

    /// Latencies by place of the data.
    pub struct LatencyByPlace {
        /// The places, in their order; at most eight.
        pub places: Vec<PlaceLatency>,
        /// Index of the place with the shortest latencies.
        pub fastest: u32,
        /// Index of the place with the longest.
        pub slowest: u32,
        /// Latency in the slowest place over that in the fastest, at the same time in the same thread.
        pub ratio: f64,
        /// Lower end of the 95 % interval of this ratio. It counts that these two of all places were chosen.
        pub ratio_low: f64,
        /// Upper end of this interval.
        pub ratio_high: f64,
    }
}

impl LatencyByPlace {
    /// Returns the fastest place and the slowest; `None` for a document whose indices lead nowhere.
    pub fn extremes(&self) -> Option<[&PlaceLatency; 2]> {
        let at = |index: u32| self.places.get(index as usize);
        Some([at(self.fastest)?, at(self.slowest)?])
    }
}

impl Place {
    /// Most places of a data set that are named.
    pub const MOST: usize = 8;

    /// Returns few places that hold all these, in order, without overlaps. The smallest gaps are inside of places, and so is any
    /// gap below 1/128 of the highest address.
    pub fn merged(mut all: Vec<Self>) -> Vec<Self> {
        all.sort_by_cached_key(|place| place.start_bytes);
        let highest = all.iter().map(|place| place.end_bytes).max().unwrap_or(0);
        let merged = |gap_max: u64| {
            let mut places: Vec<Self> = Vec::new();
            for place in &all {
                match places.last_mut() {
                    Some(last) if place.start_bytes.saturating_sub(last.end_bytes) <= gap_max => {
                        last.end_bytes = last.end_bytes.max(place.end_bytes);
                    }
                    _ => places.push(*place),
                }
            }
            places
        };
        let places = merged(highest / 128);
        let mut gaps: Vec<_> =
            places.windows(2).map(|pair| pair[1].start_bytes - pair[0].end_bytes).collect();
        gaps.sort_unstable();
        gaps.iter().rev().nth(Self::MOST - 1).map_or(places, |gap| merged(*gap))
    }

    /// Returns the bytes of places that do not overlap.
    fn bytes(places: &[Self]) -> u64 {
        places.iter().map(|place| place.end_bytes.saturating_sub(place.start_bytes)).sum()
    }

    /// Returns true if two such lists are the same place: at least half of the bytes of the smaller one are in common.
    pub fn are_same(one: &[Self], other: &[Self]) -> bool {
        2 * Self::common_bytes(one, other) >= Self::bytes(one).min(Self::bytes(other))
    }

    /// Returns the bytes that two such lists of places have in common.
    fn common_bytes(one: &[Self], other: &[Self]) -> u64 {
        let common = |a: &Self, b: &Self| {
            a.end_bytes.min(b.end_bytes).saturating_sub(a.start_bytes.max(b.start_bytes))
        };
        one.iter().flat_map(|a| other.iter().map(move |b| common(a, b))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    const GIB: u64 = 1 << 30;

    fn place(start: u64, end: u64) -> Place {
        Place { start_bytes: start * GIB, end_bytes: end * GIB }
    }

    #[test]
    fn near_and_overlapping_places_are_one() {
        let all = vec![place(90, 91), place(10, 11), place(11, 12), place(10, 12)];
        assert_eq!(Place::merged(all), [place(10, 12), place(90, 91)]);
        let many = (0..100).map(|at| place(at * at, at * at + 1)).collect();
        assert_eq!(Place::merged(many).len(), Place::MOST);
        assert_eq!(Place::merged(Vec::new()), []);
    }

    #[test]
    fn common_bytes_of_places_are_counted_once() {
        let (one, other) = (vec![place(0, 12), place(50, 80)], vec![place(0, 10), place(100, 130)]);
        assert_eq!(Place::common_bytes(&one, &other), 10 * GIB);
        assert_eq!(Place::bytes(&other), 40 * GIB);
        assert!(!Place::are_same(&one, &other) && Place::are_same(&one, &[place(0, 6)]));
    }
}
