//! The answer of a run in a few sentences: the limiter, the result of verification, the number of marked rows.

use model::Limiter;
use model::run::{Confidence, Mark, PhaseRecord, Run, Trust};
use model::target::Backing;

use crate::text::{Compared, Kind, has_knee_note, is_knee, limiter_of, mark, missing_reason, partial, parts};

/// Answers for a run: "The device is the limit in 5 of 7 data tests.", or the true statement instead.
pub(crate) fn from_run(run: &Run) -> String {
    let measured: Vec<_> = run.phases.iter().filter(|phase| missing_reason(phase).is_none()).collect();
    let mut sentences = knees(run);
    match run.environment.target.backing {
        Backing::Simulated => {
            sentences
                .push("The device is simulated: the numbers are computed, and are not saved.".to_owned());
        }
        _ if measured.is_empty() => sentences.push("Nothing was measured.".to_owned()),
        Backing::Memory => {
            sentences.push("The target is in memory: this is not the speed of storage.".to_owned());
        }
        _ => sentences.push(limits(&measured)),
    }
    sentences.extend(Compared::count(&run.phases).map(|compared| match compared.has_damage {
        false => format!("{} compared, none differs.", capitalised(&compared.share())),
        true => "Data read differs from data written: see below.".to_owned(),
    }));
    let marked = run.phases.iter().filter(|phase| mark(phase) != Mark::Remark).count();
    match (marked, run.phases.len()) {
        (0, _) if measured.is_empty() || run.environment.target.backing == Backing::Simulated => {}
        (0, _) if run.environment.target.backing == Backing::Unknown => {
            let cause = "the devices are unknown, and a cache may have served reads";
            sentences.push(format!("No row is marked, but {cause}."));
        }
        (0, _) => sentences.push("No row is marked.".to_owned()),
        (1, 1) => sentences.push("Its number is marked: see below.".to_owned()),
        (2, 2) => sentences.push("Both numbers are marked: see below.".to_owned()),
        (marked, all) if marked == all => sentences.push(format!("All {all} rows are marked: see below.")),
        (1, _) => sentences.push("One row is marked: see below.".to_owned()),
        (marked, _) => sentences.push(format!("{marked} rows are marked: see below.")),
    }
    sentences.extend(interval_alone(run));
    sentences.extend(partial(run).map(|rest| format!("The run was ended early: {rest}.")));
    sentences.join(" ")
}

/// Most sweeps whose knees are shown.
const KNEES_MAX: usize = 3;

/// Shows the knee of each sweep, or its last point if it has none. Repetitions may differ in it, and the page shows where.
fn knees(run: &Run) -> Vec<String> {
    if run.plan.sweep.is_none() || run.plan.repetitions > 1 {
        return Vec::new();
    }
    let points = run.phases.iter().enumerate().filter(|(_, phase)| has_knee_note(phase));
    let name = |phase: &PhaseRecord| crate::printable(&format!("{} {}", phase.name, phase.label));
    let sentence = |(index, phase): (usize, &PhaseRecord)| match is_knee(&run.phases, index) {
        true => format!("{} is the knee of its sweep.", name(phase)),
        false => format!("The sweep up to {} has no knee.", name(phase)),
    };
    points.map(sentence).take(KNEES_MAX).collect()
}

/// Says which rows have a ± that covers no repeats.
fn interval_alone(run: &Run) -> Option<String> {
    let is_real = run.environment.target.backing != Backing::Simulated;
    let has_interval = |phase: &&PhaseRecord| phase.figures.rate.printed_half_width().is_some();
    let with_interval: Vec<_> = run.phases.iter().filter(|_| is_real).filter(has_interval).collect();
    let is_alone = |phase: &&&PhaseRecord| phase.figures.rate.repeat_half_width.is_none();
    let alone: Vec<_> = with_interval.iter().filter(is_alone).collect();
    match alone.len() {
        0 => None,
        count if count == with_interval.len() => Some("± is of this run alone.".to_owned()),
        _ => {
            let names = alone.iter().map(|phase| format!("{} {}", phase.name, phase.label));
            let names = names.map(|name| crate::printable(&name)).collect::<Vec<_>>().join(", ");
            Some(format!("± of {names} is of this run alone."))
        }
    }
}

/// Returns the trust in a row. Rows of older versions have no verdict, so their mark decides.
pub(crate) fn trust(phase: &PhaseRecord) -> Trust {
    match &phase.judged.verdict {
        Some(verdict) => verdict.trust,
        None if mark(phase) == Mark::Suspect => Trust::Suspect,
        None => Trust::Ok,
    }
}

/// Says how many data tests the device limits, and what limits the file tests.
fn limits(measured: &[&PhaseRecord]) -> String {
    let of_kind = |kind: Kind| -> Vec<&PhaseRecord> {
        measured.iter().copied().filter(|phase| Kind::from_phase(phase) == kind).collect()
    };
    let [data, files] = [Kind::Data, Kind::Files].map(of_kind);
    let files = Limits::new(&files, "file");
    if data.is_empty() {
        return files.sentence();
    }
    let data = Limits::new(&data, "data");
    // Clients may have separate devices, and none is that of the run.
    if measured.iter().any(|phase| !phase.hosts.is_empty()) {
        let files = (files.all > 0).then(|| files.sentence());
        return [data.sentence()].into_iter().chain(files).collect::<Vec<_>>().join(" ");
    }
    let device = data.count(subject(Limiter::DeviceBandwidth));
    let mut answer = match data.top_subject() {
        None => data.not_clear().trim_end_matches('.').to_owned(),
        Some(_) if device.count > 0 => {
            format!("The device {} the limit in {}", device.is(), data.count_text(device.count))
        }
        // The device may be one of the two.
        Some(top_subject) if top_subject.subject == TWO_LIMITS => {
            data.sentence().trim_end_matches('.').to_owned()
        }
        Some(top_subject) if data.all == 1 => {
            let (name, is) = (capitalised(top_subject.subject), top_subject.is());
            format!("{name}, not the device, {is} the limit in the one data test")
        }
        Some(top_subject) => {
            let (name, is) = (capitalised(top_subject.subject), top_subject.is());
            let device = if top_subject.count < data.all { ", the device in none" } else { "" };
            format!("{name} {is} the limit in {}{device}", data.count_text(top_subject.count))
        }
    };
    if let Some(top_subject) = files.top_subject() {
        // Said once, it goes for all of the sentence.
        let probably = if top_subject.is_sure || answer.contains("probably") { "" } else { "probably " };
        let is_same = device.count == 0
            && data.all == 1
            && data.top_subject().is_some_and(|of| of.subject == top_subject.subject);
        let subject = if is_same { "" } else { top_subject.subject };
        let words = [", and", probably.trim(), subject, "in"].into_iter().filter(|word| !word.is_empty());
        answer.push_str(&format!(
            "{} {}",
            words.collect::<Vec<_>>().join(" "),
            files.count_text(top_subject.count)
        ));
    }
    format!("{answer}.")
}

/// Limiters of the tests of a kind, and whether each is confirmed. Unknown limiters are left out.
struct Limits {
    known: Vec<(Limiter, bool)>,
    all: usize,
    kind: &'static str,
}

/// Tests that the same thing limits.
struct TopSubject {
    subject: &'static str,
    count: usize,
    /// True if it is confirmed in all of them.
    is_sure: bool,
}

impl TopSubject {
    fn is(&self) -> &'static str {
        if self.is_sure { "is" } else { "is probably" }
    }
}

impl Limits {
    fn new(tests: &[&PhaseRecord], kind: &'static str) -> Self {
        let known = tests.iter().filter(|phase| trust(phase) != Trust::Invalid);
        let known = known.filter_map(|phase| {
            let (limiter, confidence) = limiter_of(phase)?;
            let parts = parts(phase);
            // Two limits of the device are the device's.
            let is_one = |first: &Limiter| parts.iter().all(|part| subject(*part) == subject(*first));
            let one = parts.first().copied().filter(|first| limiter == Limiter::Mixed && is_one(first));
            Some((one.unwrap_or(limiter), confidence == Confidence::Confirmed))
        });
        let known = known.filter(|(limiter, _)| *limiter != Limiter::NotClear);
        Self { known: known.collect(), all: tests.len(), kind }
    }

    /// Counts the tests with that subject.
    fn count(&self, of: &'static str) -> TopSubject {
        let sure: Vec<bool> = self
            .known
            .iter()
            .filter(|(limiter, _)| subject(*limiter) == of)
            .map(|(_, is_sure)| *is_sure)
            .collect();
        TopSubject { subject: of, count: sure.len(), is_sure: sure.iter().all(|is_sure| *is_sure) }
    }

    /// The subject that limits most tests; the first of several that limit as many.
    fn top_subject(&self) -> Option<TopSubject> {
        let counted = self.known.iter().map(|(limiter, _)| self.count(subject(*limiter)));
        counted.rev().max_by_key(|top_subject| top_subject.count)
    }

    /// Says what limits most tests.
    fn sentence(&self) -> String {
        match self.top_subject() {
            None => self.not_clear(),
            Some(top_subject) => {
                let (name, count) = (capitalised(top_subject.subject), self.count_text(top_subject.count));
                match top_subject.subject {
                    TWO_LIMITS => format!("{name} probably hold back {count}."),
                    _ => format!("{name} {} the limit in {count}.", top_subject.is()),
                }
            }
        }
    }

    fn count_text(&self, count: usize) -> String {
        let Self { all, kind, .. } = self;
        match count {
            _ if count == *all && count == 1 => format!("the one {kind} test"),
            2 if *all == 2 => format!("both {kind} tests"),
            count if count == *all => format!("all {all} {kind} tests"),
            count => format!("{count} of {all} {kind} tests"),
        }
    }

    fn not_clear(&self) -> String {
        match self.all {
            1 => format!("The limit of the one {} test is not clear.", self.kind),
            all => format!("The limit of the {all} {} tests is not clear.", self.kind),
        }
    }
}

/// Subject of tests with two limits that have different subjects.
const TWO_LIMITS: &str = "two limits at once";

/// The subject of a sentence about a limiter. Limiters with the same subject are counted together.
fn subject(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::ClientCpu | Limiter::KernelCpu | Limiter::CpuSaturated => "CPU time",
        Limiter::PageCache | Limiter::PageCacheAbsorbed | Limiter::MetadataCache => "memory",
        Limiter::BelowClients => "the shared storage",
        Limiter::Mixed => TWO_LIMITS,
        limiter if limiter.is_of_device() => "the device",
        limiter => limiter.title(),
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}

#[cfg(test)]
mod tests {
    use model::run::Verdict;

    use super::*;
    use crate::sample;

    fn limited(spec: &str, limiter: Limiter, confidence: Confidence) -> PhaseRecord {
        let mut phase = sample::phase(spec);
        let verdict = Verdict { limiter: Some(limiter), confidence: Some(confidence), ..Verdict::default() };
        phase.judged.verdict = Some(verdict);
        phase
    }

    #[test]
    fn answer_counts_compared_blocks() {
        let mut run = sample::run();
        assert!(!from_run(&run).contains("compared"), "{}", from_run(&run));
        let counts = &mut run.phases[1].counts;
        (counts.verified_blocks, counts.app_bytes_read) = (97, 12_416 << 20);
        run.phases.retain(|phase| phase.counts.verified_blocks > 0);
        assert!(
            from_run(&run).contains(" 97 of 12,416 blocks compared, none differs."),
            "{}",
            from_run(&run)
        );
    }

    #[test]
    fn unknown_backing_warns_of_cache() {
        let mut run = sample::run();
        run.phases.truncate(1);
        run.phases[0].judged.notes.clear();
        assert!(from_run(&run).ends_with("No row is marked."), "{}", from_run(&run));
        run.environment.target.backing = Backing::Unknown;
        assert!(from_run(&run).ends_with("and a cache may have served reads."), "{}", from_run(&run));
    }

    #[test]
    fn open_limit_of_a_device_is_the_device() {
        let phase = limited("read:rnd4k:q4", Limiter::DeviceUndetermined, Confidence::Likely);
        assert_eq!(limits(&[&phase]), "The device is probably the limit in the one data test.");
    }

    #[test]
    fn two_limits_at_once_have_a_sentence() {
        let with = |parts: [Limiter; 2]| {
            let mut phase = sample::phase("fsync:rnd4k");
            phase.judged.verdict = Some(Verdict::mixed(parts.map(|limiter| (limiter, 0.4)), Vec::new()));
            phase.judged.verdict.as_mut().unwrap().confidence = Some(Confidence::Likely);
            phase
        };
        let apart = with([Limiter::DeviceLatency, Limiter::FsyncJournal]);
        assert_eq!(limits(&[&apart]), "Two limits at once probably hold back the one data test.");
        let cpu = with([Limiter::KernelCpu, Limiter::ClientCpu]);
        assert_eq!(limits(&[&cpu]), "CPU time, not the device, is probably the limit in the one data test.");
    }

    #[test]
    fn external_limiter_of_single_test_has_sentence() {
        let data = limited("read:rnd4k", Limiter::RemoteLatency, Confidence::Likely);
        let of = |rows: &[&PhaseRecord]| limits(rows);
        let begin = "Remote latency, not the device, is probably the limit in the one data test";
        assert_eq!(of(&[&data]), format!("{begin}."));
        let same = limited("create", Limiter::RemoteLatency, Confidence::Likely);
        assert_eq!(of(&[&data, &same]), format!("{begin}, and in the one file test."));
        let other = limited("create", Limiter::KernelCpu, Confidence::Confirmed);
        assert_eq!(of(&[&data, &other]), format!("{begin}, and CPU time in the one file test."));
        let mut sum = limited("read:rnd4k", Limiter::BelowClients, Confidence::Confirmed);
        sum.hosts = vec![sample::client("ada", &sum)];
        assert_eq!(of(&[&sum]), "The shared storage is the limit in the one data test.");
    }
}
