//! Many clients as one: starts an agent on each host, aligns their clocks, starts each test everywhere at one instant,
//! and fetches the measurements.
//!
//! `channel` has the frames, and `launch` the command lines that start agents. The hub is one thread with all channels.
//! `phase` runs one test on all clients, and [`Fleet`] a whole run. [`agent::Wire`] is the other end of a channel.
//! Under mpirun, `ranks` carries the channels over messages of the library that `mpi` opens.
//!
//! Invariants:
//! - No socket of skye listens, on any side, in any mode. Frames go over the standard streams of a process that was
//!   started, or in messages of MPI.
//! - A frame has limits of length, depth and counts. A malformed one ends its session, and nothing else.
//! - Texts of a client are harmless and short before they are printed, and few.
//! - No frame runs a command, leads to a path outside the agent's directory, or raises a limit.
//! - Clocks of hosts are never believed: each has an offset with a bound, from round trips of frames.
//! - While something is measured, a client sends a tick and a heartbeat a second, and nothing else. A rank sends
//!   nothing.
//! - Each wait for a client has a limit, which no heartbeat extends. A process of this machine is lost once it has
//!   ended, another one also after a timeout.
//! - An agent whose coordinator is gone or silent ends by itself, and removes its files. That of a rank ends with the
//!   rank.

pub mod agent;
mod channel;
mod cleaning;
mod clock;
mod coordinator;
mod hub;
pub mod launch;
mod link;
mod mpi;
mod observers;
mod phase;
pub mod ranks;
mod send;
mod side;
mod texts;
mod waiting;

pub use coordinator::{Client, ClientMessageSink, ClientTarget, Clients, Fleet, FleetOptions, OnLoss};
