//! Several clients of a server that takes its time.

use rig::Spec;
use serde_json::Value;

use super::Tmpfs;
use crate::clients::{by, not_named, together, watched};
use crate::quiet::{answer, disturbance, settle, settled};
use crate::support::program::rig_program;
use crate::support::scratch;
use crate::support::sshd::configured;
use crate::{holds, off, phases, rate, start};

#[test]
fn a_server_gives_any_number_of_clients_the_same() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(24).service_us(6000).only_reads());
    let words = "--hosts local*8 --sweep h1..hn --time 3 --test read:rnd4k:q28";
    for observer in watched(rig.path()) {
        settled!(holds(
            || {
                let _ = rig.take_served().unwrap();
                let document = together(rig.path(), &format!("{observer}{words}"));
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
fn clients_that_each_wait_for_their_own_answers_bring_more() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(64).service_us(8000).only_reads());
    let words = "--hosts local*4 --sweep h1..hn --time 2 --test read:rnd4k:t2";
    for observer in watched(rig.path()) {
        let words = format!("{observer}{words}");
        settled!(holds(|| together(rig.path(), &words), |phase| not_named(phase, "each_client")));
    }
    rig.finish().unwrap();
}

/// The way takes 10 ms in each direction, which is half of a round trip.
#[test]
fn clients_far_away_begin_within_half_of_a_round_trip() {
    xtask::require!(root, netns, sshfs);
    const HALF_TRIP_NS: i64 = 10_000_000;
    let (home, target) = (scratch(1 << 20), Tmpfs::new("64m", None));
    let there = || "unshare --net".to_owned();
    let ssh = configured(home.path(), &["ada", "bob", "eve"].map(|name| (name, there())));
    let program: Vec<_> = rig_program().iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let launcher = format!("{} relay {HALF_TRIP_NS}ns {ssh}", program.join(" "));
    // Loads that leave the CPUs free: where more clients compute than CPUs are there, one begins after the others.
    let words = "--hosts ada,bob,eve --time 0.5 --cache warm --test read:rnd4k:buffered:rate=200 \
                 --test read:seq64k:buffered:rate=100";
    settled!(settle(|| {
        let document = by(&launcher, target.path(), words);
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
