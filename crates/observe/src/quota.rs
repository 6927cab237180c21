//! Room that quotas leave to this user and its group.

use model::Target;
use model::health::Quota;
use model::target::Backing;
use nix::sys::quota::{Dqblk, QuotaType, quotactl_get};
use rustix::process::{getegid, geteuid};

/// Unit of the kernel's limits of space (`QIF_DQBLKSIZE`).
const LIMIT_UNIT_BYTES: u64 = 1024;

/// Reads the quotas of the caller on the block device of a file system. The kernel lets everybody read their own. `None` if
/// there is no limit.
pub(crate) fn quota(target: &Target) -> Option<Quota> {
    if target.backing != Backing::Devices || !target.source.starts_with('/') {
        return None;
    }
    let read = |kind, id: u32| quotactl_get(kind, target.source.as_str(), i32::try_from(id).ok()?).ok();
    let of_user = read(QuotaType::USRQUOTA, geteuid().as_raw());
    let of_group = read(QuotaType::GRPQUOTA, getegid().as_raw());
    least(of_user.iter().chain(&of_group))
}

/// Returns the least room that any of the quotas leaves.
fn least<'a>(quotas: impl Iterator<Item = &'a Dqblk> + Clone) -> Option<Quota> {
    let bytes = |quota: &Dqblk| {
        let limits = [quota.blocks_hard_limit(), quota.blocks_soft_limit()];
        room(
            limits.map(|limit| limit.map(|units| units.saturating_mul(LIMIT_UNIT_BYTES))),
            quota.occupied_space(),
        )
    };
    let inodes = |quota: &Dqblk| {
        room([quota.inodes_hard_limit(), quota.inodes_soft_limit()], quota.allocated_inodes())
    };
    let quota = Quota {
        free_bytes: quotas.clone().filter_map(bytes).min(),
        inodes_free: quotas.filter_map(inodes).min(),
    };
    (quota != Quota { free_bytes: None, inodes_free: None }).then_some(quota)
}

/// Returns the room below the lower of two limits, of which 0 is none. `None` where either is not known.
fn room(limits: [Option<u64>; 2], used: Option<u64>) -> Option<u64> {
    let limit = limits.into_iter().flatten().filter(|limit| *limit > 0).min()?;
    Some(limit.saturating_sub(used?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_below_the_lower_limit() {
        assert_eq!(room([Some(10), Some(8)], Some(3)), Some(5));
        assert_eq!(room([Some(10), Some(0)], Some(3)), Some(7));
        assert_eq!(room([Some(10), None], Some(30)), Some(0));
        assert_eq!(room([Some(0), Some(0)], Some(3)), None);
        assert_eq!(room([Some(10), Some(8)], None), None);
    }

    /// A quota with these limits of space and of inodes, of which nothing is used.
    fn limits(blocks: [u64; 2], inodes: [u64; 2]) -> Dqblk {
        let mut quota = Dqblk::default();
        quota.set_blocks_hard_limit(blocks[0]);
        quota.set_blocks_soft_limit(blocks[1]);
        quota.set_inodes_hard_limit(inodes[0]);
        quota.set_inodes_soft_limit(inodes[1]);
        quota
    }

    #[test]
    fn quota_without_valid_fields_limits_nothing() {
        assert_eq!(least([limits([0; 2], [0; 2]), limits([10; 2], [10; 2])].iter()), None);
        assert_eq!(least([].iter()), None);
    }
}
