//! Files that stay open and are read again from their beginning.

use std::fs::File;
use std::os::fd::AsFd;

/// Largest number of bytes that [`read_all`] reads of a file.
const BYTES_MAX: usize = 4 << 20;
/// Initial size of the buffer: most files fit, and are then read without allocating.
const BYTES: usize = 16 << 10;

/// Reads the beginning of a file, as far as the buffer goes. Absent if its thread or device has gone away.
pub(crate) fn read_start<'a>(file: Option<&File>, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let count = rustix::io::pread(file?.as_fd(), &mut *buffer, 0).ok()?;
    buffer.get(..count)
}

/// Reads all of a file. The buffer grows to the longest file so far, and keeps its size.
pub(crate) fn read_all<'a>(file: Option<&File>, buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    let file = file?;
    let mut length = 0;
    loop {
        if buffer.len() == length {
            buffer.resize((length * 2).max(BYTES), 0);
        }
        // A read returns the text that the kernel made at once, which may be less than the free room.
        let count = rustix::io::pread(file.as_fd(), &mut buffer[length..], length as u64).ok()?;
        length += count;
        if count == 0 || length >= BYTES_MAX {
            return buffer.get(..length);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::{BYTES, read_all, read_start};

    #[test]
    fn file_longer_than_buffer_is_read_to_end() {
        let mut file = tempfile::tempfile().unwrap();
        let text: Vec<u8> = (0..BYTES * 3 + 5).map(|index| index as u8).collect();
        file.write_all(&text).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(read_all(Some(&file), &mut buffer), Some(&text[..]));
        file.set_len(3).unwrap();
        assert_eq!(read_all(Some(&file), &mut buffer), Some(&text[..3]));
        assert_eq!(read_start(Some(&file), &mut [0; 2]), Some(&text[..2]));
        assert_eq!(read_all(None, &mut buffer), None);
    }
}
