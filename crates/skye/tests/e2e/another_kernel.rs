//! Known answers in guests, whose kernel has devices, servers and limits that this machine's lacks.
//!
//! Guests go before all other programs of this machine. So the tests that run beside them hardly show in their numbers.

use std::path::Path;

use xtask::lab::{self, CaseResult};
use xtask::sized;

/// Cases of a short run: a limit of cgroup v2, and NFS.
const FEW: [&str; 2] = ["io-max-riops", "nfs-slow-device"];
/// Attempts at a case until its result is right. This machine is never quiet while the guests run.
const ATTEMPTS: u32 = 3;

#[test]
fn lab_cases_pass_on_guest_kernels() {
    xtask::require!(root, guest);
    let mut open = lab::short().unwrap();
    open.retain(|case| sized(FEW.contains(&&*case.name), true));
    let mut wrong: Vec<CaseResult> = Vec::new();
    for _ in 0..ATTEMPTS {
        let text = lab::run_cases(&open, Path::new(env!("CARGO_BIN_EXE_skye")), None).unwrap();
        wrong = text.into_iter().filter(|one| !one.wrong.is_empty()).collect();
        if wrong.is_empty() {
            return;
        }
        open.retain(|case| wrong.iter().any(|one| one.case == case.name));
    }
    let text = |one: &CaseResult| format!("{}: {}: {}", one.case, one.verdicts, one.wrong.join("; "));
    panic!("{}", wrong.iter().map(text).collect::<Vec<_>>().join("\n"));
}
