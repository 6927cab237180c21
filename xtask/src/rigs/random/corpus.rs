//! Measured stacks with their true bottlenecks, kept in the repository. As `judge` is pure, it judges them again in a
//! second.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use model::layer::{Layer, LayerKind};
use model::run::{PhaseRecord, Status};
use model::{Limiter, Run};
use serde::{Deserialize, Serialize};

use super::counters;
use super::grammar::Part;
use super::score::Answer;

/// One load on a stack.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    /// The stack in the words of a rig, and what runs beside it.
    pub stack: String,
    /// Its parts.
    pub parts: Vec<String>,
    /// The bottleneck that changes of the stack showed.
    pub bottleneck: String,
    /// True if a cache answered.
    pub is_answered: bool,
    /// Kinds of its layers from the top down, as far as its parts make them; empty if they were not recorded.
    #[serde(default)]
    pub layers: Vec<LayerKind>,
    /// Requests at the server of the rig; absent if it has none, or for the other loads on a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_server: Option<AtServer>,
    /// The run with the one test; what no judgement reads is left out.
    pub run: Run,
}

/// Requests at a server, by its log and as skye counts them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct AtServer {
    /// Mean number in flight: by the log, and as counted.
    pub in_flight: [f64; 2],
    /// Mean time of each: by the log, and as counted.
    pub request_ns: [f64; 2],
}

impl Row {
    /// Compares its record with the truth; `None` without a test, or with an unknown bottleneck.
    ///
    /// With `is_hidden`, a part of the run was removed.
    pub(super) fn answer(&self, is_hidden: bool) -> Option<Answer> {
        let parts = self.parts.iter().map(|word| Part::from_word(word)).collect::<Option<_>>()?;
        let bottleneck = Part::from_word(&self.bottleneck)?;
        let found = &self.run.environment.target.layers;
        let has_layers = (!self.layers.is_empty())
            .then(|| has_layers(found, &self.layers, self.stack.contains("unprivileged")));
        let phase = self.run.phases.first().filter(|phase| phase.status == Status::Done)?;
        let is_alone = !self.is_answered && !self.stack.contains("by others");
        let agreements = counters::compare(phase, found, has_layers, is_alone, self.at_server);
        // Where the layers below a device are hidden, its limit and theirs look the same, and so do their queues.
        let is_cut = |last: &Layer| last.kind == LayerKind::Device && last.hidden.is_some();
        let is_cut = is_hidden || found.last().is_some_and(is_cut);
        let is_held = bottleneck.is_limit() || bottleneck.is_queue();
        let mut coarser = Vec::new();
        if is_cut && is_held {
            coarser.extend([Limiter::DeviceOps, Limiter::DeviceBandwidth, Limiter::DeviceUndetermined]);
        }
        let right = bottleneck.right_limiters();
        let leaves_open = |one: &&Limiter| one.alternatives().iter().any(|open| right.contains(open));
        coarser.extend(Limiter::ALL.iter().filter(|one| is_hidden && leaves_open(one)));
        Some(Answer::new(parts, bottleneck, &coarser, self.is_answered, agreements, phase))
    }
}

/// Returns true if these layers are the first below each other. For a user without rights, they may end before, with a reason.
pub(super) fn has_layers(found: &[Layer], wanted: &[LayerKind], may_end: bool) -> bool {
    let mut layers = std::iter::successors(found.first(), |layer| found.get(*layer.below.first()? as usize));
    let mut last = None;
    for kind in wanted {
        match layers.next() {
            Some(layer) if layer.kind == *kind => last = Some(layer),
            Some(_) => return false,
            None => return may_end && last.is_some_and(|layer| layer.hidden.is_some()),
        }
    }
    true
}

/// Returns the run of one phase, without histograms and texts.
pub(super) fn cut(run: &Run, phase: &PhaseRecord) -> Run {
    let mut phase = phase.clone();
    phase.figures.histogram = None;
    phase.figures.steps.iter_mut().for_each(|step| step.histogram = None);
    phase.figures.intervals.iter_mut().for_each(|interval| interval.histogram.clear());
    phase.judged.notes.iter_mut().for_each(|note| note.text.clear());
    if let Some(verdict) = &mut phase.judged.verdict {
        (verdict.evidence, verdict.advice) = (None, None);
    }
    let mut run = run.clone();
    run.plan.phases.retain(|planned| phase.id.split('#').next() == Some(planned.id.as_str()));
    run.phases = vec![phase];
    run
}

fn path() -> PathBuf {
    crate::root().join("xtask/exam.jsonl.gz")
}

/// Reads all rows; there are none without the file.
///
/// # Errors
/// The file cannot be read, or a row is not valid.
pub(super) fn read() -> Result<Vec<Row>> {
    let path = path();
    let Ok(file) = File::open(&path) else { return Ok(Vec::new()) };
    let text =
        std::io::read_to_string(GzDecoder::new(file)).with_context(|| format!("read {}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("read {}", path.display())))
        .collect()
}

/// Adds the rows whose tests were made.
///
/// # Errors
/// The file cannot be read or written.
pub(super) fn add(rows: Vec<Row>) -> Result<()> {
    let path = path();
    let made = rows.into_iter().filter(|row| row.answer(false).is_some());
    let all = read()?.into_iter().chain(made);
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    for row in all {
        writeln!(packed, "{}", serde_json::to_string(&row)?)?;
    }
    // A kill in between must not lose the rows from before.
    let new = path.with_extension("new");
    fs::write(&new, packed.finish()?)
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("write {}", path.display()))
}
