//! Progress on stderr: three lines that are updated while a test runs, or a line each minute where there is no terminal.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::plan::PlannedPhase;
use report::live::{Live, LiveClients, LiveCpu, LiveDevice};
use report::text::Kind;
use run::Tick;

use crate::terminal;

/// Rates that the sparkline remembers.
const HISTORY: usize = 60;

/// Interval between lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The live view.
#[derive(Clone)]
pub struct LiveView {
    display: Display,
    history: Vec<f64>,
    last: (u64, u64),
    /// Time of the phase that counts: files are made and restored in between.
    measured_ns: u64,
}

/// Form of the view.
#[derive(Clone)]
enum Display {
    /// Nothing is shown.
    Hidden,
    /// Lines of a terminal, replaced at each update.
    Terminal,
    /// A line each minute. All clones of a view share the time of the last one.
    Log(Arc<Mutex<Instant>>),
}

impl Display {
    /// Returns true if a log gets a line now.
    fn is_line_due(&self, now: Instant) -> bool {
        let Self::Log(last) = self else { return false };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = now.saturating_duration_since(*last) >= LOG_INTERVAL;
        if is_due {
            *last = now;
        }
        is_due
    }
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
        Self::with_display(if is_visible { Display::Terminal } else { Display::Hidden })
    }

    /// Returns a view that has a line each minute where there is no terminal. It is hidden if `is_quiet`.
    pub fn with_log(is_quiet: bool) -> Self {
        let view = Self::new(is_quiet);
        match view.display {
            Display::Hidden if !is_quiet => {
                Self::with_display(Display::Log(Arc::new(Mutex::new(Instant::now()))))
            }
            _ => view,
        }
    }

    fn with_display(display: Display) -> Self {
        Self { display, history: Vec::with_capacity(HISTORY), last: (0, 0), measured_ns: 0 }
    }

    /// Shows what is being prepared.
    pub fn preparing(&self, what: &str) {
        if let Display::Terminal = self.display {
            terminal::show_live(&[report::live::preparation(what, &terminal::live_style())]);
        } else if self.display.is_line_due(Instant::now()) {
            terminal::write_progress(what);
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
        if let Some(line) = self.update_at(Instant::now(), position, tick) {
            terminal::write_progress(&line);
        }
    }

    /// Shows the progress of a phase on a terminal. Returns the line for a log, if one is due.
    fn update_at(&mut self, now: Instant, position: &Position<'_>, tick: &Tick<'_>) -> Option<String> {
        let (last_ns, last_ops) = std::mem::replace(&mut self.last, (tick.elapsed_ns, tick.ops));
        let workload = &position.phase.workload;
        let label = workload.label();
        if tick.frame.is_none() && tick.clients.is_none() && tick.ops <= last_ops {
            if self.measured_ns == 0 {
                self.preparing(&format!("{} {label}: preparing its files", workload.name()));
            }
            return None;
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
        if let Display::Terminal = self.display {
            terminal::show_live(&report::live::lines(&live, &terminal::live_style()));
        }
        self.display.is_line_due(now).then(|| report::live::log_line(&live, &terminal::style()))
    }
}

#[cfg(test)]
mod tests {
    use model::plan::Stop;
    use model::spec::{self, Defaults};
    use model::workload::Engine;

    use super::*;

    #[test]
    fn log_gets_line_each_minute() {
        let workload = spec::parse("read:rnd4k:q32", &Defaults::default()).unwrap();
        let phase = PlannedPhase {
            id: "01-read".into(),
            workload,
            engine: Engine::Sync,
            replaced_workload: None,
            group: None,
            clients: None,
            stop: Stop::default(),
        };
        let second_ns = 1_000_000_000;
        let (planned_ns, left_ns) = (180 * second_ns, 600 * second_ns);
        let position = Position { phase: &phase, index: 2, of: 3, next: None, planned_ns, left_ns };
        let start = Instant::now();
        let mut view = LiveView::with_display(Display::Log(Arc::new(Mutex::new(start))));
        let mut clone = view.clone();
        let line = |view: &mut LiveView, seconds: u64| {
            let tick = Tick {
                elapsed_ns: seconds * second_ns,
                ops: seconds * 1000,
                bytes: seconds * 4_096_000,
                p99_ns: None,
                still: Duration::ZERO,
                known: None,
                frame: None,
                zones: None,
                clients: None,
            };
            view.update_at(start + Duration::from_secs(seconds), &position, &tick)
        };
        let lines: Vec<_> = (1..=130).filter_map(|second| line(&mut view, second)).collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let first =
            "read 4K rnd q32 · 01:00 / 03:00 · 4.10 MB/s · 1,000 IOPS · test 2 of 3, about 9 min left";
        assert_eq!(lines[0].replace(" - ", " · "), first);
        assert_eq!(line(&mut clone, 131), None, "a clone has the same minutes");
        let mut hidden = LiveView::with_display(Display::Hidden);
        assert!((1..=130).all(|second| line(&mut hidden, second).is_none()));
    }
}
