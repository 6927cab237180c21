//! Counters of the kernel's NFS server: `/proc/net/rpc/nfsd` and `/proc/fs/nfsd/pool_stats`.

use super::number::numbers;

/// Counters since the server was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Nfsd {
    /// Threads at present.
    pub threads: u64,
    /// Calls that have arrived.
    pub calls: u64,
}

/// Counters of all pools of threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pools {
    /// Packets that have arrived.
    pub arrived: u64,
    /// Threads that were asleep, and were woken for a packet.
    pub woken: u64,
}

/// Reads `/proc/net/rpc/nfsd`; `None` if threads or calls are missing.
pub fn nfsd(bytes: &[u8]) -> Option<Nfsd> {
    let first = |word: &[u8]| {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        numbers(lines.find_map(|line| line.strip_prefix(word))?).next()
    };
    Some(Nfsd { threads: first(b"th ")?, calls: first(b"rpc ")? })
}

/// Reads `/proc/fs/nfsd/pool_stats`; `None` without a pool.
///
/// The columns are pool, packets-arrived, sockets-enqueued and threads-woken; older kernels have more behind them
/// (Documentation/filesystems/nfs/knfsd-stats.rst).
pub fn pools(bytes: &[u8]) -> Option<Pools> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"#"));
    let pool = |line| {
        let mut fields = numbers(line).skip(1);
        Some(Pools { arrived: fields.next()?, woken: fields.nth(1)? })
    };
    lines.filter_map(pool).reduce(|sum, pool| Pools {
        arrived: sum.arrived.saturating_add(pool.arrived),
        woken: sum.woken.saturating_add(pool.woken),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn real_nfsd_statistics_parse() {
        let text =
            b"rc 0 15 13444\nfh 2 0 0 0 0\nio 64872448 14836189\nth 4 0 0.000 0.000\nnet 13459 0 13459 9\n\
                     rpc 13459 0 0 0 0\nproc3 22 1 13 2\n";
        assert_eq!(nfsd(text), Some(Nfsd { threads: 4, calls: 13_459 }));
        assert_eq!(nfsd(b"rc 0 15 13444\n"), None);
        let text =
            b"# pool packets-arrived sockets-enqueued threads-woken threads-timedout\n0 14971 14971 4808 0\n\
                     1 29 29 2 0\n";
        assert_eq!(pools(text), Some(Pools { arrived: 15_000, woken: 4810 }));
        assert_eq!(pools(b"# pool packets-arrived sockets-enqueued threads-woken\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (nfsd(&bytes), pools(&bytes));
        }
    }
}
