//! `cargo xtask COMMAND`: see [`HELP`].
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use xtask::{bench, docs, lab, rigs, schema, test, tidy};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--install] [--long] [--undecided-max N] [-- ARGS]
                               every test; then the slowest, the skipped, the undecided and the failed ones
                               --install, or CI=true: installs lacking packages first (as root, by apt-get)
                               --long: more repetitions, all forms of what has several, new random cases
                               --undecided-max: more tests that the machine was too busy to decide are a failure
                               ARGS go to `cargo test --workspace`: -p skye --test e2e -- signals
                               SKYE_TEST_REQUIRE=root,loop,…: skips for want of these are failures;
                               with quiet, undecided tests are, too
  tidy                         the house rules alone (they are among the tests too)
  schema                       writes schema/*.json from the types
  docs                         writes the pages and tables of docs/ that the code declares
  bench [NAME…] [--pairs N | --quick] [--bless] [--list]
                               what performance is asked for, measured; table, and target/bench.json
                               --quick: few pairs; without names, all but `build` and `clients`
                               --bless: `instructions` rewrites xtask/instructions.toml
  rigs --list | --clean        devices and servers of tests and benchmarks that are there;
                               --clean: undoes those whose process was killed
  rigs --runs N [--load] [--as-nobody] [--only NAME]… [--json FILE]
                               the selftest, so often, held against its goals; with all CPUs busy otherwise;
                               measured without privileges
  rigs --turns N               skye ab on two devices of which one is 5 % slower, so often
  lab [--long] [--runs N] [--only NAME]… [--kernel VERSION]… [--keep DIR]
                               known answers in a guest of another kernel, and power cuts;
                               --long: all cases, on all kernels, and more cuts;
                               --keep: documents and output of all cases
  lab cuts N [--kernel VERSION]…
                               guests that are killed while skye writes to their disk, so often
  lab run FILE [--kernel VERSION]…
                               the cases of a file, written like those in xtask/lab
  lab record [--only NAME]… [--kernel VERSION]
                               machines for the tests of observe, recorded in a guest

Exit codes: 0 done, 1 failed, 2 usage.";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let rest: Vec<String> = arguments.collect();
    let done = match command.as_str() {
        "test" => test::command(&rest),
        "tidy" if rest.is_empty() => tidy::command(),
        "schema" if rest.is_empty() => schema::command(),
        "docs" if rest.is_empty() => docs::command(),
        "bench" => bench::command(&rest),
        "rigs" => rigs::command(&rest),
        "lab" => lab::command(&rest),
        // Cargo hands over each test program through this.
        "test-program" => test::run_program(&rest),
        "help" | "-h" | "--help" => {
            println!("{HELP}");
            Ok(true)
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            let usage = error.downcast_ref::<xtask::Usage>().is_some();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}
