//! The full version of this program.

/// Release, commit, target and profile: "0.2.0 (7c69668c+, x86_64-unknown-linux-gnu, release)".
///
/// The commit is the one that was checked out when the sources were last compiled. `+` means that the sources differed
/// from it then. A package has the commit that cargo wrote into it. Without either, the commit is "unknown".
pub const FULL: &str = env!("SKYE_BUILD");

/// The build script, for its tests. Its other code is not called here.
#[cfg(test)]
#[allow(dead_code)]
#[path = "../build.rs"]
mod script;
