//! Several clients against limits that were built in: their sum must be that limit, and have its name.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rig::{Rig, Spec};
use serde_json::Value;
use xtask::sized;

use super::support::program::{parse_document, rig_program};
use super::support::sshd::configured;
use super::{alone, codes, disk, holds, off, phases, rate, run_in, settled, start};

pub fn together(directory: &Path, words: &str) -> Value {
    let words = format!("--size 16m --allow shared-directory {words}");
    parse_document(&run_in(directory, &words).run().did_not_panic().exits(0).stdout)
}

/// Returns the document of clients that this launcher starts.
pub fn by(launcher: &str, directory: &Path, words: &str) -> Value {
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

#[test]
fn a_limit_on_a_group_is_that_of_its_clients_together() {
    xtask::require!(root, loop, ext4, blkio);
    let _alone = alone();
    let rig = start(disk().read_iops(2000));
    let (seconds, near) = sized((6, 0.01), (20, 0.005));
    let words = format!("--hosts local*8 --time {seconds} --test read:rnd4k:q4");
    settled!(holds(
        || together(rig.path(), &words),
        |phase| { off("IOPS", rate(phase), 2000.0, near).or_else(|| not_named(phase, "io_throttle")) },
    ));
    rig.finish().unwrap();
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
fn a_client_on_a_busy_cpu_is_named() {
    xtask::require!(root, loop, ext4);
    let _alone = alone();
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return;
    }
    let rig = start(disk());
    let _busy = Busy::on("1");
    // Each client has a CPU of its own. The launcher gets the host and the command.
    let launcher = r#"sh -c 'cpu=${1#cpu}; shift; exec taskset --cpu-list $cpu "$@"' x"#;
    let words = "--hosts cpu0,cpu1 --cache warm --time 3 --test read:rnd4k:buffered --size 16m";
    for observer in watched(rig.path()) {
        let document = by(launcher, rig.path(), &format!("{observer}{words}"));
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
fn clients_that_share_too_few_cpus_say_so() {
    xtask::require!(tmpfs);
    let _alone = alone();
    let memory = super::support::mounts::Tmpfs::new("256m", None);
    let clients = 2 * std::thread::available_parallelism().unwrap().get();
    for observer in watched(memory.path()) {
        let words =
            format!("{observer}--hosts local*{clients} --cache warm --time 2 --test read:rnd4k:buffered");
        settled!(holds(|| together(memory.path(), &words), |phase| not_named(phase, "cpu_saturated")));
    }
}

/// The server is a process in a container of its own, and so is the observer.
#[test]
fn a_server_that_used_up_its_quota_is_named() {
    xtask::require!(root, fuse, quota);
    let _alone = alone();
    let (server, quota) = (start(Spec::fuse()), start(Spec::quota(0.1)));
    quota.join(server.id()).unwrap();
    let launcher =
        format!(r#"sh -c 'echo $$ > {}/cgroup.procs; shift; exec "$@"' x"#, quota.path().display());
    let words = "--hosts local*4 --time 4 --test read:rnd4k:q4 --size 16m";
    // From the clients' side alone it cannot be told what a server lacks.
    for is_observed in sized(&[true][..], &[true, false, true, false, true, false]).iter().copied() {
        let words = match is_observed {
            true => format!("{words} --observe nas:{}", server.path().display()),
            false => words.to_owned(),
        };
        let expected = if is_observed { "server_saturated" } else { "below_clients" };
        settled!(holds(
            || by(&launcher, server.path(), &words),
            |phase| {
                let is_seen =
                    phase["servers"][0]["quota"]["used_up_share"].as_f64().is_some_and(|share| share > 0.9);
                not_named(phase, expected)
                    .or_else(|| (is_observed && !is_seen).then(|| format!("{:#}", phase["servers"])))
            }
        ));
    }
    quota.finish().unwrap();
    server.finish().unwrap();
}

/// A machine with a network of its own: a link to a server, and an sshd.
struct Host {
    /// Process that holds the namespace.
    holder: Child,
    rig: Option<Rig>,
}

impl Host {
    fn new(bits_per_second: u64) -> Self {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "sleep", "1000"]).stdin(Stdio::null());
        let mut host = Self { holder: holder.spawn().unwrap(), rig: None };
        let own = std::fs::read_link("/proc/self/ns/net").unwrap();
        let namespace = format!("/proc/{}/ns/net", host.holder.id());
        while std::fs::read_link(&namespace).unwrap() == own {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let inside = ["nsenter", "--target", &host.holder.id().to_string(), "--net"].map(Into::into);
        let program = [&inside[..], &rig_program()].concat();
        let spec = Spec::network(bits_per_second).size_mib(128);
        host.rig = Some(Rig::start(&program, spec).unwrap_or_else(|trouble| panic!("{trouble}")));
        host
    }

    fn path(&self) -> &Path {
        self.rig.as_ref().unwrap().path()
    }

    /// Returns the command that runs another one there.
    fn there(&self) -> String {
        format!("nsenter --target {} --net", self.holder.id())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(rig) = self.rig.take() {
            rig.finish().unwrap();
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn a_client_behind_a_slow_link_is_named() {
    xtask::require!(root, netns, sshfs);
    let _alone = alone();
    let home = super::support::scratch(1 << 20);
    let hosts = [("ada", 200_000_000), ("bob", 200_000_000), ("eve", 50_000_000)];
    let hosts = hosts.map(|(name, bits_per_second)| (name, Host::new(bits_per_second)));
    let launcher = configured(home.path(), &hosts.each_ref().map(|(name, host)| (*name, host.there())));
    let places: Vec<_> =
        hosts.iter().map(|(name, host)| format!("{name}:{}", host.path().display())).collect();
    let words =
        format!("--hosts {} --size {} --test read:seq1m:buffered", places.join(","), sized("16m", "64m"));
    for observer in watched(home.path()) {
        settled!(holds(
            || by(&launcher, Path::new("/"), &format!("{observer}{words}")),
            |phase| {
                let slow =
                    phase["notes"].as_array().unwrap().iter().find(|note| note["code"] == "slow_client");
                let named = slow.map(|slow| [&slow["finding"]["client"], &slow["finding"]["limit"]]);
                // Clients make no experiments, which would tell bandwidth from latency.
                let is_named = named.is_some_and(|named| named == ["eve", "network bandwidth or latency"]);
                let eve = &phase["hosts"][2];
                let of = |key: &str| eve[key].as_f64().unwrap();
                let rate = off("bytes per second", of("bytes") * 1e9 / of("elapsed_ns"), 50e6 / 8.0, 0.1);
                rate.or_else(|| (!is_named).then(|| format!("{named:?}: {phase:#}")))
            },
        ));
    }
}
