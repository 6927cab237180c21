//! Answers that only a quiet machine gives. They are measured again after a disturbance by other processes, and are
//! undecided if it continues.
//!
//! Only skye's own record of other processes during the measurement excuses a wrong answer.

use std::fmt::Display;

use model::Run;
use model::disturbance::Disturbance;
use serde_json::Value;

/// Number of attempts at an answer.
const ATTEMPTS: u32 = 3;

/// One attempt at an answer.
pub enum Answer<T> {
    /// It is right.
    Right(T),
    /// It is wrong; others may have caused that.
    Wrong(String),
    /// It is wrong, and others are no excuse: a wrong name was confirmed.
    Inexcusable(String),
}

/// Consequence of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Fail,
    Repeat,
    Undecided,
}

/// Returns the consequence of a wrong answer.
fn next(is_excusable: bool, is_quiet: bool, action: u32) -> Next {
    match (is_excusable && !is_quiet, action < ATTEMPTS) {
        (false, _) => Next::Fail,
        (true, true) => Next::Repeat,
        (true, false) => Next::Undecided,
    }
}

/// Makes attempts until one is right. Use [`settled!`].
///
/// # Errors
/// The answer stays undecided; the error is the reason.
///
/// # Panics
/// An answer is wrong without a disturbance.
#[track_caller]
pub fn settle<T>(mut action: impl FnMut() -> (Answer<T>, Disturbance)) -> Result<T, String> {
    for number in 1.. {
        let (answer, disturbance) = action();
        let (complaint, is_excusable) = match answer {
            Answer::Right(found) => return Ok(found),
            Answer::Wrong(complaint) => (complaint, true),
            Answer::Inexcusable(complaint) => (complaint, false),
        };
        match next(is_excusable, disturbance.is_quiet(), number) {
            Next::Fail => panic!("{complaint}; {disturbance}"),
            Next::Repeat => eprintln!("disturbed ({disturbance}): {complaint}"),
            Next::Undecided => return Err(format!("{disturbance}; {complaint}")),
        }
    }
    unreachable!("each attempt leads to another, or ends")
}

/// Evaluates to the answer that [`settle`] finds. Returns from the test if it stays undecided, which is listed.
macro_rules! settled {
    ($settle:expr) => {
        match $settle {
            Ok(found) => found,
            Err(why) => {
                // The name of a function inside the test contains the path of the test.
                fn here() {}
                return xtask::capability::list_undecided(std::any::type_name_of_val(&here), &why);
            }
        }
    };
}
pub(crate) use settled;

/// Returns the most that others did to any test of a run. Rigs of this program do not count.
pub fn disturbance(document: &Value) -> Disturbance {
    let run: Run = serde_json::from_value(document.clone()).expect("the document is a run");
    judge::disturbances(&run, rig::is_own).into_iter().fold(Disturbance::default(), Disturbance::max)
}

/// Returns the answer for a document, which is wrong if there are complaints.
pub fn answer<T>(document: T, complaints: &[impl Display]) -> Answer<T> {
    match complaints {
        [] => Answer::Right(document),
        _ => Answer::Wrong(complaints.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

mod tests {
    use std::fs;
    use std::process::{Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use rig::Spec;

    use super::super::{document_of, exclusive_lock, start};
    use super::*;

    #[test]
    fn wrong_answer_on_quiet_machine_always_fails() {
        for action in 1..=2 * ATTEMPTS {
            assert_eq!(next(true, true, action), Next::Fail);
            assert_eq!(next(false, true, action), Next::Fail);
            assert_eq!(next(false, false, action), Next::Fail);
        }
        assert_eq!(next(true, false, 1), Next::Repeat);
        assert_eq!(next(true, false, ATTEMPTS), Next::Undecided);
        let wrong = || (Answer::<()>::Wrong("wrong".into()), Disturbance::default());
        assert!(std::panic::catch_unwind(|| settle(wrong)).is_err());
    }

    /// Ticks that all CPUs have spent on programs and in the kernel so far.
    fn busy_ticks() -> u64 {
        let stat = fs::read_to_string("/proc/stat").unwrap();
        let fields: Vec<u64> = stat
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .skip(1)
            .map(|field| field.parse().unwrap())
            .collect();
        fields[..3].iter().sum()
    }

    /// Returns true if the CPUs are idle while this thread sleeps for a second, by the kernel's accounting.
    fn is_idle() -> bool {
        let before = busy_ticks();
        thread::sleep(Duration::from_secs(1));
        // A tick is a hundredth of a second.
        busy_ticks() - before < 10
    }

    /// A process that takes all of a CPU, and is not a child of this process. It is killed when this is dropped.
    struct Orphan(String);

    impl Orphan {
        fn start() -> Self {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done >/dev/null 2>&1 & echo $!"]).stdin(Stdio::null());
            Self(String::from_utf8(shell.output().unwrap().stdout).unwrap().trim().to_owned())
        }
    }

    impl Drop for Orphan {
        fn drop(&mut self) {
            let _ = Command::new("kill").arg(&self.0).status();
        }
    }

    #[test]
    fn foreign_load_alone_counts_as_disturbance() {
        xtask::require!(root, fuse);
        let _lock = exclusive_lock();
        let server = start(Spec::fuse());
        // More threads than CPUs, and a server that takes CPU time.
        let measured =
            || disturbance(&document_of(server.path(), "--size 16m --time 1.5 --test read:rnd4k:t8"));
        let (was_idle, own) = (is_idle(), measured());
        if was_idle && is_idle() {
            assert!(own.is_quiet() && own.run_queue > 0.0, "{own}");
        }
        let orphan = Orphan::start();
        let disturbed = measured();
        drop(orphan);
        assert!(!disturbed.is_quiet() && disturbed.foreign_cpus > 0.4, "{disturbed}");
        server.finish().unwrap();
    }
}
