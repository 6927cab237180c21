//! Threads of the kernel and daemons that work for the target.

use model::Limiter;
use model::advice::Advice;
use model::figure::{Figure, Share, Threshold, WaitClass};
use model::observation::Observation;
use model::run::{Confidence, Helper, Verdict};
use model::target::DeviceKind;

use super::evidence::{seen, waits_for_target};
use crate::values::experiments::Load;
use crate::values::helpers::{on_all_cpus, used_by_queue, works_for};
use crate::values::reading::Reading;

/// A helper that was on a CPU for this share of the time could do no more.
const SATURATED: f64 = 0.9;
/// The same share for the threads of a loop device's queue. One works at a time, and handing over takes some of the
/// time.
pub(crate) const LOOP_SATURATED: f64 = 0.8;
/// The thresholds that its explanation names.
pub(crate) const THRESHOLDS: &[Threshold] =
    &[("helper_saturated", Figure::Share(SATURATED)), ("loop_saturated", Figure::Share(LOOP_SATURATED))];

/// A helper that is busy all the time, while the threads wait.
pub(super) fn rule(reading: &Reading<'_>) -> Option<Verdict> {
    if !waits_for_target(reading) {
        return None;
    }
    let helpers = &reading.system()?.helpers;
    let saturated = saturated(reading, helpers).or_else(|| on_all_cpus(&reading.input))?;
    // A helper that does more at more depth is not saturated.
    if reading.load().is(Load::Headroom) {
        return None;
    }
    let evidence = seen![
        reading.time_spent(),
        reading.dominant_wait(&[WaitClass::Remote, WaitClass::Device, WaitClass::Page]),
        Some(saturated),
        if reading.gain().is_some() { reading.answers() } else { Vec::new() },
    ];
    Some(
        Verdict::new(Limiter::HelperCpu, reading.budget.blocked, evidence)
            // A process with several threads may use as much without any of them being saturated.
            .at_most(Confidence::Likely)
            .advise([Advice::ParallelHelpers {}]),
    )
}

/// Number of threads of a program that serves the target; 1 for others.
fn threads(reading: &Reading<'_>, pid: u64) -> f64 {
    let mut layers = (0..).zip(&reading.input.target().layers);
    let layer = layers.find(|(_, layer)| layer.number.map(u64::from) == Some(pid));
    let load = reading.input.record.seen.load.as_ref();
    let window = layer.zip(load).and_then(|((at, _), load)| load.flow_of(at)?.window);
    window.unwrap_or(1).max(1) as f64
}

/// A helper of this target that can do no more.
fn saturated(reading: &Reading<'_>, helpers: &[Helper]) -> Option<Observation> {
    let target = reading.input.target();
    let mut ours = helpers.iter().filter(|helper| works_for(helper, target));
    let waiting = |helper: &Helper| helper.run_delay_share.unwrap_or(0.0);
    // Threads that are never without work wait for a CPU when they are not on one.
    let is_full = |helper: &&Helper| {
        let least = SATURATED * threads(reading, helper.pid);
        let never_idle = helper.cpu_share + waiting(helper) >= least && helper.cpu_share >= waiting(helper);
        helper.cpu_share >= SATURATED || never_idle
    };
    if let Some(found) = ours.find(is_full) {
        let helper = format!("{} (pid {})", found.name, found.pid).into();
        let busy_share = Share(found.cpu_share);
        return Some(match found.cpu_share >= SATURATED {
            true => Observation::HelperBusy { helper, busy_share },
            false => {
                Observation::HelperNeverIdle { helper, busy_share, waiting_share: Share(waiting(found)) }
            }
        });
    }
    // Other queues have a thread for each CPU.
    let loops = target.device_stack.iter().filter(|device| device.kind == DeviceKind::Loop);
    let worked = loops.map(|device| (device, used_by_queue(helpers, &device.name)));
    let (device, cpu_share) = worked.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (device, busy_share) = (device.name.as_str().into(), Share(cpu_share));
    (cpu_share >= LOOP_SATURATED).then_some(Observation::LoopBusy { device, busy_share })
}
