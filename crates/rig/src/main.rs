//! A rig as a separate process, for this crate's tests and for use by hand. It lasts until `quit` or the end of input:
//! `cargo run -p rig -- disk fs=ext4 read_iops=5000`
//!
//! Invariants: those of the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let worked = rig::serve(&words, std::io::stdin(), std::io::stdout());
    if worked { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
