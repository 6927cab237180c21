//! Settings of the machine that change what a storage test measures.

use std::path::Path;

use model::run::Setting;

use crate::root::Root;

/// Name in the run document, and the file that holds the value.
const FILES: &[(&str, &str)] = &[
    ("clocksource", "sys/devices/system/clocksource/clocksource0/current_clocksource"),
    ("vm.dirty_ratio", "proc/sys/vm/dirty_ratio"),
    ("vm.dirty_background_ratio", "proc/sys/vm/dirty_background_ratio"),
    ("vm.dirty_bytes", "proc/sys/vm/dirty_bytes"),
    ("vm.dirty_background_bytes", "proc/sys/vm/dirty_background_bytes"),
    ("vm.dirty_expire_centisecs", "proc/sys/vm/dirty_expire_centisecs"),
    ("vm.dirty_writeback_centisecs", "proc/sys/vm/dirty_writeback_centisecs"),
    ("vm.vfs_cache_pressure", "proc/sys/vm/vfs_cache_pressure"),
    ("vm.swappiness", "proc/sys/vm/swappiness"),
    ("kernel.task_delayacct", "proc/sys/kernel/task_delayacct"),
    ("kernel.io_uring_disabled", "proc/sys/kernel/io_uring_disabled"),
    ("cpu.governor", "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    ("cpu.driver", "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver"),
    ("cpu.smt", "sys/devices/system/cpu/smt/control"),
];

/// Settings that show one choice of several, in brackets: "always [madvise] never".
const CHOICES: &[(&str, &str)] = &[
    ("transparent_hugepage", "sys/kernel/mm/transparent_hugepage/enabled"),
    ("transparent_hugepage.shmem", "sys/kernel/mm/transparent_hugepage/shmem_enabled"),
];

/// Returns the settings that this machine shows, always in the same order.
pub fn settings(root: &Root) -> Vec<Setting> {
    let files = FILES.iter().filter_map(|(name, path)| Some((name, root.line(path)?)));
    let choices =
        CHOICES.iter().filter_map(|(name, path)| Some((name, chosen(&root.line(path)?)?.to_owned())));
    files.chain(choices).map(|(name, value)| Setting { name: (*name).to_owned(), value }).collect()
}

/// Files of a device's queue whose values are in its [`model::target::Device`].
const OF_QUEUE: &[&str] = &["scheduler", "nr_requests", "read_ahead_kb", "write_cache"];

/// Returns true if each document has the value of this file.
pub fn is_recorded(file: &Path) -> bool {
    let is_file = |(_, path): &(&str, &str)| file == Path::new("/").join(path);
    let is_of_queue = file.parent().is_some_and(|parent| parent.ends_with("queue"))
        && OF_QUEUE.iter().any(|name| file.ends_with(name));
    is_of_queue || FILES.iter().chain(CHOICES).any(is_file)
}

/// Returns the word in brackets, or the only word.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    let bracketed = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    bracketed.or_else(|| {
        let mut words = text.split_whitespace();
        words.next().filter(|_| words.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;

    #[test]
    fn selected_value_is_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber"), Some("mq-deadline"));
        assert_eq!(chosen("none"), Some("none"));
        assert_eq!(chosen("a b"), None);
        assert_eq!(chosen(""), None);
    }

    #[test]
    fn recorded_files_are_known() {
        let is_recorded = |path: &str| is_recorded(Path::new(path));
        assert!(is_recorded("/proc/sys/vm/dirty_bytes") && is_recorded("/sys/block/sda/queue/scheduler"));
        assert!(!is_recorded("/sys/block/sda/queue/rq_affinity") && !is_recorded("/proc/sys/vm/laptop_mode"));
    }

    #[test]
    fn running_system_has_settings() {
        let settings = settings(&Root::system());
        assert!(settings.iter().any(|setting| setting.name == "vm.dirty_ratio"));
        assert!(settings.iter().all(|setting| !setting.value.is_empty()));
    }
}
