//! Names of a load: the tree that they make, the kind of each, and how large the files become.

use std::collections::{BTreeMap, HashMap};

use super::{DIRS_MAX, LEVELS_MAX, NAMES_MAX, Node};

/// Most removals of trees that are followed. Later ones leave the known size as it is, which is then too large.
const REMOVALS_MAX: u32 = 1000;

/// Tree of the names that a load has.
pub(super) struct Tree<'a> {
    places: Vec<PathEntry<'a>>,
    by_name: HashMap<(u32, &'a str), u32>,
    by_path: HashMap<&'a str, u32>,
    bytes: u64,
    bytes_max: u64,
    removals: u32,
    /// Renames by their old and their new path, each with its first line.
    renames: BTreeMap<(u32, u32), u64>,
}

/// A path of the load.
struct PathEntry<'a> {
    parent: u32,
    name: &'a str,
    depth: u32,
    /// Another path of the same kind, as one is renamed to the other; its own number for the last.
    rename_parent: u32,
    /// Line that uses it as a directory.
    directory_line: Option<u64>,
    /// Line that makes a file of it.
    file_line: Option<u64>,
    bytes: u64,
    /// Bytes written at unknown offsets.
    unknown_offset_bytes: u64,
    /// True if a line takes all bytes of the file.
    is_truncated: bool,
}

/// The names with their numbers.
pub(super) struct NameTable {
    pub(super) nodes: Box<[Node]>,
    pub(super) files: u64,
    pub(super) dirs: u64,
    pub(super) levels: u32,
    pub(super) bytes_max: u64,
}

impl<'a> Tree<'a> {
    pub(super) fn new() -> Self {
        let root = PathEntry {
            parent: 0,
            name: "",
            depth: 0,
            rename_parent: 0,
            directory_line: Some(0),
            file_line: None,
            bytes: 0,
            unknown_offset_bytes: 0,
            is_truncated: false,
        };
        Self {
            places: vec![root],
            by_name: HashMap::new(),
            by_path: HashMap::new(),
            bytes: 0,
            bytes_max: 0,
            removals: 0,
            renames: BTreeMap::new(),
        }
    }

    /// Returns the number of a path.
    pub(super) fn path(&mut self, path: &'a str, line: u64) -> Result<u32, String> {
        if let Some(known) = self.by_path.get(path) {
            return Ok(*known);
        }
        if !path.starts_with(['/', '\\']) {
            return Err(format!("`{}` is not a path: a path starts with \\", shortened(path)));
        }
        let mut at = 0;
        for name in path.split(['/', '\\']).filter(|name| !name.is_empty() && *name != ".") {
            if name == ".." {
                return Err(format!("`{}` is outside the client's directory", shortened(path)));
            }
            self.use_as_directory(at, line);
            let depth = self.places[at as usize].depth + 1;
            if depth > LEVELS_MAX {
                return Err(format!("`{}` has more than {LEVELS_MAX} levels", shortened(path)));
            }
            let next = self.places.len() as u32;
            let found = *self.by_name.entry((at, name)).or_insert(next);
            if found == next {
                if u64::from(next) >= NAMES_MAX {
                    return Err(format!("the load has more than {NAMES_MAX} names"));
                }
                self.places.push(PathEntry {
                    parent: at,
                    name,
                    depth,
                    rename_parent: next,
                    directory_line: None,
                    file_line: None,
                    bytes: 0,
                    unknown_offset_bytes: 0,
                    is_truncated: false,
                });
            }
            at = found;
        }
        self.by_path.insert(path, at);
        Ok(at)
    }

    /// Returns the representative of all paths of the same kind.
    fn group(&mut self, mut place: u32) -> usize {
        while self.places[place as usize].rename_parent != place {
            let above = self.places[self.places[place as usize].rename_parent as usize].rename_parent;
            self.places[place as usize].rename_parent = above;
            place = above;
        }
        place as usize
    }

    /// Notes that a path is one of a directory.
    pub(super) fn use_as_directory(&mut self, place: u32, line: u64) {
        let group = self.group(place);
        self.places[group].directory_line.get_or_insert(line);
    }

    /// Notes that a path is one of a file.
    pub(super) fn use_as_file(&mut self, place: u32, line: u64) {
        let group = self.group(place);
        self.places[group].file_line.get_or_insert(line);
    }

    /// Notes that what one path names may come to have another.
    pub(super) fn note_rename(&mut self, from: u32, to: u32, line: u64) {
        self.renames.entry((from, to)).or_insert(line);
        let (kept, joined) = (self.group(from), self.group(to));
        if kept == joined {
            return;
        }
        let PathEntry { directory_line, file_line, .. } = self.places[joined];
        self.places[joined].rename_parent = kept as u32;
        let kept = &mut self.places[kept];
        kept.directory_line = kept.directory_line.or(directory_line);
        kept.file_line = kept.file_line.or(file_line);
    }

    /// Lets a file reach so far at least.
    pub(super) fn reach(&mut self, place: u32, end_bytes: u64) {
        let has = self.places[place as usize].bytes;
        self.grow(place, end_bytes.saturating_sub(has));
    }

    /// Adds bytes to a file at unknown offsets. All of them may be new.
    pub(super) fn grow_at_unknown_offset(&mut self, place: u32, bytes: u64) {
        self.grow(place, bytes);
        let unknown_offset_bytes = &mut self.places[place as usize].unknown_offset_bytes;
        *unknown_offset_bytes = unknown_offset_bytes.saturating_add(bytes);
    }

    /// Returns the bytes at such offsets in files that no line empties.
    pub(super) fn untruncated_bytes(&self) -> u64 {
        let kept =
            self.places.iter().filter(|place| !place.is_truncated).map(|place| place.unknown_offset_bytes);
        kept.fold(0, u64::saturating_add)
    }

    /// Adds bytes to a file.
    fn grow(&mut self, place: u32, bytes: u64) {
        let place = &mut self.places[place as usize];
        let grown = place.bytes.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(grown - place.bytes);
        place.bytes = grown;
        self.bytes_max = self.bytes_max.max(self.bytes);
    }

    /// Takes all bytes of a file.
    pub(super) fn empty(&mut self, place: u32) -> u64 {
        let of_place = &mut self.places[place as usize];
        of_place.is_truncated = true;
        let taken = std::mem::take(&mut of_place.bytes);
        self.bytes = self.bytes.saturating_sub(taken);
        taken
    }

    /// Lets a path have the file of another.
    pub(super) fn rename(&mut self, from: u32, to: u32) {
        if from != to {
            self.empty(to);
            let bytes = self.empty(from);
            self.grow(to, bytes);
        }
    }

    /// Takes all files below a directory.
    pub(super) fn remove_tree(&mut self, top: u32) {
        self.removals += 1;
        if self.removals > REMOVALS_MAX {
            return;
        }
        let mut is_below = vec![false; self.places.len()];
        for place in 0..self.places.len() {
            // A directory precedes all that lies in it.
            is_below[place] = place == top as usize || is_below[self.places[place].parent as usize];
            if is_below[place] {
                self.empty(place as u32);
            }
        }
    }

    /// Returns the levels of directories that can be there. A renamed directory takes those below it along.
    fn levels(&self, nodes: &[Node]) -> Result<u32, String> {
        // Levels of each directory with itself, and those of them that a rename can bring.
        let mut heights: Vec<_> = nodes.iter().map(|node| u32::from(node.is_directory)).collect();
        let mut brought = vec![0; nodes.len()];
        // A directory precedes all that lies in it.
        let raise = |heights: &mut [u32]| {
            for (place, node) in nodes.iter().enumerate().skip(1).rev() {
                let parent = node.parent as usize;
                heights[parent] = heights[parent].max(heights[place] + 1);
            }
        };
        raise(&mut heights);
        let is_below = |mut place: u32, top: u32| {
            while place > top {
                place = nodes[place as usize].parent;
            }
            place == top
        };
        // The kernel moves no directory into itself.
        let moves = |from: u32, to: u32| nodes[from as usize].is_directory && !is_below(to, from);
        let renames: Vec<_> = self.renames.iter().filter(|((from, to), _)| moves(*from, *to)).collect();
        loop {
            let mut is_settled = true;
            for ((from, to), line) in &renames {
                let (height, to) = (heights[*from as usize], *to as usize);
                if height <= brought[to] {
                    continue;
                }
                (brought[to], is_settled) = (height, false);
                let PathEntry { depth, name, .. } = self.places[to];
                if depth + height > LEVELS_MAX + 1 {
                    return Err(format!(
                        "line {line}: renames can nest directories in `{}` more than {LEVELS_MAX} levels deep",
                        shortened(name)
                    ));
                }
            }
            if is_settled {
                // The root is no level.
                return Ok(heights[0] - 1);
            }
            for (place, node) in nodes.iter().enumerate().skip(1).filter(|(_, node)| node.is_directory) {
                // A subtree moved here may be moved again from here.
                brought[place] = brought[place].max(brought[node.parent as usize].saturating_sub(1));
                heights[place] = heights[place].max(brought[place]);
            }
            raise(&mut heights);
        }
    }

    /// Gives each name its number.
    pub(super) fn numbered(mut self) -> Result<NameTable, String> {
        let (mut files, mut dirs) = (HashMap::new(), HashMap::new());
        let mut nodes = Vec::with_capacity(self.places.len());
        nodes.push(Node { parent: 0, is_directory: true, number: 0 });
        for place in 1..self.places.len() {
            let group = self.group(place as u32);
            let lines = (self.places[group].directory_line, self.places[group].file_line);
            let PathEntry { parent, name, .. } = self.places[place];
            if let (Some(directory), Some(file)) = lines {
                return Err(format!(
                    "line {}: `{}` is a directory in line {} and a file in line {}",
                    directory.max(file),
                    shortened(name),
                    directory,
                    file
                ));
            }
            let is_directory = lines.0.is_some();
            let numbers = if is_directory { &mut dirs } else { &mut files };
            let next = numbers.len() as u32;
            let number = *numbers.entry(name).or_insert(next);
            nodes.push(Node { parent, is_directory, number });
        }
        if dirs.len() as u64 > DIRS_MAX {
            return Err(format!("the load has more than {DIRS_MAX} names of directories"));
        }
        let levels = self.levels(&nodes)?;
        Ok(NameTable {
            nodes: nodes.into(),
            files: files.len() as u64,
            dirs: dirs.len() as u64,
            levels,
            bytes_max: self.bytes_max,
        })
    }
}

/// Returns a name that is short enough for a message.
pub(super) fn shortened(name: &str) -> String {
    const CHARS_MAX: usize = 60;
    match name.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
