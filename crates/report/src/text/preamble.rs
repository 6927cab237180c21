//! The first lines of a run: title, target, device, host and plan.

use std::collections::HashSet;

use model::FileVerb;
use model::layer::LayerKind;
use model::plan::Plan;
use model::run::Environment;
use model::size;
use model::target::{Backing, Device, DeviceKind, ErasedContents, Target, TargetKind};

use super::style::Style;
use super::wrap::{allow_breaks, field, no_break, with_units};
use crate::layers::round_trip;
use crate::numbers::{estimate_range, format_estimate};
use crate::{printable, time};

/// An estimate that may be off by more than this fraction of itself is shown by its ends: a divisor.
const ROUGHNESS_DIVISOR: u64 = 4;
/// Most devices of a stack that are named at all: no real stack is as deep.
const CHAIN_MAX: usize = 64;
/// Most devices side by side that are named one by one. More are only counted.
const MEMBERS_MAX: usize = 4;
/// Mount options that every mount has, or that only say who may mount: they change no number.
const IRRELEVANT_OPTIONS: [&str; 17] = [
    "nosuid",
    "nodev",
    "noexec",
    "seclabel",
    "inode64",
    "attr2",
    "noquota",
    "allow_other",
    "default_permissions",
    "user_id",
    "group_id",
    "addr",
    "clientaddr",
    "mountaddr",
    "mountport",
    "mountproto",
    "mountvers",
];

/// The first line: "skye 0.1.0 · standard · seed 7311 · ada · 2026-11-21 14:03 UTC", and the user's own label.
pub(super) fn title(
    version: &str,
    preset: &str,
    seed: u64,
    host: &str,
    started_at: &str,
    label: Option<&str>,
    style: &Style,
) -> String {
    let when = time::minute(started_at);
    let [version, preset, host] = [version, preset, host].map(printable);
    let mut text = format!("skye {version} · {preset} · seed {seed} · {host} · {when}");
    if let Some(label) = label {
        text.push_str(&format!(" · {}", printable(label)));
    }
    style.finish(text)
}

/// The lines before the tables: target, device, host, plan and notes.
pub(super) fn preamble(plan: &Plan, environment: &Environment, style: &Style) -> String {
    let lines: Vec<_> =
        facts(plan, environment).into_iter().map(|(name, text)| field(name, &text, style)).collect();
    style.finish(lines.join("\n"))
}

/// Returns the preamble as pairs of a name and its text; a pair without a name continues the one before.
/// [`super::wrap::no_break`] joins words that should stay on one line.
pub(crate) fn facts(plan: &Plan, environment: &Environment) -> Vec<(&'static str, String)> {
    let mut facts = environment_facts(environment);
    facts.push(("plan", planned(plan)));
    facts.extend(erased(&environment.target).map(|text| ("erases", text)));
    facts.extend(plan.notes.iter().map(|note| ("note", printable(note))));
    if !environment.hidden_sources.is_empty() {
        let hidden = environment.hidden_sources.join(", ");
        facts.push(("hidden", format!("{}: unreadable here", printable(&hidden))));
    }
    facts
}

/// Renders a target and its devices after a name, in as many lines as they take.
pub fn target_lines(name: &str, of: &Target, style: &Style) -> String {
    let mut lines = vec![field(name, &target(of), style)];
    // A simulated target has no devices.
    if of.backing != Backing::Simulated {
        lines.extend(devices(of).into_iter().map(|line| field("", &line, style)));
    }
    style.finish(lines.join("\n"))
}

/// Renders a text after a name, wrapped to the terminal's width.
pub fn named_line(name: &str, text: &str, style: &Style) -> String {
    field(name, &with_units(text), style)
}

/// Returns the place of the measurement: target, devices, host.
pub(crate) fn environment_facts(environment: &Environment) -> Vec<(&'static str, String)> {
    let mut facts = vec![("target", target(&environment.target))];
    // A simulated device is the same on every machine.
    if environment.target.backing != Backing::Simulated {
        for (index, line) in devices(&environment.target).into_iter().enumerate() {
            facts.push((if index == 0 { "device" } else { "" }, line));
        }
        facts.push(("host", host(environment)));
    }
    facts
}

fn target(target: &Target) -> String {
    let [path, file_system, mount_point] =
        [&target.path, &target.file_system, &target.mount_point].map(|text| printable(text));
    if target.backing == Backing::Simulated {
        let size = no_break(&size::binary(target.space.total_bytes));
        return format!("{path}: the simulated device {}, {size}", printable(&target.source));
    }
    let access_mode = if target.erased.is_some() { "erased" } else { "only read" };
    let existing = format!(
        "{} of {}, {access_mode}",
        target.kind.name(),
        no_break(&size::binary(target.space.total_bytes))
    );
    if target.kind == TargetKind::Device {
        return format!("{path}: {existing}");
    }
    let source = target.top_device().map_or(&target.source, |device| &device.name);
    let mut text = match target.kind {
        TargetKind::File => format!("{path}: {existing}, {file_system}"),
        _ => format!("{path}: {file_system}"),
    };
    // A memory file system's source is only its name again.
    if target.backing != Backing::Memory && !source.is_empty() {
        text.push_str(&format!(" on {}", printable(source)));
    }
    if path != mount_point {
        text.push_str(&format!(", mounted at {mount_point}"));
    }
    let dull = |option: &&String| {
        IRRELEVANT_OPTIONS.contains(&option.split_once('=').map_or(option.as_str(), |(name, _)| name))
    };
    let options: Vec<_> =
        target.mount_options.iter().filter(|option| !dull(option)).map(|o| printable(o)).collect();
    if !options.is_empty() {
        text.push_str(&format!(" ({})", options.join(",")));
    }
    match target.kind {
        TargetKind::File => text,
        _ => format!("{text}, {}", no_break(&free(target))),
    }
}

fn free(target: &Target) -> String {
    let free = size::binary(target.space.free_bytes);
    let total = size::binary(target.space.total_bytes);
    match (free.split_once(' '), total.split_once(' ')) {
        (Some((number, unit)), Some((_, total_unit))) if unit == total_unit => {
            format!("{number} of {total} free")
        }
        _ => format!("{free} of {total} free"),
    }
}

/// Describes the layers below the file system: one line for a plain disk; for others, the chain and then the disks at its
/// end.
fn devices(target: &Target) -> Vec<String> {
    // Documents of older versions have devices alone.
    let is_older = target.layers.is_empty() && !target.device_stack.is_empty();
    let with_layers = is_older.then(|| target.clone().with_device_layers());
    let target = with_layers.as_ref().unwrap_or(target);
    let stack = &target.device_stack;
    let is_on_devices =
        target.layers.iter().all(|layer| matches!(layer.kind, LayerKind::FileSystem | LayerKind::Device));
    let is_disk = stack.len() == 1 || (stack.len() == 2 && stack[0].kind == DeviceKind::Partition);
    if let Some(disk) = stack.last().filter(|_| is_disk && is_on_devices) {
        return vec![describe(disk)];
    }
    if target.layers.len() <= 1 {
        let only = target.layers.first();
        let reason =
            only.and_then(|layer| layer.hidden.as_deref()).map_or("remote or user-space".into(), printable);
        let is_fuse = only.is_some_and(|layer| layer.kind == LayerKind::Fuse);
        return vec![match target.backing {
            Backing::Memory => "none: memory".into(),
            Backing::RemoteOrUserSpace if is_fuse => format!("not known: {reason}"),
            Backing::RemoteOrUserSpace => format!("none on this machine: {reason}"),
            Backing::Simulated => "none: simulated".into(),
            Backing::Devices | Backing::Unknown => "not found".into(),
        }];
    }
    // The line on the target names its file system.
    let first = usize::from(target.layers[0].kind == LayerKind::FileSystem);
    let mut lines = vec![chain(target, first, &mut HashSet::new())];
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    let is_last = |device: &&Device| {
        target.layers.iter().any(|layer| layer.name == device.name && layer.below.is_empty())
    };
    for leaf in stack.iter().filter(|device| device.is_leaf()).filter(is_last) {
        let description = describe(leaf);
        match kinds.iter_mut().find(|(known, _)| *known == description) {
            Some((_, names)) => names.push(&leaf.name),
            None => kinds.push((description, vec![&leaf.name])),
        }
    }
    for (description, names) in kinds {
        let each = if names.len() > 1 { "each " } else { "" };
        lines.push(format!("{}: {each}{description}", members(names.into_iter().map(printable).collect())));
    }
    lines
}

/// "dm-0 (LVM) on dm-1 (LUKS) on nvme0n1p2 of nvme0n1". A layer in `named` is not followed again: the layers of a foreign
/// document may contain themselves.
fn chain(target: &Target, at: usize, named: &mut HashSet<usize>) -> String {
    let Some(layer) = target.layers.get(at) else { return String::new() };
    let mut text = printable(&layer.name);
    if named.len() >= CHAIN_MAX || !named.insert(at) {
        return text;
    }
    let is_it = |device: &&Device| layer.kind == LayerKind::Device && device.name == layer.name;
    let device = target.device_stack.iter().find(is_it);
    let details = device.filter(|_| !layer.below.is_empty()).map_or(&[][..], |device| &device.details);
    let round_trip = round_trip(layer);
    let remarks: Vec<_> =
        details.iter().chain(&round_trip).chain(&layer.hidden).map(|remark| printable(remark)).collect();
    if !remarks.is_empty() {
        text.push_str(&format!(" ({})", remarks.join(", ")));
    }
    let below: Vec<_> = layer.below.iter().map(|below| *below as usize).collect();
    let Some(first) = below.first().and_then(|below| target.layers.get(*below)) else { return text };
    let is_partition = device.is_some_and(|device| device.kind == DeviceKind::Partition);
    let is_of = is_partition || layer.kind == LayerKind::PageCache;
    let word = if is_of { "of" } else { first.kind.properties().preposition };
    let name = |below: usize| target.layers.get(below).map_or(String::new(), |layer| printable(&layer.name));
    let lower: Vec<_> = match below.len() <= MEMBERS_MAX {
        true => below.into_iter().map(|below| chain(target, below, named)).collect(),
        false => below.into_iter().map(name).collect(),
    };
    format!("{text} {word} {}", members(lower))
}

/// "sda", "sda and sdb", "12 devices (sda … sdl)".
fn members(names: Vec<String>) -> String {
    match names.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first, .., last] if names.len() > MEMBERS_MAX => {
            format!("{} devices ({first} to {last})", names.len())
        }
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// "Samsung PM9A3 960 GB, NVMe, scheduler none".
pub(crate) fn describe(device: &Device) -> String {
    let capacity = size::decimal(device.size_bytes);
    let model = device.model.as_deref().map(|model| model.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut parts = vec![match model.filter(|model| !model.is_empty()) {
        Some(model) => format!("{} {capacity}", printable(&model)),
        None => format!("{} {capacity}", printable(&device.name)),
    }];
    let technology = technology(device);
    parts.extend(technology.map(str::to_owned));
    // "virtio disk" says no more than "virtio".
    let says_more = |detail: &&String| technology.is_none_or(|word| **detail != format!("{word} disk"));
    parts.extend(device.details.iter().filter(says_more).map(|detail| printable(detail)));
    parts.extend(device.scheduler.as_deref().map(|name| no_break(&format!("scheduler {}", printable(name)))));
    parts.join(", ")
}

/// "vda (virtio, 275 GB)".
pub(super) fn device_summary(device: &Device) -> String {
    // A sandbox may hide the size.
    let capacity = (device.size_bytes > 0).then(|| size::decimal(device.size_bytes));
    let parts: Vec<_> = technology(device).map(str::to_owned).into_iter().chain(capacity).collect();
    let name = printable(&device.name);
    if parts.is_empty() { name } else { format!("{name} ({})", parts.join(", ")) }
}

/// Returns the technology of a device, if its kind, its name or its rotational flag says so.
fn technology(device: &Device) -> Option<&'static str> {
    match (device.kind, device.rotational) {
        (DeviceKind::Zram, _) => return Some("compressed memory"),
        (DeviceKind::Loop, _) => return Some("loop"),
        _ => {}
    }
    let by_name =
        [("nvme", "NVMe"), ("vd", "virtio"), ("xvd", "Xen"), ("mmcblk", "SD or eMMC"), ("nbd", "network")];
    let known = by_name.iter().find(|(prefix, _)| device.name.starts_with(prefix)).map(|(_, word)| *word);
    known.or(match device.rotational {
        Some(true) => Some("rotational"),
        Some(false) => Some("not rotational"),
        None => None,
    })
}

fn host(environment: &Environment) -> String {
    let mut parts = Vec::new();
    if let Some(cpu) = &environment.cpu_model {
        parts.push(printable(&cpu.split_whitespace().collect::<Vec<_>>().join(" ")));
    }
    parts.push(match (environment.cpus, environment.cpus_online) {
        (1, 1) => "1 CPU".into(),
        (cpus, online) if cpus == online => format!("{cpus} CPUs"),
        (cpus, online) => format!("{cpus} of {online} CPUs"),
    });
    let memory = size::binary(environment.memory_bytes);
    let total = size::binary(environment.memory_total_bytes);
    parts.push(no_break(&if memory == total { memory } else { format!("{memory} of {total}") }));
    parts.push(printable(&environment.kernel));
    parts.extend(environment.virtualisation.as_deref().map(|kind| format!("in {}", printable(kind))));
    parts.join(", ")
}

/// Says on a line that a run erases a device, and which; `None` for other targets.
pub fn erases(target: &Target) -> Option<String> {
    Some(format!("erases {}: all its data is lost", allow_breaks(&erased(target)?)))
}

/// Returns the device to erase, and its contents: "/dev/sda (serial S1, 500 GB, 500107862016 bytes)".
fn erased(target: &Target) -> Option<String> {
    let erased = target.erased.as_ref()?;
    let names = [("serial", &erased.serial), ("WWN", &erased.wwn)].into_iter();
    let mut of_it: Vec<_> = names
        .filter_map(|(name, word)| Some(no_break(&format!("{name} {}", printable(word.as_ref()?)))))
        .collect();
    of_it.push(no_break(&size::decimal(erased.size_bytes)));
    of_it.push(no_break(&format!("{} bytes", erased.size_bytes)));
    let sampled = |what: &str| format!(", which held {what} ({} read)", size::decimal(erased.read_bytes));
    let held = match erased.contents {
        _ if !erased.signatures.is_empty() => {
            format!(", which held {}", printable(&erased.signatures.join(", ")))
        }
        ErasedContents::Unknown => String::new(),
        ErasedContents::Zeros => sampled("only zeros"),
        ErasedContents::EarlierRun => sampled("data of an earlier run of skye"),
        ErasedContents::Data => ", which held unknown data".into(),
    };
    Some(format!("{} ({}){held}", printable(&target.path), of_it.join(", ")))
}

/// Summarises the plan on a line: "11 tests, up to 4 GiB + 64 Ki files, writes up to 40 GB, about 2.5 min".
pub fn plan_line(plan: &Plan) -> String {
    allow_breaks(&planned(plan))
}

fn planned(plan: &Plan) -> String {
    let tests = match plan.phases.len() {
        1 => "1 test".to_owned(),
        tests => format!("{tests} tests"),
    };
    let mut parts = vec![match plan.repetitions {
        0 | 1 => tests,
        repetitions => format!("{tests}, {repetitions} times"),
    }];
    parts.extend(plan.sweep.as_deref().map(|sweep| no_break(&format!("swept over {}", printable(sweep)))));
    let data = plan.dataset.as_ref().map(|dataset| {
        // Each group of files has the size of the data set.
        let bytes = size::binary(dataset.size_bytes_max * dataset.groups.len().max(1) as u64);
        let places = dataset.spread.map_or(String::new(), |spread| format!(" in {} places", spread.places));
        if dataset.size_is_fixed { format!("{bytes}{places}") } else { format!("up to {bytes}{places}") }
    });
    let on_files = plan.phases.iter().filter_map(|phase| phase.workload.files());
    // The files of a load are known where it was read.
    let of_sets = on_files.filter(|files| files.verb != FileVerb::Replay);
    let files = of_sets.map(|files| files.files).max();
    let files = files.map(|files| format!("{} files", size::count(files)));
    let sets: Vec<_> = [data, files].into_iter().flatten().collect();
    if !sets.is_empty() {
        parts.push(no_break(&sets.join(" + ")));
    }
    if plan.bytes_to_write_max > 0 {
        parts.push(no_break(&format!("writes up to {}", size::decimal(plan.all_clients_bytes_max()))));
    }
    // A simulated run takes as long as the arithmetic, and has no estimate.
    let (estimate_ns, spread_ns) = (plan.estimate_ns, plan.estimate_spread_ns);
    let is_rough = spread_ns > estimate_ns / ROUGHNESS_DIVISOR;
    let takes = if is_rough {
        estimate_range(estimate_ns.saturating_sub(spread_ns), estimate_ns + spread_ns)
    } else {
        format_estimate(estimate_ns)
    };
    parts.extend((estimate_ns > 0).then(|| no_break(&takes)));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::plan::Clients;
    use model::target::ErasedDevice;

    fn plain_text(target: Target) -> String {
        let (plan, environment) = sample::plan_for(target);
        sample::plain(&preamble(&plan, &environment, &sample::WIDE))
    }

    #[test]
    fn erased_device_is_listed_with_id_and_contents() {
        let erased = ErasedDevice {
            serial: Some("S1\u{7}2".into()),
            wwn: Some("eui.1".into()),
            size_bytes: 500_107_862_016,
            signatures: vec!["sda: gpt".into(), "sda1: ext4".into()],
            contents: ErasedContents::Data,
            read_bytes: 4096,
        };
        let device = Target { kind: TargetKind::Device, path: "/dev/sda".into(), ..sample::disk() };
        assert_eq!(erases(&device), None);
        for (contents, held) in [
            (ErasedContents::Unknown, ""),
            (ErasedContents::Zeros, ", which held only zeros (4.1 kB read)"),
            (ErasedContents::EarlierRun, ", which held data of an earlier run of skye (4.1 kB read)"),
            (ErasedContents::Data, ", which held unknown data"),
        ] {
            let blank = ErasedDevice { signatures: Vec::new(), contents, ..erased.clone() };
            let target = Target { erased: Some(blank), ..device.clone() };
            assert!(erases(&target).unwrap().contains(&format!(" bytes){held}: all its")), "{held}");
        }
        let target = Target { erased: Some(erased), ..device };
        assert_eq!(
            erases(&target).unwrap(),
            "erases /dev/sda (serial S1\\u{7}2, WWN eui.1, 500 GB, 500107862016 bytes), which held sda: gpt, sda1: ext4: \
             all its data is lost"
        );
        let (plan, _) = sample::plan_for(sample::disk());
        let text = sample::plain(&preamble(&plan, &sample::environment(target), &sample::WIDE));
        assert!(text.contains(", erased\n") && text.contains("erases   /dev/sda (serial"), "{text}");
    }

    #[test]
    fn title_names_the_run() {
        let title_text =
            |label, style| title("0.1.0", "standard", 7311, "ada", "2026-11-21T14:03:07Z", label, style);
        insta::assert_snapshot!(
            [
                title_text(None, &sample::WIDE),
                title_text(Some("before the upgrade"), &sample::WIDE),
                title_text(Some("Zürich"), &sample::ASCII),
                title_text(Some("a\nb\u{202e}c\x1b[2J"), &sample::WIDE),
            ]
            .join("\n")
        );
    }

    #[test]
    fn announced_bytes_are_summed_over_clients() {
        let (mut plan, environment) = sample::plan_for(sample::disk());
        plan.bytes_to_write_max = 5_000_000_000;
        plan.clients = Some(Clients { count: 3, number: None, clients_on_file_system: 1 });
        let text = sample::plain(&preamble(&plan, &environment, &sample::WIDE));
        assert!(text.contains("writes up to 15 GB"), "{text}");
    }

    #[test]
    fn preamble_of_plain_disk() {
        insta::assert_snapshot!(plain_text(sample::disk()));
    }

    #[test]
    fn preamble_of_mapped_disk() {
        insta::assert_snapshot!(plain_text(sample::mapped()));
    }

    #[test]
    fn preamble_of_small_array() {
        insta::assert_snapshot!(plain_text(sample::array(2)));
    }

    #[test]
    fn preamble_of_large_array() {
        insta::assert_snapshot!(plain_text(sample::array(12)));
    }

    #[test]
    fn preamble_of_tmpfs() {
        insta::assert_snapshot!(plain_text(sample::tmpfs()));
    }

    #[test]
    fn preamble_of_sshfs() {
        insta::assert_snapshot!(plain_text(sample::sshfs()));
    }

    #[test]
    fn preamble_of_nfs_server() {
        insta::assert_snapshot!(plain_text(sample::nfs()));
    }

    #[test]
    fn preamble_of_simulated_device() {
        let (plan, environment) = sample::simulated_plan();
        insta::assert_snapshot!(sample::plain(&preamble(&plan, &environment, &sample::WIDE)));
    }

    #[test]
    fn preamble_of_small_virtual_machine() {
        let (mut plan, mut environment) = sample::plan_for(sample::disk());
        (environment.cpus, environment.memory_bytes) = (2, 4 << 30);
        environment.virtualisation = Some("kvm".into());
        environment.hidden_sources = vec!["/proc/pressure".into(), "/proc/schedstat".into()];
        plan.repetitions = 3;
        insta::assert_snapshot!(sample::plain(&preamble(&plan, &environment, &sample::NARROW)));
    }

    #[test]
    fn line_of_cyclic_layers_is_short() {
        let mut target = sample::mapped();
        for layer in &mut target.layers {
            layer.below = vec![0, 1, 2, 3];
        }
        let line = devices(&target).remove(0);
        assert!(line.len() < 400, "{line}");
    }
}
