//! Place of a run: a directory, or a simulated device.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use model::{Plan, SimDevice, Target, Trouble};
use observe::Root;
use run::{Session, Unmade, patience};

use crate::exit::Failure;
use crate::{cli, simulation};

/// A place that was found.
pub struct Place {
    /// Target of the run.
    pub target: Target,
    device: Option<SimDevice>,
}

impl Place {
    /// Finds the place that a word means.
    ///
    /// # Errors
    /// There is no such directory, or the description of a device cannot be understood.
    pub fn find(root: &Root, word: &Path) -> Result<Self, Failure> {
        Ok(match simulation::target(word)? {
            Some((device, target)) => Self { target, device: Some(device) },
            None => Self { target: directory(root, word).map_err(Failure::refused)?, device: None },
        })
    }

    /// Begins a run there. Only an empty directory is written yet.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn open(
        &self,
        root: &Root,
        plan: &Plan,
        seed: u64,
        raised: Arc<AtomicBool>,
    ) -> Result<Session, Failure> {
        let mut session = match &self.device {
            Some(device) => Session::simulated(plan, &self.target, device.clone(), seed, raised),
            None => Session::open(root, plan, &self.target, seed, raised).map_err(
                |Unmade { trouble, leaves }| {
                    if leaves { Failure::failed(trouble) } else { Failure::refused(trouble) }
                },
            )?,
        };
        session.set_stdio_program(cli::stdio_program());
        Ok(session)
    }
}

/// Finds the directory that a word means, by a name that documents can hold. The directory may lie on a server that
/// does not answer.
///
/// # Errors
/// There is no such directory, or it does not answer.
pub fn directory(root: &Root, word: &Path) -> Result<Target, Trouble> {
    let (root, word) = (root.clone(), word.to_owned());
    let attempt = format!("use {} as the target", word.display());
    patience::wait_while_it_moves(
        &attempt,
        || 0,
        move || {
            // A path that does not resolve is reported below.
            if word.canonicalize().is_ok_and(|path| path.to_str().is_none()) {
                let attempt = format!("use {} as the target", word.display());
                return Err(Trouble::new(attempt, "its name is not UTF-8, as documents of runs are")
                    .remedy("rename it, or mount it by another name (mount --bind)"));
            }
            observe::target(&root, &word)
        },
    )?
}
