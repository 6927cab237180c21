//! `skye doctor`: is this machine fit to measure here, or those of several clients? It writes
//! nothing, but for the empty directories that show which clients share one.

use std::path::Path;
use std::time::Duration;

use engine::clock::{Timer, read_cost_ns};
use model::health::{Check, Health, Severity};
use model::holding::DeviceUsage;
use model::run::Environment;
use model::{Machine, Target, plan};
use observe::Root;
use report::text;

use crate::CommandResult;
use crate::cli::ClientArguments;
use crate::exit::{self, Failure};
use crate::live_view::LiveView;
use crate::{fleet_run, inputs, place, preset, signatures, simulation, store, terminal};

/// Time for which the machine is watched: long enough to see what a neighbour does every second. A build for tests watches
/// for a fifth of it.
const WATCH_TIME: Duration = Duration::from_millis(if cfg!(debug_assertions) { 500 } else { 2500 });

/// `skye doctor`
pub fn doctor(directory: &Path, clients: &ClientArguments) -> CommandResult {
    if simulation::is_named(directory) {
        let word = directory.display();
        return Err(Failure::Refused(format!(
            "cannot check {word}: a simulated device does not depend on the machine; choose a directory"
        )));
    }
    let style = terminal::style();
    if let Some(hosts) = fleet_run::clients(clients)? {
        let view = LiveView::new(false);
        view.preparing("sampling the clients' machines for some seconds");
        let reports = fleet_run::check_clients(clients, directory, hosts);
        terminal::remove_live();
        let (reports, left) = reports?;
        let here = wording::fitness::store(&store::state());
        terminal::print_line(&text::doctor_of_clients(&reports, &[here], &style))?;
        left.iter().for_each(|line| terminal::error(line));
        let code = exit_code(reports.iter().flat_map(|client| &client.checks));
        return Ok(if left.is_empty() { code } else { exit::FAILED });
    }
    let root = Root::system();
    let machine = Machine { io_uring_refused: engine::uring::refusal(), ..observe::machine(&root) };
    let target = place::real(&root, directory).map_err(Failure::refused)?;
    let environment = Environment::new(&machine, target, Vec::new(), Vec::new());
    terminal::print_line(&text::environment_summary(&environment, &style))?;
    if let Some(holding) = find_device_usage(&root, directory, &environment)? {
        terminal::print_line(&text::holding(&holding, &style))?;
    }
    terminal::print_line("")?;

    let view = LiveView::new(false);
    view.preparing("sampling the machine for some seconds");
    let health = health(&root, &machine, &environment.target, directory);
    terminal::remove_live();
    let health = Health { store: Some(store::state()), ..health.map_err(Failure::Failed)? };
    let checks = judge_health(&health).map_err(Failure::Failed)?;
    terminal::print_line(&text::doctor(&checks, &style))?;
    Ok(exit_code(&checks))
}

fn exit_code<'a>(checks: impl IntoIterator<Item = &'a Check>) -> u8 {
    let is_unfit = checks.into_iter().any(|check| check.severity == Severity::Fail);
    if is_unfit { exit::INVALID } else { exit::DONE }
}

/// Observes the machine for some seconds, and judges it for the default run in a directory.
///
/// # Errors
/// The target does not respond, in a sentence.
pub fn checks(
    root: &Root,
    machine: &Machine,
    target: &Target,
    directory: &Path,
) -> Result<Vec<Check>, String> {
    judge_health(&health(root, machine, target, directory)?)
}

/// Observes the machine for some seconds.
fn health(root: &Root, machine: &Machine, target: &Target, directory: &Path) -> Result<Health, String> {
    let clock_read_ns = read_cost_ns(&Timer::best());
    let (root, theirs, target) = (root.clone(), machine.clone(), target.clone());
    let health =
        inputs::with_hang_check(directory, move |_| Ok(observe::health(&root, &theirs, &target, WATCH_TIME)));
    let health = health.map_err(|error| format!("cannot check {}: {error}", directory.display()))?;
    Ok(Health { clock_read_ns: Some(clock_read_ns), ..health })
}

/// Returns the identity, the contents and the users of a block device; `None` for other targets.
fn find_device_usage(
    root: &Root,
    word: &Path,
    environment: &Environment,
) -> Result<Option<DeviceUsage>, Failure> {
    let (root, target) = (root.clone(), environment.target.clone());
    inputs::with_hang_check(word, move |_| {
        Ok(observe::holding(&root, &target).map(signatures::add_signatures))
    })
    .map_err(|error| Failure::Failed(format!("cannot check {}: {error}", word.display())))
}

/// Judges the machine for the default run.
fn judge_health(health: &Health) -> Result<Vec<Check>, String> {
    let standard = preset::load(preset::DEFAULT).map_err(|failure| failure.to_string())?;
    let is_existing = health.target.kind.is_existing();
    let standard =
        if is_existing { plan::adapt_to_existing_target(standard, &health.target) } else { standard };
    Ok(wording::fitness::checks(health, &standard))
}

#[cfg(test)]
mod tests {
    use model::target::Space;
    use observe::Identity;
    use report::text::Style;

    use super::*;

    /// Goal: all problems of a machine that is not well reach the user, in their words.
    /// Method: the tree of files that models such a machine is looked at, judged and printed.
    #[test]
    fn unhealthy_machine_report_snapshot() {
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../observe/tests/fixtures/unwell");
        let root = Root::at(tree);
        let space = Space {
            total_bytes: 900 << 30,
            free_bytes: 600 << 30,
            inodes_total: Some(1 << 24),
            inodes_free: Some(1 << 23),
        };
        let identity = Identity { path: "/srv".into(), major: 9, minor: 0, space, ..Identity::default() };
        let target = observe::resolve(&root, &identity).unwrap();
        let machine = Machine { lockable_bytes: Some(8 << 20), ..observe::machine(&root) };
        let environment = Environment::new(&machine, target, Vec::new(), Vec::new());
        let health = observe::health(&root, &machine, &environment.target, Duration::ZERO);
        let checks = judge_health(&Health { clock_read_ns: Some(1100.0), ..health }).unwrap();
        let style = Style { has_unicode: true, width: 100 };
        let environment_summary = text::environment_summary(&environment, &style);
        let output = format!("{environment_summary}\n\n{}", text::doctor(&checks, &style));
        insta::assert_snapshot!(anstream::adapter::strip_str(&output).to_string());
    }
}
