//! Servers, and the networks before them.

use model::Limiter::{CpuContention, LockContention, NetworkBandwidth, RemoteLatency, ServerSaturated};

use super::{Case, Interference};
use crate::spec::{OpenFilePolicy, Spec};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "server-latency",
            "5 ms per request, up to 64 in parallel",
            Spec::fuse().slots(64).service_us(5000),
        )
        .test("read:rnd4k:t4", &[RemoteLatency]),
        Case::new(
            "server-full",
            "4,000 requests/s: 4 in parallel, 1 ms each",
            Spec::fuse().slots(4).service_us(1000),
        )
        .test("read:rnd4k:t16", &[ServerSaturated])
        .at(4000.0)
        .test("read:rnd4k:q16", &[ServerSaturated])
        .at(4000.0),
        Case::new(
            "server-late",
            "250 requests/s, with 300/s requested",
            Spec::fuse().slots(4).service_us(16_000),
        )
        .options("--size 64m --time 4")
        .test("read:rnd4k:q8:rate=300", &[ServerSaturated])
        .at(250.0),
        Case::new(
            "server-without-cpus",
            "4,000 requests/s, and other processes on all CPUs",
            Spec::fuse().slots(4).service_us(1000),
        )
        .interference(Interference::Hogs)
        .with_reason("a server without CPU time replies late")
        .test("read:rnd4k:t16", &[ServerSaturated, CpuContention]),
        Case::new("server-names", "5 ms per metadata request", Spec::fuse().slots(64).metadata_us(5000))
            .options("--time 2 --files 200")
            .test("create", &[RemoteLatency])
            .test("stat", &[RemoteLatency]),
        Case::new(
            "server-cache",
            "2 ms per first read, 20 us per repeated read",
            Spec::fuse().service_us(2000).cache_us(20).only_reads(),
        )
        .options("--size 4m")
        .with_mark("read:rnd4k:passes=2", "below_os_cache"),
        Case::new(
            "inode-lock",
            "one direct write to a file at a time, 1 ms each",
            Spec::fuse().slots(64).service_us(1000).open_policy(OpenFilePolicy::Usual).only_writes(),
        )
        .test("write:rnd4k:t8:shared", &[LockContention]),
        Case::new(
            "directory-lock",
            "one creation in a directory at a time, 2 ms each",
            Spec::fuse().slots(64).metadata_us(2000),
        )
        .options("--time 2 --files 400")
        .test("create:t8:shared", &[LockContention]),
        Case::new(
            "link",
            "200 Mbit/s to the server, in each direction",
            Spec::network(200_000_000).size_mib(128),
        )
        .options("--size 64m --time 3")
        .test("write:seq1m:buffered", &[NetworkBandwidth])
        .test("read:seq1m:buffered", &[NetworkBandwidth])
        .test("rewrite:seq128k", &[NetworkBandwidth]),
    ]
}
