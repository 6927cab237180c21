//! What limited a row, in the words of the tables and of the paragraphs beneath them.

use model::Limiter;
use model::run::{Confidence, PhaseRecord};

use super::columns::fit;
use super::style::{DIM, GREEN, YELLOW};

/// Stands before a limiter that is likely and not confirmed; a line beneath the tables says so.
pub(crate) const LIKELY: &str = "~";

/// What limited it and how surely that is known; `None` in documents of older versions, and where there is nothing to
/// tell. What nobody knows is not clear, whatever stands first in its ranking.
pub(crate) fn of(phase: &PhaseRecord) -> Option<(Limiter, Confidence)> {
    let verdict = phase.verdict.as_ref()?;
    let limiter = verdict.limiter?;
    match verdict.confidence {
        Some(Confidence::Undetermined) => Some((Limiter::NotClear, Confidence::Undetermined)),
        _ if limiter == Limiter::NotClear => Some((limiter, Confidence::Undetermined)),
        // What does not say how surely it is known is not called confirmed.
        confidence => Some((limiter, confidence.unwrap_or(Confidence::Likely))),
    }
}

/// Whether it is a limit of the device: then the test measured what it was made for.
pub(crate) fn is_of_device(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::DeviceBandwidth | Limiter::DeviceOps | Limiter::DeviceLatency)
}

/// Whether it is something to act on: a limit that is not what the test was made to find, and that can be lifted. Its
/// sentence stands among the limits.
pub(crate) fn is_to_act_on(phase: &PhaseRecord) -> bool {
    let Some((limiter, confidence)) = of(phase) else { return false };
    // Single bytes and names are about the CPU.
    let is_on_blocks = phase.workload.block_bytes.is_some_and(|bytes| bytes > 1);
    let acts = match limiter {
        Limiter::ClientCpu | Limiter::KernelCpu | Limiter::CpuSaturated => is_on_blocks,
        Limiter::BenchmarkItself
        | Limiter::QueueFull
        | Limiter::IoThrottle
        | Limiter::DirtyThrottling
        | Limiter::MemoryPressure
        | Limiter::LockContention
        | Limiter::CpuContention
        | Limiter::CpuQuota
        | Limiter::HypervisorSteal
        | Limiter::NoisyNeighbour
        | Limiter::HelperCpu => true,
        _ => false,
    };
    acts && confidence > Confidence::Undetermined
}

/// The cell of the table: the sign before it, its words in at most `room` characters, and their colour.
pub(crate) fn cell(phase: &PhaseRecord, room: usize) -> Option<(&'static str, String, anstyle::Style)> {
    let (limiter, confidence) = of(phase)?;
    let sign = if confidence == Confidence::Likely { LIKELY } else { "" };
    let colour = match limiter {
        Limiter::NotClear => DIM,
        limiter if is_of_device(limiter) => GREEN,
        _ => YELLOW,
    };
    let forms = forms(phase, limiter);
    let fitting = forms.iter().find(|form| form.chars().count() <= room);
    Some((sign, fitting.cloned().unwrap_or_else(|| fit(&forms[2], room)), colour))
}

/// The words for what limited it, with depth or parts, as they are told where there is room.
pub(crate) fn words(phase: &PhaseRecord) -> Option<String> {
    let (limiter, _) = of(phase)?;
    Some(forms(phase, limiter)[0].clone())
}

/// How surely it is known, as a word; `None` where the limiter says that it is not.
pub(crate) fn surely(phase: &PhaseRecord) -> Option<&'static str> {
    match of(phase)?.1 {
        Confidence::Confirmed => Some("confirmed"),
        Confidence::Likely => Some("likely"),
        Confidence::Undetermined => None,
    }
}

/// As it should be, abbreviated, and the least that says it.
fn forms(phase: &PhaseRecord, limiter: Limiter) -> [String; 3] {
    let least = limiter.short_title().to_owned();
    match limiter {
        Limiter::DeviceLatency | Limiter::RemoteLatency => {
            let depth = in_flight(phase);
            let title = limiter.title();
            // Depth and threads stand in the label, too.
            [format!("{title} × depth {depth}"), format!("{title} × {depth}"), least]
        }
        Limiter::Mixed => {
            let parts = parts(phase);
            let joined = |word: fn(Limiter) -> &'static str| match parts.as_slice() {
                [] => "mixed".to_owned(),
                parts => {
                    format!("mixed: {}", parts.iter().map(|part| word(*part)).collect::<Vec<_>>().join(" + "))
                }
            };
            [joined(Limiter::title), joined(Limiter::short_title), least]
        }
        limiter => [limiter.title().to_owned(), least.clone(), least],
    }
}

/// The limiter that is meant: by its code, or by its words as any table shows them.
pub fn named(words: &str) -> Option<Limiter> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], " ").trim().to_owned();
    let words = words.trim().trim_start_matches(LIKELY).trim_end_matches("(likely)");
    // Depth and parts are the row's, not the limiter's.
    let words = words.split(['×', ':', ',']).next().unwrap_or_default();
    let words = plain(words.split(" x ").next().unwrap_or_default());
    let is_meant = |limiter: &Limiter| {
        [limiter.code(), limiter.title(), limiter.short_title()].iter().any(|name| plain(name) == words)
    };
    Limiter::ALL.iter().copied().find(is_meant)
}

/// Operations in flight that the test was to have.
fn in_flight(phase: &PhaseRecord) -> u64 {
    u64::from(phase.workload.iodepth) * u64::from(phase.workload.threads)
}

/// The two that share most of the time.
fn parts(phase: &PhaseRecord) -> Vec<Limiter> {
    let ranking = phase.verdict.as_ref().map_or(&[][..], |verdict| &verdict.ranking);
    let named = ranking.iter().map(|ranked| ranked.limiter);
    named.filter(|limiter| !matches!(limiter, Limiter::Mixed | Limiter::NotClear)).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::super::columns::LIMITER_WIDTH_MIN;
    use super::*;
    use crate::sample;
    use model::run::Ranked;

    fn limited(limiter: Limiter, confidence: Option<Confidence>, ranking: &[Limiter]) -> PhaseRecord {
        let mut phase = sample::phase("read:rnd4k:q32t4");
        let verdict = phase.verdict.as_mut().unwrap();
        (verdict.limiter, verdict.confidence) = (Some(limiter), confidence);
        verdict.ranking = ranking.iter().map(|limiter| Ranked { limiter: *limiter, share: 0.4 }).collect();
        phase
    }

    #[test]
    fn every_limiter_has_a_form_for_the_narrowest_table() {
        for limiter in Limiter::ALL {
            let phase = limited(*limiter, Some(Confidence::Likely), &[Limiter::KernelCpu; 2]);
            let (_, cell, _) = cell(&phase, LIMITER_WIDTH_MIN).unwrap();
            assert!(cell.chars().count() <= LIMITER_WIDTH_MIN && !cell.contains('…'), "{cell}");
        }
    }

    #[test]
    fn what_is_told_shrinks_with_the_room() {
        let latency = limited(Limiter::DeviceLatency, Some(Confidence::Confirmed), &[]);
        let mixed = limited(
            Limiter::Mixed,
            Some(Confidence::Likely),
            &[Limiter::PageCacheAbsorbed, Limiter::FsyncJournal, Limiter::KernelCpu],
        );
        let shown = |phase, room| {
            let (sign, words, _) = cell(phase, room).unwrap();
            format!("{sign}{words}")
        };
        assert_eq!(shown(&latency, 40), "device latency × depth 128");
        assert_eq!(shown(&latency, 20), "device latency × 128");
        assert_eq!(shown(&latency, 16), "device latency");
        assert_eq!(shown(&mixed, 60), "~mixed: page cache (absorbed) + commit / flush");
        assert_eq!(shown(&mixed, 42), "~mixed: cache (absorbed) + commit / flush");
        assert_eq!(shown(&mixed, 16), "~mixed");
        assert_eq!(shown(&limited(Limiter::Mixed, None, &[]), 60), "~mixed");
    }

    #[test]
    fn what_is_not_known_is_not_clear_and_what_is_not_said_is_nothing() {
        let undetermined = limited(Limiter::KernelCpu, Some(Confidence::Undetermined), &[]);
        assert_eq!(cell(&undetermined, 40), Some(("", "not clear".into(), DIM)));
        assert_eq!(surely(&undetermined), None);
        assert_eq!(cell(&sample::phase("read:rnd4k"), 40), None);
        let old = PhaseRecord { verdict: None, ..sample::phase("read:rnd4k") };
        assert_eq!(cell(&old, 40), None);
    }

    #[test]
    fn what_a_table_shows_can_be_asked_for() {
        for limiter in Limiter::ALL {
            let phase = limited(*limiter, Some(Confidence::Likely), &[Limiter::KernelCpu; 2]);
            for room in [16, 20, 60] {
                let (sign, words, _) = cell(&phase, room).unwrap();
                assert_eq!(named(&format!("{sign}{words}")), Some(*limiter), "{words}");
                let style = crate::text::Style { unicode: false, width: 80 };
                assert_eq!(named(&style.finish(words.clone())), Some(*limiter), "{words}");
            }
            assert_eq!(named(limiter.code()), Some(*limiter));
        }
        assert_eq!([named("Page Cache"), named("page-cache")], [Some(Limiter::PageCache); 2]);
        assert_eq!([named(""), named("disk")], [None; 2]);
    }

    #[test]
    fn green_is_the_device() {
        let colours = Limiter::ALL.iter().map(|limiter| {
            let colour = cell(&limited(*limiter, Some(Confidence::Confirmed), &[]), 40).unwrap().2;
            (*limiter, colour)
        });
        let of_device: Vec<_> =
            colours.filter(|(_, colour)| *colour == GREEN).map(|(l, _)| l.code()).collect();
        assert_eq!(of_device, ["device_bandwidth", "device_ops", "device_latency"]);
    }
}
