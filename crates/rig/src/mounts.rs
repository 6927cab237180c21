//! The mounts, as the kernel lists them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One line of `/proc/self/mountinfo`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Number of the file system's device: "8:1".
    pub device_number: String,
    /// The directory of the file system that is mounted.
    pub root: String,
    pub at: PathBuf,
    pub file_system: String,
    pub source: String,
    /// Options of the mount, not of the file system.
    pub mount_options: String,
    /// Options of the file system, not of the mount.
    pub options: String,
}

impl Mount {
    /// Returns the options of the mount and of the file system, each once, separated by commas.
    pub(crate) fn all_options(&self) -> String {
        let mut all: Vec<&str> = Vec::new();
        for option in self.mount_options.split(',').chain(self.options.split(',')) {
            if !all.contains(&option) {
                all.push(option);
            }
        }
        all.join(",")
    }
}

/// All mounts that this process sees, in the order in which they were made.
pub(crate) fn all() -> Vec<Mount> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(parse).collect()
}

/// Mounts at exactly this path: each covers the previous one.
pub(crate) fn at(path: &Path) -> Vec<Mount> {
    all().into_iter().filter(|mount| mount.at == path).collect()
}

fn parse(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(2);
    let (device_number, root, at) = (before.next()?, before.next()?, before.next()?);
    let mount_options = before.next()?;
    let mut after = after.splitn(3, ' ');
    Some(Mount {
        device_number: device_number.to_owned(),
        root: root.to_owned(),
        mount_options: mount_options.to_owned(),
        at: octal(at).into(),
        file_system: after.next()?.to_owned(),
        source: octal(after.next()?).to_string_lossy().into_owned(),
        options: after.next()?.to_owned(),
    })
}

/// Decodes a name: blanks and a few other characters appear as a backslash and three octal digits.
fn octal(text: &str) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_line_parses() {
        let line = "38 31 0:35 / /sys/fs/cgroup/a\\040b rw,relatime shared:9 - cgroup cgroup rw,blkio";
        let mount = parse(line).unwrap();
        assert_eq!(mount.at, Path::new("/sys/fs/cgroup/a b"));
        assert_eq!((mount.root.as_str(), mount.file_system.as_str()), ("/", "cgroup"));
        assert_eq!((mount.source.as_str(), mount.options.as_str()), ("cgroup", "rw,blkio"));
        assert_eq!(
            (mount.device_number.as_str(), mount.all_options().as_str()),
            ("0:35", "rw,relatime,blkio")
        );
    }

    proptest::proptest! {
        #[test]
        fn any_line_parses_without_panic(line: String) {
            let _ = parse(&line);
        }
    }
}
