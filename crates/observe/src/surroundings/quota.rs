//! Time for which a CPU quota held back the tasks of our cgroups.

use std::fs::File;

use crate::cgroup::Level;
use crate::parse::cgroup::{cpu_max, cpus, throttled_ns};
use crate::reading::beginning;
use crate::root::Root;

const BUFFER_BYTES: usize = 1024;

#[derive(Debug)]
pub(super) struct Quota {
    levels: Vec<LevelQuota>,
}

#[derive(Debug)]
struct LevelQuota {
    /// File of the quota, which may be set and lifted at any time.
    limit: File,
    /// File of the period; only version 1 has one.
    period: Option<File>,
    stat: File,
    before_ns: Option<u64>,
    sum_ns: Option<u64>,
}

impl Quota {
    pub fn open(root: &Root, levels: &[Level]) -> Self {
        let open = |level: &Level| {
            let limit = if level.version_2 { "cpu.max" } else { "cpu.cfs_quota_us" };
            let open = |name: &str| root.open(&format!("{}/{name}", level.directory));
            Some(LevelQuota {
                limit: open(limit)?,
                period: if level.version_2 { None } else { open("cpu.cfs_period_us") },
                stat: open("cpu.stat")?,
                before_ns: None,
                sum_ns: None,
            })
        };
        Self { levels: levels.iter().filter_map(open).collect() }
    }

    pub fn begin(&mut self) {
        for level in &mut self.levels {
            level.before_ns = level.cpus().and_then(|_| level.throttled_ns());
        }
    }

    pub fn end(&mut self) {
        for level in &mut self.levels {
            if let Some((before_ns, now_ns)) = level.before_ns.take().zip(level.throttled_ns()) {
                *level.sum_ns.get_or_insert_default() += now_ns.saturating_sub(before_ns);
            }
        }
    }

    /// Returns the throttled time and the CPU quota of the cgroup that was throttled longest. A throttled
    /// cgroup holds back all cgroups below it as well.
    pub fn take(&mut self) -> Option<(u64, Option<f64>)> {
        let held = self.levels.iter_mut().filter_map(|level| Some((level.sum_ns.take()?, level.cpus())));
        held.max_by_key(|(held_ns, _)| *held_ns)
    }
}

impl LevelQuota {
    /// Returns the CPUs that the quota allows, if there is one.
    fn cpus(&self) -> Option<f64> {
        let mut buffer = [0; BUFFER_BYTES];
        let Some(period) = &self.period else {
            return cpu_max(text(&self.limit, &mut buffer)?);
        };
        let quota_us = text(&self.limit, &mut buffer)?.trim().parse().ok()?;
        let period_us = text(period, &mut buffer)?.trim().parse().ok()?;
        cpus(quota_us, period_us)
    }

    fn throttled_ns(&self) -> Option<u64> {
        let mut buffer = [0; BUFFER_BYTES];
        beginning(Some(&self.stat), &mut buffer).and_then(throttled_ns)
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    std::str::from_utf8(beginning(Some(file), buffer)?).ok()
}
