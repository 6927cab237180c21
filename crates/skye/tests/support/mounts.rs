//! File systems made for one test: on a loop device, on a compressed one, or in memory.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xtask::undo::unmount;
use xtask::zram::Zram;

use super::{PREFIX, scratch};

/// A directory on which something is mounted; dropped, it is unmounted and removed.
pub struct MountPoint {
    directory: TempDir,
}

impl MountPoint {
    /// Mounts as `mount` does.
    pub fn mount(file_system: &str, source: &str, options: &str) -> Self {
        // Below the root file system: a mount on a tmpfs that is itself unmounted by then would be in the way.
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a mount point");
        let mut mount = Command::new("mount");
        mount.args(["-t", file_system]);
        if !options.is_empty() {
            mount.args(["-o", options]);
        }
        run(mount.arg(source).arg(directory.path()));
        Self { directory }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        unmount(self.directory.path());
    }
}

/// A tmpfs of its own size.
pub struct Tmpfs {
    mount: MountPoint,
}

impl Tmpfs {
    /// Mounts one of `size` ("16m") with at most `inodes` files and directories, or the kernel's default of them.
    pub fn new(size: &str, inodes: Option<u64>) -> Self {
        let mut options = format!("size={size},mode=0755");
        if let Some(inodes) = inodes {
            options.push_str(&format!(",nr_inodes={inodes}"));
        }
        Self { mount: MountPoint::mount("tmpfs", &format!("{PREFIX}tmpfs"), &options) }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }
}

/// A file system on a loop device over a sparse file. Fields are dropped in their order: unmount, detach, delete.
pub struct LoopFs {
    mount: MountPoint,
    device: LoopDevice,
    directory: TempDir,
}

impl LoopFs {
    /// Makes and mounts one: `LoopFs::new("ext4", 64, &["-O", "^has_journal"], "noatime")`.
    pub fn new(file_system: &str, size_mib: u64, mkfs_options: &[&str], mount_options: &str) -> Self {
        let directory = scratch(size_mib << 20);
        let image = directory.path().join("image");
        let file = File::create_new(&image).expect("an image file");
        file.set_len(size_mib << 20).expect("room for the image");
        // On the file, not on the device: there is no waiting for device nodes and for whoever watches them.
        run(Command::new(format!("mkfs.{file_system}")).arg("-q").args(mkfs_options).arg(&image));
        let device = LoopDevice::attach(&image);
        let mount = MountPoint::mount(file_system, &device.path, mount_options);
        Self { mount, device, directory }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The device: "/dev/loop3".
    pub fn device(&self) -> &str {
        &self.device.path
    }

    /// The file under the device.
    pub fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }
}

struct LoopDevice {
    path: String,
}

impl LoopDevice {
    fn attach(image: &Path) -> Self {
        let path = run(Command::new("losetup").args(["--find", "--show"]).arg(image));
        Self { path: path.trim().to_owned() }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // A device that is still in use detaches itself when its last user goes.
        let _ = administer(&mut Command::new("losetup")).args(["--detach", &self.path]).status();
    }
}

/// A file system on a compressed memory device. Fields are dropped in their order: unmount, then remove.
pub struct ZramFs {
    mount: MountPoint,
    device: Zram,
}

impl ZramFs {
    /// Makes and mounts one.
    pub fn new(file_system: &str, size_mib: u64, mkfs_options: &[&str]) -> Self {
        let device = Zram::new(size_mib << 20).expect("a zram device");
        let path = device.path();
        run(Command::new(format!("mkfs.{file_system}")).arg("-q").args(mkfs_options).arg(&path));
        // What files held is still held when they are gone.
        let mount = MountPoint::mount(file_system, &path, "nodiscard");
        Self { mount, device }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }

    /// The device: "/dev/zram0".
    pub fn device(&self) -> String {
        self.device.path()
    }

    /// Bytes that the device was given and holds, and bytes that they take when they are compressed.
    pub fn bytes_held(&self) -> (u64, u64) {
        let path = self.device.attribute("mm_stat");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut figures = text.split_whitespace().map(|figure| figure.parse().expect("a number of bytes"));
        figures.next().zip(figures.next()).expect("two figures")
    }
}

/// Administrators' commands lie outside the search path of many users.
fn administer(command: &mut Command) -> &mut Command {
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C")
}

/// Runs a command that must succeed and returns what it printed.
pub fn run(command: &mut Command) -> String {
    let output = administer(command).output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {complaint}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
