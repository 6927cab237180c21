//! Why a worker stopped before its stop rule held.

use rustix::io::Errno;

use crate::data::Mismatch;

/// A call that failed, with what is needed to say where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The call.
    pub call: &'static str,
    /// Number of the file in its set.
    pub file: u64,
    /// Offset in the file; null for calls that have none.
    pub offset_bytes: Option<u64>,
    /// Why.
    pub cause: Cause,
}

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The kernel said so.
    Errno(Errno),
    /// It moved fewer bytes than it was asked to.
    Short {
        /// Bytes moved.
        got_bytes: usize,
        /// Bytes asked for.
        wanted_bytes: usize,
    },
    /// A block was read that is not what was written.
    Mismatch(Mismatch),
    /// Directories that were read to their ends named another number of files than there are.
    Names {
        /// Files that they named.
        came: u64,
        /// Files that there are.
        files: u64,
    },
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
                write!(f, "only {got_bytes} of {wanted_bytes} bytes were moved")
            }
            Self::Names { came, files } => write!(f, "{files} files were expected and {came} came"),
            Self::Mismatch(Mismatch { offset_bytes, expected, found, belongs_to, zeros_bytes }) => {
                let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
                write!(
                    f,
                    "the byte at offset {offset_bytes} is not what was written: expected {}, found {}",
                    hex(expected),
                    hex(found)
                )?;
                match belongs_to {
                    Some(stamp) => write!(
                        f,
                        " (these are bytes of file {}, offset {}, generation {}, seed {})",
                        stamp.file, stamp.offset_bytes, stamp.generation, stamp.seed
                    ),
                    None if *zeros_bytes > 0 => {
                        write!(f, " (all {zeros_bytes} bytes from there on are zeros)")
                    }
                    None => Ok(()),
                }
            }
        }
    }
}
