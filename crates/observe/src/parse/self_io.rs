//! `/proc/self/io`: I/O that the kernel accounted to this process.

use model::run::OwnIo;

use super::number::value_of;

/// Reads the six counters; absent if one is missing.
pub fn parse(bytes: &[u8]) -> Option<OwnIo> {
    Some(OwnIo {
        read_call_bytes: value_of(bytes, b"rchar:")?,
        write_call_bytes: value_of(bytes, b"wchar:")?,
        read_calls: value_of(bytes, b"syscr:")?,
        write_calls: value_of(bytes, b"syscw:")?,
        device_read_bytes: value_of(bytes, b"read_bytes:")?,
        device_written_bytes: value_of(bytes, b"write_bytes:")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::parse;

    #[test]
    fn real_process_io_parses() {
        let text = b"rchar: 6976\nwchar: 12\nsyscr: 10\nsyscw: 2\nread_bytes: 4096\nwrite_bytes: 8192\n\
                     cancelled_write_bytes: 1\n";
        let io = parse(text).unwrap();
        assert_eq!((io.read_call_bytes, io.write_call_bytes), (6976, 12));
        assert_eq!((io.read_calls, io.write_calls), (10, 2));
        // "cancelled_write_bytes" ends like "write_bytes" but has another meaning.
        assert_eq!((io.device_read_bytes, io.device_written_bytes), (4096, 8192));
        assert!(parse(b"rchar: 6976\n").is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }
    }
}
