//! Several clients of a server that takes its time.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rig::{Rig, Spec};
use serde_json::Value;
use xtask::sized;

use super::Tmpfs;
use crate::clients::{measure_together, not_named, run_with_launcher, watched};
use crate::quiet::{answer, disturbance, settle, settled};
use crate::support::program::rig_program;
use crate::support::scratch;
use crate::support::sshd::configured;
use crate::{check_phases, disk, off, phases, rate, start};

#[test]
#[ignore = "long"]
fn saturated_server_rate_is_independent_of_clients() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(24).service_us(6000).only_reads());
    let words = "--hosts local*8 --sweep h1..hn --time 3 --test read:rnd4k:q28";
    for observer in watched(rig.path()) {
        settled!(check_phases(
            || {
                let _ = rig.take_served().unwrap();
                let document = measure_together(rig.path(), &format!("{observer}{words}"));
                let ops: u64 = phases(&document).iter().map(|phase| phase["ops"].as_u64().unwrap()).sum();
                assert_eq!(ops, rig.served().unwrap().reads, "each operation is counted once");
                document
            },
            |phase| {
                let rate = off("IOPS", rate(phase), 4000.0, 0.01);
                rate.or_else(|| not_named(phase, "below_clients"))
            },
        ));
    }
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn latency_bound_clients_are_limited_individually() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(64).service_us(8000).only_reads());
    let words = "--hosts local*4 --sweep h1..hn --time 2 --test read:rnd4k:t2";
    for observer in watched(rig.path()) {
        let words = format!("{observer}{words}");
        settled!(check_phases(
            || measure_together(rig.path(), &words),
            |phase| not_named(phase, "each_client")
        ));
    }
    rig.finish().unwrap();
}

/// The way takes 10 ms in each direction, which is half of a round trip.
#[test]
fn distant_clients_start_within_half_round_trip() {
    xtask::require!(root, netns, sshfs);
    const HALF_TRIP_NS: i64 = 10_000_000;
    let (home, target) = (scratch(1 << 20), Tmpfs::new("64m", None));
    let there = || "unshare --net".to_owned();
    let ssh = configured(home.path(), &["ada", "bob", "eve"].map(|name| (name, there())));
    let program: Vec<_> = rig_program().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let delay_file = home.path().join("delay");
    std::fs::write(&delay_file, format!("{HALF_TRIP_NS}ns")).unwrap();
    let launcher = format!("{} relay {} {ssh}", program.join(" "), delay_file.display());
    // Loads that leave the CPUs free: where more clients compute than CPUs are there, one begins after the others.
    let words = "--hosts ada,bob,eve --time 0.5 --cache warm --test read:rnd4k:buffered:rate=200 \
                 --test read:seq64k:buffered:rate=100";
    settled!(settle(|| {
        let document = run_with_launcher(&launcher, target.path(), words);
        let clocks = document["hosts"].as_array().unwrap().iter().map(|host| &host["clock"]);
        let of = |key: &'static str| clocks.clone().map(move |clock| clock[key].as_i64().unwrap());
        assert!(of("bound_ns").min().unwrap() >= HALF_TRIP_NS, "{}", document["hosts"]);
        // All share one clock, so that each offset is an error.
        let error_ns = of("offset_ns").max().unwrap() - of("offset_ns").min().unwrap();
        let skew_ns = |phase: &Value| phase["together"]["start_skew_ns"].as_i64().unwrap() + error_ns;
        let late = phases(&document).iter().map(skew_ns).find(|skew_ns| *skew_ns > HALF_TRIP_NS);
        let complaint = late.map(|skew_ns| format!("the starts are up to {skew_ns} ns apart"));
        (answer((), complaint.as_slice()), disturbance(&document))
    }));
}

#[test]
fn shared_iops_limit_covers_all_clients_together() {
    xtask::require!(root, loop, ext4, blkio);
    let rig = start(disk().read_iops(2000));
    // The kernel lets the operations of a tenth of a second pass at once: the time may hold one such slice more or less.
    let (seconds, near) = sized((6, 0.02), (20, 0.006));
    let words = format!("--hosts local*8 --time {seconds} --test read:rnd4k:q4");
    settled!(check_phases(
        || measure_together(rig.path(), &words),
        |phase| { off("IOPS", rate(phase), 2000.0, near).or_else(|| not_named(phase, "io_throttle")) },
    ));
    rig.finish().unwrap();
}

/// The server is a process in a container with a quota, and so is the observer.
#[test]
#[ignore = "long"]
fn server_with_exhausted_quota_is_named() {
    xtask::require!(root, fuse, quota);
    let (server, quota) = (start(Spec::fuse()), start(Spec::quota(0.1)));
    quota.join(server.id()).unwrap();
    let launcher =
        format!(r#"sh -c 'echo $$ > {}/cgroup.procs; shift; exec "$@"' x"#, quota.path().display());
    let words = "--hosts local*4 --time 4 --test read:rnd4k:q4 --size 16m";
    // From the clients' side alone it cannot be told what a server lacks.
    for is_observed in [true, false, true, false, true, false] {
        let words = match is_observed {
            true => format!("{words} --observe nas:{}", server.path().display()),
            false => words.to_owned(),
        };
        let expected = if is_observed { "server_saturated" } else { "below_clients" };
        settled!(check_phases(
            || run_with_launcher(&launcher, server.path(), &words),
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

/// A machine with its own network: a link to a server, and an sshd.
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
        host.rig = Some(Rig::start(&program, spec).unwrap_or_else(|error| panic!("{error}")));
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
#[ignore = "long"]
fn client_behind_slow_link_is_named() {
    xtask::require!(root, netns, sshfs);
    let home = scratch(1 << 20);
    let hosts = [("ada", 200_000_000), ("bob", 200_000_000), ("eve", 50_000_000)];
    let hosts = hosts.map(|(name, bits_per_second)| (name, Host::new(bits_per_second)));
    let launcher = configured(home.path(), &hosts.each_ref().map(|(name, host)| (*name, host.there())));
    let places: Vec<_> =
        hosts.iter().map(|(name, host)| format!("{name}:{}", host.path().display())).collect();
    let words = format!("--hosts {} --size {} --test read:seq1m:buffered", places.join(","), "64m");
    for observer in watched(home.path()) {
        settled!(check_phases(
            || run_with_launcher(&launcher, Path::new("/"), &format!("{observer}{words}")),
            |phase| {
                let slow =
                    phase["notes"].as_array().unwrap().iter().find(|note| note["code"] == "slow_client");
                let named = slow.map(|slow| [&slow["finding"]["client"], &slow["finding"]["limit"]]);
                // Clients make no experiments, which would show which of them.
                let is_named = named.is_some_and(|named| named == ["eve", "server or network"]);
                let eve = &phase["hosts"][2];
                let of = |key: &str| eve[key].as_f64().unwrap();
                let rate = off("bytes per second", of("bytes") * 1e9 / of("elapsed_ns"), 50e6 / 8.0, 0.1);
                rate.or_else(|| (!is_named).then(|| format!("{named:?}: {phase:#}")))
            },
        ));
    }
}
