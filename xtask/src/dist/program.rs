//! The sources of a release, and the programs that are built from them, byte for byte the same in each directory.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

use super::elf::{self, Needs};
use super::tools::{self, Tools, output, run};

/// Oldest glibc that the dynamic program runs with: that of RHEL 8 and Debian 10.
pub(super) const GLIBC: (u32, u32) = (2, 28);

/// Processor of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    Aarch64,
}

impl Arch {
    /// Returns the name of Rust and of archives.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the name of Debian and of images.
    pub fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Returns the processor of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::X86_64, Self::Aarch64].into_iter().find(|arch| arch.as_str() == name)
    }

    /// Returns true if this machine runs programs for the processor.
    pub fn is_ours(self) -> bool {
        self.as_str() == env::consts::ARCH
    }
}

/// How a program has its C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    Dynamic,
    Static,
}

/// Sources that are built.
#[derive(Debug)]
pub(super) struct Source {
    root: PathBuf,
    /// Directory of the files that cargo builds.
    pub target: PathBuf,
    /// Version of skye.
    pub version: String,
    /// Commit of the sources.
    pub commit: String,
    /// Time of the commit in seconds since 1970.
    pub seconds: u64,
    /// Time of the commit, RFC 3339.
    pub created: String,
}

impl Source {
    /// Returns the sources of a working copy.
    ///
    /// # Errors
    /// Git does not know the directory.
    pub fn at(root: &Path, target: PathBuf) -> Result<Self> {
        let git = |words: &[&str]| -> Result<String> {
            let mut git = Command::new("git");
            Ok(output(git.args(words).current_dir(root).env("TZ", "UTC0"))?.trim().to_owned())
        };
        Ok(Self {
            root: root.to_owned(),
            target,
            // All crates of the workspace have one version.
            version: env!("CARGO_PKG_VERSION").into(),
            commit: git(&["rev-parse", "HEAD"])?,
            seconds: git(&["log", "-1", "--format=%ct"])?.parse().context("time of the commit")?,
            created: git(&["log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"])?,
        })
    }

    /// Copies the commit of these sources to another directory.
    ///
    /// # Errors
    /// The working copy has changes, or git fails.
    pub fn copy(&self, to: &Path) -> Result<Self> {
        let mut status = Command::new("git");
        let changes = output(status.args(["status", "--porcelain"]).current_dir(&self.root))?;
        ensure!(
            changes.is_empty(),
            "commit your changes first: two builds of different sources differ\n{changes}"
        );
        run(Command::new("git").args(["clone", "--quiet", "--no-hardlinks"]).arg(&self.root).arg(to))?;
        run(Command::new("git").args(["checkout", "--quiet", "--detach", &self.commit]).current_dir(to))?;
        Self::at(to, to.join("its-target"))
    }

    /// Returns the path of a file of the sources.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns a command of cargo for these sources.
    pub fn cargo(&self, tools: &Tools) -> Command {
        let mut command = tools.cargo();
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        command.env("SOURCE_DATE_EPOCH", self.seconds.to_string()).env("CARGO_INCREMENTAL", "0");
        command
    }

    /// Returns flags for the compiler. They replace those of `.cargo/config.toml`, and all paths of this machine. The last
    /// path that fits is used.
    fn flags(&self) -> Result<Vec<String>> {
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let cargo = env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
        let paths = [
            (cargo, "cargo"),
            (sysroot.trim().into(), "rust"),
            (self.root.clone(), "skye"),
            (self.target.clone(), "target"),
        ];
        let remapping =
            paths.map(|(from, to)| format!("--remap-path-prefix={}=/{to}", from.display())).into_iter();
        Ok(remapping.chain(["-Cforce-frame-pointers=yes".into()]).collect())
    }
}

/// A built program.
#[derive(Debug)]
pub(super) struct Program {
    /// Place of the program, in which no later build replaces it.
    pub path: PathBuf,
    /// Directory in which cargo built it.
    pub directory: PathBuf,
    /// Target of the compiler.
    pub triple: String,
    /// Crates in the dependency list inside; none in programs of developers.
    pub crates: Option<usize>,
    /// Needs of the program, in words.
    pub needs: String,
}

impl Source {
    /// Builds a package's program.
    ///
    /// # Errors
    /// The target is not available, the build fails, or the program needs more than it should.
    pub fn build(&self, tools: &Tools, package: &str, arch: Arch, linkage: Linkage) -> Result<Program> {
        let name = arch.as_str();
        let [gnu, musl] = ["gnu", "musl"].map(|library| format!("{name}-unknown-linux-{library}"));
        let mut flags = self.flags()?;
        // Zig links for an old glibc, and for musl without a C compiler. It has no static glibc.
        let (build, triple, target) = match linkage {
            Linkage::Dynamic => ("zigbuild", gnu.clone(), format!("{gnu}.{}.{}", GLIBC.0, GLIBC.1)),
            Linkage::Static if tools::has_std(&musl) => ("zigbuild", musl.clone(), musl),
            Linkage::Static => {
                ensure!(arch.is_ours(), "rustup does not have the target {musl}");
                eprintln!(
                    "dist: rustup does not have the target {musl}; the static program gets this machine's glibc"
                );
                flags.push("-Ctarget-feature=+crt-static".into());
                ("build", gnu.clone(), gnu)
            }
        };
        ensure!(tools::has_std(&triple), "rustup does not have the target {triple}");
        eprintln!("dist: builds {package} for {target}");
        let mut cargo = self.cargo(tools);
        cargo.args(["auditable", build, "--quiet", "--locked", "--profile", "dist", "--package", package]);
        cargo.args(["--target", &target]).env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
        run(&mut cargo)?;
        let directory = self.target.join(&triple).join("dist");
        let kept = self.target.join("dist-programs").join(format!("{name}-{linkage:?}").to_lowercase());
        fs::create_dir_all(&kept).context("make the directory of programs")?;
        let path = kept.join(package);
        fs::copy(directory.join(package), &path).with_context(|| format!("copy {package}"))?;
        let needs = verify(&path, linkage)?;
        let crates = if package == "skye" { Some(elf::audited_crates(&path)?) } else { None };
        Ok(Program { path, directory, triple, crates, needs })
    }
}

/// Checks what a program needs of a machine, and returns it in words.
fn verify(program: &Path, linkage: Linkage) -> Result<String> {
    let needs = Needs::read(program)?;
    let path = program.display();
    match (linkage, needs.glibc) {
        (Linkage::Static, _) => {
            let is_static = !needs.has_interpreter && needs.libraries.is_empty();
            ensure!(is_static, "{path} is not static: {needs:?}");
            Ok("no library".into())
        }
        (Linkage::Dynamic, Some(glibc)) => {
            ensure!(
                glibc <= GLIBC,
                "{path} needs glibc {}.{}, newer than {}.{}",
                glibc.0,
                glibc.1,
                GLIBC.0,
                GLIBC.1
            );
            Ok(format!("glibc {}.{}, {}", glibc.0, glibc.1, needs.libraries.join(", ")))
        }
        (Linkage::Dynamic, None) => anyhow::bail!("{path} uses no symbol of glibc: {needs:?}"),
    }
}
