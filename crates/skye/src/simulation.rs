//! A simulated device as the target of a run: `sim:FILE.toml`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use model::target::{Backing, Geometry, Space, TargetKind};
use model::{SimDevice, Target, UserError};

use crate::inputs;

/// Prefix of the name of a simulated target.
const PREFIX: &str = "sim:";

/// Returns true if `word` is the name of a simulated device.
pub fn is_named(word: &Path) -> bool {
    word.to_str().is_some_and(|word| word.starts_with(PREFIX))
}

/// Returns the same word with the absolute path of its file; `None` if it is no simulated device.
pub fn absolute(word: &str) -> Option<std::io::Result<PathBuf>> {
    let file = std::path::absolute(word.strip_prefix(PREFIX)?);
    Some(file.map(|file| [OsStr::new(PREFIX), file.as_os_str()].into_iter().collect::<OsString>().into()))
}

/// Returns the device and the target of a word; `None` if it is no simulated device.
///
/// # Errors
/// The description cannot be read or understood.
pub fn target(word: &Path) -> Result<Option<(SimDevice, Target)>, UserError> {
    let Some(file) = word.to_str().and_then(|word| word.strip_prefix(PREFIX)) else { return Ok(None) };
    let refused = |problem: String| UserError::new(format!("simulate {file}"), problem);
    let text = inputs::read_text(Path::new(file), inputs::DESCRIPTION_BYTES_MAX).map_err(|error| {
        let help = match word.symlink_metadata() {
            Ok(_) => format!("use ./{} for the directory of that name", word.display()),
            Err(_) => "use a file that describes a device, as in docs/simulated-devices.md".into(),
        };
        refused(error.to_string()).help(help)
    })?;
    let device = SimDevice::from_toml(&text).map_err(refused)?;
    let target = Target {
        path: word.to_string_lossy().into_owned(),
        kind: TargetKind::Simulated,
        mount_point: word.to_string_lossy().into_owned(),
        device_number: String::new(),
        source: device.name.clone(),
        file_system: "simulated".into(),
        mount_options: Vec::new(),
        read_only: false,
        is_writable_by_others: false,
        backing: Backing::Simulated,
        geometry: Geometry::default(),
        space: Space {
            total_bytes: device.size_bytes,
            free_bytes: device.size_bytes,
            inodes_total: None,
            inodes_free: None,
        },
        direct_io: None,
        device_stack: Vec::new(),
        notes: Vec::new(),
        user_attributes: None,
        erased: None,
        layers: Vec::new(),
    };
    Ok(Some((device, target)))
}
