//! A run as OpenMetrics text, which the textfile collector of Prometheus' node exporter reads.
//!
//! See the specification of OpenMetrics 1.0, section "Text format".

use std::fmt::Write;

use model::Run;
use model::run::{PhaseRecord, Trust};

use crate::answer::trust;
use crate::text::limiter_of;
use crate::{printable, slug, time};

/// Name, meaning, and the values with their own label, if any.
type Metric = (&'static str, &'static str, fn(&PhaseRecord) -> Vec<(Option<(&'static str, String)>, f64)>);

/// Metrics of tests. All are gauges: a file replaces the one before.
const METRICS: &[Metric] = &[
    ("skye_operations_per_second", "Headline rate.", |phase| {
        phase.figures.rate.ops_per_second.map(|rate| (None, rate)).into_iter().collect()
    }),
    ("skye_bytes_per_second", "Headline rate in bytes.", |phase| {
        phase.figures.rate.bytes_per_second.map(|rate| (None, rate)).into_iter().collect()
    }),
    ("skye_latency_seconds", "Latency of operations.", |phase| {
        let Some(latency) = &phase.figures.latency_ns else { return Vec::new() };
        let quantiles = [("0.5", latency.p50), ("0.99", latency.p99), ("0.999", latency.p99_9)];
        let known = quantiles.into_iter().filter_map(|(quantile, ns)| Some((quantile, ns?)));
        known.map(|(quantile, ns)| (Some(("quantile", quantile.to_owned())), ns as f64 / 1e9)).collect()
    }),
    ("skye_trusted", "1 if the number is valid, else 0.", |phase| {
        vec![(None, f64::from(u8::from(trust(phase) == Trust::Ok)))]
    }),
    ("skye_limiter", "1, with the limiter as a label.", |phase| {
        let limiter = limiter_of(phase).map(|(limiter, _)| limiter.code().to_owned());
        limiter.map(|code| (Some(("limiter", code)), 1.0)).into_iter().collect()
    }),
];

/// Writes the rates, latencies and limiters of all tests. Tests without a rate are left out.
pub fn write(run: &Run) -> String {
    let mut text = String::new();
    let target = &run.environment.target;
    let of_run = labels(&[("host", &run.environment.host), ("target", &target.path)]);
    let begin = |text: &mut String, name: &str, meaning: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "# TYPE {name} gauge\n# HELP {name} {meaning}");
    };
    for (name, meaning, values) in METRICS {
        begin(&mut text, name, meaning);
        for phase in run.phases.iter().filter(|phase| phase.figures.rate.ops_per_second.is_some()) {
            let of_test = labels(&[("test", &slug::from_phase(phase))]);
            for (own, value) in values(phase) {
                let own = own.map_or(String::new(), |(key, value)| format!(",{}", labels(&[(key, &value)])));
                let _ = writeln!(text, "{name}{{{of_run},{of_test}{own}}} {value}");
            }
        }
    }
    if let Some(seconds) = time::unix_seconds(&run.started_at) {
        begin(&mut text, "skye_started_seconds", "Start of the run, in Unix time.");
        let _ = writeln!(text, "skye_started_seconds{{{of_run}}} {seconds}");
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
