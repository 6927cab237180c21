//! Life of processes and threads, by their states.

use crate::root::Root;

/// Returns true if at least one thread of a process has not exited. A zombie keeps its PID and counts as exited.
///
/// The first thread, whose state is that of the process, may exit before the others.
pub fn is_process_alive(root: &Root, process: i32) -> bool {
    let tasks = format!("proc/{process}/task");
    is_thread_alive(root, process)
        || root.list(&tasks).iter().any(|task| is_stat_alive(root, &format!("{tasks}/{task}/stat")))
}

/// Returns true if a thread of any process has not exited. An exited thread holds no files and no mounts.
pub(crate) fn is_thread_alive(root: &Root, thread: i32) -> bool {
    is_stat_alive(root, &format!("proc/{thread}/stat"))
}

fn is_stat_alive(root: &Root, stat: &str) -> bool {
    let state = |text: String| text.rsplit_once(") ")?.1.chars().next();
    match root.read(stat) {
        // Its name may have brackets, so the last one ends it.
        Some(text) => !matches!(state(text), Some('Z' | 'X' | 'x')),
        // In a sandbox, it may be there and unreadable.
        None => root.exists(stat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Writes the states of a process's threads, the first of which is that of the process.
    fn machine(home: &Path, states: &[char]) -> Root {
        for (index, state) in states.iter().enumerate() {
            let thread = 7 + index;
            for directory in [format!("proc/{thread}"), format!("proc/7/task/{thread}")] {
                let directory = home.join(directory);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("stat"), format!("{thread} (a) S b) {state} 1 7 7\n")).unwrap();
            }
        }
        Root::at(home)
    }

    #[test]
    fn process_is_alive_while_any_thread_is() {
        for (states, lives) in [
            (&['S'][..], true),
            (&['T'], true),
            (&['Z'], false),
            (&['X'], false),
            (&['Z', 'S'], true),
            (&['Z', 'Z', 'D'], true),
            (&['Z', 'X'], false),
            (&[], false),
        ] {
            let home = tempfile::tempdir().unwrap();
            let root = machine(home.path(), states);
            assert_eq!(is_process_alive(&root, 7), lives, "{states:?}");
            assert_eq!(is_thread_alive(&root, 7), matches!(states.first(), Some('S' | 'T')), "{states:?}");
        }
    }

    #[test]
    fn zombie_process_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let number = child.id() as i32;
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
        rustix::process::waitid(id, options).unwrap();
        assert!(Path::new(&format!("/proc/{number}")).exists(), "it keeps its number");
        assert!(!is_process_alive(&Root::system(), number));
        child.wait().unwrap();
        assert!(!is_process_alive(&Root::system(), number));
        assert!(is_process_alive(&Root::system(), std::process::id() as i32));
    }
}
