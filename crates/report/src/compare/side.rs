//! One side of a comparison: the results of one or more runs, by test.

use model::Run;
use model::comparison::{Measure, SideResult};
use model::run::{Confidence, Pairing, PhaseRecord, Status, Trust, WorkloadRecord};
use model::workload::Access;

use super::facts::{self, Fact, Facts};
use crate::text::Kind;
use crate::work::Work;

/// Width of a histogram bucket with two significant digits, as a share of its value: the resolution of latencies.
const BUCKET: f64 = 1.0 / 128.0;

/// One side: its name, and the results of its runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Name of the side.
    pub name: String,
    /// Names of its documents.
    pub files: Vec<String>,
    /// Start of its earliest run: RFC 3339, UTC; `None` if no document has it.
    pub started_at: Option<String>,
    pub(super) facts: Facts,
    pub(super) tests: Vec<Test>,
    /// Pairing with the side that was measured in turns with it, if the side is a single run.
    pub(super) pairing: Option<Pairing>,
    /// True if one of its runs was ended early.
    pub(super) is_partial: bool,
    /// Targets of its runs, each once: host and path.
    pub(super) targets: Vec<String>,
    /// Tests that gave no number in some runs.
    pub(super) missing_results: Vec<MissingResult>,
}

/// One test of a side: a value for each run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Test {
    pub key: Key,
    pub name: String,
    pub label: String,
    /// The value of each run.
    pub values: Vec<Value>,
    /// Resolution of the coarsest of these values, as a share.
    pub resolution: f64,
    /// The interval within the only run, if there is just one.
    pub run_interval: Option<(f64, f64)>,
    /// The work of the test, if more is known than its spec.
    pub workload: Option<WorkloadRecord>,
    /// The work in its first run, and the first different work of another, in words.
    pub work: Option<Work>,
    pub other_work: Option<[String; 2]>,
    /// Engine that issued the operations, with its features.
    pub engine: Option<Vec<String>>,
    pub limiters: Vec<(Option<model::Limiter>, Option<Confidence>)>,
    pub trust: Option<Trust>,
    pub trust_reasons: Vec<String>,
}

/// A test that gave no number in some runs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MissingResult {
    pub test: String,
    /// Number of these runs.
    pub runs: u32,
    /// Reason in the first of these runs.
    pub reason: String,
}

/// Result of one run of a test. A test that is twice in a list is still one run: its value is the geometric mean of
/// both.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Value {
    /// Index of the document within the side, and repetition within the document.
    pub run: (usize, u32),
    pub value: f64,
    /// Number of values in the mean.
    of: u32,
}

/// Key that is the same for the same test on two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub spec: String,
    pub measure: Measure,
    /// Clients that made it together. Tests of a sweep over clients have one SPEC.
    pub clients: u32,
}

/// A rate that another program measured: the test in its words, and the rate per second.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRate {
    /// The test, in the words of the program.
    pub test: String,
    /// Bytes or operations per second.
    pub per_second: f64,
    /// True if the rate counts bytes.
    pub is_bytes: bool,
}

impl Side {
    /// Makes a side of runs with the names of their files. Repetitions count as runs, because each has fresh files.
    pub fn from_runs(name: String, runs: &[(String, Run)]) -> Self {
        let mut side = Self::empty(name);
        for (document, (file, run)) in runs.iter().enumerate() {
            if !file.is_empty() {
                side.files.push(file.clone());
            }
            // Times of this form sort as text.
            let first = side.started_at.take().filter(|known| *known <= run.started_at);
            side.started_at = first.or_else(|| Some(run.started_at.clone()));
            side.facts.add(facts::from_run(run));
            let target = format!("{}: {}", run.environment.host, run.environment.target.path);
            if !side.targets.contains(&target) {
                side.targets.push(target);
            }
            side.is_partial |= run.run_status == model::run::RunStatus::Partial;
            let size_is_fixed = run.plan.dataset.as_ref().is_some_and(|dataset| dataset.size_is_fixed);
            run.phases.iter().for_each(|phase| side.add_phase(document, phase, size_is_fixed));
        }
        side.pairing = match runs {
            [(_, run)] => run.pairing.clone(),
            _ => None,
        };
        side
    }

    /// Makes a side of the phases so far of a run that is measured in turns with another.
    pub fn from_phases(name: String, phases: &[PhaseRecord], pairing: Pairing) -> Self {
        let mut side = Self { pairing: Some(pairing), ..Self::empty(name) };
        phases.iter().for_each(|phase| side.add_phase(0, phase, false));
        side
    }

    /// Makes a side of results of another program, given by its name and version. Each run has a label and its rates.
    /// The label is the machine's or the user's name, or empty.
    pub fn from_foreign_runs(
        name: String,
        file: String,
        program: &str,
        runs: &[(String, Vec<ForeignRate>)],
    ) -> Self {
        let mut side = Self { files: vec![file], ..Self::empty(name) };
        for (document, (label, rates)) in runs.iter().enumerate() {
            side.facts.add([Fact::notable("program", program.to_owned())].into());
            if !label.is_empty() {
                side.facts.add([Fact::notable("name", label.clone())].into());
            }
            for rate in rates {
                let measure = if rate.is_bytes { Measure::BytesPerSecond } else { Measure::OpsPerSecond };
                let key = Key { spec: rate.test.clone(), measure, clients: 1 };
                side.add(key, &rate.test, "", (document, 1), rate.per_second);
            }
        }
        side
    }

    fn empty(name: String) -> Self {
        Self {
            name,
            files: Vec::new(),
            started_at: None,
            facts: Facts::default(),
            tests: Vec::new(),
            pairing: None,
            is_partial: false,
            targets: Vec::new(),
            missing_results: Vec::new(),
        }
    }

    /// Returns the highest number of runs of any test.
    pub(super) fn runs(&self) -> usize {
        self.tests.iter().map(|test| test.values.len()).max().unwrap_or_default()
    }

    fn test(&mut self, key: Key, name: &str, label: &str) -> &mut Test {
        let at = self.tests.iter().position(|test| test.key == key).unwrap_or_else(|| {
            self.tests.push(Test {
                key,
                name: name.to_owned(),
                label: label.to_owned(),
                values: Vec::new(),
                resolution: 0.0,
                run_interval: None,
                workload: None,
                work: None,
                other_work: None,
                engine: None,
                limiters: Vec::new(),
                trust: None,
                trust_reasons: Vec::new(),
            });
            self.tests.len() - 1
        });
        &mut self.tests[at]
    }

    /// Adds a value to a test, and returns the test; `None` if the value cannot be compared.
    fn add(&mut self, key: Key, name: &str, label: &str, run: (usize, u32), value: f64) -> Option<&mut Test> {
        if !(value.is_finite() && value > 0.0) {
            self.add_missing(format!("{name} {label}").trim_end(), "it has no rate above 0");
            return None;
        }
        let test = self.test(key, name, label);
        match test.values.iter_mut().find(|known| known.run == run) {
            Some(known) => {
                let of = f64::from(known.of);
                known.value = ((known.value.ln() * of + value.ln()) / (of + 1.0)).exp();
                known.of += 1;
            }
            None => test.values.push(Value { run, value, of: 1 }),
        }
        Some(test)
    }

    fn add_missing(&mut self, test: &str, reason: &str) {
        match self.missing_results.iter_mut().find(|known| known.test == test) {
            Some(known) => known.runs += 1,
            None => self.missing_results.push(MissingResult {
                test: test.to_owned(),
                runs: 1,
                reason: reason.to_owned(),
            }),
        }
    }

    fn add_phase(&mut self, document: usize, phase: &PhaseRecord, size_is_fixed: bool) {
        if !is_measured(phase) {
            let reason = phase.reason.as_deref().unwrap_or("it was ended early");
            self.add_missing(&format!("{} {}", phase.name, phase.label), reason);
            return;
        }
        let run = (document, phase.repetition);
        let work = Work::from_phase(phase, size_is_fixed);
        let is_in_bytes =
            phase.workload.pattern == Some(Access::Sequential) && Kind::from_phase(phase) == Kind::Data;
        let rate = &phase.figures.rate;
        let ends = rate.ci95_low_ops_per_second.zip(rate.ci95_high_ops_per_second);
        let (measure, value, run_interval) = match rate.bytes_per_second.filter(|_| is_in_bytes) {
            Some(bytes) => {
                let per_op = rate.ops_per_second.map(|ops| bytes / ops);
                let ends = ends.zip(per_op).map(|((low, high), bytes)| (low * bytes, high * bytes));
                (Measure::BytesPerSecond, Some(bytes), ends)
            }
            None => (Measure::OpsPerSecond, rate.ops_per_second, ends),
        };
        if let Some(value) = value {
            self.add_value(run, phase, &work, measure, value, run_interval);
        }
        let latency = phase.figures.latency_ns.as_ref();
        if let Some(p99) = latency.and_then(|latency| latency.p99) {
            let ends = latency.and_then(|latency| latency.ci95.as_ref()?.p99.as_ref());
            let run_interval = ends.map(|ends| (ends.low as f64, ends.high as f64));
            self.add_value(run, phase, &work, Measure::P99Ns, p99 as f64, run_interval);
        }
    }

    fn add_value(
        &mut self,
        run: (usize, u32),
        phase: &PhaseRecord,
        work: &Work,
        measure: Measure,
        value: f64,
        run_interval: Option<(f64, f64)>,
    ) {
        let key = Key { spec: phase.spec.clone(), measure, clients: work.clients };
        let Some(test) = self.add(key, &phase.name, &phase.label, run, value) else { return };
        // The window of a rate begins and ends with an operation; one more or less is chance.
        let counted = if measure.is_rate() { 1.0 / phase.counts.ops.max(1) as f64 } else { BUCKET };
        test.resolution = test.resolution.max(counted);
        test.run_interval = run_interval.filter(|_| test.values.len() == 1);
        test.workload.get_or_insert_with(|| phase.workload.clone());
        if let Some(difference) = test.work.get_or_insert_with(|| work.clone()).difference(work) {
            test.other_work.get_or_insert(difference);
        }
        let mut features = phase.engine.features.clone();
        features.sort();
        features.insert(0, phase.engine.name.clone());
        test.engine.get_or_insert(features);
        if let Some(verdict) = &phase.judged.verdict {
            test.limiters.push((verdict.limiter, verdict.confidence));
            test.trust = test.trust.max(Some(verdict.trust));
            for reason in &verdict.trust_reasons {
                if !test.trust_reasons.contains(reason) {
                    test.trust_reasons.push(reason.clone());
                }
            }
        }
    }
}

/// Returns true if a phase's number represents its test. A phase that was not done as planned measured something else.
pub(super) fn is_measured(phase: &PhaseRecord) -> bool {
    phase.status == Status::Done
}

impl Test {
    /// Returns the result of all runs; `None` if no run has a value.
    pub fn measured(&self) -> Option<SideResult> {
        let values: Vec<_> = self.values.iter().map(|value| value.value).collect();
        let (mean, ends) = stats::centre(&values)?;
        let ends = ends.map(|ends| (ends.low, ends.high)).or(self.run_interval);
        let known = |limiter: &Option<model::Limiter>| {
            self.limiters.iter().filter(|(other, _)| other == limiter).count()
        };
        // Reversed, so that the first of equally frequent limiters wins.
        let most = self.limiters.iter().rev().max_by_key(|(limiter, _)| known(limiter));
        let limiter = most.and_then(|(limiter, _)| *limiter);
        let least_sure = self.limiters.iter().filter(|(other, _)| *other == limiter);
        Some(SideResult {
            values,
            mean,
            ci95_low: ends.map(|(low, _)| low),
            ci95_high: ends.map(|(_, high)| high),
            limiter,
            confidence: least_sure.filter_map(|(_, confidence)| *confidence).min(),
            trust: self.trust,
        })
    }

    /// Returns the test with only those of its runs that the other has, too.
    pub fn paired_with(&self, other: &Self) -> Self {
        let has = |run| other.values.iter().any(|value| value.run == run);
        let values = self.values.iter().filter(|value| has(value.run)).cloned().collect();
        Self { values, ..self.clone() }
    }

    /// "read 1M q8"
    pub fn subject(&self) -> String {
        format!("{} {}", self.name, self.label).trim_end().to_owned()
    }
}
