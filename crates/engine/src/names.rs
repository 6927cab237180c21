//! Names of files, computed without formatting: a letter for the kind and eight hexadecimal digits for the number.
//! Optional letters precede or follow them.

use std::ffi::{CStr, CString};

use model::workload::Naming;
pub use model::workload::verbs::Kind;

use crate::data::mix;

/// Hexadecimal digits of a file's number.
pub const FILE_DIGITS: usize = 8;
/// Hexadecimal digits of a directory's number.
pub const DIRECTORY_DIGITS: usize = 5;

/// Most letters beside the number.
pub const LETTERS_MAX: usize = model::marker::LETTERS_MAX as usize;

/// Length of the kind's letter and the digits.
const NUMBERED_NAME_BYTES: usize = 1 + FILE_DIGITS;

/// Spelling of the last part of a path. A name takes one branch on it, always the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameFormat {
    /// The kind's letter and the number, nothing else.
    Plain,
    /// The kind's letter, the number, then letters that follow from the seed and the number.
    NumberFirst {
        /// The seed.
        seed: u64,
    },
    /// Letters that follow from the seed and the number, then the kind's letter and the number.
    LettersFirst {
        /// The seed.
        seed: u64,
    },
}

impl NameFormat {
    /// The spelling of a naming. Letters follow from the seed.
    pub fn new(naming: Naming, seed: u64) -> Self {
        match naming {
            Naming::Plain => Self::Plain,
            Naming::NumberFirst => Self::NumberFirst { seed },
            Naming::LettersFirst => Self::LettersFirst { seed },
        }
    }

    /// Most letters beside the number.
    fn letters_max(self) -> usize {
        if self == Self::Plain { 0 } else { LETTERS_MAX }
    }

    /// Writes the name of a file, and the NUL behind it if its place has changed. The buffer `name` has room for the
    /// longest name, and holds a name of the same kind.
    #[inline(always)]
    fn write_name(self, name: &mut [u8], kind: u8, file: u64) {
        match self {
            Self::Plain => write_digits(&mut name[1..NUMBERED_NAME_BYTES], file),
            Self::NumberFirst { seed } => number_first(name, seed, file),
            Self::LettersFirst { seed } => letters_first(name, seed, kind, file),
        }
    }

    /// True if a file of this kind can have this name.
    #[inline]
    pub fn can_be(self, name: &[u8], kind: Kind) -> bool {
        match self {
            Self::Plain => is_numbered(name, kind),
            Self::NumberFirst { .. } => name
                .split_at_checked(NUMBERED_NAME_BYTES)
                .is_some_and(|(numbered, letters)| is_numbered(numbered, kind) && are_letters(letters)),
            Self::LettersFirst { .. } => name
                .split_last_chunk::<NUMBERED_NAME_BYTES>()
                .is_some_and(|(letters, numbered)| is_numbered(numbered, kind) && are_letters(letters)),
        }
    }
}

/// Drawing the letters takes several times as long as the call.
#[inline(never)]
fn number_first(name: &mut [u8], seed: u64, file: u64) {
    write_digits(&mut name[1..NUMBERED_NAME_BYTES], file);
    let letters = write_letters(&mut name[NUMBERED_NAME_BYTES..], seed, file);
    name[NUMBERED_NAME_BYTES + letters] = 0;
}

#[inline(never)]
fn letters_first(name: &mut [u8], seed: u64, kind: u8, file: u64) {
    let letters = write_letters(name, seed, file);
    let numbered = &mut name[letters..];
    numbered[0] = kind;
    write_digits(&mut numbered[1..NUMBERED_NAME_BYTES], file);
    numbered[NUMBERED_NAME_BYTES] = 0;
}

/// True if a directory of a tree can have this name.
#[inline]
pub(crate) fn is_directory(name: &[u8]) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 1 + DIRECTORY_DIGITS && name[0] == b'd' && name[1..].iter().all(is_digit)
}

#[inline]
fn is_numbered(name: &[u8], kind: Kind) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == NUMBERED_NAME_BYTES && name[0] == kind as u8 && name[1..].iter().all(is_digit)
}

#[inline]
fn are_letters(text: &[u8]) -> bool {
    text.len() <= LETTERS_MAX && text.iter().all(u8::is_ascii_alphanumeric)
}

/// Returns the text before the first NUL; nothing if the last byte is none. Same as [`CStr::from_bytes_until_nul`], whose
/// search takes as many instructions as all else that a name costs.
#[inline]
pub(crate) fn until_nul(bytes: &[u8]) -> &CStr {
    if bytes.last() != Some(&0) {
        return c"";
    }
    // SAFETY: strlen(3) ends at the last byte of the slice at the latest, as that is a NUL. The result borrows the slice.
    unsafe { CStr::from_ptr(bytes.as_ptr().cast()) }
}

/// Writes the number of a file as hexadecimal digits.
#[inline]
pub(crate) fn write_digits(digits: &mut [u8], file: u64) {
    // Each step moves the upper half of every group of digits away from the lower one, until each has a byte.
    let mut spread = file & 0xffff_ffff;
    spread = (spread | spread << 16) & 0x0000_ffff_0000_ffff;
    spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // A digit above 9 overflows into the upper half of its byte if 6 is added.
    let letters = ((spread + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    let text = spread + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10);
    digits.copy_from_slice(&text.to_be_bytes());
}

/// Writes 0 to [`LETTERS_MAX`] letters and returns their number.
#[inline]
fn write_letters(name: &mut [u8], seed: u64, file: u64) -> usize {
    const LETTERS: &[u8; 62] = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // A linear congruential generator (Knuth's MMIX). Its high bits are good enough, as nothing depends on the letters.
    let mut state = mix(seed ^ mix(file + 1));
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((state >> 32) * bound as u64) >> 32) as usize
    };
    let letters = below(LETTERS_MAX + 1);
    for letter in &mut name[..letters] {
        *letter = LETTERS[below(LETTERS.len())];
    }
    letters
}

/// Spread of a set of files over directories below the root, an open directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// Files of the set.
    pub files: u64,
    /// Directories at the lowest level; 1 means that files lie directly in the root.
    pub dirs: u64,
    /// Levels of directories.
    pub levels: u32,
}

impl Tree {
    /// Files in each of the lowest directories; the last may hold fewer.
    pub fn files_per_dir(&self) -> u64 {
        self.files.div_ceil(self.dirs.max(1)).max(1)
    }

    /// Names in this tree without letters beside the number.
    pub const fn plain(self) -> Names {
        Names { tree: self, spelling: NameFormat::Plain }
    }

    /// Directories in each directory of the upper levels: the smallest fan-out that gives enough at the lowest level.
    pub fn fan_out(&self) -> u64 {
        let root = (self.dirs as f64).powf(1.0 / f64::from(self.levels.max(1)));
        // Floating-point roots of perfect powers may lie just above the whole number.
        let mut fan_out = (root.floor() as u64).max(1);
        while fan_out.checked_pow(self.levels).is_some_and(|leaves| leaves < self.dirs) {
            fan_out += 1;
        }
        fan_out
    }

    /// Levels of directories below the root.
    pub fn levels_below(&self) -> u32 {
        if self.dirs > 1 { self.levels } else { 0 }
    }

    /// Directories of all levels below the root.
    pub fn directories(&self) -> u64 {
        let fan_out = self.fan_out();
        // A directory of an upper level exists if one of the lowest lies below it.
        (0..self.levels_below()).map(|level| self.dirs.div_ceil(fan_out.saturating_pow(level))).sum()
    }

    /// Path of one of the lowest directories, without a slash at the end; empty if the root is the only one.
    pub fn directory(&self, dir: u64) -> String {
        if self.dirs <= 1 {
            return String::new();
        }
        let fan_out = self.fan_out();
        let mut parts: Vec<_> = (0..self.levels)
            .scan(dir, |rest, _| {
                let part = *rest % fan_out;
                *rest /= fan_out;
                Some(format!("d{part:0DIRECTORY_DIGITS$x}"))
            })
            .collect();
        parts.reverse();
        parts.join("/")
    }
}

/// Location and spelling of the names of a set.
#[derive(Debug, Clone, Copy)]
pub struct Names {
    /// Location of the files.
    pub tree: Tree,
    /// Spelling of the last part of a path.
    pub spelling: NameFormat,
}

impl Names {
    /// Path of a file, relative to the root.
    pub fn path(self, file: u64) -> CString {
        Name::new(self, Kind::File).path_of(file).to_owned()
    }

    /// Content of a symbolic link to a file, for links in any of the lowest directories.
    pub fn path_from_lowest(self, file: u64) -> CString {
        let up = if self.tree.dirs > 1 { self.tree.levels as usize } else { 0 };
        let path = [b"../".repeat(up), self.path(file).into_bytes()].concat();
        CString::new(path).unwrap_or_default()
    }
}

/// A path relative to the root, rewritten in place for each file.
#[derive(Debug, Clone)]
pub struct Name {
    tree: Tree,
    spelling: NameFormat,
    letter: u8,
    bytes: Vec<u8>,
    /// Offset of the last part of the path.
    start: usize,
    /// Files of the directory that the path leads to: the first, and their number.
    first_file: u64,
    files: u64,
}

impl Name {
    /// Names of one kind.
    pub fn new(names: Names, kind: Kind) -> Self {
        let Names { tree, spelling } = names;
        // Room for the longest path, so that nothing is allocated later.
        let longest =
            tree.levels as usize * (DIRECTORY_DIGITS + 2) + NUMBERED_NAME_BYTES + spelling.letters_max() + 1;
        let bytes = Vec::with_capacity(longest);
        let (start, first_file, files) = (0, 0, 0);
        let mut name = Self { tree, spelling, letter: kind as u8, bytes, start, first_file, files };
        name.enter(0);
        name
    }

    /// Path of a file. It becomes a part of the loop. There the compiler sees that no call needs a length, and drops the
    /// search for the end.
    #[inline(always)]
    pub fn path_of(&mut self, file: u64) -> &CStr {
        if file.wrapping_sub(self.first_file) >= self.files {
            self.enter(file / self.tree.files_per_dir());
        }
        self.spelling.write_name(&mut self.bytes[self.start..], self.letter, file);
        // The first NUL is the one behind the name: `enter` or the spelling wrote it.
        until_nul(&self.bytes)
    }

    /// Name of a file within its directory.
    #[inline]
    pub fn name_of(&mut self, file: u64) -> &CStr {
        self.path_of(file);
        until_nul(&self.bytes[self.start..])
    }

    /// Path of one of the lowest directories; `.` if the root is the only one.
    pub fn directory(&mut self, dir: u64) -> &CStr {
        self.enter(dir);
        // In a path the directory precedes the file, with a slash between them.
        match self.start.checked_sub(1) {
            Some(slash) => self.bytes[slash] = 0,
            None => self.bytes[..2].copy_from_slice(b".\0"),
        }
        // The buffer no longer holds the path of a file.
        self.files = 0;
        until_nul(&self.bytes)
    }

    #[cold]
    fn enter(&mut self, dir: u64) {
        let per_dir = self.tree.files_per_dir();
        (self.first_file, self.files) = (dir * per_dir, per_dir);
        self.bytes.clear();
        if self.tree.dirs > 1 {
            let fan_out = self.tree.fan_out();
            // The path from the top is the number in base `fan_out`, highest digit first.
            for level in (0..self.tree.levels).rev() {
                let part = dir / fan_out.pow(level) % fan_out;
                self.bytes.push(b'd');
                for shift in (0..DIRECTORY_DIGITS).rev() {
                    self.bytes.push(b"0123456789abcdef"[(part >> (4 * shift) & 15) as usize]);
                }
                self.bytes.push(b'/');
            }
        }
        self.start = self.bytes.len();
        self.bytes.push(self.letter);
        self.bytes.extend_from_slice(&[b'0'; FILE_DIGITS]);
        self.bytes.resize(self.bytes.len() + self.spelling.letters_max() + 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::marker::{NamePattern, RandomSuffix};
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_in_directories_of_tree() {
        for (files, dirs, levels) in [(1000, 1, 1), (1000, 7, 1), (1000, 9, 2), (100, 27, 3), (10, 1000, 2)] {
            let tree = Tree { files, dirs, levels };
            let directories: HashSet<_> = (0..dirs).map(|dir| tree.directory(dir)).collect();
            assert_eq!(directories.len() as u64, dirs);
            let upper = directories.iter().flat_map(|path| {
                path.match_indices('/').map(|(end, _)| path[..end].to_owned()).collect::<Vec<_>>()
            });
            let all: HashSet<_> =
                upper.chain(directories.iter().cloned()).filter(|path| !path.is_empty()).collect();
            assert_eq!(tree.directories(), all.len() as u64, "{tree:?}");
            assert!(all.iter().all(|path| path.split('/').all(|name| is_directory(name.as_bytes()))));
            let mut name = Name::new(tree.plain(), Kind::File);
            let mut seen = HashSet::new();
            // Backwards, then forwards: the cached directory must follow.
            for file in (0..files).rev().chain(0..files) {
                let path = name.path_of(file).to_str().unwrap().to_owned();
                let (directory, leaf) = path.rsplit_once('/').unwrap_or(("", &path));
                assert!(directories.contains(directory), "{path}");
                assert_eq!(leaf, format!("f{file:08x}"));
                seen.insert(path);
            }
            assert_eq!(seen.len() as u64, files);
            for dir in 0..dirs {
                let path = tree.directory(dir);
                let expected = if path.is_empty() { "." } else { &path };
                assert_eq!(name.directory(dir).to_str(), Ok(expected));
            }
            let first = name.path_of(0).to_str().unwrap();
            assert!(first.ends_with("f00000000"), "a file again: {first}");
        }
    }

    #[test]
    fn file_digits_equal_formatted_hexadecimal() {
        let mut digits = [0; FILE_DIGITS];
        for bit in 0..32 {
            for file in [1 << bit, 0x0123_4567_89ab_cdef >> bit, !(1 << bit)] {
                write_digits(&mut digits, file);
                assert_eq!(digits, format!("{:08x}", file as u32).as_bytes());
            }
        }
    }

    #[test]
    fn text_ends_at_first_nul() {
        for (bytes, expected) in [(&b"a\0"[..], c"a"), (b"a\0b\0", c"a"), (b"a\0b", c""), (b"", c"")] {
            assert_eq!(until_nul(bytes), expected);
        }
    }

    #[test]
    fn building_paths_does_not_grow_the_name_buffer() {
        fn check(spelling: NameFormat) {
            let tree = Tree { files: 1 << 20, dirs: 1000, levels: 3 };
            let mut name = Name::new(Names { tree, spelling }, Kind::Link);
            let capacity = name.bytes.capacity();
            for file in (0..1 << 20).step_by(777) {
                name.path_of(file);
            }
            assert_eq!(name.bytes.capacity(), capacity);
        }
        check(NameFormat::Plain);
        check(NameFormat::NumberFirst { seed: 7 });
        check(NameFormat::LettersFirst { seed: 7 });
    }

    /// Names of the first files. The rule for `clean` produces each of them, and no other kind can have them.
    fn spelled(spelling: NameFormat, letters: Option<RandomSuffix>, count: u64) -> Vec<String> {
        let rule = NamePattern::files(Kind::File.letter(), FILE_DIGITS, count).with_letters(letters);
        let names = Names { tree: Tree { files: count, dirs: 3, levels: 2 }, spelling };
        let mut name = Name::new(names, Kind::File);
        let mut leaf = |file| {
            let leaf = name.name_of(file).to_str().unwrap().to_owned();
            assert_eq!(name.path_of(file).to_str().unwrap().rsplit_once('/').unwrap().1, leaf);
            leaf
        };
        // Backwards first: no rest of a longer name may show in a shorter one.
        let backwards: Vec<_> = (0..count).rev().map(&mut leaf).collect();
        let leaves: Vec<_> = (0..count).map(leaf).collect();
        assert!(leaves.iter().eq(backwards.iter().rev()));
        for leaf in &leaves {
            assert!(rule.produces(leaf.as_bytes()), "{leaf}");
            assert!(spelling.can_be(leaf.as_bytes(), Kind::File), "{leaf}");
            assert!(!spelling.can_be(leaf.as_bytes(), Kind::Renamed), "{leaf}");
        }
        leaves
    }

    #[test]
    fn random_letters_depend_on_seed_not_on_position() {
        const COUNT: u64 = 5000;
        let plain = spelled(NameFormat::Plain, None, COUNT);
        let (after, before) = (Some(RandomSuffix::After(12)), Some(RandomSuffix::Before(12)));
        let number_first = spelled(NameFormat::NumberFirst { seed: 7 }, after, COUNT);
        let letters_first = spelled(NameFormat::LettersFirst { seed: 7 }, before, COUNT);
        let mut lengths = HashSet::new();
        let mut letters_seen = HashSet::new();
        for ((plain, first), last) in plain.iter().zip(&number_first).zip(&letters_first) {
            let letters = first.strip_prefix(plain.as_str()).unwrap();
            assert_eq!(last, &format!("{letters}{plain}"), "the same letters at either end");
            lengths.insert(letters.len());
            letters_seen.extend(letters.bytes());
        }
        assert_eq!((lengths.len(), letters_seen.len()), (13, 62), "every length and every letter");
        assert_eq!(number_first.iter().collect::<HashSet<_>>().len() as u64, COUNT);
        assert_eq!(letters_first.iter().collect::<HashSet<_>>().len() as u64, COUNT);
        assert!(number_first.is_sorted() && !letters_first.is_sorted());
        assert_ne!(number_first, spelled(NameFormat::NumberFirst { seed: 8 }, after, COUNT));
    }

    #[test]
    fn foreign_file_names_are_rejected() {
        for name in
            ["", ".", "..", ".nfs0001", "notes.txt", "file-copy", "f0000000g", "f000000010", "F00000000"]
        {
            assert!(!NameFormat::Plain.can_be(name.as_bytes(), Kind::File), "{name}");
        }
        for name in ["f0000000", "f0000000x", ".f00000000", "f00000000.", "f000000000123456789abc"] {
            assert!(!NameFormat::NumberFirst { seed: 1 }.can_be(name.as_bytes(), Kind::File), "{name}");
            assert!(!NameFormat::LettersFirst { seed: 1 }.can_be(name.as_bytes(), Kind::File), "{name}");
        }
    }

    #[test]
    fn relative_link_target_is_correct_from_every_directory() {
        for (dirs, levels, expected) in
            [(1, 3, "f00000000"), (2, 1, "../d00000/f00000000"), (4, 2, "../../d00000/d00000/f00000000")]
        {
            let names = Tree { files: 100, dirs, levels }.plain();
            assert_eq!(names.path_from_lowest(0).to_str(), Ok(expected));
            assert!(expected.ends_with(names.path(0).to_str().unwrap()));
        }
    }
}
