//! A run before it begins: its target is found, then planned, then opened. This process measures it, or several clients do.

use std::path::Path;

use fleet::OnLoss;
use model::plan;
use model::request::Request;
use model::run::Environment;
use model::{Machine, Plan, Target};
use observe::Root;
use run::{SessionOptions, Side};

use crate::cli::ClientArguments;
use crate::exit::Failure;
use crate::fleet_run::{self, ConnectedClients, FleetRun};
use crate::place::ResolvedTarget;
use crate::signals::Interruption;

/// Target of a run that is found. Nothing is written yet.
pub enum FoundTarget {
    /// This process measures it.
    Here(Box<ResolvedTarget>),
    /// Several clients measure it.
    Clients(Box<ConnectedClients>),
}

impl FoundTarget {
    /// Finds the target that `word` means here.
    ///
    /// # Errors
    /// As [`ResolvedTarget::find`].
    pub fn here(root: &Root, machine: &Machine, word: &Path) -> Result<Self, Failure> {
        let place = ResolvedTarget::find(root, machine, word).map_err(Failure::refused)?;
        Ok(Self::Here(Box::new(place)))
    }

    /// Finds the target that `word` means on each client, within the limits of a request.
    ///
    /// # Errors
    /// As [`ConnectedClients::start`].
    pub fn on_clients(
        arguments: &ClientArguments,
        word: &Path,
        clients: fleet::Clients,
        request: &Request,
        on_loss: OnLoss,
        interruption: &Interruption,
    ) -> Result<Self, Failure> {
        let connected = ConnectedClients::start(arguments, word, clients, request, on_loss, interruption)?;
        Ok(Self::Clients(Box::new(connected)))
    }

    /// Returns the target, that of the first client if there are several.
    pub fn target(&self) -> &Target {
        match self {
            Self::Here(place) => place.target(),
            Self::Clients(connected) => &connected.first().environment.target,
        }
    }

    /// Returns the free bytes of each client.
    pub fn free_bytes(&self) -> u64 {
        match self {
            Self::Here(place) => place.target().space.free_bytes,
            Self::Clients(connected) => connected.room_bytes(),
        }
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> u32 {
        match self {
            Self::Here(_) => 1,
            Self::Clients(connected) => connected.clients(),
        }
    }

    /// Plans the run.
    ///
    /// # Errors
    /// All refusals, of whichever client. Nothing was written.
    pub fn plan(self, request: Request, machine: &Machine, seed: u64) -> Result<PreparedRun, Failure> {
        match self {
            Self::Here(place) => {
                let plan = plan::plan(&request, place.target(), machine).map_err(Failure::refused)?;
                fleet_run::check_alone(&plan)?;
                Ok(PreparedRun::here(*place, plan, seed))
            }
            Self::Clients(connected) => {
                let run = connected.plan(request, seed)?;
                Ok(PreparedRun { plan: run.plan.clone(), seed, measurer: Measurer::Clients(Box::new(run)) })
            }
        }
    }
}

/// Run that is planned. Nothing is written yet.
pub struct PreparedRun {
    /// The plan.
    pub plan: Plan,
    /// Seed of offsets and data.
    pub seed: u64,
    measurer: Measurer,
}

/// Those who will measure a run.
enum Measurer {
    /// This process.
    Here(Box<ResolvedTarget>),
    /// Several clients.
    Clients(Box<FleetRun>),
}

impl PreparedRun {
    /// Returns the run of a plan that this process measures.
    pub fn here(place: ResolvedTarget, plan: Plan, seed: u64) -> Self {
        Self { plan, seed, measurer: Measurer::Here(Box::new(place)) }
    }

    /// Returns machine and target, of the first client if there are several.
    pub fn environment(&self) -> &Environment {
        match &self.measurer {
            Measurer::Here(place) => &place.environment,
            Measurer::Clients(run) => &run.environment,
        }
    }

    /// Returns the signals that are caught since clients were started, as they end the agents, too.
    pub fn interruption(&self) -> Option<&Interruption> {
        match &self.measurer {
            Measurer::Here(_) => None,
            Measurer::Clients(run) => Some(&run.interruption),
        }
    }

    /// Opens the target. Returns the side that measures it, and the environment with the sources that the system hides.
    /// Only empty directories are written. `options` are those of a session here, besides its seed and its interrupt.
    ///
    /// # Errors
    /// A directory cannot be made or opened, or the device has changed or is in use now.
    pub fn open(
        self,
        root: &Root,
        interruption: &Interruption,
        options: SessionOptions,
    ) -> Result<(Box<dyn Side>, Environment), Failure> {
        let Self { plan, seed, measurer } = self;
        match measurer {
            Measurer::Here(place) => {
                let interrupt = interruption.raised.clone();
                let session = place.open(root, &plan, SessionOptions { seed, interrupt, ..options })?;
                let mut environment = place.environment;
                environment.hidden_sources.extend_from_slice(session.hidden_sources());
                Ok((Box::new(session), environment))
            }
            Measurer::Clients(mut run) => {
                let hidden_sources = run.open()?;
                Ok((Box::new(run.fleet), Environment { hidden_sources, ..run.environment }))
            }
        }
    }
}
