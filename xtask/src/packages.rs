//! System packages that the tests use: those that are missing, and their installation.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Program that says which services may start (invoke-rc.d(8)).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// A package of Debian and its kin, and the command that shows its presence.
#[derive(Debug)]
pub struct Package {
    /// Name for apt-get.
    pub name: &'static str,
    /// A command that the package brings.
    pub command: &'static str,
    /// Purpose of the package in the tests.
    pub purpose: &'static str,
    /// A service that starts when the package is installed, for everybody who can reach the machine.
    pub service: Option<&'static str>,
}

impl Package {
    const fn new(name: &'static str, command: &'static str, purpose: &'static str) -> Self {
        Self { name, command, purpose, service: None }
    }
}

/// All packages; a new one is one line here.
pub const PACKAGES: &[Package] = &[
    Package::new("bindfs", "bindfs", "a daemon over a file system"),
    Package::new("bonnie++", "bonnie++", "comparing with the original bonnie++"),
    Package::new("btrfs-progs", "mkfs.btrfs", "making btrfs on loop devices"),
    Package::new("busybox", "busybox", "a host with the shell of small systems"),
    Package::new("chromium", "chromium", "rendering pages"),
    Package::new("e2fsprogs", "mkfs.ext4", "making ext4 on loop devices"),
    Package::new("fdisk", "sfdisk", "partition tables in images"),
    Package::new("fio", "fio", "comparing the system calls of the same workload"),
    Package::new("fuse3", "fusermount3", "mounting a network file system"),
    Package::new("gocryptfs", "gocryptfs", "a daemon that encrypts"),
    Package::new("iproute2", "tc", "networks with a known rate"),
    Package::new("mount", "losetup", "loop devices, mounting"),
    Package::new("mpich", "mpirun.mpich", "MPI jobs, with one family of libraries"),
    Package::new("openmpi-bin", "mpirun.openmpi", "MPI jobs, with the other"),
    Package::new("openssh-client", "ssh", "reaching the server of a network file system"),
    Package {
        service: Some("ssh"),
        ..Package::new("openssh-server", "sshd", "the server of a network file system, in a namespace")
    },
    Package::new("qemu-system-x86", "qemu-system-x86_64", "guests with other kernels"),
    Package::new("sshfs", "sshfs", "mounting a network file system"),
    Package::new("strace", "strace", "counting system calls"),
    Package::new("tmux", "tmux", "a terminal that reflows its lines"),
    Package::new("util-linux", "chrt", "servers with real-time priority"),
    Package::new("valgrind", "valgrind", "counting instructions of the measuring loops"),
    Package::new("xz-utils", "xz", "unpacking kernel modules"),
    Package::new("xfsprogs", "mkfs.xfs", "making xfs on loop devices"),
];

/// Packages whose command is not found.
pub fn lacking() -> Vec<&'static Package> {
    PACKAGES.iter().filter(|package| !is_installed(package.command)).collect()
}

/// True if a command is found where this user or an administrator would look.
pub fn is_installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    directories.any(|directory| directory.join(command).exists())
}

/// Reports missing packages and, if asked, installs them. If that fails, the tests concerned are skipped.
pub fn provide(install: bool) {
    let lacking = lacking();
    if lacking.is_empty() {
        return;
    }
    println!("missing system packages:");
    for package in &lacking {
        println!("  {:<14} {} ({})", package.name, package.purpose, package.command);
    }
    let (quiet, loud) = without_services(lacking, install);
    for package in &loud {
        println!("{} would start a server for all users here: install it yourself", package.name);
    }
    let names: Vec<_> = quiet.iter().map(|package| package.name).collect();
    if names.is_empty() {
        return;
    }
    println!("to install them: apt-get install -y --no-install-recommends {}", names.join(" "));
    if !install {
        println!("(or `cargo xtask test --install`); tests that need them are skipped");
        return;
    }
    let policy = Policy::forbid_services(Path::new(POLICY));
    if let Err(reason) = apt_install(&names) {
        println!("they were not installed: {reason}; tests that need them are skipped");
    }
    drop(policy);
    for service in quiet.iter().filter_map(|package| package.service) {
        // It would start with the machine. A container or a system without systemd has no such program.
        let mut command = Command::new("systemctl");
        command.args(["disable", "--quiet"]).args([service, &format!("{service}.socket")]);
        let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

/// Separates packages whose service would start for everybody who can reach the machine. A policy that is there decides
/// that; where there is none, skye brings one for the installation.
fn without_services(lacking: Vec<&Package>, install: bool) -> (Vec<&Package>, Vec<&Package>) {
    let has_no_policy = install && !Path::new(POLICY).exists();
    lacking.into_iter().partition(|package| has_no_policy || !package.service.is_some_and(starts))
}

/// A program that forbids services to start while packages are installed (invoke-rc.d(8)). It goes when this is dropped.
struct Policy(PathBuf);

impl Policy {
    /// Makes it; `None` where one is there already, which stays as it is, or where it cannot be made.
    fn forbid_services(path: &Path) -> Option<Self> {
        let mut file = File::options().write(true).create_new(true).mode(0o755).open(path).ok()?;
        let policy = Self(path.to_owned());
        file.write_all(b"#!/bin/sh\nexit 101\n").ok()?;
        Some(policy)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// True if a service starts when its package is installed. The machine's policy may forbid that, as in containers.
fn starts(service: &str) -> bool {
    let mut policy = Command::new(POLICY);
    policy.args([service, "start"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // 101 is "forbidden".
    policy.status().map_or(true, |status| status.code() != Some(101))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_forbidden_only_without_a_policy() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("policy-rc.d");
        let made = Policy::forbid_services(&path).unwrap();
        assert_eq!(Command::new(&path).args(["ssh", "start"]).status().unwrap().code(), Some(101));
        assert!(Policy::forbid_services(&path).is_none());
        assert!(path.exists(), "it is not removed by another one");
        drop(made);
        assert!(!path.exists());
    }
}
