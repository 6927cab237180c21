//! The machine of a run: mount, devices, settings, and disturbances.

use std::collections::{HashMap, HashSet};

use askama::Template;
use draw::escape;
use model::Run;
use model::size;
use model::target::{Backing, Device, Geometry, Target};

use super::{Markup, rendered};
use crate::numbers::thousands;
use crate::printable;
use crate::text::{allow_breaks, compared, describe, facts as run_facts, fit, noise, tool};

/// Most characters of one value.
const VALUE_MAX: usize = 2_000;
/// Maximum depth of a shown device stack. Each level is a recursive call, and no system has more.
const DEPTH_MAX: usize = 64;

#[derive(Template)]
#[template(path = "machine.html", whitespace = "minimize")]
struct Machine {
    facts: Vec<(&'static str, String)>,
    stack: Option<Markup>,
    mount: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    warnings: Vec<String>,
}

/// Facts below the heading: file system, device, kernel, preset, version.
pub(super) fn facts(run: &Run) -> Vec<String> {
    let target = &run.environment.target;
    let mut facts = vec![printable(&target.file_system)];
    if target.backing != Backing::Simulated {
        let leaves: Vec<_> = target.device_stack.iter().filter(|device| device.is_leaf()).collect();
        match leaves.as_slice() {
            [] => {}
            [one] => facts.push(first_part(one)),
            [first, ..] => facts.push(format!("{} × {}", leaves.len(), first_part(first))),
        }
        facts.push(printable(&run.environment.kernel));
    }
    facts.push(format!("preset {}", printable(&run.plan.preset)));
    facts.push(format!("skye {}", printable(&run.skye_version)));
    facts
}

/// Makes foreign text printable, and cuts it to [`VALUE_MAX`].
fn cut_printable(text: &str) -> String {
    fit(&printable(text), VALUE_MAX)
}

/// Model and size of a device.
fn first_part(device: &Device) -> String {
    allow_breaks(describe(device).split(", ").next().unwrap_or_default())
}

/// The section on the machine.
pub(super) fn section(run: &Run) -> Markup {
    let environment = &run.environment;
    let target = &environment.target;
    // A fact without a name continues the one before.
    let mut facts: Vec<(&'static str, String)> = Vec::new();
    for (name, fact) in run_facts(&run.plan, environment) {
        match facts.last_mut() {
            Some((_, known)) if name.is_empty() => known.push_str(&format!("; {}", allow_breaks(&fact))),
            _ => facts.push((name, allow_breaks(&fact))),
        }
    }
    if target.backing != Backing::Simulated {
        facts.extend(noise(run).map(|text| ("noise", allow_breaks(&text))));
        facts.extend(tool(&run.tool).map(|text| ("tool", allow_breaks(&text))));
    }
    facts.extend(compared(&run.phases).map(|text| ("data", allow_breaks(&text))));
    let settings =
        environment.settings.iter().map(|one| (cut_printable(&one.name), cut_printable(&one.value)));
    let warnings = run.tool.warnings.iter().chain(&target.notes);
    rendered(&Machine {
        facts: facts.into_iter().map(|(name, fact)| (name, fit(&fact, VALUE_MAX))).collect(),
        stack: stack(&target.device_stack).map(Markup),
        mount: mount(target),
        settings: settings.collect(),
        warnings: warnings.map(|warning| cut_printable(warning)).collect(),
    })
}

/// The first device and the devices below it, as nested lists; `None` without devices.
fn stack(devices: &[Device]) -> Option<String> {
    let mut by_name = HashMap::new();
    for device in devices {
        by_name.entry(device.name.as_str()).or_insert(device);
    }
    let top = devices.first()?;
    let mut text = String::new();
    tree(&mut text, top, &by_name, &mut HashSet::new(), DEPTH_MAX);
    Some(text)
}

/// Writes a device and the devices below it, down to `depth` levels. A device in `named` is not followed again: the
/// stack of a foreign document may contain itself.
fn tree<'a>(
    text: &mut String,
    device: &'a Device,
    by_name: &HashMap<&str, &'a Device>,
    named: &mut HashSet<&'a str>,
    depth: usize,
) {
    text.push_str(&format!(
        "<li><b>{}</b> {}",
        escape(&fit(&device.name, VALUE_MAX)),
        escape(&fit(&details(device), VALUE_MAX))
    ));
    if named.insert(&device.name) {
        let below: Vec<&Device> =
            device.backing_devices.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
        if !below.is_empty() && depth == 0 {
            text.push_str("<ul><li>…</li></ul>");
        } else if !below.is_empty() {
            text.push_str("<ul>");
            below.into_iter().for_each(|lower| tree(text, lower, by_name, named, depth - 1));
            text.push_str("</ul>");
        }
    }
    text.push_str("</li>");
}

fn details(device: &Device) -> String {
    let mut parts = Vec::new();
    if device.is_leaf() {
        parts.push(allow_breaks(&describe(device)));
    } else {
        parts.push(size::decimal(device.size_bytes));
        parts.extend(device.details.iter().cloned());
    }
    parts.extend(device.write_cache.iter().map(|cache| format!("cache {cache}")));
    parts.extend(device.nr_requests.map(|requests| format!("{requests} requests")));
    parts.extend(device.read_ahead_bytes.map(|bytes| format!("read-ahead {}", size::binary(bytes))));
    parts.extend(
        device
            .logical_block_bytes
            .zip(device.physical_block_bytes)
            .map(|(logical, physical)| format!("sectors {logical}/{physical}")),
    );
    parts.join(", ")
}

fn mount(target: &Target) -> Vec<(String, String)> {
    let Geometry {
        block_bytes,
        stripe_unit_bytes,
        stripe_width_bytes,
        allocation_groups,
        journal,
        journal_bytes,
        data_checksum,
        features,
    } = &target.geometry;
    let bytes = |bytes: &Option<u64>| bytes.map(size::binary);
    let inodes = target.space.inodes_free.zip(target.space.inodes_total);
    let rows = [
        ("mounted at", Some(target.mount_point.clone())),
        ("source", Some(target.source.clone())),
        ("options", Some(target.mount_options.join(", ")).filter(|options| !options.is_empty())),
        ("free inodes", inodes.map(|(free, total)| format!("{} of {}", thousands(free), thousands(total)))),
        ("block", bytes(block_bytes)),
        ("stripe unit", bytes(stripe_unit_bytes)),
        ("stripe width", bytes(stripe_width_bytes)),
        ("allocation groups", allocation_groups.map(|groups| groups.to_string())),
        ("journal", journal.clone()),
        ("journal size", bytes(journal_bytes)),
        ("checksum of data", data_checksum.clone()),
        ("features", Some(features.join(", ")).filter(|features| !features.is_empty())),
        (
            "direct I/O",
            target.direct_io.map(|direct| match direct.offset_align_bytes {
                0 => "not supported".to_owned(),
                offset => {
                    format!("offsets aligned to {offset} B, buffers to {} B", direct.memory_align_bytes)
                }
            }),
        ),
    ];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), cut_printable(&value?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn stacks_are_nested_lists() {
        let target = sample::mapped();
        let text = stack(&target.device_stack).unwrap();
        assert_eq!((text.matches("<li>").count(), text.matches("<ul>").count()), (4, 3), "{text}");
        assert!(text.contains("<b>dm-1</b> 960 GB, LUKS2 mapping cryptroot"), "{text}");
    }

    #[test]
    fn cyclic_device_stack_drawing_terminates() {
        let mut target = sample::mapped();
        target.device_stack[3].backing_devices = vec!["dm-0".into()];
        let text = stack(&target.device_stack).unwrap();
        assert_eq!(text.matches("<b>dm-0</b>").count(), 2, "{text}");
    }

    #[test]
    fn deep_stacks_are_cut() {
        let one = sample::mapped().device_stack.remove(0);
        let device = |index: usize| Device {
            name: format!("dm-{index}"),
            backing_devices: vec![format!("dm-{}", index + 1)],
            ..one.clone()
        };
        let devices: Vec<_> = (0..100_000).map(device).collect();
        let text = stack(&devices).unwrap();
        assert_eq!(text.matches("<b>").count(), DEPTH_MAX + 1);
        assert_eq!((text.matches("<li>…</li>").count(), text.matches("<ul>").count()), (1, DEPTH_MAX + 1));
        assert_eq!(text.matches("</ul>").count(), DEPTH_MAX + 1);
        let all = stack(&devices[..=DEPTH_MAX]).unwrap();
        assert!(!all.contains('…') && all.contains(&format!("<b>dm-{DEPTH_MAX}</b>")));
    }
}
