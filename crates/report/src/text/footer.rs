//! The last lines: compared data, noise of the machine, cost of the tool itself, output of a command beside the tests.

use std::path::Path;

use model::disturbance::{Disturbance, SHARE_MAX};
use model::run::{PhaseRecord, Run, RunStatus, Status, Tool};
use model::target::Backing;
use model::workload::{DataVerb, Engine};

use super::style::Style;
use super::wrap::{field, no_break};
use crate::numbers::{duration, latency, percent, thousands};
use crate::{printable, time};

/// Share of other processes in time or I/O at which noise is "moderate": differences of a few percent may be noise.
const NOISE_MODERATE: f64 = 0.02;
/// Share at which noise is "high": repeat the run on a quieter machine.
const NOISE_HIGH: f64 = 0.10;

/// The lines after the notes of a run that is shown in full.
pub(super) fn footer(run: &Run, style: &Style) -> String {
    let mut lines = Vec::new();
    let mut line =
        |name: &str, text: Option<String>| lines.extend(text.map(|text| field(name, &text, style)));
    line("partial", partial(run));
    line("data", compared(&run.phases));
    for (name, text) in known_costs(run) {
        line(name, text);
    }
    line("monitor", monitor_output(run, Path::new("")));
    for warning in &run.tool.warnings {
        line("warning", Some(printable(warning)));
    }
    line("took", time::elapsed_ns(run).map(duration));
    style.finish(lines.join("\n"))
}

/// Returns the noise of the machine and the cost of skye itself, with their names.
fn known_costs(run: &Run) -> [(&'static str, Option<String>); 2] {
    // A simulated device has a separate clock, so nothing disturbs it and nothing costs time.
    let is_real = run.environment.target.backing != Backing::Simulated;
    let known = |text: Option<String>| text.filter(|_| is_real);
    [("noise", known(noise(run))), ("tool", known(tool(&run.tool)))]
}

/// Renders noise and cost as lines.
pub(super) fn costs(run: &Run, style: &Style) -> String {
    let lines = known_costs(run).into_iter();
    let lines = lines.filter_map(|(name, text)| text.map(|text| field(name, &text, style)));
    style.finish(lines.collect::<Vec<_>>().join("\n"))
}

/// The user's command that ran beside the tests, and the place of its output.
pub(super) fn monitor_output(run: &Run, of_document: &Path) -> Option<String> {
    let ran: Vec<_> = run.phases.iter().filter_map(|phase| phase.seen.monitor.as_ref()).collect();
    let command = printable(&ran.first()?.command);
    let outputs = || ran.iter().filter_map(|record| record.output_file.as_deref());
    let Some(first) = outputs().next() else {
        return Some(format!("`{command}`: its output could not be saved"));
    };
    let directory = Path::new(first).parent().unwrap_or(Path::new(""));
    let place = printable(&of_document.join(directory).display().to_string());
    let tests = match outputs().count() {
        1 => "1 test".to_owned(),
        count => format!("{} tests", thousands(count as u64)),
    };
    Some(format!("`{command}`: output during {tests} in {place}"))
}

/// Returns the number of finished tests, if the run ended before all of them. A test that ended early has a separate
/// mark.
pub(crate) fn partial(run: &Run) -> Option<String> {
    let planned = run.plan.phases.len() * run.plan.repetitions.max(1) as usize;
    if run.run_status == RunStatus::Complete || run.phases.len() >= planned {
        return None;
    }
    let measured = run.phases.iter().filter(|phase| phase.status == Status::Done).count();
    Some(format!("{measured} of {planned} tests finished"))
}

/// Comparison of the blocks that tests on data have read with the data written there.
pub(crate) struct Compared {
    /// Blocks compared, and blocks read.
    blocks: u64,
    read: u64,
    /// True if a block differs.
    pub(crate) has_damage: bool,
}

impl Compared {
    /// Counts the blocks; `None` if nothing was compared.
    pub(crate) fn count(phases: &[PhaseRecord]) -> Option<Self> {
        let has_damage = phases
            .iter()
            .flat_map(|phase| &phase.judged.notes)
            .any(|note| note.code == "verification_failed");
        let sum = |of: fn(&PhaseRecord) -> u64| phases.iter().map(of).fold(0, u64::saturating_add);
        let blocks = sum(|phase| phase.counts.verified_blocks);
        let read = sum(|phase| blocks_read(phase).max(phase.counts.verified_blocks));
        (has_damage || blocks > 0).then_some(Self { blocks, read, has_damage })
    }

    /// Returns the number of blocks compared, and of how many.
    pub(crate) fn share(&self) -> String {
        let read = thousands(self.read);
        match self.blocks {
            blocks if blocks == self.read && blocks > 1 => format!("all {read} blocks"),
            blocks => {
                format!("{} of {read} block{}", thousands(blocks), if self.read == 1 { "" } else { "s" })
            }
        }
    }
}

/// Returns the number of blocks that a test on data has read. Single bytes are compared in pieces of 4 KiB.
fn blocks_read(phase: &PhaseRecord) -> u64 {
    const PIECE_BYTES: u64 = 4096;
    let touches_files = phase.engine.name.parse::<Engine>().is_ok_and(Engine::needs_files);
    let (Ok(verb), Some(block_bytes), true) =
        (phase.workload.verb.parse::<DataVerb>(), phase.workload.block_bytes, touches_files)
    else {
        return 0;
    };
    let unit_bytes = if verb.is_bytes() { PIECE_BYTES } else { block_bytes };
    phase.counts.app_bytes_read / unit_bytes.max(1)
}

/// Says how much data was compared with what had been written, and the outcome.
pub(crate) fn compared(phases: &[PhaseRecord]) -> Option<String> {
    let compared = Compared::count(phases)?;
    let outcome = if compared.has_damage { "at least one differs" } else { "none differs" };
    Some(format!("{} compared byte by byte, {outcome}", compared.share()))
}

/// The shares that others took over all phases, each weighted by its time. Rows are marked by the same figures, so
/// noise is never low beside a row that was marked for it.
pub(crate) fn noise(run: &Run) -> Option<String> {
    let device = run.phases.iter().find_map(|phase| phase.seen.device.as_ref());
    let mut level = 0.0_f64;
    let mut parts = Vec::new();
    let mut add = |name: &str, share: &dyn Fn(&PhaseRecord, &Disturbance) -> Option<f64>| {
        let shares = || {
            let of = |phase| Some((phase, share(phase, phase.seen.disturbance.as_ref()?)));
            run.phases.iter().filter_map(of)
        };
        let Some(mean) = mean(shares()) else { return };
        let most = shares().filter_map(|(_, share)| share).fold(0.0, f64::max);
        let is_marked = most > SHARE_MAX;
        level = level.max(mean).max(if is_marked { NOISE_MODERATE } else { 0.0 });
        let up_to = (is_marked && most > 1.5 * mean).then(|| format!(" (up to {})", percent(most)));
        parts.push(format!("{} {name}{}", percent(mean), up_to.unwrap_or_default()));
    };
    add("steal", &|_, disturbed| Some(disturbed.steal));
    if let Some(device) = device {
        add(&format!("other I/O on {}", printable(&device.name)), &|_, disturbed| Some(disturbed.foreign_io));
    }
    // More threads than CPUs wait for each other.
    add("wait for a CPU", &|phase, disturbed| {
        Some(disturbed.run_queue).filter(|_| phase.workload.threads <= run.environment.cpus)
    });
    let word = match level {
        level if level < NOISE_MODERATE => "low",
        level if level < NOISE_HIGH => "moderate",
        _ => "high",
    };
    (!parts.is_empty()).then(|| format!("{word}: {}", parts.join(", ")))
}

fn mean<'a>(shares: impl Iterator<Item = (&'a PhaseRecord, Option<f64>)>) -> Option<f64> {
    let (mut weighted, mut weight) = (0.0, 0.0);
    for (phase, share) in shares {
        if let Some(share) = share.filter(|share| share.is_finite()) {
            weighted += share * phase.counts.elapsed_ns as f64;
            weight += phase.counts.elapsed_ns as f64;
        }
    }
    (weight > 0.0).then(|| weighted / weight)
}

/// The cost of the tool itself; `None` if it is not known.
pub(crate) fn tool(tool: &Tool) -> Option<String> {
    let ns = |value: f64| latency(value.round().max(0.0) as u64);
    let parts = [
        tool.overhead_ns_per_op.map(|value| format!("{} of skye's CPU time per operation", ns(value))),
        tool.telemetry_cpu_share.map(|share| format!("sampling took {} of one CPU", percent(share))),
        tool.clock_read_ns.map(|value| format!("a clock read takes {}", ns(value))),
    ];
    let known: Vec<_> = parts.into_iter().flatten().map(|part| no_break(&part)).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::run::MonitorRecord;

    fn plain_text(run: &Run) -> String {
        sample::plain(&footer(run, &sample::WIDE))
    }

    #[test]
    fn footer_with_every_value() {
        let mut run = sample::run();
        run.tool.overhead_ns_per_op = Some(38.2);
        run.tool.warnings = vec!["the sampler missed 3 of 1,200 ticks".into()];
        insta::assert_snapshot!(plain_text(&run));
    }

    #[test]
    fn unknown_values_are_omitted() {
        let mut run = sample::run();
        for phase in &mut run.phases {
            phase.seen.disturbance = None;
        }
        run.tool = Tool { telemetry_cpu_share: None, clock_read_ns: None, ..run.tool };
        insta::assert_snapshot!(plain_text(&run));
        run.finished_at = "some day".into();
        assert_eq!(plain_text(&run), "");
    }

    #[test]
    fn monitor_is_listed_with_its_output() {
        let mut run = sample::run();
        assert_eq!(monitor_output(&run, Path::new("/tmp")), None);
        for (number, phase) in run.phases.iter_mut().enumerate().take(2) {
            phase.seen.monitor = Some(MonitorRecord {
                command: "iostat -x 1\x1b[2J".into(),
                output_file: Some(format!("r.monitor/0{number}-x.txt")),
                exit_code: None,
                signal: Some(2),
                last_signal: Some("INT".into()),
            });
        }
        let output_text = monitor_output(&run, Path::new("/tmp")).unwrap();
        assert!(output_text.ends_with(": output during 2 tests in /tmp/r.monitor"), "{output_text}");
        assert!(!output_text.contains('\x1b'), "{output_text}");
        run.phases
            .iter_mut()
            .filter_map(|phase| phase.seen.monitor.as_mut())
            .for_each(|ran| ran.output_file = None);
        assert!(monitor_output(&run, Path::new("/tmp")).unwrap().ends_with("could not be saved"));
    }

    #[test]
    fn compared_blocks_are_counted() {
        let mut phases = sample::run().phases;
        assert_eq!(compared(&phases), None);
        phases.iter_mut().for_each(|phase| phase.counts.app_bytes_read = 0);
        (phases[1].counts.verified_blocks, phases[1].counts.app_bytes_read) = (1, 1 << 20);
        assert_eq!(compared(&phases).unwrap(), "1 of 1 block compared byte by byte, none differs");
        phases[1].counts.app_bytes_read = 128 << 20;
        assert_eq!(compared(&phases).unwrap(), "1 of 128 blocks compared byte by byte, none differs");
        phases[1].counts.verified_blocks = 128;
        assert_eq!(compared(&phases).unwrap(), "all 128 blocks compared byte by byte, none differs");
        phases[3].counts.verified_blocks = 1_233;
        phases[3].judged.notes.push(wording::note(model::finding::Finding::DataDiffers {}, []));
        assert_eq!(
            compared(&phases).unwrap(),
            "all 1,361 blocks compared byte by byte, at least one differs"
        );
    }

    #[test]
    fn only_data_tests_count_blocks_read() {
        let read = |spec: &str, engine: &str| {
            let mut phase = sample::phase(spec);
            phase.engine.name = engine.into();
            phase.counts.app_bytes_read = 1 << 20;
            blocks_read(&phase)
        };
        assert_eq!(
            [read("read:seq128k", "uring"), read("byte-read", "sync"), read("getc-read", "stdio")],
            [8, 256, 256]
        );
        assert_eq!([read("read:rnd4k", "null"), read("read:rnd4k", "sim"), read("stat", "sync")], [0; 3]);
    }

    #[test]
    fn noise_has_three_levels() {
        let mut run = sample::run();
        let levels: Vec<_> = [0.019, 0.02, 0.0999, 0.1]
            .into_iter()
            .map(|share| {
                for disturbed in run.phases.iter_mut().filter_map(|phase| phase.seen.disturbance.as_mut()) {
                    disturbed.foreign_io = share;
                }
                noise(&run).unwrap()
            })
            .collect();
        insta::assert_snapshot!(levels.join("\n"));
    }
}
