//! Latencies by region of the data set: a disk may be slower in one place than in another.

/// Number of regions.
pub const REGIONS: usize = 64;
/// Operations of a worker that are counted by region in an interval, about.
const SAMPLES_PER_INTERVAL: u64 = 2048;
/// Operations from one that is counted to the next, until the rate is known.
pub(crate) const FIRST_DISTANCE: u32 = 16;

/// Returns the number of operations from one that is counted to the next, if an interval has that many. On a fast device, the
/// loop only counts down.
pub(crate) fn distance(ops_per_interval: u64) -> u32 {
    u32::try_from(ops_per_interval / SAMPLES_PER_INTERVAL).unwrap_or(u32::MAX - 1) + 1
}

/// Equal ranges of a data set, in the order of its files. Their sizes are powers of two, so that a block's region needs no
/// division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regions {
    /// Bits of an offset within a file.
    file_bits: u32,
    /// Bits of a position within a region.
    region_bits: u32,
}

impl Regions {
    /// Returns the regions of this number of files, of which the tests use the bytes before `end_bytes`.
    pub fn new(files: u64, end_bytes: u64) -> Self {
        let bits = |count: u64| u64::BITS - count.saturating_sub(1).leading_zeros();
        let file_bits = bits(end_bytes).min(u64::BITS - bits(files));
        Self { file_bits, region_bits: (file_bits + bits(files)).saturating_sub(REGIONS.ilog2()) }
    }

    /// Returns the region of a byte.
    #[inline]
    pub fn region(self, file: u64, offset_bytes: u64) -> usize {
        ((file << self.file_bits | offset_bytes) >> self.region_bits) as usize % REGIONS
    }

    /// Returns the offset in the same file at which the next region begins.
    pub fn next_offset_bytes(self, offset_bytes: u64) -> u64 {
        offset_bytes.saturating_add(1).checked_next_multiple_of(1 << self.region_bits).unwrap_or(u64::MAX)
    }
}

/// Sum of the latencies in one region.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct RegionSum {
    /// Operations that were counted.
    pub ops: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

impl RegionSum {
    /// Adds another sum.
    pub fn add(&mut self, other: Self) {
        self.ops += other.ops;
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
    }
}

/// Sums of all regions.
#[derive(Debug, Clone)]
pub struct RegionSums(Box<[RegionSum; REGIONS]>);

impl Default for RegionSums {
    fn default() -> Self {
        Self(Box::new([RegionSum::default(); REGIONS]))
    }
}

impl RegionSums {
    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, region: usize, latency_ns: u64) {
        self.0[region % REGIONS].add(RegionSum { ops: 1, latency_ns });
    }

    /// Returns the sum of each region.
    pub fn sums(&self) -> &[RegionSum; REGIONS] {
        &self.0
    }

    /// Adds the sums of another one.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0.iter()).for_each(|(sum, more)| sum.add(*more));
    }

    pub(crate) fn reset(&mut self) {
        self.0.fill(RegionSum::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_divide_files_in_their_order() {
        for (files, end_bytes) in [(1, 1 << 30), (1, 1_500_000_000), (4, 3 << 28), (300, 1 << 20), (1, 4096)]
        {
            let regions = Regions::new(files, end_bytes);
            let at = |file, offset_bytes| regions.region(file, offset_bytes);
            let all: Vec<_> = (0..files)
                .flat_map(|file| [at(file, 0), at(file, end_bytes / 2), at(file, end_bytes - 1)])
                .collect();
            assert!(all.is_sorted(), "{files} files of {end_bytes}: {all:?}");
            assert_eq!(all[0], 0);
            let last = *all.last().unwrap();
            assert!((REGIONS / 4..REGIONS).contains(&last), "{files} files of {end_bytes}: {last}");
            let next = regions.next_offset_bytes(0);
            assert!(next >= end_bytes || at(0, next) == at(0, next - 1) + 1, "{files} files of {end_bytes}");
        }
    }

    #[test]
    fn few_operations_are_all_counted() {
        assert_eq!([0, 100, 2047].map(distance), [1; 3]);
        assert_eq!(distance(7_000_000), 3418);
        assert_eq!(distance(u64::MAX), u32::MAX);
    }
}
