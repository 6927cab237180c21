//! Reads and writes all that the program has as JSON.
//!
//! Serde makes a copy of its code for each type of reader, writer and layout. Here all of them have the same, so that the
//! program holds the code of each document once. Other crates call these functions, which have no type parameters.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};
use serde_json::{Error, Value};

use crate::frames::{FromAgent, Hello, ProgramRequest, ToAgent};
use crate::marker::Marker;
use crate::mix::Mix;
use crate::printable::affects_display;
use crate::request::Request;
use crate::sim::SimDevice;
use crate::{Comparison, Run, SelfTest};

/// Deepest level with a line for each value: an interval of a phase, a device of a stack. Such a line holds the whole
/// value.
const LINE_DEPTH_MAX: usize = 4;

/// A type that is read from JSON.
pub trait FromJson: Sized {
    /// Reads it from a text.
    ///
    /// # Errors
    /// The text is no JSON, or JSON of something else.
    fn from_json(text: &str) -> Result<Self, Error>;
}

/// A type that is written as JSON.
pub trait ToJson {
    /// Writes it in its form.
    ///
    /// # Errors
    /// Errors of the writer.
    fn write_json(&self, writer: &mut dyn Write) -> io::Result<()>;

    /// Returns it in its form.
    fn to_json(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // Writing into memory does not fail, and all keys of maps are text.
        if self.write_json(&mut bytes).is_err() {
            bytes.clear();
        }
        bytes
    }
}

macro_rules! read {
    ($($type:ty),+) => { $(
        impl FromJson for $type {
            fn from_json(text: &str) -> Result<Self, Error> {
                serde_json::from_str(text)
            }
        }
    )+ };
}

macro_rules! written {
    ($form:ident: $($type:ty),+) => { $(
        impl ToJson for $type {
            fn write_json(&self, mut writer: &mut dyn Write) -> io::Result<()> {
                let layout = Layout { form: Form::$form, depth: 0, is_empty: false };
                self.serialize(&mut Serializer::with_formatter(&mut writer, layout))?;
                Ok(())
            }
        }
    )+ };
}

read! { Run, Value, ToAgent, FromAgent, Hello, ProgramRequest, Marker, Mix, Request, SimDevice }
written! { Lines: Run, Comparison, SelfTest }
written! { Compact: ToAgent, FromAgent, Hello, Marker }

/// Form of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Outer levels have a line for each value. Characters that a terminal would obey are escaped.
    Lines,
    /// One line without blanks.
    Compact,
}

/// Formatter that indents outer levels in the form of lines, and keeps inner levels on one line: long lists stay
/// readable, and diffs small.
struct Layout {
    form: Form,
    depth: usize,
    is_empty: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.is_empty = true;
        writer.write_all(bracket)
    }

    /// Writes what separates a value from the one before it: a new line at outer levels, or else this mark.
    fn separate<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool, mark: &[u8]) -> io::Result<()> {
        self.is_empty = false;
        match (is_first, self.has_lines()) {
            (true, false) => Ok(()),
            (false, false) => writer.write_all(mark),
            (is_first, true) => {
                writer.write_all(if is_first { b"\n" } else { b",\n" })?;
                self.indent(writer)
            }
        }
    }

    fn has_lines(&self) -> bool {
        self.form == Form::Lines && self.depth <= LINE_DEPTH_MAX
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        let lines = self.has_lines() && !self.is_empty;
        self.depth -= 1;
        self.is_empty = false;
        if lines {
            writer.write_all(b"\n")?;
            self.indent(writer)?;
        }
        writer.write_all(bracket)
    }

    fn indent<W: ?Sized + Write>(&self, writer: &mut W) -> io::Result<()> {
        (0..self.depth).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        // Blanks between the values of columns would be a sixth of a document.
        self.separate(writer, is_first, b",")
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, is_first: bool) -> io::Result<()> {
        let mark: &[u8] = if self.form == Form::Lines { b", " } else { b"," };
        self.separate(writer, is_first, mark)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.form == Form::Lines { b": " } else { b":" })
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if self.form == Form::Compact || !fragment.chars().any(affects_display) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            if affects_display(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            } else {
                write!(writer, "{character}")?;
            }
        }
        Ok(())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marker::NamePattern;

    #[test]
    fn frames_and_markers_are_one_line() {
        let frames = [ToAgent::Beat {}, ToAgent::Ping { number: 7 }, ToAgent::Start { at_ns: None }];
        for frame in frames {
            assert_eq!(frame.to_json(), serde_json::to_vec(&frame).unwrap());
            assert_eq!(ToAgent::from_json(&serde_json::to_string(&frame).unwrap()).unwrap(), frame);
        }
        let marker = Marker {
            host: "a \u{1b}\"b".into(),
            boot_id: String::new(),
            pid: 1,
            start_ticks: 2,
            client: None,
            run: None,
            rules: vec![NamePattern::files("data-", 4, 2)],
        };
        assert_eq!(marker.to_json(), serde_json::to_vec(&marker).unwrap());
    }
}
