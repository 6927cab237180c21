//! `loops NAME OPS [FILE]`: see the library.
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;

use loops::{BYTE_LOOPS, LOOPS};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, ops, file) = match &arguments[..] {
        [name, ops] => (name, ops, None),
        [name, ops, file] => (name, ops, Some(Path::new(file))),
        _ => return usage(),
    };
    let Ok(ops) = ops.parse() else { return usage() };
    match loops::run(name, ops, file) {
        None => usage(),
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("loops: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    let bytes = BYTE_LOOPS.iter().map(|known| known.name);
    let names: Vec<_> = LOOPS.iter().map(|known| known.name).chain(bytes).collect();
    eprintln!("usage: loops NAME OPS [FILE]; NAME is one of {}", names.join(", "));
    ExitCode::from(2)
}
