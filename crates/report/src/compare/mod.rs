//! Comparison of runs: did a change help, by how much, how surely, and what else changed.
//!
//! [`compare`] makes a [`Comparison`], from which text, Markdown and CSV are made. The page also draws from the runs.

mod csv;
mod limit;
mod markdown;
mod page;
mod rows;
mod side;
mod text;

use model::comparison::{LeftOut, SCHEMA};
use model::{Comparison, Run};

pub use csv::csv;
pub use limit::{Limit, LimitCheck};
pub use markdown::markdown;
pub use page::html;
pub use side::{ForeignRate, Side};
pub use text::text;
pub(crate) use wording::comparison::{difference, signed};

use crate::facts;

/// Default effect, as a share: sides that differ by less are equivalent.
pub const EFFECT: f64 = 0.03;
/// Least change, as a share, that may be called a change: runs of one machine before and after a reboot differ by as
/// much. If the effect is smaller than twice this, half of the effect is used.
pub const NOISE_FLOOR: f64 = 0.02;

/// Compares all sides with the first. Sides that differ by less than `effect`, as a share, are equivalent.
///
/// # Errors
/// One sentence: there are fewer than two sides, or no test was measured on two of them.
pub fn compare(sides: &[Side], effect: f64) -> Result<Comparison, String> {
    let [first, others @ ..] = sides else {
        return Err("cannot compare: no run given; choose two runs".into());
    };
    if others.is_empty() {
        return Err(format!(
            "cannot compare {}: no second run given; choose another run",
            crate::printable(&first.name)
        ));
    }
    let noise_floor = NOISE_FLOOR.min(effect / 2.0);
    let is_interleaved = rows::are_interleaved(sides);
    let rows::ComparedTests { rows, left_out, comparisons } =
        rows::compare(sides, effect, noise_floor, is_interleaved);
    if rows.is_empty() {
        return Err(nothing_in_common(sides, &left_out));
    }
    let (differs, same) = facts::compare(&sides.iter().map(|side| &side.facts).collect::<Vec<_>>());
    Ok(Comparison {
        schema: SCHEMA.into(),
        skye_version: env!("CARGO_PKG_VERSION").into(),
        is_interleaved,
        effect,
        noise_floor,
        differs,
        same,
        geomean_ratios: (1..sides.len()).map(|side| rows::geomean(&rows, side)).collect(),
        comparisons: comparisons as u32,
        runs_to_decide: stats::runs_to_decide(comparisons, is_interleaved) as u32,
        warnings: warnings(sides),
        rows,
        left_out,
        sides: sides.iter().map(side_record).collect(),
    })
}

/// Returns the value of a named fact of a run: "kernel", "scheduler". Sides may differ in it, and runs can be grouped
/// by it.
///
/// # Errors
/// The names of all known facts of the run, if there is no such fact.
pub fn fact(run: &Run, name: &str) -> Result<String, Vec<String>> {
    let mut facts = facts::Facts::default();
    facts.add(facts::from_run(run));
    facts.value(name).ok_or_else(|| facts.names().map(str::to_owned).collect())
}

fn side_record(side: &Side) -> model::comparison::Side {
    model::comparison::Side {
        name: side.name.clone(),
        files: side.files.clone(),
        started_at: side.started_at.clone(),
        runs: side.runs() as u32,
    }
}

fn warnings(sides: &[Side]) -> Vec<String> {
    let partial = sides.iter().filter(|side| side.is_partial);
    let partial =
        partial.map(|side| format!("a run of {} is incomplete: missing tests are omitted", side.name));
    let mixed = sides.iter().filter(|side| side.targets.len() > 1);
    let mixed = mixed.map(|side| {
        let targets = side.targets.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = if side.targets.len() > 3 { ", …" } else { "" };
        format!(
            "the runs of {} have {} targets ({targets}{more}): their spread is not noise",
            side.name,
            side.targets.len()
        )
    });
    partial.chain(mixed).collect()
}

fn nothing_in_common(sides: &[Side], left_out: &[LeftOut]) -> String {
    let (first, others) = (&sides[0], &sides[1..]);
    let is_on_others =
        |spec: &str| others.iter().flat_map(|side| &side.tests).any(|test| test.key.spec == spec);
    let left = left_out.iter().find(|left| left.reason.starts_with(rows::NOT_THE_SAME));
    if let Some(left) = left.filter(|_| first.tests.iter().any(|test| is_on_others(&test.key.spec))) {
        return crate::printable(&format!("cannot compare these: {}: {}", left.what, left.reason));
    }
    let of = |side: &Side| {
        let mut specs: Vec<&str> = side.tests.iter().map(|test| test.key.spec.as_str()).collect();
        specs.dedup();
        let listed = specs.iter().take(4).copied().collect::<Vec<_>>().join(", ");
        let more = if specs.len() > 4 { ", …" } else { "" };
        match specs.is_empty() {
            true => format!("{} measured nothing", side.name),
            false => format!("{} measured {listed}{more}", side.name),
        }
    };
    let descriptions: Vec<_> = sides.iter().map(of).collect();
    crate::printable(&format!(
        "cannot compare these: they have no test in common; {}. Use the same preset or the same --test for both",
        descriptions.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use model::comparison::{Decision, Direction, Measure};
    use model::run::PhaseRecord;

    use super::*;
    use crate::sample;

    /// A run with six repetitions of all tests. All rates are multiplied by `factor`, with a spread of 1 %.
    fn repeated(factor: f64) -> Run {
        let mut run = sample::run();
        let once = std::mem::take(&mut run.phases);
        for repetition in 1..=6u32 {
            let noise = 1.0 + 0.01 * (f64::from(repetition * 5 % 7) - 3.0) / 3.0;
            run.phases.extend(once.iter().map(|phase| scaled(phase, repetition, factor * noise)));
        }
        run
    }

    fn scaled(phase: &PhaseRecord, repetition: u32, factor: f64) -> PhaseRecord {
        let mut phase = PhaseRecord { repetition, ..phase.clone() };
        let rate = &mut phase.figures.rate;
        let rates = [&mut rate.ops_per_second, &mut rate.bytes_per_second];
        for rate in
            rates.into_iter().chain([&mut rate.ci95_low_ops_per_second, &mut rate.ci95_high_ops_per_second])
        {
            *rate = rate.map(|rate| rate * factor);
        }
        if let Some(latency) = &mut phase.figures.latency_ns {
            latency.p99 = latency.p99.map(|ns| (ns as f64 / factor) as u64);
        }
        phase
    }

    fn side(name: &str, run: Run) -> Side {
        Side::from_runs(name.into(), &[(format!("{name}.json"), run)])
    }

    fn plain_text(comparison: &Comparison) -> String {
        sample::plain(&text(comparison, &sample::WIDE))
    }

    /// A run with another scheduler and kernel, slower random reads, and faster sequential writes.
    fn tuned() -> Run {
        let mut run = repeated(1.0);
        run.environment.target.device_stack[1].scheduler = Some("mq-deadline".into());
        run.environment.kernel = "Linux 6.8.0".into();
        for phase in &mut run.phases {
            match phase.spec.as_str() {
                "read:rnd4k:q32t4" => *phase = scaled(phase, phase.repetition, 0.43),
                "write:seq1m:q8" => *phase = scaled(phase, phase.repetition, 1.1),
                _ => {}
            }
        }
        run
    }

    #[test]
    fn changes_have_ratio_and_direction() {
        let comparison = compare(&[side("before", tuned()), side("after", repeated(1.0))], EFFECT).unwrap();
        insta::assert_snapshot!(plain_text(&comparison));
        let change = |spec: &str, measure| {
            let row = comparison.rows.iter().find(|row| row.spec == spec && row.measure == measure);
            row.and_then(|row| row.changes[0].clone()).unwrap()
        };
        let read = change("read:rnd4k:q32t4", Measure::OpsPerSecond);
        assert_eq!((read.answer, read.direction), (Decision::Changed, Some(Direction::Better)));
        assert!((read.ratio - 1.0 / 0.43).abs() < 1e-6);
        // Less latency is better.
        let waiting = change("read:rnd4k:q32t4", Measure::P99Ns);
        assert_eq!((waiting.answer, waiting.direction), (Decision::Changed, Some(Direction::Better)));
        let written = change("write:seq1m:q8", Measure::BytesPerSecond);
        assert_eq!(written.direction, Some(Direction::Worse));
        assert_eq!(change("stat:t4", Measure::OpsPerSecond).answer, Decision::Equivalent);
    }

    #[test]
    fn single_runs_claim_no_change() {
        let mut after = sample::run();
        after.phases = after.phases.iter().map(|phase| scaled(phase, 1, 2.0)).collect();
        let comparison = compare(&[side("before", sample::run()), side("after", after)], EFFECT).unwrap();
        assert!(!comparison.has_p_values());
        insta::assert_snapshot!(plain_text(&comparison));
    }

    #[test]
    fn three_sides_each_have_a_column() {
        let sides = [side("xfs", repeated(1.0)), side("ext4", repeated(0.9)), side("btrfs", repeated(0.7))];
        let comparison = compare(&sides, EFFECT).unwrap();
        insta::assert_snapshot!(plain_text(&comparison));
        assert_eq!(comparison.geomean_ratios.len(), 2);
    }

    #[test]
    fn comparison_fits_terminal_width() {
        let comparison = compare(&[side("before", tuned()), side("after", repeated(1.0))], EFFECT).unwrap();
        for width in [80, 100, 120] {
            let text = sample::plain(&text(&comparison, &crate::text::Style { has_unicode: true, width }));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest} of {width}:\n{text}");
        }
        let ascii = text(&comparison, &sample::ASCII);
        assert!(ascii.is_ascii(), "{ascii}");
    }

    #[test]
    fn unlike_work_is_not_compared() {
        let mut after = repeated(1.0);
        for phase in &mut after.phases {
            match phase.spec.as_str() {
                // The same name in tables, but another test.
                "write:seq1m:q8" => phase.spec = "write:seq1m:q8:sync=each".into(),
                // The same spec, but other work.
                "create:t4" => phase.workload.files = 1000,
                _ => {}
            }
        }
        let comparison = compare(&[side("before", repeated(1.0)), side("after", after)], EFFECT).unwrap();
        let left: Vec<_> = comparison.left_out.iter().map(|left| left.reason.as_str()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(
            left[0]
                .contains("not the same work: write:seq1m:q8 on before, write:seq1m:q8:sync=each on after")
        );
        assert!(
            left.iter().any(|reason| reason.contains("65,536 files on before, 1,000 files on after")),
            "{left:?}"
        );
        assert!(
            comparison
                .rows
                .iter()
                .all(|row| row.spec != "create:t4" && row.name != "write" || row.label != "1M q8")
        );
        let mut other = sample::run();
        other.phases.iter_mut().for_each(|phase| phase.spec = "read:rnd8k".into());
        let refused = compare(&[side("before", repeated(1.0)), side("after", other)], EFFECT).unwrap_err();
        assert!(refused.contains("no test in common") && refused.contains("read:rnd8k"), "{refused}");
    }

    /// Makes each test of a run by several clients.
    fn by_clients(mut run: Run, count: u32) -> Run {
        for phase in &mut run.phases {
            phase.hosts = (0..count).map(|_| sample::client("ada", phase)).collect();
        }
        run
    }

    #[test]
    fn other_number_of_clients_is_other_work() {
        let four = || by_clients(repeated(1.0), 4);
        let refused = compare(&[side("before", repeated(1.0)), side("after", four())], EFFECT).unwrap_err();
        assert!(refused.ends_with("not the same work: 1 client on before, 4 clients on after"), "{refused}");
        // One client is one process, and equal numbers are compared.
        assert!(
            compare(&[side("a", repeated(1.0)), side("b", by_clients(repeated(1.0), 1))], EFFECT).is_ok()
        );
        let mut mixed = four();
        mixed.phases.retain(|phase| phase.spec != "create:t4");
        mixed.phases.extend(repeated(1.0).phases.into_iter().filter(|phase| phase.spec == "create:t4"));
        let comparison = compare(&[side("before", four()), side("after", mixed)], EFFECT).unwrap();
        let left: Vec<_> =
            comparison.left_out.iter().map(|left| (left.what.as_str(), left.reason.as_str())).collect();
        assert_eq!(left, [("create t4", "not the same work: 4 clients on before, 1 client on after")]);
        // A sweep over clients has one spec, and its points are separate rows.
        let mut sweep = repeated(1.0);
        sweep.phases.extend(four().phases);
        let comparison = compare(&[side("before", sweep.clone()), side("after", sweep)], EFFECT).unwrap();
        let counts: Vec<_> = comparison.rows.iter().filter(|row| row.spec == "create:t4").collect();
        assert!(counts.len() >= 2 && comparison.left_out.is_empty(), "{:?}", comparison.left_out);
    }

    #[test]
    fn runs_of_one_side_are_pooled_only_if_equal() {
        let of = |change: &dyn Fn(&mut Run)| {
            let mut other = repeated(1.0);
            change(&mut other);
            let documents = [("a.json".to_owned(), repeated(1.0)), ("b.json".to_owned(), other)];
            let mixed = Side::from_runs("mixed".into(), &documents);
            compare(&[side("before", repeated(1.0)), mixed], EFFECT).unwrap()
        };
        let uring = of(&|run| {
            let reads = run.phases.iter_mut().filter(|phase| phase.spec == "read:rnd4k:q32t4");
            reads.for_each(|phase| phase.engine.name = "uring".into());
        });
        let left: Vec<_> = uring.left_out.iter().map(|left| left.reason.as_str()).collect();
        assert_eq!(left, ["not the same work in all runs of mixed: engine sync and engine uring"]);
        let mut sized = repeated(1.0);
        sized.plan.dataset.as_mut().unwrap().size_is_fixed = true;
        let mut larger = sized.clone();
        larger.phases.iter_mut().for_each(|phase| phase.workload.size_bytes *= 2);
        let mixed = Side::from_runs("mixed".into(), &[("a".into(), sized), ("b".into(), larger)]);
        let comparison = compare(&[side("before", repeated(1.0)), mixed], EFFECT).unwrap();
        let reason = &comparison.left_out[0].reason;
        assert!(reason.ends_with("in all runs of mixed: 4 GiB of data and 8 GiB of data"), "{reason}");
        let elsewhere = of(&|run| run.environment.target.path = "/other".into());
        assert!(
            elsewhere.warnings[0].contains("the runs of mixed have 2 targets"),
            "{:?}",
            elsewhere.warnings
        );
        assert!(of(&|_| {}).warnings.is_empty());
    }

    #[test]
    fn geomean_needs_a_decision_in_every_row() {
        let means = |before: Run, after: Run| {
            compare(&[side("before", before), side("after", after)], EFFECT).unwrap().geomean_ratios
        };
        let [Some(mean)] = means(repeated(1.0), repeated(0.8))[..] else { panic!() };
        assert!((mean - 0.8).abs() < 1e-9, "{mean}");
        let mut one_open = repeated(0.8);
        one_open.phases.retain(|phase| phase.spec != "create:t4" || phase.repetition < 2);
        assert_eq!(means(repeated(1.0), one_open), [None]);
        assert_eq!(means(sample::run(), sample::run()), [None]);
    }

    #[test]
    fn single_runs_with_many_rows_need_more_repetitions() {
        let mut run = sample::run();
        let once = run.phases.clone();
        for number in 0..3 {
            run.phases.extend(
                once.iter()
                    .map(|phase| PhaseRecord { spec: format!("{}:{number}", phase.spec), ..phase.clone() }),
            );
        }
        let comparison = compare(&[side("before", run.clone()), side("after", run)], EFFECT).unwrap();
        assert_eq!((comparison.comparisons, comparison.runs_to_decide), (44, 7));
        assert!(plain_text(&comparison).contains("use --repeat 7"), "{}", plain_text(&comparison));
    }

    #[test]
    fn different_limiter_or_invalid_side_gives_warning() {
        let mut after = repeated(1.0);
        for phase in &mut after.phases {
            let Some(verdict) = &mut phase.judged.verdict else { continue };
            match phase.spec.as_str() {
                "read:seq1m:q8" => verdict.limiter = Some(model::Limiter::PageCache),
                "stat:t4" => {
                    verdict.trust = model::run::Trust::Invalid;
                    verdict.trust_reasons = vec!["cached".into()];
                }
                _ => {}
            }
        }
        let comparison = compare(&[side("before", repeated(1.0)), side("after", after)], EFFECT).unwrap();
        let warnings = |spec: &str| {
            comparison
                .rows
                .iter()
                .find(|row| row.spec == spec)
                .map(|row| row.warnings.join("; "))
                .unwrap_or_default()
        };
        assert!(warnings("read:seq1m:q8").contains("page cache on after"), "{}", warnings("read:seq1m:q8"));
        assert!(warnings("stat:t4").contains("after is invalid"), "{}", warnings("stat:t4"));
    }

    #[test]
    fn interleaved_runs_are_compared_in_pairs() {
        let paired = |side: &str, factor: f64| {
            let mut run = repeated(1.0);
            // Everything drifts by 10 % from one repetition to the next.
            for phase in &mut run.phases {
                *phase = scaled(phase, phase.repetition, factor * 1.1f64.powi(phase.repetition as i32));
            }
            let pairing = model::run::Pairing {
                id: "x".into(),
                side: side.into(),
                first: vec![true; 6],
                command: None,
            };
            Run { pairing: Some(pairing), ..run }
        };
        let comparison =
            compare(&[side("/a", paired("A", 1.0)), side("/b", paired("B", 0.94))], EFFECT).unwrap();
        assert!(comparison.is_interleaved);
        let change = comparison.rows[0].changes[0].as_ref().unwrap();
        assert!((change.ratio - 0.94).abs() < 1e-9 && change.ci95_high_ratio.unwrap() < 0.95, "{change:?}");
        assert_eq!(comparison.runs_to_decide, 9);
    }

    #[test]
    fn results_of_older_programs_are_compared() {
        let rates = |factor: f64| {
            let rate =
                |test: &str, per_second, is_bytes| ForeignRate { test: test.into(), per_second, is_bytes };
            vec![rate("block write", 100e6 * factor, true), rate("stat", 5000.0 * factor, false)]
        };
        let runs = |factor: f64| -> Vec<_> {
            (0..6).map(|index| ("ada".to_owned(), rates(factor * (1.0 + 0.002 * f64::from(index))))).collect()
        };
        let old = Side::from_foreign_runs("old.csv".into(), "old.csv".into(), "bonnie++ 2.00a", &runs(1.0));
        let new = Side::from_foreign_runs("new.csv".into(), "new.csv".into(), "bonnie++ 2.00a", &runs(1.2));
        let comparison = compare(&[old, new], EFFECT).unwrap();
        insta::assert_snapshot!(plain_text(&comparison));
    }

    #[test]
    fn markdown_and_csv_have_every_measure() {
        let comparison = compare(&[side("before", tuned()), side("after", repeated(1.0))], EFFECT).unwrap();
        insta::assert_snapshot!(markdown(&comparison));
        let text = csv(&comparison);
        let mut reader = ::csv::Reader::from_reader(text.as_bytes());
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), 2 * comparison.rows.len());
        let changed = lines.iter().filter(|line| &line[16] == "changed").count();
        assert_eq!(changed, 4, "two rates and two latencies");
    }

    #[test]
    fn json_comparison_reads_back() {
        let comparison = compare(&[side("before", tuned()), side("after", repeated(1.0))], EFFECT).unwrap();
        let text = crate::json::write_comparison(&comparison);
        assert_eq!(serde_json::from_str::<Comparison>(&text).unwrap(), comparison);
    }

    #[test]
    fn hostile_names_are_harmless_in_every_form() {
        let hostile = "=1+1<script>alert(1)</script>|`x`\u{1b}[31m\u{202e}@all";
        let mut before = sample::hostile_run();
        before.phases = repeated(1.0).phases;
        let mut after = before.clone();
        after.environment.kernel = hostile.into();
        let comparison = compare(&[side(hostile, before), side("-2+3", after)], EFFECT).unwrap();
        let terminal = plain_text(&comparison);
        assert!(!terminal.chars().any(|c| c != '\n' && model::printable::affects_display(c)), "{terminal}");
        let markdown = markdown(&comparison);
        assert!(
            !markdown.contains("<script") && !markdown.contains("@all") && !markdown.contains('\u{202e}')
        );
        let csv = csv(&comparison);
        assert!(
            csv.contains("'-2+3") && csv.contains("'=1+1") && !csv.contains(",=") && !csv.contains('\u{1b}'),
            "{csv}"
        );
    }

    #[test]
    fn gate_is_exceeded_only_by_significant_changes() {
        let limit: Limit = "throughput<-5%".parse().unwrap();
        let of = |before: Run, after: Run| {
            limit.reached(&compare(&[side("before", before), side("after", after)], EFFECT).unwrap())
        };
        let LimitCheck::Exceeded(rows) = of(tuned(), repeated(1.0)) else { panic!() };
        assert_eq!(rows, ["write 1M q8 -9.1 %"]);
        assert_eq!(of(repeated(1.0), repeated(0.96)), LimitCheck::Within);
        let LimitCheck::Undecided(reason) = of(sample::run(), sample::run()) else { panic!() };
        assert!(reason.contains("--repeat 6"), "{reason}");
    }

    #[test]
    fn gate_tests_only_its_own_direction() {
        let spec = "write:seq1m:q8";
        let with = |percents: [f64; 6]| {
            let mut run = repeated(1.0);
            let once = sample::run().phases.into_iter().find(|phase| phase.spec == spec).unwrap();
            for phase in run.phases.iter_mut().filter(|phase| phase.spec == spec) {
                *phase = scaled(&once, phase.repetition, percents[phase.repetition as usize - 1] / 100.0);
            }
            run
        };
        let (slow, fast) = ([90.0, 91.0, 93.0, 89.0, 88.0, 94.0], [100.0, 101.0, 102.0, 103.0, 104.0, 92.0]);
        let of = |before, after| {
            compare(&[side("before", with(before)), side("after", with(after))], EFFECT).unwrap()
        };
        let loss = of(fast, slow);
        let change = loss.rows[0].changes[0].as_ref().unwrap();
        // Six of 924 splits differ by as much, three in each direction.
        assert_eq!((change.answer, change.p), (Decision::CannotTell, Some(6.0 / 924.0)));
        let limit: Limit = "throughput<-5%".parse().unwrap();
        let LimitCheck::Exceeded(rows) = limit.reached(&loss) else { panic!() };
        assert_eq!(rows, ["write 1M q8 -9.4 % (p=0.036 for this direction)"]);
        assert_eq!(limit.reached(&of(slow, fast)), LimitCheck::Within);
    }

    #[test]
    fn test_listed_repeatedly_counts_as_one_run() {
        let mut run = sample::run();
        let once = run.phases.clone();
        for _ in 0..5 {
            run.phases.extend(once.iter().map(|phase| scaled(phase, 1, 1.01)));
        }
        let mut other = run.clone();
        other.phases = other.phases.iter().map(|phase| scaled(phase, 1, 2.0)).collect();
        let comparison = compare(&[side("before", run), side("after", other)], EFFECT).unwrap();
        assert!(
            !comparison.has_p_values()
                && comparison.rows.iter().all(|row| row.sides[0].as_ref().unwrap().values.len() == 1)
        );
        assert!((comparison.rows[0].changes[0].as_ref().unwrap().ratio - 2.0).abs() < 1e-6);
    }

    #[test]
    fn failed_test_is_listed_and_leaves_gate_undecided() {
        let mut after = repeated(1.0);
        for phase in after.phases.iter_mut().filter(|phase| phase.spec == "read:seq1m:q8") {
            phase.status = model::run::Status::Failed;
            phase.reason = Some("read f0: Input/output error".into());
        }
        let comparison =
            compare(&[side("before", repeated(1.0)), side("after", after.clone())], EFFECT).unwrap();
        let left: Vec<_> = comparison.left_out.iter().map(|left| left.reason.as_str()).collect();
        assert!(
            left.iter().any(|reason| reason.contains("on after: read f0: Input/output error")),
            "{left:?}"
        );
        assert!(left.iter().all(|reason| !reason.contains("not the same work")), "{left:?}");
        let limit: Limit = "throughput<-5%".parse().unwrap();
        assert!(
            matches!(limit.reached(&comparison), LimitCheck::Undecided(reason) if reason.contains("read 1M q8"))
        );
        // A loss in another row is one, whatever the failed test would have shown.
        for phase in after.phases.iter_mut().filter(|phase| phase.spec == "write:seq1m:q8") {
            *phase = scaled(phase, phase.repetition, 0.5);
        }
        let comparison = compare(&[side("before", repeated(1.0)), side("after", after)], EFFECT).unwrap();
        assert!(matches!(limit.reached(&comparison), LimitCheck::Exceeded(rows) if rows.len() == 1));
    }

    #[test]
    fn invalid_result_is_excluded_from_headline_and_gate() {
        let mut after = repeated(2.0);
        for phase in &mut after.phases {
            phase
                .judged
                .verdict
                .get_or_insert_with(|| sample::run().phases[0].judged.verdict.clone().unwrap())
                .trust = model::run::Trust::Invalid;
        }
        let comparison = compare(&[side("before", repeated(1.0)), side("after", after)], EFFECT).unwrap();
        let text = plain_text(&comparison).replace("\n", " ");
        assert!(!text.contains("faster in") && text.contains("A number is invalid in 11 tests"), "{text}");
        assert_eq!(comparison.geomean_ratios, [None]);
        let limit: Limit = "throughput>5%".parse().unwrap();
        assert!(matches!(limit.reached(&comparison), LimitCheck::Undecided(_)));
    }

    #[test]
    fn latency_change_without_rate_change_is_reported() {
        let mut after = repeated(1.0);
        for latency in after.phases.iter_mut().filter_map(|phase| phase.figures.latency_ns.as_mut()) {
            latency.p99 = latency.p99.map(|ns| ns * 5);
        }
        let comparison = compare(&[side("before", repeated(1.0)), side("after", after)], EFFECT).unwrap();
        let text = plain_text(&comparison);
        assert!(text.contains("the same in 11 tests. Its p99 is higher in 10."), "{text}");
    }

    #[test]
    fn unequal_run_counts_need_enough_runs_to_decide() {
        let few = |run: Run, count: u32| {
            let phases =
                run.phases.iter().filter(|p| p.repetition <= count && p.spec == "write:seq1m:q8").cloned();
            Run { phases: phases.collect(), ..run }
        };
        let of = |count| {
            compare(
                &[side("before", few(repeated(1.0), 6)), side("after", few(repeated(2.0), count))],
                EFFECT,
            )
            .unwrap()
        };
        let change = |comparison: &Comparison| comparison.rows[0].changes[0].clone().unwrap();
        // There are 28 ways to split 8 runs into 6 and 2, and 84 to split 9 into 6 and 3.
        assert!(change(&of(3)).can_be_decided && change(&of(3)).answer == Decision::Changed);
        assert!(change(&of(2)).can_be_decided, "1 of 28 is less than 0.05");
        assert!(!change(&of(1)).can_be_decided);
        let text = plain_text(&of(1));
        assert!(text.contains("One run of after"), "{text}");
    }

    #[test]
    fn many_sides_are_listed_one_below_another() {
        let sides: Vec<_> = (0..12)
            .map(|number| side(&format!("/srv/a-rather-long-directory/runs/{number}"), repeated(1.0)))
            .collect();
        let comparison = compare(&sides, EFFECT).unwrap();
        let style = crate::text::Style { has_unicode: true, width: 100 };
        let text = sample::plain(&text(&comparison, &style));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{widest}: {text}");
        assert!((1..12).all(|number| text.contains(&format!("directory/runs/{number}"))), "{text}");
    }

    #[test]
    fn latency_row_follows_rate_row() {
        let mut before = repeated(1.0);
        // The first run has too few operations for a p99.
        before.phases[0].figures.latency_ns.as_mut().unwrap().p99 = None;
        let comparison = compare(&[side("before", before), side("after", repeated(1.0))], EFFECT).unwrap();
        let of_first = |index: usize| (comparison.rows[index].spec.as_str(), comparison.rows[index].measure);
        let spec = repeated(1.0).phases[0].spec.clone();
        assert_eq!(of_first(0), (spec.as_str(), Measure::BytesPerSecond));
        assert_eq!(of_first(1), (spec.as_str(), Measure::P99Ns));
    }
}
