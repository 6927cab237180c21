//! A group of processes with a limit that the kernel keeps: of CPU time, or of memory.
//!
//! The kernel gives out CPU time once a period. A process that has used up its time does not run until the next period.
//! So it is slow by stalls of nearly a period, not by running slower.
//!
//! Memory is counted for the group whose process needed it first, the page cache included. A file that others have read
//! before is free. At the limit, the kernel takes back the memory that was unused for longest. A process that needs
//! more than the kernel can take back is killed.

use std::fs;
use std::path::{Path, PathBuf};

use model::UserError;

use crate::cgroup;
use crate::journal::Journal;
use crate::spec::{self, MemorySpec, QuotaSpec};

/// The group. Dropping it moves its processes to its parent, and removes it.
#[derive(Debug)]
pub struct Group {
    journal: Journal,
    path: PathBuf,
    is_unified: bool,
    limit: Limit,
}

impl Group {
    /// Makes a group with a CPU quota, without a process in it.
    ///
    /// # Errors
    /// There is no `cpu` controller, or it cannot be set.
    pub fn quota(spec: &QuotaSpec) -> Result<Self, UserError> {
        Self::make(Limit::Quota(spec.clone()))
    }

    /// Makes a group with a memory limit, without a process in it.
    ///
    /// # Errors
    /// There is no `memory` controller, or it cannot be set.
    pub fn memory(spec: &MemorySpec) -> Result<Self, UserError> {
        Self::make(Limit::Memory(spec.clone()))
    }

    fn make(limit: Limit) -> Result<Self, UserError> {
        let mut journal = Journal::open()?;
        let controller = limit.controller();
        // A controller belongs to only one hierarchy.
        let unified = cgroup::unified_root(controller);
        let is_unified = unified.is_some();
        let parent = match unified {
            Some(root) => root,
            None => cgroup::root(&mut journal, controller).map_err(|error| {
                error.help(format!(
                    "use cgroup v1 for the {controller} controller, or `echo +{controller} > cgroup.subtree_control` \
                     at the root of v2",
                ))
            })?,
        };
        let path = cgroup::make(&mut journal, &parent)?;
        limit.apply(&path, is_unified)?;
        Ok(Self { journal, path, is_unified, limit })
    }

    /// Path of the group in the kernel's file system. Its file `cpu.stat` counts the times that a quota held it up, and
    /// `memory.stat` lists the uses of its memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes a process in, with all its threads and its future children. Memory that it already has stays counted where
    /// it was.
    ///
    /// # Errors
    /// There is no such process, or it has real-time priority and the group is a quota.
    pub fn join(&self, process: u32) -> Result<(), UserError> {
        cgroup::join(&self.path, process)
    }

    pub(crate) fn set(&mut self, words: &[&str]) -> Result<(), UserError> {
        let limit = self.limit.with_changes(words)?;
        limit.apply(&self.path, self.is_unified)?;
        self.limit = limit;
        Ok(())
    }

    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }
}

/// Limit of the processes inside.
#[derive(Debug)]
enum Limit {
    Quota(QuotaSpec),
    Memory(MemorySpec),
}

impl Limit {
    /// The kernel's name of the controller that keeps it.
    fn controller(&self) -> &'static str {
        match self {
            Self::Quota(_) => "cpu",
            Self::Memory(_) => "memory",
        }
    }

    /// Files of the group and the text to write to each, in this order.
    fn settings(&self, is_unified: bool) -> Vec<(&'static str, String)> {
        match self {
            Self::Quota(spec) if is_unified => {
                vec![("cpu.max", format!("{} {}", spec.quota_us(), spec.period_us))]
            }
            // Two files: a quota that is too small for the old period must not block the new one.
            Self::Quota(spec) => vec![
                ("cpu.cfs_quota_us", String::from("-1")),
                ("cpu.cfs_period_us", spec.period_us.to_string()),
                ("cpu.cfs_quota_us", spec.quota_us().to_string()),
            ],
            Self::Memory(spec) => {
                let file = if is_unified { "memory.max" } else { "memory.limit_in_bytes" };
                vec![(file, spec.limit_bytes.to_string())]
            }
        }
    }

    fn apply(&self, group: &Path, is_unified: bool) -> Result<(), UserError> {
        for (name, value) in self.settings(is_unified) {
            let file = group.join(name);
            fs::write(&file, &value).map_err(|error| {
                UserError::new(format!("write {value} to {}", file.display()), error).help(self.help())
            })?;
        }
        Ok(())
    }

    /// Advice if the kernel refuses it.
    fn help(&self) -> &'static str {
        match self {
            Self::Quota(_) => "use a period from 1ms to 1s, with a quota of at least 1ms",
            Self::Memory(_) => "use a higher limit: the processes hold memory that cannot be reclaimed",
        }
    }

    /// Returns the same limit with the changes in `words` that a live group accepts.
    fn with_changes(&self, words: &[&str]) -> Result<Self, UserError> {
        Ok(match self {
            Self::Quota(spec) => Self::Quota(spec::change_quota(spec.clone(), words)?),
            Self::Memory(spec) => Self::Memory(spec::change_memory(spec.clone(), words)?),
        })
    }
}
