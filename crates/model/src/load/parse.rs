//! Reads the text of a load file line by line.

use super::tree::{Tree, shortened};
use super::{
    Call, Change, Expected, HANDLES_MAX, LeftOut, Load, Offset, Operation, PART_BYTES_MAX, Part, PartOffset,
    digest,
};
use crate::size;

/// Most distinct words that are listed among skipped lines.
const WORDS_MAX: usize = 50;
/// Most words of a line. The longest operation has eight.
const ARGUMENTS_MAX: usize = 20;

/// Options of `NTCreateX`: the path is one of a directory.
const DIRECTORY_FILE: u64 = 1;
/// Dispositions of `NTCreateX` by which dbench makes a missing file: create, overwrite, overwrite if it is there.
const CREATE_DISPOSITIONS: [u64; 3] = [2, 4, 5];
/// Dispositions by which it truncates a file.
const TRUNCATE_DISPOSITIONS: [u64; 2] = [4, 5];

/// Lines that direct what dbench does, and that no replay follows.
const IGNORED_OPERATIONS: [&str; 4] = ["SETSP", "WAITSP", "WRITEPATTERN", "RANDOMSTRING"];

/// Reads a load file.
pub(super) fn parse(text: &str) -> Result<Load, String> {
    let mut parser = Parser::new();
    for (index, line) in text.lines().enumerate() {
        let number = index as u64 + 1;
        if number > u64::from(u32::MAX) {
            return Err("it has too many lines".into());
        }
        parser.lines = number;
        parser.line(line).map_err(|problem| format!("line {number}: {problem}"))?;
    }
    parser.finish(text)
}

/// State between two lines.
struct Parser<'a> {
    lines: u64,
    tree: Tree<'a>,
    calls: Vec<Call>,
    line_of: Vec<u32>,
    due_ns: Vec<u64>,
    has_times: bool,
    offsets: Vec<Offset>,
    /// Open handles, each with its path, by their slots in dbench's table.
    table: Vec<Option<(u64, u32)>>,
    slots_used: usize,
    /// Times that the next operation is made.
    repeat_count: u32,
    open_loop: Option<Loop>,
    operations: u64,
    written_bytes: u64,
    read_part_bytes: u64,
    written_part_bytes: u64,
    left_out: Vec<LeftOut>,
}

/// A loop whose end has not come yet.
struct Loop {
    line: u64,
    start: usize,
    turns: u32,
    table: Vec<Option<(u64, u32)>>,
    operations: u64,
    written_bytes: u64,
}

impl<'a> Parser<'a> {
    fn new() -> Self {
        Self {
            lines: 0,
            tree: Tree::new(),
            calls: Vec::new(),
            line_of: Vec::new(),
            due_ns: Vec::new(),
            has_times: false,
            offsets: Vec::new(),
            table: Vec::new(),
            slots_used: 0,
            repeat_count: 1,
            open_loop: None,
            operations: 0,
            written_bytes: 0,
            read_part_bytes: 0,
            written_part_bytes: 0,
            left_out: Vec::new(),
        }
    }

    fn line(&mut self, line: &'a str) -> Result<(), String> {
        let mut words = [""; ARGUMENTS_MAX];
        let mut count = 0;
        let mut rest = line;
        while let Some((word, behind)) = next_word(rest)? {
            let place = words.get_mut(count).ok_or("it has too many words")?;
            (*place, rest, count) = (word, behind, count + 1);
        }
        let words = &words[..count];
        let Some(first) = words.first().filter(|first| !first.starts_with('#')) else { return Ok(()) };
        if first.starts_with("SMB") {
            return Err("load files of dbench 1 are not supported; use one of version 4".into());
        }
        if self.parse_directive(words)? {
            return Ok(());
        }
        let (due_ns, words) = match first.starts_with(|first: char| first.is_ascii_digit()) {
            true => (seconds(first)?, &words[1..]),
            false => (0, words),
        };
        let [operation, arguments @ .., status] = words else {
            return Err(format!("`{}` is not an operation with a status", shortened(line.trim())));
        };
        let expected = expected(status).ok_or_else(|| {
            format!("`{}` is not a status: each line ends with one, such as NT_STATUS_OK", shortened(status))
        })?;
        self.operation(operation, Arguments(arguments), expected, due_ns)
    }

    /// Reads a line that directs others; returns false for any other line.
    fn parse_directive(&mut self, words: &[&'a str]) -> Result<bool, String> {
        let first = words[0];
        let number = || {
            let text = words.get(1).copied().unwrap_or_default();
            let number = integer(text).filter(|_| words.len() == 2);
            number.ok_or_else(|| format!("use {first} N, with a whole number"))
        };
        let times = || match number()? {
            times @ 1..=0xffff_ffff => Ok(times as u32),
            times => Err(format!("{first} {times} is out of range")),
        };
        match first {
            "LOOP" => {
                if let Some(Loop { line, .. }) = self.open_loop {
                    return Err(format!("it is inside the loop of line {line}, and loops cannot be nested"));
                }
                self.open_loop = Some(Loop {
                    line: self.lines,
                    start: self.calls.len(),
                    turns: times()?,
                    table: self.table.clone(),
                    operations: self.operations,
                    written_bytes: self.written_bytes,
                });
            }
            "ENDLOOP" => self.end_loop()?,
            "REPEAT" => self.repeat_count = times()?,
            "SLEEP" => {
                let sleep_ns = number()?.checked_mul(1000).ok_or("that is too long")?;
                self.push(Operation::Sleep(sleep_ns), Expected::Any, 0);
            }
            word if IGNORED_OPERATIONS.contains(&word) => self.leave_out(word),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn end_loop(&mut self) -> Result<(), String> {
        let Some(ended) = self.open_loop.take() else { return Err("there is no LOOP before it".into()) };
        let Loop { start, turns, table, operations, written_bytes, .. } = ended;
        // Each turn must find the same open handles as the first one.
        let handles = |table: &[Option<(u64, u32)>]| {
            let handle = |open: &Option<(u64, u32)>| open.map(|(handle, _)| handle);
            let mut handles: Vec<_> = table.iter().map(handle).collect();
            while handles.last() == Some(&None) {
                handles.pop();
            }
            handles
        };
        if handles(&table) != handles(&self.table) {
            return Err("its loop changes the set of open handles; close what it opens".into());
        }
        let turned =
            |now: u64, before: u64| before.saturating_add((now - before).saturating_mul(turns.into()));
        if self.operations == operations {
            // A loop that only waits is one long wait, and one without anything is none.
            let slept_ns = self.calls[start..].iter().fold(0, |sum: u64, call| match call.operation {
                Operation::Sleep(sleep_ns) => sum.saturating_add(sleep_ns),
                _ => sum,
            });
            self.calls.truncate(start);
            self.line_of.truncate(start);
            self.due_ns.truncate(start);
            if slept_ns > 0 {
                let sleep_ns = slept_ns.checked_mul(turns.into()).ok_or("the wait is too long")?;
                self.push(Operation::Sleep(sleep_ns), Expected::Any, 0);
            }
            return Ok(());
        }
        self.operations = turned(self.operations, operations);
        self.written_bytes = turned(self.written_bytes, written_bytes);
        self.push(Operation::EndLoop { start: start as u32, turns }, Expected::Any, 0);
        Ok(())
    }

    fn push(&mut self, operation: Operation, expected: Expected, due_ns: u64) {
        self.calls.push(Call { operation, expected });
        self.line_of.push(self.lines as u32);
        self.due_ns.push(due_ns);
        self.has_times |= due_ns > 0;
    }

    fn leave_out(&mut self, word: &str) {
        let word = shortened(word);
        let known = self.left_out.iter().position(|known| known.word == word);
        match known {
            Some(known) => self.left_out[known].lines += 1,
            None if self.left_out.len() < WORDS_MAX => {
                self.left_out.push(LeftOut { word, lines: 1, first_line: self.lines });
            }
            // The last entry counts all further words.
            None => {
                if let Some(last) = self.left_out.last_mut() {
                    (last.word, last.lines) = ("others".into(), last.lines + 1);
                }
            }
        }
    }

    fn operation(
        &mut self,
        word: &str,
        arguments: Arguments<'_, 'a>,
        expected: Expected,
        due_ns: u64,
    ) -> Result<(), String> {
        let repeat_count = std::mem::replace(&mut self.repeat_count, 1);
        let step = Operation::STEPS.iter().position(|known| known.eq_ignore_ascii_case(word));
        let Some(step) = step else {
            self.leave_out(word);
            return Ok(());
        };
        let name = Operation::STEPS[step];
        if repeat_count > 1 && matches!(name, "NTCreateX" | "Close") {
            return Err(format!("a handle cannot be opened or closed {repeat_count} times; drop REPEAT"));
        }
        if repeat_count > 1 {
            self.push(Operation::Repeat(repeat_count), Expected::Any, 0);
        }
        let operation = self.read(name, arguments, expected, repeat_count)?;
        self.operations = self.operations.saturating_add(repeat_count.into());
        self.push(operation, expected, due_ns);
        Ok(())
    }

    fn read(
        &mut self,
        name: &'static str,
        arguments: Arguments<'_, 'a>,
        expected: Expected,
        repeat_count: u32,
    ) -> Result<Operation, String> {
        let succeeds = expected == Expected::Success;
        Ok(match name {
            "NTCreateX" => self.open(&arguments, expected)?,
            "Close" => {
                let slot = self.slot(&arguments)?;
                self.table[slot as usize] = None;
                Operation::Close(slot)
            }
            "ReadX" => {
                let part = self.part(&arguments)?;
                self.read_part_bytes = self.read_part_bytes.max(part.bytes.into());
                Operation::Read(part)
            }
            "WriteX" => {
                let part = self.part(&arguments)?;
                let moved = u64::from(part.bytes).saturating_mul(repeat_count.into());
                self.written_part_bytes = self.written_part_bytes.max(part.bytes.into());
                self.written_bytes = self.written_bytes.saturating_add(moved);
                self.reach(part, moved);
                Operation::Write(part)
            }
            "Flush" => Operation::Flush(self.slot(&arguments)?),
            "LockX" => Operation::Lock(self.lock(&arguments)?),
            "UnlockX" => Operation::Unlock(self.lock(&arguments)?),
            "Unlink" => {
                let path = self.path(&arguments, 0)?;
                if succeeds {
                    self.tree.empty(path);
                }
                Operation::Unlink(path)
            }
            "Rename" => {
                let (from, to) = (self.path(&arguments, 0)?, self.path(&arguments, 1)?);
                self.tree.note_rename(from, to, self.lines);
                if succeeds {
                    self.tree.rename(from, to);
                }
                Operation::Rename { from, to }
            }
            "Mkdir" => Operation::Mkdir(self.directory(&arguments)?),
            "Rmdir" => Operation::Rmdir(self.directory(&arguments)?),
            "Deltree" => {
                let path = self.directory(&arguments)?;
                self.tree.remove_tree(path);
                Operation::Deltree(path)
            }
            "FIND_FIRST" => {
                let path = self.path(&arguments, 0)?;
                let most = arguments.number(2, "the most entries")?;
                let is_pattern = arguments.word(0, "the pattern")?.contains(['<', '>', '*', '?', '"']);
                let entries = is_pattern.then_some(u32::try_from(most).unwrap_or(u32::MAX));
                Operation::Find { path, entries }
            }
            "QUERY_PATH_INFORMATION" => Operation::QueryPath(self.path(&arguments, 0)?),
            "QUERY_FILE_INFORMATION" => Operation::QueryFile(self.slot(&arguments)?),
            "QUERY_FS_INFORMATION" => Operation::QueryFs,
            _ => {
                let slot = self.slot(&arguments)?;
                let path = self.table[slot as usize].map_or(0, |(_, path)| path);
                Operation::SetFile { slot, path }
            }
        })
    }

    fn open(&mut self, arguments: &Arguments<'_, 'a>, expected: Expected) -> Result<Operation, String> {
        let path = self.path(arguments, 0)?;
        let options = arguments.number(1, "the options")?;
        let disposition = arguments.number(2, "the disposition")?;
        let handle = arguments.number(3, "the handle")?;
        let is_directory = options & DIRECTORY_FILE != 0;
        let (creates_file, truncates_file) =
            (CREATE_DISPOSITIONS.contains(&disposition), TRUNCATE_DISPOSITIONS.contains(&disposition));
        if is_directory {
            self.tree.use_as_directory(path, self.lines);
        } else if creates_file && expected == Expected::Success {
            self.tree.use_as_file(path, self.lines);
        }
        if truncates_file && expected == Expected::Success {
            self.tree.empty(path);
        }
        let slot = match expected {
            Expected::Success => Some(self.allocate_slot(handle, path)?),
            Expected::Failure | Expected::Any => None,
        };
        Ok(Operation::Open { path, slot, creates_file, truncates_file, is_directory })
    }

    /// Returns the first free slot for a handle, as dbench chooses it.
    fn allocate_slot(&mut self, handle: u64, path: u32) -> Result<u32, String> {
        let free = self.table.iter().position(Option::is_none);
        let place = free.unwrap_or(self.table.len());
        if place == HANDLES_MAX {
            return Err(format!("more than {HANDLES_MAX} handles are open"));
        }
        if place == self.table.len() {
            self.table.push(None);
        }
        self.table[place] = Some((handle, path));
        self.slots_used = self.slots_used.max(self.table.len());
        Ok(place as u32)
    }

    /// Returns the slot of the handle, which is the first argument.
    fn slot(&self, arguments: &Arguments<'_, 'a>) -> Result<u32, String> {
        let handle = arguments.number(0, "the handle")?;
        let is_it = |open: &Option<(u64, u32)>| open.is_some_and(|(known, _)| known == handle);
        let place = self.table.iter().position(is_it);
        place.map(|place| place as u32).ok_or_else(|| format!("handle {handle} is not open here"))
    }

    fn path(&mut self, arguments: &Arguments<'_, 'a>, at: usize) -> Result<u32, String> {
        self.tree.path(arguments.word(at, "the path")?, self.lines)
    }

    fn directory(&mut self, arguments: &Arguments<'_, 'a>) -> Result<u32, String> {
        let path = self.path(arguments, 0)?;
        self.tree.use_as_directory(path, self.lines);
        Ok(path)
    }

    /// Reads handle, offset, length and the bytes that were moved.
    fn part(&mut self, arguments: &Arguments<'_, 'a>) -> Result<Part, String> {
        let slot = self.slot(arguments)?;
        let at = self.offset(arguments.word(1, "the offset")?)?;
        let (bytes, moved) = (arguments.number(2, "the length")?, arguments.number(3, "the bytes moved")?);
        if bytes > PART_BYTES_MAX || moved > bytes {
            return Err(format!(
                "{moved} of {bytes} bytes: the first is at most the second, and both are at most {}",
                size::binary(PART_BYTES_MAX)
            ));
        }
        Ok(Part { slot, at, bytes: bytes as u32, moved: moved as u32 })
    }

    fn lock(&mut self, arguments: &Arguments<'_, 'a>) -> Result<Part, String> {
        let slot = self.slot(arguments)?;
        let at = self.offset(arguments.word(1, "the offset")?)?;
        let bytes = u32::try_from(arguments.number(2, "the length")?);
        let bytes = bytes.map_err(|_| "the length does not fit into 32 bits")?;
        Ok(Part { slot, at, bytes, moved: 0 })
    }

    fn offset(&mut self, word: &str) -> Result<PartOffset, String> {
        let refused = || format!("`{}` is not an offset", shortened(word));
        let found = match word.as_bytes().first() {
            Some(b'+') => match &word[1..] {
                "child" => Offset::RelativeByClientNumber,
                "num_children" => Offset::RelativeByClientCount,
                further => Offset::RelativeBytes(integer(further).ok_or_else(refused)?),
            },
            Some(b'*') => Offset::Random(changes(&word[1..]).ok_or_else(refused)?),
            _ => {
                let fixed = integer(word).filter(|at| *at <= i64::MAX as u64 - PART_BYTES_MAX);
                return fixed.map(PartOffset::Fixed).ok_or_else(refused);
            }
        };
        let number = match self.offsets.iter().rposition(|known| *known == found) {
            Some(known) if self.offsets.len() - known <= WORDS_MAX => known,
            _ => {
                self.offsets.push(found);
                self.offsets.len() - 1
            }
        };
        u32::try_from(number).map(PartOffset::Found).map_err(|_| "there are too many random offsets".into())
    }

    /// Notes how far a write reaches.
    fn reach(&mut self, part: Part, moved_bytes: u64) {
        let Some((_, path)) = self.table[part.slot as usize] else { return };
        match part.at {
            PartOffset::Fixed(at) => self.tree.reach(path, at.saturating_add(part.bytes.into())),
            PartOffset::Found(_) => {
                let turns = self.open_loop.as_ref().map_or(1, |open| open.turns);
                self.tree.grow_at_unknown_offset(path, moved_bytes.saturating_mul(turns.into()));
            }
        }
    }

    fn finish(self, text: &str) -> Result<Load, String> {
        if let Some(Loop { line, .. }) = self.open_loop {
            return Err(format!("line {line}: this loop has no ENDLOOP"));
        }
        if self.operations == 0 {
            let words: Vec<_> = self.left_out.iter().map(|left| left.word.as_str()).collect();
            return Err(match words.is_empty() {
                true => "it has no operation; use a load file of dbench 4".into(),
                false => format!("it has only unknown operations: {}", words.join(", ")),
            });
        }
        // Where no offset is drawn, the same ones come in each pass.
        let draws = self.offsets.iter().any(|offset| matches!(offset, Offset::Random(_)));
        let growth_bytes = if draws { self.tree.untruncated_bytes() } else { 0 };
        let numbered = self.tree.numbered()?;
        let calls = self.calls.into_iter();
        // A path that is a directory is never created as a file.
        let settled = calls.map(|mut call| {
            if let Operation::Open { path, creates_file, truncates_file, .. } = &mut call.operation
                && numbered.nodes[*path as usize].is_directory
            {
                (*creates_file, *truncates_file) = (false, false);
            }
            call
        });
        Ok(Load {
            lines: self.lines,
            digest: digest(text),
            calls: settled.collect(),
            line_of: self.line_of.into(),
            due_ns: if self.has_times { self.due_ns.into() } else { Box::default() },
            offsets: self.offsets.into(),
            nodes: numbered.nodes,
            files: numbered.files,
            dirs: numbered.dirs,
            levels: numbered.levels,
            handles: self.slots_used,
            operations: self.operations,
            written_bytes: self.written_bytes,
            tree_bytes: numbered.bytes_max,
            growth_bytes,
            read_part_bytes: self.read_part_bytes,
            written_part_bytes: self.written_part_bytes,
            left_out: self.left_out,
        })
    }
}

/// Arguments of an operation.
struct Arguments<'w, 'a>(&'w [&'a str]);

impl<'a> Arguments<'_, 'a> {
    fn word(&self, at: usize, meaning: &str) -> Result<&'a str, String> {
        self.0.get(at).copied().ok_or_else(|| format!("{meaning} is missing"))
    }

    fn number(&self, at: usize, meaning: &str) -> Result<u64, String> {
        let word = self.word(at, meaning)?;
        let problem = || format!("{meaning} is `{}`, which is not a whole number", shortened(word));
        integer(word).ok_or_else(problem)
    }
}

/// Returns the next word of a line, without the quotation marks around it, and the rest.
fn next_word(line: &str) -> Result<Option<(&str, &str)>, String> {
    let line = line.trim_start();
    if let Some(quoted) = line.strip_prefix('"') {
        return match quoted.split_once('"') {
            Some(found) => Ok(Some(found)),
            None => Err("a quotation mark is not closed".into()),
        };
    }
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    Ok((end > 0).then(|| line.split_at(end)))
}

/// Returns a number as C has it: decimal, `0x` hexadecimal, or octal with a leading zero.
fn integer(text: &str) -> Option<u64> {
    let is_number = text.starts_with(|first: char| first.is_ascii_digit());
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match (digits, text.strip_prefix('0').filter(|rest| !rest.is_empty())) {
        _ if !is_number => None,
        (Some(digits), _) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        (None, Some(digits)) if !digits.starts_with('+') => u64::from_str_radix(digits, 8).ok(),
        (None, None) => text.parse().ok(),
        _ => None,
    }
}

/// Returns a time in seconds as nanoseconds.
fn seconds(text: &str) -> Result<u64, String> {
    let known = text.parse::<f64>().ok().filter(|seconds| (0.0..1e9).contains(seconds));
    let seconds = known.ok_or_else(|| format!("`{}` is not a time in seconds", shortened(text)))?;
    Ok((seconds * 1e9).round() as u64)
}

/// Returns the changes to a random number, such as `%1024/2`; `None` if they are not understood.
fn changes(text: &str) -> Option<Box<[Change]>> {
    let mut changes = Vec::new();
    let mut rest = text;
    while let Some(kind) = rest.chars().next() {
        let behind = rest.get(1..)?;
        let end = behind.find(['%', '/', '+']).unwrap_or(behind.len());
        let operand = integer(&behind[..end]).filter(|operand| *operand > 0)?;
        changes.push(match kind {
            '%' => Change::Modulo(operand),
            '/' => Change::Multiple(operand),
            '+' => Change::Plus(operand),
            _ => return None,
        });
        rest = &behind[end..];
    }
    Some(changes.into())
}

/// Returns the end that a status stands for; `None` if it is no status.
fn expected(status: &str) -> Option<Expected> {
    let code = |digits: &str| u32::from_str_radix(digits, 16).ok();
    match status {
        "NT_STATUS_OK" => Some(Expected::Success),
        "*" => Some(Expected::Any),
        _ if status.starts_with("NT_STATUS_") || status.starts_with("ERROR") => Some(Expected::Failure),
        _ if status.starts_with("SUCCESS") => Some(Expected::Success),
        _ => match code(status.strip_prefix("0x")?)? {
            0 => Some(Expected::Success),
            _ => Some(Expected::Failure),
        },
    }
}
