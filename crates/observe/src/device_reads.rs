//! Read requests of all block devices of the machine.

use std::collections::BTreeMap;

use crate::parse::block_stat;
use crate::root::Root;

/// Returns the read requests that each block device has completed, by its name. A path of a multipath device that the kernel
/// hides is left out.
pub fn device_reads(root: &Root) -> BTreeMap<String, u64> {
    let text = root.read("proc/diskstats").unwrap_or_default();
    let is_hidden = |name: &str| root.line(&format!("sys/class/block/{name}/hidden")).as_deref() == Some("1");
    let reads = block_stat::reads_of_all(&text).filter(|(name, _)| !is_hidden(name));
    reads.map(|(name, reads)| (name.to_owned(), reads)).collect()
}
