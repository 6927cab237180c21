//! The reason why a worker stopped before its stop rule held.

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize};

use crate::data::Mismatch;

/// Name of a call. Serde would borrow a `&str` from the text that it reads.
type CallName = &'static str;

/// A failed call, with the details of the place where it failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of the call.
    #[serde(deserialize_with = "call")]
    pub call: CallName,
    /// Number of the file in its set.
    pub file: u64,
    /// Offset in the file; `None` for calls without one.
    pub offset_bytes: Option<u64>,
    /// Cause of the failure.
    pub cause: Cause,
}

/// Cause of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// The kernel returned this error.
    #[serde(with = "errno")]
    Errno(Errno),
    /// The call moved fewer bytes than requested.
    Short {
        /// Bytes moved.
        got_bytes: usize,
        /// Bytes requested.
        wanted_bytes: usize,
    },
    /// A block that was read differs from the block that was written.
    Mismatch(Mismatch),
    /// The number of files listed by the directories, read to their ends, is not the number of existing files.
    Names {
        /// Files listed.
        came: u64,
        /// Existing files.
        files: u64,
    },
    /// Names outside the set exist, and were kept.
    Foreign,
}

/// Names of calls that another process may report.
pub(crate) const CALLS: [&str; 12] = [
    "putc",
    "putc_unlocked",
    "getc",
    "getc_unlocked",
    "fcntl",
    "fdopen",
    "setvbuf",
    "fseeko",
    "fflush",
    "fclose",
    "pwrite",
    "verify",
];

/// Reads the name of a call.
fn call<'de, D: Deserializer<'de>>(from: D) -> Result<CallName, D::Error> {
    let name = String::deserialize(from)?;
    let known = CALLS.into_iter().find(|known| *known == name);
    known.ok_or_else(|| serde::de::Error::custom(format!("`{name}` is not a known call")))
}

/// The number of an error as its serialised form.
mod errno {
    use rustix::io::Errno;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(errno: &Errno, to: S) -> Result<S::Ok, S::Error> {
        errno.raw_os_error().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Errno, D::Error> {
        i32::deserialize(from).map(Errno::from_raw_os_error)
    }
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(errno) => write!(f, "{}", std::io::Error::from(*errno)),
            Self::Short { got_bytes, wanted_bytes } => {
                write!(f, "only {got_bytes} of {wanted_bytes} bytes were transferred")
            }
            Self::Foreign => f.write_str("the directory has files that skye did not create"),
            Self::Names { came, files } => write!(f, "{files} files were expected, and {came} were listed"),
            Self::Mismatch(Mismatch { offset_bytes, expected, found, belongs_to, zeros_bytes }) => {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                write!(
                    f,
                    "the byte at offset {offset_bytes} differs from the written data: expected {}, found {}",
                    hex(expected),
                    hex(found)
                )?;
                match belongs_to {
                    Some(stamp) => write!(
                        f,
                        " (these bytes belong to file {}, offset {}, generation {}, seed {})",
                        stamp.file, stamp.offset_bytes, stamp.generation, stamp.seed
                    ),
                    None if *zeros_bytes > 0 => {
                        write!(f, " (all {zeros_bytes} bytes after it are zeros)")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}
