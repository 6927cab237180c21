//! The clients of a run as its side.

use std::sync::atomic::Ordering;

use model::UserError;
use model::frames::{FromAgent, ToAgent};
use model::order::{LayoutOrder, TestOrder};
use model::plan::PlannedPhase;
use model::run::{ClockRecord, HostRecord, Status};
use run::{LayoutProgress, PhaseEvent, PhaseOutcome, Session, Side, SideEnd};

use crate::agent;
use crate::clock::ROUND_TRIPS_BETWEEN_TESTS;
use crate::coordinator::{Client, Fleet, State, combine_errors};
use crate::waiting::{self, Wait};

/// A plan with clients has no fills, no experiments and no return visits. Each client has its own target, and the run has
/// none to probe.
impl Side for Fleet {
    fn hosts(&self) -> Vec<HostRecord> {
        let record = |(number, client): (usize, &Client)| {
            let found = client.found.as_ref()?;
            let drift_ns = |clock: &ClockRecord| Some(clock.offset_ns - client.first_offset_ns?);
            Some(HostRecord {
                client: number as u32,
                name: client.name.clone(),
                skye_version: found.version.clone(),
                environment: found.environment.clone(),
                clock: client.clock.map(|clock| ClockRecord { drift_ns: drift_ns(&clock), ..clock }),
                lost: match &client.state {
                    State::Lost(why) => Some(why.clone()),
                    State::Live | State::Closed => None,
                },
            })
        };
        self.clients.iter().enumerate().filter_map(record).collect()
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn lay_out(&mut self, order: &LayoutOrder, progress: &LayoutProgress) -> Result<(), UserError> {
        // Fresh files are whole again.
        self.is_sound = true;
        // Where all work in files of the first client, it makes them before the others look for them.
        let shared = self.plan.as_ref().filter(|plan| plan.shares_files());
        let first = shared.map(|_| self.clients[0].work_directory_name.clone());
        let leaders = usize::from(first.is_some());
        let until_ns = agent::now_ns().saturating_add(order.time_ns);
        for group in [0..leaders, leaders..self.clients.len()] {
            let time_ns = until_ns.saturating_sub(agent::now_ns());
            let selected: Vec<_> = (0..self.clients.len()).map(|index| group.contains(&index)).collect();
            self.order_to(group, &|_, _| ToAgent::LayOut(LayoutOrder { time_ns, first: first.clone() }));
            let limit = Some(waiting::work(time_ns));
            let wait = Wait { limit, is_strict: false, is_removing: false };
            let laid_out = self.all_of(&selected, "lay out files", wait, |_, frame| match frame {
                FromAgent::LaidOut { bytes } => {
                    progress.bytes.fetch_add(bytes, Ordering::Relaxed);
                    Some(Ok(()))
                }
                _ => None,
            });
            laid_out.map_err(|errors| combine_errors("lay out files", errors))?;
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), UserError> {
        self.order(&ToAgent::Clear {});
        let wait = Wait { is_strict: false, ..self.removal_wait() };
        let cleared = self.all("remove files", wait, |_, frame| match frame {
            FromAgent::Cleared {} => Some(Ok(())),
            _ => None,
        });
        cleared.map_err(|errors| combine_errors("remove files", errors))
    }

    fn phase(
        &mut self,
        phase: &PlannedPhase,
        order: &TestOrder,
        on_event: &mut dyn FnMut(PhaseEvent<'_>),
    ) -> PhaseOutcome {
        let untried = |status, reason| {
            let record = Session::untried(phase, order.repetition, status, reason);
            PhaseOutcome { record, clients: Vec::new() }
        };
        let Some(plan) = self.plan.clone() else {
            return untried(Status::Failed, "there is no plan");
        };
        // A clock that drifts is followed from test to test.
        let _ = self.align(ROUND_TRIPS_BETWEEN_TESTS);
        if self.is_over {
            return untried(Status::Skipped, "a client was lost before the test started");
        }
        self.combined_phase(&plan, phase, order, on_event)
    }

    fn left_bytes(&self) -> u64 {
        let live = self.clients.iter().filter(|client| client.is_live());
        live.map(|client| client.left_bytes).min().unwrap_or(0)
    }

    fn clock_read_ns(&self) -> f64 {
        self.clients.iter().map(|client| client.clock_read_ns).fold(0.0, f64::max)
    }

    fn close(mut self: Box<Self>) -> SideEnd {
        let left = self.remove_all();
        SideEnd { left, removal: None, hosts: self.hosts() }
    }
}
