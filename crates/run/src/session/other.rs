//! Other clients of the same run: their processes, and the data that a test with `shift` reads. The share of this client in
//! the write limit.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use engine::budget::Budget;
use model::UserError;
use model::plan::PlannedPhase;

use super::{OnDisk, Session, TestTarget};
use crate::data_location::DataLocation;
use crate::dataset::{DataSet, FillProgress};

/// A client whose data another one reads.
#[derive(Debug, Clone)]
pub struct OtherClient {
    /// Its number.
    pub number: u32,
    /// Name of its work directory, beside that of this client.
    pub directory: String,
    /// Seed of its session.
    pub seed: u64,
    /// True if all its tests so far have ended well.
    pub is_sound: bool,
}

/// Directory and data of another client.
pub(super) struct OtherData {
    pub(super) directory: DataLocation,
    pub(super) dataset: DataSet,
}

impl Session {
    /// Takes these processes of the machine for part of the test. With none, another of the clients here watches it.
    pub fn know(&mut self, processes: Option<&[u32]>, clients_per_machine: u32) {
        if let TestTarget::Directory(on_disk) = &mut self.place {
            on_disk.meter.exclude_processes(processes, clients_per_machine);
        }
    }

    /// Sets the flag that another process raises once a phase of one measured part has done enough. The session then
    /// no longer decides that by itself.
    pub fn set_enough(&mut self, enough: Arc<AtomicBool>) {
        self.enough = Some(enough);
    }

    /// Sets the most bytes that the session may write, whatever its plan says.
    pub fn set_write_limit(&mut self, bytes: u64) {
        self.budget = Arc::new(Budget::new(bytes, 1));
    }

    /// Sets the client whose data the next tests with `shift` read; `None` for this one's own.
    pub fn set_other(&mut self, other: Option<OtherClient>) {
        self.other = other;
    }

    /// Opens the data of another client, if a test reads it.
    ///
    /// # Errors
    /// It cannot be opened, or a test has discarded it.
    pub(super) fn open_other(&mut self, phase: &PlannedPhase) -> Result<(), UserError> {
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        let OnDisk { directory, dataset, other, .. } = &mut **on_disk;
        *other = None;
        let reads = phase.workload.data().is_some_and(|data| data.reads_from_other_clients());
        let Some(client) = self.other.as_ref().filter(|_| reads && phase.engine.needs_files()) else {
            return Ok(());
        };
        let Some(dataset) = dataset else { return Ok(()) };
        if dataset.groups.iter().any(|group| group.filled == FillProgress::Discarded) {
            let action = "read another client's data";
            return Err(
                UserError::new(action, "an earlier test discarded it").help("move discard to the end")
            );
        }
        let directory = directory.for_client(&client.directory, client.number)?;
        let Some(plan) = &self.plan.dataset else { return Ok(()) };
        let dataset = dataset.for_client(plan, client.number, client.seed, client.is_sound);
        *other = Some(OtherData { directory, dataset });
        Ok(())
    }

    /// Sets the name of the first client's work directory, for tests in files or directories of all clients.
    pub fn set_first(&mut self, first: Option<String>) {
        self.first = first;
    }

    /// Returns true if the names of the files that tests on files have left are not known.
    pub fn has_unknown_names(&self) -> bool {
        matches!(&self.place, TestTarget::Directory(on_disk) if on_disk.files.is_unknown())
    }

    /// Makes the next test on files recreate its files: another client does not know the existing names.
    pub fn forget_names(&mut self) {
        if let TestTarget::Directory(on_disk) = &mut self.place {
            on_disk.files.forget();
        }
    }

    /// Opens the first client's work directory, if this is another client and a test works in it.
    ///
    /// # Errors
    /// It is not known, or cannot be opened.
    pub(super) fn open_first(&mut self) -> Result<(), UserError> {
        let is_another =
            self.plan.clients.is_some_and(|clients| clients.number.is_some_and(|number| number > 0));
        let is_needed = is_another && self.plan.shares_files();
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        if !is_needed {
            return Ok(());
        }
        let unknown = || UserError::new("use the first client's directory", "its name is unknown");
        let name = self.first.as_deref().ok_or_else(unknown)?;
        on_disk.first = Some(on_disk.directory.for_client(name, 0)?);
        Ok(())
    }
}
