//! The files beside the program: manual pages, completions, licences.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use regex::Regex;

use super::archive::{DATA, Files, gzip};
use super::program::Source;
use super::tools::output;

/// File with the licences of all crates.
pub(super) const THIRD_PARTY: &str = "LICENSE-THIRD-PARTY";
/// Files of the sources that every archive has.
const OURS: &[&str] = &["LICENSE", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];
/// Shells, and the paths where packages have their completions.
const COMPLETIONS: &[(&str, &str)] =
    &[("bash", "completions/skye.bash"), ("fish", "completions/skye.fish"), ("zsh", "completions/_skye")];

/// Returns all documents; `program` runs on this machine and prints them.
///
/// # Errors
/// The program fails, or a file cannot be read.
pub(super) fn all(source: &Source, program: &Path, third_party: &str) -> Result<Files> {
    let mut files = Files::default();
    for name in OURS {
        files.add_copy(*name, DATA, &source.path(name))?;
    }
    files.add(THIRD_PARTY, DATA, third_party);
    for (shell, path) in COMPLETIONS {
        files.add(*path, DATA, output(Command::new(program).args(["completions", shell]))?);
    }
    let main = output(Command::new(program).arg("man"))?;
    let commands = commands(&main);
    ensure!(commands.len() > 5, "the manual page refers to no pages of commands: {commands:?}");
    for command in commands {
        let page = output(Command::new(program).args(["man", &command]))?;
        files.add(format!("man/man1/skye-{command}.1.gz"), DATA, gzip(page.as_bytes())?);
    }
    files.add("man/man1/skye.1.gz", DATA, gzip(main.as_bytes())?);
    Ok(files)
}

/// Writes the files below a directory, where tools of packages find them.
///
/// # Errors
/// A file cannot be written.
pub(super) fn write(files: &Files, directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("remove {}", directory.display()))?;
    }
    for (path, content) in files.iter() {
        let path = directory.join(path);
        fs::create_dir_all(path.parent().context("a path below a directory")?).context("make a directory")?;
        fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the commands whose pages the main page refers to.
fn commands(page: &str) -> Vec<String> {
    #[allow(clippy::unwrap_used, reason = "a constant, which a test uses")]
    let reference = Regex::new(r"(?m)^skye\\-([a-z0-9_+\\-]+)\(1\)$").unwrap();
    let names = reference.captures_iter(page).map(|found| found[1].replace('\\', ""));
    names.filter(|name| name != "help").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn main_page_has_its_commands() {
        let page = ".SH SUBCOMMANDS\n.TP\nskye\\-run(1)\nMeasure\n.TP\nskye\\-getc_putc(1)\n.TP\nskye\\-bon_csv2txt(1)\n.TP\nskye\\-bonnie++(1)\n.TP\nskye\\-x\\-y(1)\n.TP\nskye\\-help(1)\n";
        assert_eq!(commands(page), ["run", "getc_putc", "bon_csv2txt", "bonnie++", "x-y"]);
    }
}
