//! Names of saved runs. Files have a time and a word as their names, "20261122T140307Z-otter.json". Users type the day
//! and the word, "1122-otter".

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Length of the time in the name of a file: "20261122T140307Z".
pub const TIME_LEN: usize = 16;

/// Returns the name that is printed and can be typed; the whole stem if the file is named otherwise.
pub fn short(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let parts = stem.split_at_checked(TIME_LEN);
    let is_time = |time: &str| {
        time.char_indices().all(|(at, letter)| match at {
            8 => letter == 'T',
            15 => letter == 'Z',
            _ => letter.is_ascii_digit(),
        })
    };
    match parts {
        Some((time, rest)) if is_time(time) && rest.len() > 1 && rest.starts_with('-') => {
            format!("{}{rest}", &time[4..8])
        }
        _ => stem,
    }
}

/// Returns the names that the document of a run may have in a directory, in the order of trial. None has the day and
/// the word of another run there.
pub fn free(directory: &Path, started_at: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let whole_seconds = started_at.split('.').next().unwrap_or_default();
    let time: String = whole_seconds.chars().filter(char::is_ascii_alphanumeric).collect();
    let time = format!("{}Z", time.trim_end_matches('Z'));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let taken: HashSet<_> = entries.map(|entry| short(&entry.path())).collect();
    let directory = directory.to_owned();
    // Runs of one day should not have neighbouring words.
    let first = started_at.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let words = (0..WORDS.len()).map(move |step| WORDS[first.wrapping_add(step) % WORDS.len()].to_owned());
    let numbered = (2_u64..).flat_map(|number| WORDS.iter().map(move |word| format!("{word}{number}")));
    words
        .chain(numbered)
        .map(move |word| directory.join(format!("{time}-{word}.json")))
        .filter(move |path| !taken.contains(&short(path)))
}

/// Returns the paths that a name means: exact matches, or else those whose name or stem begins with it.
pub fn matching(paths: &[PathBuf], name: &str) -> Vec<PathBuf> {
    let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let of = |is_meant: &dyn Fn(&str) -> bool| -> Vec<PathBuf> {
        paths.iter().filter(|path| is_meant(&short(path)) || is_meant(&stem(path))).cloned().collect()
    };
    let name = name.strip_suffix(".json").unwrap_or(name);
    let exact = of(&|known| known == name);
    if exact.is_empty() { of(&|known| known.starts_with(name)) } else { exact }
}

/// Words that are easy to type and to distinguish.
const WORDS: [&str; 194] = [
    "adder", "alder", "amber", "anchor", "anvil", "apple", "aspen", "aster", "atlas", "badger", "bamboo",
    "barley", "basil", "beacon", "beaver", "beech", "berry", "birch", "bison", "bobcat", "boulder",
    "bramble", "breeze", "brook", "buffalo", "canyon", "cedar", "cherry", "cliff", "clover", "cobalt",
    "comet", "condor", "copper", "coral", "cougar", "crane", "creek", "cricket", "crow", "cypress", "dahlia",
    "daisy", "delta", "desert", "dingo", "dolphin", "dove", "drum", "dune", "eagle", "ebony", "eider",
    "elder", "elk", "elm", "ember", "falcon", "fern", "ferret", "finch", "fjord", "flint", "forest", "fox",
    "garnet", "gecko", "geyser", "ginger", "glacier", "goose", "granite", "grove", "gull", "harbor", "hare",
    "hawk", "hazel", "heron", "hickory", "holly", "honey", "horizon", "husky", "ibis", "indigo", "iris",
    "island", "ivory", "ivy", "jade", "jaguar", "jasmine", "jasper", "juniper", "kestrel", "kiwi", "koala",
    "lagoon", "lake", "larch", "lark", "laurel", "lemon", "lily", "linden", "lion", "lotus", "lynx",
    "magpie", "maple", "marble", "marten", "meadow", "merlin", "mint", "moose", "moss", "moth", "nectar",
    "oak", "ocean", "olive", "onyx", "opal", "orca", "orchid", "oriole", "osprey", "otter", "owl", "oyster",
    "panda", "panther", "parsley", "peach", "pearl", "pebble", "pelican", "pepper", "pine", "plum", "poplar",
    "poppy", "prairie", "puffin", "puma", "quail", "quartz", "rabbit", "raven", "reef", "ridge", "river",
    "robin", "rook", "rose", "ruby", "saffron", "sage", "salmon", "sand", "sequoia", "shore", "silver",
    "slate", "sorrel", "sparrow", "spruce", "star", "stone", "stork", "storm", "summit", "sunset", "swan",
    "swift", "tiger", "topaz", "trout", "tulip", "tundra", "turtle", "valley", "violet", "walnut", "walrus",
    "wave", "willow", "wolf", "wren", "yarrow", "zebra", "zinnia",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_names_are_short_and_unique() {
        let directory = tempfile::tempdir().unwrap();
        let at = "2026-11-22T14:03:07.123Z";
        let first = free(directory.path(), at).next().unwrap();
        let name = first.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("20261122T140307Z-"), "{name}");
        std::fs::write(&first, "").unwrap();
        // A run later on the same day, which may have the same word by accident.
        let all: HashSet<_> = free(directory.path(), "2026-11-22T18:00:00Z")
            .take(WORDS.len())
            .map(|path| short(&path))
            .collect();
        assert_eq!(all.len(), WORDS.len());
        assert!(!all.contains(&short(&first)) && all.iter().all(|name| name.starts_with("1122-")));
        for (stem, expected) in [
            ("20261121T140307Z-ada", "1121-ada"),
            ("20261121T140307Z-ada-2", "1121-ada-2"),
            ("20261121T140307Z", "20261121T140307Z"),
            ("before", "before"),
            ("2026112xT140307Z-ada", "2026112xT140307Z-ada"),
        ] {
            assert_eq!(short(&PathBuf::from(format!("/runs/{stem}.json"))), expected);
        }
    }

    #[test]
    fn run_is_found_by_name_prefix() {
        let paths = ["20261121T140307Z-otter", "20261122T140307Z-owl", "20261122T150000Z-owlet", "before"]
            .map(|stem| PathBuf::from(format!("/runs/{stem}.json")));
        let found = |name: &str| -> Vec<_> {
            let found = matching(&paths, name);
            found.iter().map(|path| paths.iter().position(|known| known == path).unwrap()).collect()
        };
        assert_eq!(found("1121-otter"), [0]);
        assert_eq!(found("1121"), [0]);
        assert_eq!(found("1122"), [1, 2]);
        assert_eq!(found("1122-owl"), [1]);
        assert_eq!(found("20261122T15"), [2]);
        assert_eq!(found("before.json"), [3]);
        assert!(found("otter").is_empty());
    }
}
