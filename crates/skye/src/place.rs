//! Place of a run: a directory, a device or file that is only read, a device that is erased, or a simulated device.

use std::path::Path;
use std::sync::Arc;

use model::request::Request;
use model::run::Environment;
use model::target::TargetKind;
use model::{Machine, Plan, SimDevice, Target, UserError, spec};
use observe::Root;
use run::{CreateError, Session, SessionOptions, hang_detection};

use crate::erase::Erasure;
use crate::exit::Failure;
use crate::{cli, inputs, simulation};

/// Smallest file that is measured as a file: a block of most devices.
const BLOCK_BYTES_MIN: u64 = 512;

/// A place that was found.
#[derive(Clone)]
pub struct ResolvedTarget {
    /// The machine, the target and the settings.
    pub environment: Environment,
    device: Option<SimDevice>,
    erasure: Option<Arc<Erasure>>,
}

impl ResolvedTarget {
    /// Returns a place whose target is known. `hidden_sources` are the sources of evidence that it does not have.
    pub fn new(
        root: &Root,
        machine: &Machine,
        target: Target,
        device: Option<SimDevice>,
        hidden_sources: Vec<String>,
    ) -> Self {
        let environment = Environment::new(machine, target, observe::settings(root), hidden_sources);
        Self { environment, device, erasure: None }
    }

    /// Resolves the target that `word` means.
    ///
    /// # Errors
    /// There is no such target, reading it is not permitted, or the description of a device is invalid.
    pub fn find(root: &Root, machine: &Machine, word: &Path) -> Result<Self, UserError> {
        let real = |word: &Path| {
            real(root, word).map_err(|error| match word.to_str() {
                Some(test) if spec::is_test(test) && word.symlink_metadata().is_err() => {
                    error.help(format!("a test needs --test: skye run DIR --test {test}"))
                }
                _ => error,
            })
        };
        Self::find_by(root, machine, word, real)
    }

    /// Resolves a directory or a simulated device.
    ///
    /// # Errors
    /// As [`directory`], or the description of a device is invalid.
    pub fn find_directory(root: &Root, machine: &Machine, word: &Path) -> Result<Self, UserError> {
        Self::find_by(root, machine, word, |word| directory(root, word))
    }

    fn find_by(
        root: &Root,
        machine: &Machine,
        word: &Path,
        real: impl FnOnce(&Path) -> Result<Target, UserError>,
    ) -> Result<Self, UserError> {
        let (device, target) = match simulation::target(word)? {
            Some((device, target)) => (Some(device), target),
            None => (None, real(word)?),
        };
        Ok(Self::new(root, machine, target, device, Vec::new()))
    }

    /// Returns the target.
    pub fn target(&self) -> &Target {
        &self.environment.target
    }

    /// Returns true if it is a simulated device, whose clock is virtual.
    pub fn is_simulated(&self) -> bool {
        self.device.is_some()
    }

    /// Makes a block device one that is erased, if the request says so. Nothing is written yet.
    ///
    /// # Errors
    /// The device must stay as it is: see [`Erasure::check`].
    pub fn erase_if_requested(&mut self, root: &Root, word: &Path, request: &Request) -> Result<(), Failure> {
        let target = &mut self.environment.target;
        if target.kind == TargetKind::Device {
            let erasure = Erasure::check(root, word, target, request).map_err(Failure::refused)?;
            target.erased = erasure.as_ref().map(|erasure| erasure.erased.clone());
            self.erasure = erasure.map(Arc::new);
        }
        Ok(())
    }

    /// Begins a run there. Only an empty directory is written yet, and nothing to a device or file. A device that is to be
    /// erased is locked.
    ///
    /// # Errors
    /// The directory cannot be made or opened, or the device has changed or is in use now.
    pub fn open(&self, root: &Root, plan: &Plan, options: SessionOptions) -> Result<Session, CreateError> {
        let target = self.target();
        let options = SessionOptions { stdio_program: cli::stdio_program(), ..options };
        let erased = self.erasure.as_ref().map(|erasure| erasure.claim(root, target));
        let erased = erased.transpose().map_err(|error| CreateError { error, has_leftovers: false })?;
        match (&self.device, erased) {
            (Some(device), _) => Ok(Session::simulated(plan, target, device.clone(), options)),
            (None, Some(device)) => Ok(Session::on_device(root, plan, target, device, options)),
            (None, None) => Session::open(root, plan, target, options),
        }
    }
}

impl From<CreateError> for Failure {
    fn from(CreateError { error, has_leftovers }: CreateError) -> Self {
        if has_leftovers { Self::failed(error) } else { Self::refused(error) }
    }
}

/// Finds the directory that a word means, by a name that documents can hold. The directory may be on a server that does
/// not respond.
///
/// # Errors
/// There is no such directory, or it does not respond.
pub fn directory(root: &Root, word: &Path) -> Result<Target, UserError> {
    found(root, word, observe::target)
}

/// Finds the directory, the block device or the file that a word means, as [`directory`] does. A file that has no room
/// for a single block is a wrong name.
///
/// # Errors
/// It is none of them, reading it is not permitted, or it does not respond.
pub fn real(root: &Root, word: &Path) -> Result<Target, UserError> {
    found(root, word, |root, word| {
        let metadata = word.metadata().ok();
        let kind = metadata.as_ref().and_then(|metadata| observe::kind_of(metadata.file_type()));
        let is_tiny = metadata.is_some_and(|metadata| metadata.is_file() && metadata.len() < BLOCK_BYTES_MIN);
        if kind.is_none() || is_tiny {
            return observe::target(root, word);
        }
        let target = observe::readable(root, word, &word.display().to_string())?;
        // No result of this run may replace it.
        inputs::note(&word.metadata().map_err(|error| UserError::new("inspect the target", error))?);
        Ok(target)
    })
}

/// Finds the block device or the file that a word means, as [`real`] does, but however small it is. Messages call it by
/// its name.
///
/// # Errors
/// As [`real`].
pub fn readable(root: &Root, word: &Path, name: &str) -> Result<Target, UserError> {
    let name = name.to_owned();
    found(root, word, move |root, word| observe::readable(root, word, &name))
}

fn found(
    root: &Root,
    word: &Path,
    find: impl Fn(&Root, &Path) -> Result<Target, UserError> + Send + 'static,
) -> Result<Target, UserError> {
    let (root, word) = (root.clone(), word.to_owned());
    let action = format!("use {} as the target", word.display());
    hang_detection::wait_with_progress(
        &action,
        || 0,
        move || {
            // A path that does not resolve is reported below.
            if word.canonicalize().is_ok_and(|path| path.to_str().is_none()) {
                let action = format!("use {} as the target", word.display());
                return Err(UserError::new(action, "its name is not UTF-8, which documents require")
                    .help("choose another name for it, or mount it at another path (mount --bind)"));
            }
            find(&root, &word)
        },
    )?
}
