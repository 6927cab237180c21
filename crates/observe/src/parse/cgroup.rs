//! `/proc/self/cgroup`, and the limits in the files of a cgroup.

/// Where this process is in one hierarchy of cgroups.
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

/// CPUs that a `cpu.max` of version 2 ("200000 100000") allows; absent for "max".
pub fn cpu_max(text: &str) -> Option<f64> {
    let mut fields = text.split_whitespace();
    cpus(fields.next()?.parse().ok()?, fields.next()?.parse().ok()?)
}

/// CPUs that a quota and its period in microseconds allow; absent for none, which is −1.
pub fn cpus(quota_us: i64, period_us: i64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// Bytes of a limit; absent for "max" and for the huge number that version 1 shows for none.
pub fn limit_bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 62)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{cpu_max, cpus, limit_bytes, memberships};

    #[test]
    fn both_versions() {
        let found = memberships("4:memory:/docker/ab\n2:cpu,cpuacct:/\n0::/user.slice/a:b.scope\nnonsense\n");
        assert_eq!(found.len(), 3);
        assert_eq!(found[1].controllers, ["cpu", "cpuacct"]);
        assert!(found[2].controllers.is_empty());
        assert_eq!(found[2].path, "/user.slice/a:b.scope");
    }

    #[test]
    fn limits() {
        assert_eq!(cpu_max("250000 100000\n"), Some(2.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpus(-1, 100_000), None);
        assert_eq!(limit_bytes("4294967296\n"), Some(4 << 30));
        assert_eq!(limit_bytes("max\n"), None);
        assert_eq!(limit_bytes("9223372036854771712\n"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(\\PC|\n){0,100}|[0-9 -]{0,50}") {
            memberships(&text);
            cpu_max(&text);
            limit_bytes(&text);
        }
    }
}
