//! Verbs on data: the calls of one operation, in their order.

use crate::Call;
use crate::data::mix;

/// A verb as a small state machine: the first step of an operation, and the step that follows each step.
pub trait Verb: Clone {
    /// The calls of the verb. The index of a call here is the number of its step.
    const STEPS: &'static [Call];

    /// True if the verb writes. Then no block may be in flight twice: its final content would be unpredictable.
    const WRITES: bool = {
        let (mut step, mut writes) = (0, false);
        while step < Self::STEPS.len() {
            writes |= matches!(Self::STEPS[step], Call::Write);
            step += 1;
        }
        writes
    };

    /// The step that the next operation begins with.
    fn first(&mut self) -> usize;

    /// The step that follows `step`, or `None` at the end of the operation.
    fn after(step: usize) -> Option<usize>;

    /// The names of the steps in results.
    fn names() -> Vec<&'static str> {
        Self::STEPS.iter().map(|call| Call::name(*call)).collect()
    }

    /// The same verb for another worker, which draws from a seed of its own.
    #[must_use]
    fn seeded(&self, _: u64) -> Self {
        self.clone()
    }
}

macro_rules! sequence {
    ($($(#[$meta:meta])* $name:ident: $($call:ident),+;)+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default)]
        pub struct $name;

        impl Verb for $name {
            const STEPS: &'static [Call] = &[$(Call::$call),+];

            #[inline]
            fn first(&mut self) -> usize {
                0
            }

            #[inline]
            fn after(step: usize) -> Option<usize> {
                (step + 1 < Self::STEPS.len()).then_some(step + 1)
            }
        }
    )+ };
}

sequence! {
    /// Reads a block.
    Read: Read;
    /// Writes a block.
    Write: Write;
    /// Reads a block and writes it.
    Rewrite: Read, Write;
    /// Writes a block and makes it durable.
    WriteDurably: Write, Datasync;
    /// Reads a block, writes it and makes it durable.
    RewriteDurably: Read, Write, Datasync;
    /// Discards a block.
    Discard: Discard;
    /// Discards a block and makes that durable.
    DiscardDurably: Discard, Datasync;
}

/// Reads a block, writes it, and reads it again, as a program does that checks its own change.
#[derive(Debug, Clone, Copy, Default)]
pub struct RewriteAndReread;

impl Verb for RewriteAndReread {
    const STEPS: &'static [Call] = &[Call::Read, Call::Write, Call::Read];

    #[inline]
    fn first(&mut self) -> usize {
        0
    }

    #[inline]
    fn after(step: usize) -> Option<usize> {
        (step < 2).then_some(step + 1)
    }

    fn names() -> Vec<&'static str> {
        vec!["read", "write", "read again"]
    }
}

/// Reads or writes a block, chosen at random.
#[derive(Debug, Clone, Copy)]
pub struct Mix<const DURABLE: bool> {
    state: u64,
    read_below: u64,
}

impl<const DURABLE: bool> Mix<DURABLE> {
    /// A mix with that percentage of reads. Workers with different seeds draw independently.
    pub fn new(read_percent: u8, seed: u64) -> Self {
        // The share as a limit on 64-bit numbers; 100 % must include the largest.
        let read_below = (u128::from(read_percent) << 64) / 100;
        Self { state: seed, read_below: u64::try_from(read_below).unwrap_or(u64::MAX) }
    }
}

impl<const DURABLE: bool> Verb for Mix<DURABLE> {
    const STEPS: &'static [Call] =
        if DURABLE { &[Call::Read, Call::Write, Call::Datasync] } else { &[Call::Read, Call::Write] };

    #[inline]
    fn first(&mut self) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::from(mix(self.state) >= self.read_below)
    }

    #[inline]
    fn after(step: usize) -> Option<usize> {
        (DURABLE && step == 1).then_some(2)
    }

    fn seeded(&self, seed: u64) -> Self {
        Self { state: seed, ..*self }
    }
}

/// Reads a block and at random writes it back, as a program does that looks up records and changes some.
#[derive(Debug, Clone, Copy)]
pub struct Update<const DURABLE: bool>(Mix<DURABLE>);

impl<const DURABLE: bool> Update<DURABLE> {
    /// Updates; that percentage of operations only reads. Workers with different seeds draw independently.
    pub fn new(read_percent: u8, seed: u64) -> Self {
        Self(Mix::new(read_percent, seed))
    }
}

impl<const DURABLE: bool> Verb for Update<DURABLE> {
    // The first read ends its operation. The second read begins an update.
    const STEPS: &'static [Call] = if DURABLE {
        &[Call::Read, Call::Read, Call::Write, Call::Datasync]
    } else {
        &[Call::Read, Call::Read, Call::Write]
    };

    #[inline]
    fn first(&mut self) -> usize {
        self.0.first()
    }

    #[inline]
    fn after(step: usize) -> Option<usize> {
        (step > 0 && step + 1 < Self::STEPS.len()).then_some(step + 1)
    }

    fn names() -> Vec<&'static str> {
        ["read", "read to update", "write", "fdatasync"][..Self::STEPS.len()].into()
    }

    fn seeded(&self, seed: u64) -> Self {
        Self(self.0.seeded(seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_keep_their_percentage() {
        for percent in [0, 10, 50, 90, 100] {
            let mut verb = Mix::<false>::new(percent, 42);
            let reads = (0..100_000).filter(|_| verb.first() == 0).count();
            // Five standard deviations of a binomial of 100,000 are below 800.
            assert!(reads.abs_diff(usize::from(percent) * 1000) < 800, "{percent} %: {reads}");
        }
    }

    #[test]
    fn steps_follow_each_other() {
        assert_eq!(Rewrite::after(0), Some(1));
        assert_eq!(Rewrite::after(1), None);
        assert_eq!([0, 1, 2].map(RewriteAndReread::after), [Some(1), Some(2), None]);
        assert_eq!(RewriteAndReread::names().len(), RewriteAndReread::STEPS.len());
        assert_eq!(Read::after(0), None);
        assert_eq!(Mix::<true>::after(0), None);
        assert_eq!(Mix::<true>::after(1), Some(2));
        let updates = [0, 1, 2, 3].map(Update::<true>::after);
        assert_eq!(updates, [None, Some(2), Some(3), None]);
        assert_eq!([1, 2].map(Update::<false>::after), [Some(2), None]);
        assert_eq!(Update::<false>::names(), ["read", "read to update", "write"]);
    }
}
