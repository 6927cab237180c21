//! First floor: what a record says, in terms that rules can compare. It chooses no limiter and no trust.

pub(crate) mod caps;
pub(crate) mod disturbance;
pub(crate) mod experiments;
pub(crate) mod helpers;
pub(crate) mod input;
pub(crate) mod ledger;
pub(crate) mod lookups;
pub(crate) mod places;
pub(crate) mod reading;
pub(crate) mod shares;
pub(crate) mod trap_finding;
pub(crate) mod wait_channels;
