//! Conclusions from experiments: the thresholds, and the comparison of a row's responses with them.
//!
//! A threshold is a band as wide as the response's 95 % interval. A response whose interval crosses the threshold is
//! open: the verdict becomes likely instead of another one.

use model::Experiment;
use model::figure::{Figure, Threshold};
use model::run::{PhaseRecord, Response, Sensitivity};

/// If the target is saturated, more depth multiplies the rate by less than this.
const SATURATED_GAIN: f64 = 1.10;
/// If the target is saturated, the upper end of that response's interval is below this. If it has headroom, the lower
/// end is above it.
const GAIN_BOUND: f64 = 1.15;
/// N operations that do not wait for each other reach at least this share of N times the rate of one. The bound is of Denning
/// and Buzen, "The Operational Analysis of Queueing Network Models", 1978.
const SCALING_MIN: f64 = 0.8;
/// Blocks of another size change the rate in the target's unit by less than this factor.
const UNIT_FACTOR_MAX: f64 = 1.15;
/// The upper end of that answer's interval is below this.
const UNIT_FACTOR_BOUND: f64 = 1.3;
/// If half the width of a response's interval is above this, the response alone is no evidence. For a change of depth
/// or block size, this is an exponent.
const UNSTEADY: f64 = 0.35;
/// If the baseline of an experiment differs from the row's rate by more than this factor, the target has changed.
const BASELINE_SHIFT_MAX: f64 = 1.15;

/// The thresholds that explanations name.
pub(crate) const THRESHOLDS: &[Threshold] = &[
    ("saturated_gain", Figure::Share(SATURATED_GAIN - 1.0)),
    ("gain_bound", Figure::Share(GAIN_BOUND - 1.0)),
    ("scaling_min", Figure::Share(SCALING_MIN)),
    ("same", Figure::Ratio(UNIT_FACTOR_MAX)),
    ("same_bound", Figure::Ratio(UNIT_FACTOR_BOUND)),
    ("unsteady", Figure::Ratio(UNSTEADY)),
    ("moved", Figure::Share(BASELINE_SHIFT_MAX - 1.0)),
];

/// A demand on an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Criterion {
    /// The answer is below `value`, and all of its interval below `bound`.
    Below { value: f64, bound: f64 },
    /// All of its interval is above this.
    Above(f64),
}

/// Position of an answer relative to a demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThresholdCheck {
    Met,
    Open,
    /// All of its interval is on the other side.
    Missed,
}

/// State of the target at the requested depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// The target gives all that it can.
    Saturated,
    /// The target could serve more at once.
    Headroom,
    /// Between saturated and headroom: more depth brings a gain, but not clearly.
    Between,
}

/// A unit that a saturated target counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Operations,
    /// Neither stays the same: larger blocks move more bytes and make fewer operations.
    Both,
}

/// A saturated target gives a factor of this more rate for a larger depth.
const SATURATED: Criterion = Criterion::Below { value: SATURATED_GAIN, bound: GAIN_BOUND };

/// Threshold for the factor by which another block size changes the rate in the target's unit, up or down.
const UNIT: Criterion = Criterion::Below { value: UNIT_FACTOR_MAX, bound: UNIT_FACTOR_BOUND };

/// A response in the unit of its column, with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ResponseEstimate {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl ResponseEstimate {
    fn place(&self, criterion: Criterion) -> ThresholdCheck {
        let (is_met, is_missed) = match criterion {
            Criterion::Below { value, bound } => (self.value < value && self.high < bound, self.low > bound),
            Criterion::Above(bound) => (self.low > bound, self.high < bound),
        };
        match (is_met, is_missed) {
            (true, _) => ThresholdCheck::Met,
            (false, true) => ThresholdCheck::Missed,
            (false, false) => ThresholdCheck::Open,
        }
    }

    /// Returns the state that shows if this is the factor of the rate with more depth. With headroom, it is above `room`.
    fn load(&self, room: f64) -> Option<Load> {
        let is = |criterion| self.place(criterion) == ThresholdCheck::Met;
        let states = [(Load::Saturated, SATURATED), (Load::Headroom, Criterion::Above(room))];
        states.into_iter().find(|(_, criterion)| is(*criterion)).map(|(load, _)| load)
    }
}

/// Reason why a response is no evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExclusionReason {
    /// Its interval is too wide.
    Unsteady,
    /// No single limit can cause such a response.
    Impossible,
    /// The baseline differs from the row's rate.
    BaselineShifted,
}

/// Load of a target, as experiments show it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoadEstimate {
    /// No experiment was made, or none showed a load.
    Untested,
    /// The answers show a load.
    Known {
        load: Load,
        /// True if more depth shows the load.
        is_sure: bool,
        /// Experiments whose answers clearly contradict the load.
        contradicting: Vec<Experiment>,
    },
}

impl LoadEstimate {
    pub fn is(&self, wanted: Load) -> bool {
        matches!(self, Self::Known { load, .. } if *load == wanted)
    }
}

/// The answers to the experiments on a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExperimentResults<'a> {
    known: Option<&'a Sensitivity>,
    /// The row's own rate, and half the width of its interval as a share of the rate.
    own: Option<(f64, f64)>,
    /// Operations in flight.
    in_flight: f64,
}

impl<'a> ExperimentResults<'a> {
    pub fn new(known: Option<&'a Sensitivity>, own: Option<(f64, f64)>, in_flight: f64) -> Self {
        Self { known, own, in_flight }
    }

    /// Returns every answer with its flaw, the most decisive answers first.
    pub fn all(&self) -> Vec<(Experiment, &'a Response, Option<ExclusionReason>)> {
        let Some(known) = self.known else { return Vec::new() };
        let made = Experiment::ALL
            .iter()
            .filter_map(|experiment| Some((*experiment, known.response_to(*experiment)?)));
        made.map(|(experiment, response)| (experiment, response, self.flaw(experiment, response))).collect()
    }

    /// Returns half the width of an answer's 95 % interval. Runs of an experiment follow each other, so they miss
    /// changes that are slower than they are. The spread of the rates without any change, from one experiment to the
    /// next, shows such changes.
    fn half_width(&self, experiment: Experiment, response: &Response) -> Option<f64> {
        let half = response.half_width.filter(|half| (half + response.value).is_finite())?;
        let is_power = experiment != Experiment::Separate;
        let slow = if is_power { self.spread() / f64::from(model::experiment::FACTOR).ln() } else { 0.0 };
        Some(half.hypot(slow))
    }

    /// Standard deviation of the logarithms of the row's own rate and of the rates without a change; 0 for fewer than
    /// three.
    fn spread(&self) -> f64 {
        let Some(known) = self.known else { return 0.0 };
        let before = [&known.depth, &known.block, &known.single].into_iter().flatten();
        let before = before.map(|response| response.before_ops_per_second);
        let rates: Vec<f64> = before.chain(self.own.map(|(own, _)| own)).filter(|rate| *rate > 0.0).collect();
        if rates.len() < 3 {
            return 0.0;
        }
        let mean = rates.iter().map(|rate| rate.ln()).sum::<f64>() / rates.len() as f64;
        let squares: f64 = rates.iter().map(|rate| (rate.ln() - mean).powi(2)).sum();
        (squares / (rates.len() - 1) as f64).sqrt()
    }

    fn flaw(&self, experiment: Experiment, response: &Response) -> Option<ExclusionReason> {
        let Some(half) = self.half_width(experiment, response) else {
            return Some(ExclusionReason::Unsteady);
        };
        let (value, low, high) = (response.value, response.value - half, response.value + half);
        let beyond = UNIT_FACTOR_MAX.ln() / f64::from(model::experiment::FACTOR).ln();
        let possible = match experiment {
            // More operations at once may get in each other's way. At best, the rate grows as much as the depth.
            Experiment::Depth | Experiment::Single => -1.0 - beyond..=1.0 + beyond,
            // Larger blocks bring no more operations per second, and no fewer bytes.
            Experiment::Block => -1.0 - beyond..=beyond,
            Experiment::Separate => f64::NEG_INFINITY..=f64::INFINITY,
        };
        // A wide interval makes such an answer no more possible.
        if !possible.contains(&value) {
            return Some(ExclusionReason::Impossible);
        }
        if self.has_baseline_shifted(response) {
            return Some(ExclusionReason::BaselineShifted);
        }
        let estimate = ResponseEstimate { value, low, high };
        let is_decided = match experiment {
            Experiment::Depth => exponential(estimate).load(GAIN_BOUND).is_some(),
            Experiment::Single => self.single_load(estimate).is_some(),
            Experiment::Block => false,
            Experiment::Separate => low > 1.0,
        };
        // A gain whose interval includes 1 is no evidence.
        let gain = exponential(estimate);
        let is_anything = experiment == Experiment::Depth && gain.value > SATURATED_GAIN && gain.low < 1.0;
        ((half > UNSTEADY && !is_decided) || is_anything).then_some(ExclusionReason::Unsteady)
    }

    /// Returns true if the experiment's baseline differs from the row's rate by more than `BASELINE_SHIFT_MAX`, beyond the row's
    /// interval.
    fn has_baseline_shifted(&self, response: &Response) -> bool {
        self.own.is_some_and(|(own, half_width)| {
            (response.before_ops_per_second / own).ln().abs() - half_width > BASELINE_SHIFT_MAX.ln()
        })
    }

    /// Returns true if an experiment was excluded because its baseline had shifted or its interval was too wide.
    pub fn is_inconclusive(&self) -> bool {
        self.all().iter().any(|(_, _, flaw)| {
            matches!(flaw, Some(ExclusionReason::BaselineShifted | ExclusionReason::Unsteady))
        })
    }

    /// Returns the response of an experiment, if it is evidence.
    fn estimate(&self, experiment: Experiment) -> Option<ResponseEstimate> {
        let (_, response, _) =
            self.all().into_iter().find(|(made, _, flaw)| *made == experiment && flaw.is_none())?;
        let half = self.half_width(experiment, response)?;
        Some(ResponseEstimate {
            value: response.value,
            low: response.value - half,
            high: response.value + half,
        })
    }

    /// Factor of the rate with four times the depth.
    pub fn gain(&self) -> Option<ResponseEstimate> {
        self.estimate(Experiment::Depth).map(exponential)
    }

    /// Returns the load that a single operation shows: the rate with all operations over its own.
    fn single_load(&self, exponent: ResponseEstimate) -> Option<Load> {
        power(exponent, self.in_flight).load(SCALING_MIN * self.in_flight)
    }

    /// Factor of the rate with a file or directory for each thread.
    pub fn separate(&self) -> Option<ResponseEstimate> {
        self.estimate(Experiment::Separate)
    }

    /// Returns the unit that the target counts, by the answer to blocks of another size, and true if the unit is sure.
    pub fn unit(&self) -> Option<(Unit, bool)> {
        let estimate = self.estimate(Experiment::Block)?;
        let off = |exponent: f64| {
            let (value, half) = ((estimate.value - exponent).abs(), estimate.high - estimate.value);
            exponential(ResponseEstimate { value, low: (value - half).max(0.0), high: value + half })
        };
        let (bytes, operations) = (off(-1.0), off(0.0));
        let (unit, nearer) = if bytes.value < operations.value {
            (Unit::Bytes, bytes)
        } else {
            (Unit::Operations, operations)
        };
        let unit = if nearer.value > UNIT_FACTOR_BOUND { Unit::Both } else { unit };
        Some((unit, nearer.place(UNIT) == ThresholdCheck::Met))
    }

    /// Returns the part of a saturated target's time that bytes take, not operations: how far the rate follows the block
    /// size.
    pub fn byte_share(&self) -> Option<f64> {
        Some(-self.estimate(Experiment::Block)?.value.clamp(-1.0, 0.0))
    }

    /// Returns the load that more depth and a single operation show together.
    pub fn load(&self) -> LoadEstimate {
        let gain = self.gain();
        let by_gain = gain.and_then(|gain| gain.load(GAIN_BOUND));
        let by_single = self.estimate(Experiment::Single).and_then(|exponent| self.single_load(exponent));
        let known_load = |load, is_sure, contradicting: &[Experiment]| LoadEstimate::Known {
            load,
            is_sure,
            contradicting: contradicting.to_vec(),
        };
        match (gain, by_gain, by_single) {
            // More depth reached a higher rate, so the target had room, whatever a single operation says.
            (_, Some(Load::Headroom), Some(Load::Saturated)) => {
                known_load(Load::Headroom, false, &[Experiment::Single])
            }
            // A target that is full with just these operations gives no more, though none of them waits.
            (_, Some(load), _) => known_load(load, true, &[]),
            (Some(gain), None, Some(Load::Saturated)) if gain.value < GAIN_BOUND => {
                known_load(Load::Saturated, false, &[])
            }
            (Some(gain), None, _) if gain.value < SATURATED_GAIN => known_load(Load::Saturated, false, &[]),
            (Some(gain), None, Some(Load::Headroom) | None) if gain.value > GAIN_BOUND && gain.low > 1.0 => {
                known_load(Load::Headroom, false, &[])
            }
            (Some(_), None, _) => known_load(Load::Between, false, &[]),
            (None, _, Some(load)) => known_load(load, false, &[]),
            (None, _, None) => LoadEstimate::Untested,
        }
    }
}

/// Returns the rate of a row before any sync, and half the width of its interval as a share of the rate. Answers are
/// compared with this rate.
pub(crate) fn own_rate(record: &PhaseRecord) -> Option<(f64, f64)> {
    Some((record.figures.rate.steady_or_whole()?, record.figures.rate.half_width().unwrap_or(0.0)))
}

/// Returns true if the rate without an experiment's change differs from the row's own, so that the experiment says
/// nothing about the row.
pub fn has_baseline_shifted(record: &PhaseRecord, response: &Response) -> bool {
    ExperimentResults::new(None, own_rate(record), 1.0).has_baseline_shifted(response)
}

/// Converts an exponent of the experiments' factor into a factor of the rate.
fn exponential(estimate: ResponseEstimate) -> ResponseEstimate {
    power(estimate, model::experiment::FACTOR.into())
}

fn power(estimate: ResponseEstimate, base: f64) -> ResponseEstimate {
    let times = |exponent: f64| base.powf(exponent);
    ResponseEstimate { value: times(estimate.value), low: times(estimate.low), high: times(estimate.high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(value: f64, half_width: f64) -> Option<Response> {
        let rate = 1000.0;
        Some(Response {
            value,
            half_width: Some(half_width),
            before_ops_per_second: rate,
            after_ops_per_second: rate * 4f64.powf(value),
            change: String::new(),
            load: None,
        })
    }

    fn known(depth: Option<(f64, f64)>, single: Option<(f64, f64)>) -> Sensitivity {
        let of = |answer: Option<(f64, f64)>| answer.and_then(|(value, half)| response(value, half));
        Sensitivity { depth: of(depth), single: of(single), ..Sensitivity::default() }
    }

    /// Load of a target with eight operations in flight.
    fn load(depth: Option<(f64, f64)>, single: Option<(f64, f64)>) -> LoadEstimate {
        let known = known(depth, single);
        ExperimentResults::new(Some(&known), Some((1000.0, 0.02)), 8.0).load()
    }

    fn known_load(load: Load, is_sure: bool) -> LoadEstimate {
        LoadEstimate::Known { load, is_sure, contradicting: Vec::new() }
    }

    #[test]
    fn depth_response_decides_before_a_single_operation() {
        let (nothing, all) = (Some((0.0, 0.03)), Some((1.0, 0.05)));
        assert_eq!(load(nothing, nothing), known_load(Load::Saturated, true));
        assert_eq!(load(all, all), known_load(Load::Headroom, true));
        assert_eq!(load(nothing, None), known_load(Load::Saturated, true));
        // A server with a slot for each operation: none waits, and no more fit.
        assert_eq!(load(nothing, all), known_load(Load::Saturated, true));
        // More depth gave 45 % more, and a single operation was as fast as eight.
        let contradicting = vec![Experiment::Single];
        let reached = LoadEstimate::Known { load: Load::Headroom, is_sure: false, contradicting };
        assert_eq!(load(Some((0.268, 0.05)), nothing), reached);
        assert_eq!(load(None, nothing), known_load(Load::Saturated, false));
        assert_eq!(load(None, None), LoadEstimate::Untested);
        assert_eq!(ExperimentResults::new(None, None, 8.0).load(), LoadEstimate::Untested);
    }

    #[test]
    fn response_interval_across_threshold_is_uncertain() {
        // 1.09 times the rate, between 1.02 and 1.17; and 1.12 times.
        assert_eq!(load(Some((0.0622, 0.05)), None), known_load(Load::Saturated, false));
        assert_eq!(load(Some((0.082, 0.05)), None), known_load(Load::Between, false));
        assert_eq!(load(Some((0.082, 0.05)), Some((0.0, 0.03))), known_load(Load::Saturated, false));
        // 1.3 times, between 1.1 and 1.5.
        assert_eq!(load(Some((0.19, 0.12)), Some((1.0, 0.05))), known_load(Load::Headroom, false));
        assert_eq!(load(Some((0.19, 0.12)), Some((0.5, 0.05))), known_load(Load::Headroom, false));
        // The interval is too wide: the experiment is excluded.
        assert_eq!(load(Some((0.5, 0.9)), None), LoadEstimate::Untested);
        assert_eq!(load(Some((0.13, 0.15)), None), LoadEstimate::Untested);
    }

    #[test]
    fn drifting_baseline_widens_response_interval() {
        let mut known = known(Some((0.16, 0.06)), Some((0.0, 0.1)));
        let gain =
            |known: &Sensitivity| ExperimentResults::new(Some(known), Some((1000.0, 0.02)), 8.0).gain();
        assert!(gain(&known).unwrap().low > 1.1, "all runs began at the row's own rate");
        known.single.as_mut().unwrap().before_ops_per_second = 1600.0;
        assert_eq!(gain(&known), None, "25 % more says nothing of a target that gives 60 % more by itself");
    }

    #[test]
    fn impossible_or_shifted_response_is_excluded() {
        let flaws = |known: &Sensitivity, own: f64| {
            ExperimentResults::new(Some(known), Some((own, 0.02)), 8.0)
                .all()
                .into_iter()
                .map(|(_, _, flaw)| flaw)
                .collect::<Vec<_>>()
        };
        let of_block = |value| Sensitivity { block: response(value, 0.05), ..Sensitivity::default() };
        assert_eq!(flaws(&of_block(-1.0), 1000.0), [None]);
        // Blocks of a quarter of the size give 2.2 times the bytes. Blocks of four times the size give 3.9 times the
        // operations.
        assert_eq!(flaws(&of_block(-1.56), 1000.0), [Some(ExclusionReason::Impossible)]);
        assert_eq!(flaws(&of_block(0.97), 1000.0), [Some(ExclusionReason::Impossible)]);
        let depth = known(Some((0.0, 0.05)), None);
        assert_eq!(flaws(&depth, 1100.0), [None]);
        assert_eq!(flaws(&depth, 1250.0), [Some(ExclusionReason::BaselineShifted)]);
        assert_eq!(flaws(&known(Some((1.4, 0.1)), None), 1000.0), [Some(ExclusionReason::Impossible)]);
    }

    #[test]
    fn block_size_response_tells_bytes_from_operations() {
        let unit = |value, half| {
            let known = Sensitivity { block: response(value, half), ..Sensitivity::default() };
            ExperimentResults::new(Some(&known), None, 8.0).unit()
        };
        assert_eq!(unit(-0.98, 0.05), Some((Unit::Bytes, true)));
        assert_eq!(unit(0.02, 0.05), Some((Unit::Operations, true)));
        assert_eq!(unit(-0.83, 0.05), Some((Unit::Bytes, false)));
        assert_eq!(unit(-0.17, 0.05), Some((Unit::Operations, false)));
        // 1.5 and 1.9 times the bytes, 1.5 and 1.9 times fewer operations.
        for exponent in [-0.71, -0.54, -0.46, -0.29] {
            assert_eq!(unit(exponent, 0.05), Some((Unit::Both, false)));
        }
        assert_eq!(unit(-0.5, 0.5), None);
    }

    #[test]
    fn methodology_page_matches_thresholds() {
        let page = include_str!("../../../../docs/methodology.md");
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let full = format!(
            "| brings less than {}, upper end below {} | N operations reach less than {} more, upper end below {} | bytes/s within {UNIT_FACTOR_MAX} times, upper end within {UNIT_FACTOR_BOUND} |",
            percent(SATURATED_GAIN - 1.0),
            percent(GAIN_BOUND - 1.0),
            percent(SATURATED_GAIN - 1.0),
            percent(GAIN_BOUND - 1.0),
        );
        let room = format!(
            "| brings more than {}, lower end; skye reports the gain | N operations reach more than {SCALING_MIN} N times its rate, lower end |",
            percent(GAIN_BOUND - 1.0),
        );
        assert!(page.contains(&full), "{full}");
        assert!(page.contains(&room), "{room}");
    }
}
