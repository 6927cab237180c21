//! Several clients against limits that were built in: their sum must be that limit, and have its name.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use xtask::sized;

use super::support::program::parse_document;
use super::{check_phases, codes, disk, exclusive_lock, phases, run_in, settled, start};

pub fn measure_together(directory: &Path, words: &str) -> Value {
    let words = format!("--size 16m --allow shared-directory {words}");
    parse_document(&run_in(directory, &words).run().did_not_panic().exits(0).stdout)
}

/// Returns the document of clients that this launcher starts.
pub fn run_with_launcher(launcher: &str, directory: &Path, words: &str) -> Value {
    let program = run_in(directory, words).words("--allow shared-directory").arg("--rsh").arg(launcher);
    let program = program.arg("--remote-skye").arg(env!("CARGO_BIN_EXE_skye"));
    parse_document(&program.run().did_not_panic().exits(0).stdout)
}

/// A complaint if the limiter of a sum is another. A client that is alone has its own.
pub fn not_named(phase: &Value, limiter: &str) -> Option<String> {
    let verdict = &phase["verdict"];
    let is_alone = phase["together"]["clients"] == 1;
    (!is_alone && verdict["limiter"] != limiter).then(|| format!("{}: {verdict:#}", phase["label"]))
}

/// Returns how often a fleet is tried, each time with the words of an observer on this machine or with none.
pub fn watched(directory: &Path) -> Vec<String> {
    let observer = format!("--observe local:{} ", directory.display());
    (0..sized(1, 6)).map(|run| if run % 2 == 1 { observer.clone() } else { String::new() }).collect()
}

/// Programs that keep a CPU busy until they are dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn on(cpu: &str) -> Self {
        let one = || {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", cpu, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        Self((0..4).map(|_| one()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for program in &mut self.0 {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

#[test]
#[ignore = "long"]
fn client_on_busy_cpu_is_named() {
    xtask::require!(root, loop, ext4);
    let _lock = exclusive_lock();
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let rig = start(disk());
    let _busy = Busy::on("1");
    // Each client has a CPU of its own. The launcher gets the host and the command.
    let launcher = r#"sh -c 'cpu=${1#cpu}; shift; exec taskset --cpu-list $cpu "$@"' x"#;
    let words = "--hosts cpu0,cpu1 --cache warm --time 3 --test read:rnd4k:buffered --size 16m";
    for observer in watched(rig.path()) {
        let document = run_with_launcher(launcher, rig.path(), &format!("{observer}{words}"));
        let phase = &phases(&document)[0];
        assert!(codes(phase).contains(&"slow_client"), "{phase:#}");
        let notes = phase["notes"].as_array().unwrap();
        let slow = notes.iter().find(|note| note["code"] == "slow_client").unwrap();
        let finding = &slow["finding"];
        assert_eq!((&finding["client"], &finding["limit"]), (&"cpu1".into(), &"other processes' CPU".into()));
    }
    rig.finish().unwrap();
}

#[test]
fn clients_on_too_few_cpus_are_cpu_saturated() {
    xtask::require!(tmpfs);
    let _lock = exclusive_lock();
    let memory = super::support::mounts::Tmpfs::new("256m", None);
    // Each waits for a CPU for three quarters of its time.
    let clients = 4 * std::thread::available_parallelism().unwrap().get();
    for observer in watched(memory.path()) {
        let words =
            format!("{observer}--hosts local*{clients} --cache warm --time 2 --test read:rnd4k:buffered");
        settled!(check_phases(
            || measure_together(memory.path(), &words),
            |phase| not_named(phase, "cpu_saturated")
        ));
    }
}
