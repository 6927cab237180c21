//! The rigs of one stack.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Error, Result};
use rig::{Rig, Spec};

use super::grammar::{Relief, Stack};

/// The rig that is measured, and the other processes beside it.
pub(super) struct Rigs {
    server: Vec<OsString>,
    place: Rig,
    hogs: Option<Rig>,
    hog_count: Option<u32>,
}

impl Rigs {
    /// Builds a stack. `server` is the command line of a program that holds a rig.
    ///
    /// # Errors
    /// A part cannot be built; nothing is left then.
    pub(super) fn build(server: &[OsString], stack: &Stack) -> Result<Self> {
        let place = Rig::start(server, stack.spec.clone()).map_err(Error::msg)?;
        let mut rigs = Self { server: server.to_vec(), place, hogs: None, hog_count: stack.hogs };
        rigs.start_hogs()?;
        Ok(rigs)
    }

    /// Directory of its file system.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Relieves a part.
    ///
    /// # Errors
    /// The rig cannot be changed.
    pub(super) fn relieve(&mut self, relief: &Relief) -> Result<()> {
        match relief {
            Relief::Set { relieved, .. } => self.place.set(relieved).map(drop).map_err(Error::msg),
            Relief::Pause => self.hogs.take().map_or(Ok(()), Rig::finish).map_err(Error::msg),
        }
    }

    /// Takes a relief back.
    ///
    /// # Errors
    /// The rig cannot be changed.
    pub(super) fn restore(&mut self, relief: &Relief) -> Result<()> {
        match relief {
            Relief::Set { restored, .. } => self.place.set(restored).map(drop).map_err(Error::msg),
            Relief::Pause => self.start_hogs(),
        }
    }

    fn start_hogs(&mut self) -> Result<()> {
        if let Some(count) = self.hog_count {
            self.hogs = Some(Rig::start(&self.server, Spec::hogs(count)).map_err(Error::msg)?);
        }
        Ok(())
    }

    /// Undoes all.
    ///
    /// # Errors
    /// Parts that are left, and why.
    pub(super) fn finish(self) -> Result<()> {
        self.hogs.into_iter().chain([self.place]).try_for_each(Rig::finish).map_err(Error::msg)
    }
}
