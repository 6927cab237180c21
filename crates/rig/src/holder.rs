//! The process that works by a journal, and the kernel's word on its end.
//!
//! The lock of a journal is the truth. But a killed process keeps its lock as long as one of its threads hangs in its
//! own server, and only we can end that.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// A bit of the flags in `/proc/…/stat`: this thread is exiting (`PF_EXITING` of the kernel).
const EXITING: u64 = 1 << 2;
/// The bit of SIGKILL in a thread's pending signals.
const KILLED: u64 = 1 << 8;

/// The process that started a journal. Its PID alone is ambiguous: the kernel reuses PIDs, and each PID namespace has
/// its own. 0 stands for an unreadable number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    process: u32,
    /// The inode of its PID namespace.
    namespace: u64,
    /// Its start time, in the kernel's ticks since the machine was started.
    start: u64,
    /// The machine's boot in which it started.
    boot: String,
}

/// State of a holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// It lives, or is out of our sight.
    Alive,
    /// It was killed and cannot end.
    Killed,
    /// It has ended.
    Ended,
}

impl Holder {
    /// This process.
    pub(crate) fn this() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Self {
            process: std::process::id(),
            namespace: namespace(),
            // Read by this name: our PID may be another process if `/proc` is that of another namespace.
            start: Thread::read("/proc/self/stat").map_or(0, |thread| thread.start),
            boot: if boot.is_empty() { String::from("0") } else { boot.trim().to_owned() },
        }
    }

    /// Returns it as words.
    pub(crate) fn words(&self) -> String {
        let Self { process, namespace, start, boot } = self;
        format!("{process} {namespace} {start} {boot}")
    }

    /// Parses such words; facts whose words are missing are unknown.
    pub(crate) fn parse(words: &str) -> Option<Self> {
        let mut words = words.split_ascii_whitespace();
        let process = words.next()?.parse().ok()?;
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        let (namespace, start) = (number(), number());
        Some(Self { process, namespace, start, boot: words.next().unwrap_or("0").to_owned() })
    }

    /// Returns true if the machine was rebooted since: then only files are left of the holder's work.
    pub(crate) fn is_from_other_boot(&self) -> bool {
        let now = Self::this().boot;
        ![&self.boot, &now].contains(&&String::from("0")) && self.boot != now
    }

    /// Returns its state, as the kernel shows it.
    pub(crate) fn state(&self) -> State {
        let Self { process, namespace: there, start, .. } = self;
        // The processes in `/proc` may be those of another namespace.
        let sees_itself = fs::read_link("/proc/self")
            .is_ok_and(|link| link.as_os_str() == &*std::process::id().to_string());
        if *there == 0 || *start == 0 || *there != namespace() || !sees_itself {
            return State::Alive;
        }
        match Thread::read(&format!("/proc/{process}/stat")) {
            Some(leader) if leader.start == *start => {}
            _ => return State::Ended,
        }
        let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let stats = tasks.map(|task| task.path().join("stat").to_string_lossy().into_owned());
        // A thread that cannot be read has just ended; without any thread, nothing is known.
        let threads: Vec<_> = stats.filter_map(|stat| Thread::read(&stat)).collect();
        let killed = !threads.is_empty() && threads.iter().all(|thread| thread.is_exiting);
        if killed { State::Killed } else { State::Alive }
    }
}

/// The inode of our PID namespace.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// State of a thread, as `/proc` shows it.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    start: u64,
    /// True if it has ended, or will without another step of its program.
    is_exiting: bool,
}

impl Thread {
    fn read(stat: &str) -> Option<Self> {
        Self::parse(&fs::read_to_string(stat).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name of a program may hold anything, and ends with the last bracket. The third field follows it.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        let has_ended = matches!(*fields.first()?, "Z" | "X");
        let is_exiting = has_ended || number(9)? & EXITING != 0 || number(31)? & KILLED != 0;
        Some(Self { start: number(22)?, is_exiting })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn holder_parses_back_from_its_text() {
        let this = Holder::this();
        assert_eq!(Holder::parse(&this.words()), Some(this.clone()));
        assert!(this.namespace > 0 && this.start > 0 && this.boot.len() == 36, "{this:?}");
        let old = Holder::parse("12").unwrap();
        assert_eq!((old.namespace, old.start, old.state()), (0, 0, State::Alive));
        assert!(!this.is_from_other_boot() && !old.is_from_other_boot());
        assert!(Holder { boot: "1".into(), ..this }.is_from_other_boot());
        assert_eq!(Holder::parse("x"), None);
    }

    #[test]
    fn holder_state_follows_kernel_process_state() {
        let this = Holder::this();
        assert_eq!(this.state(), State::Alive);
        assert_eq!(
            Holder { start: this.start + 1, ..this.clone() }.state(),
            State::Ended,
            "another had the number"
        );
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let start = Thread::read(&format!("/proc/{}/stat", child.id())).unwrap().start;
        let holder = Holder { process: child.id(), start, ..this.clone() };
        assert_eq!(holder.state(), State::Alive);
        child.kill().unwrap();
        // On its way it may look like neither. It stays a zombie until we wait for it.
        let deadline = Instant::now() + Duration::from_secs(20);
        while holder.state() != State::Killed && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(holder.state(), State::Killed);
        child.wait().unwrap();
        assert_eq!(holder.state(), State::Ended);
        let elsewhere = Holder { namespace: this.namespace + 1, ..holder };
        assert_eq!(elsewhere.state(), State::Alive, "its number says nothing here");
    }

    #[test]
    fn exiting_or_killed_thread_is_doomed() {
        let stat = |state: &str, flags: u64, signals: u64| {
            let text = format!(
                "7 (a) b) {state} 1 2 3 4 5 {flags} {} 99 0 0 0 0 0 0 0 0 {signals} 0",
                "0 ".repeat(12)
            );
            Thread::parse(&text).unwrap()
        };
        assert_eq!(stat("D", 0, 0), Thread { start: 99, is_exiting: false });
        assert!(stat("Z", 0, 0).is_exiting && stat("D", 4, 0).is_exiting && stat("D", 0, 256).is_exiting);
        assert!(!stat("S", 0x40_0000, 1 << 14).is_exiting);
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text: String) {
            let _ = (Thread::parse(&text), Holder::parse(&text));
        }
    }
}
