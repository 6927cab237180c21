//! Properties that hold for every page of a comparison.

use model::comparison::{Difference, LeftOut};
use model::run::Pairing;
use proptest::prelude::*;

use super::*;
use crate::compare::{self, EFFECT, ForeignRate, Side};
use crate::html::tests::{assert_sound, long_run};
use crate::sample;

/// Six repetitions of all tests of a run. All rates are multiplied by `factor`, with a spread of 1 %.
fn repeated(once: &Run, factor: f64) -> Run {
    let mut run = Run { phases: Vec::new(), ..once.clone() };
    for repetition in 1..=6u32 {
        let factor = factor * (1.0 + 0.01 * (f64::from(repetition * 5 % 7) - 3.0) / 3.0);
        for phase in &once.phases {
            let mut phase = model::run::PhaseRecord { repetition, ..phase.clone() };
            let rate = &mut phase.figures.rate;
            for rate in [&mut rate.ops_per_second, &mut rate.bytes_per_second] {
                *rate = rate.map(|rate| rate * factor);
            }
            if let Some(latency) = &mut phase.figures.latency_ns {
                latency.p99 = latency.p99.map(|ns| (ns as f64 / factor) as u64);
            }
            run.phases.push(phase);
        }
    }
    run
}

fn page_of(sides: &[(&str, Vec<Run>)]) -> (Comparison, String) {
    let of = |(name, runs): &(&str, Vec<Run>)| {
        let named: Vec<_> = runs.iter().map(|run| (format!("{name}.json"), run.clone())).collect();
        Side::from_runs((*name).to_owned(), &named)
    };
    let comparison = compare::compare(&sides.iter().map(of).collect::<Vec<_>>(), EFFECT).unwrap();
    let runs: Vec<_> = sides.iter().map(|(_, runs)| runs.clone()).collect();
    let text = html(&comparison, &runs);
    (comparison, text)
}

/// A run with another scheduler and slower random reads.
fn tuned() -> Run {
    let mut run = repeated(&sample::run(), 1.0);
    run.environment.target.device_stack[1].scheduler = Some("mq-deadline".into());
    for phase in run.phases.iter_mut().filter(|phase| phase.spec == "read:rnd4k:q32t4") {
        phase.figures.rate.ops_per_second = phase.figures.rate.ops_per_second.map(|rate| rate * 0.43);
    }
    run
}

/// The body without its tags.
fn plain(text: &str) -> String {
    let (_, body) = text.split_once("<body>").unwrap();
    let mut parts = body.split('<');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('>').map_or("", |(_, rest)| rest))
}

#[test]
fn pages_are_sound_for_every_kind_of_comparison() {
    let after = repeated(&sample::run(), 1.0);
    let swept = |factor| repeated(&sample::swept_run(), factor);
    for sides in [
        vec![("before", vec![tuned()]), ("after", vec![after.clone()])],
        vec![("before", vec![sample::run()]), ("after", vec![sample::run()])],
        vec![("a", vec![sample::run(); 3]), ("b", vec![after.clone(), sample::run()])],
        vec![("xfs", vec![swept(1.0)]), ("ext4", vec![swept(0.9)]), ("btrfs", vec![swept(0.5)])],
        vec![("whole", vec![sample::run()]), ("partial", vec![sample::partial_run()])],
        (0..14).map(|_| ("the same name", vec![after.clone()])).collect(),
    ] {
        let (comparison, text) = page_of(&sides);
        assert_sound(&text);
        assert_sound(&html(&comparison, &[]));
    }
    // Without documents, the page only lacks the charts made from them.
    let sides = [("before", vec![long_run(50)]), ("after", vec![long_run(60)])];
    let (comparison, text) = page_of(&sides);
    let without = html(&comparison, &[]);
    for curve in ["Rate over time", "Latency by percentile"] {
        assert!(text.contains(curve) && !without.contains(curve), "{curve}");
    }
}

#[test]
fn page_has_same_content_as_terminal() {
    let (comparison, text) =
        page_of(&[("before", vec![tuned()]), ("after", vec![repeated(&sample::run(), 1.0)])]);
    let plain_text = plain(&text);
    for sentence in wording::comparison::conclusions(&comparison) {
        assert!(plain_text.contains(&printable(&sentence)), "{sentence}");
    }
    for expected in [
        headline(&comparison).replace('"', "&#34;").as_str(),
        "mq-deadline",
        "before: 6 runs, 2026-11-21 14:03 UTC",
        "better +133 %",
        "same within ± 3 %",
        "after: changed by +133 % (",
        "geometric mean of rates",
        "comparison.json.gz",
        "comparison.csv",
    ] {
        assert!(plain_text.contains(expected), "{expected}: {plain_text}");
    }
    for row in &comparison.rows {
        for measured in row.sides.iter().flatten() {
            assert!(plain_text.contains(&wording::comparison::value(row, measured.mean)), "{row:?}");
        }
    }
    assert!(text.contains("href=\"#test-read-rnd4k-q32t4\""));
}

#[test]
fn change_charts_have_captions_and_coloured_dots() {
    let (_, text) = page_of(&[("before", vec![tuned()]), ("after", vec![repeated(&sample::run(), 1.0)])]);
    let (_, results) = text.split_once("id=\"results\"").unwrap();
    let (results, _) = results.split_once("</section>").unwrap();
    let captions: Vec<_> =
        results.split("<figcaption>").skip(1).map(|part| part.split('<').next().unwrap()).collect();
    insta::assert_snapshot!(captions.join("\n"));
    // One dot for each change, in the colour of its answer, none beyond the axis.
    assert_eq!(results.matches("class=\"p better\"").count(), 1);
    assert!(results.matches("class=\"p same\"").count() > 8);
}

#[test]
fn single_run_per_side_is_a_dot_without_change() {
    let (_, text) = page_of(&[("before", vec![sample::run()]), ("after", vec![sample::run()])]);
    let plain_text = plain(&text);
    assert!(
        plain_text.contains("With one run per side, the spread") && plain_text.contains("one run"),
        "{plain_text}"
    );
    assert!(
        !text.contains("Every run") && !plain_text.contains("better") && !text.contains("class=\"l w"),
        "{plain_text}"
    );
}

#[test]
fn short_names_tell_the_sides_apart() {
    let side_names = |names: [&str; 2]| {
        let sides = names.map(|name| (name, vec![sample::run()]));
        short_names(&page_of(&sides).0)
    };
    assert_eq!(side_names(["/mnt/xfs", "/mnt/ext4"]), ["xfs", "ext4"]);
    assert_eq!(side_names(["/mnt/a/data", "/mnt/b/data"]), ["/mnt/a/data", "/mnt/b/data"]);
    assert_eq!(side_names(["before/", "after/"]), ["before/", "after/"]);
    let long = "a long name that goes on and on";
    assert_eq!(
        side_names([&format!("{long}, first"), &format!("{long}, second")]),
        ["… that goes on and on, first", "…that goes on and on, second"].map(|name| name.to_owned())
    );
    assert_eq!(side_names(["same", "same"]), ["1 same", "2 same"]);
}

#[test]
fn paired_runs_are_joined_by_lines() {
    let of = |side: &str, factor: f64| {
        let pairing = Pairing { id: "x".into(), side: side.into(), first: vec![true; 6], command: None };
        Run { pairing: Some(pairing), ..repeated(&sample::run(), factor) }
    };
    let (comparison, text) = page_of(&[("/a", vec![of("A", 1.0)]), ("/b", vec![of("B", 0.9)])]);
    assert!(comparison.is_interleaved && text.contains("measured in turns"));
    let joined = text.split("class=\"pair\" d=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(joined.matches('M').count(), 6, "{joined}");
    let (_, apart) =
        page_of(&[("/a", vec![repeated(&sample::run(), 1.0)]), ("/b", vec![repeated(&sample::run(), 0.9)])]);
    assert!(!apart.contains("class=\"pair\""));
}

#[test]
fn results_of_older_programs_have_their_runs_drawn() {
    let side = |name: &str, count: u32, factor: f64| {
        let rate = |index: u32| ForeignRate {
            test: "Write blocks (256M)".into(),
            per_second: 1e8 * factor * (1.0 + 0.002 * f64::from(index)),
            is_bytes: true,
        };
        let runs: Vec<_> = (0..count).map(|index| ("ada".to_owned(), vec![rate(index)])).collect();
        Side::from_foreign_runs(name.into(), format!("{name}.csv"), "bonnie++ 2.00a", &runs)
    };
    for (count, has_card) in [(6, true), (1, false)] {
        let comparison =
            compare::compare(&[side("old", count, 1.0), side("new", count, 1.2)], EFFECT).unwrap();
        let text = html(&comparison, &[Vec::new(), Vec::new()]);
        assert_sound(&text);
        assert_eq!(text.contains("id=\"test-write-blocks--256m-\""), has_card);
        // It is no test of skye, so it cannot be run again.
        assert!(!text.contains("--test"));
    }
}

#[test]
fn hostile_names_are_escaped() {
    let hostile = "</style></title><script>alert(1)</script>\"><img src=x onerror='x'>\u{202e}\u{1b}[31m";
    let long = "überlang ".repeat(5000);
    let mut before = repeated(&sample::hostile_run(), 1.0);
    before.environment.kernel = long.clone();
    let mut after = before.clone();
    after.environment.kernel = hostile.into();
    for phase in before.phases.iter_mut().chain(&mut after.phases) {
        phase.label = format!("{hostile}{long}");
        if phase.spec == "read:rnd4k:q32t4" {
            phase.spec = format!("{hostile}{long}");
        }
    }
    let (_, text) = page_of(&[(hostile, vec![before]), (&long, vec![after])]);
    assert_sound(&text);
    assert!(text.matches("&#60;script&#62;").count() + text.matches("&lt;script&gt;").count() >= 8);
    assert!(text.contains(r"\u{202e}") && text.len() < PAGE_MAX, "{}", text.len());
}

#[test]
fn page_stays_below_size_limit() {
    let of = |factor: f64| vec![repeated(&long_run(200), factor)];
    let (_, text) = page_of(&[("before", of(1.0)), ("after", of(1.1))]);
    assert_eq!(text.matches("<article").count(), 11);
    assert!(text.len() < 500_000, "{}", text.len());
    // With many tests, only as many have cards as there is room for.
    let mut many = long_run(200);
    let once = many.phases.clone();
    for copy in 0..60 {
        many.phases.extend(once.iter().cloned().map(|mut phase| {
            phase.spec = format!("{}:ops={copy}", phase.spec);
            phase
        }));
    }
    let (_, text) = page_of(&[("before", vec![many.clone()]), ("after", vec![many])]);
    assert_sound(&text);
    assert!(text.len() < PAGE_MAX && text.contains("more tests do not fit here"), "{}", text.len());
    assert!(text.contains("more rows do not fit here") && text.contains("comparison.json.gz"));
    let (comparison, _) = page_of(&[("before", of(1.0)), ("after", of(1.1))]);
    let held = DownloadLinks::new(&comparison, 1000);
    let nothing =
        method::section(&Page { comparison: &comparison, runs: &[], short_names: Vec::new(), held }).0;
    assert!(nothing.contains("too large for this page") && !nothing.contains("download="), "{nothing}");
}

#[test]
fn omitted_rows_refer_to_csv_or_command() {
    let count = |copies: u32| {
        let once = sample::run();
        let mut many = Run { phases: Vec::new(), ..once.clone() };
        for copy in 0..copies {
            many.phases.extend(once.phases.iter().cloned().map(|mut phase| {
                phase.spec = format!("{}:ops={copy}", phase.spec);
                phase
            }));
        }
        let (comparison, text) = page_of(&[("before", vec![many.clone()]), ("after", vec![many])]);
        assert_sound(&text);
        // With short names, the number of cells limits the rows.
        let left = comparison.rows.len() - CELLS_MAX / 2;
        assert!(text.contains(&format!("<p>{left} more rows do not fit here")), "{left}");
        let has_csv = text.contains("download=\"comparison.csv\"");
        assert_eq!(text.contains("here; the <a href=\"#method\">CSV</a> has all of them"), has_csv);
        assert_eq!(text.contains("here; <code>skye compare --format csv</code> has all of them"), !has_csv);
        assert_eq!(text.contains("Its CSV is too large for this page"), !has_csv);
        has_csv
    };
    // The table has no room for all rows. The first CSV fits, the second does not.
    assert!(count(22));
    assert!(!count(40));
}

#[test]
fn many_sides_with_long_settings_fit() {
    let names: Vec<_> = (0..45).map(|side| format!("{side}{}", "<".repeat(300))).collect();
    let sides: Vec<_> =
        names.iter().map(|name| (name.as_str(), vec![repeated(&sample::run(), 1.0)])).collect();
    let (mut comparison, _) = page_of(&sides);
    let long = "<".repeat(300);
    comparison.differs = (0..100)
        .map(|index| Difference {
            name: format!("{index}{long}"),
            values: vec![Some(long.clone()); 45],
            may_affect_results: true,
        })
        .collect();
    let row_warnings = (0..200).map(|index| format!("{index}{}", "&".repeat(600)));
    comparison.warnings = row_warnings.collect();
    for row in &mut comparison.rows {
        row.label = "<".repeat(300);
    }
    for side in &mut comparison.sides {
        side.files = vec![long.clone(); 20];
    }
    let runs: Vec<_> = sides.iter().map(|(_, runs)| runs.clone()).collect();
    for runs in [&runs[..], &[]] {
        let text = html(&comparison, runs);
        assert_sound(&text);
        assert!(text.len() < PAGE_MAX, "{}", text.len());
        for said in ["more settings do not fit", "more sentences do not fit", "5 more sides are not shown"] {
            assert!(text.contains(said), "{said}");
        }
    }
}

#[test]
fn many_tests_with_long_names_fit() {
    let once = sample::run();
    let mut many = Run { phases: Vec::new(), ..once.clone() };
    for copy in 0..40 {
        many.phases.extend(once.phases.iter().cloned().map(|mut phase| {
            phase.spec = format!("{}:ops={copy}", phase.spec);
            phase.label = "<".repeat(300);
            phase
        }));
    }
    let runs = || vec![many.clone(), many.clone()];
    let (mut comparison, _) = page_of(&[("before", runs()), ("after", runs())]);
    for (index, row) in comparison.rows.iter_mut().enumerate() {
        row.name = format!("{index}{}", "\"".repeat(300));
        row.warnings = vec![format!("{index}{}", "'".repeat(700))];
    }
    let left =
        (0..300).map(|index| LeftOut { what: "<".repeat(90), reason: format!("{index}{}", "&".repeat(700)) });
    comparison.left_out = left.collect();
    let text = html(&comparison, &[runs(), runs()]);
    assert_sound(&text);
    assert!(text.len() < PAGE_MAX, "{}", text.len());
    for said in ["more rows do not fit", "more tests do not fit", "1 more side are not all drawn"] {
        assert!(text.contains(said), "{said}: {}", text.len());
    }
}

#[test]
fn omitted_sides_are_counted_in_the_page() {
    let run = repeated(&long_run(50), 1.0);
    let (_, text) = page_of(&(0..14).map(|_| ("a side", vec![run.clone()])).collect::<Vec<_>>());
    let plain_text = plain(&text);
    for expected in [
        "These are the first 5 of 14 sides.",
        "These are the first 12 of 14 sides.",
        "The changes of 5 more sides are not all drawn here",
    ] {
        assert!(plain_text.contains(expected), "{expected}");
    }
    assert!(!plain_text.contains("more sides are not shown"));
    let (_, text) = page_of(&[("a", vec![run.clone()]), ("b", vec![run])]);
    let plain_text = plain(&text);
    assert!(!plain_text.contains("These are the first") && !plain_text.contains("more sides"));
    assert!(plain_text.contains("both axes log"));
}

#[test]
fn line_beyond_chart_ends_in_arrow() {
    // The interval of two runs reaches far beyond the axis.
    let two = |factors: [f64; 2]| {
        let runs = factors.map(|factor| {
            let mut run = sample::run();
            for phase in &mut run.phases {
                for rate in [&mut phase.figures.rate.ops_per_second, &mut phase.figures.rate.bytes_per_second]
                {
                    *rate = rate.map(|rate| rate * factor);
                }
            }
            run
        });
        runs.to_vec()
    };
    let arrows = "Lines that end in an arrow continue.";
    let figure = |text: &str| {
        let (_, tests) = text.split_once("id=\"tests\"").unwrap();
        let (figure, _) = tests.split_once("</figure>").unwrap();
        (figure.contains(arrows), figure.matches("class=\"l w ink\"").count())
    };
    let (_, text) = page_of(&[("a", two([1.0, 1.1])), ("b", two([1.0, 1.1]))]);
    // A whisker and a mean for each side, and four tips.
    assert_eq!(figure(&text), (true, 2 * 2 + 4));
    let whole = repeated(&sample::run(), 1.0);
    let (_, text) = page_of(&[("a", vec![whole.clone()]), ("b", vec![whole])]);
    assert_eq!(figure(&text), (false, 2 * 2));
}

#[test]
fn page_states_that_runs_over_48_are_thinned() {
    let runs = |count: usize| {
        let (_, text) = page_of(&[("a", vec![sample::run(); count]), ("b", vec![sample::run(); 2])]);
        text.contains("For more than 48 runs per side, only lows and highs are drawn.")
    };
    assert!(!runs(48) && runs(49));
}

#[test]
fn comparison_page_is_not_read_as_run() {
    let (_, text) = page_of(&[("before", vec![sample::run()]), ("after", vec![sample::run()])]);
    let error = crate::html::embedded(&text).unwrap().unwrap_err();
    assert!(error.contains("is a comparison"), "{error}");
    // A run with a label like a comparison's markup is still a run.
    let named = Run { label: Some("<section id=\"differs\"".into()), ..sample::run() };
    assert!(crate::html::embedded(&crate::html::page(&named, crate::html::Embed::Run)).unwrap().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_comparison_gives_a_well_formed_page(one in sample::any_run(), other in sample::any_run(), names in any::<[String; 2]>()) {
        let sides = [(names[0].as_str(), vec![one.clone(), one]), (names[1].as_str(), vec![other])];
        let named = |(name, runs): &(&str, Vec<Run>)| {
            Side::from_runs((*name).to_owned(), &runs.iter().map(|run| (name.to_string(), run.clone())).collect::<Vec<_>>())
        };
        if let Ok(comparison) = compare::compare(&sides.each_ref().map(named), EFFECT) {
            assert_sound(&html(&comparison, &sides.map(|(_, runs)| runs)));
        }
    }
}
