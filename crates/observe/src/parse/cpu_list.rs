//! Lists of CPUs as sysfs writes them: "0-3,8,10-11".

/// Largest number of CPUs that a kernel is built for.
const CPUS_MAX: u32 = 8192;

/// Counts the CPUs in the list; absent if the text is no such list.
pub fn count(text: &str) -> Option<u32> {
    ranges(text).try_fold(0u32, |count, range| {
        let (first, last) = range?;
        Some(count.saturating_add((last - first).saturating_add(1)))
    })
}

/// Returns the CPUs in the order of the list. Absent if the text is no such list, or names more CPUs than
/// there can be.
pub fn cpus(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::with_capacity(count(text).filter(|count| *count <= CPUS_MAX)? as usize);
    for range in ranges(text) {
        let (first, last) = range?;
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// Returns the first and last CPU of each range; absent for a part that is no range.
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
    fn cpu_ranges_and_single_cpus_are_parsed() {
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
        fn any_text_parses_without_panic(text in "\\PC{0,40}|[0-9,-]{0,40}") {
            let counted = count(&text);
            if let Some(cpus) = cpus(&text) {
                prop_assert_eq!(counted, Some(cpus.len() as u32));
            }
        }
    }
}
