//! Names of files, computed without formatting: a letter for what it is and eight hexadecimal digits for which.

use std::ffi::CStr;

/// Hexadecimal digits of a file's number.
pub const FILE_DIGITS: usize = 8;
/// Hexadecimal digits of a directory's number.
pub const DIRECTORY_DIGITS: usize = 5;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A file of the set.
    File = b'f',
    /// The same file under the name that it is renamed to.
    Renamed = b'r',
    /// A hard link to it.
    Link = b'l',
    /// A symbolic link to it.
    Symlink = b's',
    /// A directory made by `mkdir`.
    Directory = b'm',
    /// A name that is never made.
    Missing = b'x',
}

impl Kind {
    /// The letter that names of this kind begin with.
    pub const fn letter(self) -> char {
        self as u8 as char
    }
}

/// How a set of files is spread over directories below the one whose descriptor is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree {
    /// Files of the set.
    pub files: u64,
    /// Directories at the lowest level; 1 means that files lie directly in the directory that is held.
    pub dirs: u64,
    /// Levels of directories.
    pub levels: u32,
}

impl Tree {
    /// Files in each of the lowest directories; the last may hold fewer.
    pub fn files_per_dir(&self) -> u64 {
        self.files.div_ceil(self.dirs.max(1)).max(1)
    }

    /// Directories in each directory of the upper levels: the smallest fan-out that makes enough at the lowest.
    pub fn fan_out(&self) -> u64 {
        let root = (self.dirs as f64).powf(1.0 / f64::from(self.levels.max(1)));
        // Floating-point roots of perfect powers may lie just above the whole number.
        let mut fan_out = (root.floor() as u64).max(1);
        while fan_out.checked_pow(self.levels).is_some_and(|leaves| leaves < self.dirs) {
            fan_out += 1;
        }
        fan_out
    }

    /// Path of one of the lowest directories, without a slash at the end; empty if there is only the one held.
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

/// A path relative to the directory that is held, rewritten in place for each file.
#[derive(Debug, Clone)]
pub struct Name {
    tree: Tree,
    letter: u8,
    bytes: Vec<u8>,
    /// Where the letter stands.
    start: usize,
    first_file: u64,
    end_file: u64,
}

impl Name {
    /// Names of a kind in a tree.
    pub fn new(tree: Tree, kind: Kind) -> Self {
        // Room for the longest path, so that nothing is allocated later.
        let longest = tree.levels as usize * (DIRECTORY_DIGITS + 2) + FILE_DIGITS + 2;
        let bytes = Vec::with_capacity(longest);
        let mut name = Self { tree, letter: kind as u8, bytes, start: 0, first_file: 0, end_file: 0 };
        name.enter(0);
        name
    }

    /// The path of a file.
    #[inline]
    pub fn of(&mut self, file: u64) -> &CStr {
        if file < self.first_file || file >= self.end_file {
            self.enter(file / self.tree.files_per_dir());
        }
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digits = &mut self.bytes[self.start + 1..self.start + 1 + FILE_DIGITS];
        let mut rest = file as u32;
        for digit in digits.iter_mut().rev() {
            *digit = DIGITS[(rest & 15) as usize];
            rest >>= 4;
        }
        // The last byte is the NUL that `enter` put there, and no other is one.
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    /// The name of a file within its directory.
    #[inline]
    pub fn leaf_of(&mut self, file: u64) -> &CStr {
        self.of(file);
        CStr::from_bytes_until_nul(&self.bytes[self.start..]).unwrap_or_default()
    }

    /// The path of one of the lowest directories; `.` if there is only the one held.
    pub fn directory(&mut self, dir: u64) -> &CStr {
        self.enter(dir);
        // Directories lie above files in a path, and a slash between.
        match self.start.checked_sub(1) {
            Some(slash) => self.bytes[slash] = 0,
            None => self.bytes[..2].copy_from_slice(b".\0"),
        }
        // What stands there now is no file's path.
        self.end_file = 0;
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }

    #[cold]
    fn enter(&mut self, dir: u64) {
        let per_dir = self.tree.files_per_dir();
        (self.first_file, self.end_file) = (dir * per_dir, (dir + 1) * per_dir);
        self.bytes.clear();
        if self.tree.dirs > 1 {
            let fan_out = self.tree.fan_out();
            // The path from the top is the number's digits in base `fan_out`, the highest first.
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
        self.bytes.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_lie_in_directories_of_the_tree() {
        for (files, dirs, levels) in [(1000, 1, 1), (1000, 7, 1), (1000, 9, 2), (100, 27, 3), (10, 1000, 2)] {
            let tree = Tree { files, dirs, levels };
            let directories: HashSet<_> = (0..dirs).map(|dir| tree.directory(dir)).collect();
            assert_eq!(directories.len() as u64, dirs);
            let mut name = Name::new(tree, Kind::File);
            let mut seen = HashSet::new();
            // Backwards and forwards: the cached directory must follow.
            for file in (0..files).rev().chain(0..files) {
                let path = name.of(file).to_str().unwrap().to_owned();
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
            let first = name.of(0).to_str().unwrap();
            assert!(first.ends_with("f00000000"), "a file again: {first}");
        }
    }

    #[test]
    fn names_allocate_nothing_after_they_are_made() {
        let mut name = Name::new(Tree { files: 1 << 20, dirs: 1000, levels: 3 }, Kind::Link);
        let capacity = name.bytes.capacity();
        for file in (0..1 << 20).step_by(777) {
            name.of(file);
        }
        assert_eq!(name.bytes.capacity(), capacity);
    }
}
