//! Maintenance that arrays and file systems do on themselves, beside serving us.

use model::Target;
use model::health::{Array, Upkeep};
use model::target::DeviceKind;

use crate::device::Place;
use crate::geometry::btrfs_directory;
use crate::mount;
use crate::parse::md;
use crate::parse::mountinfo::Mount;
use crate::root::Root;

/// Returns the software arrays under a target.
pub(crate) fn arrays(root: &Root, target: &Target) -> Vec<Array> {
    let arrays = target.device_stack.iter().filter(|device| device.kind == DeviceKind::Raid);
    let array = |name: &str| {
        let place = Place::by_name(root, name)?;
        let line = |file: &str| place.line(root, &format!("md/{file}"));
        let action = line("sync_action").and_then(|text| md::action(&text).map(str::to_owned));
        Some(Array {
            name: name.to_owned(),
            progress: line("sync_completed")
                .and_then(|text| md::progress(&text))
                .filter(|_| action.is_some()),
            action,
            missing: line("degraded").and_then(|text| text.parse().ok()).unwrap_or(0),
        })
    };
    arrays.filter_map(|device| array(&device.name)).collect()
}

/// Returns the current maintenance of file systems of the target's type.
pub(crate) fn upkeep(root: &Root, mounts: &[Mount], target: &Target) -> Vec<Upkeep> {
    match target.file_system.as_str() {
        "ext4" => kernel_thread(root, |name| name == "ext4lazyinit")
            .then_some(Upkeep::InodeTables)
            .into_iter()
            .collect(),
        "btrfs" => {
            // The name of a kernel worker contains the queue that it works on: "kworker/u8:3-btrfs-scrub".
            let scrub = kernel_thread(root, |name| name.contains("btrfs-scrub")).then_some(Upkeep::Scrub);
            let directory =
                mount::find(mounts, None, &target.path).and_then(|mount| btrfs_directory(root, mount));
            let operation =
                directory.and_then(|directory| root.line(&format!("{directory}/exclusive_operation")));
            let operation = operation.filter(|operation| operation != "none").map(Upkeep::Operation);
            scrub.into_iter().chain(operation).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if a kernel thread has such a name. A program may have any name, but it also has a command
/// line.
fn kernel_thread(root: &Root, is_meant: impl Fn(&str) -> bool) -> bool {
    let processes = root.list("proc").into_iter().filter(|name| name.parse::<u32>().is_ok());
    processes.into_iter().any(|process| {
        root.line(&format!("proc/{process}/comm")).is_some_and(|name| is_meant(&name))
            && root.line(&format!("proc/{process}/cmdline")).is_none()
    })
}
