//! Needs of a program: its interpreter, its libraries, and the versions of their symbols.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Needs of a program.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// True if the kernel starts it through a dynamic linker.
    pub has_interpreter: bool,
    /// Names of the libraries.
    pub libraries: Vec<String>,
    /// Newest version of glibc whose symbols it uses; none without glibc.
    pub glibc: Option<(u32, u32)>,
}

impl Needs {
    /// Reads the needs of a program.
    ///
    /// # Errors
    /// readelf is missing or fails.
    pub fn read(program: &Path) -> Result<Self> {
        Ok(Self::from_text(&readelf(&["--program-headers", "--dynamic", "--version-info"], program)?))
    }

    fn from_text(text: &str) -> Self {
        let between = |line: &str, start: &str, end: char| {
            Some(line.split_once(start)?.1.split_once(end)?.0.to_owned())
        };
        let libraries = text.lines().filter(|line| line.contains("(NEEDED)"));
        let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
            let end =
                rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
            let mut numbers = rest[..end].split('.');
            Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
        });
        Self {
            has_interpreter: text.contains("Requesting program interpreter"),
            libraries: libraries.filter_map(|line| between(line, "[", ']')).collect(),
            glibc: versions.max(),
        }
    }
}

/// Returns the number of crates in the dependency list that cargo-auditable puts into a program.
///
/// # Errors
/// The program has no such list.
pub(super) fn audited_crates(program: &Path) -> Result<usize> {
    let file = tempfile::NamedTempFile::new().context("make a temporary file")?;
    let section = format!("--dump-section=.dep-v0={}", file.path().display());
    // objcopy writes a copy of the program, too.
    let copy = tempfile::NamedTempFile::new().context("make a temporary file")?;
    let status =
        Command::new("objcopy").arg(section).arg(program).arg(copy.path()).status().context("run objcopy")?;
    ensure!(status.success(), "{} has no dependency list in a section .dep-v0", program.display());
    let packed = std::fs::File::open(file.path()).context("read the dependency list")?;
    let list: serde_json::Value = serde_json::from_reader(flate2::read::ZlibDecoder::new(packed))
        .with_context(|| format!("read the dependency list of {}", program.display()))?;
    Ok(list["packages"].as_array().map_or(0, Vec::len))
}

fn readelf(options: &[&str], program: &Path) -> Result<String> {
    let output = Command::new("readelf").arg("--wide").args(options).arg(program).env("LC_ALL", "C").output();
    let output = output.context("run readelf")?;
    ensure!(output.status.success(), "readelf {}: {}", program.display(), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_symbol_version_is_found() {
        let text = "      [Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
  000000: Version: 1  File: libc.so.6  Cnt: 2
  0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 3
  0x0020:   Name: GLIBC_2.28  Flags: none  Version: 2
  0x0030:   Name: GLIBC_2.9  Flags: none  Version: 4";
        let needs =
            Needs { has_interpreter: true, libraries: vec!["libc.so.6".into()], glibc: Some((2, 28)) };
        assert_eq!(Needs::from_text(text), needs);
        assert_eq!(Needs::from_text("There is no dynamic section in this file."), Needs::default());
    }

    #[test]
    fn test_program_needs_its_c_library() {
        let needs = Needs::read(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(needs.has_interpreter, !cfg!(target_feature = "crt-static"));
        assert_eq!(needs.glibc.is_some(), cfg!(all(target_env = "gnu", not(target_feature = "crt-static"))));
    }
}
