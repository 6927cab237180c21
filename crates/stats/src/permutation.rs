//! Permutation tests: how often chance alone shows as large a difference. They assume nothing about the distribution of
//! values.

use fastrand::Rng;

/// Most permutations that are all evaluated: those of ten and ten. Beyond that, [`SAMPLES`] are drawn.
const WAYS_MAX: f64 = 184_756.0;
/// Most pairs whose signs are all evaluated: about a million permutations.
const PAIRS_MAX: usize = 20;
/// Permutations drawn if there are too many. A p of 0.002 is then known to 0.0003.
const SAMPLES: u32 = 100_000;
/// Relative tolerance for rounding: differences within it are equal.
const ROUNDING: f64 = 1e-9;

/// Returns the p of the exact permutation test. See Fisher, "The Design of Experiments", 1935, and Pitman,
/// "Significance tests which may be applied to samples from any populations", 1937.
///
/// The test splits the values into two groups of these sizes in all ways. The p is the share of splits in which the
/// means differ by as much as measured, in either direction. If there are more splits than for ten and ten, they are
/// drawn with `seed`. The measured split then counts among them (Phipson and Smyth, "Permutation p-values should never
/// be zero", 2010).
///
/// Returns `None` if a group is empty, or if a value is not finite.
pub(crate) fn p_of_groups(one: &[f64], other: &[f64], seed: u64) -> Option<f64> {
    let mut values = [one, other].concat();
    if one.is_empty() || other.is_empty() || !values.iter().all(|value| value.is_finite()) {
        return None;
    }
    let centre = crate::interval::mean(&values);
    values.iter_mut().for_each(|value| *value -= centre);
    // All values sum to zero, so the sum of one group determines the difference of the means.
    let measured: f64 = values[..one.len()].iter().sum();
    let sum_min = sum_min(measured, &values);
    if ways(values.len(), one.len()) <= WAYS_MAX && values.len() < 64 {
        let (mut all, mut as_far) = (0u32, 0u32);
        for chosen in choices(values.len(), one.len()) {
            let sum: f64 = places(chosen).map(|place| values[place]).sum();
            all += 1;
            as_far += u32::from(sum.abs() >= sum_min);
        }
        return Some(f64::from(as_far) / f64::from(all));
    }
    let mut random = Rng::with_seed(seed);
    let as_far = (0..SAMPLES).filter(|_| {
        random.shuffle(&mut values);
        values[..one.len()].iter().sum::<f64>().abs() >= sum_min
    });
    Some(with_measured(as_far.count()))
}

/// Same as `p_of_groups`, for differences of pairs. The permutations swap the members of pairs. The p is the share of
/// permutations in which the mean is as far from zero as measured.
///
/// Returns `None` without a pair, or if a difference is not finite.
pub(crate) fn p_of_pairs(differences: &[f64], seed: u64) -> Option<f64> {
    if differences.is_empty() || !differences.iter().all(|value| value.is_finite()) {
        return None;
    }
    let measured: f64 = differences.iter().sum();
    let sum_min = sum_min(measured, differences);
    if differences.len() <= PAIRS_MAX {
        let (mut sum, mut as_far) = (measured, 0u32);
        let mut signs = vec![1.0; differences.len()];
        let ways = 1u32 << differences.len();
        for way in 1..=ways {
            as_far += u32::from(sum.abs() >= sum_min);
            // One sign changes from each permutation to the next (Gray's code). The last step leads back to the first.
            let place = (way.trailing_zeros() as usize).min(differences.len() - 1);
            sum -= 2.0 * signs[place] * differences[place];
            signs[place] = -signs[place];
        }
        return Some(f64::from(as_far) / f64::from(ways));
    }
    let mut random = Rng::with_seed(seed);
    let mut draw = || -> f64 {
        differences.iter().map(|value| if random.bool() { *value } else { -value }).sum::<f64>().abs()
    };
    let as_far = (0..SAMPLES).filter(|_| draw() >= sum_min).count();
    Some(with_measured(as_far))
}

/// Smallest p that groups of these sizes can have. It counts the measured split, and its opposite too if both groups
/// have the same size.
pub(crate) fn p_min_of_groups(one: usize, other: usize) -> f64 {
    let as_far = if one == other { 2.0 } else { 1.0 };
    (as_far / ways(one + other, one)).min(1.0)
}

/// Smallest p that `pairs` pairs can have.
pub(crate) fn p_min_of_pairs(pairs: usize) -> f64 {
    (2.0 / 2f64.powi(pairs.min(1000) as i32)).min(1.0)
}

/// Least absolute sum of a split whose difference counts as equally large.
fn sum_min(measured: f64, values: &[f64]) -> f64 {
    let scale: f64 = values.iter().map(|value| value.abs()).sum();
    measured.abs() - ROUNDING * scale
}

/// Share of the drawn permutations, with the measured one among them.
fn with_measured(as_far: usize) -> f64 {
    (as_far as f64 + 1.0) / (f64::from(SAMPLES) + 1.0)
}

/// Number of ways to choose `chosen` of `all` positions.
fn ways(all: usize, chosen: usize) -> f64 {
    let chosen_min = chosen.min(all - chosen.min(all));
    (0..chosen_min).map(|taken| (all - taken) as f64 / (chosen_min - taken) as f64).product()
}

/// Every way to choose `chosen` of `all` positions, fewer than 64. Each way is the set bits of a number.
fn choices(all: usize, chosen: usize) -> impl Iterator<Item = u64> {
    let first = (1u64 << chosen) - 1;
    // The next larger number with as many bits set (Gosper, in HAKMEM 175).
    std::iter::successors(Some(first), |&bits| {
        let lowest = bits & bits.wrapping_neg();
        let carried = bits.checked_add(lowest)?;
        Some((((carried ^ bits) >> 2) / lowest) | carried)
    })
    .take_while(move |&bits| bits < 1 << all)
}

fn places(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_combination_is_enumerated_once() {
        for (all, chosen, count) in [(4, 2, 6), (12, 6, 924), (20, 10, 184_756), (5, 5, 1)] {
            assert_eq!(choices(all, chosen).count(), count);
            assert_eq!(ways(all, chosen), count as f64);
            assert!(choices(all, chosen).all(|bits| places(bits).count() == chosen));
        }
    }

    #[test]
    fn disjoint_groups_have_smallest_possible_p() {
        // Of the 924 splits of 6 and 6, only this one and its opposite are as far apart.
        let p = p_of_groups(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[11.0, 12.0, 13.0, 14.0, 15.0, 16.0], 1);
        assert_eq!(p, Some(2.0 / 924.0));
        assert_eq!(p, Some(p_min_of_groups(6, 6)));
        let p = p_of_groups(&[1.0, 2.0, 3.0], &[14.0, 15.0], 1);
        assert_eq!(p, Some(p_min_of_groups(3, 2)));
        // Two of the six splits of two and two: {1, 2} against {3, 4}, and back.
        assert_eq!(p_of_groups(&[1.0, 2.0], &[3.0, 4.0], 1), Some(2.0 / 6.0));
        assert_eq!(p_of_groups(&[1.0, 4.0], &[2.0, 3.0], 1), Some(1.0));
    }

    #[test]
    fn pairs_of_equal_sign_have_smallest_possible_p() {
        assert_eq!(p_of_pairs(&[1.0, 2.0, 3.0], 1), Some(2.0 / 8.0));
        assert_eq!(p_of_pairs(&[1.0; 9], 1), Some(p_min_of_pairs(9)));
        // 3 - 1 = 2: all four ways give 4 or 2.
        assert_eq!(p_of_pairs(&[3.0, -1.0], 1), Some(1.0));
        assert_eq!(p_of_pairs(&[3.0, 1.0], 1), Some(0.5));
    }

    #[test]
    fn sampled_permutations_approximate_exact_p() {
        let one: Vec<f64> = (0..10).map(|index| f64::from(index * 7 % 10)).collect();
        let other: Vec<f64> = one.iter().map(|value| value + 2.0).collect();
        let exact = p_of_groups(&one, &other, 1).unwrap();
        // Eleven and ten are drawn. A value in the middle changes little.
        let drawn = p_of_groups(&[&one[..], &[5.5]].concat(), &other, 1).unwrap();
        assert!((exact - drawn).abs() < 0.03, "{exact} {drawn}");
        let far: Vec<f64> = one.iter().map(|value| value + 100.0).collect();
        let rare = p_of_groups(&[&one[..], &one].concat(), &[&far[..], &far].concat(), 1).unwrap();
        assert!(rare > 0.0 && rare < 1e-4, "{rare}");
        assert!(p_of_pairs(&[1.0; 25], 1).unwrap() < 1e-4);
    }

    #[test]
    fn p_of_invalid_values_is_none() {
        assert_eq!(p_of_groups(&[], &[1.0], 1), None);
        assert_eq!(p_of_groups(&[f64::NAN], &[1.0], 1), None);
        assert_eq!(p_of_pairs(&[], 1), None);
        assert_eq!(p_of_groups(&[1.0], &[2.0], 1), Some(1.0));
    }

    proptest! {
        #[test]
        fn p_is_a_probability_and_symmetric_in_groups(
            one in prop::collection::vec(-1e3..1e3f64, 1..7), other in prop::collection::vec(-1e3..1e3f64, 1..7),
        ) {
            let p = p_of_groups(&one, &other, 1).unwrap();
            prop_assert!(p > 0.0 && p <= 1.0);
            prop_assert_eq!(Some(p), p_of_groups(&other, &one, 1));
            let of_pairs = p_of_pairs(&one, 1).unwrap();
            prop_assert!(of_pairs > 0.0 && of_pairs <= 1.0);
        }
    }
}
