//! Puts the full version into the program: release, commit, target and profile.
//!
//! Cargo runs this script again if a source of the program changed, which compiles the program in any case. A commit that
//! changes no source compiles nothing. So the commit is the one that was checked out when the sources were last compiled.
//! A `+` follows if the sources differed from it at that time, even if a later commit has the same sources.

// This is how a build script talks to cargo.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Sources of the program that the repository has once.
const SHARED: &[&str] = &["Cargo.toml", "Cargo.lock", "docs/formats.md", "docs/spec.md", "mixes", "presets"];
/// Sources of the program that each crate may have.
const OF_CRATES: &[&str] = &["Cargo.toml", "build.rs", "src", "templates"];
/// File in which a package of cargo has its commit.
const PACKAGED: &str = ".cargo_vcs_info.json";

fn main() {
    let variable = |name: &str| env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"));
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let root = manifest.join("../..");
    let (commit, sources) = match fs::read_to_string(manifest.join(PACKAGED)) {
        Ok(info) => (packaged_commit(&info), vec![manifest.join("src"), manifest.join(PACKAGED)]),
        Err(_) => {
            let sources = sources(&root);
            (git_commit(&root, &sources), sources)
        }
    };
    // A missing path would run this script each time.
    for source in sources.iter().filter(|source| source.exists()) {
        println!("cargo:rerun-if-changed={}", source.display());
    }
    let commit = commit.unwrap_or_else(|| "unknown".into());
    let profile = profile(Path::new(&variable("OUT_DIR")), &variable("PROFILE"));
    let (version, target) = (variable("CARGO_PKG_VERSION"), variable("TARGET"));
    println!("cargo:rustc-env=SKYE_BUILD={version} ({commit}, {target}, {profile})");
}

/// Returns the existing files and directories of the repository that the program is made of, without its tests.
fn sources(root: &Path) -> Vec<PathBuf> {
    let crates = fs::read_dir(root.join("crates")).into_iter().flatten().flatten();
    let mut crates: Vec<_> = crates.map(|entry| entry.path()).collect();
    crates.sort();
    let of_crates = crates.iter().flat_map(|one| OF_CRATES.iter().map(move |name| one.join(name)));
    SHARED.iter().map(|name| root.join(name)).chain(of_crates).filter(|path| path.exists()).collect()
}

/// Returns the commit of a repository, with a `+` if one of these paths differs from it; `None` if git does not tell.
fn git_commit(root: &Path, paths: &[PathBuf]) -> Option<String> {
    let git = |arguments: &[&str], paths: &[PathBuf]| {
        let mut command = Command::new("git");
        // A hook of git sets these for another command.
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        let output =
            command.arg("--no-optional-locks").args(arguments).args(paths).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // A copy of these sources in the repository of another project has no commit.
    git(&["ls-files", "--error-unmatch", "crates/skye/Cargo.toml"], &[])?;
    let commit = git(&["rev-parse", "--short=8", "HEAD"], &[])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=all", "--"], paths)?;
    Some(if changes.is_empty() { commit } else { format!("{commit}+") })
}

/// Returns the commit that cargo wrote into a package, with a `+` if the package had changes.
fn packaged_commit(info: &str) -> Option<String> {
    let value = |key: &str| Some(info.split_once(&format!("\"{key}\":"))?.1.trim_start());
    let commit: String = value("sha1")?.strip_prefix('"')?.chars().take(8).collect();
    let is_changed = value("dirty").is_some_and(|value| value.starts_with("true"));
    let is_commit = commit.len() == 8 && commit.chars().all(|digit| digit.is_ascii_hexdigit());
    is_commit.then(|| if is_changed { format!("{commit}+") } else { commit })
}

/// Returns the name of the profile. The variable of cargo has one of two names, and the path of the output has each.
fn profile(out: &Path, variable: &str) -> String {
    let build = out.ancestors().find(|path| path.file_name().is_some_and(|name| name == "build"));
    let directory = build.and_then(|build| build.parent()?.file_name()?.to_str()).unwrap_or(variable);
    // The directory of the profile `dev` has another name.
    if directory == "debug" { "dev" } else { directory }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with one commit of a program, and the paths of its sources.
    fn repository() -> (tempfile::TempDir, Vec<PathBuf>) {
        let root = tempfile::tempdir().unwrap();
        for file in ["Cargo.toml", "crates/skye/Cargo.toml", "crates/skye/src/main.rs", "docs/guide.md"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "one").unwrap();
        }
        git(root.path(), &["init", "--quiet"]);
        commit(root.path());
        let sources = sources(root.path());
        (root, sources)
    }

    fn git(root: &Path, arguments: &[&str]) -> String {
        let settings = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
        let output = Command::new("git").args(settings).args(arguments).current_dir(root).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Commits all files, and returns the name of the commit.
    fn commit(root: &Path) -> String {
        git(root, &["add", "--all"]);
        git(root, &["commit", "--quiet", "--allow-empty", "--message", "a change"]);
        git(root, &["rev-parse", "--short=8", "HEAD"]).trim().to_owned()
    }

    #[test]
    fn changed_source_adds_plus_to_commit() {
        let (root, sources) = repository();
        let found = || git_commit(root.path(), &sources);
        let first = commit(root.path());
        assert_eq!(found().as_ref(), Some(&first));
        fs::write(root.path().join("docs/guide.md"), "two").unwrap();
        assert_eq!(found().as_ref(), Some(&first), "a page is no source");
        fs::write(root.path().join("crates/skye/src/new.rs"), "two").unwrap();
        assert_eq!(found(), Some(format!("{first}+")));
        let second = commit(root.path());
        assert_ne!(first, second);
        assert_eq!(found(), Some(second));
    }

    #[test]
    fn foreign_repository_has_no_commit() {
        let (root, _) = repository();
        let copy = root.path().join("target/copy");
        fs::create_dir_all(copy.join("crates/skye")).unwrap();
        fs::write(copy.join("crates/skye/Cargo.toml"), "one").unwrap();
        assert_eq!(git_commit(&copy, &sources(&copy)), None);
        assert_eq!(git_commit(Path::new("/proc"), &[]), None);
    }

    #[test]
    fn package_has_commit_of_its_archive() {
        let info =
            r#"{"git": {"sha1": "7c69668c80dab71208d4d368b4bc755dcd5a487c"}, "path_in_vcs": "crates/skye"}"#;
        assert_eq!(packaged_commit(info).as_deref(), Some("7c69668c"));
        let dirty = info.replace("487c\"", "487c\",\n \"dirty\": true");
        assert_eq!(packaged_commit(&dirty).as_deref(), Some("7c69668c+"));
        for broken in ["", "{}", r#"{"git":{"sha1":""}}"#, r#"{"git":{"sha1":"HEAD, x y"}}"#] {
            assert_eq!(packaged_commit(broken), None, "{broken}");
        }
    }

    #[test]
    fn profile_comes_from_output_path() {
        let of = |path: &str| profile(Path::new(path), "release");
        assert_eq!(of("/build/x/target/dist/build/skye-1f/out"), "dist");
        assert_eq!(of("/target/x86_64-unknown-linux-musl/debug/build/skye-1f/out"), "dev");
        assert_eq!(of("/target/release/build/skye/1f/out"), "release");
        assert_eq!(of("/elsewhere/out"), "release");
    }

    #[test]
    fn every_file_in_the_program_is_a_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let sources = sources(&root);
        let has = |file: &str| sources.iter().any(|source| root.join(file).starts_with(source));
        for file in ["crates/engine/src/sync.rs", "crates/report/templates/page.css", "presets/quick.toml"] {
            assert!(has(file), "{file}");
        }
        assert!(!has("crates/skye/tests/e2e/main.rs") && !has(".git/HEAD"));
    }
}
