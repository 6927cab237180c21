//! Needs of a program: its interpreter, its libraries, and the versions of their symbols.

use std::fs;
use std::ops::Range;
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
    // objcopy would do, but reads only programs for this processor.
    let sections = readelf(&["--sections"], program)?;
    let place = section_place(&sections, ".dep-v0")
        .with_context(|| format!("{} has no dependency list in a section .dep-v0", program.display()))?;
    let bytes = fs::read(program).context("read the program")?;
    let packed = bytes.get(place).context("the dependency list lies outside of the program")?;
    let list: serde_json::Value = serde_json::from_reader(flate2::read::ZlibDecoder::new(packed))
        .with_context(|| format!("read the dependency list of {}", program.display()))?;
    Ok(list["packages"].as_array().map_or(0, Vec::len))
}

/// Returns the place of a section in the file: after its name come its type, address, offset and size.
fn section_place(sections: &str, name: &str) -> Option<Range<usize>> {
    let mut words = sections.split_whitespace().skip_while(|word| *word != name).skip(3);
    let mut number = || usize::from_str_radix(words.next()?, 16).ok();
    let (start, size) = (number()?, number()?);
    Some(start..start.checked_add(size)?)
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
    fn section_is_found_by_its_name() {
        let text = "  [12] .text     PROGBITS 00000000002a91c0 2a81c0 56c24b 00 AX 0 0 64
  [30] .dep-v0   PROGBITS 0000000000000000 7c1d40 000f1b 00 W 0 0 1";
        assert_eq!(section_place(text, ".dep-v0"), Some(0x7c_1d40..0x7c_2c5b));
        assert_eq!(section_place(text, ".comment"), None);
    }

    #[test]
    fn test_program_needs_its_c_library() {
        let needs = Needs::read(Path::new("/proc/self/exe")).unwrap();
        assert_eq!(needs.has_interpreter, !cfg!(target_feature = "crt-static"));
        assert_eq!(needs.glibc.is_some(), cfg!(all(target_env = "gnu", not(target_feature = "crt-static"))));
    }
}
