//! The tools that build packages, at fixed versions, in a separate directory below the target directory.

use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};

/// Programs of crates.
const CRATES: &[(&str, &str)] = &[
    ("cargo-zigbuild", "0.24.1"),
    ("cargo-auditable", "0.7.7"),
    ("cargo-generate-rpm", "0.21.1"),
    ("cargo-deb", "3.8.0"),
];
/// Python's packages: Zig links for older versions of glibc and for other processors.
const WHEELS: &str = "ziglang==0.15.2 zstandard==0.25.0";
/// Most effort that still takes seconds. Higher levels need more memory to unpack.
const ZSTD_LEVEL: u32 = 19;

/// Installed tools.
#[derive(Debug)]
pub(super) struct Tools {
    directory: PathBuf,
}

impl Tools {
    /// Installs the tools that are missing.
    ///
    /// # Errors
    /// A registry does not answer, or a tool cannot be built.
    pub fn install(target: &Path) -> Result<Self> {
        let tools = Self { directory: target.join("dist-tools") };
        fs::create_dir_all(tools.directory.join("bin")).context("make the directory of tools")?;
        tools.install_crates()?;
        tools.install_wheels()?;
        Ok(tools)
    }

    fn install_crates(&self) -> Result<()> {
        let installed = fs::read_to_string(self.directory.join(".crates.toml")).unwrap_or_default();
        for (name, version) in CRATES {
            if installed.contains(&format!("\"{name} {version} (")) {
                continue;
            }
            eprintln!("dist: installs {name} {version}");
            let mut command = clean_cargo();
            command.args(["install", "--quiet", "--locked", "--force", "--root"]).arg(&self.directory);
            command.arg(format!("{name}@{version}"));
            command.env("CARGO_TARGET_DIR", self.directory.join("build"));
            // They run for seconds, so their own build should not take minutes.
            command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0").env("CARGO_PROFILE_RELEASE_LTO", "off");
            command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            run(&mut command)?;
        }
        let build = self.directory.join("build");
        if build.exists() {
            fs::remove_dir_all(&build).with_context(|| format!("remove {}", build.display()))?;
        }
        Ok(())
    }

    fn install_wheels(&self) -> Result<()> {
        let versions = self.directory.join("python/versions");
        if fs::read_to_string(&versions).is_ok_and(|text| text == WHEELS) {
            return Ok(());
        }
        eprintln!("dist: installs {WHEELS}");
        let python = self.directory.join("python");
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&python))?;
        let mut pip = Command::new(self.python());
        run(pip.args(["-m", "pip", "install", "--quiet", "--no-cache-dir"]).args(WHEELS.split(' ')))?;
        let find = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
        let zig = output(Command::new(self.python()).args(["-c", find]))?;
        let link = self.directory.join("bin/zig");
        let _ = fs::remove_file(&link);
        symlink(zig.trim(), &link).context("link zig")?;
        fs::write(&versions, WHEELS).context("write the versions of Python's packages")
    }

    fn python(&self) -> PathBuf {
        self.directory.join("python/bin/python")
    }

    /// Returns a command of cargo that finds the tools. Their caches are below their directory, too.
    pub fn cargo(&self) -> Command {
        let mut command = clean_cargo();
        let path = env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(self.directory.join("bin")).chain(env::split_paths(&path));
        command.env("PATH", env::join_paths(all).unwrap_or(path));
        let cache = |name: &str| self.directory.join("cache").join(name);
        command.env("ZIG_GLOBAL_CACHE_DIR", cache("zig")).env("ZIG_LOCAL_CACHE_DIR", cache("zig-local"));
        command.env("CARGO_ZIGBUILD_CACHE_DIR", cache("zigbuild"));
        command
    }

    /// Compresses bytes by Zstandard.
    pub fn zstd(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let compress =
            format!("zstandard.ZstdCompressor(level={ZSTD_LEVEL}, write_checksum=True).compress(data)");
        self.transform(&compress, bytes)
    }

    /// Restores bytes that Zstandard has compressed.
    pub fn unzstd(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        self.transform("zstandard.ZstdDecompressor().decompress(data)", bytes)
    }

    fn transform(&self, expression: &str, bytes: &[u8]) -> Result<Vec<u8>> {
        let files = tempfile::tempdir().context("make a temporary directory")?;
        let (from, to) = (files.path().join("from"), files.path().join("to"));
        fs::write(&from, bytes).context("write a temporary file")?;
        let program = format!(
            "import sys, zstandard\ndata = open(sys.argv[1], 'rb').read()\nopen(sys.argv[2], 'wb').write({expression})"
        );
        run(Command::new(self.python()).args(["-c", &program]).arg(from).arg(&to))?;
        fs::read(to).context("read a temporary file")
    }

    /// Directory of roots that were made once.
    pub fn roots(&self) -> PathBuf {
        self.directory.join("roots")
    }
}

/// Returns true if Rust's standard library is there for this target. Rustup adds a missing one.
pub(super) fn has_std(triple: &str) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]);
    let is_there = || {
        let output = output(&mut rustc);
        output.is_ok_and(|path| Path::new(path.trim()).exists())
    };
    let mut is_there = is_there;
    is_there() || {
        eprintln!("dist: adds the target {triple} to the toolchain, by rustup");
        let added = Command::new("rustup").args(["target", "add", triple]).status();
        added.is_ok_and(|status| status.success()) && is_there()
    }
}

/// Returns a command of cargo on which no setting of the caller for another build has an effect.
fn clean_cargo() -> Command {
    let mut command = Command::new(crate::cargo());
    let is_setting = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_BUILD_")
            || name.starts_with("CARGO_ENCODED_")
            || name.starts_with("RUSTC")
            || ["RUSTFLAGS", "CARGO_TARGET_DIR", "CARGO_INCREMENTAL"].contains(&name.as_ref())
    };
    for (name, _) in env::vars_os().filter(|(name, _)| is_setting(name)) {
        command.env_remove(name);
    }
    command
}

/// Runs a command, whose output is the caller's.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// Runs a command, and returns its stdout.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {errors}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
