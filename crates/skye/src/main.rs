//! The program: flags and presets, the session's driver, the store of runs, the live view, exit codes.
//!
//! The module `driver` runs the tests of a plan, from the first to the last. Its users are `run_command`, `ab_command`
//! and the programs of the family in `front_ends`.
//!
//! Three words in no help start this program as a worker for the C library, as a rig, or to save runs. They are checked
//! before any thread starts.
//!
//! Invariants:
//! - No other crate prints or ends the process.
//! - Results go to stdout, progress and warnings to stderr; where stdout carries JSON or CSV, nothing else does.
//! - A reader that goes away ends a run quietly, after cleaning up.
//! - A command beside a test comes from the command line, never from a preset. It ends with its test (`monitor`).
//! - Rates of `null`, `nop` and simulated devices are no results and never in the store (`Engine::needs_files`).

mod ab_command;
mod agent;
mod bonnie;
mod bonniepp;
mod cli;
mod closing;
mod compare_command;
mod dialect;
mod doctor;
mod driver;
mod erase;
mod exit;
mod explain;
mod fio_command;
mod first_steps;
mod fleet_run;
mod front_ends;
mod getc_putc;
mod gobonniego;
mod inputs;
mod job;
mod keeping;
mod live_view;
mod loads;
mod logger;
mod marks;
mod memory;
mod monitor;
mod outputs;
mod place;
mod prepared;
mod preset;
mod privileges;
mod run_command;
mod run_names;
mod selftest;
mod setting_commands;
mod signals;
mod signatures;
mod simulation;
mod start_barrier;
mod store;
mod store_commands;
mod terminal;
mod version;
mod zcav;

use std::panic::UnwindSafe;
use std::process::ExitCode;

use clap::FromArgMatches;
use report::text::Detail;

use crate::cli::{Cli, Command};
use crate::exit::Failure;
use crate::front_ends::FrontEnd;

#[global_allocator]
static ALLOCATOR: memory::ReservingAllocator = memory::ReservingAllocator;

fn main() -> ExitCode {
    if let Err(failure) = check_stack() {
        return ExitCode::from(failure.report());
    }
    memory::keep();
    // We must be able to read and remove what we make, whatever umask we were started with.
    let mask = rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    rustix::process::umask(mask.difference(rustix::fs::Mode::RWXU));
    let words: Vec<_> = std::env::args_os().collect();
    // A stdio worker has one thread and treats signals in its own way. It reports errors to the run, which prints them.
    if let Some(parent) = cli::parent_of_stdio_worker(&words) {
        return ExitCode::from(engine::stdio::serve(parent).map_or(exit::FAILED, |()| exit::DONE));
    }
    if cli::is_store_server(&words) {
        return ExitCode::from(keeping::serve().map_or(exit::FAILED, |()| exit::DONE));
    }
    if let Some(rig) = cli::words_of_rig(&words) {
        let worked = rig::serve(rig, std::io::stdin(), std::io::stdout());
        return ExitCode::from(if worked { exit::DONE } else { exit::FAILED });
    }
    // Programs of the family have command lines of their own.
    if let Some((front_end, words, verbose)) = FrontEnd::select(&words) {
        logger::install(verbose);
        return exit_code_of(|| {
            job::check_alone()?;
            front_end.run(words)
        });
    }
    // Before anything else: what follows may spawn threads, which inherit how signals are treated.
    if cli::has_no_arguments(&words) {
        return exit_code_of(first_steps::introduction);
    }
    if let Some(topic) = cli::topic_of_help(&words) {
        return exit_code_of(move || first_steps::topic(topic));
    }
    if let Some(name) = cli::mix_of_help(&words) {
        return exit_code_of(|| first_steps::mix(name));
    }
    let command = first_steps::command();
    if let Some(problem) = first_steps::unknown_topic(&words, &command) {
        return exit_code_of(|| Err(Failure::Refused(problem)));
    }
    if let Some((word, near)) = cli::mistyped(&words, &command) {
        let problem = format!(
            "cannot run `{word}`: it is neither a command nor a directory; did you mean `skye {near}`?"
        );
        return exit_code_of(|| Err(Failure::Refused(problem)));
    }
    let words = cli::with_default_command(words, &command);
    let matches = match command.try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return exit::from_clap(error),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return exit::from_clap(error),
    };
    logger::install(cli.verbose > 2);
    exit_code_of(|| dispatch(cli))
}

/// Runs a command, and returns the exit code.
fn exit_code_of(command: impl FnOnce() -> CommandResult + UnwindSafe) -> ExitCode {
    raise_descriptor_limit();
    lower_cpu_limit();
    let checked = move || {
        terminal::check_stdout()?;
        command()
    };
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        terminal::remove_live();
        hook(panic);
    }));
    let code = match std::panic::catch_unwind(checked) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => failure.report(),
        // The message is printed, and unwinding has removed what the run had made.
        Err(_) => exit::FAILED,
    };
    ExitCode::from(closing::finish(code))
}

fn dispatch(cli: Cli) -> CommandResult {
    let detail = match cli.verbose {
        0 => Detail::Screen,
        1 => Detail::Remarks,
        _ => Detail::All,
    };
    job::check(&cli.command)?;
    match cli.command {
        Command::Run(arguments) => run_command::run(&arguments, detail),
        Command::Agent(arguments) => agent::agent(&arguments),
        Command::Report(arguments) => store_commands::report(&arguments, detail),
        Command::Why(arguments) => store_commands::why(&arguments),
        Command::Ab(arguments) => ab_command::ab(&arguments),
        Command::Compare(arguments) => compare_command::compare(&arguments),
        Command::Presets => first_steps::presets(),
        Command::List(arguments) => store_commands::list(&arguments),
        Command::Fio { keys } => fio_command::fio(&keys),
        Command::Explain { limiter } => explain::explain(&limiter.join(" ")),
        Command::Doctor { directory, clients } => doctor::doctor(&directory, &clients),
        Command::SelfTest(arguments) => selftest::selftest(&arguments),
        Command::Clean { directory } => store_commands::clean(&directory),
        // Reached only behind --verbose: otherwise a front end has taken the command line before it was parsed.
        Command::Family(command) => front_ends::run(&command),
        Command::Completions { shell } => cli::completions(shell),
        Command::Man { command } => cli::man(command.as_deref()),
    }
}

/// Raises the limit of descriptors. Each worker thread is watched through two, and large trees keep directories open.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // A limit that may not be raised stays. A descriptor beyond it fails when it is opened.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

/// Lowers a limit on CPU time that kills at once (`ulimit -t`), so that XCPU comes before it: time to save and to remove.
fn lower_cpu_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Cpu);
    let warned = limit
        .maximum
        .map(|seconds| seconds - (seconds / 10).max(1).min(seconds))
        .filter(|seconds| *seconds > 0);
    if warned.is_some() && limit.current >= limit.maximum {
        let _ = setrlimit(Resource::Cpu, Rlimit { current: warned, ..limit });
    }
}

/// Makes sure that the stack may grow enough. The kernel lets a stack grow as far as its limit allows at that moment.
fn check_stack() -> Result<(), Failure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const STACK_BYTES: u64 = 8 << 20;
    const STACK_BYTES_MIN: u64 = 256 << 10;
    let limit = getrlimit(Resource::Stack);
    let is_less = |bytes: Option<u64>, than| bytes.is_some_and(|bytes| bytes < than);
    if is_less(limit.current, STACK_BYTES) {
        let maximum = limit.maximum.map(|bytes| bytes.max(STACK_BYTES));
        // Only root may set the first.
        let wished = [maximum, limit.maximum].map(|maximum| Rlimit {
            current: Some(maximum.map_or(STACK_BYTES, |bytes| bytes.min(STACK_BYTES))),
            maximum,
        });
        let _ = wished.into_iter().any(|limit| setrlimit(Resource::Stack, limit).is_ok());
    }
    if is_less(getrlimit(Resource::Stack).current, STACK_BYTES_MIN) {
        return Err(Failure::Refused("the stack limit is too low: raise it (ulimit -s 8192)".into()));
    }
    Ok(())
}

/// Result of a command: its exit code, or why it failed.
type CommandResult = Result<u8, Failure>;
