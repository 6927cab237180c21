//! System packages that the tests use: which are lacking, and how they are installed.

use std::process::{Command, Stdio};

/// A package of Debian and its kin, and the command that shows that it is there.
#[derive(Debug)]
pub struct Package {
    /// Its name for apt-get.
    pub name: &'static str,
    /// A command that it brings.
    pub command: &'static str,
    /// What the tests do with it.
    pub purpose: &'static str,
}

/// Every package; one that tests begin to use is one line here.
pub const PACKAGES: &[Package] = &[
    Package { name: "btrfs-progs", command: "mkfs.btrfs", purpose: "making btrfs on loop devices" },
    Package { name: "e2fsprogs", command: "mkfs.ext4", purpose: "making ext4 on loop devices" },
    Package { name: "mount", command: "losetup", purpose: "loop devices, mounting" },
    Package { name: "util-linux", command: "chrt", purpose: "servers whose answers are not late" },
    Package {
        name: "valgrind",
        command: "valgrind",
        purpose: "counting instructions of the measuring loops",
    },
    Package { name: "xfsprogs", command: "mkfs.xfs", purpose: "making xfs on loop devices" },
];

/// Packages whose command is not found.
pub fn lacking() -> Vec<&'static Package> {
    PACKAGES.iter().filter(|package| !is_there(package.command)).collect()
}

/// Whether a command is found where this user or an administrator would look.
pub fn is_there(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.any(|directory| directory.join(command).exists())
}

/// Says what is lacking and, if asked, installs it. Without success the tests concerned are skipped.
pub fn provide(install: bool) {
    let lacking = lacking();
    if lacking.is_empty() {
        return;
    }
    let names: Vec<_> = lacking.iter().map(|package| package.name).collect();
    println!("lacking system packages:");
    for package in &lacking {
        println!("  {:<12} {} ({})", package.name, package.purpose, package.command);
    }
    println!("to install them: apt-get install -y --no-install-recommends {}", names.join(" "));
    if !install {
        println!("(or `cargo xtask test --install`); tests that need them are skipped");
        return;
    }
    if let Err(reason) = apt_install(&names) {
        println!("they were not installed: {reason}; tests that need them are skipped");
    }
}

fn apt_install(names: &[&str]) -> Result<(), String> {
    crate::capability::find("root").map_or(Ok(()), crate::capability::Capability::check)?;
    apt_get(&["update"])?;
    let options = ["install", "-y", "--no-install-recommends"];
    apt_get(&[&options[..], names].concat())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("apt-get {}: {status}", arguments.join(" "))),
        Err(error) => Err(format!("cannot run apt-get: {error}")),
    }
}
