//! Three lines on stderr that are updated while a test runs.

use std::io::IsTerminal;

use model::plan::PlannedPhase;
use report::live::{Live, LiveClients, LiveCpu, LiveDevice};
use report::text::Kind;
use run::Tick;

use crate::terminal;

/// Rates that the sparkline remembers.
const HISTORY: usize = 60;

/// The live view; does nothing where stderr is not a terminal.
#[derive(Clone)]
pub struct LiveView {
    is_visible: bool,
    history: Vec<f64>,
    last: (u64, u64),
    /// Time of the phase that counts: files are made and restored in between.
    measured_ns: u64,
}

/// Position of the running phase in the run, as the view shows it.
pub struct Position<'a> {
    /// The phase.
    pub phase: &'a PlannedPhase,
    /// Number of the phase, from 1.
    pub index: usize,
    /// Number of phases.
    pub of: usize,
    /// Next phase, if there is one.
    pub next: Option<&'a str>,
    /// Planned time of the phase.
    pub planned_ns: u64,
    /// Time until the whole run should end, at the start of the phase.
    pub left_ns: u64,
}

impl LiveView {
    /// Returns a view, hidden if `is_quiet` or where there is no terminal.
    pub fn new(is_quiet: bool) -> Self {
        // Such a terminal cannot go back to lines that it has shown.
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_visible = !is_quiet && !is_dumb && std::io::stderr().is_terminal();
        if is_visible {
            terminal::remove_live_at_stop();
        }
        Self { is_visible, history: Vec::with_capacity(HISTORY), last: (0, 0), measured_ns: 0 }
    }

    /// Shows what is being prepared.
    pub fn preparing(&self, what: &str) {
        self.show(&[report::live::preparation(what, &terminal::live_style())]);
    }

    fn show(&self, lines: &[String]) {
        if self.is_visible {
            terminal::show_live(lines);
        }
    }

    /// Begins another phase.
    pub fn begin(&mut self) {
        self.history.clear();
        self.last = (0, 0);
        self.measured_ns = 0;
    }

    /// Shows the progress of a phase.
    pub fn update(&mut self, position: &Position<'_>, tick: &Tick<'_>) {
        let (last_ns, last_ops) = std::mem::replace(&mut self.last, (tick.elapsed_ns, tick.ops));
        let workload = &position.phase.workload;
        let label = workload.label();
        if tick.frame.is_none() && tick.clients.is_none() && tick.ops <= last_ops {
            if self.measured_ns == 0 {
                self.preparing(&format!("{} {label}: preparing its files", workload.name()));
            }
            return;
        }
        let step_ns = tick.elapsed_ns.saturating_sub(last_ns);
        self.measured_ns += step_ns;
        let seconds = step_ns as f64 / 1e9;
        if seconds > 0.0 {
            if self.history.len() == HISTORY {
                self.history.remove(0);
            }
            self.history.push(tick.ops.saturating_sub(last_ops) as f64 / seconds);
        }
        let elapsed = (self.measured_ns as f64 / 1e9).max(1e-9);
        let device = tick.frame.and_then(|frame| frame.devices.first()).map(|device| LiveDevice {
            name: &device.name,
            busy_share: device.busy_ns as f64 / 1e9 / seconds.max(1e-9),
            in_flight: device.in_flight_ns as f64 / 1e9 / seconds.max(1e-9),
        });
        let cpu = tick.frame.map(|frame| LiveCpu {
            cores: (frame.cpu.user_ns + frame.cpu.kernel_ns) as f64 / 1e9 / seconds.max(1e-9),
            kernel_cores: frame.cpu.kernel_ns as f64 / 1e9 / seconds.max(1e-9),
        });
        let live = Live {
            kind: if workload.data().is_some() { Kind::Data } else { Kind::Files },
            name: workload.name(),
            label: &label,
            index: position.index,
            of: position.of,
            elapsed_ns: self.measured_ns,
            planned_ns: Some(position.planned_ns),
            left_ns: Some(position.left_ns.saturating_sub(tick.elapsed_ns)).filter(|left| *left > 0),
            bytes_per_second: workload.data().map(|_| tick.bytes as f64 / elapsed),
            ops_per_second: tick.ops as f64 / elapsed,
            p99_ns: tick.p99_ns,
            stalled_ns: tick.still.as_nanos() as u64,
            steady: tick.known.map(|known| (known.since_ns, known.half_width)),
            history: &self.history,
            device,
            cpu,
            clients: tick
                .clients
                .as_ref()
                .map(|clients| LiveClients { slowest: clients.slowest, lost: &clients.lost }),
            next: position.next,
        };
        self.show(&report::live::lines(&live, &terminal::live_style()));
    }
}
