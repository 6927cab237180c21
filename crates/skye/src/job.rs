//! Jobs of MPI: the processes that `mpirun skye run` or `srun skye run` starts make one run together.

use std::process::Stdio;

use fleet::ranks::{self, Programs, RankInfo, Ranks};
use model::{Machine, UserError};

use crate::cli::{Command, RunArguments};
use crate::exit::{self, Failure};
use crate::signals::Interruption;
use crate::{fleet_run, preset};

/// Part that this process has in a run.
pub enum Part {
    /// It runs alone.
    Alone,
    /// It is the coordinator of a job's ranks.
    Coordinator(Ranks),
    /// It was another rank, and has ended with this exit code.
    RankEnded(u8),
}

/// Returns the place of this process in a job.
fn rank_info() -> Option<RankInfo> {
    RankInfo::find(|name| std::env::var(name).ok())
}

/// Returns true if this process is one of a job.
pub fn is_rank() -> bool {
    rank_info().is_some()
}

/// Returns true if another process of the job says what there is to say.
pub fn is_silent() -> bool {
    rank_info().is_some_and(|rank_info| rank_info.rank > 0)
}

/// Takes part in a run. A rank that is not the first serves the whole run.
///
/// # Errors
/// The ranks cannot join each other, or hosts are named as well.
pub fn take_part(arguments: &RunArguments) -> Result<Part, Failure> {
    let Some(rank_info) = rank_info() else { return Ok(Part::Alone) };
    let launcher = rank_info.launcher;
    if arguments.clients.hosts.is_some() || arguments.clients.hosts_file.is_some() {
        return refused(format!("cannot use --hosts with {launcher}: its processes are the clients"));
    }
    if rank_info.rank == 0 {
        return Ranks::gather(&rank_info).map(Part::Coordinator).map_err(Failure::refused);
    }
    // A signal of the launcher reaches rank 0 too, which ends all in order. If that takes too long, the launcher kills.
    let _interruption = Interruption::catch()?;
    let programs = || {
        let error = |failure: Failure| UserError::new("read the command line", failure);
        let request = preset::apply_preset(arguments.request(), preset::DEFAULT).map_err(error)?;
        let (directory, launcher) =
            (fleet_run::directory(&arguments.target).map_err(error)?, fleet_run::own_launcher());
        let mut agent = launcher
            .here(&fleet::agent::local_agent_words(&directory, &fleet_run::limits(&request, rank_info.size)));
        // The launcher shows what it says.
        agent.stderr(Stdio::inherit());
        Ok(Programs { agent, clean: launcher.here(&["clean".to_owned(), directory]) })
    };
    let is_served = ranks::serve(&rank_info, programs).map_err(Failure::failed)?;
    Ok(Part::RankEnded(if is_served { exit::DONE } else { exit::REFUSED }))
}

/// Returns a note on CPUs that the launcher keeps from its processes.
pub fn bound<'a>(mut machines: impl Iterator<Item = &'a Machine>) -> Option<String> {
    let launcher = rank_info()?.launcher;
    let bound = machines.find(|machine| machine.cpus < machine.cpus_online)?;
    let option = match launcher {
        "srun" => "--cpu-bind=none",
        _ => "--bind-to none",
    };
    Some(format!(
        "a client on {} may use {} of {} CPUs; if {launcher} has bound it, use {option} to get all CPUs",
        bound.host, bound.cpus, bound.cpus_online
    ))
}

/// Refuses a command of which each process of a job would do all.
///
/// # Errors
/// There is a job.
pub fn check(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Ab(_) | Command::Doctor { .. } | Command::SelfTest(_) | Command::Family(_) => check_alone(),
        _ => Ok(()),
    }
}

/// Refuses to run in a job.
///
/// # Errors
/// There is a job.
pub fn check_alone() -> Result<(), Failure> {
    match rank_info() {
        None => Ok(()),
        Some(RankInfo { launcher, .. }) => refused(format!(
            "cannot run this command in the processes of {launcher}: only `skye run` can; start it without {launcher}"
        )),
    }
}

fn refused<T>(problem: String) -> Result<T, Failure> {
    Err(Failure::Refused(problem))
}
