//! Power cuts: guests that are killed at random instants of a run, and what is on their disk afterwards.
//!
//! Each guest first checks what the cut before left. The file system mounts, and foreign files are whole. `skye clean`
//! removes all that is skye's, and saved runs can be read. This module adds that each acknowledged block is there: it
//! takes the calls from strace, and the blocks from a copy of the files.
//!
//! A guest that is killed loses its memory, but not what its disk was sent. So another guest's disk logs its writes and
//! flushes ([`Log`]), and the same is checked on disks that hold the log up to a flush.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::data::Stamp;

use super::guest::{DISK_BYTES, Guest};
use super::replay::Log;
use super::supplies::{Kernel, Supplies};

/// Functions of all these scripts.
const CHECKS: &str = include_str!("../../lab/checks.sh");
/// Script of a guest that checks, and then writes until it is killed.
const CUT: &str = include_str!("../../lab/cuts.sh");
/// Script of a guest that writes to a disk with a log.
const LOG_SCRIPT: &str = include_str!("../../lab/logged.sh");
/// Script of a guest that checks disks made from a log.
const REPLAY_SCRIPT: &str = include_str!("../../lab/replayed.sh");
/// Time in which a guest starts and checks.
const CHECK: Duration = Duration::from_secs(180);
/// Time in which a guest writes a log, or checks all disks made from it.
const LOG: Duration = Duration::from_secs(900);
/// Longest time for which a guest writes before it is killed.
const WRITES_MAX: Duration = Duration::from_secs(25);
/// Bytes of a block that the tests write. Laying out files takes larger ones.
const BLOCK_BYTES: u64 = 4096;

/// Findings of a campaign of cuts.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Disks that were looked at.
    pub cuts: u32,
    /// Blocks that were acknowledged before a cut, and looked for after it.
    pub blocks: usize,
    /// Saved runs that could be read after a cut, summed over the cuts.
    pub saved: usize,
    /// Faults, in words.
    pub wrong: Vec<String>,
}

/// Checks disks as they are after a flush, at that many points of a log.
///
/// # Errors
/// No guest can run here, or one does not come to its end.
pub fn replay(kernel: &Kernel, program: &Path, points: usize) -> Result<Cuts> {
    let supplies = Supplies::load(kernel)?;
    let disks = super::scratch()?;
    let put = |shared: &Path| super::put(program, shared);
    let logged = Guest::boot(&supplies, disks.path(), &[CHECKS, LOG_SCRIPT].concat(), put)?.wait(LOG)?;
    let log = Log::open(&disks.path().join("disk1"))
        .with_context(|| fs::read_to_string(logged.path().join("lab/out")).unwrap_or_default())?;
    let images = |shared: &Path| -> Result<()> {
        put(shared)?;
        fs::create_dir(shared.join("images"))?;
        let path = disks.path().join("replayed");
        let image = File::create_new(&path)?;
        image.set_len(DISK_BYTES)?;
        let mut from = 0;
        for (number, to) in log.points("begin", points).into_iter().enumerate() {
            log.apply(&image, from, to)?;
            from = to + 1;
            super::supplies::run(
                Command::new("cp")
                    .arg("--sparse=always")
                    .arg(&path)
                    .arg(shared.join(format!("images/{number:03}"))),
            )?;
        }
        Ok(())
    };
    let checked =
        Guest::boot(&supplies, super::scratch()?.path(), &[CHECKS, REPLAY_SCRIPT].concat(), images)?
            .wait(LOG)?;
    let mut found = Cuts::default();
    found.read(&checked.path().join("lab"));
    found.cuts = lines(&checked.path().join("lab/looked")).len().try_into()?;
    Ok(found)
}

/// Kills guests that often, and checks after each cut.
///
/// # Errors
/// No guest can run here, or one does not come up.
pub fn run(kernel: &Kernel, program: &Path, cuts: u32) -> Result<Cuts> {
    let supplies = Supplies::load(kernel)?;
    let disks = super::scratch()?;
    let mut found = Cuts::default();
    let mut before = None;
    for number in 0..=cuts {
        let mut guest = Guest::boot(&supplies, disks.path(), &[CHECKS, CUT].concat(), |shared| {
            super::put(program, shared)
        })?;
        guest.wait_for("checked", CHECK)?;
        let shared = guest.shared();
        if let Some(before) = before.take() {
            found.check(&before, &shared).with_context(|| format!("after cut {number}"))?;
        }
        if number < cuts {
            sleep(WRITES_MAX.mul_f64(fastrand::f64()));
            before = Some(Calls::load(&guest.cut()?.path().join("lab"))?);
        }
    }
    Ok(found)
}

impl Cuts {
    /// Reads what a guest has found.
    fn read(&mut self, shared: &Path) {
        self.wrong
            .extend(lines(&shared.join("wrong")).iter().map(|line| format!("cut {}: {line}", self.cuts)));
        self.saved += lines(&shared.join("saved")).len();
    }

    /// Compares what a guest found on the disk with the calls before the cut.
    fn check(&mut self, calls: &Calls, shared: &Path) -> Result<()> {
        self.cuts += 1;
        self.read(shared);
        for ((path, offset), must) in &calls.acknowledged {
            let path = path.trim_start_matches("/mnt/t/");
            // A run that ended before the cut has removed its files.
            let Ok(file) = fs::read(shared.join("rescued").join(path)) else { continue };
            let at = usize::try_from(*offset)?;
            let is = file.get(at..).and_then(Stamp::from_bytes);
            let may = calls.in_flight.get(&(format!("/mnt/t/{path}"), *offset));
            self.blocks += 1;
            if is != Some(*must) && !may.is_some_and(|may| is.is_some_and(|is| may.contains(&is))) {
                self.wrong
                    .push(format!("cut {}: {path} at {offset} has {is:?}, expected {must:?}", self.cuts));
            }
        }
        Ok(())
    }
}

/// Lines of a file; none if it is not there.
fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// File and offset of a block.
type BlockLocation = (String, u64);

/// Calls of a program before a cut, as strace saw them.
#[derive(Debug, Default)]
struct Calls {
    /// Stamps of blocks that were said to be durable.
    acknowledged: BTreeMap<BlockLocation, Stamp>,
    /// Stamps of blocks whose writing began after that.
    in_flight: BTreeMap<BlockLocation, Vec<Stamp>>,
}

impl Calls {
    /// Reads both logs of a guest: a write is durable when it returns, or else when `fdatasync` does.
    fn load(shared: &Path) -> Result<Self> {
        let mut calls = Self::default();
        for (name, needs_sync) in [("written", false), ("synced", true)] {
            // A guest that was killed early has no log.
            let log = fs::read(shared.join(name)).unwrap_or_default();
            calls.read(&String::from_utf8_lossy(&log), needs_sync);
        }
        Ok(calls)
    }

    fn read(&mut self, log: &str, needs_sync: bool) {
        // By thread: a write that has not returned.
        let mut open: HashMap<&str, (BlockLocation, Stamp)> = HashMap::new();
        let mut written: Vec<(BlockLocation, Stamp)> = Vec::new();
        for line in log.lines() {
            let Some((thread, call)) = line.split_once(' ') else { continue };
            if let Some(write) = call.trim_start().strip_prefix("pwrite64(").and_then(parse_write) {
                self.in_flight.entry(write.0.clone()).or_default().push(write.1);
                open.insert(thread, write);
            }
            let has_returned = |value: &str| call.trim_end().ends_with(&format!("= {value}"));
            if call.contains("pwrite64") && has_returned(&BLOCK_BYTES.to_string()) {
                let Some(write) = open.remove(thread) else { continue };
                match needs_sync {
                    true => written.push(write),
                    false => self.acknowledge(write),
                }
            } else if call.contains("fdatasync") && has_returned("0") {
                written.drain(..).for_each(|write| self.acknowledge(write));
            }
        }
    }

    fn acknowledge(&mut self, (place, stamp): (BlockLocation, Stamp)) {
        self.in_flight.remove(&place);
        self.acknowledged.insert(place, stamp);
    }
}

/// Reads the arguments of a `pwrite64` of one block: `5<\x2f\x64…>, "\x01\x02…"..., 4096, 8192`.
fn parse_write(arguments: &str) -> Option<(BlockLocation, Stamp)> {
    let (_, rest) = arguments.split_once('<')?;
    let (path, rest) = rest.split_once('>')?;
    let (_, rest) = rest.split_once('"')?;
    let (text, rest) = rest.split_once('"')?;
    let mut numbers = rest.trim_start_matches("...").trim_start_matches(", ").split([',', ')', ' ']);
    let size: u64 = numbers.next()?.parse().ok()?;
    let offset: u64 = numbers.find(|word| !word.is_empty())?.parse().ok()?;
    let stamp = Stamp::from_bytes(&bytes(text)?)?;
    let path = String::from_utf8(bytes(path)?).ok()?;
    (size == BLOCK_BYTES).then_some(((path, offset), stamp))
}

/// Reads bytes that strace has written as `\x01\x02`.
fn bytes(text: &str) -> Option<Vec<u8>> {
    text.split("\\x").skip(1).map(|byte| u8::from_str_radix(byte, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(generation: u32) -> Stamp {
        Stamp { seed: 7, file: 0, generation, offset_bytes: 8192, phase_bytes: 16 }
    }

    fn write(generation: u32, end: &str) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
        let (path, stamp) = (hex(b"/mnt/t/skye.a/d0"), hex(&stamp(generation).to_bytes()));
        format!("11 pwrite64(5<{path}>, \"{stamp}\"..., 4096, 8192{end}\n")
    }

    #[test]
    fn block_is_acknowledged_when_its_call_returns() {
        let place = ("/mnt/t/skye.a/d0".to_owned(), 8192);
        let log = [write(1, ") = 4096"), write(2, " <unfinished ...>")].concat();
        let mut calls = Calls::default();
        calls.read(&log, false);
        assert_eq!(calls.acknowledged[&place], stamp(1));
        assert_eq!(calls.in_flight[&place], [stamp(2)]);
        calls.read(&format!("{log}11 <... pwrite64 resumed>) = 4096\n"), false);
        assert_eq!(calls.acknowledged[&place], stamp(2));
        let mut calls = Calls::default();
        calls.read(&log, true);
        assert!(calls.acknowledged.is_empty());
        calls.read(&format!("{log}11 fdatasync(5</mnt/t/skye.a/d0>) = 0\n"), true);
        assert_eq!(calls.acknowledged[&place], stamp(1));
    }
}
