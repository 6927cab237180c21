//! `/proc/PID/task/TID/wchan`: the kernel function that a thread sleeps in.

/// Returns the function's name without the suffixes that compilers add; empty for a thread that does not
/// sleep. Absent if the text is no name at all.
///
/// A kernel without function names shows "0" for every thread. Others show "0" for running threads.
pub fn symbol(bytes: &[u8]) -> Option<&[u8]> {
    let name = bytes.trim_ascii();
    if !name.iter().all(u8::is_ascii_graphic) {
        return None;
    }
    match name {
        b"" => None,
        b"0" => Some(b""),
        // Suffixes distinguish copies of a function: ".isra.0", ".constprop.0", ".part.0", ".llvm.123". They
        // change from build to build.
        name => name.split(|byte| *byte == b'.').next().filter(|name| !name.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::symbol;

    #[test]
    fn real_wait_channels_parse() {
        for (text, expected) in [
            ("0", Some("")),
            ("folio_wait_bit_common", Some("folio_wait_bit_common")),
            ("rq_qos_wait.part.0", Some("rq_qos_wait")),
            ("do_get_write_access.isra.0.cold", Some("do_get_write_access")),
            ("pipe_read\n", Some("pipe_read")),
            ("", None),
            (".x", None),
            ("a b", None),
        ] {
            assert_eq!(symbol(text.as_bytes()), expected.map(str::as_bytes), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(name) = symbol(&bytes) {
                prop_assert!(name.iter().all(u8::is_ascii_graphic));
            }
        }
    }
}
