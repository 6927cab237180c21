//! Second floor: the tables of traps and limiters, and the rule for operations. Each rule reads values alone.

pub(crate) mod limiters;
pub(crate) mod operations;
pub(crate) mod traps;
