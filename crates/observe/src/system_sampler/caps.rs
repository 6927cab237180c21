//! Readable I/O limits of our cgroups, and of those of the programs under the test.

use std::fs::File;

use model::layer::{Layer, LayerKind};
use model::run::Cap;

use crate::cgroup::{Level, io_files, io_limits_in, levels_of};
use crate::device::{SysfsDevice, numbers};
use crate::parse::mountinfo::Mount;
use crate::reading::read_all;
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Caps {
    devices: Vec<LimitedDevice>,
    levels: Vec<LevelCaps>,
    found: Vec<Cap>,
    is_started: bool,
}

/// A device by its name, and by the numbers that limits have.
#[derive(Debug)]
struct LimitedDevice {
    name: String,
    numbers: (u32, u32),
}

/// Files of a level: one in version 2, four in version 1, in the order that [`io_limits_in`] expects.
#[derive(Debug)]
struct LevelCaps(Vec<(String, Option<File>)>);

impl Caps {
    pub fn open(root: &Root, mounts: &[Mount], layers: &[Layer]) -> Self {
        let of_kind = |kind| layers.iter().filter(move |layer| layer.kind == kind);
        // A program is in a cgroup of its own, whose limits hold for what it reads and writes.
        let programs = of_kind(LayerKind::Daemon).filter_map(|layer| Some(layer.number?.to_string()));
        let mut levels: Vec<Level> = Vec::new();
        for process in std::iter::once("self".to_owned()).chain(programs) {
            for level in levels_of(root, mounts, &process, &["blkio"]) {
                if !levels.iter().any(|known| known.directory == level.directory) {
                    levels.push(level);
                }
            }
        }
        let open = |path: String| {
            let file = root.open(&path);
            (path, file)
        };
        let levels = levels.iter().map(|level| LevelCaps(io_files(level).map(open).collect())).collect();
        let device = |layer: &Layer| {
            let numbers = numbers(root, &SysfsDevice::by_name(root, &layer.name)?);
            Some(LimitedDevice { name: layer.name.clone(), numbers })
        };
        Self {
            devices: of_kind(LayerKind::Device).filter_map(device).collect(),
            levels,
            found: Vec::new(),
            is_started: false,
        }
    }

    /// Reads the limits at the beginning of a measured part. Those of the latest part count.
    pub fn begin(&mut self, buffer: &mut Vec<u8>) {
        self.found.clear();
        self.is_started = true;
        self.read(buffer);
    }

    /// Reads the limits at its end. A limit that has changed is listed with both values.
    pub fn end(&mut self, buffer: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_started) {
            self.read(buffer);
        }
    }

    fn read(&mut self, buffer: &mut Vec<u8>) {
        for LevelCaps(files) in &self.levels {
            let mut texts = Vec::with_capacity(files.len());
            for (_, file) in files {
                let bytes = read_all(file.as_ref(), buffer).unwrap_or_default();
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            }
            for device in &self.devices {
                let limits = io_limits_in(&texts, device.numbers);
                for (position, limit) in limits.into_iter().enumerate() {
                    let (path, _) = files.get(position).unwrap_or(&files[0]);
                    let cap = limit.map(|limit| cap(path, &device.name, position, limit));
                    if let Some(cap) = cap.filter(|cap| !self.found.contains(cap)) {
                        self.found.push(cap);
                    }
                }
            }
        }
    }

    pub fn take(&mut self) -> Vec<Cap> {
        std::mem::take(&mut self.found)
    }
}

/// Makes a cap. The positions are bytes read, bytes written, reads and writes per second.
fn cap(path: &str, device: &str, position: usize, limit: u64) -> Cap {
    let of = |bytes: bool| ((position < 2) == bytes).then_some(limit as f64);
    Cap {
        source: format!("/{}", path.trim_start_matches('/')),
        device: device.to_owned(),
        is_read: position.is_multiple_of(2),
        ops_per_second: of(false),
        bytes_per_second: of(true),
    }
}
