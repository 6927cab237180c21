//! A directory, resolved to its mount, its file system and the devices under it.

use std::path::Path;

use model::target::{Backing, Device, DirectIo, TargetKind};
use model::{Target, UserError, size};

use crate::geometry::{MountFacts, geometry};
use crate::hiding::INITIAL_PID_NAMESPACE;
use crate::identity::Identity;
use crate::layers::layers_of_mount;
use crate::mount;
use crate::parse::mountinfo::{self, Mount};
use crate::root::Root;
use crate::stack::stack_of_mount;
use crate::virtualisation;

/// Resolves a directory of the running system. See [`direct_io`](crate::direct_io) for the exact alignment.
pub fn target(root: &Root, directory: &Path) -> Result<Target, UserError> {
    resolve(root, &Identity::from_directory(directory)?)
}

/// Resolves a directory to its mount and devices, from files under the root.
///
/// Hidden facts are no error: the notes report an unknown mount or unknown devices.
pub fn resolve(root: &Root, identity: &Identity) -> Result<Target, UserError> {
    if !Path::new(&identity.path).is_absolute() {
        let action = format!("use {} as the target", identity.path);
        return Err(UserError::new(action, "the path is not absolute").help("use an absolute path"));
    }
    let mounts = mountinfo::parse(&root.read("proc/self/mountinfo").unwrap_or_default());
    let found = mount::find(&mounts, identity.mount_id, &identity.path);
    let mut notes = Vec::new();
    let file_system = identity.file_system.unwrap_or("unknown").to_owned();
    let hidden_mount = Mount { mount_point: "/".to_owned(), file_system, ..Mount::default() };
    if found.is_none() {
        notes.push(match mounts.is_empty() {
            true => "/proc cannot be read: mount options are unknown".to_owned(),
            false => "this mount is not in /proc/self/mountinfo: its options are unknown".to_owned(),
        });
    }
    notes.extend(
        identity.quota_bytes.map(|bytes| format!("a quota limits this subvolume to {}", size::binary(bytes))),
    );
    let mount = found.unwrap_or(&hidden_mount);
    let stack = stack_of_mount(root, &mounts, mount, (identity.major, identity.minor));
    let layers = layers_of_mount(root, &mounts, mount, &stack);
    // The devices of an overlay carry another file system than the mounted one.
    let own_devices = stack.backing == Backing::Devices && mount.file_system != "overlay";
    let mounted = MountFacts {
        mount,
        device: stack.devices.first().filter(|_| own_devices).map(|device| device.name.as_str()),
        block_bytes: identity.block_bytes,
        reported: identity.geometry.clone(),
    };
    let (geometry, layout_notes) = geometry(root, mounted);
    notes.extend(layout_notes);
    // The devices of a pool are not looked up anywhere.
    let has_hidden_devices = stack.backing == Backing::Unknown && mount.file_system != "zfs";
    match container_note(root, has_hidden_devices.then_some(mount.mount_point.as_str())) {
        Some(note) if has_hidden_devices => notes.push(note),
        note => notes.extend(stack.notes.into_iter().chain(note)),
    }
    Ok(Target {
        path: identity.path.clone(),
        kind: TargetKind::Directory,
        mount_point: mount.mount_point.clone(),
        device_number: device_number(found, identity),
        source: mount.source.clone(),
        file_system: mount.file_system.clone(),
        mount_options: options(mount),
        read_only: [&mount.options, &mount.super_options]
            .iter()
            .any(|options| options.iter().any(|option| option == "ro")),
        is_writable_by_others: identity.is_writable_by_others,
        backing: stack.backing,
        geometry,
        space: identity.space,
        direct_io: identity.direct_io.or_else(|| device_alignment(stack.backing, stack.devices.first())),
        layers,
        device_stack: stack.devices,
        notes,
        user_attributes: identity.user_attributes,
        erased: None,
    })
}

/// Returns one note on all that a container hides; `None` outside of one. The devices under a mount may be hidden.
fn container_note(root: &Root, mount_point: Option<&str>) -> Option<String> {
    virtualisation::container(root)?;
    let mut hidden: Vec<_> =
        mount_point.map(|place| format!("the devices under {place}")).into_iter().collect();
    let is_initial = |link: String| link.ends_with(INITIAL_PID_NAMESPACE);
    if !root.real("proc/self/ns/pid").is_some_and(is_initial) {
        hidden.push("processes outside".to_owned());
    }
    // In a private cgroup namespace, the own cgroup is the topmost.
    let memberships = root.read("proc/self/cgroup").unwrap_or_default();
    if memberships.lines().all(|line| line.ends_with(":/")) {
        hidden.push("the cgroups above".to_owned());
    }
    let (last, others) = hidden.split_last()?;
    let all = if others.is_empty() { last.clone() } else { format!("{} and {last}", others.join(", ")) };
    Some(format!("{}{all} are hidden", Target::CONTAINER_NOTE_PREFIX))
}

/// Returns the number of the file system, which all its mounts and subvolumes share. Without its mount, that of the
/// directory.
fn device_number(found: Option<&Mount>, identity: &Identity) -> String {
    let (major, minor) = found.map_or((identity.major, identity.minor), |mount| (mount.major, mount.minor));
    format!("{major}:{minor}")
}

/// Options of the mount, then those of the file system that are not among them.
fn options(mount: &Mount) -> Vec<String> {
    let only_super = mount.super_options.iter().filter(|option| !mount.options.contains(option));
    mount.options.iter().chain(only_super).cloned().collect()
}

/// Alignment until there is a file to ask about. Nearly everywhere, direct I/O is aligned to the mounted
/// device's sector.
pub(crate) fn device_alignment(backing: Backing, device: Option<&Device>) -> Option<DirectIo> {
    let bytes = device.filter(|_| backing == Backing::Devices)?.logical_block_bytes?;
    Some(DirectIo { memory_align_bytes: bytes, offset_align_bytes: bytes })
}
