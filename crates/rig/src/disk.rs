//! A loop device, the layer under it, a file system on it, and an overlay over that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use model::UserError;

use crate::cgroup;
use crate::device::LoopDevice;
use crate::fuse::{FILE_NAME, Faults, Server};
use crate::journal::Journal;
use crate::served::RequestLog;
use crate::spec::{self, Daemon, DiskBacking, DiskSpec, FuseSpec};
use crate::throttle::Throttle;
use crate::timing::Timing;
use crate::zram;

/// A device and its file system. Dropping it undoes everything.
#[derive(Debug)]
pub struct Disk {
    journal: Journal,
    server: Option<Server>,
    layer: Layer,
    spec: DiskSpec,
    cgroup: Option<PathBuf>,
}

/// One loop device, with the layers under and over it.
#[derive(Debug)]
struct Layer {
    device: LoopDevice,
    image: PathBuf,
    mounted: Option<PathBuf>,
    lower_layer: Option<Box<Layer>>,
}

impl Disk {
    /// Builds a disk, without the times and limits, which it gets last: the layers under it take no time while it is
    /// built.
    ///
    /// # Errors
    /// The part that could not be made, and why; nothing is left then.
    pub fn build(spec: &DiskSpec) -> Result<Self, UserError> {
        let mut journal = Journal::open()?;
        let mut server = None;
        let built = build(spec, &mut journal, &mut server);
        if built.is_err() {
            // Undo before the server ends, as undoing asks the server.
            journal.undo();
        }
        let layer = built?;
        let mut disk = Self { journal, server, layer, spec: spec.clone(), cgroup: None };
        disk.layer.change(&DiskSpec::default(), spec, &mut disk.journal, &mut disk.cgroup)?;
        if let (Some(server), Some(timing)) = (&disk.server, timing(spec)) {
            // Writes that arrive late must not count.
            let mut layer = Some(&disk.layer);
            while let Some(one) = layer {
                if let Some(root) = one.mounted.as_ref().and_then(|path| fs::File::open(path).ok()) {
                    let _ = rustix::fs::syncfs(&root);
                }
                layer = one.lower_layer.as_deref();
            }
            server.set_timing(timing);
            server.take_served();
        }
        Ok(disk)
    }

    /// Path to measure: the mounted file system or the topmost layer over it, or else the device.
    pub fn path(&self) -> PathBuf {
        self.layer.mounted.clone().unwrap_or_else(|| self.layer.device.path())
    }

    /// The device.
    pub fn device(&self) -> &LoopDevice {
        &self.layer.device
    }

    /// The file under the device.
    pub fn image(&self) -> &Path {
        &self.layer.image
    }

    /// Replaces the limits.
    ///
    /// # Errors
    /// There is no `blkio` of cgroup v1, or its limits cannot be set.
    pub fn limit(&mut self, throttle: Throttle) -> Result<(), UserError> {
        self.change(DiskSpec { throttle, ..self.spec.clone() })
    }

    fn change(&mut self, spec: DiskSpec) -> Result<(), UserError> {
        if let (Some(server), Some(timing)) =
            (&self.server, timing(&spec).filter(|new| timing(&self.spec) != Some(*new)))
        {
            server.set_timing(timing);
        }
        self.layer.change(&self.spec, &spec, &mut self.journal, &mut self.cgroup)?;
        self.spec = spec;
        Ok(())
    }

    /// Returns the answers of the server under it, if there is one.
    pub fn served(&self) -> Option<RequestLog> {
        self.server.as_ref().map(Server::served)
    }

    /// Returns the same, and resets the counts.
    pub fn take_served(&self) -> Option<RequestLog> {
        self.server.as_ref().map(Server::take_served)
    }

    /// Changes limits, or times of the server under it.
    pub(crate) fn set(&mut self, words: &[&str]) -> Result<(), UserError> {
        self.change(spec::change_disk(self.spec.clone(), words)?)
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Undoes everything. Returns the parts that are left, and why.
    pub(crate) fn undo(&mut self) -> Vec<String> {
        self.server.iter().for_each(Server::release_all);
        self.journal.undo()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for left in self.undo() {
            log::warn!("not removed: {left}");
        }
    }
}

impl Layer {
    /// Applies the settings and limits that differ from former ones, after those of the layer below.
    fn change(
        &self,
        old: &DiskSpec,
        spec: &DiskSpec,
        journal: &mut Journal,
        cgroup: &mut Option<PathBuf>,
    ) -> Result<(), UserError> {
        if let (Some(lower_layer), DiskBacking::Disk(lower)) = (&self.lower_layer, &spec.on) {
            let unlimited = DiskSpec::default();
            let old = if let DiskBacking::Disk(old) = &old.on { old.as_ref() } else { &unlimited };
            lower_layer.change(old, lower, journal, cgroup)?;
        }
        if let Some(count) = spec.requests.filter(|_| spec.requests != old.requests) {
            self.device.set_requests(journal, &self.image, count)?;
        }
        if let Some(bytes) = spec.dirty_max_bytes.filter(|_| spec.dirty_max_bytes != old.dirty_max_bytes) {
            self.device.set_dirty_max(journal, &self.image, bytes)?;
        }
        if spec.throttle == old.throttle {
            return Ok(());
        }
        self.limit(spec.throttle, journal, cgroup)
    }

    fn limit(
        &self,
        throttle: Throttle,
        journal: &mut Journal,
        cgroup: &mut Option<PathBuf>,
    ) -> Result<(), UserError> {
        let cgroup = match cgroup {
            Some(cgroup) => cgroup,
            None => cgroup.insert(cgroup::root(journal, "blkio")?),
        };
        throttle.set(journal, cgroup, &self.device.number()?)
    }
}

/// Room for the metadata of ext4, with a reserve.
const FILE_SYSTEM_BYTES: u64 = 64 << 20;

/// Returns the times of the server at the bottom.
fn timing(spec: &DiskSpec) -> Option<Timing> {
    spec.server().map(|server| server.timing)
}

fn build(spec: &DiskSpec, journal: &mut Journal, server: &mut Option<Server>) -> Result<Layer, UserError> {
    check(spec)?;
    let mut lower_layer = None;
    let image = match &spec.on {
        DiskBacking::Memory => {
            let directory = journal.scratch(spec.bytes)?;
            journal.file_in(&directory, "image", spec.bytes)?
        }
        DiskBacking::Zram => {
            let device = zram::make(journal, spec.bytes + spec.bytes / 16 + FILE_SYSTEM_BYTES)?;
            make_file_system(journal, "ext4", "", &[device.clone().into()], true)?;
            let mounted = journal.mount("ext4", &device, "")?;
            image_in(&mounted, spec, journal)?
        }
        DiskBacking::Directory(directory) => image_in(directory, spec, journal)?,
        DiskBacking::Fuse(served) => {
            let served = FuseSpec { file_bytes: Some(spec.bytes), ..(**served).clone() };
            let server = server.insert(Server::mount(journal, &served, Faults::default())?);
            server.set_timing(Timing::default());
            server.path().join(FILE_NAME)
        }
        DiskBacking::Disk(lower) => {
            let layer = lower_layer.insert(Box::new(build(lower, journal, server)?));
            let mounted = layer.mounted.as_deref().ok_or_else(|| {
                UserError::new("create a disk on a disk", "the lower disk has no file system")
                    .help("add on.fs=NAME")
            })?;
            image_in(mounted, spec, journal)?
        }
    };
    let mut images = vec![image];
    if let (true, Some(directory)) = (spec.is_striped, images[0].parent()) {
        images.push(journal.file_in(directory, "second-image", spec.bytes)?);
    }
    if let Some(file_system) = &spec.file_system {
        let striped = if spec.is_striped { "-d raid0 -m raid1" } else { "" };
        let options = [&spec.mkfs_options, striped].join(" ");
        make_file_system(journal, file_system, &options, &images, spec.is_on_zram())?;
    }
    // A file in memory is in the page cache.
    let is_direct = !spec.is_buffered && !matches!(spec.on, DiskBacking::Memory);
    let mut devices = Vec::new();
    for image in &images {
        devices.push(LoopDevice::attach(journal, image, is_direct)?);
    }
    let mounted = mount(spec, &devices, journal)?;
    Ok(Layer { device: devices.swap_remove(0), image: images.swap_remove(0), mounted, lower_layer })
}

/// Refuses a disk whose parts do not go together.
fn check(spec: &DiskSpec) -> Result<(), UserError> {
    if (spec.with_overlay || spec.daemon.is_some()) && spec.file_system.is_none() {
        return Err(UserError::new("mount a layer on a disk", "it has no file system").help("add fs=NAME"));
    }
    let is_limited =
        spec.throttle != Throttle::default() || spec.requests.is_some() || spec.dirty_max_bytes.is_some();
    if spec.is_striped && (is_limited || matches!(spec.on, DiskBacking::Fuse(_))) {
        return Err(UserError::new(
            "create two striped devices",
            "they have limits, or a server with one file",
        )
        .help("limit the disk below (on.read_iops=100), or put a disk over the server (on on.over)"));
    }
    Ok(())
}

/// Makes the image of a disk, in a new directory below `directory`.
fn image_in(directory: &Path, spec: &DiskSpec, journal: &mut Journal) -> Result<PathBuf, UserError> {
    let directory = journal.directory_in(directory)?;
    journal.file_in(&directory, "image", spec.bytes)
}

/// Mounts the file system of the devices, with the layers over it. Returns the path of the topmost, or `None` without
/// a file system.
fn mount(
    spec: &DiskSpec,
    devices: &[LoopDevice],
    journal: &mut Journal,
) -> Result<Option<PathBuf>, UserError> {
    let (Some(file_system), [first, others @ ..]) = (&spec.file_system, devices) else { return Ok(None) };
    let mut options = spec.mount_options.clone();
    for other in others {
        options = format!("{options},device={}", other.path().display());
    }
    let options = options.trim_start_matches(',');
    let mut at = journal.mount(file_system, &first.path().to_string_lossy(), options)?;
    if spec.with_overlay {
        at = mount_overlay(journal, &at)?;
    }
    if let Some(daemon) = spec.daemon {
        at = mount_daemon(journal, daemon, &at)?;
    }
    Ok(Some(at))
}

/// Mounts an overlay whose layers all lie in the file system that is mounted at that path. They go with that file
/// system's image, together with everything that the kernel makes in them. So only the mount outlives us.
fn mount_overlay(journal: &mut Journal, file_system: &Path) -> Result<PathBuf, UserError> {
    let mut options = Vec::new();
    for name in ["lower", "upper", "work"] {
        let layer = file_system.join(name);
        fs::create_dir(&layer)
            .map_err(|error| UserError::new(format!("create the directory {}", layer.display()), error))?;
        options.push(format!("{name}dir={}", layer.display()));
    }
    journal.mount("overlay", "skye-rig", &options.join(","))
}

/// Mounts a daemon that serves the file system, or an encrypted directory in it.
fn mount_daemon(journal: &mut Journal, daemon: Daemon, file_system: &Path) -> Result<PathBuf, UserError> {
    let (name, source, options) = match daemon {
        Daemon::Bindfs => ("bindfs", file_system.to_owned(), "subtype=bindfs".into()),
        Daemon::BindfsThreads => ("bindfs", file_system.to_owned(), "subtype=bindfs,multithreaded".into()),
        Daemon::Gocryptfs => {
            let (cipher, key) = (file_system.join("cipher"), file_system.join("passphrase"));
            let write = fs::create_dir(&cipher).and_then(|()| fs::write(&key, "skye-rig"));
            write.map_err(|error| {
                UserError::new(format!("make an encrypted directory in {}", file_system.display()), error)
            })?;
            let mut init = Command::new("gocryptfs");
            init.args(["-init", "-quiet", "-scryptn", "10", "-passfile"]).arg(&key).arg(&cipher);
            journal.run(&mut init, &format!("make an encrypted directory in {}", file_system.display()))?;
            ("gocryptfs", cipher, format!("allow_other,quiet,passfile={}", key.display()))
        }
    };
    journal.mount(&format!("fuse.{name}"), &source.to_string_lossy(), &options)
}

/// Makes a file system on the files, not on the devices: there is no waiting for device nodes and their watchers.
fn make_file_system(
    journal: &Journal,
    file_system: &str,
    options: &str,
    images: &[PathBuf],
    has_large_sectors: bool,
) -> Result<(), UserError> {
    let mut mkfs = Command::new(format!("mkfs.{file_system}"));
    mkfs.arg("-q");
    if file_system.starts_with("ext") {
        // Work that is put off would be written during a measurement.
        mkfs.args(["-E", "lazy_itable_init=0,lazy_journal_init=0"]);
    }
    // No file system is mounted on a device of larger sectors than its own. A zram device has such, and loop devices over it.
    match file_system {
        "xfs" => drop(mkfs.args(["-s", "size=4096"])),
        "ext4" if has_large_sectors => drop(mkfs.args(["-b", "4096"])),
        _ => {}
    }
    mkfs.args(options.split_whitespace()).args(images);
    let names: Vec<_> = images.iter().map(|image| image.to_string_lossy()).collect();
    journal.run(&mut mkfs, &format!("create {file_system} on {}", names.join(" and "))).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn each_layer_of_a_live_disk_can_be_changed() {
        xtask::require!(root, loop, blkio, ext4);
        let lower = DiskSpec::default().file_system("ext4").size_mib(96).read_iops(500);
        let mut disk = Disk::build(&DiskSpec::default().requests(4).on_disk(lower)).unwrap();
        let read = |path: PathBuf| fs::read_to_string(path).unwrap();
        disk.set(&["on.read_iops=100", "requests=8"]).unwrap();
        assert_eq!(read(disk.device().directory().join("queue/nr_requests")), "8\n");
        let lower = disk.layer.lower_layer.as_ref().unwrap().device.number().unwrap();
        let limits = read(disk.cgroup.clone().unwrap().join("blkio.throttle.read_iops_device"));
        assert!(limits.contains(&format!("{lower} 100\n")), "{limits}");
        for (word, why) in [("on.requests=8", "cannot be changed"), ("on.over.slots=1", "no server")] {
            assert!(disk.set(&[word]).unwrap_err().to_string().contains(why), "{word}");
        }
        assert!(disk.undo().is_empty());
    }

    #[test]
    fn small_ext4_on_zram_is_mounted() {
        xtask::require!(root, loop, zram, ext4);
        let zram = DiskSpec::default().file_system("ext4").size_mib(96).on_zram();
        let mut disk = Disk::build(&DiskSpec::default().file_system("ext4").on_disk(zram)).unwrap();
        fs::write(disk.path().join("file"), "content").unwrap();
        assert!(disk.undo().is_empty());
    }

    #[test]
    fn striped_disk_has_two_devices_on_one_file_system() {
        xtask::require!(root, loop, ext4, btrfs);
        let lower = DiskSpec::default().file_system("ext4").size_mib(320);
        let mut disk = Disk::build(&DiskSpec::default().size_mib(128).striped().on_disk(lower)).unwrap();
        fs::write(disk.path().join("file"), vec![1; 4 << 20]).unwrap();
        rustix::fs::syncfs(fs::File::open(disk.path()).unwrap()).unwrap();
        let images = disk.image().parent().unwrap().read_dir().unwrap();
        let stored: Vec<_> = images.map(|image| image.unwrap().metadata().unwrap().blocks() * 512).collect();
        assert!(stored.len() == 2 && stored.iter().all(|bytes| *bytes >= 2 << 20), "{stored:?}");
        assert!(disk.undo().is_empty());
    }

    #[test]
    fn striped_disk_refuses_limits_and_servers() {
        xtask::require!(root);
        for spec in [DiskSpec::default().read_iops(100), DiskSpec::default().over(FuseSpec::default())] {
            assert!(Disk::build(&spec.striped()).unwrap_err().to_string().contains("disk below"));
        }
    }
}
