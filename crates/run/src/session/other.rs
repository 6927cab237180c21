//! Other clients of the same run: the data that a test with `shift` reads, and the first client's directory.

use model::UserError;
use model::order::OtherClient;
use model::plan::PlannedPhase;

use super::{OnDisk, Session, TestTarget};
use crate::data_location::DataLocation;
use crate::dataset::{DataSet, FillProgress};

/// Directory and data of another client.
pub(super) struct OtherData {
    pub(super) directory: DataLocation,
    pub(super) dataset: DataSet,
}

impl Session {
    /// Opens the data of another client, if a test reads it.
    ///
    /// # Errors
    /// It cannot be opened, or a test has discarded it.
    pub(super) fn open_other(
        &mut self,
        phase: &PlannedPhase,
        client: Option<&OtherClient>,
    ) -> Result<(), UserError> {
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        let OnDisk { directory, dataset, other, .. } = &mut **on_disk;
        *other = None;
        let reads = phase.workload.data().is_some_and(|data| data.reads_from_other_clients());
        let Some(client) = client.filter(|_| reads && phase.engine.needs_files()) else {
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
        // The seeds of the clients differ by their numbers.
        let own = self.plan.clients.and_then(|clients| clients.number).unwrap_or_default();
        let seed = self.seed.wrapping_sub(own.into()).wrapping_add(client.number.into());
        let dataset = dataset.for_client(plan, client.number, seed, client.is_sound);
        *other = Some(OtherData { directory, dataset });
        Ok(())
    }

    /// Returns true if the names of the files that tests on files have left are not known.
    pub fn has_unknown_names(&self) -> bool {
        matches!(&self.place, TestTarget::Directory(on_disk) if on_disk.files.is_unknown())
    }

    /// Opens the first client's work directory, if this is another client and a test works in it.
    ///
    /// # Errors
    /// It is not known, or cannot be opened.
    pub(super) fn open_first(&mut self, name: Option<&str>) -> Result<(), UserError> {
        let is_another =
            self.plan.clients.is_some_and(|clients| clients.number.is_some_and(|number| number > 0));
        let is_needed = is_another && self.plan.shares_files();
        let TestTarget::Directory(on_disk) = &mut self.place else { return Ok(()) };
        if !is_needed {
            return Ok(());
        }
        let unknown = || UserError::new("use the first client's directory", "its name is unknown");
        let name = name.ok_or_else(unknown)?;
        on_disk.first = Some(on_disk.directory.for_client(name, 0)?);
        Ok(())
    }
}
