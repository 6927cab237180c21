//! The rigs of one stack.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Error, Result};
use rig::{RequestLog, Rig, Spec};

use super::grammar::{Relief, Stack};

/// The rig that is measured, and what runs beside it.
pub(super) struct Rigs {
    server: Vec<OsString>,
    hogs: Option<Rig>,
    hog_count: Option<u32>,
    quota: Option<Rig>,
    neighbour: Option<Rig>,
    /// The last to go: the others may use it.
    place: Rig,
}

impl Rigs {
    /// Builds a stack. `server` is the command line of a program that holds a rig. This process and its children share
    /// the stack's quota until it is undone.
    ///
    /// # Errors
    /// A part cannot be built; nothing is left then.
    pub(super) fn build(server: &[OsString], stack: &Stack) -> Result<Self> {
        let start = |spec: Spec| Rig::start(server, spec).map_err(Error::msg);
        let place = start(stack.spec.clone())?;
        if stack.is_unprivileged {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777))
                .context("let other users measure")?;
        }
        let neighbour =
            stack.neighbour.map(|rate| start(Spec::neighbour(place.path(), rate).into())).transpose()?;
        let quota = stack.quota_cpus.map(|cpus| start(Spec::quota(cpus).into())).transpose()?;
        let hog_count = stack.hogs;
        let mut rigs = Self { server: server.to_vec(), place, hogs: None, hog_count, quota, neighbour };
        rigs.start_hogs()?;
        if let Some(quota) = &rigs.quota {
            quota.join(std::process::id()).map_err(Error::msg)?;
        }
        Ok(rigs)
    }

    /// Directory of its file system.
    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Returns the answers of its server since the last call.
    ///
    /// # Errors
    /// It has no server.
    pub(super) fn take_served(&self) -> Result<RequestLog> {
        self.place.take_served().map_err(Error::msg)
    }

    /// Relieves a part.
    ///
    /// # Errors
    /// The rig cannot be changed.
    pub(super) fn relieve(&mut self, relief: &Relief) -> Result<()> {
        match relief {
            Relief::Set { relieved, .. } => set(&self.place, relieved),
            Relief::Quota { relieved, .. } => self.quota.iter().try_for_each(|quota| set(quota, relieved)),
            Relief::Pause => self.hogs.take().map_or(Ok(()), Rig::finish).map_err(Error::msg),
        }
    }

    /// Takes a relief back.
    ///
    /// # Errors
    /// The rig cannot be changed.
    pub(super) fn restore(&mut self, relief: &Relief) -> Result<()> {
        match relief {
            Relief::Set { restored, .. } => set(&self.place, restored),
            Relief::Quota { restored, .. } => self.quota.iter().try_for_each(|quota| set(quota, restored)),
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
        let others = [self.quota, self.hogs, self.neighbour].into_iter().flatten();
        others.chain([self.place]).try_for_each(Rig::finish).map_err(Error::msg)
    }
}

fn set(rig: &Rig, words: &str) -> Result<()> {
    rig.set(words).map(drop).map_err(Error::msg)
}
