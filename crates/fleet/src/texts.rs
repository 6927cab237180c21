//! Texts of clients as the coordinator prints them: harmless to look at, and short, however much a client sends.

use model::printable::printable;

/// Most characters of a text. A path in it may have four times as many, and is rarely a twentieth of that.
const CHARACTERS_MAX: usize = 1000;
/// Most bytes of lines that are printed for a client. An agent says some hundred, and a flood has a fault of another kind.
const BYTES_MAX: usize = 16 << 10;

/// Returns a text that is safe to print. A longer one ends with the number of characters that are left out.
pub(crate) fn short(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(CHARACTERS_MAX) else { return printable(text) };
    let more = text[end..].chars().count();
    format!("{}… ({more} more characters)", printable(&text[..end]))
}

/// Room for the lines of a client.
#[derive(Debug, Default)]
pub(crate) struct Room {
    used_bytes: usize,
    /// True once a line was left out. So are all that follow.
    is_full: bool,
    omitted_lines: u64,
}

impl Room {
    /// Returns a line as it is printed; `None` if there is no room for it.
    pub(crate) fn line(&mut self, line: &str) -> Option<String> {
        let line = short(line);
        self.is_full |= self.used_bytes + line.len() > BYTES_MAX;
        if self.is_full {
            self.omitted_lines += 1;
            return None;
        }
        self.used_bytes += line.len();
        Some(line)
    }

    /// Returns the number of lines that were left out since the last call.
    pub(crate) fn take_omitted_lines(&mut self) -> u64 {
        std::mem::take(&mut self.omitted_lines)
    }
}

/// Returns the line about lines that were left out, if there are any.
pub(crate) fn rest(omitted_lines: u64) -> Option<String> {
    match omitted_lines {
        0 => None,
        1 => Some("1 more line omitted".to_owned()),
        _ => Some(format!("{omitted_lines} more lines omitted")),
    }
}

/// Returns the lines of a client as they are printed, and perhaps one about those that are left out.
pub(crate) fn short_lines(lines: &[String]) -> Vec<String> {
    let mut room = Room::default();
    let mut printed: Vec<_> = lines.iter().filter_map(|line| room.line(line)).collect();
    printed.extend(rest(room.take_omitted_lines()));
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shortened() {
        assert_eq!(short("it\nhangs"), "it\\nhangs");
        let whole = "ä".repeat(CHARACTERS_MAX);
        assert_eq!(short(&whole), whole);
        assert_eq!(short(&format!("{whole}äö")), format!("{whole}… (2 more characters)"));
        assert!(short(&"\u{1b}".repeat(1 << 20)).len() < 10 * CHARACTERS_MAX);
    }

    #[test]
    fn excess_lines_are_omitted_and_counted() {
        let few = ["left a".to_owned(), "left b".to_owned()];
        assert_eq!(short_lines(&few), few);
        for line in ["left /mnt/skye.000000/data-0000: Input/output error".to_owned(), "x".repeat(1 << 16)] {
            let printed = short_lines(&vec![line; 5000]);
            let rest = format!("{} more lines omitted", 5000 - (printed.len() - 1));
            assert_eq!(printed.last(), Some(&rest));
            assert!(printed.concat().len() < 2 * BYTES_MAX, "{}", printed.len());
        }
    }
}
