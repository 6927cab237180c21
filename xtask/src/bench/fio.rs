//! fio, the tool that most people would use otherwise.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::foreign;
use super::pinned::Pinned;

/// Returns the reason why fio cannot run here, if there is one.
pub(super) fn absent() -> Option<String> {
    foreign::absent("fio", "fio")
}

/// Options of a job that reports latencies.
pub(super) const LATENCIES: [&str; 3] =
    ["--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99"];

/// One job that reads or writes, in one thread on the CPU of the measurement.
#[derive(Debug, Clone)]
pub(super) struct Job(Vec<String>);

/// Results that fio reports for a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct FioResult {
    /// Number of reads, or of writes if the job writes.
    pub ios: u64,
    /// Operations per second, by fio's own clock.
    pub iops: f64,
    /// CPU time of one operation, user and system.
    pub cpu_ns_per_io: f64,
    /// Median time from before the submission until the operation was reaped; 0 unless a job has [`LATENCIES`].
    pub p50_ns: f64,
    /// Time that 99 of 100 operations do not exceed.
    pub p99_ns: f64,
}

impl Job {
    /// Makes a job of these options, and of those that all jobs share.
    pub(super) fn new(options: &[&str], pinned: &Pinned) -> Self {
        let cpu = format!("--cpus_allowed={}", pinned.cpu());
        let same = ["fio", "--name=x", "--thread", &cpu, "--clocksource=cpu", "--output-format=json"];
        Self(same.iter().chain(options).map(ToString::to_string).collect())
    }

    /// Returns the command line that does the same.
    pub(super) fn command_line(&self) -> String {
        foreign::command_line(&self.0)
    }

    /// Returns the words of the command line.
    pub(super) fn words(&self) -> &[String] {
        &self.0
    }

    pub(super) fn run(&self, pinned: &Pinned) -> Result<FioResult> {
        let (stdout, stderr) = foreign::run(&self.0, pinned)?;
        answer(&stdout).with_context(|| format!("{}: {stdout}{stderr}", self.command_line()))
    }
}

fn answer(stdout: &str) -> Result<FioResult> {
    // Messages may come before the JSON.
    let json = stdout.find('{').map_or("", |start| &stdout[start..]);
    let document: Value = serde_json::from_str(json).context("its output is not JSON")?;
    let job = &document["jobs"][0];
    let number = |value: &Value, what: &str| value.as_f64().with_context(|| format!("{what} is missing"));
    ensure!(number(&job["error"], "error")? == 0.0, "it says that it failed");
    let part = ["read", "write"].into_iter().map(|part| &job[part]);
    let part = part.max_by_key(|part| part["total_ios"].as_u64()).context("no part")?;
    let ios = number(&part["total_ios"], "total_ios")?;
    let iops = number(&part["iops"], "iops")?;
    let percent = number(&job["usr_cpu"], "usr_cpu")? + number(&job["sys_cpu"], "sys_cpu")?;
    let seconds = number(&job["job_runtime"], "job_runtime")? / 1e3;
    ensure!(ios > 0.0 && iops > 0.0, "it did nothing");
    let latency_ns = |name: &str| part["lat_ns"]["percentile"][name].as_f64().unwrap_or(0.0);
    let (p50_ns, p99_ns) = (latency_ns("50.000000"), latency_ns("99.000000"));
    Ok(FioResult {
        ios: ios as u64,
        iops,
        cpu_ns_per_io: percent / 100.0 * seconds * 1e9 / ios,
        p50_ns,
        p99_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_json_output_is_parsed() {
        let text = r#"note: something
            { "jobs": [ { "error": 0, "job_runtime": 500, "usr_cpu": 60.0, "sys_cpu": 40.0,
              "read": { "total_ios": 0, "iops": 0.0 },
              "write": { "total_ios": 1000000, "iops": 2000000.5,
                "lat_ns": { "percentile": { "50.000000": 1500, "99.000000": 9000 } } } } ] }"#;
        let found = answer(text).unwrap();
        assert_eq!((found.ios, found.iops), (1_000_000, 2_000_000.5));
        assert_eq!((found.p50_ns, found.p99_ns), (1500.0, 9000.0));
        assert!((found.cpu_ns_per_io - 500.0).abs() < 1e-6, "{found:?}");
        assert!(answer(&text.replace("\"error\": 0", "\"error\": 5")).is_err());
        assert!(answer("fio: no such thing").is_err());
    }
}
