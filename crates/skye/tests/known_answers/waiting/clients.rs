//! Several clients of a server that takes its time.

use rig::Spec;

use crate::clients::{not_named, together};
use crate::quiet::settled;
use crate::{holds, off, phases, rate, start};

#[test]
fn a_server_gives_any_number_of_clients_the_same() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(4).service_us(1000).only_reads());
    let words = "--hosts local*8 --sweep h1..hn --time 3 --test read:rnd4k:q16";
    settled!(holds(
        || {
            let _ = rig.take_served().unwrap();
            let document = together(rig.path(), words);
            let ops: u64 = phases(&document).iter().map(|phase| phase["ops"].as_u64().unwrap()).sum();
            assert_eq!(ops, rig.served().unwrap().reads, "each operation is counted once");
            document
        },
        |phase| {
            // Its threads wake up to 60 us late.
            let rate = off("IOPS", rate(phase), 0.97 * 4000.0, 0.04);
            rate.or_else(|| not_named(phase, "below_clients"))
        },
    ));
    rig.finish().unwrap();
}

#[test]
fn clients_that_each_wait_for_their_own_answers_bring_more() {
    xtask::require!(root, fuse);
    let rig = start(Spec::fuse().slots(64).service_us(8000).only_reads());
    let words = "--hosts local*4 --sweep h1..hn --time 2 --test read:rnd4k:t2";
    settled!(holds(|| together(rig.path(), words), |phase| not_named(phase, "each_client")));
    rig.finish().unwrap();
}
