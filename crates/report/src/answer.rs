//! The answer that a run gives, in a sentence or two: what limits, whether data was as written, and how many rows are
//! marked.

use model::Limiter;
use model::run::{Mark, PhaseRecord, Run, Trust};
use model::target::Backing;

use crate::text::{Kind, compared_all, is_of_device, limiter_of, mark, missing_reason, partial, parts};

/// "The device is the limit in 5 of 7 data tests.", or what is true instead.
pub(crate) fn of_run(run: &Run) -> String {
    let measured: Vec<_> = run.phases.iter().filter(|phase| missing_reason(phase).is_none()).collect();
    let mut sentences = Vec::new();
    match run.environment.target.backing {
        Backing::Simulated => {
            sentences
                .push("The device is simulated: these numbers are arithmetic, and are not saved.".to_owned());
        }
        _ if measured.is_empty() => sentences.push("Nothing was measured.".to_owned()),
        Backing::Memory => {
            sentences.push("The target is memory, so these are no numbers of storage.".to_owned());
        }
        _ => sentences.push(limits(&measured, run.environment.cpus)),
    }
    sentences.extend(compared_all(&run.phases).map(|is_right| match is_right {
        true => "All that was read back was as written.".to_owned(),
        false => "What was read back is not what was written: see below.".to_owned(),
    }));
    let marked = run.phases.iter().filter(|phase| mark(phase) != Mark::Remark).count();
    match (marked, run.phases.len()) {
        (0, _) => {}
        (1, 1) => sentences.push("Its number is marked: see below.".to_owned()),
        (2, 2) => sentences.push("Both numbers are marked: see below.".to_owned()),
        (marked, all) if marked == all => sentences.push(format!("All {all} rows are marked: see below.")),
        (1, _) => sentences.push("One row is marked: see below.".to_owned()),
        (marked, _) => sentences.push(format!("{marked} rows are marked: see below.")),
    }
    sentences.extend(partial(run).map(|rest| format!("The run was ended early: {rest}.")));
    sentences.join(" ")
}

/// The trust that a row deserves; that of its mark in documents of older versions.
pub(crate) fn trust(phase: &PhaseRecord) -> Trust {
    match &phase.verdict {
        Some(verdict) => verdict.trust,
        None if mark(phase) == Mark::Suspect => Trust::Suspect,
        None => Trust::Ok,
    }
}

/// How many tests on data the device limits, and what limits those on files.
fn limits(measured: &[&PhaseRecord], cpus: u32) -> String {
    let of_kind = |kind: Kind| -> Vec<&PhaseRecord> {
        measured.iter().copied().filter(|phase| Kind::of(phase) == kind).collect()
    };
    let [data, files] = [Kind::Data, Kind::Files].map(of_kind);
    let files = Limits::of(&files, "file");
    if data.is_empty() {
        return match files.most() {
            None => files.not_clear(),
            Some((limiter, count)) => {
                let (name, verb) = named(limiter, cpus);
                format!("{} {verb} the limit in {}.", capitalised(&name), files.counted(count))
            }
        };
    }
    let data = Limits::of(&data, "data");
    let of_device = data.known.iter().filter(|limiter| is_of_device(**limiter)).count();
    let mut answer = match data.most() {
        None => data.not_clear().trim_end_matches('.').to_owned(),
        Some(_) if of_device > 0 => format!("The device is the limit in {}", data.counted(of_device)),
        Some((limiter, _)) if data.all == 1 => {
            format!(
                "The device is not the limit in the one data test: {} {}",
                named(limiter, cpus).0,
                named(limiter, cpus).1
            )
        }
        Some((limiter, count)) => {
            let (name, verb) = named(limiter, cpus);
            format!("The device is the limit in {}; most often {name} {verb} ({count})", data.counted(0))
        }
    };
    if let Some((limiter, count)) = files.most() {
        answer.push_str(&format!(", and {} in {}", named(limiter, cpus).0, files.counted(count)));
    }
    format!("{answer}.")
}

/// Limiters of the tests of a kind. What nobody knows has no limiter here.
struct Limits {
    known: Vec<Limiter>,
    all: usize,
    kind: &'static str,
}

impl Limits {
    fn of(tests: &[&PhaseRecord], kind: &'static str) -> Self {
        let known = tests.iter().filter(|phase| trust(phase) != Trust::Invalid);
        let known = known.filter_map(|phase| {
            let (limiter, _) = limiter_of(phase)?;
            let parts = parts(phase);
            // Two limits of the device are the device's.
            let is_device =
                limiter == Limiter::Mixed && !parts.is_empty() && parts.iter().copied().all(is_of_device);
            Some(if is_device { parts[0] } else { limiter })
        });
        let known = known.filter(|limiter| *limiter != Limiter::NotClear);
        Self { known: known.collect(), all: tests.len(), kind }
    }

    /// The one that limits most of them, by the words that name it, and how many.
    fn most(&self) -> Option<(Limiter, usize)> {
        let count = |limiter: &Limiter| {
            self.known.iter().filter(|other| named(**other, 2) == named(*limiter, 2)).count()
        };
        let counted = self.known.iter().map(|limiter| (*limiter, count(limiter)));
        // The first of several that limit as many.
        counted.rev().max_by_key(|(_, count)| *count)
    }

    fn counted(&self, count: usize) -> String {
        let Self { all, kind, .. } = self;
        match count {
            _ if count == *all && count == 1 => format!("the one {kind} test"),
            count if count == *all => format!("all {all} {kind} tests"),
            0 => format!("none of {all} {kind} tests"),
            count => format!("{count} of {all} {kind} tests"),
        }
    }

    fn not_clear(&self) -> String {
        match self.all {
            1 => format!("What limited the one {} test is not clear.", self.kind),
            all => format!("What limited the {all} {} tests is not clear.", self.kind),
        }
    }
}

/// The subject of a sentence about a limiter, and its verb.
fn named(limiter: Limiter, cpus: u32) -> (String, &'static str) {
    match limiter {
        Limiter::ClientCpu | Limiter::KernelCpu | Limiter::CpuSaturated if cpus == 1 => {
            ("the CPU".into(), "is")
        }
        Limiter::ClientCpu | Limiter::KernelCpu | Limiter::CpuSaturated => {
            (format!("the {cpus} CPUs"), "are")
        }
        Limiter::PageCache | Limiter::PageCacheAbsorbed | Limiter::MetadataCache => ("memory".into(), "is"),
        limiter if is_of_device(limiter) => ("the device".into(), "is"),
        limiter => (limiter.title().to_owned(), "is"),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}
