//! Names and their placeholders.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use model::layer::LayerKind;
use model::request::{Allow, PRESETS};
use model::target::DeviceKind;
use model::{Target, spec};

use super::fields::Field;

/// Host names that skye or many machines have. They identify nothing, and sentences have the same words.
const COMMON_HOSTS: &[&str] = &["local", "localhost", "skye", "vm", "linux", "debian", "ubuntu", "server"];
/// Sources of mounts that are no names.
const COMMON_SOURCES: &[&str] = &["none", "tmpfs", "overlay", "sim", "rootfs"];
/// Directories that exist on every machine.
const COMMON_PATHS: &[&str] =
    &["/", "/dev/null", "/dev/stdout", "/dev/stderr", "/tmp", "/var/tmp", "/dev/shm"];
/// First parts of names that the kernel gives to block devices (Documentation/admin-guide/devices.txt, and drivers/block).
const DEVICES: &[&str] = &[
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "md", "dm-", "loop", "zram", "nbd", "ram", "pmem", "sr",
    "bcache", "drbd", "rbd", "nullb", "ublkb", "dasd", "zd", "fd",
];
/// Options of mounts whose value is a word of the kernel. Other values than numbers become placeholders.
const OPTIONS: &[&str] = &[
    "cache",
    "commit",
    "compress",
    "compress-force",
    "data",
    "discard",
    "errors",
    "fsc",
    "huge",
    "journal",
    "local_lock",
    "lookupcache",
    "mountproto",
    "nfsvers",
    "posix",
    "proto",
    "redirect_dir",
    "sec",
    "size",
    "space_cache",
    "vers",
    "xino",
    "xprtsec",
    "alloc_mode",
    "background_gc",
    "compress_algorithm",
    "fsync_mode",
    "index",
    "metacopy",
    "mode",
    "uuid",
];
/// Directory of the kernel's control groups.
const CGROUPS: &str = "/sys/fs/cgroup/";
/// Controllers of control groups, and other first words of their files.
const CONTROLLERS: &[&str] = &[
    "blkio", "cgroup", "cpu", "cpuacct", "cpuset", "freezer", "hugetlb", "io", "irq", "memory", "misc",
    "pids", "rdma",
];
/// Characters that end a path in a sentence.
const PATH_ENDS: &str = "\"'`()<>[]{}|,;:=";

/// Names that were found, and the placeholder of each.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Placeholders by kind and name.
    placeholders: BTreeMap<(&'static str, String), String>,
    /// Highest number of each kind.
    counts: BTreeMap<&'static str, u32>,
    /// Names that are replaced in sentences, the longest first.
    in_sentences: Vec<(String, String)>,
    /// Directories of the targets, the longest first.
    targets: Vec<(String, String)>,
    /// Words of a command line that stay.
    words: BTreeSet<String>,
}

impl Names {
    /// Adds the path of a target, and names in the details of its devices.
    pub(super) fn add_target(&mut self, target: &Target) {
        let is_known = self.targets.iter().any(|(path, _)| *path == target.path);
        if target.path.starts_with('/') && !is_known && !is_common(&target.path) {
            let placeholder = match self.targets.len() {
                0 => "/target".into(),
                others => format!("/target-{}", others + 1),
            };
            insert_by_length(&mut self.targets, &target.path, &placeholder);
            let name = target.path.rsplit('/').next().unwrap_or_default();
            if is_distinctive(name) {
                insert_by_length(&mut self.in_sentences, name, placeholder.trim_start_matches('/'));
            }
        }
        for device in target.device_stack.iter().filter(|device| device.kind == DeviceKind::DeviceMapper) {
            // The first detail has the kind and then the name of the mapping.
            let detail = device.details.first().and_then(|detail| detail.rsplit_once(' '));
            if let Some((_, name)) = detail {
                self.add_mapping(name);
            }
        }
        for device in target.device_stack.iter().filter(|device| device.kind == DeviceKind::Loop) {
            for file in device.details.iter().filter_map(|detail| detail.strip_prefix("file ")) {
                self.path(file.strip_suffix(" (deleted)").unwrap_or(file));
            }
        }
        for layer in target.layers.iter().filter(|layer| layer.kind == LayerKind::Device) {
            if !is_device(&layer.name) {
                self.add_mapping(&layer.name);
            }
        }
    }

    fn add_mapping(&mut self, name: &str) {
        let placeholder = self.placeholder("mapping", name);
        insert_by_length(&mut self.in_sentences, name, &placeholder);
    }

    /// Returns a text with placeholders for its names.
    pub(super) fn replace(&mut self, field: Field, text: &str) -> String {
        match field {
            _ if text.is_empty() => String::new(),
            Field::Plain => text.to_owned(),
            Field::Text => self.in_text(text),
            Field::Host => self.place(text),
            Field::Path => self.path(text),
            Field::Source => self.source(text),
            Field::MountOption => self.mount_option(text),
            Field::Serial => self.placeholder_in_sentences("serial", text),
            Field::Label => match is_distinctive(text) {
                true => self.placeholder_in_sentences("label", text),
                false => self.placeholder("label", text),
            },
            Field::Command => self.placeholder("command", text),
            Field::Word => self.word(text),
            Field::Preset => match PRESETS.iter().any(|(name, _)| *name == text) || text == "custom" {
                true => self.keep(text),
                false => self.placeholder_in_sentences("preset", text),
            },
            Field::Test => self.test(text),
            Field::File => String::new(),
        }
    }

    fn placeholder(&mut self, kind: &'static str, name: &str) -> String {
        if let Some(placeholder) = self.placeholders.get(&(kind, name.to_owned())) {
            return placeholder.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let placeholder = format!("{kind}-{count}");
        self.placeholders.insert((kind, name.to_owned()), placeholder.clone());
        placeholder
    }

    /// Returns the placeholder of a name that sentences may have.
    fn placeholder_in_sentences(&mut self, kind: &'static str, name: &str) -> String {
        let placeholder = self.placeholder(kind, name);
        insert_by_length(&mut self.in_sentences, name, &placeholder);
        placeholder
    }

    fn keep(&mut self, word: &str) -> String {
        self.words.insert(word.to_owned());
        word.to_owned()
    }

    /// Replaces a client, a server, or a host with a directory: `user@host#2`, `nas:/export`.
    fn place(&mut self, text: &str) -> String {
        if let Some((host, directory)) = text.split_once(":/") {
            return format!("{}:{}", self.place(host), self.path(&format!("/{directory}")));
        }
        let is_number =
            |number: &&str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        match text.split_once('#').filter(|(_, number)| is_number(number)) {
            Some((host, number)) => format!("{}#{number}", self.host(host)),
            None => self.host(text),
        }
    }

    fn host(&mut self, text: &str) -> String {
        if let Some((user, host)) = text.rsplit_once('@').filter(|(_, host)| !host.is_empty()) {
            let user = match user {
                "root" => user.to_owned(),
                user => self.placeholder_in_sentences("user", user),
            };
            return format!("{user}@{}", self.host(host));
        }
        if COMMON_HOSTS.contains(&text) {
            return match text {
                "local" | "localhost" => text.to_owned(),
                _ => self.placeholder("host", text),
            };
        }
        let placeholder = self.placeholder_in_sentences("host", text);
        // Messages of a host have its name without the domain.
        let first = text.split('.').next().unwrap_or_default();
        if first != text
            && first.len() > 2
            && text.parse::<IpAddr>().is_err()
            && !COMMON_HOSTS.contains(&first)
        {
            let known =
                self.placeholders.entry(("host", first.to_owned())).or_insert(placeholder.clone()).clone();
            insert_by_length(&mut self.in_sentences, first, &known);
        }
        placeholder
    }

    fn source(&mut self, text: &str) -> String {
        if let Some((host, share)) = text.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
            return format!("//{}/{}", self.host(host), self.placeholder("share", share));
        }
        match text.split_once(":/") {
            _ if text.starts_with('/') => self.path(text),
            Some((host, path)) => {
                let host = self.host(host.trim_matches(['[', ']']));
                format!("{host}:{}", self.path(&format!("/{path}")))
            }
            None if COMMON_SOURCES.contains(&text) => text.to_owned(),
            None if is_distinctive(text) => self.placeholder_in_sentences("source", text),
            None => self.placeholder("source", text),
        }
    }

    fn mount_option(&mut self, text: &str) -> String {
        let Some((key, value)) = text.split_once('=') else { return text.to_owned() };
        let is_number = value.starts_with(|first: char| first.is_ascii_digit())
            && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"%:".contains(&byte));
        let value = match key {
            _ if value.is_empty() || is_number && value.parse::<IpAddr>().is_err() => value.to_owned(),
            _ if OPTIONS.contains(&key) => value.to_owned(),
            "addr" | "clientaddr" | "mountaddr" => self.host(value),
            _ => self.placeholder("value", value),
        };
        format!("{key}={value}")
    }

    /// Replaces the file of a test: `replay:loads/client.txt:t8`, `mix:mine.toml`.
    fn test(&mut self, text: &str) -> String {
        let mut words: Vec<_> = text.split(':').map(str::to_owned).collect();
        let kind = match words[0].as_str() {
            "replay" => Some("load"),
            "mix" if model::mix::file_of(text).is_some() => Some("mix"),
            _ => None,
        };
        let (Some(kind), Some(path)) = (kind, words.get(1).cloned()) else { return self.keep(text) };
        let name = path.rsplit('/').next().unwrap_or(&path);
        let ending = if kind == "mix" { "toml" } else { "txt" };
        let placeholder = self.placeholder(kind, &path);
        let file = format!("{placeholder}.{ending}");
        insert_by_length(&mut self.in_sentences, &path, &file);
        insert_by_length(&mut self.in_sentences, name, &file);
        // Tables have its name without the ending.
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        insert_by_length(&mut self.in_sentences, stem, &placeholder);
        words[1] = file;
        words.join(":")
    }

    /// Replaces a word of a command line, unless it is an option, a number, a test or an allowance.
    fn word(&mut self, text: &str) -> String {
        let name = text.rsplit('/').next().unwrap_or(text);
        let is_program = ["skye", "run", "ab", "report", "fio"].contains(&name);
        match text.split_once('=') {
            _ if is_program => return name.to_owned(),
            _ if is_size(text) || is_option(text) || self.words.contains(text) => return text.to_owned(),
            _ if text.starts_with('/') => return self.path(text),
            Some((option, value)) if is_option(option) => return format!("{option}={}", self.word(value)),
            _ => {}
        }
        let known = self.placeholders.iter().find(|((_, name), _)| name == text);
        match known.map(|(_, placeholder)| placeholder.clone()) {
            Some(placeholder) => placeholder,
            None if is_allowance(text) || is_test(text) => text.to_owned(),
            None => self.placeholder("word", text),
        }
    }

    /// Replaces a path, unless it is the kernel's.
    fn path(&mut self, text: &str) -> String {
        for (target, placeholder) in &self.targets {
            match text.strip_prefix(target.as_str()) {
                Some("") => return placeholder.clone(),
                // Names below are skye's own.
                Some(rest) if rest.starts_with("/skye.") => return format!("{placeholder}{rest}"),
                _ => {}
            }
        }
        if let Some(rest) = text.strip_prefix(CGROUPS) {
            return format!("{CGROUPS}{}", self.group(rest));
        }
        match text {
            _ if is_common(text) => {
                let part =
                    |part| if is_uuid(part) { self.placeholder("uuid", part) } else { part.to_owned() };
                text.split('/').map(part).collect::<Vec<_>>().join("/")
            }
            _ if text.starts_with('/') => {
                let placeholder = format!("/{}", self.placeholder("path", text));
                // The end of such a path does not show in a sentence.
                if text.contains(ends_path) {
                    insert_by_length(&mut self.in_sentences, text, &placeholder);
                }
                placeholder
            }
            _ => match text.split_once(':') {
                Some(("sim", file)) => format!("sim:{}", self.placeholder("device", file)),
                _ => self.placeholder("file", text),
            },
        }
    }

    /// Replaces the groups between the controller of version 1 and the file.
    fn group(&mut self, text: &str) -> String {
        let is_controller = |part: &&str| part.split(',').all(|word| CONTROLLERS.contains(&word));
        let is_file = |part: &&str| part.split_once('.').is_some_and(|(word, _)| CONTROLLERS.contains(&word));
        let mut groups: Vec<_> = text.split('/').collect();
        let first = groups.first().copied().filter(is_controller);
        groups.drain(..first.iter().len());
        let last = groups.last().copied().filter(is_file);
        groups.truncate(groups.len() - last.iter().len());
        let group = (!groups.is_empty()).then(|| self.placeholder("cgroup", &groups.join("/")));
        let parts = first.into_iter().chain(group.as_deref()).chain(last);
        parts.collect::<Vec<_>>().join("/")
    }

    /// Replaces the names, paths, addresses and identifiers in a sentence.
    fn in_text(&mut self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let (mut at, mut before) = (0, None);
        while let Some(letter) = text[at..].chars().next() {
            let rest = &text[at..];
            let length = match self.name_at(before, rest) {
                Some((length, placeholder)) => {
                    replaced.push_str(&placeholder);
                    length
                }
                None => {
                    replaced.push(letter);
                    letter.len_utf8()
                }
            };
            before = rest[..length].chars().next_back();
            at += length;
        }
        replaced
    }

    /// Returns the length of the name at the beginning of a text, and its placeholder.
    fn name_at(&mut self, before: Option<char>, text: &str) -> Option<(usize, String)> {
        let first = text.chars().next()?;
        if first.is_alphanumeric() && before.is_some_and(char::is_alphanumeric) {
            return None;
        }
        let is_whole = |name: &str| {
            let joins = name.ends_with(char::is_alphanumeric)
                && text[name.len()..].starts_with(char::is_alphanumeric);
            text.starts_with(name) && !joins
        };
        let known =
            self.in_sentences.iter().find(|(name, _)| text.starts_with(name.as_str()) && is_whole(name));
        if let Some((name, placeholder)) = known {
            return Some((name.len(), placeholder.clone()));
        }
        let begins_path = before.is_none_or(|before| before.is_whitespace() || PATH_ENDS.contains(before));
        if first == '/' && begins_path {
            let length = self.path_length(text);
            return (length > 1).then(|| (length, self.path(&text[..length])));
        }
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
        let word = &text[..text.find(|letter| !is_part(letter)).unwrap_or(text.len())];
        let word = word.trim_end_matches(['.', '-']);
        match word {
            _ if is_address(word) => Some((word.len(), self.placeholder("host", word))),
            _ if is_uuid(word) => Some((word.len(), self.placeholder("uuid", word))),
            _ => None,
        }
    }

    /// Returns the length of the path at the beginning of a sentence. The path of a target may have any character.
    fn path_length(&self, text: &str) -> usize {
        let is_end =
            |rest: &str| rest.chars().next().is_none_or(|next| ends_path(next) || "/.!?".contains(next));
        let target =
            self.targets.iter().find(|(path, _)| text.strip_prefix(path.as_str()).is_some_and(is_end));
        let known = target.map_or(0, |(path, _)| path.len());
        let length = known + text[known..].find(ends_path).unwrap_or(text.len() - known);
        known.max(text[..length].trim_end_matches(['.', '!', '?', '…']).len())
    }
}

/// Adds a name before all that are shorter.
fn insert_by_length(names: &mut Vec<(String, String)>, name: &str, placeholder: &str) {
    if !name.is_empty() && !names.iter().any(|(known, _)| known == name) {
        let at = names.partition_point(|(known, _)| known.len() >= name.len());
        names.insert(at, (name.to_owned(), placeholder.to_owned()));
    }
}

/// Returns true for a name that no sentence has by chance.
fn is_distinctive(name: &str) -> bool {
    name.len() >= 4 && name.contains(|letter: char| !letter.is_ascii_alphabetic())
}

/// Returns true for a path that exists on every machine, or that the kernel has named.
fn is_common(path: &str) -> bool {
    let is_kernels = ["/proc/", "/sys/", "/dev/shm/skye."].iter().any(|start| path.starts_with(start));
    COMMON_PATHS.contains(&path) || is_kernels || path.strip_prefix("/dev/").is_some_and(is_device)
}

/// Returns true for a name that the kernel gives to a block device.
fn is_device(name: &str) -> bool {
    let is_rest =
        |rest: &str| rest.len() <= 9 && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    DEVICES.iter().any(|start| name.strip_prefix(start).is_some_and(is_rest))
}

/// Returns true for a character that ends a path in a sentence.
fn ends_path(letter: char) -> bool {
    letter.is_whitespace() || letter.is_control() || PATH_ENDS.contains(letter)
}

fn is_option(word: &str) -> bool {
    word.starts_with('-') && word.bytes().all(|byte| byte.is_ascii_lowercase() || b"-+".contains(&byte))
}

fn is_allowance(word: &str) -> bool {
    word.split(',').all(|word| Allow::WORDS.iter().any(|(known, _)| *known == word))
}

/// Returns true for a test without a file.
fn is_test(word: &str) -> bool {
    let has_file = word.starts_with("replay:") || model::mix::file_of(word).is_some() || word.contains('/');
    !has_file && spec::parse(word, &spec::Defaults::default()).is_ok()
}

/// Returns true for a number with its unit: `20`, `99.9`, `16g`, `200MB/s`.
fn is_size(word: &str) -> bool {
    let unit = word.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    unit.len() < word.len()
        && ["", "k", "m", "g", "t", "s", "ms", "%"].contains(&unit.to_lowercase().as_str())
        && word.parse::<IpAddr>().is_err()
}

fn is_address(word: &str) -> bool {
    word.parse::<std::net::Ipv4Addr>().is_ok()
}

fn is_uuid(word: &str) -> bool {
    let lengths = word.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12]) && word.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}
