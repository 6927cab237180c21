//! CPUs: the test's own code, the kernel's, a quota, others.

use model::Limiter::{ClientCpu, CpuContention, CpuQuota, CpuSaturated, KernelCpu, RateLimitAsked};

use super::devices::disk;
use super::{Beside, Case, Within};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::in_directory("bytes-written", "a system call for each byte")
            .words("--size 128m --time 1.5")
            .test("byte-write", &[KernelCpu])
            .test("byte-read", &[KernelCpu]),
        Case::in_directory("bytes-buffered", "a call of the C library for each byte")
            .words("--size 128m --time 1.5 --cache warm")
            .test("putc-write", &[ClientCpu])
            .test("getc-read", &[ClientCpu]),
        Case::in_directory("rate-asked", "500 operations a second, asked for")
            .words("--size 64m --time 2")
            .test("read:rnd4k:buffered:q4:rate=500", &[RateLimitAsked])
            .at(500.0),
        Case::new("files-made", "names made in memory by twice as many threads as CPUs", disk())
            .words("--time 2 --files 20k")
            .because("on one directory tree some of the time is spent in the kernel's locks")
            .test("create:t8", &[CpuSaturated, KernelCpu]),
        Case::new("quota", "a fifth of a CPU", disk())
            .words("--size 64m --time 3")
            .within(Within::CpuQuota(0.2))
            .test("byte-write", &[CpuQuota]),
        Case::in_directory("others", "other processes on all CPUs")
            .words("--size 64m --time 2")
            .beside(Beside::Hogs)
            .test("byte-write", &[CpuContention]),
    ]
}
