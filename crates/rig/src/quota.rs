//! A group of processes that gets a share of CPU time: the kernel's bandwidth control.
//!
//! What is allowed is given out once a period. A process that has used it up does not run until the next one: so it is
//! slow by stalls of nearly a period, not by running slower.

use std::fs;
use std::path::{Path, PathBuf};

use model::Trouble;

use crate::cgroup;
use crate::journal::Journal;
use crate::spec::{self, QuotaSpec};

/// The group; dropped, its processes are moved to its parent, and it goes.
#[derive(Debug)]
pub struct Quota {
    journal: Journal,
    group: PathBuf,
    is_unified: bool,
    spec: QuotaSpec,
}

impl Quota {
    /// Makes one, with nobody in it.
    ///
    /// # Errors
    /// There is no `cpu` controller, or it is not ours to set.
    pub fn make(spec: &QuotaSpec) -> Result<Self, Trouble> {
        let mut journal = Journal::open()?;
        // A controller belongs to one hierarchy alone.
        let unified = cgroup::unified_root("cpu");
        let is_unified = unified.is_some();
        let parent = match unified {
            Some(root) => root,
            None => cgroup::root(&mut journal, "cpu").map_err(|trouble| {
                trouble.remedy(
                    "leave the cpu controller to cgroup v1, or `echo +cpu > cgroup.subtree_control` at the root of v2",
                )
            })?,
        };
        let group = cgroup::make(&mut journal, &parent)?;
        let quota = Self { journal, group, is_unified, spec: spec.clone() };
        quota.apply(spec)?;
        Ok(quota)
    }

    /// The group, as the kernel shows it: `cpu.stat` there says how often it was held up.
    pub fn path(&self) -> &Path {
        &self.group
    }

    /// Takes a process in, with all its threads and the children that it will have.
    ///
    /// # Errors
    /// There is no such process, or it has real-time priority.
    pub fn join(&self, process: u32) -> Result<(), Trouble> {
        cgroup::join(&self.group, process)
    }

    pub(crate) fn set(&mut self, words: &[&str]) -> Result<(), Trouble> {
        let spec = spec::change_quota(self.spec.clone(), words)?;
        self.apply(&spec)?;
        self.spec = spec;
        Ok(())
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    fn apply(&self, spec: &QuotaSpec) -> Result<(), Trouble> {
        let (quota_us, period_us) = (spec.quota_us(), spec.period_us);
        let write = |name: &str, value: String| {
            let file = self.group.join(name);
            fs::write(&file, &value).map_err(|error| {
                Trouble::new(format!("write {value} to {}", file.display()), error)
                    .remedy("a period is 1ms to 1s, and what is given out in one at least 1ms")
            })
        };
        if self.is_unified {
            return write("cpu.max", format!("{quota_us} {period_us}"));
        }
        // Two files: a quota that is too small for the old period must not be in the way of the new one.
        write("cpu.cfs_quota_us", String::from("-1"))?;
        write("cpu.cfs_period_us", period_us.to_string())?;
        write("cpu.cfs_quota_us", quota_us.to_string())
    }
}
