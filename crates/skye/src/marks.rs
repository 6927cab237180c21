//! Marks in the kernel's trace: where each measured part begins and ends, so that a recording can be cut there.

use std::fs::{File, OpenOptions};
use std::io::Write;

/// File where the kernel takes marks. Looking at the other place, below debugfs, would mount it.
const PATH: &str = "/sys/kernel/tracing/trace_marker";

/// Writes marks, or nothing where the kernel takes none from us.
#[derive(Debug)]
pub struct Marks {
    file: Option<File>,
    has_started: bool,
}

impl Marks {
    /// Opens the file once: a mount or permission that is missing stays so for a run.
    pub fn open() -> Self {
        Self { file: OpenOptions::new().write(true).open(PATH).ok(), has_started: false }
    }

    /// Marks the begin of a measured part of a test.
    pub fn begin(&mut self, id: &str, spec: &str) {
        self.has_started = true;
        self.write("begin", id, spec);
    }

    /// Marks the end of the part.
    pub fn end(&mut self, id: &str, spec: &str) {
        // A test whose threads do not get ready ends without having begun.
        if std::mem::take(&mut self.has_started) {
            self.write("end", id, spec);
        }
    }

    fn write(&mut self, what: &str, id: &str, spec: &str) {
        if let Some(file) = &mut self.file {
            // One call makes one mark. Errors are ignored: nothing depends on marks.
            let _ = file.write_all(format!("skye: {what} {id} {spec}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_marks_end_once_per_begin() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("trace_marker");
        let mut marks = Marks { file: Some(File::create(&path).unwrap()), has_started: false };
        marks.end("01-read", "read:rnd4k");
        marks.begin("01-read", "read:rnd4k");
        marks.end("01-read", "read:rnd4k");
        marks.end("01-read", "read:rnd4k");
        let written = std::fs::read_to_string(path).unwrap();
        assert_eq!(written, "skye: begin 01-read read:rnd4k\nskye: end 01-read read:rnd4k\n");
        let mut none = Marks { file: None, has_started: false };
        none.begin("01-read", "read:rnd4k");
        none.end("01-read", "read:rnd4k");
    }
}
