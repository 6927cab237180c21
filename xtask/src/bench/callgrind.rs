//! User-space instructions of a program, counted by callgrind: the same on a busy machine as on an idle one.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Instructions of one operation: the difference between two runs, over the difference of their operations. The
/// instructions of start and end cancel.
pub(super) fn per_operation(ops: [u64; 2], command: impl Fn(u64) -> Vec<String>) -> Result<f64> {
    let [few, many] = ops.map(|ops| program_instructions(&command(ops)));
    Ok((many? as f64 - few? as f64) / (ops[1] - ops[0]) as f64)
}

/// Instructions of all threads of a program from its start to its end.
fn program_instructions(command: &[String]) -> Result<u64> {
    let directory = tempfile::Builder::new().prefix("skye-bench.").tempdir().context("create a directory")?;
    let out = directory.path().join("callgrind.out");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=callgrind"]).arg(format!("--callgrind-out-file={}", out.display()));
    valgrind.args(command).stdin(Stdio::null());
    let output = valgrind.output().context("run valgrind")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{valgrind:?}: {}: {complaint}", output.status);
    let text = fs::read_to_string(&out).with_context(|| format!("read {}", out.display()))?;
    total(&text).with_context(|| format!("{valgrind:?} wrote no total"))
}

fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instruction_total_is_parsed() {
        let text = "events: Ir\nsummary: 95592805\n\n\nfn=(1)\n4 90\n\ntotals: 95592805\n";
        assert_eq!(total(text), Some(95_592_805));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn per_operation_cost_excludes_startup() {
        crate::require!(valgrind);
        let wait = |ops: u64| ["sh", "-c", &"true;".repeat(ops as usize)].map(String::from).to_vec();
        let few = per_operation([100, 200], wait).unwrap();
        assert!((1.0..10_000.0).contains(&few), "{few}");
    }
}
