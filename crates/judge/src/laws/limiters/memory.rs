//! Limit by memory that had to be reclaimed first.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Count, Figure, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Verdict};

use super::evidence::seen;
use crate::values::reading::Reading;
use crate::values::shares::ASLEEP_SHARE_MIN;

/// Share of the time in which some task of the machine waited for memory. A machine with memory left reads 0.
const PRESSURE: f64 = 0.15;
/// Share of the samples of sleeping threads that found them in reclaim.
const RECLAIM: f64 = 0.4;
/// Assumed size of the pages that the kernel counts. With larger pages, the share is too small and the rule does not
/// fire.
const PAGE_BYTES: f64 = 4096.0;
/// Share of the device's reads that are refaults: pages evicted shortly before. With more memory they would have
/// stayed.
const REFAULT_SHARE_MIN: f64 = 0.5;
/// A larger share includes refaults of other processes: the counter is that of the machine.
const REFAULT_SHARE_MAX: f64 = 1.2;
/// Hits of a cgroup's limit per second: more than an occasional page.
const HITS_PER_SECOND: f64 = 10.0;

/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("pressure", Figure::Share(PRESSURE)),
    ("reclaim", Figure::Share(RECLAIM)),
    ("limit_hits", Figure::Count(HITS_PER_SECOND as u64)),
];

/// Reclaim, in the machine or in a cgroup that is full.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    let system = reading.system()?;
    let pressure = system.pressure.as_ref().map_or(0.0, |pressure| pressure.memory);
    let reclaim = system.reclaim.as_ref();
    let hits = reclaim.map_or(0, |reclaim| reclaim.cgroup_limit_hits);
    let is_full = hits as f64 > HITS_PER_SECOND * reading.input.seconds();
    let sleeps = reading.waits(WaitClass::Reclaim) >= RECLAIM;
    let refaulted = refaulted(reading).filter(|share| {
        (REFAULT_SHARE_MIN..REFAULT_SHARE_MAX).contains(share)
            && is_full
            && reading.budget.user < ASLEEP_SHARE_MIN
    });
    // In a cgroup, a thread that needs a page reclaims it on its own CPU time, and hardly ever sleeps.
    if refaulted.is_none() && (pressure < PRESSURE || !(sleeps || is_full)) {
        return None;
    }
    let scanned = reclaim.map_or(0, |reclaim| reclaim.direct_scanned_pages);
    let read_again = refaulted.map(|share| Observation::ReadAgain { refaulted_share: Share(share.min(1.0)) });
    let held_up = Observation::HeldUpForMemory { held_share: Share(pressure) };
    let evidence = seen![
        reading.time_spent(),
        match refaulted {
            Some(_) => reading.dominant_wait(&[WaitClass::Page, WaitClass::Reclaim]),
            None => reading.dominant_wait(&[WaitClass::Reclaim]),
        },
        Some(read_again.unwrap_or(held_up)),
        Some(match is_full {
            true => Observation::CgroupFull { times: Count(hits) },
            false => Observation::PagesScanned { pages: Count(scanned) },
        }),
    ];
    Some(
        Verdict::new(
            Limiter::MemoryPressure,
            match refaulted {
                Some(share) => (reading.budget.blocked + reading.budget.kernel) * share.min(1.0),
                None => pressure.max(reading.waits(WaitClass::Reclaim) * reading.budget.blocked),
            },
            evidence,
        )
        // The refaults may be those of other processes on the machine, while the test's cgroup merely filled up.
        .at_most(if refaulted.is_some() { Confidence::Likely } else { Confidence::Confirmed })
        .advise([Advice::MoreMemory {}]),
    )
}

/// Bytes that had been in memory shortly before, as a share of the bytes read through the page cache from a device or
/// server.
fn refaulted(reading: &Reading<'_>) -> Option<f64> {
    let input = &reading.input;
    let missed = input.record.counts.app_bytes_read as f64 * (1.0 - input.record.seen.page_cache_share?);
    let pages = reading.system()?.reclaim.as_ref()?.refaulted_pages;
    (missed > 0.0).then(|| pages as f64 * PAGE_BYTES / missed)
}
