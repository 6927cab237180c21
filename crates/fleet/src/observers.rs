//! Observers: agents that run no test, and watch their machine while the clients measure.
//!
//! They start with the clients, so that every refusal comes at once. Their channels have the numbers behind those of the
//! clients. A lost observer ends nothing: its evidence is missing.

use std::time::{Duration, Instant};

use model::frames::{FromAgent, ToAgent};
use model::run::ServerUse;

use crate::clock;
use crate::coordinator::{Client, Fleet, POLL_INTERVAL, State};
use crate::link::Event;
use crate::texts;

/// Timeout for the observations of an observer.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(2);

/// One observer.
pub(crate) struct Observer {
    pub(crate) client: Client,
    server_use: Option<ServerUse>,
    /// True once it has said that something failed.
    has_failed: bool,
}

impl Observer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, server_use: None, has_failed: false }
    }
}

impl Fleet {
    /// Returns the next event of a client; `None` if none comes within a moment. Events of observers are taken here.
    pub(crate) fn next(&mut self) -> Option<(usize, Event)> {
        let (index, event) = match self.hub.next(POLL_INTERVAL)? {
            (index, Event::Frame(FromAgent::Ended { reason })) => {
                self.hub.close(index);
                (index, Event::Lost(format!("it was {}", texts::short(&reason))))
            }
            other => other,
        };
        let Some(number) = index.checked_sub(self.clients.len()) else { return Some((index, event)) };
        let Observer { client, server_use, has_failed } = self.observers.get_mut(number)?;
        match event {
            Event::Frame(FromAgent::Watched(take_observations)) => *server_use = Some(*take_observations),
            Event::Lost(why) if client.is_live() => {
                (self.say)(&client.name, &format!("lost: {why}; it is no longer observed"));
                client.state = State::Lost(why);
            }
            Event::Line(line) => (self.say)(&client.name, &line),
            Event::OmittedLines(lines) => client.omitted_lines += lines,
            // It fails in each test, for the same reason.
            Event::Frame(FromAgent::Failed { error, .. }) if !std::mem::replace(has_failed, true) => {
                (self.say)(&client.name, &texts::short(&error.to_string()));
            }
            _ => {}
        }
        None
    }

    /// Lets all observers begin at an instant of this machine's clock.
    pub(crate) fn watch(&mut self, at_ns: u64) {
        let first = self.clients.len();
        for (number, observer) in self.observers.iter_mut().enumerate() {
            observer.server_use = None;
            if let Some(clock) = observer.client.clock.filter(|_| observer.client.is_live()) {
                self.hub.send(first + number, ToAgent::Watch { at_ns: clock::to_remote_ns(at_ns, &clock) });
            }
        }
    }

    /// Returns what the observers have seen since they began.
    pub(crate) fn take_observations(&mut self) -> Vec<ServerUse> {
        let first = self.clients.len();
        let live = |observer: &Observer| observer.client.is_live();
        for number in (0..self.observers.len()).filter(|number| live(&self.observers[*number])) {
            self.hub.send(first + number, ToAgent::Watched {});
        }
        let started = Instant::now();
        while self.observers.iter().any(|observer| live(observer) && observer.server_use.is_none())
            && started.elapsed() < OBSERVATION_TIMEOUT
        {
            // No client says anything between two tests but that it is lost.
            if let Some((index, event)) = self.next() {
                self.note(index, event);
            }
        }
        let of = |observer: &mut Observer| {
            let server_use = observer.server_use.take()?;
            let (client, mut devices) = (&observer.client, server_use.devices);
            if client.host.directory.is_none() {
                // Nobody knows where its data is.
                devices.clear();
            }
            Some(ServerUse { name: client.name.clone(), devices, ..server_use })
        };
        self.observers.iter_mut().filter_map(of).collect()
    }
}
