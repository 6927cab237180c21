//! `cargo xtask rigs --turns N`: checks that `skye ab` finds a known difference of two devices.
//!
//! Two file systems on loop devices are throttled, one 5 % lower than the other. They are compared N times. The
//! interval of the ratio must hold the true ratio as often as a 95 % interval does. The two may never be called
//! equivalent.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use model::Comparison;
use model::comparison::Decision;
use rig::{DiskSpec, Rig, Spec};

/// Throttle of the first device; small enough for every machine, and for its timer.
const OPS_PER_SECOND: u64 = 4000;
/// Throttle of the second device, as a share of the first.
const SHARE: f64 = 0.95;
/// Probability that an interval holds the truth.
const COVERAGE: f64 = 0.95;
/// Probability that fewer intervals than required hold it, although all is well: of 20, 17 are required.
const BY_CHANCE: f64 = 0.02;

fn disk(ops_per_second: u64) -> Spec {
    let disk: DiskSpec = Spec::disk().size_mib(256).file_system("ext4").read_iops(ops_per_second);
    Spec::Disk(disk)
}

/// Runs the comparisons. Returns true if enough intervals hold the truth, and nothing is called equivalent.
pub(super) fn runs(count: u32) -> Result<bool> {
    ensure!(count > 0, "use 1 run or more");
    let binary = crate::release("skye")?;
    let server: [OsString; 2] = [binary.clone().into(), "rig-server".into()];
    let a = Rig::start(&server, disk(OPS_PER_SECOND)).map_err(anyhow::Error::msg)?;
    let b = Rig::start(&server, disk((OPS_PER_SECOND as f64 * SHARE) as u64)).map_err(anyhow::Error::msg)?;
    let (mut held, mut equivalent) = (0, 0);
    for number in 1..=count {
        let comparison = compared(&binary, a.path(), b.path(), number)?;
        let row = comparison.rows.first().context("a row")?;
        let change = row.changes.first().and_then(Option::as_ref).context("a change")?;
        let (low, high) =
            change.ci95_low_ratio.zip(change.ci95_high_ratio).context("an interval of the ratio")?;
        let holds = low <= SHARE && SHARE <= high;
        held += u32::from(holds);
        equivalent += u32::from(change.answer == Decision::Equivalent);
        println!(
            "run {number} of {count}: {:.5} ({low:.5} to {high:.5}), {} pairs, {:?}{}",
            change.ratio,
            change.runs,
            change.answer,
            if holds { "" } else { ": the interval does not contain it" }
        );
    }
    [a, b].into_iter().try_for_each(Rig::finish).map_err(anyhow::Error::msg)?;
    println!("{held} of {count} intervals contain {SHARE}; judged equivalent: {equivalent}");
    Ok(held >= required_intervals(count) && equivalent == 0)
}

/// Number of intervals that must hold the truth. By chance, fewer hold it in [`BY_CHANCE`] of the attempts at most
/// (binomial).
fn required_intervals(count: u32) -> u32 {
    let ways = |failed: u32| {
        (0..failed).map(|taken| f64::from(count - taken) / f64::from(taken + 1)).product::<f64>()
    };
    let exactly = |failed: u32| {
        ways(failed) * (1.0 - COVERAGE).powf(failed.into()) * COVERAGE.powf((count - failed).into())
    };
    let mut left = 1.0;
    let allowed = (0..=count).take_while(|failed| {
        left -= exactly(*failed);
        left > BY_CHANCE
    });
    count - (allowed.count() as u32).min(count)
}

fn compared(binary: &Path, a: &Path, b: &Path, seed: u32) -> Result<Comparison> {
    let mut command = Command::new(binary);
    command.arg("ab").args([a, b]).args(["--test", "read:rnd4k:q8", "--size", "64m", "--time", "1"]);
    command.args(["--total", "5m", "--allow", "low-space,busy", "--quiet", "--format", "json"]);
    command.arg("--seed").arg(seed.to_string());
    // Its results do not belong among those of this machine.
    let results = tempfile::tempdir().context("create a directory")?;
    command.arg("-o").arg(results.path()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("run skye ab")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("skye ab exited with {} and no document", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn required_interval_count_allows_for_chance() {
        assert_eq!([1, 3, 5, 20, 100].map(required_intervals), [0, 2, 3, 17, 90]);
    }
}
