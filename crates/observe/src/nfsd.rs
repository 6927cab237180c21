//! Work of the kernel's NFS server between two moments.

use model::run::NfsdUse;

use crate::parse::nfsd::{self, Nfsd, Pools};
use crate::root::Root;

/// Counters of the kernel's NFS server at one moment.
#[derive(Debug, Clone, Copy)]
pub struct NfsServer {
    nfsd: Nfsd,
    pools: Option<Pools>,
}

impl NfsServer {
    /// Reads the counters; `None` if the kernel serves no NFS.
    pub fn now(root: &Root) -> Option<Self> {
        // An open file of pools would keep the server from being stopped, so none stays open.
        let read = |path| root.read(path).map(String::into_bytes);
        let nfsd = nfsd::nfsd(&read("proc/self/net/rpc/nfsd")?).filter(|nfsd| nfsd.threads > 0)?;
        Some(Self { nfsd, pools: read("proc/fs/nfsd/pool_stats").and_then(|text| nfsd::pools(&text)) })
    }

    /// Returns the work since an earlier moment.
    pub fn since(&self, before: &Self) -> NfsdUse {
        let pools = self.pools.zip(before.pools).map(|(now, then)| Pools {
            arrived: now.arrived.saturating_sub(then.arrived),
            woken: now.woken.saturating_sub(then.woken),
        });
        let woken_share =
            |pools: Pools| (pools.arrived > 0).then(|| (pools.woken as f64 / pools.arrived as f64).min(1.0));
        NfsdUse {
            threads: self.nfsd.threads,
            calls: self.nfsd.calls.saturating_sub(before.nfsd.calls),
            woken_share: pools.and_then(woken_share),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nfsd_use_counts_only_calls_since_start() {
        let at = |calls, arrived, woken| NfsServer {
            nfsd: Nfsd { threads: 8, calls },
            pools: Some(Pools { arrived, woken }),
        };
        let used = at(1500, 1000, 400).since(&at(500, 600, 300));
        assert_eq!(used, NfsdUse { threads: 8, calls: 1000, woken_share: Some(0.25) });
        assert_eq!(at(5, 7, 3).since(&at(5, 7, 3)).woken_share, None);
    }

    #[test]
    fn recorded_nfs_server_is_read() {
        let root = Root::at(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nfs_server"));
        let now = NfsServer::now(&root).unwrap();
        assert_eq!((now.nfsd, now.pools.unwrap().woken), (Nfsd { threads: 4, calls: 13_459 }, 4808));
        assert!(NfsServer::now(&Root::at("/nowhere")).is_none());
    }
}
