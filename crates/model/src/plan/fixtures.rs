//! A target, a machine and requests, for the tests of plans.

use super::{Plan, plan};
use crate::machine::Machine;
use crate::request::Request;
use crate::target::{Backing, Device, DeviceKind, DirectIo, Geometry, Space, Target, TargetKind};

pub(super) const GIB: u64 = 1 << 30;
pub(super) const FORBIDDEN: &str = "kernel.io_uring_disabled is 2";

fn target(backing: Backing) -> Target {
    Target {
        path: "/mnt".into(),
        kind: TargetKind::Directory,
        mount_point: "/mnt".into(),
        device_number: "252:1".into(),
        source: "/dev/sda1".into(),
        file_system: "xfs".into(),
        mount_options: Vec::new(),
        read_only: false,
        is_writable_by_others: false,
        backing,
        geometry: Geometry::default(),
        space: Space { total_bytes: 900 * GIB, free_bytes: 600 * GIB, inodes_total: None, inodes_free: None },
        direct_io: Some(DirectIo { memory_align_bytes: 4, offset_align_bytes: 512 }),
        device_stack: Vec::new(),
        notes: Vec::new(),
        user_attributes: None,
        erased: None,
        layers: Vec::new(),
    }
}

pub(super) fn machine(io_uring_refused: Option<&str>) -> Machine {
    Machine {
        host: "ada".into(),
        kernel: "Linux 6.12".into(),
        cpu_model: None,
        cpus: 8,
        cpus_online: 8,
        memory_bytes: 16 * GIB,
        memory_total_bytes: 16 * GIB,
        virtualisation: None,
        clock_source: None,
        is_root: false,
        lockable_bytes: None,
        open_files_max: None,
        file_bytes_max: None,
        io_uring_refused: io_uring_refused.map(String::from),
    }
}

pub(super) fn request_for(tests: &[&str]) -> Request {
    Request { tests: tests.iter().map(|test| (*test).to_owned()).collect(), ..Request::default() }
}

/// Returns a disk with this `io_poll`; `None` means that the kernel does not report it.
pub(super) fn disk_that_polls(io_poll: Option<bool>) -> Target {
    let disk = Device {
        name: "sda".into(),
        major: 8,
        minor: 0,
        kind: DeviceKind::Disk,
        backing_devices: Vec::new(),
        size_bytes: 1000 * GIB,
        model: None,
        logical_block_bytes: None,
        physical_block_bytes: None,
        rotational: None,
        scheduler: None,
        write_cache: None,
        nr_requests: None,
        read_ahead_bytes: None,
        numa_node: None,
        io_poll,
        link: None,
        details: Vec::new(),
    };
    Target { device_stack: vec![disk], ..target(Backing::Devices) }
}

/// Plans a request, and asserts that the request which a dry run prints gives the same plan.
pub(super) fn planned(request: &Request, backing: Backing, refused: Option<&str>) -> Result<Plan, String> {
    checked(request, &target(backing), &machine(refused))
}

/// As [`planned`], on that target.
pub(super) fn planned_on(request: &Request, target: &Target) -> Result<Plan, String> {
    checked(request, target, &machine(None))
}

fn checked(request: &Request, target: &Target, machine: &Machine) -> Result<Plan, String> {
    let make = |request: &Request| plan(request, target, machine).map_err(|error| error.to_string());
    let first = make(request)?;
    let loads = first.to_request().loads;
    let again = Request { loads, ..Request::from_toml(&first.to_request().to_toml())? };
    assert_eq!(make(&again).as_ref(), Ok(&first), "{request:?}");
    let json = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), first);
    Ok(first)
}

pub(crate) fn on_disk(tests: &[&str]) -> Plan {
    planned(&request_for(tests), Backing::Devices, None).unwrap()
}
