//! Rules about pages: their length, and their links.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::Tree;
use crate::release;

/// Most words of each page that people write, its generated tables included.
const WORDS_MAX: &[(&str, usize)] = &[
    ("README.md", 1_300),
    ("ARCHITECTURE.md", 1_950),
    ("CONTRIBUTING.md", 1_800),
    ("SECURITY.md", 600),
    ("docs/case-studies.md", 900),
    ("docs/coming-from.md", 350),
    ("docs/devices.md", 1_150),
    ("docs/family.md", 2_050),
    ("docs/fio.md", 1_750),
    ("docs/guide.md", 5_200),
    ("docs/kubernetes.md", 250),
    ("docs/methodology.md", 3_150),
    ("docs/mixes.md", 1_350),
    ("docs/mpi.md", 450),
    ("docs/reference.md", 1_600),
    ("docs/selftest.md", 300),
    ("docs/several-clients.md", 1_350),
    ("docs/simulated-devices.md", 550),
    ("docs/spec.md", 2_550),
    ("docs/when-numbers-differ.md", 350),
];
/// Most words of each page that a command writes.
const GENERATED_WORDS_MAX: &[(&str, usize)] = &[
    ("docs/exam.md", 800),
    ("docs/formats.md", 11_500),
    ("docs/kernels.md", 350),
    ("docs/limiters.md", 1_500),
    ("docs/remarks.md", 1_500),
];

/// A page that grows needs a new budget here: a decision.
pub(super) fn budgets(tree: &Tree) -> Vec<String> {
    let pages = tree.with_extension("md").filter(|file| is_page(&file.path));
    let complaint = |(path, text): (&str, &str)| {
        let budget = WORDS_MAX.iter().chain(GENERATED_WORDS_MAX).find(|(page, _)| *page == path);
        let Some((_, most)) = budget else { return Some(format!("{path}: it has no budget of words")) };
        let words = text.split_whitespace().count();
        (words > *most).then(|| format!("{path}: {words} words, at most {most}"))
    };
    pages.filter_map(|file| complaint((&file.path, &file.text))).collect()
}

fn is_page(path: &str) -> bool {
    let pages = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    path.starts_with("docs/") || pages.contains(&path)
}

/// Samples of output in pages are parts of snapshots. A line `…` stands for lines that the page leaves out, and a line that
/// begins with `$` is the command.
pub(super) fn samples(tree: &Tree) -> Vec<String> {
    let snapshots: Vec<Vec<_>> =
        tree.snapshots.iter().map(|file| file.text.lines().map(sample_line).collect()).collect();
    let mut complaints = Vec::new();
    for file in tree.with_extension("md").filter(|file| is_page(&file.path)) {
        let blocks = file.text.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next());
        for block in blocks {
            let lines = block.lines().filter(|line| !line.trim().starts_with('$')).map(sample_line);
            let lines: Vec<_> = lines.collect();
            let parts: Vec<_> = lines.split(|line| line == "…").filter(|part| !part.is_empty()).collect();
            if !snapshots.iter().any(|snapshot| has_parts(snapshot, &parts)) {
                let first = lines.first().map_or("", String::as_str);
                complaints
                    .push(format!("{}: no snapshot has the sample that begins with `{first}`", file.path));
            }
        }
    }
    complaints
}

/// A line as pages and snapshots are compared. A page has the version of this tree, and a run of a snapshot any version.
fn sample_line(line: &str) -> String {
    release::without_version(line.trim())
}

/// Returns true if a snapshot has all parts, each in consecutive lines, in this order.
fn has_parts(snapshot: &[String], parts: &[&[String]]) -> bool {
    let mut rest = snapshot;
    parts.iter().all(|part| {
        let Some(at) = rest.windows(part.len()).position(|lines| lines == *part) else { return false };
        rest = &rest[at + part.len()..];
        true
    })
}

/// Links to files and headings of this tree lead somewhere.
pub(super) fn links(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.with_extension("md").filter(|file| is_page(&file.path)) {
        for link in links_of(&file.text) {
            let (path, anchor) =
                link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
            let target = match path {
                "" => file.path.clone(),
                path => joined(&file.path, path),
            };
            let has_it = match tree.get(&target) {
                Some(found) => anchor.is_none_or(|anchor| anchors(&found.text).contains(anchor)),
                // Directories, and files without a text of this tree.
                None => anchor.is_none() && Path::new(&target).extension().is_none(),
            };
            if !has_it {
                complaints.push(format!("{}: nothing is at `{link}`", file.path));
            }
        }
    }
    complaints
}

/// Returns the targets of links, without those on the web.
fn links_of(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// Returns a path that is relative to a page, from the root of the tree.
fn joined(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.extend(name.to_str()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Returns the anchors of headings, as a forge makes them: lower case, blanks as dashes, no other punctuation.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let headings = text.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && line.starts_with('#')
    });
    let anchor = |line: &str| {
        let letters = line.trim_start_matches('#').trim().to_lowercase();
        let kept = letters.chars().filter(|letter| letter.is_alphanumeric() || "-_ ".contains(*letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{NONE, tree};
    use super::*;

    #[test]
    fn long_page_and_page_without_budget_are_found() {
        let words = |count: usize| "word ".repeat(count);
        assert_eq!(budgets(&tree(&[("README.md", &words(1300)), ("xtask/lab/x.md", "word")])), NONE);
        assert_eq!(budgets(&tree(&[("README.md", &words(1301)), ("docs/new.md", "word")])).len(), 2);
    }

    #[test]
    fn sample_without_its_snapshot_is_found() {
        let of = |lines: &str| {
            let mut tree = tree(&[("docs/a.md", &format!("```text\n$ skye\n{lines}\n```\n"))]);
            let snapshot = super::super::tree(&[("x.snap", "one\n  two\nthree\nfour\nskye 1.0.0 · x")]);
            tree.snapshots = snapshot.files;
            samples(&tree)
        };
        for known in ["  one\n  two", "skye 2.0.0 · x", "one\n…\nthree", "…\nthree\nfour"] {
            assert_eq!(of(known), NONE, "{known}");
        }
        for unknown in ["one\nthree", "two\n…\none", "five"] {
            assert_eq!(of(unknown).len(), 1, "{unknown}");
        }
    }

    #[test]
    fn dead_links_are_found() {
        let page =
            "[a](b.md) [a](b.md#two-words) [a](#own) [a](../README.md) [w](https://example.org/x)\n# Own";
        let other = ("docs/b.md", "## Two `words`");
        let readme = ("README.md", "[d](docs)");
        assert_eq!(links(&tree(&[("docs/a.md", page), other, readme])), NONE);
        let page = "[a](c.md) [a](b.md#three) [a](#other)\n```\n# other\n```";
        assert_eq!(links(&tree(&[("docs/a.md", page), other])).len(), 3);
    }
}
