//! Thins points to as many as can be seen, without losing outliers.

/// Returns at most `buckets` pairs of points: the lowest and the highest of each bucket of neighbours, in their order.
/// If there are no more points than that, it returns all of them. Points that are not finite are left out.
pub fn thinned(points: &[(f64, f64)], buckets: usize) -> Vec<(f64, f64)> {
    let sound: Vec<_> = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
    if sound.len() <= buckets.max(1) * 2 {
        return sound;
    }
    let mut kept = Vec::with_capacity(buckets * 2);
    for bucket in sound.chunks(sound.len().div_ceil(buckets.max(1))) {
        let (mut low, mut high) = (0, 0);
        for (index, (_, y)) in bucket.iter().enumerate() {
            low = if *y < bucket[low].1 { index } else { low };
            high = if *y > bucket[high].1 { index } else { high };
        }
        kept.push(bucket[low.min(high)]);
        if low != high {
            kept.push(bucket[low.max(high)]);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_points_are_kept_and_nan_is_dropped() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)];
        assert_eq!(thinned(&points, 1), [(0.0, 1.0), (2.0, 3.0)]);
        assert!(thinned(&[], 5).is_empty());
    }

    proptest! {
        #[test]
        fn lows_and_highs_of_every_bucket_are_kept(
            values in prop::collection::vec(-1e6f64..1e6, 1..400),
            buckets in 1usize..40,
        ) {
            let points: Vec<_> = values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
            let kept = thinned(&points, buckets);
            prop_assert!(kept.len() <= buckets * 2 && kept.is_sorted_by(|a, b| a.0 < b.0));
            let ends = |points: &[(f64, f64)]| {
                let of = |pick: fn(f64, f64) -> f64| points.iter().map(|point| point.1).reduce(pick);
                (of(f64::min), of(f64::max))
            };
            let size = if points.len() <= buckets * 2 { 1 } else { points.len().div_ceil(buckets) };
            for bucket in points.chunks(size) {
                let of_bucket: Vec<_> = kept
                    .iter()
                    .filter(|(x, _)| (bucket[0].0..=bucket[bucket.len() - 1].0).contains(x))
                    .copied()
                    .collect();
                prop_assert_eq!(ends(&of_bucket), ends(bucket));
                prop_assert!(of_bucket.iter().all(|point| bucket.contains(point)));
            }
        }
    }
}
