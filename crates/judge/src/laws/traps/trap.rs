//! One trap, and the list of those of a file.

use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

/// Lists the traps of a file.
macro_rules! traps {
    ($($code:ident),+ $(,)?) => {
        /// The traps of this file.
        pub(super) const TRAPS: &[crate::laws::traps::trap::Trap] = &[$(crate::laws::traps::trap::Trap { code: stringify!($code), check: $code }),+];
    };
}

/// A rule that checks a row for a trap.
#[derive(Debug, Clone, Copy)]
pub struct Trap {
    /// Its name in notes and in the reasons of distrust.
    pub code: &'static str,
    /// Returns the finding on a measured input; `None` if all is well or unknown.
    pub check: fn(&JudgeInput<'_>) -> Option<TrapFinding>,
}
