//! File systems made for one test: on a loop device, on a compressed one, or in memory. All of them are rigs in this
//! process, and go when they are dropped. `cargo xtask rigs --clean` removes those of a killed process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rig::{Disk, Journal, Spec, Zram};

/// A directory on which something is mounted.
pub struct MountPoint {
    path: PathBuf,
    /// Unmounts.
    _journal: Journal,
}

impl MountPoint {
    /// Mounts as `mount` does.
    pub fn mount(file_system: &str, source: &str, options: &str) -> Self {
        let mut journal = Journal::open().expect("a journal");
        let path = journal.mount(file_system, source, options).unwrap_or_else(|error| panic!("{error}"));
        Self { path, _journal: journal }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A mounted tmpfs.
pub struct Tmpfs {
    mount: MountPoint,
}

impl Tmpfs {
    /// Mounts a tmpfs of `size` ("16m") with at most `inodes` files and directories, or the kernel's default of them.
    pub fn new(size: &str, inodes: Option<u64>) -> Self {
        let mut options = format!("size={size},mode=0755");
        if let Some(inodes) = inodes {
            options.push_str(&format!(",nr_inodes={inodes}"));
        }
        Self { mount: MountPoint::mount("tmpfs", "skye-test", &options) }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }
}

/// A file system on a loop device over a sparse file.
pub struct LoopFs {
    disk: Disk,
    path: PathBuf,
    device: String,
}

impl LoopFs {
    /// Makes and mounts a file system: `LoopFs::new("ext4", 64, &["-O", "^has_journal"], "noatime")`.
    pub fn new(file_system: &str, size_mib: u64, mkfs_options: &[&str], mount_options: &str) -> Self {
        let spec = Spec::disk().file_system(file_system).size_mib(size_mib);
        let spec = spec.mkfs_options(mkfs_options.join(" ")).mount_options(mount_options);
        let disk = Disk::build(&spec).unwrap_or_else(|error| panic!("{error}"));
        let (path, device) = (disk.path(), disk.device().path().to_string_lossy().into_owned());
        Self { disk, path, device }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The device: "/dev/loop3".
    pub fn device(&self) -> &str {
        &self.device
    }

    /// The file under the device.
    pub fn image(&self) -> PathBuf {
        self.disk.image().to_owned()
    }
}

/// A file system on a compressed memory device. Fields are dropped in their order: unmount, then remove.
pub struct ZramFs {
    mount: MountPoint,
    device: Zram,
}

impl ZramFs {
    /// Makes and mounts a file system.
    pub fn new(file_system: &str, size_mib: u64, mkfs_options: &[&str]) -> Self {
        let device = Zram::new(size_mib << 20).expect("a zram device");
        let path = device.path();
        run(Command::new(format!("mkfs.{file_system}")).arg("-q").args(mkfs_options).arg(&path));
        // The device still holds the data of files that are gone.
        let mount = MountPoint::mount(file_system, &path, "nodiscard");
        Self { mount, device }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The device: "/dev/zram0".
    pub fn device(&self) -> String {
        self.device.path()
    }

    /// Returns the bytes that the device was given and holds, and the bytes that they take when compressed.
    pub fn bytes_held(&self) -> (u64, u64) {
        let path = self.device.attribute("mm_stat");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut figures = text.split_whitespace().map(|figure| figure.parse().expect("a number of bytes"));
        figures.next().zip(figures.next()).expect("two figures")
    }
}

/// Runs a command that must succeed and returns what it printed.
pub fn run(command: &mut Command) -> String {
    // Administrators' commands lie outside the search path of many users.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {complaint}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
