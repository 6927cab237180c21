//! Supplies of the lab: kernels and programs from packages of Debian, unpacked below the target directory. Nothing is
//! installed, and nothing outside that directory changes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Packages whose programs a guest uses. Where this machine has one already, the guest uses that.
const PROGRAMS: &[&str] = &[
    "bcache-tools",
    "btrfs-progs",
    "busybox-static",
    "cryptsetup-bin",
    "dmsetup",
    "e2fsprogs",
    "f2fs-tools",
    "iproute2",
    "kmod",
    "lvm2",
    "mdadm",
    "nfs-common",
    "nfs-kernel-server",
    "nilfs-tools",
    "strace",
    "thin-provisioning-tools",
    "xfsprogs",
];
/// File of a directory that lists the packages whose contents it has.
const LIST: &str = "packages";
/// Modules with which a guest reaches the files of this machine.
const BOOT_MODULES: &[&str] = &["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// First program of a guest. The kernel hands over `layers`, the tags of the directories that make its root directory.
const INIT: &str = r#"#!/bin/busybox sh
b=/bin/busybox
options=trans=virtio,version=9p2000.L,msize=262144
$b mkdir -p /proc /rw /root
$b mount -t proc proc /proc
while read -r module; do $b insmod "/modules/$module"; done < /modules/order
for layer in $layers; do
    $b mkdir -p /layers/$layer
    $b mount -t 9p -o $options,cache=loose,ro $layer /layers/$layer
    lower=$lower${lower:+:}/layers/$layer
done
$b mount -t tmpfs rw /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o "lowerdir=$lower,upperdir=/rw/upper,workdir=/rw/work" overlay /root
$b mkdir -p /root/lab
$b mount -t 9p -o $options,cache=none lab /root/lab
exec $b switch_root /root /bin/sh /lab/main
"#;

/// A kernel that guests can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel {
    /// Its version, as in options and output, or `newest`.
    pub version: &'static str,
    /// Package that depends on the newest build of this version.
    package: &'static str,
    /// Release of Debian that has the package, if this machine's release lacks it.
    release: Option<&'static str>,
}

/// All kernels; the first is the usual one.
pub const KERNELS: &[Kernel] = &[
    Kernel { version: "6.1", package: "linux-image-amd64", release: None },
    Kernel { version: "6.12", package: "linux-image-6.12-amd64", release: None },
    Kernel { version: "5.10", package: "linux-image-amd64", release: Some("bullseye") },
    // The next release of Debian gets a new version every few weeks.
    Kernel { version: "newest", package: "linux-image-amd64", release: Some("forky") },
];

/// Everything that a guest of one kernel boots from.
#[derive(Debug)]
pub struct Supplies {
    /// Image of the kernel.
    pub kernel: PathBuf,
    /// First file system of the guest, in memory.
    pub initramfs: PathBuf,
    /// Directories that the guest sees above the files of this machine, topmost first.
    pub layers: Vec<PathBuf>,
}

impl Supplies {
    /// Fetches and unpacks what is not there yet.
    ///
    /// # Errors
    /// A package cannot be fetched or unpacked.
    pub fn load(kernel: &Kernel) -> Result<Self> {
        let home = super::directory();
        let programs = home.join("programs");
        provide(&programs, PROGRAMS, |packages| Apt::default().fetch(packages, PROGRAMS))?;
        let tree = home.join(format!("kernel-{}", kernel.version));
        provide(&tree, &[kernel.package], |packages| {
            let apt = kernel.release.map_or(Ok(Apt::default()), |release| Apt::load(release, packages))?;
            let parts = apt.parts(kernel.package)?;
            let words = ["download"].into_iter().chain(parts.iter().map(String::as_str));
            apt.get(packages, &words.collect::<Vec<_>>())
        })?;
        let modules = only(&tree.join("lib/modules"), "")?;
        let version = modules.file_name().and_then(OsStr::to_str).unwrap_or_default();
        // From release 14 of Debian on, the image is among the modules.
        let places = [tree.join("boot").join(format!("vmlinuz-{version}")), modules.join("vmlinuz")];
        let image = places.into_iter().find(|place| place.exists());
        let image = image.with_context(|| format!("{} has no image of {version}", tree.display()))?;
        let initramfs = tree.join("initramfs");
        // The first program is as old as the initramfs that holds it.
        let packed = tree.join("init");
        if fs::read_to_string(&packed).ok().as_deref() != Some(INIT) {
            index(&programs, &tree, &modules)?;
            pack(&programs, &modules, &initramfs)?;
            fs::write(&packed, INIT)?;
        }
        Ok(Self { kernel: image, initramfs, layers: vec![tree, programs] })
    }

    /// Adds the programs of packages that only some cases need.
    ///
    /// # Errors
    /// A package cannot be fetched or unpacked.
    pub fn add(&mut self, names: &[&str]) -> Result<()> {
        for name in names {
            let tree = super::directory().join(format!("programs-{name}"));
            provide(&tree, &[name], |packages| Apt::default().fetch(packages, &[name]))?;
            self.layers.push(tree);
        }
        Ok(())
    }
}

/// Returns a program of a package, unpacked below the target directory.
///
/// # Errors
/// The package cannot be fetched or unpacked.
pub fn program(package: &str, path: &str) -> Result<PathBuf> {
    let tree = super::directory().join(format!("programs-{package}"));
    provide(&tree, &[package], |packages| Apt::default().get(packages, &["download", package]))?;
    Ok(tree.join(path))
}

/// Makes a directory with the contents of packages, unless it is there. `fetch` downloads them into a directory.
fn provide(tree: &Path, names: &[&str], fetch: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let list = names.join("\n");
    if fs::read_to_string(tree.join(LIST)).is_ok_and(|known| known == list) {
        return Ok(());
    }
    if tree.exists() {
        fs::remove_dir_all(tree).with_context(|| format!("remove {}", tree.display()))?;
    }
    // An incomplete tree never gets its final name.
    let partial = super::scratch()?;
    let packages = partial.path().join("packages");
    let root = partial.path().join("root");
    fs::create_dir_all(packages.join("partial"))?;
    // Debian's own layout: packages still name the old directories.
    for name in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(name))?;
        symlink(Path::new("usr").join(name), root.join(name))?;
    }
    fetch(&packages)?;
    for entry in fs::read_dir(&packages)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("deb")) {
            unpack(&path, &root)?;
        }
    }
    fs::write(root.join(LIST), list)?;
    fs::rename(&root, tree).with_context(|| format!("rename {} to {}", root.display(), tree.display()))
}

fn unpack(package: &Path, root: &Path) -> Result<()> {
    let mut archive = Command::new("dpkg-deb");
    archive.arg("--fsys-tarfile").arg(package).stdout(Stdio::piped());
    let mut archive = archive.spawn().context("run dpkg-deb")?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--keep-directory-symlink", "--no-same-owner", "--directory"]).arg(root);
    tar.stdin(archive.stdout.take().context("dpkg-deb has no output")?);
    let unpacked = run(&mut tar);
    ensure!(archive.wait()?.success(), "dpkg-deb cannot read {}", package.display());
    unpacked.map(drop)
}

/// Commands of apt, with this machine's sources or others.
#[derive(Debug, Default)]
struct Apt {
    /// Options that name the other sources; none for this machine's own.
    sources: Vec<String>,
}

impl Apt {
    /// Returns commands for another release of Debian, from the server of this machine's own. Writes only into that
    /// directory.
    fn load(release: &str, directory: &Path) -> Result<Self> {
        let targets = ["indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Component: main"];
        let output = run(Command::new("apt-get").args(targets))?;
        let server = output.lines().next().context("apt has no source of Debian: run `apt-get update`")?;
        let (list, index) = (directory.join("sources.list"), directory.join("index"));
        fs::create_dir_all(index.join("partial"))?;
        // The index of an old release is no longer renewed, but still signed.
        fs::write(&list, format!("deb [check-valid-until=no] {server} {release} main\n"))?;
        let options = [
            format!("Dir::Etc::sourcelist={}", list.display()),
            "Dir::Etc::sourceparts=-".into(),
            format!("Dir::State::lists={}", index.display()),
            // Without this, apt would keep an index of it among this machine's own.
            format!("Dir::Cache::pkgcache={}", directory.join("pkgcache").display()),
            format!("Dir::Cache::srcpkgcache={}", directory.join("srcpkgcache").display()),
        ];
        let apt = Self { sources: options.into() };
        apt.get(directory, &["update"])?;
        Ok(apt)
    }

    /// Runs apt-get so that it writes packages only into that directory.
    fn get(&self, packages: &Path, words: &[&str]) -> Result<()> {
        let archives = format!("Dir::Cache::archives={}", packages.display());
        let mut command = self.command("apt-get");
        command.args([
            "--quiet",
            "-o",
            &archives,
            "-o",
            "Debug::NoLocking=1",
            "-o",
            "APT::Sandbox::User=root",
        ]);
        run(command.args(words).current_dir(packages)).map(drop)
    }

    /// Fetches packages, and those that they need and this machine has not.
    fn fetch(&self, packages: &Path, names: &[&str]) -> Result<()> {
        let fetched = ["install", "--yes", "--download-only", "--no-install-recommends"];
        self.get(packages, &[&fetched[..], names].concat())
    }

    /// Names of the packages with image and modules of the kernel that a package without contents stands for. Debian has
    /// both in one package up to release 13.
    fn parts(&self, package: &str) -> Result<Vec<String>> {
        let needs = |package: &str, prefixes: &[&str]| -> Result<Vec<String>> {
            let output = run(self.command("apt-cache").args(["depends", package]))?;
            let names = output.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
            let is_part = |name: &&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
            Ok(names.filter(is_part).map(str::to_owned).collect())
        };
        let images = needs(package, &["linux-image-"])?;
        let image = images.first();
        let image = image.with_context(|| format!("apt-cache has no {package}: run `apt-get update`"))?;
        let parts = needs(image, &["linux-binary-", "linux-modules-"])?;
        Ok(if parts.is_empty() { vec![image.clone()] } else { parts })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.sources.iter().flat_map(|option| ["-o", option]));
        command
    }
}

fn only(directory: &Path, prefix: &str) -> Result<PathBuf> {
    for entry in fs::read_dir(directory).with_context(|| format!("read {}", directory.display()))? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            return Ok(entry.path());
        }
    }
    bail!("{} has no {prefix}…", directory.display())
}

/// Writes the index of modules that `modprobe` reads.
fn index(programs: &Path, tree: &Path, modules: &Path) -> Result<()> {
    let release = modules.file_name().context("modules have a release")?;
    let mut depmod = Command::new(programs.join("usr/bin/kmod"));
    depmod.arg0("depmod").arg("-b").arg(tree).arg(release);
    run(&mut depmod).map(drop)
}

/// Writes the first file system of a guest: busybox and the modules with which it mounts its root directory.
fn pack(programs: &Path, modules: &Path, initramfs: &Path) -> Result<()> {
    let home = super::scratch()?;
    let inside = |path: &str| home.path().join(path);
    fs::create_dir_all(inside("bin"))?;
    fs::create_dir_all(inside("modules"))?;
    let busybox = programs.join("usr/bin/busybox");
    fs::copy(&busybox, inside("bin/busybox"))?;
    let mut order = String::new();
    for path in in_order(&fs::read_to_string(modules.join("modules.dep"))?, BOOT_MODULES) {
        let (path, name) =
            (modules.join(&path), Path::new(&path).file_name().context("a module has a name")?);
        let name = name.to_string_lossy();
        let plain = name.trim_end_matches(".xz");
        match name.ends_with(".xz") {
            true => {
                fs::write(inside("modules").join(plain), output(Command::new("xz").arg("-dc").arg(&path))?)?
            }
            false => fs::copy(&path, inside("modules").join(plain)).map(drop)?,
        }
        order += &format!("{plain}\n");
    }
    fs::write(inside("modules/order"), order)?;
    fs::write(inside("init"), INIT)?;
    run(Command::new("chmod").arg("755").arg(inside("init")).arg(inside("bin/busybox")))?;
    let script = r#"cd "$1" && find . | "$2" cpio -o -H newc"#;
    let archive = output(Command::new("sh").args(["-c", script, "sh"]).arg(home.path()).arg(busybox))?;
    let partial = initramfs.with_extension("partial");
    fs::write(&partial, archive)?;
    fs::rename(&partial, initramfs).context("rename the initramfs")
}

/// Returns files of modules in an order in which they can be loaded. `dependencies` is the text of `modules.dep`. A
/// module without a file is part of the kernel.
fn in_order(dependencies: &str, names: &[&str]) -> Vec<String> {
    let mut order: Vec<String> = Vec::new();
    for name in names {
        let of = |line: &&str| {
            let file = line.split(':').next().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
            file.split(".ko").next() == Some(name)
        };
        let Some((module, needs)) = dependencies.lines().find(of).and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        // The file lists what must be loaded first at the end.
        for path in needs.split_whitespace().rev().chain([module]) {
            if !order.iter().any(|known| known == path) {
                order.push(path.to_owned());
            }
        }
    }
    order
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// It cannot be run, or fails; with its complaint.
pub fn run(command: &mut Command) -> Result<String> {
    Ok(String::from_utf8_lossy(&output(command)?).into_owned())
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    if command.get_current_dir().is_none() {
        command.current_dir("/");
    }
    let output = command.stderr(Stdio::piped()).output().with_context(|| format!("run {name}"))?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {}", output.status, complaint.trim());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_is_ordered_after_its_dependencies() {
        let dependencies = "kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko\n\
                            kernel/net/9p/9pnet.ko:\n\
                            kernel/fs/overlayfs/overlay.ko.xz:\n";
        let order = in_order(dependencies, &["9p", "9pnet", "built_in", "overlay"]);
        let names: Vec<_> = order.iter().filter_map(|path| path.rsplit('/').next()).collect();
        assert_eq!(names, ["netfs.ko", "9pnet.ko", "9p.ko", "overlay.ko.xz"]);
    }
}
