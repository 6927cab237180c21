//! Memory that answers instead of storage, and memory that is missing.

use model::Limiter::{LockContention, MemoryPressure, MetadataCache, PageCache, PageCacheAbsorbed};

use super::devices::disk;
use super::{Case, Restriction};
use crate::spec::Spec;

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::in_directory("cached-data", "a cached file")
            .options("--size 128m --time 1.5 --cache warm")
            .test("read:rnd4k:buffered", &[PageCache])
            .test("read:seq1m:buffered", &[PageCache]),
        Case::in_directory("cached-names", "cached names")
            .options("--time 1")
            .test("stat:files=1000", &[MetadataCache])
            .test("open:files=1000", &[MetadataCache]),
        Case::new(
            "absorbed",
            "enough memory for all writes to a device of 10 MB/s",
            disk().write_bytes_per_second(10_000_000),
        )
        .options("--size 64m")
        .test("write:seq1m:buffered:sync=none", &[PageCacheAbsorbed]),
        Case::new(
            "memory-group",
            "64 MiB of memory, for repeated reads of a file of 128 MiB",
            disk().over(Spec::fuse().bytes_per_second(200_000_000).only_reads()),
        )
        .options("--size 128m --time 3 --cache warm")
        .restriction(Restriction::MemoryLimit(64 << 20))
        .test("read:seq128k:buffered", &[MemoryPressure]),
        Case::new("shared-file", "one writer at a time per ext4 file", disk())
            .options("--size 64m --time 2")
            .with_reason("memory absorbs all writes; on many CPUs, writers first wait for each other")
            .test("write:buffered:t4:shared:sync=none", &[PageCacheAbsorbed, LockContention]),
    ]
}
