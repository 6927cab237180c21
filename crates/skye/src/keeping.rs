//! Places where runs are saved. They are found before anything is measured, and a run goes on without one.
//!
//! A program that becomes another user may no longer write to the store of the user who started it. So a process that
//! does not change its user saves the runs. It gets nothing but documents, and ends with its standard input.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use model::Run;
use run::hang_detection;

use crate::inputs::DOCUMENT_BYTES_MAX;
use crate::{cli, outputs, store, terminal};

/// Bytes of the length before each document.
const LENGTH_BYTES: usize = 8;
/// End of each answer. No path has it.
const END: u8 = 0;
/// First byte of an answer with the path of a saved run. Other answers are errors.
const SAVED: u8 = b'+';

/// Place where a run is saved.
pub enum SaveTarget {
    /// The user does not want it, or there is no such place.
    Nowhere,
    /// A directory that the user named.
    Named(PathBuf),
    /// The store.
    Store,
    /// The store of the user who started this program.
    OriginalUserStore(RefCell<OriginalUserStore>),
}

impl SaveTarget {
    /// Returns the named directory, or else the store. Without a store, says so, with the ways to keep the results.
    pub fn find(named: Option<&Path>, ways: Option<&str>) -> Self {
        if let Some(directory) = named {
            return Self::Named(directory.to_owned());
        }
        match usable_store() {
            Ok(()) => Self::Store,
            Err(cause) => {
                let warn =
                    |ways| terminal::message("warning", &format!("cannot save the results: {cause}; {ways}"));
                ways.into_iter().for_each(warn);
                Self::Nowhere
            }
        }
    }

    /// Saves a run, under the path that is reserved for it. The store takes no run that was never on a device, and a store
    /// that fails is a warning. Returns the path of the saved run.
    ///
    /// # Errors
    /// The run cannot be saved in the directory that the user named.
    pub fn keep(&self, run: &Run, reserved: Option<&Path>) -> Result<Option<PathBuf>, String> {
        let kept = match self {
            Self::Nowhere => return Ok(None),
            Self::Named(directory) => return save(run, directory, reserved).map(Some),
            Self::Store | Self::OriginalUserStore(_) if !store::accepts(&run.plan) => return Ok(None),
            Self::Store => store::directory()
                .ok_or_else(|| NO_STORE.to_owned())
                .and_then(|directory| save(run, &directory, reserved)),
            Self::OriginalUserStore(original_user_store) => original_user_store.borrow_mut().keep(run),
        };
        Ok(kept.map_err(|why| terminal::message("warning", &why)).ok())
    }
}

/// Cause of the lack of a store.
const NO_STORE: &str = "neither XDG_STATE_HOME nor HOME is set";

/// Checks that the store can be written to.
fn usable_store() -> Result<(), String> {
    let directory = store::directory().ok_or(NO_STORE)?;
    let action = format!("write {}", directory.display());
    let tried = directory.clone();
    let done = hang_detection::write_with_progress(&action, move |_| outputs::try_directory(&tried));
    let cause = match done {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => model::UserError::new(action, error).cause,
        Err(error) => error.cause,
    };
    Err(format!("{}: {cause}", directory.display()))
}

fn save(run: &Run, directory: &Path, reserved: Option<&Path>) -> Result<PathBuf, String> {
    store::save(run, directory, reserved).map_err(|error| error.to_string())
}

/// Process that saves runs for the user who started this program.
pub struct OriginalUserStore {
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Its end is not waited for: its last answer was read.
    _process: Child,
}

impl OriginalUserStore {
    /// Starts the process, as the present user.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start() -> std::io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(cli::STORE_SERVER).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A signal from the terminal ends the run, which is saved after it.
        let mut process = command.process_group(0).spawn()?;
        let ends = process.stdin.take().zip(process.stdout.take());
        let (to, from) = ends.ok_or_else(|| Error::other("it has no pipes"))?;
        Ok(Self { to, from: BufReader::new(from), _process: process })
    }

    fn keep(&mut self, run: &Run) -> Result<PathBuf, String> {
        let failed = |error: Error| format!("cannot save the run as the user who started skye: {error}");
        let document = report::json::write(run).into_bytes();
        let sent = self.to.write_all(&(document.len() as u64).to_be_bytes());
        sent.and_then(|()| self.to.write_all(&document)).map_err(failed)?;
        let mut answer = Vec::new();
        self.from.read_until(END, &mut answer).map_err(failed)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match answer.strip_suffix(&[END]) {
            Some([SAVED, path @ ..]) => Ok(PathBuf::from(text(path))),
            Some(why) => Err(text(why)),
            None => Err(failed(Error::other("its process has ended"))),
        }
    }
}

/// Saves the documents that come on standard input, until that ends. Answers with their paths, or with errors.
pub fn serve() -> std::io::Result<()> {
    let (mut from, mut to) = (std::io::stdin().lock(), std::io::stdout().lock());
    loop {
        let mut length = [0; LENGTH_BYTES];
        if from.read_exact(&mut length).is_err() {
            return Ok(());
        }
        let length = u64::from_be_bytes(length);
        if length > DOCUMENT_BYTES_MAX {
            return Err(Error::other("a document is too long"));
        }
        let mut document = Vec::new();
        (&mut from).take(length).read_to_end(&mut document)?;
        let answer = String::from_utf8(document)
            .map_err(|error| error.to_string())
            .and_then(|text| store::parse(Path::new("-"), &text))
            .and_then(|run| save(&run, &store::directory().ok_or(NO_STORE)?, None));
        match answer {
            Ok(path) => to.write_all(&[&[SAVED], path.as_os_str().as_encoded_bytes()].concat())?,
            Err(why) => to.write_all(why.as_bytes())?,
        }
        to.write_all(&[END]).and_then(|()| to.flush())?;
    }
}
