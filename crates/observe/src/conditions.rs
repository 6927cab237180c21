//! Conditions of drives, CPUs and file systems under load: temperature, throttling and maintenance.

use model::Target;
use model::health::{Array, Maintenance};
use model::run::{Conditions, DriveTemperature, MaintenanceRecord};

use crate::maintenance::{arrays, maintenance};
use crate::parse::mountinfo;
use crate::root::Root;
use crate::sensors::{cpu_throttled, temperatures};

/// Returns the conditions at this moment. CPU throttling is counted since boot. Reading a drive's sensor
/// queries the drive.
pub fn conditions(root: &Root, target: &Target) -> Conditions {
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let drives = temperatures(root, &target.device_stack).into_iter().map(|sensor| DriveTemperature {
        device: sensor.device,
        celsius: sensor.celsius,
        celsius_max: sensor.celsius_max,
    });
    let array_records = arrays(root, target).iter().filter_map(array_record).collect::<Vec<_>>();
    let file_system_records = maintenance(root, &mounts, target).into_iter().map(file_system_record);
    Conditions {
        drives: drives.collect(),
        cpu_throttled: cpu_throttled(root),
        maintenance: array_records.into_iter().chain(file_system_records).collect(),
    }
}

fn array_record(array: &Array) -> Option<MaintenanceRecord> {
    // A degraded array that does not rebuild gets no record: a note above the table reports it.
    Some(MaintenanceRecord {
        work: array.action.clone()?,
        device: Some(array.name.clone()),
        progress: array.progress,
        belongs_to_target: true,
    })
}

fn file_system_record(maintenance: Maintenance) -> MaintenanceRecord {
    let (work, belongs_to_target) = match maintenance {
        Maintenance::InodeTables => ("ext4 inode tables".to_owned(), false),
        Maintenance::Scrub => ("btrfs scrub".to_owned(), false),
        // Paused work does nothing.
        Maintenance::Operation(operation) => (format!("btrfs {operation}"), !operation.ends_with("paused")),
    };
    MaintenanceRecord { work, device: None, progress: None, belongs_to_target }
}
