//! Disturbance of a sum by others on the machines of its clients. Clients of one machine are no others for each other.

use std::collections::BTreeMap;

use model::advice::Advice;
use model::disturbance::SHARE_MAX;
use model::figure::Share;
use model::finding::Finding;
use model::run::{ClientShare, Mark, Note, machine_of};

use crate::laws::traps::TRAPS;
use crate::values::input::JudgeInput;
use crate::values::trap_finding::TrapFinding;

/// Codes of the findings about others on a machine.
const MACHINE_CODES: [&str; 8] = [
    "device_disagrees",
    "foreign_io",
    "steal",
    "not_running",
    "cpu_contention",
    "limit_changed",
    "thermal",
    "maintenance",
];
/// Traps whose counters a sum has, if it is of one machine. A client sees the other clients there as foreign.
const SUM_CODES: [&str; 2] = ["foreign_io", "cpu_contention"];
/// Traps on the figures of a sum.
const FIGURE_CODES: [&str; 1] = ["latency_too_long"];

/// Returns the clients of each machine.
pub(super) fn machines(shares: &[ClientShare]) -> BTreeMap<&str, Vec<&ClientShare>> {
    let mut machines: BTreeMap<&str, Vec<&ClientShare>> = BTreeMap::new();
    shares.iter().for_each(|share| machines.entry(machine_of(&share.name)).or_default().push(share));
    machines
}

/// Returns true for a note of a client that takes the other clients of its machine for strangers.
pub(super) fn is_about_sibling_clients(note: &Note) -> bool {
    SUM_CODES.contains(&note.code.as_str()) || matches!(note.finding, Finding::DeviceMovedForOthers { .. })
}

/// Returns the notes of a sum on its figures and on its machines, each code once.
pub(super) fn notes(input: &JudgeInput<'_>) -> Vec<Note> {
    let machines = machines(&input.record.hosts);
    let mut found = check(input, &FIGURE_CODES);
    for clients in machines.values() {
        let own = clients.iter().flat_map(|share| &share.judged.notes);
        let suspects =
            own.filter(|note| note.mark == Mark::Suspect && MACHINE_CODES.contains(&note.code.as_str()));
        found.extend(suspects.cloned());
        found.extend(match (clients.len(), machines.len()) {
            (1, _) => Vec::new(),
            (_, 1) => check(input, &SUM_CODES),
            _ => waited_for_cpu(input, clients).into_iter().collect(),
        });
    }
    let mut notes: Vec<Note> = Vec::new();
    for note in found {
        if notes.iter().all(|known| known.code != note.code) {
            notes.push(note);
        }
    }
    notes
}

/// Applies some traps to a sum.
fn check(input: &JudgeInput<'_>, codes: &[&str]) -> Vec<Note> {
    let traps = TRAPS.iter().filter(|trap| codes.contains(&trap.code));
    let found = traps.filter_map(|trap| (trap.check)(input));
    found.map(|TrapFinding { finding, advice }| Note::new(finding, advice)).collect()
}

/// Returns a note if the clients of one of several machines waited for CPUs, though each thread could have one. Machines
/// count as those of the first client.
fn waited_for_cpu(input: &JudgeInput<'_>, clients: &[&ClientShare]) -> Option<Note> {
    let threads = clients.len() as u64 * u64::from(input.phase.workload.threads);
    let waited = clients.iter().map(|share| share.budget.as_ref().map(|budget| budget.run_queue));
    let waited = waited.sum::<Option<f64>>()? / clients.len() as f64;
    (threads <= u64::from(input.environment.cpus) && waited > SHARE_MAX).then(|| {
        Note::new(Finding::WaitedForCpu { waited_share: Share(waited) }, vec![Advice::StopOthers {}])
    })
}

#[cfg(test)]
mod tests {
    use model::Limiter;
    use model::run::{Confidence, CpuShares, DeviceUse, PhaseRecord, Trust};

    use super::*;
    use crate::fixtures::{InputBuilder, clean, client};

    fn foreign_io() -> Note {
        Note::new(Finding::ForeignIo { foreign_share: Share(0.5), device: "vda".into() }, Vec::new())
    }

    fn moved_for_others() -> Note {
        Note::new(Finding::DeviceMovedForOthers { ratio: model::figure::Ratio(2.0) }, Vec::new())
    }

    /// Judges the sum of these clients, which have these notes, after a change.
    fn judge_sum(names: [&str; 2], notes: &[Note], change: impl FnOnce(&mut InputBuilder)) -> PhaseRecord {
        let mut world = clean("read:rnd4k:q4");
        let seen = world.record.seen.clone();
        let shares = names.map(|name| {
            let mut share = client(name, 100.0, Limiter::DeviceOps, Confidence::Likely);
            share.judged.notes = notes.to_vec();
            share
        });
        world.clients(shares.to_vec(), None);
        if machine_of(names[0]) == machine_of(names[1]) {
            world.record.seen = seen;
        }
        change(&mut world);
        world.judged_record()
    }

    fn doubts(record: &PhaseRecord) -> (Trust, Vec<String>) {
        let verdict = record.judged.verdict.clone().unwrap();
        (verdict.trust, verdict.trust_reasons)
    }

    fn suspect(code: &str) -> (Trust, Vec<String>) {
        (Trust::Suspect, vec![code.to_owned()])
    }

    const ONE: [&str; 2] = ["local#1", "local#2"];
    const APART: [&str; 2] = ["ada", "bob"];

    #[test]
    fn cpu_contention_makes_totals_suspect() {
        let waits = |world: &mut InputBuilder| {
            world.budget().run_queue = 0.5;
            world.record.seen.cpu = Some(CpuShares { user: 0.9, kernel: 0.1, steal: 0.0 });
        };
        assert_eq!(doubts(&judge_sum(ONE, &[], |_| ())), (Trust::Ok, Vec::new()));
        assert_eq!(doubts(&judge_sum(ONE, &[], waits)), suspect("cpu_contention"));
        // More threads than CPUs wait for each other, unless others use these.
        let many = |world: &mut InputBuilder| {
            world.environment.cpus = 1;
            world.environment.cpus_online = 1;
            world.record.seen.cpu = Some(CpuShares { user: 0.0, kernel: 0.0, steal: 0.0 });
            world.budget().run_queue = 0.5;
        };
        assert_eq!(doubts(&judge_sum(ONE, &[], many)), (Trust::Ok, Vec::new()));
        let note = Note::new(Finding::WaitedForCpu { waited_share: Share(0.5) }, Vec::new());
        assert_eq!(doubts(&judge_sum(APART, &[note], |_| ())), suspect("cpu_contention"));
    }

    #[test]
    fn clients_on_the_same_machine_are_not_foreign() {
        let notes = [foreign_io(), moved_for_others()];
        let record = judge_sum(ONE, &notes, |_| ());
        assert_eq!(doubts(&record), (Trust::Ok, Vec::new()));
        for share in &record.hosts {
            assert!(share.judged.notes.is_empty(), "{:?}", share.judged.notes);
            assert_eq!(share.judged.verdict.as_ref().unwrap().trust, Trust::Ok);
        }
        // On separate machines, no other client can be the cause.
        let (trust, reasons) = doubts(&judge_sum(APART, &notes, |_| ()));
        assert_eq!((trust, reasons.len()), (Trust::Suspect, 2));
        // Bytes of the device that no client has moved are foreign.
        let foreign = judge_sum(ONE, &notes, |world| {
            let device: &mut DeviceUse = world.device();
            device.foreign_share = Some(0.3);
        });
        assert_eq!(doubts(&foreign), suspect("foreign_io"));
    }

    #[test]
    fn overlong_latency_makes_totals_suspect() {
        let long = |world: &mut InputBuilder| world.latency().max = u64::MAX;
        assert_eq!(doubts(&judge_sum(ONE, &[], long)), suspect("latency_too_long"));
    }

    #[test]
    fn run_queue_wait_on_shared_machine_is_cpu_contention() {
        let mut world = clean("read:rnd4k:q4");
        let mut shares =
            ["ada#1", "ada#2", "bob"].map(|name| client(name, 100.0, Limiter::DeviceOps, Confidence::Likely));
        shares[..2].iter_mut().for_each(|share| share.budget.as_mut().unwrap().run_queue = 0.4);
        world.clients(shares.to_vec(), None);
        assert_eq!(doubts(&world.judged_record()), suspect("cpu_contention"));
    }
}
