//! The rigs of one stack.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, ensure};
use model::run::DeviceFrame;
use observe::parse::{block_stat, mountinfo};
use rig::{RequestLog, Rig, Spec};
use rustix::fs::{major, minor};

use super::grammar::{Relief, Stack};

/// The rig that is measured, and what runs beside it.
pub(super) struct Rigs {
    server: Vec<OsString>,
    hogs: Option<Rig>,
    hog_count: Option<u32>,
    quota: Option<Rig>,
    neighbour: Option<Rig>,
    /// Bytes that the disk with this repository had read and written at the last look, if a cache above it may answer.
    disk_bytes: Option<[u64; 2]>,
    /// The last to go: the others may use it.
    place: Rig,
}

impl Rigs {
    /// Builds a stack. `server` is the command line of a program that holds a rig. This process and its children share
    /// the stack's quota until it is undone.
    ///
    /// # Errors
    /// A part cannot be built; nothing is left then.
    pub(super) fn build(server: &[OsString], stack: &Stack) -> Result<Self> {
        let start = |spec: Spec| Rig::start(server, spec).map_err(Error::msg);
        let place = start(stack.spec.clone())?;
        if stack.is_unprivileged {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777))
                .context("let other users measure")?;
        }
        let directory =
            if stack.is_neighbour_below { lower_directory(place.path())? } else { place.path().to_owned() };
        let neighbour =
            stack.neighbour.map(|rate| start(Spec::neighbour(directory, rate).into())).transpose()?;
        let quota = stack.quota_cpus.map(|cpus| start(Spec::quota(cpus).into())).transpose()?;
        let hog_count = stack.hogs;
        let disk_bytes = stack.is_cached_disk().then(disk_bytes).transpose()?;
        let mut rigs =
            Self { server: server.to_vec(), place, hogs: None, hog_count, quota, neighbour, disk_bytes };
        rigs.start_hogs()?;
        if let Some(quota) = &rigs.quota {
            quota.join(std::process::id()).map_err(Error::msg)?;
        }
        Ok(rigs)
    }

    /// Directory of its file system.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the bytes that its server, or else the disk below, read or wrote since the last call.
    ///
    /// # Errors
    /// It has no server, or the disk has no counters.
    pub(super) fn take_served_bytes(&mut self, is_read: bool) -> Result<u64> {
        let of = |[read, written]: [u64; 2]| if is_read { read } else { written };
        if let Some(before) = &mut self.disk_bytes {
            let now = disk_bytes()?;
            return Ok(of(now) - of(std::mem::replace(before, now)));
        }
        let served = self.place.take_served().map_err(Error::msg)?;
        Ok(of([served.bytes_read, served.bytes_written]))
    }

    /// Returns the requests that its server answered since the last call.
    ///
    /// # Errors
    /// It has no server.
    pub(super) fn take_log(&self) -> Result<RequestLog> {
        self.place.take_served().map_err(Error::msg)
    }

    /// Relieves a part, or takes the relief back.
    ///
    /// # Errors
    /// The rig cannot be changed.
    pub(super) fn change(&mut self, relief: &Relief, is_relieved: bool) -> Result<()> {
        let (rig, relieved, restored) = match relief {
            Relief::Set { relieved, restored } => (Some(&self.place), relieved, restored),
            Relief::Quota { relieved, restored } => (self.quota.as_ref(), relieved, restored),
            Relief::Pause if is_relieved => {
                return self.hogs.take().map_or(Ok(()), Rig::finish).map_err(Error::msg);
            }
            Relief::Pause => return self.start_hogs(),
        };
        let words = if is_relieved { relieved } else { restored };
        rig.map_or(Ok(()), |rig| rig.set(words).map(drop).map_err(Error::msg))
    }

    fn start_hogs(&mut self) -> Result<()> {
        if let Some(count) = self.hog_count {
            self.hogs = Some(Rig::start(&self.server, Spec::hogs(count)).map_err(Error::msg)?);
        }
        Ok(())
    }

    /// Undoes all.
    ///
    /// # Errors
    /// Parts that are left, and why.
    pub(super) fn finish(self) -> Result<()> {
        let others = [self.quota, self.hogs, self.neighbour].into_iter().flatten();
        others.chain([self.place]).try_for_each(Rig::finish).map_err(Error::msg)
    }
}

/// Returns the bytes that the disk with this repository has read and written.
fn disk_bytes() -> Result<[u64; 2]> {
    let device = fs::metadata(crate::root()).context("inspect the repository")?.dev();
    let path = format!("/sys/dev/block/{}:{}/stat", major(device), minor(device));
    let text = fs::read(&path).with_context(|| format!("read {path}"))?;
    let mut counters = DeviceFrame::default();
    ensure!(block_stat::parse(&text, &mut counters), "{path} has too few fields");
    Ok([counters.read_bytes, counters.written_bytes])
}

/// Returns the directory with the image of the loop device that is mounted there.
fn lower_directory(path: &Path) -> Result<PathBuf> {
    let mounts = mountinfo::parse(&fs::read_to_string("/proc/self/mountinfo").context("read the mounts")?);
    let mount = mounts.iter().find(|mount| Path::new(&mount.mount_point) == path);
    let device = mount.and_then(|mount| mount.source.strip_prefix("/dev/"));
    let device = device.with_context(|| format!("no device is mounted at {}", path.display()))?;
    let link = format!("/sys/block/{device}/loop/backing_file");
    let image = fs::read_to_string(&link).with_context(|| format!("read {link}"))?;
    let directory = Path::new(image.trim_end()).parent().context("an image without a directory")?;
    Ok(directory.to_owned())
}
