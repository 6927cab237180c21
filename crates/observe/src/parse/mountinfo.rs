//! `/proc/self/mountinfo`: all mounts with their places and options.

/// One mount.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mount {
    /// Its number, which `statx` knows too.
    pub id: u64,
    /// Number of the mount that it is mounted on.
    pub parent_id: u64,
    /// Major number of the file system's device.
    pub major: u32,
    /// Minor number of the file system's device.
    pub minor: u32,
    /// Directory of the file system that appears at the mount point; not "/" for a bind mount.
    pub root: String,
    /// Path of the mount point.
    pub mount_point: String,
    /// Options of the mount.
    pub options: Vec<String>,
    /// Type of the file system: "ext4", "fuse.sshfs".
    pub file_system: String,
    /// Source of the mount: a device, a server's export, or a name.
    pub source: String,
    /// Options of the file system.
    pub super_options: Vec<String>,
}

/// Bits of the minor number in the kernel's internal device number.
const MINOR_BITS: u32 = 20;

impl Mount {
    /// Returns the kernel's internal number of its device. For a FUSE mount, it is also the number of its connection.
    pub fn device_number(&self) -> u32 {
        (self.major << MINOR_BITS) | self.minor
    }
}

/// Reads all mounts; lines of another form are left out.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Mount> {
    // Any number of optional fields precedes the separator, so the two halves are read apart.
    let (mount, file_system) = line.split_once(" - ")?;
    let mut mount = mount.split(' ');
    let mut file_system = file_system.split(' ');
    let (id, parent_id) = (mount.next()?.parse().ok()?, mount.next()?.parse().ok()?);
    let (major, minor) = mount.next()?.split_once(':')?;
    Some(Mount {
        id,
        parent_id,
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: unescape(mount.next()?),
        mount_point: unescape(mount.next()?),
        options: options(mount.next()?),
        file_system: unescape(file_system.next()?),
        source: unescape(file_system.next().unwrap_or_default()),
        super_options: options(file_system.next().unwrap_or_default()),
    })
}

fn options(text: &str) -> Vec<String> {
    text.split(',').filter(|option| !option.is_empty()).map(unescape).collect()
}

/// Undoes the kernel's octal escapes of blank, tab, newline, backslash and hash: "\040" is a blank.
pub fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        match (byte, octal(after)) {
            (b'\\', Some(value)) => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(bytes: &[u8]) -> Option<u8> {
    let digits = bytes.get(..3)?;
    if !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return None;
    }
    u8::try_from(digits.iter().fold(0, |value: u32, digit| value * 8 + u32::from(digit - b'0'))).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{parse, unescape};

    #[test]
    fn optional_fields_and_escapes_are_parsed() {
        let text = "36 35 98:0 /mnt1 /mnt/with\\040blank rw,noatime master:1 shared:2 - \
                    ext3 /dev/ro\\134ot rw,errors=continue\n\
                    28 27 0:25 / /a rw - tmpfs none rw,size=4k\n\
                    29 27 0:26 / /b rw -  \n\
                    broken\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 3);
        assert_eq!((mounts[0].id, mounts[0].parent_id, mounts[0].major, mounts[0].minor), (36, 35, 98, 0));
        assert_eq!(mounts[0].root, "/mnt1");
        assert_eq!(mounts[0].mount_point, "/mnt/with blank");
        assert_eq!(mounts[0].options, ["rw", "noatime"]);
        assert_eq!(mounts[0].source, "/dev/ro\\ot");
        assert_eq!(mounts[0].super_options, ["rw", "errors=continue"]);
        assert_eq!(mounts[1].file_system, "tmpfs");
    }

    #[test]
    fn invalid_escapes_are_kept_unchanged() {
        assert_eq!(unescape("a\\040b\\011\\08\\"), "a b\t\\08\\");
        assert_eq!(unescape("\\777"), "\\777");
        assert_eq!(unescape("\\303\\244"), "ä");
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n|\\\\[0-7]{3}){0,200}") {
            parse(&text);
            unescape(&text);
        }

        #[test]
        fn any_line_parses_without_panic(
            text in "[0-9]{1,3} [0-9]{1,30} [0-9]{1,12}:[0-9]{1,3} /\\PC{0,9} /\\PC{0,9} \\PC{0,9} - \\PC{0,20}",
        ) {
            parse(&text);
        }
    }
}
