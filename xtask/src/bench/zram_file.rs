//! A file on a block device in memory, which completes a call while it is submitted: only CPU time is left.
//!
//! It is a file because the program reads files. On a bare zram device, a ring does not make the calls itself. The
//! driver cannot refuse to wait, so each call goes to a thread of the kernel.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rig::{Zram, unmount};
use rustix::fs::{Mode, OFlags};
use tempfile::TempDir;

use super::program::file_of;

/// Space for the metadata of ext4, with a reserve.
const FILE_SYSTEM_BYTES: u64 = 64 << 20;

/// A file of incompressible bytes, on ext4 on a separate compressed memory device.
pub(super) struct ZramFile {
    mounted: TempDir,
    /// Dropped after the file system that is mounted from it.
    #[cfg_attr(not(test), expect(dead_code, reason = "it is held"))]
    device: Zram,
}

impl ZramFile {
    pub(super) fn new(size_bytes: u64) -> Result<Self> {
        let device = Zram::new(size_bytes + size_bytes / 16 + FILE_SYSTEM_BYTES);
        let device = device.context("make a zram device; run this benchmark as root, modprobe zram")?;
        let directory =
            tempfile::Builder::new().prefix("skye-bench.").tempdir().context("make a mount point")?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()))?;
        run(Command::new("mount").arg(device.path()).arg(directory.path()))?;
        let file = Self { mounted: directory, device };
        file_of(&file.path(), size_bytes)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.mounted.path().join("file")
    }

    /// Opens the file for direct I/O.
    pub(super) fn open(&self, access: OFlags) -> Result<Arc<[OwnedFd]>> {
        let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.path(), flags, Mode::empty()).context("open the file")?;
        Ok(Arc::new([file]))
    }
}

impl Drop for ZramFile {
    fn drop(&mut self) {
        unmount(self.mounted.path());
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zram_file_and_device_are_removed_after_panic() {
        crate::require!(zram, ext4);
        let paths = std::sync::Mutex::new(None);
        let panicked = std::panic::catch_unwind(|| {
            let file = ZramFile::new(4 << 20).unwrap();
            *paths.lock().unwrap() = Some((file.path(), PathBuf::from(file.device.path())));
            let bytes = std::fs::read(file.path()).unwrap();
            assert_eq!(bytes.len(), 4 << 20);
            assert!(bytes.chunks(4096).all(|block| block.iter().any(|byte| *byte != block[0])));
            file.open(OFlags::RDWR).unwrap();
            panic!("on purpose");
        });
        assert_eq!(*panicked.unwrap_err().downcast::<&str>().unwrap(), "on purpose");
        let (file, device) = paths.into_inner().unwrap().unwrap();
        assert!(
            device.to_str().unwrap().starts_with("/dev/zram") && !device.exists(),
            "{}",
            device.display()
        );
        assert!(!file.parent().unwrap().exists());
    }
}
