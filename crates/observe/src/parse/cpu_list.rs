//! Lists of CPUs as sysfs writes them: "0-3,8,10-11".

/// How many CPUs the list names; absent if it is not such a list.
pub fn count(text: &str) -> Option<u32> {
    let mut count: u32 = 0;
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        count = count.saturating_add(last.checked_sub(first)?.saturating_add(1));
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::count;

    #[test]
    fn ranges_and_single_ones() {
        assert_eq!(count("0-3,8,10-11\n"), Some(7));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("3-0"), None);
        assert_eq!(count(""), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,40}|[0-9,-]{0,40}") {
            count(&text);
        }
    }
}
