//! `cargo xtask lab record`: trees of files for the tests of `observe`, as the kernel of a guest shows them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::case::Case;
use super::supplies::{self, Kernel};
use super::{CaseResult, LabOptions, run, scratch};

/// Cases that build what is recorded.
const CASES: &str = include_str!("../../lab/fixtures.toml");
/// Directory of the trees.
const TREES: &str = "crates/observe/tests/fixtures";
/// Limit of a recording in seconds. Each file that is opened stops skye, and nothing depends on its speed.
const SECONDS: u32 = 600;
/// Most bytes of a file in a tree. The kernel's files about one machine are smaller.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Records trees, and replaces those of before. Returns false if one of them could not be recorded.
///
/// # Errors
/// The command line is not understood, no guest can run here, or a tree cannot be replaced.
pub fn command(arguments: &[String]) -> Result<bool> {
    let options = LabOptions::parse(arguments)?;
    let is_wanted = |case: &Case| options.only.is_empty() || options.only.contains(&case.name.as_str());
    let cases = Case::read(CASES)?.into_iter().filter(is_wanted);
    let cases: Vec<_> = cases.map(|case| Case { seconds: SECONDS, ..case }).collect();
    ensure!(!cases.is_empty(), "no such case");
    let program = crate::release("skye")?;
    let mut is_good = true;
    for kernel in &options.kernels {
        is_good &= record(kernel, &cases, &program, options.keep)?;
    }
    Ok(is_good)
}

fn record(kernel: &Kernel, cases: &[Case], program: &Path, keep: Option<&Path>) -> Result<bool> {
    let recorded = scratch()?;
    let kept = keep.map_or(recorded.path(), |keep| keep);
    fs::create_dir_all(kept)?;
    let (results, _) = run(kernel, cases, program, Some(&std::path::absolute(kept)?))?;
    let mut is_good = true;
    for CaseResult { case, wrong, .. } in results {
        let fixture = cases.iter().find(|other| other.name == case).and_then(|case| case.fixture.as_deref());
        let fixture = fixture.with_context(|| format!("{case} has no fixture"))?;
        let tree = kept.join(format!("{case}-{}", kernel.version)).join("tree");
        let wrong = if wrong.is_empty() { faults(&tree)? } else { wrong };
        let files =
            if wrong.is_empty() { replace(&tree, &crate::root().join(TREES).join(fixture))? } else { 0 };
        println!("{:<5} {case:<24} {files} files", kernel.version);
        wrong.iter().for_each(|one| println!("      {one}"));
        is_good &= wrong.is_empty();
    }
    Ok(is_good)
}

/// Returns what must not be in a tree: large files, and names of the machine around the guest.
fn faults(tree: &Path) -> Result<Vec<String>> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (host, checkout) = (host.trim(), crate::root().to_string_lossy());
    let is_inside_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let mut faults = Vec::new();
    for path in files(tree)?.iter().filter(|path| !path.is_symlink()) {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            faults.push(format!("{} has {} bytes", path.display(), bytes.len()));
        }
        let text = String::from_utf8_lossy(&bytes);
        let is_named =
            text.contains(&*checkout) || text.split(|c| !is_inside_word(c)).any(|word| word == host);
        faults.extend(is_named.then(|| format!("{} contains this machine's name", path.display())));
    }
    Ok(faults)
}

/// Replaces a tree by a new one, and returns how many files and links that has.
fn replace(tree: &Path, place: &Path) -> Result<usize> {
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("remove {}", place.display()))?;
    }
    let mut copy = std::process::Command::new("cp");
    supplies::run(copy.args(["--recursive", "--no-target-directory"]).arg(tree).arg(place))?;
    Ok(files(place)?.len())
}

/// Files and links below a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::super::case::FUNCTIONS;
    use super::super::supplies::KERNELS;
    use super::*;

    #[test]
    fn each_case_has_a_separate_fixture_tree() {
        let cases = Case::read(CASES).unwrap();
        for (number, case) in cases.iter().enumerate() {
            assert!(case.fixture.is_some(), "{}", case.name);
            assert!(cases[..number].iter().all(|other| other.fixture != case.fixture), "{}", case.name);
            assert!(KERNELS.iter().any(|kernel| case.runs_on(kernel.version)), "{}", case.name);
        }
    }

    /// Goal: a tree has each file that a program opened, with the same text, and the links on the way to it.
    /// Method: this machine's kernel is recorded while usual programs look at it.
    #[test]
    fn recorded_tree_has_the_files_a_program_opened() {
        crate::require!(strace);
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("functions"), FUNCTIONS).unwrap();
        // Rigs of other tests come and go meanwhile.
        let interfaces: Vec<_> =
            fs::read_dir("/sys/class/net").unwrap().map(|entry| entry.unwrap().path()).collect();
        let script = ". ./functions; recorded sh -c 'cat /proc/self/mountinfo /proc/sys/kernel/ostype; \
            cat /sys/class/net/lo/mtu; cat /etc/passwd; ls /sys/class/net; ls /proc'";
        let done = Command::new("sh").args(["-ec", script]).current_dir(home.path()).status().unwrap();
        assert!(done.success());
        let tree = home.path().join("tree");
        let read = |path: &str| fs::read_to_string(tree.join(path)).unwrap();
        for path in ["proc/sys/kernel/ostype", "sys/class/net/lo/mtu"] {
            assert_eq!(read(path), fs::read_to_string(Path::new("/").join(path)).unwrap(), "{path}");
        }
        assert!(tree.join("proc/self").is_dir() && !tree.join("proc/self").is_symlink());
        assert_eq!(read("proc/self/mountinfo").lines().filter(|line| line.contains(" / / ")).count(), 0);
        for path in interfaces {
            let Ok(link) = fs::read_link(&path) else { continue };
            let recorded = fs::read_link(tree.join(path.strip_prefix("/").unwrap())).ok();
            assert_eq!(recorded, Some(link), "{}", path.display());
        }
        let top: Vec<_> = fs::read_dir(&tree).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(top.iter().all(|name| name == "proc" || name == "sys"), "{top:?}");
        let process = |name: &str| name.parse::<u32>().is_ok();
        let proc = fs::read_dir(tree.join("proc")).unwrap();
        assert!(!proc.into_iter().any(|entry| process(&entry.unwrap().file_name().to_string_lossy())));
    }
}
