//! Temperatures and wear of drives, throttling of CPUs, and the governors of their frequency.

use std::path::Path;

use model::health::{Governor, Temperature, Wear};
use model::target::Device;

use crate::device::SysfsDevice;
use crate::root::Root;

/// Names of sensors inside drives.
const DRIVES: [&str; 2] = ["nvme", "drivetemp"];
/// Largest plausible temperature. Drives without a limit report one that nothing survives, such as 65,261 °C.
const CELSIUS_MAX: f64 = 200.0;
/// Directories from the disk of a UFS host up to the host.
const UFS_LEVELS: usize = 4;
const CPUS: &str = "sys/devices/system/cpu";

/// Reads the sensors of the physical devices, as far as there are any.
pub(crate) fn temperatures(root: &Root, devices: &[Device]) -> Vec<Temperature> {
    let sensors: Vec<_> =
        root.list("sys/class/hwmon").into_iter().filter_map(|name| sensor(root, &name)).collect();
    let mut found = Vec::new();
    for device in devices.iter().filter(|device| device.is_leaf()) {
        let Some(place) = SysfsDevice::by_name(root, &device.name) else { continue };
        let above = controllers(root, &place);
        let is_its_own = |sensor: &&Sensor| {
            let directory = format!("{}/", sensor.device);
            above.iter().any(|path| format!("{path}/").starts_with(&directory))
        };
        if let Some(Sensor { celsius, celsius_max, .. }) = sensors.iter().find(is_its_own) {
            let (celsius, celsius_max) = (*celsius, *celsius_max);
            found.push(Temperature { device: device.name.clone(), celsius, celsius_max });
        }
    }
    found
}

/// Reads the wear of drives that show it as a file. eMMC does (JESD84-B51, 7.4.37: DEVICE_LIFE_TIME_EST), and UFS, whose host
/// has a health descriptor (JESD220). NVMe and ATA need a command.
pub(crate) fn wear(root: &Root, devices: &[Device]) -> Vec<Wear> {
    let wear = |device: &Device| {
        let place = SysfsDevice::by_name(root, &device.name)?;
        let own = root.line(&format!("{}/device/life_time", place.disk));
        let text = own.or_else(|| {
            let drive = root.real(&format!("{}/device", place.disk))?;
            let of_host = |path: &Path| {
                let file = |kind| {
                    root.line(&format!("{}/health_descriptor/life_time_estimation_{kind}", path.display()))
                };
                Some(format!("{} {}", file("a")?, file("b")?))
            };
            Path::new(&drive).ancestors().take(UFS_LEVELS).find_map(of_host)
        })?;
        // A tenth for each step: 1 is 0 to 10 %, and 11 is beyond the rating.
        let tenths = text
            .split_whitespace()
            .filter_map(|word| u8::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        let tenths = tenths.filter(|tenths| (1..=11).contains(tenths)).max()?;
        Some(Wear { device: device.name.clone(), used_percent_max: tenths * 10 })
    };
    devices.iter().filter(|device| device.is_leaf()).filter_map(wear).collect()
}

struct Sensor {
    /// Directory of the device that holds the sensor.
    device: String,
    celsius: f64,
    celsius_max: Option<f64>,
}

fn sensor(root: &Root, name: &str) -> Option<Sensor> {
    let directory = format!("sys/class/hwmon/{name}");
    root.line(&format!("{directory}/name")).filter(|name| DRIVES.contains(&name.as_str()))?;
    let celsius = |file: &str| {
        let millidegrees: f64 = root.number(&format!("{directory}/{file}"))?;
        Some(millidegrees / 1000.0).filter(|celsius| celsius.abs() < CELSIUS_MAX)
    };
    Some(Sensor {
        device: root.real(&format!("{directory}/device"))?,
        celsius: celsius("temp1_input")?,
        celsius_max: celsius("temp1_max"),
    })
}

/// Returns the directories of the disk and, for an NVMe subsystem, of the controllers that lead to it.
fn controllers(root: &Root, place: &SysfsDevice) -> Vec<String> {
    let mut paths = vec![place.disk.clone()];
    if let Some(subsystem) = root.real(&format!("{}/device", place.disk)) {
        let names = root.list(&subsystem).into_iter().filter(|name| name.starts_with("nvme"));
        paths.extend(names.filter_map(|name| root.real(&format!("{subsystem}/{name}"))));
    }
    paths
}

/// Returns the governors of the CPUs' frequency, each once.
pub(crate) fn governors(root: &Root) -> Vec<Governor> {
    let mut found: Vec<Governor> = Vec::new();
    let policies =
        root.list(&format!("{CPUS}/cpufreq")).into_iter().filter(|name| name.starts_with("policy"));
    for policy in policies {
        let line = |file: &str| root.line(&format!("{CPUS}/cpufreq/{policy}/{file}"));
        let Some(name) = line("scaling_governor") else { continue };
        let governor = Governor { name, driver: line("scaling_driver") };
        if !found.contains(&governor) {
            found.push(governor);
        }
    }
    found
}

/// Counts thermal throttling events of all cores since boot; absent if no core has the counter. Queries no device.
pub fn cpu_throttled(root: &Root) -> Option<u64> {
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|number| number.parse::<u32>().is_ok());
    let counts = root.list(CPUS).into_iter().filter(is_cpu).filter_map(|name| {
        root.number::<u64>(&format!("{CPUS}/{name}/thermal_throttle/core_throttle_count"))
    });
    counts.reduce(u64::saturating_add)
}
