//! Cases with known answers: the setup, the tests measured on it, and the right verdicts.
//!
//! A case is a value: the selftest builds and measures it. The measuring program learns nothing of it but a directory
//! and the tests.
//!
//! Build a case from rigs that exist. [`Interference`] and [`Restriction`] hold the actions that only the selftest can
//! do, such as the loss of half a file.

mod cpus;
mod devices;
mod memory;
mod servers;

use model::Limiter;
use model::selftest::Truth;

use crate::spec::{DiskBacking, DiskSpec, Spec};
use crate::throttle::Throttle;

/// Seconds of measurement where only the verdict of a test matters.
const SHORT: u32 = 2;
/// The same where its rate is compared with a limit that the kernel keeps in steps of 100 ms.
const LONG: u32 = 6;

/// A setup, and the right verdicts on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its name in lists, and for `--only`.
    pub name: &'static str,
    /// The limit that is built in, in words.
    pub injected_limit: &'static str,
    /// The rig in which it is measured; without one, an ordinary directory, which takes no privileges.
    pub rig: Option<Spec>,
    /// Disturbance beside the test.
    pub interference: Option<Interference>,
    /// Restriction on the measuring program.
    pub restriction: Option<Restriction>,
    /// Words for all tests: sizes, times, caches.
    pub options: String,
    /// The tests, with the right verdict on each.
    pub tests: Vec<KnownTest>,
    /// Reason why more than one answer is right, if so.
    pub why: Option<&'static str>,
}

/// Disturbance while a case is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interference {
    /// Two threads for each CPU that do nothing but take its time.
    Hogs,
    /// A reader on the same device, with this many reads per second.
    Neighbour(u64),
    /// A hole punched into the first half of the first file of data, as soon as the file exists.
    Loss,
}

/// Restriction on the measuring program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Restriction {
    /// A group of processes with this many CPUs' worth of time.
    CpuQuota(f64),
    /// A group of processes with this many bytes of memory.
    MemoryLimit(u64),
    /// A mount namespace without cgroups, so that their limits cannot be read.
    HiddenCgroups,
}

/// A test with a known result.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTest {
    /// The test, in the SPEC language.
    pub spec: String,
    /// The right verdict on it.
    pub truth: Truth,
    /// The built-in rate, where the rig keeps one.
    pub ops_per_second: Option<f64>,
}

impl Restriction {
    /// Returns the spec of the group, where it is one.
    pub fn group(self) -> Option<Spec> {
        match self {
            Self::CpuQuota(cpus) => Some(Spec::quota(cpus).into()),
            Self::MemoryLimit(bytes) => Some(Spec::memory(bytes).into()),
            Self::HiddenCgroups => None,
        }
    }
}

impl Case {
    fn new(name: &'static str, injected_limit: &'static str, place: impl Into<Spec>) -> Self {
        Self::with_rig(name, injected_limit, Some(place.into()))
    }

    fn in_directory(name: &'static str, injected_limit: &'static str) -> Self {
        Self::with_rig(name, injected_limit, None)
    }

    fn with_rig(name: &'static str, injected_limit: &'static str, rig: Option<Spec>) -> Self {
        let (options, tests) = (format!("--size 64m --time {SHORT}"), Vec::new());
        Self { name, injected_limit, rig, interference: None, restriction: None, options, tests, why: None }
    }

    fn interference(self, interference: Interference) -> Self {
        Self { interference: Some(interference), ..self }
    }

    fn restriction(self, restriction: Restriction) -> Self {
        Self { restriction: Some(restriction), ..self }
    }

    fn options(self, options: impl Into<String>) -> Self {
        Self { options: options.into(), ..self }
    }

    /// Sets the reason why more than one answer is right.
    fn with_reason(self, why: &'static str) -> Self {
        Self { why: Some(why), ..self }
    }

    fn test(mut self, spec: impl Into<String>, right: &[Limiter]) -> Self {
        let truth = Truth::Limiters(right.to_vec());
        self.tests.push(KnownTest { spec: spec.into(), truth, ops_per_second: None });
        self
    }

    fn with_mark(mut self, spec: impl Into<String>, reason: &str) -> Self {
        self.tests.push(KnownTest {
            spec: spec.into(),
            truth: Truth::Reason(reason.into()),
            ops_per_second: None,
        });
        self
    }

    /// Sets the known rate of the last test.
    fn at(mut self, ops_per_second: f64) -> Self {
        if let Some(known) = self.tests.last_mut() {
            known.ops_per_second = Some(ops_per_second);
        }
        self
    }

    /// Lists the requirements for building it, for people.
    pub fn needs(&self) -> Vec<String> {
        let mut needs = Vec::new();
        if self.needs_root() {
            needs.push("root".to_owned());
        }
        match &self.rig {
            Some(Spec::Disk(disk)) => {
                needs.push("loop devices".into());
                needs.extend(disk.file_system.as_ref().map(|name| format!("mkfs.{name}")));
                if layers(disk).any(|disk| matches!(disk.on, DiskBacking::Fuse(_))) {
                    needs.push("FUSE".into());
                }
                if layers(disk).any(|disk| disk.throttle != Throttle::default()) {
                    needs.push("the blkio controller of cgroup v1".into());
                }
            }
            Some(Spec::Fuse(_)) => needs.push("FUSE".into()),
            Some(Spec::Network(_)) => needs.push("network namespaces, sshd and sshfs".into()),
            _ => {}
        }
        needs.extend(self.restriction.map(|restriction| match restriction {
            Restriction::CpuQuota(_) => "the cpu controller of a cgroup".to_owned(),
            Restriction::MemoryLimit(_) => "the memory controller of a cgroup".to_owned(),
            Restriction::HiddenCgroups => "mount namespaces".to_owned(),
        }));
        needs
    }

    /// Returns true if building it takes root.
    pub fn needs_root(&self) -> bool {
        self.rig.is_some() || self.restriction.is_some()
    }

    /// Lists its changes to the machine while it exists. All of them are undone: at the end, or from its journal.
    pub fn changes(&self) -> Vec<String> {
        let mut changes = match &self.rig {
            Some(spec) => changes(spec),
            None => vec!["files in a temporary directory".into()],
        };
        changes.extend(self.interference.map(|interference| match interference {
            Interference::Hogs => "threads that use CPU time".to_owned(),
            Interference::Neighbour(_) => {
                "a file next to the test's files, and a process that reads it".to_owned()
            }
            Interference::Loss => "a hole punched into half of a test file".to_owned(),
        }));
        changes.extend(self.restriction.map(|restriction| match restriction {
            Restriction::CpuQuota(_) => "a cgroup with a CPU quota".to_owned(),
            Restriction::MemoryLimit(_) => "a cgroup with a memory limit".to_owned(),
            Restriction::HiddenCgroups => "a mount namespace".to_owned(),
        }));
        changes
    }
}

/// Returns all cases, in listing order, for a machine with `cpus` CPUs.
pub fn all(cpus: u32) -> Vec<Case> {
    let mut cases = devices::cases();
    cases.extend(servers::cases());
    cases.extend(memory::cases());
    cases.extend(cpus::cases(cpus));
    cases
}

/// Lists the cases that show this limiter, in a sentence; `None` if there are none.
pub fn list_by_limiter(limiter: Limiter) -> Option<String> {
    let shows = |case: &Case| {
        case.tests.iter().any(|known| match &known.truth {
            Truth::Limiters(right) => right.first() == Some(&limiter),
            Truth::Reason(_) => false,
        })
    };
    // Names and limits are the same on every machine.
    let descriptions: Vec<_> = all(1)
        .iter()
        .filter(|case| shows(case))
        .map(|case| format!("{} ({})", case.name, case.injected_limit))
        .collect();
    (!descriptions.is_empty()).then(|| format!("skye selftest reproduces it: {}.", descriptions.join("; ")))
}

fn changes(spec: &Spec) -> Vec<String> {
    match spec {
        Spec::Disk(disk) => changes_of_disk(disk),
        Spec::Fuse(_) => vec!["a FUSE mount and its server".into()],
        Spec::Network(_) => {
            vec!["a network namespace, a pair of network devices, sshd in it, a mount of sshfs".into()]
        }
        Spec::Neighbour(_) | Spec::Hogs(_) | Spec::Quota(_) | Spec::Memory(_) => vec!["processes".into()],
    }
}

/// Iterates over the disk, the disk under it, and so on.
fn layers(disk: &DiskSpec) -> impl Iterator<Item = &DiskSpec> {
    std::iter::successors(Some(disk), |disk| match &disk.on {
        DiskBacking::Disk(lower) => Some(&**lower),
        _ => None,
    })
}

fn changes_of_disk(disk: &DiskSpec) -> Vec<String> {
    let mut changes = Vec::new();
    for disk in layers(disk) {
        let over = match disk.on {
            DiskBacking::Fuse(_) => "a file of a FUSE server",
            DiskBacking::Disk(_) => "a file of another loop device",
            DiskBacking::Memory => "a file in memory",
            DiskBacking::Directory(_) => "a file of a disk",
            DiskBacking::Zram => "a file of a zram device",
        };
        changes.push(format!("a loop device over {over}"));
        changes.extend(disk.file_system.as_ref().map(|name| format!("a mount of {name}")));
        if disk.with_overlay {
            changes.push("an overlay mount".into());
        }
        if disk.throttle != Throttle::default() {
            changes.push("the limit of that device in the root cgroup".into());
        }
        if disk.requests.is_some() {
            changes.push("queue/nr_requests of that device".into());
        }
        if disk.dirty_max_bytes.is_some() {
            changes.push("bdi/max_bytes and strict_limit of that device".into());
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use model::spec;

    use super::*;

    #[test]
    fn every_case_has_unique_name_tests_and_expected_result() {
        let cases = all(2);
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            assert!(!case.tests.is_empty(), "{}", case.name);
            assert!(!case.changes().is_empty(), "{}", case.name);
            for known in &case.tests {
                spec::parse(&known.spec, &spec::Defaults::default())
                    .unwrap_or_else(|why| panic!("{}: {why}", known.spec));
                let Truth::Limiters(right) = &known.truth else { continue };
                assert!(!right.is_empty(), "{}", case.name);
                // A case with several right answers must explain them.
                assert!(right.len() == 1 || case.why.is_some(), "{}: several are right, but why?", case.name);
            }
        }
    }

    #[test]
    fn selftest_cases_cover_every_single_machine_limiter() {
        let cases = all(2);
        let right = cases.iter().flat_map(|case| &case.tests).filter_map(|known| match &known.truth {
            Truth::Limiters(right) => right.first().copied(),
            Truth::Reason(_) => None,
        });
        let built: BTreeSet<_> = right.collect();
        let unbuilt: Vec<_> = Limiter::ALL.iter().filter(|limiter| !built.contains(limiter)).collect();
        // Another guest of the host is not available on demand, and no I/O is as fast as skye's loop. A case has no
        // clients, and no file with a mix. The others are not separate limits.
        let expected = [
            Limiter::DeviceUndetermined,
            Limiter::ThinkTime,
            Limiter::RemoteUndetermined,
            Limiter::HypervisorSteal,
            Limiter::EachClient,
            Limiter::BelowClients,
            Limiter::BenchmarkItself,
            Limiter::Mixed,
            Limiter::NotClear,
        ];
        assert_eq!(unbuilt, expected.iter().collect::<Vec<_>>());
    }
}
