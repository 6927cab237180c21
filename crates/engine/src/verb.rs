//! Verbs on data: which calls one operation makes, in which order.

use crate::Call;
use crate::data::mix;

/// A verb as a small state machine: the step that an operation begins with, and the one that follows each.
pub trait Verb: Clone {
    /// The calls; steps are known by their place here.
    const STEPS: &'static [Call];

    /// Whether it writes: then no block may be in flight twice, as what lies there in the end would be nobody's.
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

    /// The step that follows `step`, or the end of the operation.
    fn after(step: usize) -> Option<usize>;

    /// The names of the steps in results.
    fn names() -> Vec<&'static str> {
        Self::STEPS.iter().map(|call| Call::name(*call)).collect()
    }

    /// The same for another worker: what it draws comes from a seed of its own.
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
}

/// Reads a block, writes it, and reads it again: a program that looks at what it has just changed.
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

/// Reads or writes a block, by lot.
#[derive(Debug, Clone, Copy)]
pub struct Mix<const DURABLE: bool> {
    state: u64,
    read_below: u64,
}

impl<const DURABLE: bool> Mix<DURABLE> {
    /// A mix with that percentage of reads; workers draw independently from different seeds.
    pub fn new(read_percent: u8, seed: u64) -> Self {
        // The share of all 64-bit numbers; 100 % must include the largest.
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

/// Reads a block, and by lot writes it back: a record that is looked up is now and then changed.
#[derive(Debug, Clone, Copy)]
pub struct Update<const DURABLE: bool>(Mix<DURABLE>);

impl<const DURABLE: bool> Update<DURABLE> {
    /// Updates of which that percentage only reads; workers draw independently from different seeds.
    pub fn new(read_percent: u8, seed: u64) -> Self {
        Self(Mix::new(read_percent, seed))
    }
}

impl<const DURABLE: bool> Verb for Update<DURABLE> {
    // The first read ends its operation, the second begins an update.
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
