//! `loops NAME OPS [FILE]` runs one loop; `loops --threads N NAME OPS [FILE]` runs it in several threads at once, each
//! by itself. See the library.
#![allow(clippy::print_stderr)]

use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;

use loops::{BYTE_LOOPS, LOOPS};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (threads, arguments) = match &arguments[..] {
        [word, threads, rest @ ..] if word == "--threads" => (threads.parse::<NonZero<usize>>().ok(), rest),
        all => (Some(NonZero::<usize>::MIN), all),
    };
    let Some(threads) = threads else { return usage() };
    let (name, ops, file) = match arguments {
        [name, ops] => (name, ops, None),
        [name, ops, file] => (name, ops, Some(Path::new(file))),
        _ => return usage(),
    };
    let Ok(ops) = ops.parse() else { return usage() };
    let run = || match loops::run(name, ops, file) {
        None => usage(),
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("loops: {error:#}");
            ExitCode::FAILURE
        }
    };
    let threads = threads.get();
    if threads == 1 {
        return run();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let codes = threads.into_iter().map(|thread| thread.join().unwrap_or(ExitCode::FAILURE));
        codes.fold(ExitCode::SUCCESS, |all, code| if all == ExitCode::SUCCESS { code } else { all })
    })
}

fn usage() -> ExitCode {
    let bytes = BYTE_LOOPS.iter().map(|known| known.name);
    let names: Vec<_> = LOOPS.iter().map(|known| known.name).chain(bytes).collect();
    eprintln!("usage: loops [--threads N] NAME OPS [FILE]; NAME is one of {}", names.join(", "));
    ExitCode::from(2)
}
