//! CPUs: the test's own code, the kernel's, a quota, others.

use model::Limiter::{
    ClientCpu, CpuContention, CpuQuota, CpuSaturated, KernelCpu, LockContention, RequestedRate,
};

use super::devices::disk;
use super::{Case, Interference, Restriction};

pub(super) fn cases(cpus: u32) -> Vec<Case> {
    vec![
        Case::in_directory("bytes-written", "one system call per byte")
            .options("--size 128m --time 1.5")
            .test("byte-write", &[KernelCpu])
            .test("byte-read", &[KernelCpu]),
        Case::in_directory("bytes-buffered", "one C library call per byte")
            .options("--size 128m --time 1.5 --cache warm")
            .test("putc-write", &[ClientCpu])
            .test("getc-read", &[ClientCpu]),
        Case::in_directory("requested-rate", "500 operations/s, requested")
            .options("--size 64m --time 2 --cache warm")
            .test("read:rnd4k:buffered:q4:rate=500", &[RequestedRate])
            .at(500.0),
        Case::new("files-made", "files created in memory by twice as many threads as CPUs", disk())
            .options("--time 2 --files 20k")
            .with_reason("on many CPUs, threads wait for locks of the file system and its journal")
            .test(format!("create:t{}", 2 * cpus), &[CpuSaturated, LockContention]),
        Case::new("quota", "a quota of 0.2 CPUs", disk())
            .options("--size 64m --time 3")
            .restriction(Restriction::CpuQuota(0.2))
            .test("byte-write", &[CpuQuota]),
        Case::in_directory("others", "other processes on all CPUs")
            .options("--size 64m --time 2")
            .interference(Interference::Hogs)
            .with_reason("if a cgroup limits CPU time, the other processes use up its quota")
            .test("byte-write", &[CpuContention, CpuQuota]),
    ]
}
