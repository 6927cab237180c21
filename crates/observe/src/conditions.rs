//! What drives, CPUs and file systems do to themselves while others use them.

use model::Target;
use model::health::{Array, Upkeep};
use model::run::{Conditions, DriveTemperature, UpkeepRecord};

use crate::parse::mountinfo;
use crate::root::Root;
use crate::sensors::{cpu_throttled, temperatures};
use crate::upkeep::{arrays, upkeep};

/// How it is at this moment; the CPUs' throttling is counted since boot.
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
    let done = array.progress.map_or(String::new(), |share| format!(", {:.0} % done", share * 100.0));
    let work = match (&array.action, array.missing) {
        (Some(action), _) => format!("{}: {action}{done}", array.name),
        (None, 0) => return None,
        (None, missing) => format!("{}: degraded, {missing} of its devices missing", array.name),
    };
    Some(UpkeepRecord { work, is_of_target: true })
}

fn of_file_system(upkeep: Upkeep) -> UpkeepRecord {
    match upkeep {
        Upkeep::InodeTables => {
            UpkeepRecord { work: "an ext4: inode tables are being written".into(), is_of_target: false }
        }
        Upkeep::Scrub => UpkeepRecord { work: "a btrfs: scrub".into(), is_of_target: false },
        Upkeep::Operation(operation) => {
            // What is paused does nothing.
            let is_of_target = !operation.ends_with("paused");
            UpkeepRecord { work: format!("btrfs: {operation}"), is_of_target }
        }
    }
}
