//! Names of rows that a user can type: "read-1m-q8", or as much of the name as is unambiguous.

use model::run::PhaseRecord;

/// Returns the row's name: "read-4k-rnd-q32t4", with "#2" at the end for a second repetition.
pub fn from_phase(phase: &PhaseRecord) -> String {
    // Signs that no keyboard has are written as people type them.
    let label = phase.label.to_lowercase().replace('×', "x");
    let words: Vec<_> = std::iter::once(phase.name.as_str()).chain(label.split_whitespace()).collect();
    let repetition = if phase.repetition > 1 { format!("#{}", phase.repetition) } else { String::new() };
    crate::printable(&format!("{}{repetition}", words.join("-")))
}

/// Returns the indices of the rows that `word` matches. It is a row's number from 1, its name, or the beginnings of
/// some parts of the name in their order, such as "read-4k-q32".
pub fn find(phases: &[PhaseRecord], word: &str) -> Vec<usize> {
    if let Some(index) = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
        return (index < phases.len()).then_some(index).into_iter().collect();
    }
    let word = word.to_lowercase();
    let names: Vec<_> = phases.iter().map(from_phase).collect();
    if let Some(index) = names.iter().position(|name| *name == word) {
        return vec![index];
    }
    let is_meant = |name: &str| {
        let mut parts = name.split('-');
        word.split('-').all(|asked| parts.any(|part| part.starts_with(asked)))
    };
    (0..phases.len()).filter(|index| is_meant(&names[*index])).collect()
}

#[cfg(test)]
mod tests {
    use super::{find, from_phase};
    use crate::sample;

    #[test]
    fn slug_has_only_ascii_letters_digits_and_hyphens() {
        let mut phase = sample::phase("read:rnd4k:q32");
        phase.label = "4K rnd q32 ×8".into();
        assert_eq!(from_phase(&phase), "read-4k-rnd-q32-x8");
    }

    #[test]
    fn rows_are_selected_by_part_of_their_name() {
        let phases = ["write:q8", "read:q8", "read:rnd4k:q32t4", "read:rnd4k", "stat:t4"].map(sample::phase);
        let names: Vec<_> = phases.iter().map(from_phase).collect();
        assert_eq!(names, ["write-1m-q8", "read-1m-q8", "read-4k-rnd-q32t4", "read-4k-rnd-q1", "stat-t4"]);
        for (word, rows) in [
            ("write", &[0][..]),
            ("read", &[1, 2, 3]),
            ("read-1m", &[1]),
            ("read-4k-q32", &[2]),
            ("READ-4K-rnd-q1", &[3]),
            ("rnd", &[2, 3]),
            ("3", &[2]),
            ("0", &[]),
            ("6", &[]),
            ("mkdir", &[]),
        ] {
            assert_eq!(find(&phases, word), rows, "{word}");
        }
    }
}
