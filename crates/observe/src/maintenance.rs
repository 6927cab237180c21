//! Maintenance that arrays and file systems do on themselves, beside serving us.

use model::Target;
use model::health::{Array, Maintenance};
use model::target::DeviceKind;

use crate::device::SysfsDevice;
use crate::geometry::btrfs_directory;
use crate::mount;
use crate::parse::md;
use crate::parse::mountinfo::Mount;
use crate::root::Root;

/// Returns the software arrays under a target.
pub(crate) fn arrays(root: &Root, target: &Target) -> Vec<Array> {
    let arrays = target.device_stack.iter().filter(|device| device.kind == DeviceKind::Raid);
    let array = |name: &str| {
        let place = SysfsDevice::by_name(root, name)?;
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
pub(crate) fn maintenance(root: &Root, mounts: &[Mount], target: &Target) -> Vec<Maintenance> {
    match target.file_system.as_str() {
        "ext4" => kernel_thread(root, |name| name == "ext4lazyinit")
            .then_some(Maintenance::InodeTables)
            .into_iter()
            .collect(),
        "btrfs" => {
            // A kernel worker has the name of its queue: "kworker/u8:3+btrfs-scrub" at work. Afterwards, it keeps that
            // name with "-" until its next work, so it may tell of a scrub that is over.
            let is_at_work = || kernel_thread(root, |name| name.ends_with("+btrfs-scrub"));
            let scrub = (is_scrubbing(root) || is_at_work()).then_some(Maintenance::Scrub);
            let directory =
                mount::find(mounts, None, &target.path).and_then(|mount| btrfs_directory(root, mount));
            let operation =
                directory.and_then(|directory| root.line(&format!("{directory}/exclusive_operation")));
            let operation = operation.filter(|operation| operation != "none").map(Maintenance::Operation);
            scrub.into_iter().chain(operation).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns true if a kernel thread has such a name. A program may have any name, but it also has a command
/// line.
fn kernel_thread(root: &Root, matches_name: impl Fn(&str) -> bool) -> bool {
    processes(root).any(|process| {
        root.line(&format!("proc/{process}/comm")).is_some_and(|name| matches_name(&name))
            && root.line(&format!("proc/{process}/cmdline")).is_none()
    })
}

/// Returns true if the program of btrfs scrubs: it waits in the kernel for as long as that takes. Its words may be
/// abbreviated.
fn is_scrubbing(root: &Root) -> bool {
    let is = |word: Option<&str>, full: &str| word.is_some_and(|word| full.starts_with(word));
    processes(root).any(|process| {
        let mut found = root.line(&format!("proc/{process}/comm")).filter(|name| name == "btrfs");
        found = found.and_then(|_| root.line(&format!("proc/{process}/cmdline")));
        found.is_some_and(|line| {
            let mut words =
                line.split('\0').skip(1).filter(|word| !word.is_empty() && !word.starts_with('-'));
            let (group, verb) = (words.next(), words.next());
            is(group, "scrub") && (is(verb, "start") || is(verb, "resume"))
        })
    })
}

/// Numbers of all processes.
fn processes(root: &Root) -> impl Iterator<Item = String> {
    root.list("proc").into_iter().filter(|name| name.parse::<u32>().is_ok())
}
