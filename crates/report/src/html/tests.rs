//! Properties that hold for every page.

use std::collections::HashSet;

use model::run::{Interval, PhaseRecord, Steady, Trust};
use proptest::prelude::*;

use super::*;
use crate::sample;

/// Elements without an end tag.
const VOID: [&str; 3] = ["meta", "br", "img"];

/// Names and values of the attributes of a tag.
fn attributes_of(tag: &str) -> impl Iterator<Item = (&str, &str)> {
    let parts: Vec<&str> = tag.split('"').collect();
    let pairs = parts.windows(2).step_by(2).filter_map(|pair| {
        let name = pair[0].strip_suffix('=')?.rsplit(' ').next()?;
        Some((name, pair[1]))
    });
    pairs.collect::<Vec<_>>().into_iter()
}

/// Checks that tags close in order, nothing runs or is fetched, anchors are unique, and all numbers are finite.
pub(crate) fn assert_sound(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in page.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("a tag that ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{tag} in {open:?}");
        } else if !tag.ends_with('/') && !tag.starts_with('!') {
            let name = tag.split([' ', '\n']).next().unwrap_or_default();
            open.extend((!VOID.contains(&name)).then_some(name));
        }
    }
    assert!(open.is_empty(), "{open:?}");
    let tags = page.split('<').skip(1).filter_map(|part| Some(part.split_once('>')?.0));
    for (name, value) in tags.flat_map(attributes_of) {
        assert!(name != "src" && !name.starts_with("on"), "{name}={value}");
        assert!(name != "href" || value.starts_with(['#']) || value.starts_with("data:"), "{value}");
        let is_text = ["id", "href", "title", "download"].contains(&name) || name.starts_with("aria-");
        let is_no_number = ["NaN", "inf"].iter().any(|word| value.contains(word));
        assert!(is_text || !is_no_number, "{name}={value}");
    }
    for acting in ["<script", "<iframe", "<object", "<link", "<base", "@import", "url("] {
        let found = page.match_indices(acting).map(|(at, _)| &page[at.saturating_sub(40)..]).next();
        // Foreign text may contain words that act only in a style sheet or a tag.
        let is_text = acting.starts_with(['@', 'u'])
            && !page.split("</style>").next().unwrap_or_default().contains(acting);
        assert!(found.is_none() || is_text, "{acting}");
    }
    let attributes = |name: &str| -> Vec<String> {
        let before = format!(" {name}=\"");
        let parts = page.split(&before).skip(1);
        parts.filter_map(|part| Some(part.split_once('"')?.0.to_owned())).collect()
    };
    let ids = attributes("id");
    let known: HashSet<_> = ids.iter().map(String::as_str).collect();
    assert_eq!(known.len(), ids.len(), "{ids:?}");
    for link in attributes("href").iter().filter_map(|link| link.strip_prefix('#')) {
        assert!(known.contains(link), "#{link} leads nowhere");
    }
    assert_eq!(page.matches("<svg role=\"img\"").count(), page.matches("<svg").count());
    assert!(!page.chars().any(|c| c != '\n' && model::printable::affects_display(c)));
}

/// A run of eleven tests with `intervals` intervals each, no two alike. Latencies are spread as on disks.
pub(crate) fn long_run(intervals: u64) -> Run {
    let mut run = sample::run();
    for (index, phase) in (0u64..).zip(run.phases.iter_mut()) {
        let Some(first) = phase.figures.intervals.first().cloned() else { continue };
        let wave = |at: u64| (at * 7919 + index * 104_729) % 1000;
        let interval = |at: u64| {
            let mut interval = Interval { start_ns: at * 100_000_000, ..first.clone() };
            interval.ops = 9_000 + wave(at);
            interval.bytes = interval.ops * 4096;
            // Buckets above 100 µs, 3 % apart, with decreasing counts.
            interval.histogram = (0..60u64)
                .map(|bucket| {
                    (
                        (1e5 * 1.03f64.powi((bucket * 2 + wave(at) % 3) as i32)) as u64,
                        1 + 4000 / (bucket + 1 + wave(at + bucket) % 7),
                    )
                })
                .collect();
            if let Some(frame) = interval.frame.as_mut() {
                for device in &mut frame.devices {
                    device.busy_ns = 60_000_000 + wave(at) * 40_000;
                    device.in_flight_ns = 1_000_000_000 + wave(at) * 3_000_000;
                }
                frame.cpu.kernel_ns += wave(at) * 100_000;
                frame.workers.cpu_ns += wave(at) * 90_000;
            }
            interval
        };
        phase.figures.intervals = (0..intervals).map(interval).collect();
        phase.counts.elapsed_ns = intervals * 100_000_000;
        phase.figures.ceiling_shares =
            Some(model::run::CeilingShares { own_loop: Some(0.01), memory: Some(0.34) });
    }
    run
}

#[test]
fn pages_are_sound() {
    let swept = [sample::swept_run(), sample::open_loop_run()];
    let problem_rows = Run { phases: sample::problem_rows(), ..sample::run() };
    let repeated = Run { phases: sample::repeated(), ..sample::run() };
    let extremes = Run { phases: sample::extremes(), ..sample::run() };
    let others =
        [sample::run(), sample::partial_run(), sample::simulated_run(), problem_rows, repeated, extremes];
    for run in swept.into_iter().chain(others).chain([long_run(200)]) {
        for embed in [Embed::Run, Embed::Nothing] {
            assert_sound(&page(&run, embed));
        }
    }
    assert_sound(&page(&Run { phases: Vec::new(), ..sample::run() }, Embed::Run));
}

#[test]
fn hostile_names_are_escaped() {
    let mut run = sample::hostile_run();
    let hostile = "</style></title><script>alert(1)</script>\"><img src=x onerror='x'>\u{202e}";
    run.environment.target.mount_point = hostile.into();
    run.environment.target.mount_options.push(hostile.into());
    run.environment.target.device_stack[0].name = hostile.into();
    run.environment.settings[0].name = hostile.into();
    run.command = vec![hostile.into(), "--label".into(), "it's".into()];
    run.phases[0].spec = hostile.into();
    run.phases[0].id = "test\" onload=\"x".into();
    run.phases[0].engine.name = hostile.into();
    for phase in &mut run.phases {
        for device in phase
            .figures
            .intervals
            .iter_mut()
            .filter_map(|interval| interval.frame.as_mut())
            .flat_map(|frame| &mut frame.devices)
        {
            device.name = hostile.into();
        }
        phase.seen.device = None;
    }
    let page = page(&run, Embed::Run);
    assert_sound(&page);
    assert!(page.matches("&#60;script&#62;").count() + page.matches("&lt;script&gt;").count() >= 8);
    assert!(page.contains(r"\u{202e}") && page.contains(r"&#39;it&#39;\&#39;&#39;s&#39;"));
}

#[test]
fn page_has_same_content_as_terminal() {
    let run = sample::run();
    let page = page(&run, Embed::Nothing);
    for phrase in [
        "ada:/mnt/data",
        "The device is probably the limit in ",
        "of 7 data tests",
        "2026-11-21 14:03 UTC",
        "966,310",
        "device bandwidth <small>confirmed</small>",
        "the rate fell from",
        "so this is not the speed of the disk.",
        "nvme0n1p2",
        "vm.dirty_ratio",
        "7311",
        "skye.run/3",
        "id=\"test-04-read\"",
        "href=\"#test-04-read\"",
        "prefers-color-scheme: dark",
        "@media print",
        "default-src &#39;none&#39;",
    ] {
        let plain = phrase.replace("&#39;", "'");
        assert!(page.contains(phrase) || page.contains(&plain), "{phrase}");
    }
    // Every row has a number or a reason, and every mark its sentence.
    for phase in &run.phases {
        assert!(page.contains(&crate::text::ops_cell(phase)), "{}", phase.id);
    }
    assert!(!page.contains("download="));
}

#[test]
fn page_head_of_default_run() {
    let text = page(&sample::run(), Embed::Nothing);
    let (_, rest) = text.split_once("<body>").unwrap();
    let (head, _) = rest.split_once("<section id=\"findings\"").unwrap();
    insta::assert_snapshot!(head);
}

#[test]
fn headline_names_device_limit_only_if_trusted() {
    let headline = |run: &Run| crate::answer::from_run(run);
    let mut headlines =
        vec![headline(&sample::run()), headline(&sample::partial_run()), headline(&sample::simulated_run())];
    headlines.push(headline(&Run { phases: Vec::new(), ..sample::run() }));
    headlines.push(headline(&Run { phases: sample::problem_rows(), ..sample::run() }));
    let all = |change: &dyn Fn(&mut PhaseRecord)| {
        let mut run = sample::run();
        run.phases.iter_mut().for_each(change);
        headline(&run)
    };
    let limiter = |limiter: Option<model::Limiter>| {
        move |phase: &mut PhaseRecord| {
            if let Some(verdict) = phase.judged.verdict.as_mut() {
                verdict.limiter = limiter;
                verdict.confidence = Some(model::run::Confidence::Likely);
            }
        }
    };
    headlines.push(all(&limiter(Some(model::Limiter::DeviceOps))));
    headlines.push(all(&limiter(Some(model::Limiter::PageCache))));
    headlines.push(all(&limiter(None)));
    // A number that is not to be trusted never counts as the device's, whatever its limiter.
    headlines.push(all(&|phase: &mut PhaseRecord| {
        limiter(Some(model::Limiter::DeviceOps))(phase);
        phase.judged.verdict.as_mut().unwrap().trust = Trust::Invalid;
    }));
    let mut files = sample::run();
    files.phases.retain(|phase| phase.workload.block_bytes.is_none());
    headlines.push(headline(&files));
    insta::assert_snapshot!(headlines.join("\n"));
}

#[test]
fn only_trusted_device_limiters_are_green() {
    for limiter in model::Limiter::ALL {
        for (trust, is_told) in [(Trust::Ok, true), (Trust::Suspect, true), (Trust::Invalid, false)] {
            let mut phase = sample::phase("read:rnd4k:q32t4");
            let verdict = phase.judged.verdict.as_mut().unwrap();
            (verdict.limiter, verdict.confidence) = (Some(*limiter), Some(model::run::Confidence::Confirmed));
            verdict.trust = trust;
            let is_green = test::chip(&phase).unwrap().class == "good";
            assert_eq!(is_green, is_told && limiter.is_of_device(), "{limiter} {trust:?}");
        }
    }
}

#[test]
fn repetitions_are_one_row_with_median() {
    let mut run = sample::run();
    run.phases.truncate(1);
    let of = |repetition: u32, rate: f64| {
        let mut phase = run.phases[0].clone();
        phase.id = if repetition > 1 { format!("01-write#{repetition}") } else { "01-write".into() };
        (phase.repetition, phase.figures.rate.ops_per_second) = (repetition, Some(rate));
        phase.figures.rate.bytes_per_second = Some(rate * 1_048_576.0);
        phase
    };
    run.phases = vec![of(1, 900.0), of(2, 1100.0), of(3, 1000.0)];
    let tests = Test::from_run(&run.phases);
    assert_eq!((tests.len(), tests[0].phase.repetition), (1, 3));
    let text = page(&run, Embed::Nothing);
    assert_sound(&text);
    assert!(text.contains("the median of 3, 944 MB/s to 1,153 MB/s"), "{text}");
    for phase in &mut run.phases {
        phase.figures.rate.bytes_per_second = Some(1e9);
    }
    assert!(page(&run, Embed::Nothing).contains("the median of 3, all 1,000 MB/s"));
    assert!(text.contains("#2 1,153 MB/s"), "{text}");
    // Tests with the same name but another spec are no repetitions.
    let mut other = run.phases[1].clone();
    other.spec.push_str(":io=mmap");
    run.phases.push(other);
    let tests = Test::from_run(&run.phases);
    assert_eq!(tests.iter().map(|test| test.all.len()).collect::<Vec<_>>(), [3, 1]);
    run.phases.truncate(3);
    run.phases[2].figures.rate.ops_per_second = None;
    assert!(page(&run, Embed::Nothing).contains("1 without a number"));
}

#[test]
fn captions_state_what_the_chart_shows() {
    let mut phase = long_run(50).phases.remove(3);
    let caption = |phase: &PhaseRecord| timeline::figure(phase, false).unwrap().caption;
    let mut captions = vec![caption(&phase)];
    phase.figures.steady = phase.figures.steady.map(|steady| Steady { is_steady: false, ..steady });
    captions.push(caption(&phase));
    phase.figures.steady = None;
    captions.push(caption(&phase));
    captions.push(latency::figure(&phase).unwrap().caption);
    captions.push(heat::figure(&phase).unwrap().caption);
    captions.push(ceiling_notes::limits(&phase).unwrap().caption);
    captions.push(ceiling_notes::budget(&phase).unwrap().caption);
    phase.figures.ceiling_shares = Some(model::run::CeilingShares { own_loop: Some(0.8), memory: None });
    captions.push(ceiling_notes::limits(&phase).unwrap().caption);
    insta::assert_snapshot!(captions.join("\n"));
}

#[test]
fn short_last_interval_does_not_change_the_rate_caption() {
    let mut phase = long_run(50).phases.remove(3);
    phase.figures.steady = phase.figures.steady.map(|steady| Steady { is_steady: false, ..steady });
    let caption = |phase: &PhaseRecord| timeline::figure(phase, false).unwrap().caption;
    let before = caption(&phase);
    let last = phase.figures.intervals.last().cloned().unwrap();
    let start_ns = last.start_ns + last.length_ns;
    phase.figures.intervals.push(Interval { start_ns, length_ns: 50_000, ..last });
    assert_eq!(caption(&phase), before);
}

#[test]
fn mix_operations_have_table_sorted_by_time() {
    let mut run = sample::run();
    run.phases = vec![sample::mix()];
    let text = page(&run, Embed::Nothing);
    let row = |name: &str| text.find(&format!("<th scope=\"row\">{name}</th>")).expect(name);
    assert!(row("create") < row("list") && row("list") < row("stat-missing"));
    let of_list = &text[row("list")..row("stat-missing")];
    assert!(of_list.contains("28 %") && of_list.contains("mixed: kernel CPU + "), "{of_list}");
    assert!(!page(&sample::run(), Embed::Nothing).contains("Operations of "));
}

#[test]
fn sweeps_mark_their_knee() {
    let run = sample::swept_run();
    let text = page(&run, Embed::Nothing);
    assert!(text.contains("id=\"scaling\"") && text.contains(">Q4 knee<"));
    assert_eq!(text.matches(" knee</text>").count(), 1, "the second sweep has none");
    assert!(text.contains("No knee in this range"));
    assert!(!page(&sample::run(), Embed::Nothing).contains("id=\"scaling\""));
}

/// A swept run with one repetition for each of `speeds`, the factor of its rates.
fn repeated_sweep(speeds: &[f64]) -> Run {
    let mut run = sample::swept_run();
    let once = std::mem::take(&mut run.phases);
    for (repetition, speed) in (1u32..).zip(speeds) {
        run.phases.extend(once.iter().cloned().map(|mut phase| {
            phase.repetition = repetition;
            if repetition > 1 {
                phase.id.push_str(&format!("#{repetition}"));
            }
            phase.figures.rate.ops_per_second = phase.figures.rate.ops_per_second.map(|rate| rate * speed);
            phase
        }));
    }
    run
}

fn sweeps_of(run: &Run) -> String {
    sweeps::section(run, &Test::from_run(&run.phases)).unwrap().0
}

#[test]
fn repeated_sweeps_share_one_chart_of_medians() {
    let once = sweeps_of(&repeated_sweep(&[1.0]));
    let thrice = sweeps_of(&repeated_sweep(&[0.5, 1.0, 3.0]));
    assert_eq!([&once, &thrice].map(|text| text.matches("<figure>").count()), [2, 2]);
    // The median repetition has the rates of the single run, so the points are the same.
    let points = |text: &str| -> Vec<String> {
        text.split("<circle ")
            .skip(1)
            .filter_map(|part| Some(part.split_once("</circle>")?.0.to_owned()))
            .collect()
    };
    assert_eq!(points(&thrice), points(&once));
    assert_eq!(points(&once).len(), 8);
    assert_eq!(thrice.matches(" knee</text>").count(), 1);
    let expected = " Each point is the median of 3 repetitions.</figcaption>";
    assert_eq!([&once, &thrice].map(|text| text.matches(expected).count()), [0, 2]);
    // A point that failed in one repetition has fewer repetitions.
    let mut run = repeated_sweep(&[0.5, 1.0, 3.0]);
    run.phases[0].figures.rate.ops_per_second = None;
    run.phases[0].status = model::run::Status::Failed;
    assert!(sweeps_of(&run).contains("Each point is the median of 2 to 3 repetitions."));
}

#[test]
fn knee_is_marked_where_most_repetitions_agree() {
    let move_knee = |run: &mut Run, from: usize, to: usize| {
        let notes = &mut run.phases[from].judged.notes;
        let at = notes.iter().position(|note| note.code == "knee").unwrap();
        let note = notes.remove(at);
        run.phases[to].judged.notes.push(note);
    };
    let mut run = repeated_sweep(&[0.5, 1.0, 3.0]);
    // Move the knee of the third repetition, whose points come after two repetitions of eight tests.
    move_knee(&mut run, 16 + 2, 16 + 1);
    assert_eq!(sweeps_of(&run).matches(">Q4 knee<").count(), 1);
    // Move the knee of the second repetition, which is the one drawn.
    move_knee(&mut run, 8 + 2, 8);
    let text = sweeps_of(&run);
    assert!(!text.contains(" knee</text>"), "{text}");
    assert!(text.contains("The repetitions have different knees: Q1, Q2, Q4; the maximum is "), "{text}");
}

#[test]
fn known_percentiles_lie_within_the_axes() {
    let mut phase = sample::phase("read:rnd4k:q32t4");
    phase.figures.intervals = long_run(3).phases.remove(0).figures.intervals;
    phase.figures.steady = None;
    phase.figures.histogram = None;
    for interval in &mut phase.figures.intervals {
        // Fewer than ten of the 80 operations lie beyond p90.
        interval.histogram = vec![(100_000, 10), (110_000, 10), (120_000, 6)];
    }
    let whole = phase.figures.latency_ns.as_mut().unwrap();
    (whole.p50, whole.p90) = (Some(90_000), Some(200_000));
    (whole.p99, whole.p99_9) = (Some(4_000_000), Some(30_000_000));
    let ends = |low: u64, high: u64| Some(model::run::Ends { low, high });
    whole.ci95 = Some(model::run::LatencyIntervals {
        p50: ends(20_000, 95_000),
        p90: None,
        p99: None,
        p99_9: ends(25_000_000, 90_000_000),
    });
    let text = latency::figure(&phase).unwrap().drawing.0;
    let number = |part: &str, name: &str| -> f64 {
        let (_, rest) = part.split_once(name).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let dots: Vec<_> =
        text.split("<circle ").skip(1).map(|part| (number(part, "cx=\""), number(part, "cy=\""))).collect();
    assert_eq!(dots.len(), 4, "{text}");
    assert!(dots.windows(2).all(|two| two[0].0 + 20.0 < two[1].0 && two[0].1 > two[1].1 + 10.0), "{dots:?}");
    // Whiskers reach beyond their dots, but not beyond the axes.
    let whiskers: Vec<_> = text.split("class=\"l ink\" d=\"").skip(1).collect();
    let lengths = whiskers.iter().map(|part| {
        let path = part.split('"').next().unwrap();
        let (_, length) = path.split_once('v').unwrap();
        -length.parse::<f64>().unwrap()
    });
    let lengths: Vec<_> = lengths.collect();
    assert!(lengths.len() == 2 && lengths.iter().all(|length| *length > 15.0), "{lengths:?}");
    assert!(text.contains("logarithmic"));
    // Zero has no place on a logarithmic axis, and must not break it.
    phase.figures.latency_ns.as_mut().unwrap().p50 = Some(0);
    assert!(!latency::figure(&phase).unwrap().drawing.0.contains("NaN"));
}

#[test]
fn percentiles_over_time_need_enough_operations() {
    let mut phase = long_run(50).phases.remove(3);
    let caption = |phase: &PhaseRecord| heat::figure(phase).unwrap().caption;
    assert!(caption(&phase).contains("the 99th percentile between"));
    assert!(heat::figure(&phase).unwrap().drawing.0.contains("logarithmic"));
    phase.figures.intervals[7].histogram = vec![(100_000, 1_999)];
    let text = caption(&phase);
    assert!(text.contains("median") && text.contains("too few") && !text.contains("between 9"), "{text}");
    assert!(!text.contains("99th percentile between"), "{text}");
    phase.figures.intervals[7].histogram = vec![(100_000, 2_000)];
    assert!(caption(&phase).contains("99th percentile between"));
    phase.figures.intervals[7].histogram = vec![(100_000, 39)];
    assert_eq!(caption(&phase), "Too few operations per interval for percentiles.");
}

#[test]
fn latency_figure_is_omitted_without_enough_samples() {
    let mut phase = sample::phase("read:rnd4k:q32t4");
    phase.figures.intervals = long_run(3).phases.remove(0).figures.intervals;
    let ten = vec![(1_000u64, 10u64), (2_000, 10)];
    for interval in &mut phase.figures.intervals {
        interval.histogram = ten.clone();
    }
    // Of 60 operations, half lie beyond the first bucket, enough for p50; none lie beyond the second.
    assert!(latency::figure(&phase).is_none());
    assert!(histogram::decoded("HISTFAAAAB542pNpmSzMwMDAxQABzFCaEUoz2X+AMgA").is_none());
    assert!(histogram::decoded("").is_none() && histogram::decoded("ü").is_none());
}

#[test]
fn page_stays_below_size_limit() {
    let run = long_run(200);
    let bare = page(&run, Embed::Nothing);
    assert!(bare.len() < 300_000, "{}", bare.len());
    let whole = page(&run, Embed::Run);
    assert!(whole.len() < PAGE_MAX && whole.contains("download=\"run.json.gz\""), "{}", whole.len());
    // A run that does not fit is left out, and the page says so.
    let large = page(&long_run(3000), Embed::Run);
    assert!(large.len() < PAGE_MAX && !large.contains("run.json.gz"), "{}", large.len());
    assert!(large.contains("skye report RUN --json FILE"));
}

#[test]
fn page_with_long_names_stays_below_size_limit() {
    let quotes = "\"".repeat(200_000);
    let mut run = sample::run();
    run.command = vec![quotes.clone()];
    run.label = Some(quotes.clone());
    run.environment.host = quotes.clone();
    run.environment.target.path = quotes.clone();
    run.environment.kernel = quotes.clone();
    run.environment.target.file_system = quotes.clone();
    run.plan.preset = quotes.clone();
    run.environment.target.mount_options = vec![quotes.clone()];
    run.environment.target.device_stack[0].name = quotes.clone();
    run.tool.warnings = vec![quotes];
    let text = page(&run, Embed::Run);
    assert_sound(&text);
    assert!(text.len() < PAGE_MAX && text.contains("download=\"run.json.gz\""), "{}", text.len());
    // Text that is shown in full takes the room of the run, to the last byte.
    let with = |quotes: usize| {
        let setting = |quotes: usize| model::run::Setting { name: "a".into(), value: "\"".repeat(quotes) };
        let mut run = sample::run();
        run.environment.settings = vec![setting(2_000); quotes / 2_000];
        run.environment.settings.push(setting(quotes % 2_000));
        let text = page(&run, Embed::Run);
        (text.len(), text.contains("download=\"run.json.gz\""))
    };
    let (mut fits, mut too_many) = (100_000, 300_000);
    assert_eq!([fits, too_many].map(|quotes| with(quotes).1), [true, false]);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        *(if with(middle).1 { &mut fits } else { &mut too_many }) = middle;
    }
    let (length, _) = with(fits);
    assert!((PAGE_MAX - 2_000..=PAGE_MAX).contains(&length), "{length}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_run_gives_a_well_formed_page(run in sample::any_run()) {
        let text = page(&run, Embed::Run);
        assert_sound(&text);
        prop_assert_eq!(embedded(&text), Some(Ok(crate::json::write(&run))));
    }
}
