//! `/proc/self/maps`: files that are mapped into this process.

/// The path of the first mapped file whose name contains `word`.
pub fn file_named<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    // Address, permissions, offset, device and inode precede the path, which may contain blanks.
    let path = |line: &'a str| line.find('/').map(|start| line[start..].trim_end());
    text.lines().filter_map(path).find(|path| path.rsplit('/').next().is_some_and(|name| name.contains(word)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::file_named;

    #[test]
    fn mapped_library_is_found_by_name() {
        let text = "7f0000000000-7f0000001000 r-xp 00000000 08:02 77   /usr/lib/a b/libeatmydata.so.1\n\
                    7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n\
                    7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0  [vdso]\n";
        assert_eq!(file_named(text, "libeatmydata"), Some("/usr/lib/a b/libeatmydata.so.1"));
        assert_eq!(file_named(text, "libc"), None);
        assert_eq!(file_named("0-1 r 0 08:02 7 /home/libeatmydata/skye\n", "libeatmydata"), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n){0,100}", word in "\\PC{0,5}") {
            file_named(&text, &word);
        }
    }
}
