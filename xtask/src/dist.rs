//! `cargo xtask dist`: builds all that a release offers for download, checks it, and tries it.
//!
//! Invariants:
//! - The same commit and compiler give the same bytes, in each directory (`--check`).
//! - Nothing is installed outside the target directory, except a missing target of rustup.
//! - A try leaves nothing behind: no mount, no process, no root.

mod archive;
mod compare;
mod documents;
mod elf;
mod image;
mod licences;
mod program;
mod roots;
mod tools;
mod tries;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::Usage;
use archive::{Files, PROGRAM, SUMS};
use program::{Arch, Linkage, Program, Source};
use tools::{Tools, run};
use tries::Outcome;

/// Directory of artefacts below the target directory. Cargo has the name `dist` for its profile.
const ARTEFACTS: &str = "download";
/// Directory beside a built program with the documents for packages; `Cargo.toml` of skye has its name.
const DOCUMENTS: &str = "package";

/// Kind of artefact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Static,
    Deb,
    Rpm,
    Image,
}

impl Kind {
    /// Largest size in MB: the first ones of 2026-11, and a fifth more. The goal of an image is 10.
    fn mb_max(self) -> f64 {
        match self {
            Self::Image => 4.5,
            _ => 3.7,
        }
    }
}

/// Largest size of a program itself, in MB.
const PROGRAM_MB_MAX: f64 = 8.0;

/// All that was built.
#[derive(Debug)]
struct Artefacts {
    arch: Arch,
    version: String,
    all: Vec<(Kind, PathBuf)>,
    programs: [Program; 2],
}

impl Artefacts {
    fn path(&self, kind: Kind) -> Result<&Path> {
        let found = self.all.iter().find(|(known, _)| *known == kind);
        found.map(|(_, path)| path.as_path()).with_context(|| format!("{kind:?} was not built"))
    }

    /// Directory in an archive.
    fn directory(&self, kind: Kind) -> String {
        directory(&self.version, self.arch, kind)
    }
}

fn directory(version: &str, arch: Arch, kind: Kind) -> String {
    let suffix = if kind == Kind::Static { "-static" } else { "" };
    format!("skye-{version}-{}-linux{suffix}", arch.as_str())
}

/// Choices of the command line.
#[derive(Debug, PartialEq, Eq)]
struct Choices {
    arch: Arch,
    out: PathBuf,
    is_checked: bool,
    is_tried: bool,
    is_compared: bool,
}

fn understood(arguments: &[String]) -> Result<Choices, Usage> {
    let mut choices = Choices {
        arch: Arch::X86_64,
        out: crate::target_directory().join(ARTEFACTS),
        is_checked: false,
        is_tried: false,
        is_compared: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--check" => choices.is_checked = true,
            "--try" => choices.is_tried = true,
            "--compare" => choices.is_compared = true,
            "--out" => {
                choices.out = words.next().ok_or_else(|| Usage("--out takes a directory".into()))?.into()
            }
            "--target" => {
                let arch = words.next().and_then(|name| Arch::from_name(name));
                choices.arch = arch.ok_or_else(|| Usage("--target takes x86_64 or aarch64".into()))?;
            }
            _ => return Err(Usage(format!("dist has no option `{word}`"))),
        }
    }
    Ok(choices)
}

/// Builds, and checks and tries what was built if that is wanted. Returns true if nothing failed.
///
/// # Errors
/// The command line is not understood, a build fails, or a program needs more than it should.
pub fn command(arguments: &[String]) -> Result<bool> {
    let choices = understood(arguments)?;
    let target = crate::target_directory();
    let tools = Tools::install(&target)?;
    let source = Source::at(crate::root(), target.clone())?;
    let out = std::path::absolute(&choices.out).context("the directory of artefacts")?;
    let artefacts = build(&source, &tools, choices.arch, &out)?;
    print_sizes(&artefacts)?;
    let mut is_good = within_limits(&artefacts)?;
    let scratch = target.join("dist-tmp");
    if choices.is_checked {
        let checked = is_reproducible(&source, &tools, choices.arch, &out, &scratch);
        // Artefacts that differ stay for a look at them.
        if !matches!(checked, Ok(false)) {
            tries::remove(&scratch)?;
        }
        is_good &= checked?;
    }
    if choices.is_tried {
        let tries = tries::all(&tools, &scratch, &artefacts);
        tries::remove(&scratch)?;
        is_good &= print_tries(&tries);
    }
    if choices.is_compared {
        ensure!(choices.arch.is_ours(), "this machine runs no programs for {}", choices.arch.as_str());
        let [dynamic, fixed] = &artefacts.programs;
        compare::print(&fixed.path, &dynamic.path)?;
    }
    Ok(is_good)
}

/// Builds all artefacts into a directory.
fn build(source: &Source, tools: &Tools, arch: Arch, out: &Path) -> Result<Artefacts> {
    empty(out)?;
    let fixed = source.build(tools, "skye", arch, Linkage::Static)?;
    let fixed_bytes = fs::read(&fixed.path).context("read the static program")?;
    // A static program of this machine prints the pages; those for another machine have the same text.
    let host = Arch::from_name(std::env::consts::ARCH).context("this processor has no programs")?;
    let printer =
        if arch.is_ours() { None } else { Some(source.build(tools, "skye", host, Linkage::Static)?) };
    let third_party = licences::text(source, tools, &fixed.triple)?;
    let pages = documents::all(source, &printer.as_ref().unwrap_or(&fixed).path, &third_party)?;
    let dynamic = source.build(tools, "skye", arch, Linkage::Dynamic)?;
    let dynamic_bytes = fs::read(&dynamic.path).context("read the dynamic program")?;

    let mut all = Vec::new();
    let mut keep = |kind: Kind, name: String, bytes: &[u8]| -> Result<()> {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("write {}", path.display()))?;
        all.push((kind, path));
        Ok(())
    };
    for (kind, bytes) in [(Kind::Dynamic, &dynamic_bytes), (Kind::Static, &fixed_bytes)] {
        let name = directory(&source.version, arch, kind);
        let mut files = Files::default();
        pages.iter().for_each(|(path, content)| files.add(path, archive::DATA, content));
        files.add("skye", PROGRAM, bytes.as_slice());
        files.add_sums()?;
        keep(kind, format!("{name}.tar.zst"), &tools.zstd(&files.tar(&name, source.seconds)?)?)?;
    }
    let facts = image::Facts {
        architecture: arch.debian(),
        version: &source.version,
        revision: &source.commit,
        created: &source.created,
        seconds: source.seconds,
    };
    let licences: Vec<_> = pages.iter().filter(|(name, _)| name.starts_with("LICENSE")).collect();
    let layout = image::layout(&fixed_bytes, &licences, &facts)?;
    keep(Kind::Image, format!("skye-{}-{}-image.tar", source.version, arch.as_str()), &layout)?;
    documents::write(&pages, &dynamic.directory.join(DOCUMENTS))?;
    all.push((Kind::Deb, deb(source, tools, arch, &dynamic, out)?));
    all.push((Kind::Rpm, rpm(source, tools, arch, &dynamic, out)?));
    write_sums(out)?;
    Ok(Artefacts { arch, version: source.version.clone(), all, programs: [dynamic, fixed] })
}

/// Makes the directory, or removes the artefacts of an earlier build from it. Other files stay, and are an error.
fn empty(out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    for entry in fs::read_dir(out).with_context(|| format!("list {}", out.display()))? {
        let path = entry.context("list a directory")?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        ensure!(is_artefact(&name), "{} is no artefact; use another directory", path.display());
        fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

/// Returns true for the names that builds give to their files.
fn is_artefact(name: &str) -> bool {
    let is_ours = name.starts_with("skye-") || name.starts_with("skye_");
    name == SUMS || is_ours && [".tar.zst", ".tar", ".deb", ".rpm"].iter().any(|end| name.ends_with(end))
}

/// Makes the package for Debian. Its metadata is in `crates/skye/Cargo.toml`.
fn deb(source: &Source, tools: &Tools, arch: Arch, program: &Program, out: &Path) -> Result<PathBuf> {
    let path = out.join(format!("skye_{}_{}.deb", source.version, arch.debian()));
    let mut cargo = source.cargo(tools);
    // It prints the path.
    cargo.stdout(Stdio::null());
    cargo.args([
        "deb",
        "--quiet",
        "--no-build",
        "--no-strip",
        "--locked",
        "--package",
        "skye",
        "--profile",
        "dist",
    ]);
    cargo.args(["--target", &program.triple, "--deb-revision", "", "--output"]).arg(&path);
    run(&mut cargo)?;
    Ok(path)
}

/// Makes the package for Fedora, RHEL and SUSE. Its metadata is in `crates/skye/Cargo.toml`.
fn rpm(source: &Source, tools: &Tools, arch: Arch, program: &Program, out: &Path) -> Result<PathBuf> {
    let path = out.join(format!("skye-{}-1.{}.rpm", source.version, arch.as_str()));
    let mut cargo = source.cargo(tools);
    cargo.args(["generate-rpm", "--package", "crates/skye", "--profile", "dist", "--auto-req", "disabled"]);
    cargo.args(["--target", &program.triple, "--source-date", &source.seconds.to_string()]);
    cargo.arg("--target-dir").arg(&source.target).arg("--output").arg(&path);
    run(&mut cargo)?;
    Ok(path)
}

/// Lists the sums of all files of the directory.
fn write_sums(out: &Path) -> Result<()> {
    let entries = fs::read_dir(out).with_context(|| format!("list {}", out.display()))?;
    let mut files = Files::default();
    for entry in entries.flatten() {
        files.add_copy(entry.file_name().to_string_lossy(), archive::DATA, &entry.path())?;
    }
    fs::write(out.join(SUMS), files.sums()?).with_context(|| format!("write {SUMS}"))
}

fn megabytes(path: &Path) -> Result<f64> {
    let size = fs::metadata(path).with_context(|| format!("look at {}", path.display()))?;
    Ok(size.len() as f64 / 1e6)
}

/// Returns each file with its size and its limit, in MB, and a remark.
fn sizes(artefacts: &Artefacts) -> Result<Vec<(String, f64, f64, String)>> {
    let program = |program: &Program| {
        let crates = program.crates.map_or(String::new(), |count| format!("; lists {count} crates"));
        let remark = format!("needs {}{crates}", program.needs);
        Ok((format!("program, {}", program.triple), megabytes(&program.path)?, PROGRAM_MB_MAX, remark))
    };
    let artefact = |(kind, path): &(Kind, PathBuf)| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, megabytes(path)?, kind.mb_max(), String::new()))
    };
    artefacts.programs.iter().map(program).chain(artefacts.all.iter().map(artefact)).collect()
}

fn print_sizes(artefacts: &Artefacts) -> Result<()> {
    println!("{:<44} {:>9}   {:>9}", "artefact", "size", "limit");
    for (name, size, limit, remark) in sizes(artefacts)? {
        println!("{}", format!("{name:<44} {size:>5.2} MB   {limit:>5.1} MB   {remark}").trim_end());
    }
    Ok(())
}

fn within_limits(artefacts: &Artefacts) -> Result<bool> {
    let sizes = sizes(artefacts)?;
    let large = sizes.iter().filter(|(_, size, limit, _)| size > limit);
    Ok(large.inspect(|(name, ..)| eprintln!("dist: {name} is larger than its limit")).count() == 0)
}

/// Builds a copy of the sources in another directory, and compares all artefacts.
fn is_reproducible(source: &Source, tools: &Tools, arch: Arch, out: &Path, scratch: &Path) -> Result<bool> {
    if scratch.exists() {
        tries::remove(scratch)?;
    }
    fs::create_dir_all(scratch).context("make a directory")?;
    let copy = source.copy(&scratch.join("a-copy-elsewhere"))?;
    let second = scratch.join("artefacts");
    build(&copy, tools, arch, &second)?;
    let sums = |directory: &Path| fs::read_to_string(directory.join(SUMS)).context("read the sums");
    let (one, other) = (sums(out)?, sums(&second)?);
    let different: Vec<_> = one.lines().filter(|line| !other.contains(line)).collect();
    println!();
    match different.is_empty() {
        true => println!("two builds in different directories give the same bytes\n{}", one.trim_end()),
        false => println!(
            "two builds differ: {different:#?}\n{other}\nthe second ones are in {}",
            second.display()
        ),
    }
    Ok(different.is_empty())
}

fn print_tries(tries: &[tries::Try]) -> bool {
    println!("\n{:<72} result", "try");
    for tries::Try { what, outcome } in tries {
        let result = match outcome {
            Outcome::Passed(None) => "passed".to_owned(),
            Outcome::Passed(Some(time)) => {
                format!("passed: {:.1} s until the first answer", time.as_secs_f64())
            }
            Outcome::Failed(why) => format!("FAILED: {why}"),
            Outcome::Untried(why) => format!("untried: {why}"),
        };
        println!("{what:<72} {result}");
    }
    !tries.iter().any(|one| matches!(one.outcome, Outcome::Failed(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(line: &str) -> Result<Choices, String> {
        let words: Vec<_> = line.split_whitespace().map(String::from).collect();
        understood(&words).map_err(|usage| usage.to_string())
    }

    #[test]
    fn options_of_dist_are_understood() {
        let all = choices("--target aarch64 --out /x --check --try --compare").unwrap();
        assert_eq!((all.arch, all.out, all.is_checked), (Arch::Aarch64, "/x".into(), true));
        assert!(all.is_tried && all.is_compared);
        assert!(!choices("").unwrap().is_tried);
        for wrong in ["--target sparc", "--target", "--out", "x"] {
            assert!(choices(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_own_artefacts_are_removed() {
        let out = tempfile::tempdir().unwrap();
        let path = out.path().join("new");
        empty(&path).unwrap();
        for name in ["skye-1.2.3-x86_64-image.tar", "skye_1.2.3_amd64.deb", SUMS] {
            fs::write(path.join(name), name).unwrap();
        }
        empty(&path).unwrap();
        assert!(fs::read_dir(&path).unwrap().next().is_none());
        fs::write(path.join("foreign"), "a").unwrap();
        assert!(empty(&path).unwrap_err().to_string().contains("is no artefact"));
        assert!(path.join("foreign").exists());
    }

    #[test]
    fn sums_have_all_files_by_name() {
        let out = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            fs::write(out.path().join(name), name).unwrap();
        }
        write_sums(out.path()).unwrap();
        let sums = fs::read_to_string(out.path().join(SUMS)).unwrap();
        let names: Vec<_> = sums.lines().map(|line| line.split("  ").nth(1).unwrap()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
