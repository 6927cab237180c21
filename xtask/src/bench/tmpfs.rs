//! A file system in memory for one benchmark.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::program;

/// A tmpfs without a limit of inodes. By default there is one for every two pages of memory, which may be too few.
pub(super) struct Tmpfs {
    directory: tempfile::TempDir,
    is_mounted: bool,
}

impl Tmpfs {
    /// Mounts the file system; only root may.
    pub(super) fn mount() -> Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("skye-bench.").tempdir().context("create a directory")?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "nr_inodes=0,mode=0700", "skye-bench"]).arg(directory.path());
        let status = mount.status().context("run mount")?;
        ensure!(status.success(), "mount tmpfs: {status}; run this benchmark as root");
        Ok(Self { directory, is_mounted: true })
    }

    /// Mounts the file system, or makes a directory in the one that is there, for users who may not mount.
    pub(super) fn mount_or_share() -> Result<Self> {
        let share = |_| Ok(Self { directory: program::scratch_in_memory()?, is_mounted: false });
        Self::mount().or_else(share)
    }

    /// Returns the directory.
    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        if self.is_mounted {
            // A lazy unmount works even if a program that failed still holds a file of it.
            let _ = Command::new("umount").arg("--lazy").arg(self.path()).status();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmpfs_is_unmounted_on_drop() {
        crate::require!(tmpfs);
        let tmpfs = Tmpfs::mount().unwrap();
        let path = tmpfs.path().to_owned();
        let mounted =
            || std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(path.to_str().unwrap());
        assert!(mounted());
        drop(tmpfs);
        assert!(!mounted());
        assert!(!path.exists());
    }
}
