//! Identity of this process, which distinguishes its leftovers from the files of a live process.

use model::marker::{Client, Marker, NamePattern};
use observe::Root;

/// Returns the marker of this process, which may be a client of a run.
pub fn marker(rules: Vec<NamePattern>, client: Option<&Client>) -> Marker {
    // The number in `/proc`, which may be that of another PID namespace.
    let link = std::fs::read_link("/proc/self").ok();
    let pid = link.and_then(|link| link.to_str()?.parse().ok()).unwrap_or_else(std::process::id);
    Marker {
        host: host(),
        boot_id: boot_id(),
        pid,
        start_ticks: start_ticks(pid).unwrap_or(0),
        client: client.map(|client| client.number),
        run: client.map(|client| client.run.clone()),
        rules,
    }
}

/// Returns true if the process that wrote a marker may still be running. A marker of another host cannot be
/// judged here.
pub fn may_live(marker: &Marker) -> bool {
    if is_from_other_host(marker) {
        return true;
    }
    // A dead process keeps number and start until its parent waits for it.
    marker.boot_id == boot_id()
        && start_ticks(marker.pid) == Some(marker.start_ticks)
        && i32::try_from(marker.pid).is_ok_and(|pid| observe::is_process_alive(&Root::system(), pid))
}

/// Returns true for the marker of another host.
pub fn is_from_other_host(marker: &Marker) -> bool {
    marker.host != host()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// Returns field 22 of `/proc/PID/stat`: the time when the process started, in clock ticks since boot.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name may contain blanks and parentheses; the text after the last one does not.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marker_of_a_running_process_is_live() {
        let own = marker(vec![], None);
        assert!(own.start_ticks > 0);
        assert!(may_live(&own));
        assert!(!may_live(&Marker { start_ticks: own.start_ticks + 1, ..own.clone() }));
        assert!(!may_live(&Marker { boot_id: "another".into(), ..own.clone() }));
        assert!(!may_live(&Marker { pid: u32::MAX, ..own.clone() }));
        assert!(may_live(&Marker { host: "elsewhere".into(), ..own }), "not ours to judge");
    }

    #[test]
    fn zombie_process_counts_as_dead() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let marker = Marker { pid, start_ticks: start_ticks(pid).unwrap(), ..marker(vec![], None) };
        assert!(may_live(&marker));
        drop(child.stdin.take());
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
        rustix::process::waitid(id, options).unwrap();
        assert_eq!(start_ticks(pid), Some(marker.start_ticks), "it keeps its number");
        assert!(!may_live(&marker));
        child.wait().unwrap();
    }
}
