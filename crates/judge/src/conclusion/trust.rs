//! The trust that a number deserves.

use std::cmp::Reverse;

use model::run::{Note, Status, Trust};

/// Returns the trust that a number with these notes deserves, and the codes that cost it, the gravest first.
pub(crate) fn weighed<'a>(notes: impl IntoIterator<Item = &'a Note>, status: Status) -> (Trust, Vec<String>) {
    let cost = |note: &Note| (note.finding.grade().trust(), note.code.clone());
    let early = (status != Status::Done).then(|| (Trust::Invalid, "ended_early".to_owned()));
    let mut costs: Vec<_> = notes.into_iter().map(cost).chain(early).collect();
    costs.retain(|(trust, _)| *trust > Trust::Ok);
    costs.sort_by_cached_key(|(trust, _)| Reverse(*trust as u64));
    let trust = costs.first().map_or(Trust::Ok, |(trust, _)| *trust);
    (trust, costs.into_iter().map(|(_, code)| code).collect())
}
