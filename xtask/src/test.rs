//! `cargo xtask test`: every test, with what could not be tested said aloud.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::capability::{self, REQUIRE_VARIABLE, SKIPS_VARIABLE};
use crate::{Usage, packages, rigs};

/// Runs the command; the answer is whether every test passed.
///
/// # Errors
/// Where the command line is not understood or cargo cannot be run.
pub fn command(arguments: &[String]) -> Result<bool> {
    let (own, for_cargo) = match arguments.iter().position(|word| word == "--") {
        Some(at) => (&arguments[..at], &arguments[at + 1..]),
        None => (arguments, &[][..]),
    };
    let mut install = std::env::var("CI").is_ok_and(|value| value == "true");
    for word in own {
        match word.as_str() {
            "--install" => install = true,
            _ => return Err(Usage(format!("unknown argument `{word}`")).into()),
        }
    }
    check_required_names(&std::env::var(REQUIRE_VARIABLE).unwrap_or_default())?;
    packages::provide(install);
    if !rig::abandoned().is_empty() {
        println!("left by tests that were killed before:");
        rigs::clean();
    }

    let skips = tempfile::NamedTempFile::new().context("make a file that lists skipped tests")?;
    let status = Command::new(crate::cargo())
        .args(["test", "--workspace"])
        .args(for_cargo)
        .current_dir(crate::root())
        .env(SKIPS_VARIABLE, skips.path())
        .status()
        .context("run cargo test")?;
    let list = fs::read_to_string(skips.path()).context("read the list of skipped tests")?;
    for line in skipped(&list) {
        println!("{line}");
    }
    if !status.success() {
        println!("cargo test failed ({status})");
    }
    let left = rig::abandoned();
    for journal in &left {
        println!("a test has left what {} says; `cargo xtask rigs --clean` undoes it", journal.display());
    }
    Ok(status.success() && left.is_empty())
}

/// A misspelt requirement would require nothing.
fn check_required_names(list: &str) -> Result<()> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    for word in words {
        if capability::find(word).is_none() {
            let known = capability::names().join(", ");
            return Err(Usage(format!("{REQUIRE_VARIABLE} names `{word}`; capabilities are {known}")).into());
        }
    }
    Ok(())
}

fn skipped(list: &str) -> BTreeSet<String> {
    let pairs = list.lines().filter_map(|line| line.split_once('\t'));
    pairs.map(|(test, reason)| format!("skipped: {test}: {reason}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_is_listed_once_with_its_reason() {
        let list =
            "engine::direct\tneeds loop: not root\ne2e::quota\tneeds fuse: no\ne2e::quota\tneeds fuse: no\n";
        let lines: Vec<_> = skipped(list).into_iter().collect();
        assert_eq!(
            lines,
            ["skipped: e2e::quota: needs fuse: no", "skipped: engine::direct: needs loop: not root"]
        );
    }

    #[test]
    fn a_misspelt_requirement_is_refused() {
        assert!(check_required_names("root, loop,").is_ok());
        let message = format!("{:#}", check_required_names("root,lop").unwrap_err());
        assert!(message.contains("`lop`") && message.contains("loop, zram"), "{message}");
    }
}
