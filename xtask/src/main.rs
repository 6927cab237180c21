//! `cargo xtask COMMAND`: see [`HELP`].
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use xtask::{Usage, bench, deploy, dist, docs, lab, release, repeats, rigs, schema, test, tidy};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test [--install] [--long] [--undecided-max N] [-- ARGS]
                               runs all tests, and lists the slowest, skipped, undecided and failed ones
                               --install, or CI=true: installs missing packages first (as root, with apt-get)
                               --long: more repetitions, all variants, new random cases
                               --undecided-max: fails if more tests are undecided because of a busy machine
                               ARGS go to `cargo test --workspace`: -p skye --test e2e -- signals
                               SKYE_TEST_REQUIRE=root,loop,…: skips for lack of these are failures;
                               with quiet, undecided tests are failures, too
  tidy                         checks only the house rules (the tests include them)
  schema                       writes schema/*.json from the types
  docs                         writes the generated pages and tables of docs/
  release --check              lists what this tree lacks for a release of its version
  deploy --check               decodes deploy/*.yaml with the types of Kubernetes' API (needs Go)
  bench [NAME…] [--pairs N | --quick] [--bless] [--list]
                               measures the performance goals; prints a table, writes target/bench.json
                               --quick: few pairs; without names, all but `build` and `clients`
                               --bless: `instructions` rewrites xtask/instructions.toml
  dist [--target x86_64|aarch64] [--out DIR] [--check] [--try] [--compare]
                               builds programs, packages and an image for download, in target/download;
                               --check: builds twice, and compares the bytes;
                               --try: installs, runs and removes each in fresh roots (as root);
                               --compare: speed of the static program against the dynamic one
  rigs --list | --clean        lists devices and servers of tests and benchmarks;
                               --clean: removes those whose process was killed
  rigs --runs N [--load] [--as-nobody] [--only NAME]… [--json FILE]
                               runs the selftest N times, and compares it with its goals;
                               --load: with all CPUs busy; --as-nobody: without privileges
  rigs --turns N               runs skye ab N times on two devices, one 5 % slower
  rigs --random N [--seed S] [--part P] [--keep|--labels|--counters|--guests]
                               compares skye's limiters on N random stacks with the truth, found by changing each;
                               --keep: adds the rows to those that `rejudge` reads; --labels: shows the truth alone;
                               --counters: compares layers and counters alone; --guests: stacks with other kernels
  rejudge [--misses]           judges the kept rows of random stacks again, and prints the score, and each miss
  repeats DIR RESULTS N        makes N default runs in a directory, and checks with all runs in RESULTS that ± covers repeats
  lab [--long] [--runs N] [--only NAME]… [--kernel VERSION]… [--keep DIR]
                               runs known answers in a guest with another kernel, and power cuts;
                               --long: all cases, on all kernels, and more cuts;
                               --keep: saves documents and output of all cases
  lab cuts N [--kernel VERSION]…
                               kills N guests while skye writes to their disk
  lab run FILE [--kernel VERSION]…
                               runs the cases of a file in the format of xtask/lab
  lab kernels                  runs skye on all kernels, and writes docs/kernels.md
  lab record [--only NAME]… [--kernel VERSION]
                               records machines for the tests of observe, in a guest

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
        "release" => release::command(&rest),
        "deploy" => deploy::command(&rest),
        "bench" => bench::command(&rest),
        "dist" => dist::command(&rest),
        "rigs" => rigs::command(&rest),
        "rejudge" if rest.is_empty() || rest == ["--misses"] => rigs::random::rejudge(!rest.is_empty()),
        "repeats" => match &rest[..] {
            [directory, results, runs] => runs
                .parse()
                .map_err(|_| Usage("use `repeats DIR RESULTS N`".into()).into())
                .and_then(|runs| repeats::command(directory.as_ref(), results.as_ref(), runs)),
            _ => Err(Usage("use `repeats DIR RESULTS N`".into()).into()),
        },
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
            let usage = error.downcast_ref::<Usage>().is_some();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}
