//! Known answers in a guest, whose kernel has devices, servers and limits that this machine's lacks.

use std::path::Path;

use xtask::lab;

use super::alone;
use super::quiet::{answer, settle, settled};

#[test]
fn a_guest_with_another_kernel_gives_known_answers() {
    xtask::require!(guest);
    let _alone = alone();
    let mut open = lab::short().unwrap();
    settled!(settle(|| {
        let (told, disturbance) = lab::ask(&open, Path::new(env!("CARGO_BIN_EXE_skye"))).unwrap();
        let wrong: Vec<_> = told.iter().filter(|one| !one.wrong.is_empty()).collect();
        // Only these are asked again.
        open.retain(|case| wrong.iter().any(|one| one.case == case.name));
        let complaints: Vec<_> =
            wrong.iter().map(|one| format!("{}: {}: {}", one.case, one.said, one.wrong.join("; "))).collect();
        (answer((), &complaints), disturbance)
    }));
}
