//! The kernel's search for free memory, and its limit on dirty pages.

use std::fs::File;

use model::run::Reclaim;

use crate::cgroup::Level;
use crate::parse::cgroup::limit_hits;
use crate::parse::vmstat::{self, Paging};
use crate::reading::{read_all, read_start};
use crate::root::Root;

const BUFFER_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Memory {
    vmstat: Option<File>,
    levels: Vec<LevelHits>,
    before: Option<Paging>,
    sum: Option<Reclaim>,
    dirty_threshold_pages: Option<u64>,
}

#[derive(Debug)]
struct LevelHits {
    file: File,
    is_version_2: bool,
    before: Option<u64>,
}

impl Memory {
    pub fn open(root: &Root, levels: &[Level], buffer: &mut Vec<u8>, hidden: &mut Vec<String>) -> Self {
        let vmstat = root.open("proc/vmstat");
        if read_all(vmstat.as_ref(), buffer).and_then(vmstat::paging).is_none() {
            hidden.push("/proc/vmstat: page reclaim and refaults".to_owned());
        }
        let open = |level: &Level| {
            let open = |name: &str| root.open(&format!("{}/{name}", level.directory));
            // `memory.events` of version 2 also counts events in child cgroups, which are not those of skye. Before
            // Linux 5.2 there was no `memory.events.local`. Skye's cgroup has no children, so `memory.events` serves
            // there.
            let file = match level.is_version_2 {
                true => {
                    open("memory.events.local").or_else(|| open("memory.events").filter(|_| level.is_member))
                }
                false => open("memory.failcnt"),
            };
            Some(LevelHits { file: file?, is_version_2: level.is_version_2, before: None })
        };
        let levels = levels.iter().filter_map(open).collect();
        Self { vmstat, levels, before: None, sum: None, dirty_threshold_pages: None }
    }

    pub fn begin(&mut self, buffer: &mut Vec<u8>) {
        self.before = read_all(self.vmstat.as_ref(), buffer).and_then(vmstat::paging);
        for level in &mut self.levels {
            level.before = level.now();
        }
    }

    pub fn end(&mut self, buffer: &mut Vec<u8>) {
        let Some(before) = self.before.take() else { return };
        let Some(now) = read_all(self.vmstat.as_ref(), buffer).and_then(vmstat::paging) else { return };
        self.dirty_threshold_pages = now.dirty_threshold_pages;
        let sum = self.sum.get_or_insert(Reclaim {
            direct_scanned_pages: 0,
            refaulted_pages: 0,
            cgroup_limit_hits: 0,
        });
        sum.direct_scanned_pages += now.direct_scanned_pages.saturating_sub(before.direct_scanned_pages);
        sum.refaulted_pages += now.refaulted_pages.saturating_sub(before.refaulted_pages);
        for level in &mut self.levels {
            if let Some((before, now)) = level.before.take().zip(level.now()) {
                sum.cgroup_limit_hits += now.saturating_sub(before);
            }
        }
    }

    /// Returns the search for memory, and the bytes of dirty pages above which writers are held back.
    pub fn take(&mut self) -> (Option<Reclaim>, Option<u64>) {
        let page_bytes = rustix::param::page_size() as u64;
        let threshold_pages = self.dirty_threshold_pages.take();
        (self.sum.take(), threshold_pages.map(|pages| pages.saturating_mul(page_bytes)))
    }
}

impl LevelHits {
    fn now(&self) -> Option<u64> {
        let mut buffer = [0; BUFFER_BYTES];
        let bytes = read_start(Some(&self.file), &mut buffer)?;
        if self.is_version_2 { limit_hits(bytes) } else { crate::parse::first_number(bytes) }
    }
}
