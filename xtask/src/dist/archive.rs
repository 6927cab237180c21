//! Archives whose bytes depend on nothing but their files: sorted, owned by root, with one time and fixed modes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, GzBuilder};

/// Name of the file with the sums of all others.
pub(super) const SUMS: &str = "SHA256SUMS";
/// Mode of a program.
pub(super) const PROGRAM: u32 = 0o755;
/// Mode of other files.
pub(super) const DATA: u32 = 0o644;

/// Files of an archive, by their paths.
#[derive(Debug, Default)]
pub(super) struct Files {
    files: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Files {
    /// Adds a file. Another one of the same path is replaced.
    pub fn add(&mut self, path: impl Into<String>, mode: u32, content: impl Into<Vec<u8>>) {
        self.files.insert(path.into(), (mode, content.into()));
    }

    /// Adds a file of this machine.
    pub fn add_copy(&mut self, path: impl Into<String>, mode: u32, source: &Path) -> Result<()> {
        let content = fs::read(source).with_context(|| format!("read {}", source.display()))?;
        self.add(path, mode, content);
        Ok(())
    }

    /// Paths and contents, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, (_, content))| (path.as_str(), content.as_slice()))
    }

    /// Adds [`SUMS`], which lists all other files.
    pub fn add_sums(&mut self) -> Result<()> {
        let sums = self.sums()?;
        self.add(SUMS, DATA, sums);
        Ok(())
    }

    /// Returns the sum of each file, in the form that `sha256sum --check` reads.
    pub fn sums(&self) -> Result<String> {
        self.iter().map(|(path, content)| Ok(format!("{}  {path}\n", sha256_of(content)?))).collect()
    }

    /// Returns the files as an archive of tar, below a directory; an empty name is the root of the archive.
    pub fn tar(&self, directory: &str, seconds: u64) -> Result<Vec<u8>> {
        let path_of =
            |path: &str| if directory.is_empty() { path.into() } else { format!("{directory}/{path}") };
        let files: BTreeMap<String, _> =
            self.files.iter().map(|(path, file)| (path_of(path), file)).collect();
        let mut archive = tar::Builder::new(Vec::new());
        let header = |kind, mode, size: usize| {
            let mut header = tar::Header::new_ustar();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(size as u64);
            header.set_mtime(seconds);
            header.set_uid(0);
            header.set_gid(0);
            header
        };
        let mut known = BTreeSet::new();
        for (path, (mode, content)) in files {
            for (at, _) in path.match_indices('/') {
                if known.insert(path[..at].to_owned()) {
                    let mut header = header(tar::EntryType::Directory, PROGRAM, 0);
                    archive.append_data(&mut header, format!("{}/", &path[..at]), &[][..])?;
                }
            }
            let mut header = header(tar::EntryType::Regular, *mode, content.len());
            archive
                .append_data(&mut header, &path, content.as_slice())
                .with_context(|| format!("add {path}"))?;
        }
        archive.into_inner().context("end an archive")
    }
}

/// Compresses bytes by gzip, without a name and a time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    packed.write_all(bytes).and_then(|()| packed.finish()).context("compress by gzip")
}

/// Returns the SHA-256 of these bytes, in hexadecimal digits.
pub(super) fn sha256_of(bytes: &[u8]) -> Result<String> {
    let file = tempfile::NamedTempFile::new().context("make a temporary file")?;
    fs::write(file.path(), bytes).context("write a temporary file")?;
    let output = Command::new("sha256sum").arg("--").arg(file.path()).output().context("run sha256sum")?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A name with unusual characters has a backslash before its sum.
    let sum = text.trim_start_matches('\\').split(' ').next().unwrap_or_default();
    ensure!(output.status.success() && sum.len() == 64, "sha256sum: {}", output.status);
    Ok(sum.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(order: &[&str]) -> Files {
        let mut files = Files::default();
        for path in order {
            files.add(*path, if path.ends_with("skye") { PROGRAM } else { DATA }, path.as_bytes());
        }
        files
    }

    #[test]
    fn archive_does_not_depend_on_order_of_files() {
        let [one, other] = [["bin/skye", "a", "share/x"], ["share/x", "bin/skye", "a"]];
        assert_eq!(files(&one).tar("d", 7).unwrap(), files(&other).tar("d", 7).unwrap());
        assert_ne!(files(&one).tar("d", 7).unwrap(), files(&one).tar("d", 8).unwrap());
    }

    #[test]
    fn entries_have_fixed_owner_mode_and_time() {
        let bytes = files(&["share/x", "bin/skye"]).tar("d", 7).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let entries = archive.entries().unwrap().map(|entry| {
            let entry = entry.unwrap();
            let header = entry.header();
            let owner = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
            assert_eq!(owner, (0, 0, 7));
            (entry.path().unwrap().to_string_lossy().into_owned(), header.mode().unwrap())
        });
        let expected = [
            ("d/", 0o755),
            ("d/bin/", 0o755),
            ("d/bin/skye", 0o755),
            ("d/share/", 0o755),
            ("d/share/x", 0o644),
        ];
        assert_eq!(entries.collect::<Vec<_>>(), expected.map(|(path, mode)| (path.to_owned(), mode)));
    }

    #[test]
    fn sums_are_those_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256_of(b"abc").unwrap(), ABC);
        let mut files = Files::default();
        files.add("b", DATA, "abc");
        files.add("a", DATA, "abc");
        files.add_sums().unwrap();
        let sums = files.iter().find(|(path, _)| *path == "SHA256SUMS").unwrap().1;
        assert_eq!(String::from_utf8_lossy(sums), format!("{ABC}  a\n{ABC}  b\n"));
    }
}
