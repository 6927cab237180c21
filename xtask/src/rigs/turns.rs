//! `cargo xtask rigs --turns N`: whether `skye ab` finds what is known about two devices.
//!
//! Two file systems on loop devices are throttled, one 5 % lower than the other. Held against each other so many times,
//! the interval of the ratio must hold what was built in as often as one of 95 % does, and the two may never be called
//! equivalent.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use model::Comparison;
use model::comparison::Answer;
use rig::{DiskSpec, Rig, Spec};

/// What the throttle of the first lets through; small enough for every machine, and for its timer.
const OPS_PER_SECOND: u64 = 4000;
/// Of that, what the throttle of the second does.
const SHARE: f64 = 0.95;
/// How often an interval holds the truth.
const COVERAGE: f64 = 0.95;
/// How rarely fewer intervals than asked for hold it, where all is well: 17 of 20 are asked for.
const BY_CHANCE: f64 = 0.02;

fn disk(ops_per_second: u64) -> Spec {
    let disk: DiskSpec = Spec::disk().size_mib(256).file_system("ext4").read_iops(ops_per_second);
    Spec::Disk(disk)
}

/// Runs it; the answer is whether intervals hold the truth, and nothing is called equivalent.
pub(super) fn runs(count: u32) -> Result<bool> {
    ensure!(count > 0, "as many runs as 1 at least");
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
        equivalent += u32::from(change.answer == Answer::Equivalent);
        println!(
            "run {number} of {count}: {:.5} ({low:.5} to {high:.5}), {} pairs, {:?}{}",
            change.ratio,
            change.runs,
            change.answer,
            if holds { "" } else { ": the interval does not hold it" }
        );
    }
    [a, b].into_iter().try_for_each(Rig::finish).map_err(anyhow::Error::msg)?;
    println!("{held} of {count} intervals hold {SHARE}; called equivalent: {equivalent}");
    Ok(held >= asked_of(count) && equivalent == 0)
}

/// So many of them must hold the truth: the fewest that chance leaves in all but [`BY_CHANCE`] of the attempts (binomial).
fn asked_of(count: u32) -> u32 {
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
    // Nothing of it belongs among the results of this machine.
    let results = tempfile::tempdir().context("make a directory")?;
    command.arg("-o").arg(results.path()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().context("run skye ab")?;
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("skye ab ended with {} and no document", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_asked_for_as_chance_leaves() {
        assert_eq!([1, 3, 5, 20, 100].map(asked_of), [0, 2, 3, 17, 90]);
    }
}
