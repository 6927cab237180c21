//! Time until the program prints its first byte.

use std::io::Read;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::{Bench, Limit, Row, Rows, Setting, program};

pub(super) const BENCH: Bench =
    Bench { name: "startup", measures: "time from the start of a run to its first byte on stdout", run };

fn run(setting: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let binary = crate::release("skye")?;
    let scratch = program::scratch_in_memory()?;
    let arguments = ["--test", "read:rnd4k", "--size", "1m", "--time", "0.05", "--allow", "low-space,busy"];
    let mut values = Vec::new();
    // The first run loads the program from disk.
    for measurement in 0..=setting.pairs {
        let mut command = program::run(&binary, scratch.path(), &arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let start = Instant::now();
        let mut child = command.spawn().context("start the program")?;
        let mut stdout = child.stdout.take().context("its output is not piped")?;
        let mut first = [0_u8; 1];
        let read = stdout.read(&mut first).context("read its first byte")?;
        let elapsed = start.elapsed();
        // The program is left to finish: killed, it would leave its files.
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).context("read the rest")?;
        let status = child.wait().context("wait for the program")?;
        ensure!(read == 1 && status.success(), "the run printed {read} bytes and ended with {status}");
        if measurement > 0 {
            values.push(elapsed.as_secs_f64() * 1e3);
        }
    }
    rows.push(Row::new("start to first byte on stdout", "ms", values, Limit::AtMost(10.0)))
}
