//! Why a worker stopped before its stop rule held.

use rustix::io::Errno;

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
        }
    }
}
