//! Builds one case, measures it with `skye run`, and undoes it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU64;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::disturbance::{Disturbance, FOREIGN_CPUS_MAX};
use model::run::{Mark, PhaseRecord};
use model::selftest::{Missing, TestResult, Truth};
use model::{Limiter, Run, UserError};
use rig::cases::{Case, Interference, KnownTest, Restriction};
use rig::{Journal, Rig, Spec};
use rustix::fs::{FallocateFlags, Mode, OFlags, ResolveFlags};
use rustix::process::{Pid, Signal};

use crate::cli::{RIG_SERVER, SelfTestArguments};
use crate::exit::{self, Failure};
use crate::signals::Interruption;

/// Deadline of a case. No case needs longer: a run bounds its own time, and gives up on a target that hangs.
const DEADLINE: Duration = Duration::from_secs(120);
/// Time that a run gets to end after TERM, and again after KILL.
const ENDING: Duration = Duration::from_secs(30);
/// Interval between checks whether the run has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Settings and capabilities for measuring cases.
pub struct Bench<'a> {
    is_root: bool,
    cpus: u32,
    has_setpriv: bool,
    arguments: &'a SelfTestArguments,
    interruption: Interruption,
}

/// Result of a case, and the parts of it that could not be undone.
pub struct CaseResult {
    /// Result of the measurement.
    pub measured: CaseOutcome,
    /// Parts that could not be undone, each with the reason.
    pub left: Vec<String>,
}

/// Result of measuring a case.
pub enum CaseOutcome {
    /// Answers of the run, one for each test.
    Answered(Vec<TestResult>),
    /// The case could not be built or measured.
    Missing(Missing),
    /// A signal ended the case.
    Interrupted,
}

/// Parts that are built while a case is measured. Fields are dropped in their order: disturbers go first.
struct CaseSetup {
    background: Vec<Rig>,
    group: Option<Rig>,
    place: CaseTarget,
}

enum CaseTarget {
    Rig(Rig),
    /// A directory that the journal has made, and will remove.
    Directory(PathBuf, Journal),
}

impl CaseSetup {
    /// Undoes all parts. Returns what is left, each with the reason.
    fn finish(self) -> Vec<String> {
        let Self { background, group, place } = self;
        let mut left = Vec::new();
        for rig in background.into_iter().chain(group) {
            left.extend(rig.finish().err().map(|error| error.to_string()));
        }
        match place {
            CaseTarget::Rig(rig) => left.extend(rig.finish().err().map(|error| error.to_string())),
            CaseTarget::Directory(path, mut journal) => {
                clear(&path);
                left.extend(journal.undo());
            }
        }
        left
    }
}

/// Removes the files that a killed run has left in a directory of the selftest.
pub fn clear(directory: &Path) {
    // The removal of the directory reports what is left.
    let _ = run::clean(directory, &AtomicU64::new(0));
}

impl CaseTarget {
    fn path(&self) -> &Path {
        match self {
            Self::Rig(rig) => rig.path(),
            Self::Directory(path, _) => path,
        }
    }
}

impl<'a> Bench<'a> {
    /// Finds out which tools it can use.
    ///
    /// # Errors
    /// The arguments request another user, and this process cannot switch to one.
    pub fn new(
        is_root: bool,
        cpus: u32,
        arguments: &'a SelfTestArguments,
        interruption: Interruption,
    ) -> Result<Self, Failure> {
        // Tries it: older versions do not know the option.
        let mut setpriv = Command::new("setpriv");
        setpriv.args(["--pdeathsig", "TERM", "--", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
        let has_setpriv = setpriv.status().is_ok_and(|status| status.success());
        if arguments.measure_as.is_some() && !(has_setpriv && is_root) {
            return Err(Failure::Refused(
                "cannot measure as another user: this requires root and setpriv".into(),
            ));
        }
        Ok(Self { is_root, cpus, has_setpriv, arguments, interruption })
    }

    /// Builds a case, measures it and undoes it.
    pub fn measure(&self, case: &Case) -> CaseResult {
        let mut left = Vec::new();
        let measured = self.measured(case, &mut left);
        CaseResult { measured, left }
    }

    fn measured(&self, case: &Case, left: &mut Vec<String>) -> CaseOutcome {
        if self.interruption.is_raised() {
            return CaseOutcome::Interrupted;
        }
        let started = Instant::now();
        let missing = |reason: String, is_failure| {
            CaseOutcome::Missing(Missing {
                case: case.name.into(),
                injected_limit: case.injected_limit.into(),
                reason,
                is_failure,
            })
        };
        if case.needs_root() && !self.is_root {
            return missing("root is required to build it".into(), false);
        }
        let built = match self.build(case) {
            Ok(built) => built,
            Err(error) => return missing(error.to_string(), false),
        };
        let run = self.run(case, &built);
        // Judged before the parts are undone: until then, their processes can be told from others.
        let disturbances = run.as_ref().map_or(Vec::new(), |run| disturbances(case, run));
        left.extend(built.finish());
        match run {
            _ if self.interruption.is_raised() => CaseOutcome::Interrupted,
            Ok(run) => {
                let is_loaded = self.arguments.load;
                CaseOutcome::Answered(answers(case, &run, disturbances, started.elapsed(), is_loaded))
            }
            Err(reason) => missing(reason, true),
        }
    }

    fn build(&self, case: &Case) -> Result<CaseSetup, UserError> {
        let place = match &case.rig {
            Some(spec) => CaseTarget::Rig(start(spec.clone())?),
            None => {
                let mut journal = Journal::open()?;
                CaseTarget::Directory(journal.directory_in(&persistent_directory())?, journal)
            }
        };
        if let Some(user) = self.arguments.measure_as {
            std::os::unix::fs::chown(place.path(), Some(user), Some(user)).map_err(|error| {
                UserError::new(format!("change the owner of {}", place.path().display()), error)
            })?;
        }
        let group = case.restriction.and_then(Restriction::group).map(start).transpose()?;
        let mut background = Vec::new();
        if self.arguments.load || case.interference == Some(Interference::Hogs) {
            background.push(start(Spec::hogs(2 * self.cpus).into())?);
        }
        if let Some(Interference::Neighbour(reads)) = case.interference {
            background.push(start(Spec::neighbour(place.path(), reads).into())?);
        }
        Ok(CaseSetup { background, group, place })
    }

    /// Measures the built case, and returns the document of the run.
    fn run(&self, case: &Case, built: &CaseSetup) -> Result<Run, String> {
        let path = built.place.path();
        let mut command = self.command(case, built);
        command.arg("run").arg(path).args([
            "--json",
            "-",
            "--quiet",
            "--no-save",
            "--allow",
            "low-space,busy",
        ]);
        command.args(case.options.split_whitespace());
        command.args(case.tests.iter().flat_map(|known| ["--test", known.spec.as_str()]));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // `--no-save`: a selftest's run is no result to keep.
        command.current_dir("/");
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let (stdout, stderr) = (child.stdout.take().map(collect), child.stderr.take().map(collect));
        let loses = case.interference == Some(Interference::Loss);
        // A run that does not end also holds its pipes. Undoing the rig beneath the run lets it go.
        let (status, has_lost) = self.wait(&mut child, loses.then_some(path))?;
        let text =
            |pipe: Option<JoinHandle<String>>| pipe.and_then(|pipe| pipe.join().ok()).unwrap_or_default();
        let (stdout, stderr) = (text(stdout), text(stderr));
        if loses && !has_lost {
            return Err(format!("no data was lost, as there was no data file: {}", stderr.trim()));
        }
        // Lost data is damage, and the run reports it.
        let expected = if loses { exit::DAMAGED } else { exit::DONE };
        if status.code() != Some(expected.into()) {
            return Err(format!("skye run ended with {status}: {}", stderr.trim()));
        }
        if let Some(directory) = &self.arguments.keep {
            let path = directory.join(format!("{}.json", case.name));
            fs::write(&path, &stdout).map_err(|error| format!("keep {}: {error}", path.display()))?;
        }
        report::json::read(&stdout).map_err(|why| format!("skye run printed no valid run: {why}"))
    }

    /// Returns the command for our own program, wrapped as the case demands. The program ends if we do.
    fn command(&self, case: &Case, built: &CaseSetup) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(Restriction::HiddenCgroups) = case.restriction {
            // Mounts are made private first: older programs leave the mounts of the namespace shared with those of the
            // system.
            let hidden = "mount --make-rprivate / && umount --recursive --lazy /sys/fs/cgroup && exec \"$@\"";
            words.extend(["unshare", "--mount", "sh", "-c", hidden, "sh"].map(Into::into));
        }
        // setpriv comes last before our program, because a change of user would drop the setting. Without setpriv, the
        // run goes on to its end if we are killed.
        if self.has_setpriv {
            words.extend(["setpriv", "--pdeathsig", "TERM"].map(Into::into));
            if let Some(user) = self.arguments.measure_as {
                words.extend([format!("--reuid={user}"), format!("--regid={user}")].map(Into::into));
                words.push("--clear-groups".into());
            }
            words.push("--".into());
        }
        words.push(program());
        let mut words = words.into_iter();
        let first = words.next().unwrap_or_default();
        let mut command = match &built.group {
            Some(group) => group.command_inside(&first),
            None => Command::new(&first),
        };
        command.args(words);
        command
    }

    /// Waits until the run has ended. If `loses_in` is a directory, half of its first data file is lost once the run
    /// measures. Returns the exit status, and true if data was lost.
    ///
    /// # Errors
    /// The run does not end, even killed.
    fn wait(&self, child: &mut Child, loses_in: Option<&Path>) -> Result<(ExitStatus, bool), String> {
        let process = Pid::from_child(child);
        let started = Instant::now();
        let mut signalled: Option<Instant> = None;
        let mut has_lost = false;
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok((status, has_lost)),
                Ok(None) => {}
                Err(error) => return Err(format!("cannot wait for skye run: {error}")),
            }
            let is_late = started.elapsed() > DEADLINE;
            if signalled.is_none() && (is_late || self.interruption.is_raised()) {
                signalled = Some(Instant::now());
                // The run may have ended just now.
                let _ = rustix::process::kill_process(process, Signal::TERM);
            }
            let since_signal = signalled.map_or(Duration::ZERO, |signalled| signalled.elapsed());
            if since_signal > ENDING {
                let _ = child.kill();
            }
            if since_signal > 2 * ENDING {
                return Err("skye run does not exit, even after a kill".into());
            }
            if let Some(directory) = loses_in.filter(|_| !has_lost) {
                has_lost = lose(directory, child.id());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Returns the right answers for a test. Where others use the CPUs, built in or not, naming them is right, too.
fn truth_of(known: &KnownTest, has_others: bool) -> Truth {
    match &known.truth {
        Truth::Limiters(limiters) if has_others => {
            Truth::Limiters(limiters.iter().copied().chain([Limiter::CpuContention]).collect())
        }
        truth => truth.clone(),
    }
}

/// Returns what others did during each test. The I/O of a neighbour that is built in does not count.
fn disturbances(case: &Case, run: &Run) -> Vec<Disturbance> {
    let mut all = judge::disturbances(run, rig::is_own);
    if matches!(case.interference, Some(Interference::Neighbour(_))) {
        all.iter_mut().for_each(|disturbance| disturbance.foreign_io = 0.0);
    }
    all
}

fn answers(
    case: &Case,
    run: &Run,
    disturbances: Vec<Disturbance>,
    elapsed: Duration,
    is_loaded: bool,
) -> Vec<TestResult> {
    let answer = |((known, phase), disturbance): ((&KnownTest, &PhaseRecord), Disturbance)| {
        let has_others = is_loaded || disturbance.foreign_cpus > FOREIGN_CPUS_MAX;
        let (truth, verdict) = (truth_of(known, has_others), phase.judged.verdict.clone());
        let marked = phase.judged.notes.iter().filter(|note| note.mark != Mark::Remark);
        let marks: Vec<&str> = marked.map(|note| note.code.as_str()).collect();
        TestResult {
            case: case.name.into(),
            injected_limit: case.injected_limit.into(),
            spec: known.spec.clone(),
            limiter: verdict.as_ref().and_then(|verdict| verdict.limiter),
            confidence: verdict.as_ref().and_then(|verdict| verdict.confidence),
            outcome: truth.judge(verdict.as_ref(), &marks),
            truth,
            ops_per_second: phase.figures.rate.ops_per_second,
            known_ops_per_second: known.ops_per_second,
            verdict,
            disturbance: Some(disturbance),
            elapsed_ns: elapsed.as_nanos() as u64,
        }
    };
    case.tests.iter().zip(&run.phases).zip(disturbances).map(answer).collect()
}

fn start(spec: Spec) -> Result<Rig, UserError> {
    Rig::start(&[program(), RIG_SERVER.into()], spec)
}

/// Returns a path to this program that is valid even if its file has been replaced.
fn program() -> OsString {
    OsString::from(format!("/proc/{}/exe", std::process::id()))
}

/// Returns a directory on storage whose files outlive a reboot. Other temporary files might lie in memory.
fn persistent_directory() -> PathBuf {
    let lasting = Path::new("/var/tmp");
    if lasting.is_dir() { lasting.to_owned() } else { std::env::temp_dir() }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The bytes read before an error are worth more than the error.
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Punches a hole into the first half of the first data file in a run's directory, once the run's workers measure.
/// Returns true if it did.
fn lose(directory: &Path, process: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| fs::read(task.path().join("comm")).ok());
    if !names.any(|name| name.starts_with(b"worker-")) {
        return false;
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut works = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"skye."));
    let Some(work) = works.next().map(|work| work.path()) else { return false };
    // Follows no link: the directory may be another user's.
    let opened = rustix::fs::openat2(
        rustix::fs::CWD,
        work.join("data-0000"),
        OFlags::WRONLY | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    );
    let Ok(file) = opened.map(File::from) else { return false };
    let half = file.metadata().map_or(0, |metadata| metadata.len() / 2);
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, half).is_ok()
}
