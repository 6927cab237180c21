//! `/proc/self/cgroup`, and the limits in the files of a cgroup.

use super::number::value_of;

/// Position of this process in one hierarchy of cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of the hierarchy; empty for version 2.
    pub controllers: Vec<String>,
    /// Path of the cgroup in the hierarchy.
    pub path: String,
}

/// Reads `/proc/self/cgroup`; lines of another form are left out.
pub fn memberships(text: &str) -> Vec<Membership> {
    text.lines().filter_map(membership).collect()
}

fn membership(line: &str) -> Option<Membership> {
    let mut fields = line.splitn(3, ':');
    fields.next()?;
    let controllers = fields.next()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(Membership { controllers, path: fields.next()?.to_owned() })
}

/// Quota of CPU time of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuQuota {
    /// CPUs that it allows.
    pub cpus: f64,
    /// Period in which this time is given out.
    pub period_ns: u64,
}

/// Quota of a `cpu.max` of version 2 ("200000 100000"); absent for "max".
pub fn cpu_max(text: &str) -> Option<CpuQuota> {
    let mut fields = text.split_whitespace();
    cpu_quota(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)
}

/// Quota of this time in each period, both in microseconds; absent without a quota, which reads −1.
pub fn cpu_quota(quota_us: i64, period_us: i64) -> Option<CpuQuota> {
    let period_ns = period_us.max(0) as u64 * 1000;
    let cpus = quota_us as f64 / period_us as f64;
    (quota_us > 0 && period_us > 0).then_some(CpuQuota { cpus, period_ns })
}

/// Bytes of a limit; absent for "max" and for the huge number that version 1 shows without a limit.
pub fn limit_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 62)
}

/// Reads a device's limits from the `io.max` of version 2 ("8:0 rbps=1048576 wbps=max riops=max wiops=120").
/// The order is bytes read, bytes written, reads and writes per second.
pub fn io_max(text: &str, major: u32, minor: u32) -> [Option<u64>; 4] {
    let device = format!("{major}:{minor}");
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(&device)?.strip_prefix(' '));
    ["rbps=", "wbps=", "riops=", "wiops="].map(|key| {
        let mut words = rest?.split_whitespace();
        words.find_map(|word| word.strip_prefix(key)?.parse().ok())
    })
}

/// Reads a device's limit from a `blkio.throttle.*_device` of version 1 ("8:0 1048576").
pub fn throttle(text: &str, major: u32, minor: u32) -> Option<u64> {
    let device = format!("{major}:{minor}");
    text.lines().find_map(|line| line.trim().strip_prefix(&device)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Reads from a `cpu.stat` how long tasks were throttled. Version 1 counts nanoseconds, version 2
/// microseconds. Both count each throttled CPU separately.
pub fn throttled_ns(bytes: &[u8]) -> Option<u64> {
    let since_version_2 = || value_of(bytes, b"throttled_usec ").map(|us| us.saturating_mul(1000));
    value_of(bytes, b"throttled_time ").or_else(since_version_2)
}

/// Reads from a `cpu.stat` of either version in how many periods the quota was used up.
pub fn throttled_periods(bytes: &[u8]) -> Option<u64> {
    value_of(bytes, b"nr_throttled ")
}

/// Reads from a `memory.events` of version 2 how often `memory.high` or `memory.max` was reached.
pub fn limit_hits(bytes: &[u8]) -> Option<u64> {
    Some(value_of(bytes, b"max ")?.saturating_add(value_of(bytes, b"high ").unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        CpuQuota, cpu_max, cpu_quota, io_max, limit_bytes, limit_hits, memberships, throttle, throttled_ns,
        throttled_periods,
    };

    #[test]
    fn memberships_of_both_cgroup_versions_are_parsed() {
        let found = memberships("4:memory:/docker/ab\n2:cpu,cpuacct:/\n0::/user.slice/a:b.scope\nnonsense\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
        assert!(found[2].controllers.is_empty());
        assert_eq!(found[2].path, "/user.slice/a:b.scope");
    }

    #[test]
    fn cpu_and_memory_limits_are_parsed() {
        let quota = CpuQuota { cpus: 2.5, period_ns: 100_000_000 };
        assert_eq!(cpu_max("250000 100000\n"), Some(quota));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_quota(-1, 100_000), None);
        assert_eq!(throttled_periods(b"nr_periods 20\nnr_throttled 17\n"), Some(17));
        assert_eq!(limit_bytes("4294967296\n"), Some(4 << 30));
        assert_eq!(limit_bytes("max\n"), None);
        assert_eq!(limit_bytes("9223372036854771712\n"), None);
    }

    #[test]
    fn io_max_and_throttle_lines_are_parsed() {
        let text = "8:16 rbps=1 wbps=2 riops=3 wiops=4\n8:1 rbps=max wbps=1048576 riops=max wiops=120\n";
        assert_eq!(io_max(text, 8, 1), [None, Some(1_048_576), None, Some(120)]);
        assert_eq!(io_max(text, 8, 16), [Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!(io_max(text, 8, 0), [None; 4]);
        assert_eq!(throttle("8:16 500\n8:1 77\n", 8, 1), Some(77));
        assert_eq!(throttle("8:16 500\n", 8, 1), None);
    }

    #[test]
    fn throttling_counters_of_both_versions_are_parsed() {
        let version_1 = b"nr_periods 30\nnr_throttled 29\nthrottled_time 2412345678\n";
        assert_eq!(throttled_ns(version_1), Some(2_412_345_678));
        let version_2 = b"usage_usec 9\nuser_usec 8\nsystem_usec 1\nnr_periods 30\nnr_throttled 29\n\
                          throttled_usec 2412345\nnr_bursts 0\nburst_usec 0\n";
        assert_eq!(throttled_ns(version_2), Some(2_412_345_000));
        assert_eq!(throttled_ns(b"usage_usec 9\n"), None);
        assert_eq!(limit_hits(b"low 0\nhigh 7\nmax 41\noom 0\noom_kill 0\noom_group_kill 0\n"), Some(48));
        assert_eq!(limit_hits(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in "(throttled_time |throttled_usec |max |high )[0-9]{0,30}\n?") {
            throttled_ns(bytes.as_bytes());
            limit_hits(bytes.as_bytes());
        }

        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n){0,100}|[0-9 -]{0,50}|8:1 [a-z=0-9 ]{0,50}") {
            memberships(&text);
            cpu_max(&text);
            limit_bytes(&text);
            io_max(&text, 8, 1);
            throttle(&text, 8, 1);
        }
    }
}
