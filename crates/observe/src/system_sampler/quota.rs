//! Use of the CPU quota of our cgroups.

use std::fs::File;

use crate::cgroup::Level;
use crate::parse::cgroup::{CpuQuota, cpu_max, cpu_quota, throttled_ns, throttled_periods};
use crate::reading::read_start;
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
    before: Option<ThrottleCounters>,
    sum: Option<ThrottleCounters>,
}

/// Use of the quota of a cgroup.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct QuotaUse {
    /// CPUs that the quota allows, if there still is one.
    pub cpus: Option<f64>,
    /// Time in which tasks were held back; each CPU counts for itself.
    pub throttled_ns: u64,
    /// Length of the periods in which the quota was used up.
    pub used_up_ns: u64,
}

/// Counters of a cgroup.
#[derive(Debug, Clone, Copy, Default)]
struct ThrottleCounters {
    time_ns: u64,
    periods: u64,
}

impl Quota {
    pub fn open(root: &Root, levels: &[Level]) -> Self {
        let open = |level: &Level| {
            let limit = if level.is_version_2 { "cpu.max" } else { "cpu.cfs_quota_us" };
            let open = |name: &str| root.open(&format!("{}/{name}", level.directory));
            Some(LevelQuota {
                limit: open(limit)?,
                period: if level.is_version_2 { None } else { open("cpu.cfs_period_us") },
                stat: open("cpu.stat")?,
                before: None,
                sum: None,
            })
        };
        Self { levels: levels.iter().filter_map(open).collect() }
    }

    pub fn begin(&mut self) {
        for level in &mut self.levels {
            level.before = level.quota().and_then(|_| level.throttled());
        }
    }

    pub fn end(&mut self) {
        for level in &mut self.levels {
            if let Some((before, now)) = level.before.take().zip(level.throttled()) {
                let sum = level.sum.get_or_insert_default();
                sum.time_ns += now.time_ns.saturating_sub(before.time_ns);
                sum.periods += now.periods.saturating_sub(before.periods);
            }
        }
    }

    /// Returns the use of the quota of the cgroup that was throttled longest. A throttled cgroup holds back all
    /// cgroups below it as well.
    pub fn take(&mut self) -> Option<QuotaUse> {
        let used = self.levels.iter_mut().filter_map(|level| {
            let (sum, quota) = (level.sum.take()?, level.quota());
            let period_ns = quota.map_or(0, |quota| quota.period_ns);
            Some(QuotaUse {
                cpus: quota.map(|quota| quota.cpus),
                throttled_ns: sum.time_ns,
                used_up_ns: sum.periods.saturating_mul(period_ns),
            })
        });
        used.max_by_key(|used| used.throttled_ns)
    }
}

impl LevelQuota {
    /// Returns the quota, if there is one.
    fn quota(&self) -> Option<CpuQuota> {
        let mut buffer = [0; BUFFER_BYTES];
        let Some(period) = &self.period else {
            return cpu_max(text(&self.limit, &mut buffer)?);
        };
        let quota_us = text(&self.limit, &mut buffer)?.trim().parse().ok()?;
        let period_us = text(period, &mut buffer)?.trim().parse().ok()?;
        cpu_quota(quota_us, period_us)
    }

    fn throttled(&self) -> Option<ThrottleCounters> {
        let mut buffer = [0; BUFFER_BYTES];
        let text = read_start(Some(&self.stat), &mut buffer)?;
        Some(ThrottleCounters { time_ns: throttled_ns(text)?, periods: throttled_periods(text).unwrap_or(0) })
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    std::str::from_utf8(read_start(Some(file), buffer)?).ok()
}
