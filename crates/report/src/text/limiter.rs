//! The limiter of a row, as text for the tables and for the paragraphs below them.

use model::numbers::latency;
use model::observation::Observation;
use model::run::{Confidence, OperationVerdict, PhaseRecord};
use model::{Experiment, Limiter};

use super::columns::fit;
use super::style::{DIM, GREEN, YELLOW, display_width};
use crate::numbers::percent;
use crate::printable;

/// Suffix of a limiter that is likely but not confirmed.
pub(crate) const LIKELY: &str = " (likely)";
/// Least gain by more depth that is shown, because a reader may want it.
const GAIN_MIN: f64 = 0.1;

/// Returns the limiter of a phase and its confidence; `None` in documents of older versions, and without a limiter.
/// An undetermined limiter is not clear, whatever is first in its ranking.
pub(crate) fn from_phase(phase: &PhaseRecord) -> Option<(Limiter, Confidence)> {
    let verdict = phase.judged.verdict.as_ref()?;
    let limiter = verdict.limiter?;
    match verdict.confidence {
        Some(Confidence::Undetermined) => Some((Limiter::NotClear, Confidence::Undetermined)),
        _ if limiter == Limiter::NotClear => Some((limiter, Confidence::Undetermined)),
        // A limiter without a confidence is not called confirmed.
        confidence => Some((limiter, confidence.unwrap_or(Confidence::Likely))),
    }
}

/// Returns the cell of the table: the limiter in at most `room` characters, and its colour.
pub(crate) fn cell(phase: &PhaseRecord, room: usize) -> Option<(String, anstyle::Style)> {
    let (limiter, confidence) = from_phase(phase)?;
    let colour = match limiter {
        Limiter::NotClear => DIM,
        limiter if limiter.is_of_device() => GREEN,
        _ => YELLOW,
    };
    let likely = if confidence == Confidence::Likely { LIKELY } else { "" };
    let place = place(phase, limiter);
    let [whole, shorter, least] = forms(phase, limiter).map(|form| format!("{form}{place}{likely}"));
    // The label already has the depth.
    let whole = if is_latency(limiter) { shorter.clone() } else { whole };
    let with_gain = gain(phase, limiter).map(|(depth, gain)| {
        [format!("{whole}; {depth} gives +{gain}"), format!("{whole}; {depth} +{gain}")]
    });
    let far = round_trips(phase, limiter).map(|trips| format!("{whole}, {trips}"));
    let forms: Vec<_> = with_gain.into_iter().flatten().chain(far).chain([whole, shorter, least]).collect();
    let fitting = forms.iter().find(|form| display_width(form) <= room);
    Some((fitting.cloned().unwrap_or_else(|| fit(&forms[forms.len() - 1], room)), colour))
}

/// Returns the cell of an operation of a mix: its limiter in at most `room` characters.
pub(crate) fn operation_cell(of: &OperationVerdict, room: usize) -> String {
    let likely = if of.confidence == Confidence::Likely { LIKELY } else { "" };
    let limiter = if of.confidence == Confidence::Undetermined { Limiter::NotClear } else { of.limiter };
    let parts = |word: fn(Limiter) -> &'static str| {
        let parts: Vec<_> = of.ranking.iter().take(2).map(|part| word(part.limiter)).collect();
        format!("{}: {}", Limiter::Mixed.title(), parts.join(" + "))
    };
    let least = limiter.short_title().to_owned();
    let forms = match limiter {
        Limiter::Mixed if !of.ranking.is_empty() => {
            [parts(Limiter::title), parts(Limiter::short_title), least]
        }
        _ => [limiter.title().to_owned(), least.clone(), least],
    };
    let forms = forms.map(|form| format!("{form}{likely}"));
    let fitting = forms.iter().find(|form| display_width(form) <= room);
    fitting.cloned().unwrap_or_else(|| fit(&forms[2], room))
}

/// Returns the place of the limit: " on nas1" where it is a server's that was watched, else nothing.
fn place(phase: &PhaseRecord, limiter: Limiter) -> String {
    if limiter == Limiter::BelowClients {
        return String::new();
    }
    let of = |observation: &Observation| match observation {
        Observation::ServerCpus { server, .. }
        | Observation::ServerQuota { server, .. }
        | Observation::ServerLink { server, .. }
        | Observation::ServerDevice { server, .. }
        | Observation::ServerThreads { server, .. } => Some(format!(" on {}", printable(&server.0))),
        _ => None,
    };
    let verdict = phase.judged.verdict.as_ref();
    verdict.and_then(|verdict| verdict.observations.iter().find_map(of)).unwrap_or_default()
}

fn is_latency(limiter: Limiter) -> bool {
    matches!(limiter, Limiter::DeviceLatency | Limiter::RemoteLatency)
}

/// Returns the round trips that an operation takes, if latency is the limit and TCP measured one: "3.1 round trips of 20 ms".
fn round_trips(phase: &PhaseRecord, limiter: Limiter) -> Option<String> {
    let of = |observation: &Observation| match observation {
        Observation::TookRoundTrips { times, round_trip_ns, .. } => {
            Some(format!("{:.1} round trips of {}", times.0, latency(round_trip_ns.0)))
        }
        _ => None,
    };
    let verdict = phase.judged.verdict.as_ref().filter(|_| is_latency(limiter))?;
    verdict.observations.iter().find_map(of)
}

/// Returns the gain by more depth, if latency or a mix is the limit and an experiment showed it: "q32" and "45 %".
fn gain(phase: &PhaseRecord, limiter: Limiter) -> Option<(String, String)> {
    if !is_latency(limiter) && limiter != Limiter::Mixed {
        return None;
    }
    let answer = |observation: &Observation| match observation {
        Observation::Answer { experiment, change, before_ops_per_second, after_ops_per_second }
            if experiment.0 == Experiment::Depth =>
        {
            Some((change.clone(), after_ops_per_second.0 / before_ops_per_second.0 - 1.0))
        }
        _ => None,
    };
    let (change, gain) = phase.judged.verdict.as_ref()?.observations.iter().find_map(answer)?;
    let depth = printable(&change.0);
    (gain >= GAIN_MIN).then(|| (depth, percent(gain)))
}

/// Returns the full words for the limiter, with depth or parts, and the server where it is a server's.
pub(crate) fn words(phase: &PhaseRecord) -> Option<String> {
    let (limiter, _) = from_phase(phase)?;
    Some(format!("{}{}", forms(phase, limiter)[0], place(phase, limiter)))
}

/// Returns the confidence as a word; `None` if the limiter is undetermined.
pub(crate) fn confidence_text(phase: &PhaseRecord) -> Option<&'static str> {
    match from_phase(phase)?.1 {
        Confidence::Confirmed => Some("confirmed"),
        Confidence::Likely => Some("likely"),
        Confidence::Undetermined => None,
    }
}

/// Returns the words for the limiter in three forms: full, abbreviated, and shortest.
fn forms(phase: &PhaseRecord, limiter: Limiter) -> [String; 3] {
    let least = limiter.short_title().to_owned();
    match limiter {
        limiter if is_latency(limiter) => {
            let depth = in_flight(phase);
            let title = limiter.title();
            // The label has depth and threads, too, so the shorter forms omit them.
            [format!("{title} × depth {depth}"), title.to_owned(), least]
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

/// Finds a limiter by its code, or by its words as any table shows them.
pub fn limiter_from_name(words: &str) -> Option<Limiter> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], " ").trim().to_owned();
    // Depth, parts, gains and confidence belong to the row, not to the limiter.
    let words = words.split(['×', ':', ',', ';']).next().unwrap_or_default().trim();
    let words = words.trim_end_matches(LIKELY.trim());
    let words = words.split(" x ").next().unwrap_or_default();
    let words = plain(words.split(" on ").next().unwrap_or_default());
    let is_meant = |limiter: &Limiter| {
        [limiter.code(), limiter.title(), limiter.short_title()].iter().any(|name| plain(name) == words)
    };
    Limiter::ALL.iter().copied().find(is_meant)
}

/// Requested number of operations in flight.
fn in_flight(phase: &PhaseRecord) -> u64 {
    u64::from(phase.workload.iodepth) * u64::from(phase.workload.threads)
}

/// Returns the two limiters with the largest shares of the time.
pub(crate) fn parts(phase: &PhaseRecord) -> Vec<Limiter> {
    let ranking = phase.judged.verdict.as_ref().map_or(&[][..], |verdict| &verdict.ranking);
    let named = ranking.iter().map(|ranked| ranked.limiter);
    named.filter(|limiter| !matches!(limiter, Limiter::Mixed | Limiter::NotClear)).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::super::columns::LIMITER_WIDTH_MIN;
    use super::*;
    use crate::sample;
    use model::figure::{Change, Count, Name, OpsPerSecond, Share, Tried};
    use model::run::RankedLimiter;

    fn limited(limiter: Limiter, confidence: Option<Confidence>, ranking: &[Limiter]) -> PhaseRecord {
        let mut phase = sample::phase("read:rnd4k:q32t4");
        let verdict = phase.judged.verdict.as_mut().unwrap();
        (verdict.limiter, verdict.confidence) = (Some(limiter), confidence);
        verdict.ranking =
            ranking.iter().map(|limiter| RankedLimiter { limiter: *limiter, share: 0.4 }).collect();
        phase
    }

    #[test]
    fn every_limiter_has_a_form_for_the_narrowest_table() {
        for limiter in Limiter::ALL {
            let phase = limited(*limiter, Some(Confidence::Likely), &[Limiter::KernelCpu; 2]);
            let (cell, _) = cell(&phase, LIMITER_WIDTH_MIN).unwrap();
            assert!(cell.chars().count() <= LIMITER_WIDTH_MIN && !cell.contains('…'), "{cell}");
        }
    }

    #[test]
    fn limiter_text_shrinks_with_width() {
        let latency = limited(Limiter::DeviceLatency, Some(Confidence::Confirmed), &[]);
        let mixed = limited(
            Limiter::Mixed,
            Some(Confidence::Likely),
            &[Limiter::PageCacheAbsorbed, Limiter::FsyncJournal, Limiter::KernelCpu],
        );
        let cell_text = |phase, room| cell(phase, room).unwrap().0;
        assert_eq!(cell_text(&latency, 40), "device latency");
        assert_eq!(cell_text(&mixed, 60), "mixed: page cache (absorbed) + commit / flush (likely)");
        assert_eq!(cell_text(&mixed, 52), "mixed: cache (absorbed) + commit / flush (likely)");
        assert_eq!(cell_text(&mixed, 25), "mixed (likely)");
        assert_eq!(cell_text(&limited(Limiter::Mixed, None, &[]), 60), "mixed (likely)");
    }

    #[test]
    fn measured_depth_gain_is_shown() {
        let mut latency = limited(Limiter::DeviceLatency, Some(Confidence::Confirmed), &[]);
        let answer = |before, after| Observation::Answer {
            experiment: Tried(Experiment::Depth),
            change: Change("q32".into()),
            before_ops_per_second: OpsPerSecond(before),
            after_ops_per_second: OpsPerSecond(after),
        };
        let mut cell_text = |after| {
            latency.judged.verdict.as_mut().unwrap().observations = vec![answer(1000.0, after)];
            [40, 20].map(|room| cell(&latency, room).unwrap().0)
        };
        assert_eq!(cell_text(1450.0), ["device latency; q32 gives +45 %", "device latency"]);
        assert_eq!(cell_text(1050.0), ["device latency"; 2]);
    }

    #[test]
    fn server_limiter_includes_server_name() {
        let mut server = limited(Limiter::ServerSaturated, Some(Confidence::Likely), &[]);
        server.judged.verdict.as_mut().unwrap().observations = vec![Observation::ServerThreads {
            server: Name("nas1".into()),
            threads: Count(8),
            woken_share: Share(0.0),
        }];
        let expected = format!("{} on nas1", Limiter::ServerSaturated.title());
        assert_eq!(words(&server), Some(expected.clone()));
        assert_eq!(cell(&server, 60).unwrap().0, format!("{expected} (likely)"));
    }

    #[test]
    fn unknown_limiter_is_not_clear_and_absent_is_blank() {
        let undetermined = limited(Limiter::KernelCpu, Some(Confidence::Undetermined), &[]);
        assert_eq!(cell(&undetermined, 40), Some(("not clear".into(), DIM)));
        assert_eq!(confidence_text(&undetermined), None);
        assert_eq!(cell(&sample::phase("read:rnd4k"), 40), None);
        let mut old = sample::phase("read:rnd4k");
        old.judged.verdict = None;
        assert_eq!(cell(&old, 40), None);
    }

    #[test]
    fn displayed_limiter_parses_back() {
        for limiter in Limiter::ALL {
            let phase = limited(*limiter, Some(Confidence::Likely), &[Limiter::KernelCpu; 2]);
            for room in [25, 30, 60] {
                let (words, _) = cell(&phase, room).unwrap();
                assert_eq!(limiter_from_name(&words), Some(*limiter), "{words}");
                let style = crate::text::Style { has_unicode: false, width: 80 };
                assert_eq!(limiter_from_name(&style.finish(words.clone())), Some(*limiter), "{words}");
            }
            assert_eq!(limiter_from_name(limiter.code()), Some(*limiter));
        }
        assert_eq!(
            [limiter_from_name("Page Cache"), limiter_from_name("page-cache")],
            [Some(Limiter::PageCache); 2]
        );
        assert_eq!([limiter_from_name(""), limiter_from_name("disk")], [None; 2]);
    }

    #[test]
    fn only_device_limiters_are_green() {
        let colours = Limiter::ALL.iter().map(|limiter| {
            let colour = cell(&limited(*limiter, Some(Confidence::Confirmed), &[]), 40).unwrap().1;
            (*limiter, colour)
        });
        let of_device: Vec<_> =
            colours.filter(|(_, colour)| *colour == GREEN).map(|(l, _)| l.code()).collect();
        assert_eq!(of_device, ["device_bandwidth", "device_ops", "device_latency", "device_undetermined"]);
    }
}
