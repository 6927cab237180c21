//! Latencies by place on the storage. What lies below this system may make one place slower than another: the zones of a disk,
//! a thin pool, the members of a concatenation.

use engine::regions::{REGIONS, RegionSum, RegionSums, Regions};
use model::run::{LatencyByPlace, Place, PlaceLatency};
use observe::ExtentAddress;

use crate::extents::DataExtents;

/// Most workers whose latencies are kept by region. Each takes 32 KiB.
const WORKERS_MAX: usize = 256;
/// Most slices of time.
const SLICES_MAX: usize = 32;
/// Length of a slice at first.
const SLICE_NS: u64 = 200_000_000;
/// Fewest operations of a worker in a place and a slice that have a mean.
const OPS_MIN: u64 = 8;

/// Latencies of one worker by region, in slices of time. At most `SLICES_MAX`: beyond that, neighbours merge.
#[derive(Debug)]
pub struct RegionSeries {
    slices: Vec<RegionSums>,
    slice_ns: u64,
}

/// Returns empty series for a number of workers; none for too many.
pub fn series(workers: usize) -> Vec<RegionSeries> {
    let workers = if workers > WORKERS_MAX { 0 } else { workers };
    (0..workers).map(|_| RegionSeries { slices: Vec::new(), slice_ns: SLICE_NS }).collect()
}

impl RegionSeries {
    /// Adds sums of an interval whose middle is that long after the start.
    pub fn add(&mut self, sums: &RegionSums, at_ns: u64) {
        while at_ns / self.slice_ns >= SLICES_MAX as u64 {
            self.merge_neighbours();
        }
        let index = (at_ns / self.slice_ns) as usize;
        if self.slices.len() <= index {
            self.slices.resize_with(index + 1, RegionSums::default);
        }
        self.slices[index].add(sums);
    }

    fn merge_neighbours(&mut self) {
        self.slice_ns *= 2;
        let merge = |pair: &[RegionSums]| {
            let mut sum = pair[0].clone();
            pair[1..].iter().for_each(|next| sum.add(next));
            sum
        };
        self.slices = self.slices.chunks(2).map(merge).collect();
    }
}

/// Compares the places of the files whose extents are given. Returns `None` if there is one place only, or too few operations.
pub fn compare(series: &[RegionSeries], regions: Regions, extents: &DataExtents) -> Option<LatencyByPlace> {
    let places = divided(extents.places());
    let place_of_region = places_of_regions(regions, &extents.addresses, &places);
    // The slices of all workers have one length after the same time.
    let slice_ns = series.iter().map(|series| series.slice_ns).max()?;
    let mut sums = vec![RegionSum::default(); places.len()];
    let mut values = Vec::new();
    for slice in 0..SLICES_MAX {
        let mut observers = Vec::with_capacity(series.len());
        for worker in series {
            let per_slice = (slice_ns / worker.slice_ns) as usize;
            let own = worker.slices.iter().skip(slice * per_slice).take(per_slice);
            let mut of_places = vec![RegionSum::default(); places.len()];
            for (region, sum) in own.flat_map(|sums| sums.sums().iter().enumerate()) {
                if let Some(place) = place_of_region[region] {
                    of_places[place].add(*sum);
                }
            }
            sums.iter_mut().zip(&of_places).for_each(|(sum, more)| sum.add(*more));
            let mean = |sum: &RegionSum| (sum.ops >= OPS_MIN).then(|| sum.latency_ns as f64 / sum.ops as f64);
            observers.push(of_places.iter().map(mean).collect());
        }
        values.push(observers);
    }
    let contrast = stats::largest_contrast(&values)?;
    let latency = |(place, sum): (Place, &RegionSum)| PlaceLatency {
        place,
        latency_mean_ns: sum.latency_ns.checked_div(sum.ops).unwrap_or(0),
    };
    Some(LatencyByPlace {
        places: places.into_iter().zip(&sums).map(latency).collect(),
        fastest: contrast.low as u32,
        slowest: contrast.high as u32,
        ratio: contrast.ratio,
        ratio_low: contrast.interval.low,
        ratio_high: contrast.interval.high,
    })
}

/// Divides the largest places until there are [`Place::MOST`].
fn divided(mut places: Vec<Place>) -> Vec<Place> {
    while places.len() < Place::MOST {
        let bytes = |place: &Place| place.end_bytes.saturating_sub(place.start_bytes);
        let Some((index, largest)) = places.iter().copied().enumerate().max_by_key(|(_, place)| bytes(place))
        else {
            return places;
        };
        let middle_bytes = largest.start_bytes + bytes(&largest) / 2;
        places[index].end_bytes = middle_bytes;
        places.insert(index + 1, Place { start_bytes: middle_bytes, ..largest });
    }
    places
}

/// Returns the place of each region, in which most of its bytes are.
fn places_of_regions(
    regions: Regions,
    files: &[Vec<ExtentAddress>],
    places: &[Place],
) -> [Option<usize>; REGIONS] {
    let mut bytes = vec![[0_u64; REGIONS]; places.len()];
    for (file, extent) in
        files.iter().zip(0..).flat_map(|(extents, file)| extents.iter().map(move |extent| (file, extent)))
    {
        let end_bytes = extent.offset_bytes.saturating_add(extent.length_bytes);
        let mut at_bytes = extent.offset_bytes;
        while at_bytes < end_bytes {
            let next_bytes = regions.next_offset_bytes(at_bytes).min(end_bytes);
            let middle_bytes =
                extent.address_bytes + (at_bytes - extent.offset_bytes) + (next_bytes - at_bytes) / 2;
            let place =
                places.iter().position(|place| (place.start_bytes..place.end_bytes).contains(&middle_bytes));
            if let Some(place) = place {
                bytes[place][regions.region(file, at_bytes)] += next_bytes - at_bytes;
            }
            at_bytes = next_bytes;
        }
    }
    std::array::from_fn(|region| {
        let place = (0..places.len()).max_by_key(|place| bytes[*place][region])?;
        (bytes[place][region] > 0).then_some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Latencies of a worker in a file of 64 MiB whose second half takes `ratio` times as long.
    fn measured(ratio: u64, seconds: u64) -> Vec<RegionSeries> {
        let mut all = series(1);
        let mut random = fastrand::Rng::with_seed(7);
        for interval in 0..seconds * 10 {
            let mut sums = RegionSums::default();
            for _ in 0..640 {
                let region = random.usize(..REGIONS);
                let service_ns = random.u64(900..1100) * if region < REGIONS / 2 { 1 } else { ratio };
                sums.record(region, service_ns);
            }
            all[0].add(&sums, interval * 100_000_000 + 50_000_000);
        }
        all
    }

    #[test]
    fn slow_half_of_a_file_is_found() {
        // The file lies the other way round on the device.
        let extent = |offset, address| ExtentAddress {
            offset_bytes: offset * MIB,
            address_bytes: address * MIB,
            length_bytes: 32 * MIB,
        };
        let addresses = vec![vec![extent(0, 1032), extent(32, 1000)]];
        let extents = DataExtents { addresses, shares: None };
        for seconds in [3, 70] {
            let found = compare(&measured(3, seconds), Regions::new(1, 64 * MIB), &extents).unwrap();
            assert_eq!(found.places.len(), Place::MOST);
            let [fast, slow] = found.extremes().unwrap();
            assert!(slow.place.end_bytes <= 1032 * MIB && fast.place.start_bytes >= 1032 * MIB, "{found:?}");
            assert!(found.ratio_low <= 3.0 && 3.0 <= found.ratio_high && found.ratio_low > 2.8, "{found:?}");
        }
    }

    #[test]
    fn separate_places_stay_whole() {
        let place = |start, end| Place { start_bytes: start * MIB, end_bytes: end * MIB };
        assert_eq!(divided(vec![place(0, 8), place(90, 98)])[3], place(6, 8));
        let eight: Vec<_> = (0..8).map(|at| place(at * 100, at * 100 + 1)).collect();
        assert_eq!(divided(eight.clone()), eight);
        assert_eq!(divided(Vec::new()), []);
    }
}
