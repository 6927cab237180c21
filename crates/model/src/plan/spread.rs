//! Spread of the data over a file system.

use serde::{Deserialize, Serialize};

use super::Dataset;
use crate::target::{Backing, Target, TargetKind};
use crate::user_error::UserError;

/// Spread of files over a file system. A disk may be faster in one place than in another, so that a file in one place gives the
/// rate of that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Places of each file.
    pub places: u32,
    /// Bytes from its first place to its last. They are allocated, and all but the file's own are freed before it is written.
    pub span_bytes: u64,
}

/// Places of a file, unless requested.
const PLACES: u32 = 8;
/// Most places of a file.
const PLACES_MAX: u32 = 64;
/// The data is spread without a request if it takes less than this part of the space that the run may use.
const SPREAD_DIVISOR: u64 = 8;
/// Part of the rest of that space, as a divisor, over which it is spread. Other programs may need the other part.
const SPAN_DIVISOR: u64 = 2;

impl Spread {
    /// Returns the spread of the files of a data set, if the run may use `usable_bytes`. It is `None` where the file system
    /// chooses.
    ///
    /// # Errors
    /// Fails if the user requested places that cannot be chosen.
    pub(super) fn new(
        requested: Option<u32>,
        dataset: &Dataset,
        usable_bytes: u64,
        target: &Target,
    ) -> Result<Option<Self>, UserError> {
        let places = requested.unwrap_or(PLACES);
        let made = dataset.groups.iter().filter(|group| !group.is_fresh);
        let files: u64 = made.map(|group| u64::from(group.files)).sum();
        let data_bytes = dataset.file_bytes_max();
        let span_bytes = usable_bytes.saturating_sub(data_bytes) / SPAN_DIVISOR / files.max(1);
        let refusal = if !(1..=PLACES_MAX).contains(&places) {
            Some(("that number is out of range", format!("use --places 1 to {PLACES_MAX}")))
        } else if !can_spread(target) {
            let cause = "files have places only on disks of this machine, without copy on write";
            Some((cause, "use --places 1".into()))
        } else if span_bytes < data_bytes / files.max(1) {
            Some(("too little space is free", "use a smaller --size, or --places 1".into()))
        } else {
            None
        };
        let is_wanted = requested.is_some() || data_bytes < usable_bytes / SPREAD_DIVISOR;
        match refusal {
            Some((cause, help)) if requested.is_some_and(|places| places != 1) => {
                let action = format!("spread files over {places} places in {}", target.path);
                Err(UserError::new(action, cause).help(help))
            }
            Some(_) => Ok(None),
            None => Ok((is_wanted && places > 1 && files > 0).then_some(Self { places, span_bytes })),
        }
    }
}

/// Returns true if skye can choose where the blocks of its files lie.
fn can_spread(target: &Target) -> bool {
    target.kind == TargetKind::Directory
        && target.backing == Backing::Devices
        && target.space.has_bytes()
        && !target.copies_on_write()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{GIB, disk_that_polls, machine, request_for};
    use crate::plan::{Plan, plan};
    use crate::request::Request;
    use crate::size::Size;

    fn planned(places: Option<u32>, size_bytes: u64, target: &Target) -> Result<Plan, String> {
        let size = Some(Size::Bytes(size_bytes));
        let request = Request { places, size, ..request_for(&["read:rnd4k:t4", "write:seq1m:t4"]) };
        plan(&request, target, &machine(None)).map_err(|error| error.to_string())
    }

    fn places(places: Option<u32>, size_bytes: u64, target: &Target) -> Option<u32> {
        planned(places, size_bytes, target).unwrap().dataset.unwrap().spread.map(|spread| spread.places)
    }

    #[test]
    fn small_data_set_is_spread_without_a_request() {
        let mut target = disk_that_polls(None);
        (target.space.total_bytes, target.space.free_bytes) = (100 * GIB, 100 * GIB);
        assert_eq!(
            [None, Some(1), Some(20)].map(|asked| places(asked, GIB, &target)),
            [Some(8), None, Some(20)]
        );
        // Too much for a default, and not for a request.
        assert_eq!([None, Some(3)].map(|asked| places(asked, 20 * GIB, &target)), [None, Some(3)]);
        // A twentieth stays free. Four files share half of the rest.
        let spread = planned(None, 4 * GIB, &target).unwrap().dataset.unwrap().spread.unwrap();
        assert_eq!(spread.span_bytes, (95 - 4) * GIB / 2 / 4);
    }

    #[test]
    fn places_are_refused_where_none_can_be_chosen() {
        let disk = disk_that_polls(None);
        let btrfs = Target { file_system: "btrfs".into(), ..disk.clone() };
        let server = Target { backing: Backing::RemoteOrUserSpace, ..disk.clone() };
        for target in [&btrfs, &server] {
            assert_eq!(places(None, GIB, target), None);
            let refused = planned(Some(8), GIB, target).unwrap_err();
            assert!(refused.contains("without copy on write; use --places 1"), "{refused}");
        }
        assert!(planned(Some(65), GIB, &disk).unwrap_err().contains("use --places 1 to 64"));
        assert!(planned(Some(0), GIB, &disk).unwrap_err().contains("out of range"));
    }
}
