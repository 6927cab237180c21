//! `cargo xtask lab kernels`: runs skye on all kernels of the lab, and writes the page about the features that it uses where
//! they are.
//!
//! Each cell of the page comes from a guest: skye's output there has the text of the feature, or that of its lack. On a kernel
//! without the feature, the case tests the fallback, as it must succeed there, too.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::supplies::{KERNELS, Kernel};
use super::{Case, CaseResult, run};

/// Attempts at a case until its result is right.
const ATTEMPTS: u32 = 3;
/// Cases and features.
const FILE: &str = include_str!("../../lab/kernels.toml");
/// The page, from the root of the tree.
const PAGE: &str = "docs/kernels.md";
const HEAD: &str = "# Kernels

skye runs on each of these kernels of Debian. It uses a feature where it is, and does without it elsewhere. `cargo xtask lab
kernels` writes this page from guests with these kernels: in each, all cases of `xtask/lab/kernels.toml` must succeed.
";

/// The file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
    feature: Vec<Feature>,
}

/// A feature that some kernels have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    /// Name of it in the page.
    name: String,
    /// First version of Linux with it, by the kernel's own history.
    since: String,
    /// Case that shows it.
    case: String,
    /// Text of skye that shows that it is there.
    has: String,
    /// Text of skye that shows that it is not.
    lacks: String,
    /// Behaviour of skye without it.
    without: String,
}

/// Results of all cases on one kernel.
struct Tried {
    /// Version of the kernel by the guest: 6.12.
    version: String,
    /// True for each feature that the kernel has.
    has: Vec<bool>,
}

impl Feature {
    /// Returns true if the output of its case shows it.
    fn is_in(&self, text: &str) -> Result<bool> {
        let (has, lacks) = (text.contains(&self.has), text.contains(&self.lacks));
        ensure!(
            has != lacks,
            "{}: its case shows {}",
            self.name,
            if has { "both answers" } else { "no answer" }
        );
        Ok(has)
    }

    fn row(&self, cells: impl Iterator<Item = bool>) -> String {
        let cells: Vec<_> = cells.map(|has| if has { "yes" } else { "no" }).collect();
        format!("| {} | {} | {} | {} |\n", self.name, self.since, cells.join(" | "), self.without)
    }
}

fn file() -> Result<File> {
    toml::from_str(FILE).context("read the cases of kernels")
}

/// Runs all cases on all kernels, one guest at a time, and writes the page. Returns true if all cases have succeeded.
///
/// # Errors
/// No guest can run here, or a case shows neither a feature nor its lack.
pub(super) fn command(program: &Path) -> Result<bool> {
    let file = file()?;
    let mut tried = Vec::new();
    let mut is_good = true;
    for kernel in KERNELS {
        let keep = super::scratch()?;
        let results = results(kernel, &file.case, program, keep.path())?;
        for CaseResult { case, verdicts, wrong, .. } in &results {
            let answer = if wrong.is_empty() { "right" } else { "WRONG" };
            println!("{:<6} {case:<18} {answer} {verdicts}", kernel.version);
            wrong.iter().for_each(|one| println!("       {one}"));
            is_good &= wrong.is_empty();
        }
        if is_good {
            tried.push(answers(&file, &results).with_context(|| format!("on {}", kernel.version))?);
        }
    }
    if is_good {
        tried.sort_by_key(|one| number(&one.version));
        let path = crate::root().join(PAGE);
        fs::write(&path, page(&file, &tried)).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(is_good)
}

/// Returns the result of each case. A case that is wrong is repeated: other programs of this machine disturb a guest.
fn results(kernel: &Kernel, cases: &[Case], program: &Path, keep: &Path) -> Result<Vec<CaseResult>> {
    let (mut results, mut open) = (Vec::new(), cases.to_vec());
    for attempt in 0..ATTEMPTS {
        let keep = keep.join(attempt.to_string());
        fs::create_dir(&keep).with_context(|| format!("make {}", keep.display()))?;
        let is_last = attempt + 1 == ATTEMPTS;
        let (found, _) = run(kernel, &open, program, Some(&keep))?;
        results.extend(found.into_iter().filter(|result| is_last || result.wrong.is_empty()));
        open.retain(|case| results.iter().all(|result| result.case != case.name));
        if open.is_empty() {
            break;
        }
    }
    Ok(results)
}

/// Returns the features that the kept output of all cases shows.
fn answers(file: &File, results: &[CaseResult]) -> Result<Tried> {
    let kept = |name: &str| {
        let result = results.iter().find(|result| result.case == name);
        result.and_then(|result| result.kept.as_deref()).with_context(|| format!("no case is named {name}"))
    };
    let text = |name: &str| {
        let place = kept(name)?;
        let read = |file| fs::read(place.join(file)).unwrap_or_default();
        let all = ["out", "err", "document.json"].map(read).concat();
        Ok::<_, anyhow::Error>(String::from_utf8_lossy(&all).into_owned())
    };
    let document = fs::read(kept(&file.case[0].name)?.join("document.json")).context("read a run")?;
    let document: Value = serde_json::from_slice(&document).context("understand a run")?;
    let version = version(document["environment"]["kernel"].as_str().unwrap_or_default());
    let has = file.feature.iter().map(|feature| feature.is_in(&text(&feature.case)?));
    Ok(Tried { version: version.context("the run has no kernel")?, has: has.collect::<Result<_>>()? })
}

/// Returns major and minor version of a kernel: `6.12` of `Linux 6.12.9-amd64`.
fn version(kernel: &str) -> Option<String> {
    let mut numbers = kernel.strip_prefix("Linux ")?.split(['.', '-']);
    Some(format!("{}.{}", numbers.next()?, numbers.next()?))
}

/// Returns the place of a version in the order of versions.
fn number(version: &str) -> Vec<u32> {
    version.split('.').filter_map(|part| part.parse().ok()).collect()
}

fn page(file: &File, tried: &[Tried]) -> String {
    let versions: Vec<_> = tried.iter().map(|one| one.version.as_str()).collect();
    let mut text = format!(
        "{HEAD}\n| feature | since | {} | without it |\n|---|---|{}---|\n",
        versions.join(" | "),
        "---|".repeat(versions.len())
    );
    for (at, feature) in file.feature.iter().enumerate() {
        text += &feature.row(tried.iter().map(|one| one.has[at]));
    }
    text += "\nThe cases:\n\n";
    for case in &file.case {
        text += &format!("- {}\n", case.built);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_answer_of_each_kernel() {
        let file = file().unwrap();
        let text = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        let tables = |text: &str| -> Vec<Vec<String>> {
            let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
            rows.map(|row| row.split(" | ").map(str::to_owned).collect()).collect()
        };
        let rows = tables(&text);
        let versions: Vec<_> = rows[0][2..rows[0].len() - 1].to_vec();
        assert_eq!(versions.len(), KERNELS.len());
        assert!(versions.is_sorted_by_key(|version| number(version)));
        // The page is that of its own answers, so nothing but a guest can change them.
        let has = |version: usize| rows[1..].iter().map(|row| row[2 + version] == "yes").collect();
        let tried: Vec<_> =
            (0..versions.len()).map(|at| Tried { version: versions[at].clone(), has: has(at) }).collect();
        assert_eq!(rows.len() - 1, file.feature.len());
        assert_eq!(page(&file, &tried), text);
        // A kernel has what came before it.
        for (row, feature) in rows[1..].iter().zip(&file.feature) {
            for (cell, version) in row[2..].iter().zip(&versions) {
                let comes_before = number(version) < number(&feature.since);
                assert!(!(comes_before && cell == "yes"), "{}: {version} {cell}", feature.name);
            }
        }
    }

    #[test]
    fn feature_needs_exactly_one_answer() {
        let file = file().unwrap();
        let feature = &file.feature[0];
        assert!(feature.is_in(&feature.has).unwrap() && !feature.is_in(&feature.lacks).unwrap());
        assert!(
            feature.is_in("").is_err()
                && feature.is_in(&format!("{}{}", feature.has, feature.lacks)).is_err()
        );
        for feature in &file.feature {
            assert!(file.case.iter().any(|case| case.name == feature.case), "{}", feature.name);
        }
        assert_eq!(version("Linux 7.2.12+deb14-amd64").as_deref(), Some("7.2"));
        assert!(number("6.12") > number("6.1") && number("6.12") < number("7.2"));
    }
}
