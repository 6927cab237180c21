//! Lists of CPUs as sysfs writes them: "0-3,8,10-11".

/// Most CPUs that a kernel is built for.
const CPUS_MAX: u32 = 8192;

/// How many CPUs the list names; absent if it is not such a list.
pub fn count(text: &str) -> Option<u32> {
    ranges(text).try_fold(0u32, |count, range| {
        let (first, last) = range?;
        Some(count.saturating_add((last - first).saturating_add(1)))
    })
}

/// The CPUs that the list names, in its order; absent if it is not such a list, or names more than there can be.
pub fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::with_capacity(count(text).filter(|count| *count <= CPUS_MAX)? as usize);
    for range in ranges(text) {
        let (first, last) = range?;
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// First and last of each range; absent where it is none.
fn ranges(text: &str) -> impl Iterator<Item = Option<(u32, u32)>> {
    text.trim().split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last).then_some((first, last))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{count, cpus};

    #[test]
    fn ranges_and_single_ones() {
        assert_eq!(count("0-3,8,10-11\n"), Some(7));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
        assert_eq!(cpus("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(cpus("8191"), Some(vec![8191]));
        for text in ["", "3-0", "0-8192", "0-4294967295", "0-4294967295,7"] {
            assert_eq!(cpus(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,40}|[0-9,-]{0,40}") {
            let counted = count(&text);
            if let Some(cpus) = cpus(&text) {
                prop_assert_eq!(counted, Some(cpus.len() as u32));
            }
        }
    }
}
