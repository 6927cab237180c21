//! Conditions of drives, CPUs and file systems under load: temperature, throttling and maintenance.

use model::Target;
use model::health::{Array, Upkeep};
use model::run::{Conditions, DriveTemperature, UpkeepRecord};

use crate::parse::mountinfo;
use crate::root::Root;
use crate::sensors::{cpu_throttled, temperatures};
use crate::upkeep::{arrays, upkeep};

/// Returns the conditions at this moment. CPU throttling is counted since boot. Reading a drive's sensor
/// queries the drive.
pub fn conditions(root: &Root, target: &Target) -> Conditions {
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let drives = temperatures(root, &target.device_stack).into_iter().map(|sensor| DriveTemperature {
        device: sensor.device,
        celsius: sensor.celsius,
        celsius_max: sensor.celsius_max,
    });
    let of_arrays = arrays(root, target).iter().filter_map(of_array).collect::<Vec<_>>();
    let of_file_systems = upkeep(root, &mounts, target).into_iter().map(of_file_system);
    Conditions {
        drives: drives.collect(),
        cpu_throttled: cpu_throttled(root),
        upkeep: of_arrays.into_iter().chain(of_file_systems).collect(),
    }
}

fn of_array(array: &Array) -> Option<UpkeepRecord> {
    // A degraded array that does not rebuild gets no record: a note above the table reports it.
    Some(UpkeepRecord {
        work: array.action.clone()?,
        device: Some(array.name.clone()),
        progress: array.progress,
        is_of_target: true,
    })
}

fn of_file_system(upkeep: Upkeep) -> UpkeepRecord {
    let (work, is_of_target) = match upkeep {
        Upkeep::InodeTables => ("ext4 inode tables".to_owned(), false),
        Upkeep::Scrub => ("btrfs scrub".to_owned(), false),
        // Paused work does nothing.
        Upkeep::Operation(operation) => (format!("btrfs {operation}"), !operation.ends_with("paused")),
    };
    UpkeepRecord { work, device: None, progress: None, is_of_target }
}
