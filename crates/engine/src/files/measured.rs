//! A round of any verb on files, behind one indirect call.

use super::{
    Entries, FileLocation, FileOps, NameOps, Readdir, RemoveTree, Round, RoundLimits, Unexpected, VisitOrder,
    WalkTree, round,
};
use crate::clock::Timer;
use crate::recorder::Recorder;

/// A verb with all that its rounds need. The caller makes one indirect call for a round.
pub trait Measured {
    /// Performs an operation on every file of a set, once.
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round;

    /// Makes the files that a round works on, if only the verb knows them. Returns the bytes written, too.
    fn populate(&mut self, _: &FileLocation<'_>, _: RoundLimits<'_>) -> Option<(Round, u64)> {
        None
    }

    /// Returns the operations that returned another result than in the load file.
    fn unexpected(&self) -> Option<Unexpected> {
        None
    }
}

impl<V: FileOps> Measured for V {
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        round(self, place, visits, clock, recorder, limits)
    }

    fn populate(&mut self, place: &FileLocation<'_>, limits: RoundLimits<'_>) -> Option<(Round, u64)> {
        FileOps::populate(self, place, limits)
    }

    fn unexpected(&self) -> Option<Unexpected> {
        FileOps::unexpected(self)
    }
}

impl<O: NameOps> Measured for Entries<O> {
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl Measured for Readdir {
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        _: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, clock, recorder, limits)
    }
}

impl Measured for WalkTree {
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, visits.files, clock, recorder, limits)
    }
}

impl Measured for RemoveTree {
    fn round(
        &mut self,
        place: &FileLocation<'_>,
        visits: VisitOrder,
        clock: &Timer,
        recorder: &mut Recorder,
        limits: RoundLimits<'_>,
    ) -> Round {
        self.round(place, Some(visits.files), clock, recorder, limits)
    }
}
