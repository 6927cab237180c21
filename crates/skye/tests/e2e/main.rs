//! End-to-end tests: the built program against real file systems, one module per theme.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]

#[path = "../support/mod.rs"]
mod support;

// Its name comes first among all, because it takes longest.
mod another_kernel;
mod bad_input;
mod bad_luck;
mod bonnie;
mod bonniepp;
mod browser;
mod calls;
mod clean;
mod compare;
mod dials;
mod discard;
mod doctor;
mod dry_run;
mod engines;
mod erase;
mod existing;
mod file_verbs;
mod fleet;
mod gate;
mod getc_putc;
mod gobonniego;
mod hostile;
mod kubernetes;
mod layers;
mod limiters;
mod losses;
mod mapped;
mod measured;
mod monitor;
mod mpi;
mod output;
mod places;
mod precondition;
mod prometheus;
mod races;
mod replay;
mod sent;
mod setting_commands;
mod signals;
mod spread;
mod support_works;
mod trend;

mod waits;
mod weight;
mod write_limit;
mod zcav;
