//! Processes that belong to this one.

use std::fs;

/// Maximum number of parents to follow towards the first process: more is a loop of reused PIDs.
const GENERATIONS_MAX: usize = 64;

/// Returns true if a live process is this one, or was started by it or its children, as rigs and their servers are.
pub fn is_own(process: u64) -> bool {
    let own = u64::from(std::process::id());
    let mut known = process;
    for _ in 0..GENERATIONS_MAX {
        if known == own {
            return true;
        }
        match parent(known) {
            Some(parent) if parent > 1 => known = parent,
            _ => return false,
        }
    }
    false
}

fn parent(process: u64) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may hold anything; the state and the parent follow it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descendants_count_as_own_processes_but_init_does_not() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let mut line = String::new();
        let pipe = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(pipe), &mut line).unwrap();
        let grandchild: u64 = line.trim().parse().unwrap();
        let found = [u64::from(std::process::id()), u64::from(child.id()), grandchild, 1].map(is_own);
        let _ = Command::new("kill").arg(line.trim()).status();
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(found, [true, true, true, false]);
    }
}
