//! Room in the page: foreign text may be long, and escaping makes it longer.

use askama::filters::{Html, escape};

/// Returns the bytes of a text in the page, which escapes it.
pub(super) fn escaped(text: &str) -> usize {
    // Writing into memory does not fail; no character becomes longer than six bytes.
    escape(text, Html).map_or(text.len() * 6, |text| text.to_string().len())
}

/// Returns the first items that fit into `bytes_max` bytes, and the number of the others. After the first item that
/// does not fit, all are left out.
pub(super) fn fitting<T>(
    items: impl IntoIterator<Item = T>,
    bytes_max: usize,
    bytes: impl Fn(&T) -> usize,
) -> (Vec<T>, usize) {
    let (mut kept, mut left, mut room) = (Vec::new(), 0, bytes_max);
    for item in items {
        match room.checked_sub(bytes(&item)).filter(|_| left == 0) {
            Some(rest) => {
                room = rest;
                kept.push(item);
            }
            None => left += 1,
        }
    }
    (kept, left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_length_includes_entities() {
        assert_eq!(escaped("plain"), 5);
        assert!(escaped("<<<") >= 12);
    }

    #[test]
    fn fitting_stops_at_first_item_over_limit() {
        assert_eq!(fitting([3, 4, 9, 1], 10, |bytes| *bytes), (vec![3, 4], 2));
        assert_eq!(fitting([5, 5], 10, |bytes| *bytes), (vec![5, 5], 0));
        assert_eq!(fitting([1; 3], 0, |bytes| *bytes), (vec![], 3));
    }
}
