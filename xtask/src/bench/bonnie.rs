//! Whole runs of the program as bonnie++ against whole runs of bonnie++ itself. Both have the same command line in
//! memory, so that only the programs differ.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rig::{Disk, Spec};

use super::foreign;
use super::tmpfs::Tmpfs;
use super::{Bench, Limit, Row, Setting};

pub(super) const BENCH: Bench = Bench {
    name: "bonnie",
    measures: "rates of `skye bonnie++` over those of bonnie++, in memory; it sleeps three seconds in each of its own",
    run,
};

/// A command line, its place, and the rates that are compared.
struct Part {
    place: Place,
    words: &'static [&'static str],
    rates: &'static [Rate],
}

enum Place {
    Tmpfs,
    /// A device in memory that allows direct I/O.
    Ext4,
}

/// A rate, and its place in the line of 50 fields.
struct Rate {
    what: &'static str,
    field: usize,
    limit: Limit,
}

const fn rate(what: &'static str, field: usize, limit: Limit) -> Rate {
    Rate { what, field, limit }
}

/// A block or a name takes kernel time; the programs add little to it.
const EQUAL: Limit = Limit::Reaches(1.0);
/// Work so large that bonnie++ prints rates and no plus signs; less is too fast for it.
const PARTS: [Part; 3] = [
    Part {
        place: Place::Tmpfs,
        words: &["-s", "8192", "-f2", "-n", "0"],
        rates: &[
            rate("byte by byte, written", 9, Limit::None),
            rate("blocks, written", 11, EQUAL),
            rate("blocks, rewritten", 13, EQUAL),
            rate("byte by byte, read", 15, Limit::None),
            rate("blocks, read", 17, EQUAL),
        ],
    },
    Part {
        place: Place::Tmpfs,
        words: &["-s", "0", "-n", "400"],
        rates: &[
            rate("files, created in sequence", 26, EQUAL),
            rate("files, looked at in the directory's order", 28, EQUAL),
            rate("files, removed in the directory's order", 30, EQUAL),
            rate("files, created by random names", 32, EQUAL),
            rate("files, looked at at random", 34, EQUAL),
            rate("files, removed at random", 36, EQUAL),
        ],
    },
    // Only the block write of this run is direct.
    Part {
        place: Place::Ext4,
        words: &["-s", "1024", "-f", "-D", "-n", "0"],
        rates: &[rate("blocks, written directly", 11, EQUAL)],
    },
];

/// Size of the device, in MiB.
const DEVICE_MIB: u64 = 2048;

fn run(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for part in &PARTS {
        rows.extend(match foreign::absent("bonnie++", "bonnie++") {
            Some(why) => part.rates.iter().map(|rate| Row::skipped(rate.what, rate.limit, &why)).collect(),
            None => part.run(setting)?,
        });
    }
    Ok(rows)
}

impl Part {
    fn run(&self, setting: &Setting) -> Result<Vec<Row>> {
        match self.place {
            Place::Tmpfs => self.compare(Tmpfs::mount()?.path(), setting),
            Place::Ext4 => {
                let spec = Spec::disk().file_system("ext4").size_mib(DEVICE_MIB);
                let disk = Disk::build(&spec).context("make a file system in memory")?;
                self.compare(&disk.path(), setting)
            }
        }
    }

    fn compare(&self, directory: &Path, setting: &Setting) -> Result<Vec<Row>> {
        let binary = crate::release("skye")?.display().to_string();
        // Both run on any CPU, as users run them; pinned to one CPU, bonnie++ is faster by some percent.
        let theirs = self.command(&["bonnie++"], directory);
        let ours = self.command(&[&binary, "bonnie++"], directory);
        let mut ratios: Vec<_> = self.rates.iter().map(|_| Vec::new()).collect();
        // The first pair warms up; the order alternates.
        for pair in 0..=setting.pairs {
            let mut rates = [const { Vec::new() }; 2];
            for side in [pair % 2, 1 - pair % 2] {
                let command = if side == 0 { &theirs } else { &ours };
                rates[side] = self.measured(command)?;
            }
            for (test, ratios) in ratios.iter_mut().enumerate().filter(|_| pair > 0) {
                if let (Some(theirs), Some(ours)) = (rates[0][test], rates[1][test]) {
                    ratios.push(ours / theirs);
                }
            }
        }
        let note = foreign::command_line(&theirs);
        let row = |(rate, ratios): (&Rate, Vec<f64>)| match ratios.is_empty() {
            true => Row::skipped(rate.what, rate.limit, "too fast for one of them, which printed +++++"),
            false => Row::new(rate.what, "×", ratios, rate.limit).noted(note.clone()),
        };
        Ok(self.rates.iter().zip(ratios).map(row).collect())
    }

    fn command(&self, program: &[&str], directory: &Path) -> Vec<String> {
        let directory = directory.display().to_string();
        let place = ["-q", "-u", "root", "-r", "0", "-d", &directory];
        let words = program.iter().copied().chain(place);
        words.chain(self.words.iter().copied()).map(str::to_owned).collect()
    }

    /// Returns the rates that the command prints, with `None` for one that was too fast.
    fn measured(&self, command: &[String]) -> Result<Vec<Option<f64>>> {
        let (stdout, _) = foreign::run_anywhere(command)?;
        let line = stdout.lines().last().unwrap_or_default();
        let fields: Vec<_> = line.split(',').collect();
        ensure!(fields.len() == 50, "{} printed `{line}`", command.join(" "));
        Ok(self.rates.iter().map(|rate| fields[rate.field].parse().ok()).collect())
    }
}
