//! Verbs on data: the calls of one operation, in their order.

use model::workload::{DataVerb, DataWork, SyncMode};

use crate::Call;
use crate::data::mix;

/// A verb as a small state machine: the first step of an operation, and the step that follows each step.
///
/// A read and a write are types, so that the compiler removes all that several calls need. [`Steps`] is every other verb,
/// as a table.
pub trait Verb: Clone {
    /// True if every operation is one call.
    const IS_SINGLE: bool;

    /// The calls of the verb. The index of a call here is the number of its step.
    fn steps(&self) -> &'static [Call];

    /// The call of a step.
    fn call(&self, step: usize) -> Call;

    /// True if the verb writes. Then no block may be in flight twice: its final content would be unpredictable.
    fn writes(&self) -> bool;

    /// The step that the next operation begins with.
    fn first(&mut self) -> usize;

    /// The step that follows `step`, or `None` at the end of the operation.
    fn after(&self, step: usize) -> Option<usize>;

    /// The same verb for another worker, with another seed.
    #[must_use]
    fn seeded(&self, _: u64) -> Self {
        self.clone()
    }
}

macro_rules! single {
    ($($(#[$meta:meta])* $name:ident: $call:ident;)+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl Verb for $name {
            const IS_SINGLE: bool = true;

            fn steps(&self) -> &'static [Call] {
                &[Call::$call]
            }

            #[inline]
            fn call(&self, _: usize) -> Call {
                Call::$call
            }

            #[inline]
            fn writes(&self) -> bool {
                matches!(Call::$call, Call::Write)
            }

            #[inline]
            fn first(&mut self) -> usize {
                0
            }

            #[inline]
            fn after(&self, _: usize) -> Option<usize> {
                None
            }
        }
    )+ };
}

single! {
    /// Reads a block.
    Read: Read;
    /// Writes a block.
    Write: Write;
}

/// Steps of a verb at most.
const STEPS_MAX: usize = 4;
/// Marks the end of an operation in [`Steps`].
const END: u8 = u8::MAX;

/// Any verb, as a table.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    steps: &'static [Call],
    names: &'static [&'static str],
    /// The same calls, for a look-up without a check of bounds.
    calls: [Call; STEPS_MAX],
    /// The step that follows each step.
    next: [u8; STEPS_MAX],
    is_write: bool,
    /// Chooses between the first two steps; without it, the first one begins.
    draw: Option<Draw>,
    /// Chooses between a write and the step after it, which is a write with a sync; without it, all writes are alike.
    due: Option<Due>,
}

/// A choice of each N-th write.
#[derive(Debug, Clone, Copy)]
struct Due {
    every: u32,
    left: u32,
}

/// A random choice of the first step.
#[derive(Debug, Clone, Copy)]
struct Draw {
    state: u64,
    read_below: u64,
}

impl Steps {
    /// Reads a block.
    pub const READ: Self = Self::sequence(&[Call::Read], &["read"]);
    /// Writes a block.
    pub const WRITE: Self = Self::sequence(&[Call::Write], &["write"]);
    /// Reads a block and writes it.
    pub const REWRITE: Self = Self::sequence(&[Call::Read, Call::Write], &["read", "write"]);
    /// Writes a block and makes it durable.
    pub const WRITE_DURABLY: Self = Self::sequence(&[Call::Write, Call::Datasync], &["write", "fdatasync"]);
    /// Reads a block, writes it and makes it durable.
    pub const REWRITE_DURABLY: Self =
        Self::sequence(&[Call::Read, Call::Write, Call::Datasync], &["read", "write", "fdatasync"]);
    /// Reads a block, writes it, and reads it again, as a program does that checks its own change.
    pub const REWRITE_AND_REREAD: Self =
        Self::sequence(&[Call::Read, Call::Write, Call::Read], &["read", "write", "read again"]);
    /// Discards a block.
    pub const DISCARD: Self = Self::sequence(&[Call::Discard], &["discard"]);
    /// Discards a block and makes that durable.
    pub const DISCARD_DURABLY: Self =
        Self::sequence(&[Call::Discard, Call::Datasync], &["discard", "fdatasync"]);

    /// Reads or writes a block, chosen at random.
    const MIX: Self = Self { next: [END, END, END, END], ..Self::REWRITE };
    const MIX_DURABLY: Self = Self { next: [END, 2, END, END], ..Self::REWRITE_DURABLY };
    // The first read ends its operation. The second read begins an update.
    const UPDATE: Self = Self {
        next: [END, 2, END, END],
        ..Self::sequence(&[Call::Read, Call::Read, Call::Write], &["read", "read to update", "write"])
    };
    const UPDATE_DURABLY: Self = Self {
        next: [END, 2, 3, END],
        ..Self::sequence(
            &[Call::Read, Call::Read, Call::Write, Call::Datasync],
            &["read", "read to update", "write", "fdatasync"],
        )
    };

    const WRITE_WITH_SYNCS: Self = Self {
        next: [END, 2, END, END],
        ..Self::sequence(&[Call::Write, Call::Write, Call::Datasync], &["write", "write", "fdatasync"])
    };
    const MIX_WITH_SYNCS: Self = Self {
        next: [END, END, 3, END],
        ..Self::sequence(
            &[Call::Read, Call::Write, Call::Write, Call::Datasync],
            &["read", "write", "write", "fdatasync"],
        )
    };

    /// The verb of a test. Mixes draw from `draw_seed`.
    pub fn from_work(data: &DataWork, draw_seed: u64) -> Self {
        let due = data.sync_every.map(|every| Due { every, left: every });
        let each = data.sync == SyncMode::Each;
        match data.verb {
            DataVerb::Write if due.is_some() => Self { due, ..Self::WRITE_WITH_SYNCS },
            DataVerb::Write if !each => Self::WRITE,
            DataVerb::Write | DataVerb::Fsync => Self::WRITE_DURABLY,
            DataVerb::Discard if each => Self::DISCARD_DURABLY,
            DataVerb::Discard => Self::DISCARD,
            DataVerb::Rewrite if each => Self::REWRITE_DURABLY,
            DataVerb::Rewrite if data.reread => Self::REWRITE_AND_REREAD,
            DataVerb::Rewrite => Self::REWRITE,
            DataVerb::Rw if data.update => Self::update(data.read_percent, each, draw_seed),
            DataVerb::Rw if due.is_some() => {
                Self { due, draw: Some(Draw::new(data.read_percent, draw_seed)), ..Self::MIX_WITH_SYNCS }
            }
            DataVerb::Rw => Self::mix(data.read_percent, each, draw_seed),
            // Verbs on bytes have separate loops.
            DataVerb::Read
            | DataVerb::ByteRead
            | DataVerb::ByteWrite
            | DataVerb::GetcRead
            | DataVerb::PutcWrite => Self::READ,
        }
    }

    /// Reads that percentage of blocks and writes the others, at random. Workers with different seeds draw
    /// independently.
    pub fn mix(read_percent: u8, is_durable: bool, seed: u64) -> Self {
        let verb = if is_durable { Self::MIX_DURABLY } else { Self::MIX };
        Self { draw: Some(Draw::new(read_percent, seed)), ..verb }
    }

    /// Reads a block and at random writes it back, as a program does that looks up records and changes some. That
    /// percentage of operations only reads. Workers with different seeds draw independently.
    pub fn update(read_percent: u8, is_durable: bool, seed: u64) -> Self {
        let verb = if is_durable { Self::UPDATE_DURABLY } else { Self::UPDATE };
        Self { draw: Some(Draw::new(read_percent, seed)), ..verb }
    }

    const fn sequence(steps: &'static [Call], names: &'static [&'static str]) -> Self {
        let (mut calls, mut next) = ([Call::Read; STEPS_MAX], [END; STEPS_MAX]);
        let (mut step, mut is_write) = (0, false);
        while step < steps.len() {
            calls[step] = steps[step];
            is_write |= matches!(steps[step], Call::Write);
            if step + 1 < steps.len() {
                next[step] = step as u8 + 1;
            }
            step += 1;
        }
        Self { steps, names, calls, next, is_write, draw: None, due: None }
    }

    /// The names of the steps in results. Steps of one name are counted together there.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }
}

impl Draw {
    fn new(read_percent: u8, seed: u64) -> Self {
        // The share as a limit on 64-bit numbers; 100 % must include the largest.
        let read_below = (u128::from(read_percent) << 64) / 100;
        Self { state: seed, read_below: u64::try_from(read_below).unwrap_or(u64::MAX) }
    }

    #[inline]
    fn next(&mut self) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::from(mix(self.state) >= self.read_below)
    }
}

impl Due {
    /// Returns true for each N-th write.
    #[inline]
    fn next(&mut self) -> bool {
        self.left -= 1;
        let is_due = self.left == 0;
        if is_due {
            self.left = self.every;
        }
        is_due
    }
}

impl Verb for Steps {
    const IS_SINGLE: bool = false;

    fn steps(&self) -> &'static [Call] {
        self.steps
    }

    #[inline]
    fn call(&self, step: usize) -> Call {
        self.calls[step % STEPS_MAX]
    }

    #[inline]
    fn writes(&self) -> bool {
        self.is_write
    }

    #[inline]
    fn first(&mut self) -> usize {
        let step = self.draw.as_mut().map_or(0, Draw::next);
        match &mut self.due {
            Some(due) if self.calls[step % STEPS_MAX] == Call::Write => step + usize::from(due.next()),
            _ => step,
        }
    }

    #[inline]
    fn after(&self, step: usize) -> Option<usize> {
        let next = self.next[step % STEPS_MAX];
        (next != END).then_some(next.into())
    }

    fn seeded(&self, seed: u64) -> Self {
        Self { draw: self.draw.map(|draw| Draw { state: seed, ..draw }), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mix_issues_the_requested_read_percentage() {
        for percent in [0, 10, 50, 90, 100] {
            let mut verb = Steps::mix(percent, false, 42);
            let reads = (0..100_000).filter(|_| verb.first() == 0).count();
            // Five standard deviations of a binomial of 100,000 are below 800.
            assert!(reads.abs_diff(usize::from(percent) * 1000) < 800, "{percent} %: {reads}");
        }
    }

    #[test]
    fn each_verb_runs_its_steps_in_order() {
        let after = |verb: Steps| (0..verb.steps().len()).map(|step| verb.after(step)).collect::<Vec<_>>();
        assert_eq!(after(Steps::REWRITE), [Some(1), None]);
        assert_eq!(after(Steps::REWRITE_AND_REREAD), [Some(1), Some(2), None]);
        assert_eq!(after(Steps::READ), [None]);
        assert_eq!(after(Steps::mix(50, false, 1)), [None, None]);
        assert_eq!(after(Steps::mix(50, true, 1)), [None, Some(2), None]);
        assert_eq!(after(Steps::update(50, true, 1)), [None, Some(2), Some(3), None]);
        assert_eq!(after(Steps::update(50, false, 1)), [None, Some(2), None]);
    }

    #[test]
    fn each_third_write_is_synced() {
        let mut data = DataWork::new(DataVerb::Write);
        data.sync_every = Some(3);
        let mut verb = Steps::from_work(&data, 1);
        let first: Vec<_> = (0..7).map(|_| verb.first()).collect();
        assert_eq!(first, [0, 0, 1, 0, 0, 1, 0]);
        assert_eq!((verb.after(0), verb.after(1), verb.after(2)), (None, Some(2), None));
        let mut mixed = Steps::from_work(&DataWork { verb: DataVerb::Rw, ..data }, 1);
        let first_steps: Vec<_> = (0..3000).map(|_| mixed.first()).collect();
        let count = |step| first_steps.iter().filter(|first| **first == step).count();
        assert!(count(2).abs_diff((count(1) + count(2)) / 3) <= 1 && count(0) > 1000, "{}", count(2));
        assert_eq!((mixed.after(1), mixed.after(2), mixed.after(3)), (None, Some(3), None));
    }

    #[test]
    fn step_tables_match_single_call_verbs() {
        assert_eq!((Steps::READ.steps(), Steps::READ.writes()), (Read.steps(), Read.writes()));
        assert_eq!((Steps::WRITE.steps(), Steps::WRITE.writes()), (Write.steps(), Write.writes()));
        for verb in [Steps::DISCARD_DURABLY, Steps::REWRITE_DURABLY, Steps::update(50, true, 1)] {
            assert_eq!(verb.names().len(), verb.steps().len());
            assert!((0..verb.steps().len()).all(|step| verb.call(step) == verb.steps()[step]));
        }
    }
}
