//! Third floor: the order in which the rules are asked, and what follows from their answers.

pub(crate) mod clients;
pub(crate) mod judge;
pub(crate) mod next_experiment;
pub(crate) mod rejudge;
pub(crate) mod repeats;
pub(crate) mod thresholds;
pub(crate) mod trust;
pub(crate) mod verdict;
