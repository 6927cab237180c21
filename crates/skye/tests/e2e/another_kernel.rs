//! Known answers in guests, whose kernel has devices, servers and limits that this machine's lacks.
//!
//! Guests go before all other programs of this machine. So the tests that run beside them hardly show in their numbers.

use std::path::Path;

use xtask::lab::{self, CaseResult};

/// Attempts at a case until its result is right. This machine is never quiet while the guests run.
const ATTEMPTS: u32 = 3;

#[test]
#[ignore = "long"]
fn lab_cases_pass_on_guest_kernels() {
    xtask::require!(root, guest);
    let mut open = lab::short().unwrap();
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
