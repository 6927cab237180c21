//! The program of developers, as `.ci/run` starts it once cargo has built all tests.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::Command;

#[test]
fn unknown_command_is_refused_with_command_list() {
    let run = |word: &str| Command::new(env!("CARGO_BIN_EXE_xtask")).arg(word).output().unwrap();
    let help = run("help");
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("  test ["));
    let refused = run("tset");
    assert_eq!((refused.status.code(), refused.stderr), (Some(2), [&help.stdout[..]].concat()));
}
