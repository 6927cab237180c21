//! The cost of the loop on bytes: instructions of each call, through the loop and bare.
//!
//! Instructions are counted, not timed: a call of the C library takes three nanoseconds. Each loop runs in a separate
//! process with one thread, as in the program. glibc is slower in a process with several threads.

use std::path::Path;

use anyhow::Result;
use loops::BYTE_LOOPS;

use super::callgrind::per_operation;
use super::{Bench, Limit, Row, Rows, Setting, foreign};

pub(super) const BENCH: Bench = Bench {
    name: "bytes",
    measures: "user-space instructions of a byte, by callgrind: our loop over a bare one",
    run,
};

/// Operations of the two runs.
const OPS: [u64; 2] = [500_000, 1_500_000];
/// Most instructions through our loop, relative to the bare one.
const SHARE: f64 = 1.03;

fn run(_: &Setting, rows: &mut Rows<'_>) -> Result<()> {
    let limit = Limit::AtMost(SHARE);
    if let Some(why) = foreign::absent("valgrind", "valgrind") {
        return rows.push(Row::skipped("bytes, ours over bare", limit, why));
    }
    let binary = crate::release("loops")?;
    for pair in BYTE_LOOPS {
        let count = |name: &str| per_operation(OPS, |ops| command(&binary, name, ops));
        let (ours, bare) = (count(pair.name)?, count(&format!("bare-{}", pair.name))?);
        let what = format!("{}, {ours:.1} instr., over {bare:.1} bare", pair.name);
        rows.push(Row::new(what, "×", vec![ours / bare], limit))?;
    }
    Ok(())
}

fn command(binary: &Path, name: &str, ops: u64) -> Vec<String> {
    vec![binary.display().to_string(), name.into(), ops.to_string()]
}
