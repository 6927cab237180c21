//! Mixes on a server with known times for names and for data.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use rig::{RequestLog, Rig, Spec};
use serde_json::Value;

use crate::limiters::disk_over;
use crate::quiet::{answer, disturbance, settle, settled};
use crate::support::program::parse_document;
use crate::support::scratch;
use crate::{document_of, phases, run_in, start};

/// Calls of which the mean time is taken.
const CALLS: u64 = 25;

/// Returns the seconds of one call on a name, and of one on data: those of the server, and the way there and back.
fn rates_of_calls(rig: &Rig) -> (f64, f64) {
    let mean = |call: &dyn Fn(u64)| {
        let _ = rig.take_served().unwrap();
        let start = Instant::now();
        (0..CALLS).for_each(call);
        let seconds = start.elapsed().as_secs_f64();
        let served = rig.served().unwrap();
        seconds / (served.names + served.writes) as f64
    };
    let name = mean(&|call| assert!(fs::metadata(rig.path().join(format!("none-{call}"))).is_err()));
    let path = rig.path().join("calls");
    let file = fs::File::create(&path).unwrap();
    let data = mean(&|call| file.write_all_at(&[1; 4096], call * 4096).unwrap());
    drop(file);
    fs::remove_file(path).unwrap();
    (name, data)
}

/// Returns the measured seconds of a run, and the answers of the server to all of it.
fn measured(rig: &Rig, mix: &str, seconds: u32) -> (f64, RequestLog, Value) {
    let _ = rig.take_served().unwrap();
    let words = format!("--no-probe --seed 7 --time {seconds} --test mix:{mix}:files=12");
    let ran = run_in(rig.path(), &words).run().did_not_panic().exits(0);
    let document = parse_document(&ran.stdout);
    let elapsed_ns = phases(&document)[0]["elapsed_ns"].as_f64().unwrap();
    (elapsed_ns / 1e9, rig.served().unwrap(), document)
}

/// Returns the operations with verdicts, and their limiters. Waits as long as those of the rigs show on any machine.
fn limited(document: &Value) -> Vec<(&str, &str)> {
    let found = phases(document)[0]["verdict"]["operations"].as_array().expect("operations have verdicts");
    found
        .iter()
        .map(|found| (found["operation"].as_str().unwrap(), found["limiter"].as_str().unwrap()))
        .collect()
}

#[test]
#[ignore = "long"]
fn each_mix_operation_has_a_separate_limiter() {
    xtask::require!(root, loop, ext4, fuse);
    let rig = start(disk_over(Spec::fuse().slots(64).service_us(20_000).sync_us(20_000)));
    let ran =
        run_in(rig.path(), "--no-probe --time 4 --test mix:mail:t4:files=80").run().did_not_panic().exits(0);
    let document = parse_document(&ran.stdout);
    // A delivery is synced; all else is answered from memory.
    assert!(limited(&document).contains(&("create", "fsync_journal")), "{:?}", limited(&document));
    let sites = phases(&document)[0]["wait_sites"].as_array().unwrap();
    let samples = |site: &Value| -> u64 {
        let of_it = site["operations"].as_array().into_iter().flatten();
        of_it.map(|one| one["samples"].as_u64().unwrap()).sum()
    };
    assert!(sites.iter().all(|site| samples(site) <= site["samples"].as_u64().unwrap()));
    assert!(sites.iter().map(samples).sum::<u64>() > 100, "{sites:?}");
    rig.finish().unwrap();
}

/// Flows that read a part of a file each.
const READS: &str = "[population]\nfiles = 10\nsizes = { median = '64k', p90 = '64k', max = '64k' }\n\
                     [[flow]]\nname = 'read'\nweight = 1\ndo = ['read-part=4k']\n";

#[test]
#[ignore = "long"]
fn stalls_count_in_latency_of_all_delayed_flows() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().service_us(1000).stall_ms(200, 1500).only_reads());
    let home = scratch(0);
    let mix = home.path().join("reads.toml");
    fs::write(&mix, READS).unwrap();
    let mix = format!("--test mix:{}", mix.display());
    let words = format!("--time 3 {mix} {mix}:t16:files=160:rate=200");
    // In a closed loop, a stall of 200 ms holds up one flow of a thousand; here it delays one of seven, by 100 ms.
    let mean_ns = |phase: &Value| phase["latency_ns"]["mean"].as_f64().unwrap_or(f64::NAN);
    settled!(settle(|| {
        let document = document_of(rig.path(), &words);
        let [closed, open] = &phases(&document)[..] else { panic!("two tests") };
        let limiter = &open["verdict"]["limiter"];
        let times = mean_ns(open) / mean_ns(closed);
        let is_right = times >= 4.0 && limiter == "requested_rate";
        let complaint = (!is_right)
            .then(|| format!("{times:.1} times: {} and {} ns, {limiter}", mean_ns(closed), mean_ns(open)));
        (answer((), complaint.as_slice()), disturbance(&document))
    }));
    rig.finish().unwrap();
}

#[test]
#[ignore = "long"]
fn mix_duration_matches_its_calls() {
    xtask::require!(root, fuse);
    // The longer a call takes, the less its way there and back matters; but the deep tree of `home` has to be made, too.
    let (name_seconds, data_seconds) = (0.02, 0.004);
    let run_seconds = 6;
    let data_us = (data_seconds * 1e6) as u64;
    // One request is answered at a time, as a large read is several.
    let rig = start(
        Spec::fuse().slots(1).metadata_us((name_seconds * 1e6) as u64).service_us(data_us).sync_us(data_us),
    );
    for mix in &["mail", "web", "home", "build", "database", "photos"] {
        settled!(settle(|| {
            let (name, data) = rates_of_calls(&rig);
            // Both runs make and remove the same files: what is more in the longer one was measured.
            let (short, of_short, _) = measured(&rig, mix, 1);
            // A flow on photos is long, and each operation needs some calls for a verdict.
            let times = if *mix == "photos" { 3 } else { 1 };
            let (long, of_long, document) = measured(&rig, mix, times * run_seconds);
            let more = |of: fn(&RequestLog) -> u64| of(&of_long) as f64 - of(&of_short) as f64;
            let names = more(|served| served.names);
            let calls = more(|served| served.reads + served.writes + served.syncs);
            let (took, served) = (long - short, names * name_seconds + calls * data_seconds);
            // The server answers every call, whatever the operation.
            let served_by =
                |(_, limiter): &(&str, &str)| matches!(*limiter, "remote_latency" | "server_saturated");
            let found = limited(&document);
            assert!(!found.is_empty() && found.iter().all(served_by), "{mix}: {found:?}");
            // A request that the kernel sends without waiting, as it closes a file, hides the next one's way.
            let is_right = took >= 0.99 * served && took <= 1.01 * (names * name + calls * data);
            let complaint = (!is_right).then(|| {
                format!("{mix} took {took:.3} s for {names} calls of {name:.4} s and {calls} of {data:.4} s")
            });
            (answer((), complaint.as_slice()), disturbance(&document))
        }));
    }
    rig.finish().unwrap();
}
