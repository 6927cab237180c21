//! Groups of processes with limits that the kernel keeps: those of cgroup v1, and for CPU time and memory those of v2
//! as well.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use model::UserError;
use rustix::io::Errno;

use crate::journal::Journal;
use crate::mounts;
use crate::step::{Outcome, Step, TRIES};

/// The file of a group that lists its processes; written to, it moves a process there.
const PROCESSES: &str = "cgroup.procs";

/// Returns the root cgroup with a controller of v1: the existing mount, or a new one.
pub(crate) fn root(journal: &mut Journal, controller: &str) -> Result<PathBuf, UserError> {
    if let Some(at) = mounted(controller) {
        return Ok(at);
    }
    journal.mount("cgroup", "skye-rig", controller).map_err(|error| {
        error.help("use cgroup v1 for the controller: boot without cgroup_no_v1=, and do not use the controller in cgroup v2")
    })
}

fn mounted(controller: &str) -> Option<PathBuf> {
    let has_controller = |options: &str| options.split(',').any(|option| option == controller);
    let mut mounts = mounts::all().into_iter();
    let mount = mounts
        .find(|mount| mount.file_system == "cgroup" && mount.root == "/" && has_controller(&mount.options));
    mount.map(|mount| mount.at)
}

/// Returns the root of cgroup v2, if groups made in it have the controller.
pub(crate) fn unified_root(controller: &str) -> Option<PathBuf> {
    let has_controller = |at: &Path| {
        let text = fs::read_to_string(at.join("cgroup.subtree_control")).unwrap_or_default();
        text.split_ascii_whitespace().any(|word| word == controller)
    };
    let mut mounts = mounts::all().into_iter();
    let mount =
        mounts.find(|mount| mount.file_system == "cgroup2" && mount.root == "/" && has_controller(&mount.at));
    mount.map(|mount| mount.at)
}

/// Makes a group below `parent`; the journal undoes it.
pub(crate) fn make(journal: &mut Journal, parent: &Path) -> Result<PathBuf, UserError> {
    let path = parent.join(crate::journal::unique_name());
    journal.note(Step::Cgroup(path.clone()))?;
    fs::create_dir(&path)
        .map_err(|error| UserError::new(format!("create the cgroup {}", path.display()), error))?;
    Ok(path)
}

/// Takes a process into a group.
pub(crate) fn join(group: &Path, process: u32) -> Result<(), UserError> {
    let action = || format!("move process {process} into {}", group.display());
    fs::write(group.join(PROCESSES), process.to_string()).map_err(|error| {
        let user_error = UserError::new(action(), &error);
        // The kernel takes no process with real-time priority into a group without a real-time budget.
        if error.kind() == io::ErrorKind::InvalidInput {
            user_error.help("drop its real-time priority first: `chrt --other --pid 0 PROCESS`")
        } else {
            user_error
        }
    })
}

/// Moves the processes of a group to its parent, and removes it.
pub(crate) fn remove(group: &Path) -> Outcome {
    let Some(parent) = group.parent() else { return Outcome::NotThere };
    let processes = group.join(PROCESSES);
    // A directory without this file is no cgroup.
    if !processes.is_file() {
        return Outcome::NotThere;
    }
    let mut why = String::new();
    for _ in 0..TRIES {
        let command_inside = fs::read_to_string(&processes).unwrap_or_default();
        for process in command_inside.lines() {
            // The process may have ended, or be about to.
            let _ = fs::write(parent.join(PROCESSES), process);
        }
        match rustix::fs::rmdir(group) {
            Ok(()) => return Outcome::Undone,
            Err(Errno::NOENT) => return Outcome::NotThere,
            Err(errno) => why = io::Error::from(errno).to_string(),
        }
        thread::sleep(Duration::from_millis(20));
    }
    Outcome::Leftover(why)
}
