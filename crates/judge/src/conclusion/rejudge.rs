//! Judging a run from disk by the rules of today.

use model::Run;
use model::run::PhaseRecord;

use super::judge::{judge, propagate_results};

/// Judges all phases of a run again, from the run alone. Replaces the conclusions of an older version.
pub fn rejudge(run: &mut Run) {
    let Run { phases, plan, environment, target_probes, .. } = run;
    plan.read_mixes();
    let judge_all = |phases: &mut [PhaseRecord]| {
        phases.iter_mut().for_each(|record| judge(record, plan, environment, target_probes.as_ref()));
    };
    judge_all(phases);
    if propagate_results(phases) {
        judge_all(phases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{InputBuilder, clean, clean_request};
    use model::request::{MixTexts, Request};
    use model::run::{Judgement, Mode};
    use serde_json::json;

    #[test]
    fn rejudge_parses_mix_files_stored_in_the_request() {
        const MIX: &str = "[population]\nfiles = 9\nsizes = { median = '4k', p90 = '8k', max = '1m' }\n\
                           [[flow]]\nname = 'f'\nweight = 1\nthink_ms = 5\ndo = ['stat']\n";
        let mixes = MixTexts([("own.toml".to_owned(), MIX.to_owned())].into());
        let request = Request { tests: vec!["mix:own.toml".into()], mixes, ..Request::default() };
        let mut world = clean_request(request);
        world.record.counts.ops = 10;
        let mut run = run_of(world);
        assert!(run.plan.phases[0].workload.files().unwrap().mix().is_none());
        rejudge(&mut run);
        let verdict = run.phases[0].judged.verdict.as_ref().unwrap();
        assert_eq!(verdict.limiter, Some(model::Limiter::ThinkTime));
    }

    /// A run of that world, as it would be stored on disk.
    fn run_of(world: InputBuilder) -> Run {
        let InputBuilder { record, plan, environment, probes } = world;
        serde_json::from_value(json!({
            "schema": model::run::SCHEMA, "skye_version": "0.1.0", "started_at": "2026-11-21T14:03:07Z",
            "finished_at": "2026-11-21T14:05:18Z", "run_status": "complete", "command": ["skye"], "label": null,
            "seed": 7, "plan": plan, "environment": environment, "phases": [record], "target_probes": probes,
            "ceilings": [], "tool": {
                "overhead_ns_per_op": null, "telemetry_cpu_share": null, "clock_read_ns": null, "warnings": [],
            },
        }))
        .unwrap()
    }

    #[test]
    fn run_is_rejudged_identically_from_its_document() {
        for spec in ["read:rnd4k:q32", "write:seq1m:buffered", "fsync", "stat", "putc-write"] {
            let mut world = clean(spec);
            if let Some(latency) = world.record.figures.latency_ns.as_mut() {
                latency.modes = [100, 9_000].map(|at_ns| Mode { at_ns, share: 0.5 }).into();
            }
            judge(&mut world.record, &world.plan, &world.environment, Some(&world.probes));
            let judged = world.record.clone();
            let mut run = run_of(world);
            rejudge(&mut run);
            assert_eq!(run.phases.first(), Some(&judged), "{spec}");
            // The same holds for a document without a verdict, such as one of an older version.
            run.phases = vec![PhaseRecord {
                judged: Judgement { verdict: None, notes: Vec::new(), ..judged.judged.clone() },
                ..judged.clone()
            }];
            rejudge(&mut run);
            assert_eq!(run.phases, [judged], "{spec}");
        }
    }
}
