//! Readable I/O limits of our cgroups.

use std::fs::File;

use model::run::Cap;
use model::target::Device;

use crate::cgroup::{Level, io_files, io_limits_in};
use crate::reading::read_all;
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Caps {
    devices: Vec<Device>,
    levels: Vec<LevelCaps>,
    found: Vec<Cap>,
}

/// Files of a level: one in version 2, four in version 1, in the order that [`io_limits_in`] expects.
#[derive(Debug)]
struct LevelCaps(Vec<(String, Option<File>)>);

impl Caps {
    pub fn open(root: &Root, levels: &[Level], devices: &[Device]) -> Self {
        let open = |path: String| {
            let file = root.open(&path);
            (path, file)
        };
        let levels = levels.iter().map(|level| LevelCaps(io_files(level).map(open).collect())).collect();
        Self { devices: devices.to_vec(), levels, found: Vec::new() }
    }

    /// Reads the limits. They can change at any time; those of the latest measured part count.
    pub fn begin(&mut self, buffer: &mut Vec<u8>) {
        self.found.clear();
        for LevelCaps(files) in &self.levels {
            let mut texts = Vec::with_capacity(files.len());
            for (_, file) in files {
                let bytes = read_all(file.as_ref(), buffer).unwrap_or_default();
                texts.push(String::from_utf8_lossy(bytes).into_owned());
            }
            for device in &self.devices {
                let limits = io_limits_in(&texts, device);
                for (position, limit) in limits.into_iter().enumerate() {
                    let (path, _) = files.get(position).unwrap_or(&files[0]);
                    self.found.extend(limit.map(|limit| cap(path, device, position, limit)));
                }
            }
        }
    }

    pub fn take(&mut self) -> Vec<Cap> {
        std::mem::take(&mut self.found)
    }
}

/// Makes a cap. The positions are bytes read, bytes written, reads and writes per second.
fn cap(path: &str, device: &Device, position: usize, limit: u64) -> Cap {
    let of = |bytes: bool| ((position < 2) == bytes).then_some(limit as f64);
    Cap {
        source: format!("/{}", path.trim_start_matches('/')),
        device: device.name.clone(),
        is_read: position.is_multiple_of(2),
        ops_per_second: of(false),
        bytes_per_second: of(true),
    }
}
