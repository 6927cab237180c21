//! Data that a test works on: where its blocks are, and what is known about them.

use engine::data::{Content, STAMP_INTERVAL_BYTES, Verifier};
use engine::sample::Sample;
use engine::worker::{Layout, Stamping};
use model::workload::DataWork;

use super::{Part, Share};
use crate::dataset::{FileGroup, Origin, Turns};

/// Data that a test works on, and the facts known about it.
pub(super) struct Extent {
    pub(super) layout: Layout,
    pub(super) turns: Option<Turns>,
    pub(super) size_bytes: u64,
    pub(super) content: Content,
    first_file: u32,
    generation: u32,
    verifier: Option<Verifier>,
}

impl Extent {
    pub(super) fn from_group(group: &FileGroup, data: &DataWork, part: Part) -> Self {
        let range = data.range_of(group.file_bytes);
        let (first_bytes, part_bytes) = part.range_in(range.end - range.start);
        let blocks_per_file = match data.zones {
            // The last zone ends with the file, perhaps within a block.
            Some(_) => part_bytes.div_ceil(data.block_bytes),
            None => part_bytes / data.block_bytes,
        };
        let can_verify =
            data.reads() && group.content.is_stamped() && !group.is_torn && group.origin != Origin::Read;
        let verifier =
            can_verify.then(|| Verifier::new(group.content, group.whole_generation..=group.generation));
        Self {
            layout: Layout {
                first_bytes: group.first_bytes + range.start + first_bytes,
                ..Layout::dense(blocks_per_file, data.block_bytes)
            },
            turns: group.turns,
            size_bytes: match part {
                Part::Whole if data.range.is_some() => part_bytes,
                Part::Whole => group.size_bytes(),
                _ => u64::from(group.files) * blocks_per_file * data.block_bytes,
            },
            content: group.content,
            first_file: group.first_number,
            generation: group.generation,
            verifier,
        }
    }

    /// Returns an extent of files that do not exist.
    pub(super) fn simulated(size_bytes: u64, data: &DataWork) -> Self {
        let content =
            Content { seed: 0, interval_bytes: STAMP_INTERVAL_BYTES, compress_percent: 0, dedupe_percent: 0 };
        Self {
            layout: Layout::dense(size_bytes / data.block_bytes, data.block_bytes),
            turns: None,
            size_bytes,
            content,
            first_file: 0,
            generation: 0,
            verifier: None,
        }
    }

    /// Returns the place of a thread's blocks, and its share of them. Blocks that take turns are numbered from the thread's
    /// first.
    pub(super) fn for_thread(&self, share: Share, thread: u32, threads: u32) -> (Layout, Share) {
        let Some(Turns { client, clients }) = self.turns else { return (self.layout, share) };
        let block_bytes = self.layout.step_bytes;
        // A client has the same blocks however many threads it has.
        let turn = u64::from(thread) * u64::from(clients) + u64::from(client);
        let layout = Layout {
            first_bytes: self.layout.first_bytes + turn * block_bytes,
            step_bytes: u64::from(clients) * u64::from(threads) * block_bytes,
            ..self.layout
        };
        // All threads have as many blocks, so that there is no hole between them.
        let units = self.size_bytes / block_bytes / u64::from(threads);
        (layout, Share { first_unit: 0, units, ..share })
    }

    pub(super) fn stamping(&self, seed: u64, sample: Sample) -> Stamping {
        Stamping {
            seed,
            first_file: self.first_file,
            generation: self.generation,
            interval_bytes: self.content.interval_bytes,
            verifier: self.verifier.clone(),
            sample,
        }
    }
}
