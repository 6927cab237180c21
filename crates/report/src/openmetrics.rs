//! A run as text for the textfile collector of Prometheus' node exporter. The parsers of OpenMetrics and of the older text
//! format both take it.
//!
//! See the specification of OpenMetrics 1.0, section "Text format". Files in one directory of the collector need equal
//! `HELP` texts and different labels: host, target, clients, and the run's label or preset.

use std::fmt::Write;

use model::run::{Latency, PhaseRecord, RunStatus, Status, Trust};
use model::{Percentile, Run};

use crate::answer::trust;
use crate::operations::operations;
use crate::text::limiter_of;
use crate::{percentiles, printable, slug, time};

/// Value of a metric, with the end of its name and its own labels.
struct Sample {
    suffix: &'static str,
    labels: Vec<(&'static str, String)>,
    value: f64,
}

/// Name, type, meaning, and values.
type Metric = (&'static str, &'static str, &'static str, fn(&PhaseRecord, &[Percentile]) -> Vec<Sample>);

fn plain(value: Option<f64>) -> Vec<Sample> {
    value.map(|value| Sample { suffix: "", labels: Vec::new(), value }).into_iter().collect()
}

/// The samples of a latency, all with the same labels.
fn summary(
    latency: &Latency,
    wanted: &[Percentile],
    ops: u64,
    labels: &[(&'static str, String)],
) -> Vec<Sample> {
    let sample = |suffix, more: Option<(&'static str, String)>, value| Sample {
        suffix,
        labels: labels.iter().cloned().chain(more).collect(),
        value,
    };
    let known = wanted
        .iter()
        .filter_map(|wanted| Some((wanted.share(), percentiles::value_ns(latency, *wanted)? as f64 / 1e9)));
    let mut samples: Vec<_> =
        known.map(|(quantile, value)| sample("", Some(("quantile", quantile.to_string())), value)).collect();
    samples.push(sample("_sum", None, latency.mean as f64 / 1e9 * ops as f64));
    samples.push(sample("_count", None, ops as f64));
    samples
}

fn is_true(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// Metrics of tests. A file replaces the one before, so nothing counts up.
const METRICS: &[Metric] = &[
    ("skye_operations_per_second", "gauge", "Headline rate.", |phase, _| {
        plain(phase.figures.rate.ops_per_second)
    }),
    ("skye_bytes_per_second", "gauge", "Headline rate in bytes.", |phase, _| {
        plain(phase.figures.rate.bytes_per_second)
    }),
    ("skye_latency_seconds", "summary", "Latency of operations.", |phase, wanted| {
        let latency = phase.figures.latency_ns.iter();
        latency.flat_map(|latency| summary(latency, wanted, phase.counts.ops, &[])).collect()
    }),
    (
        "skye_step_latency_seconds",
        "summary",
        "Latency of reads, writes, syncs and operations of mixes, where a test has several.",
        |phase, wanted| {
            let steps = operations(phase).into_iter().map(|operation| operation.step);
            let known = steps.filter_map(|step| Some((step, step.latency_ns.as_ref()?)));
            known
                .flat_map(|(step, latency)| {
                    summary(latency, wanted, step.ops, &[("step", step.name.clone())])
                })
                .collect()
        },
    ),
    ("skye_test_success", "gauge", "1 if the test ran to its end, else 0.", |phase, _| {
        plain(Some(is_true(phase.status == Status::Done)))
    }),
    ("skye_trusted", "gauge", "1 if the number is valid, else 0.", |phase, _| {
        plain(Some(is_true(phase.figures.rate.ops_per_second.is_some() && trust(phase) == Trust::Ok)))
    }),
    ("skye_limiter", "gauge", "1, with the limiter as a label.", |phase, _| {
        let limiter = limiter_of(phase).map(|(limiter, _)| limiter.code().to_owned());
        limiter
            .map(|code| Sample { suffix: "", labels: vec![("limiter", code)], value: 1.0 })
            .into_iter()
            .collect()
    }),
];

/// Returns the names of all metrics with their meanings.
pub fn help() -> Vec<(&'static str, &'static str)> {
    let of_tests = METRICS.iter().map(|(name, _, meaning, _)| (*name, *meaning));
    of_tests.chain([RUN_SUCCESS, STARTED, RUN_INFO]).collect()
}

/// Metrics of a run: names and meanings.
const RUN_SUCCESS: (&str, &str) =
    ("skye_run_success", "1 if all tests of the run ran to their ends, else 0.");
const STARTED: (&str, &str) = ("skye_started_seconds", "Start of the run, in Unix time.");
const RUN_INFO: (&str, &str) = ("skye_run_info", "1, with facts about the run as labels.");

/// Writes the rates, latencies and limiters of all tests.
pub fn write(run: &Run) -> String {
    let mut text = String::new();
    let target = &run.environment.target;
    let plan = run.label.as_ref().unwrap_or(&run.plan.preset);
    let mut of_run = labels(&[("host", &run.environment.host), ("target", &target.path), ("plan", plan)]);
    if let Some(clients) = run.plan.clients {
        of_run = format!("{of_run},{}", labels(&[("clients", &clients.count.to_string())]));
    }
    let begin = |text: &mut String, name: &str, kind: &str, meaning: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {meaning}");
    };
    // Tests that look alike have their SPECs as names. A test that the plan has twice is one series: its last result.
    let mut phases: Vec<(String, &PhaseRecord)> = Vec::new();
    for phase in &run.phases {
        let slug = slug::from_phase(phase);
        let is_alike = |other: &&PhaseRecord| other.spec != phase.spec && slug::from_phase(other) == slug;
        let name = if run.phases.iter().any(|other| is_alike(&other)) { phase.spec.clone() } else { slug };
        phases.retain(|(known, _)| *known != name);
        phases.push((name, phase));
    }
    let wanted = percentiles::in_files(run);
    for (name, kind, meaning, samples) in METRICS {
        begin(&mut text, name, kind, meaning);
        for (slug, phase) in &phases {
            let of_test = labels(&[("test", slug)]);
            for Sample { suffix, labels: own, value } in samples(phase, &wanted) {
                let own: String =
                    own.iter().map(|(key, value)| format!(",{}", labels(&[(*key, value)]))).collect();
                let _ = writeln!(text, "{name}{suffix}{{{of_run},{of_test}{own}}} {value}");
            }
        }
    }
    let is_complete = run.run_status == RunStatus::Complete;
    let is_success = is_complete && run.phases.iter().all(|phase| phase.status == Status::Done);
    let own = labels(&[("run", &run.started_at), ("version", &run.skye_version)]);
    let started = time::unix_seconds(&run.started_at).map(|seconds| seconds as f64);
    for ((name, meaning), labels, value) in [
        (RUN_SUCCESS, of_run.clone(), Some(is_true(is_success))),
        (STARTED, of_run.clone(), started),
        (RUN_INFO, format!("{of_run},{own}"), Some(1.0)),
    ] {
        let Some(value) = value else { continue };
        begin(&mut text, name, "gauge", meaning);
        let _ = writeln!(text, "{name}{{{labels}}} {value}");
    }
    text.push_str("# EOF\n");
    text
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped =
        |value: &str| printable(value).replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = pairs.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value)));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::sample;

    #[test]
    fn default_run_as_openmetrics() {
        insta::assert_snapshot!(write(&sample::run()));
    }

    #[test]
    fn steps_are_summaries_with_their_names() {
        let mut run = sample::run();
        run.phases = vec![sample::rw()];
        let text = write(&run);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("skye_step")).collect();
        assert_eq!(lines.len(), 3 * 5);
        assert!(
            lines[7].contains(",step=\"write\",quantile=\"0.999\"}") && lines[7].ends_with(" 0.00041"),
            "{text}"
        );
        assert!(lines[14].ends_with(",step=\"fdatasync\"} 15000"), "{text}");
    }

    #[test]
    fn lines_are_comments_or_labelled_samples() {
        for run in [sample::run(), sample::partial_run(), sample::hostile_run()] {
            let text = write(&run);
            assert!(text.ends_with("\n# EOF\n"));
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (metric, value) = line.rsplit_once(' ').unwrap();
                assert!(metric.starts_with("skye_") && metric.ends_with("\"}"), "{line}");
                assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
                // Quotes within values are escaped.
                let plain = metric.replace("\\\\", "").replace("\\\"", "");
                let quotes = plain.matches('"').count();
                assert_eq!(quotes, 2 * plain.matches("=\"").count(), "{line}");
            }
        }
    }
}
