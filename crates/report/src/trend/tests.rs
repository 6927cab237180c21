use model::figure::Share;
use model::finding::Finding;
use model::plan::Clients;
use model::run::{Setting, Status};
use model::{Run, Target};

use super::*;
use crate::sample;

/// Runs of two tests on a disk, oldest first: one with the given rates in bytes per second, one almost constant.
fn runs(rates: &[f64]) -> Vec<Run> {
    let runs = rates.iter().enumerate().map(|(at, rate)| {
        let mut run = sample::run();
        run.started_at = format!("2026-11-{:02}T14:03:07Z", at + 1);
        let mut read = sample::phase("read:seq1m:q8");
        read.figures.rate.bytes_per_second = Some(*rate);
        let mut random = sample::phase("read:rnd4k:q32t4");
        random.figures.rate.ops_per_second = Some(900_000.0 + 500.0 * at as f64);
        run.phases = vec![read, random];
        run
    });
    runs.collect()
}

/// Renders runs in the order of the store: newest first.
fn plain_text(runs: &[Run], style: &Style) -> String {
    let measured: Vec<_> = runs.iter().rev().map(|run| Some(RunSummary::from(run))).collect();
    sample::plain(&render(&measured, style))
}

fn distrust(phase: &mut PhaseRecord) {
    match &mut phase.judged.verdict {
        Some(verdict) => verdict.trust = Trust::Invalid,
        None => {
            phase.judged.notes.push(wording::note(Finding::CacheAnswered { cached_share: Share(0.9) }, []))
        }
    }
}

const STEP: [f64; 9] = [3.01e9, 3.0e9, 3.02e9, 2.99e9, 3.0e9, 3.01e9, 2.61e9, 2.6e9, 2.62e9];

/// Runs with a step of the rate, and all its possible causes.
fn upgraded() -> Vec<Run> {
    let mut runs = runs(&STEP);
    for run in &mut runs[6..] {
        let environment = &mut run.environment;
        environment.kernel = "Linux 6.14.2".into();
        environment.target.mount_options = ["rw", "relatime", "attr2", "inode64"].map(String::from).into();
        environment.target.device_stack[1].scheduler = Some("mq-deadline".into());
        environment.settings.push(Setting { name: "vm.swappiness".into(), value: "60".into() });
        run.skye_version = "0.9.9".into();
    }
    runs
}

const NARROW: Style = Style { has_unicode: true, width: 80 };

fn fits(text: &str, width: usize) {
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(widest <= width, "{widest} on {width}\n{text}");
    assert!(text.lines().all(|line| !line.ends_with(' ')), "{text}");
}

#[test]
fn level_change_fits_on_80_columns() {
    let text = plain_text(&upgraded(), &NARROW);
    fits(&text, 80);
    insta::assert_snapshot!(text);
}

#[test]
fn level_change_on_wide_terminal_snapshot() {
    insta::assert_snapshot!(plain_text(&upgraded(), &sample::WIDE));
}

#[test]
fn level_change_without_unicode_is_ascii() {
    let text = plain_text(&upgraded(), &sample::ASCII);
    assert!(text.is_ascii());
    insta::assert_snapshot!(text);
}

#[test]
fn trend_shows_targets_gaps_and_single_tests() {
    let mut runs = upgraded();
    // Another target, measured too rarely to tell; a test measured only once; numbers that do not count.
    for (at, run) in runs.iter_mut().enumerate().filter(|(at, _)| at % 4 == 1) {
        let mut target: Target = sample::sshfs();
        target.path = format!("/mnt/far/{}", "deep/".repeat(20));
        run.environment = sample::environment(target);
        run.phases.push(sample::phase(if at == 1 { "create:t4" } else { "stat:t4" }));
    }
    distrust(&mut runs[4].phases[0]);
    runs[7].phases[0].status = Status::Failed;
    let text = plain_text(&runs, &NARROW);
    fits(&text, 80);
    insta::assert_snapshot!(text);
}

#[test]
fn run_counts_as_median_of_its_repetitions() {
    let mut run = runs(&[1e9]).remove(0);
    for (repetition, rate) in [(2, 3e9), (3, 2e9)] {
        let mut phase = run.phases[0].clone();
        phase.repetition = repetition;
        phase.figures.rate.bytes_per_second = Some(rate);
        run.phases.push(phase);
    }
    let rates: Vec<_> = RunSummary::from(&run).tests.iter().map(|test| test.rate).collect();
    assert_eq!(rates, [Some(2e9), Some(900_000.0)]);
    distrust(&mut run.phases[2]);
    assert_eq!(RunSummary::from(&run).tests[0].rate, Some(1.5e9));
}

#[test]
fn causes_of_level_change_ignore_failed_runs() {
    let mut runs = runs(&STEP);
    // The first run of the new rate has no number, so the level begins with the next. Its kernel is new to the old
    // level.
    runs[6].phases[0].status = Status::Failed;
    runs[6].environment.kernel = "Linux 6.14.2".into();
    runs[7].environment.kernel = "Linux 6.14.2".into();
    runs[8].environment.kernel = "Linux 6.14.2".into();
    let text = plain_text(&runs, &sample::WIDE);
    assert!(
        text.contains("-13.1 % since @-1 (2026-11-08 14:03 UTC): kernel Linux 6.12.9 → Linux 6.14.2"),
        "{text}"
    );
    // If nothing differs, the text says so.
    let text = plain_text(&self::runs(&STEP), &sample::WIDE);
    assert!(text.contains("-13.1 % since @-2 (2026-11-07 14:03 UTC): no other known difference"), "{text}");
}

/// Returns the differences that are shown for a step if `change` applies to the runs after it.
fn causes_of(change: impl Fn(&mut Run)) -> String {
    let mut runs = runs(&STEP);
    runs[6..].iter_mut().for_each(change);
    let text = plain_text(&runs, &sample::WIDE);
    let (_, causes) = text.split_once("UTC): ").unwrap_or_else(|| panic!("{text}"));
    causes.split("\n  read").next().unwrap_or_default().to_owned()
}

#[test]
fn changed_read_ahead_journal_and_verify_are_causes() {
    let causes = causes_of(|run| run.environment.target.device_stack[1].read_ahead_bytes = Some(4 << 20));
    assert!(causes.starts_with("read-ahead ") && causes.ends_with(", 4 MiB"), "{causes}");
    let causes = causes_of(|run| run.environment.target.geometry.journal = Some("on another disk".into()));
    assert!(causes.starts_with("journal ") && causes.ends_with(" → on another disk"), "{causes}");
    let causes = causes_of(|run| run.plan.verify_all = true);
    assert_eq!(causes, "verified unknown → every byte");
}

#[test]
fn long_cause_values_are_shortened_around_their_difference() {
    let long = "a word and ".repeat(9);
    let mut runs = runs(&STEP);
    for (at, run) in runs.iter_mut().enumerate() {
        run.environment.kernel = format!("{long}{}", if at < 6 { "old" } else { "new" });
    }
    let text = plain_text(&runs, &sample::WIDE).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a word and old → …") && text.contains("a word and new read"), "{text}");
}

#[test]
fn label_seed_and_free_space_changes_are_not_causes() {
    let causes = causes_of(|run| {
        run.label = Some("after".into());
        run.plan.seed = Some(7);
        run.environment.target.space.free_bytes /= 9;
    });
    assert_eq!(causes, "no other known difference from the previous run");
}

#[test]
fn data_set_change_is_shown_only_for_its_test() {
    let causes = causes_of(|run| {
        run.phases[1].workload.size_bytes *= 64;
        run.phases[1].engine.name = "another".into();
    });
    assert_eq!(causes, "no other known difference from the previous run");
    let causes = causes_of(|run| {
        run.phases[0].workload.size_bytes = 64 << 30;
        run.environment.kernel = "Linux 6.14.2".into();
    });
    assert!(causes.starts_with("data set ") && causes.contains(" → 64 GiB, kernel Linux"), "{causes}");
}

#[test]
fn change_from_zero_has_no_percentage() {
    let text = plain_text(&runs(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 1.01e9, 1.02e9]), &NARROW);
    assert!(text.contains("  from 0\n    from 0 since @-2"), "{text}");
}

#[test]
fn unreadable_runs_count_in_run_numbering() {
    let mut measured: Vec<_> = upgraded().iter().rev().map(|run| Some(RunSummary::from(run))).collect();
    measured.insert(1, None);
    let text = sample::plain(&render(&measured, &sample::WIDE));
    assert!(text.contains("since @-3 (2026-11-07"), "{text}");
    assert!(text.ends_with("1 saved run is unreadable: skye list shows why.\n"), "{text}");
}

#[test]
fn single_run_has_no_trend() {
    assert_eq!(plain_text(&runs(&[1e9]), &NARROW), "2 tests were measured once: no trend yet.\n");
    assert_eq!(
        render(&[None], &NARROW),
        "no test has been measured yet\n1 saved run is unreadable: skye list shows why.\n"
    );
    assert_eq!(render(&[], &NARROW), "no test has been measured yet\n");
}

#[test]
fn tests_with_different_specs_are_separate() {
    let mut runs = runs(&[1e9, 1e9]);
    runs[1].phases[0].spec += ",other";
    let text = plain_text(&runs, &NARROW);
    assert!(text.contains("2 tests were measured once"), "{text}");
    let mut again = self::runs(&[1e9, 1e9]);
    again[1].phases[0].spec += ",other";
    runs.extend(again);
    let text = plain_text(&runs, &NARROW);
    assert!(text.contains("\n    read:seq1m:q8\n") && text.contains("\n    read:seq1m:q8,other\n"), "{text}");
}

#[test]
fn different_work_makes_separate_rows_with_words() {
    let mut runs = runs(&[3.0e9; 6]);
    for (at, run) in runs.iter_mut().enumerate() {
        run.plan.dataset.as_mut().unwrap().size_is_fixed = true;
        let read = &mut run.phases[0];
        if at % 2 == 1 {
            read.engine.name = "uring".into();
            read.workload.size_bytes = 1 << 20;
        }
    }
    let text = plain_text(&runs, &sample::WIDE);
    for expected in
        ["read:seq1m:q8, engine uring, 1 MiB of data\n", "read:seq1m:q8, engine sync, 4 GiB of data\n"]
    {
        assert!(text.contains(expected), "{text}");
    }
    // A size that calibration chose belongs to the speed.
    runs.iter_mut().for_each(|run| {
        run.plan.dataset.as_mut().unwrap().size_is_fixed = false;
        run.phases[0].engine.name = "sync".into();
    });
    let text = plain_text(&runs, &sample::WIDE);
    assert!(!text.contains("read:seq1m:q8,") && !text.contains("of data"), "{text}");
}

#[test]
fn runs_of_one_and_several_clients_are_separate() {
    let mut runs = runs(&STEP[..4]);
    for run in &mut runs[2..] {
        run.plan.clients = Some(Clients { count: 4, number: None, clients_on_file_system: 4 });
    }
    let text = plain_text(&runs, &NARROW);
    assert!(text.contains("ada: /mnt/data\n") && text.contains("ada: /mnt/data, 4 clients\n"), "{text}");
}

#[test]
fn control_characters_never_reach_trend_output() {
    let evil = "a\x1b[2Jb\nc\u{202e}\u{1f}";
    let mut runs = upgraded();
    for (at, run) in runs.iter_mut().enumerate() {
        run.environment.host = format!("{evil}{}", "x".repeat(200));
        run.environment.target.path = evil.into();
        run.environment.kernel = format!("{evil}{at}");
        run.environment.target.mount_options = vec![format!("{evil}{at}")];
        run.skye_version = format!("{at}{evil}");
        run.started_at = evil.into();
        run.phases[0].label = evil.repeat(9);
        run.phases[0].name = evil.into();
        run.phases[1].figures.rate.ops_per_second = Some([f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300][at % 5]);
    }
    for style in [NARROW, sample::WIDE, sample::ASCII] {
        let text = plain_text(&runs, &style);
        let harmless = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(text.chars().all(harmless) && (style.has_unicode || text.is_ascii()), "{text:?}");
        assert!(text.contains("-13.1 % since @-2"), "{text}");
    }
}

proptest::proptest! {
    #[test]
    fn trend_of_any_runs_renders_without_panic(seed in sample::any_run(), count in 0usize..9, width in 0usize..200, has_unicode: bool) {
        let style = Style { has_unicode, width };
        let text = plain_text(&vec![seed; count], &style);
        proptest::prop_assert!(text.ends_with('\n'));
        proptest::prop_assert!(has_unicode || text.is_ascii());
    }
}
