//! Disturbance by others, for each test of a run.

use model::Run;
use model::disturbance::Disturbance;
use model::run::{CpuShares, TimeBreakdown};
use model::workload::Engine;

use crate::values::input::JudgeInput;
use crate::values::input::planned;

/// Returns the disturbance of each phase, in the order of the phases.
///
/// `is_ours` returns true if the process with that PID belongs to the caller: servers and loads that a test has built
/// are no disturbance. It is called for processes that existed while the phase was measured.
pub fn disturbances(run: &Run, is_ours: impl Fn(u64) -> bool) -> Vec<Disturbance> {
    let of_row = |record| {
        let Some(phase) = planned(record, &run.plan) else { return Disturbance::default() };
        from_input(
            &JudgeInput::new(record, phase, &run.plan, &run.environment, run.target_probes.as_ref()),
            &is_ours,
        )
    };
    run.phases.iter().map(of_row).collect()
}

/// Returns the disturbance of a test. `is_ours` is called for processes that used a CPU during the test.
pub(crate) fn from_input(input: &JudgeInput<'_>, is_ours: impl Fn(u64) -> bool) -> Disturbance {
    let budget = input.record.seen.budget.as_ref();
    Disturbance {
        foreign_cpus: foreign_cpus(input, is_ours),
        run_queue: budget.map_or(0.0, |budget| budget.run_queue),
        steal: budget.map_or(0.0, |budget| budget.steal),
        foreign_io: foreign_io(input).unwrap_or(0.0),
    }
}

/// CPUs that others used: those of the processes seen, and CPU time that no process seen has used. The latter belongs
/// to processes that came and went.
fn foreign_cpus(input: &JudgeInput<'_>, is_ours: impl Fn(u64) -> bool) -> f64 {
    let helpers = input.record.seen.system.as_ref().map_or(&[][..], |system| &system.helpers);
    let seen: f64 = helpers.iter().map(|helper| helper.cpu_share).sum();
    let foreign = helpers.iter().filter(|helper| !helper.is_kernel && !is_ours(helper.pid));
    let foreign: f64 = foreign.map(|helper| helper.cpu_share).sum();
    // The workers of a ring are threads of this process that nothing counts.
    let is_counted = input.phase.engine != Engine::Uring;
    let unattributed = used_cpus(input).filter(|_| is_counted).map_or(0.0, |used| (used - seen).max(0.0));
    foreign + unattributed
}

/// CPUs that everything except the test's own threads used; `None` where the kernel hides it.
pub(crate) fn used_cpus(input: &JudgeInput<'_>) -> Option<f64> {
    not_ours(input, |cpu| cpu.user + cpu.kernel, |budget| budget.user + budget.kernel)
}

/// CPUs that the code of other programs used, without their system calls; `None` where the kernel hides it.
pub(crate) fn programs_cpus(input: &JudgeInput<'_>) -> Option<f64> {
    not_ours(input, |cpu| cpu.user, |budget| budget.user)
}

/// A part of the machine's CPU time less that of the test's threads, in CPUs.
fn not_ours(
    input: &JudgeInput<'_>,
    all: fn(&CpuShares) -> f64,
    own: fn(&TimeBreakdown) -> f64,
) -> Option<f64> {
    let (cpu, budget) = (input.record.seen.cpu.as_ref()?, input.record.seen.budget.as_ref()?);
    let online = f64::from(input.environment.cpus_online.max(1));
    Some((all(cpu) * online - own(budget) * input.threads() as f64).max(0.0))
}

/// Share of the bytes on the device that were not the test's; `None` where it is unknown.
pub(crate) fn foreign_io(input: &JudgeInput<'_>) -> Option<f64> {
    let device = input.device()?;
    // Kernel threads write the journal and the metadata trees, so these bytes look like foreign I/O.
    let data = input.data()?;
    let is_hidden =
        input.amplifies_writes() || (data.writes() && (data.sync.is_each() || data.sync_every.is_some()));
    device.foreign_share.filter(|_| !is_hidden)
}

#[cfg(test)]
mod tests {
    use model::run::{Helper, SystemUse};

    use super::*;
    use crate::fixtures::{InputBuilder, clean};

    fn with_helpers(cpu_shares: &[(u64, bool, f64)]) -> InputBuilder {
        let mut world = clean("read:rnd4k");
        let helpers = cpu_shares.iter().map(|&(pid, is_kernel, cpu_share)| Helper {
            name: format!("p{pid}"),
            pid,
            is_kernel,
            cpu_share,
            ..Helper::default()
        });
        world.record.seen.system = Some(SystemUse { helpers: helpers.collect(), ..SystemUse::default() });
        world
    }

    fn foreign_use(world: &InputBuilder, is_ours: impl Fn(u64) -> bool) -> f64 {
        let input = JudgeInput::new(
            &world.record,
            &world.plan.phases[0],
            &world.plan,
            &world.environment,
            Some(&world.probes),
        );
        foreign_cpus(&input, is_ours)
    }

    #[test]
    fn own_servers_and_kernel_threads_are_not_foreign() {
        let world = with_helpers(&[(7, false, 1.0), (8, false, 0.5), (9, true, 0.7)]);
        // The processes seen used all of the CPU time.
        assert!(
            (foreign_use(&world, |pid| pid == 7) - 0.5).abs() < 1e-9,
            "{}",
            foreign_use(&world, |pid| pid == 7)
        );
        assert!((foreign_use(&world, |_| true)).abs() < 1e-9);
        assert!((foreign_use(&world, |_| false) - 1.5).abs() < 1e-9);
    }

    #[test]
    fn unattributed_cpu_time_counts_as_foreign() {
        let mut world = with_helpers(&[]);
        let own = |world: &InputBuilder| {
            let budget = world.record.seen.budget.as_ref().unwrap();
            budget.user + budget.kernel
        };
        let cpu = world.record.seen.cpu.as_mut().unwrap();
        (cpu.user, cpu.kernel) = (0.25, 0.125);
        let expected = 3.0 - own(&world);
        assert!((foreign_use(&world, |_| true) - expected).abs() < 1e-9, "{expected}");
    }
}
