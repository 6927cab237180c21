//! `--fail-on`: limits that no change may exceed.

use std::str::FromStr;

use model::Comparison;
use model::comparison::{Change, Decision, Measure, Row, recommended_runs};
use model::nearest;
use model::run::Trust;

use wording::comparison::{one_sided_text, signed, subject};

/// A limit that no change may exceed: "throughput<-5%", "p99>10%".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    metric: GateMetric,
    is_below: bool,
    /// The limit as a ratio: 0.95 for a loss of 5 %.
    ratio: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GateMetric {
    Throughput,
    P99,
}

const GATE_METRICS: [(&str, GateMetric); 2] =
    [("throughput", GateMetric::Throughput), ("p99", GateMetric::P99)];
/// Tolerance for rounding: a limit of 3 % is not smaller than an effect of 3 %.
const ROUNDING: f64 = 1e-9;
const FORM: &str = "use QUANTITY<-PERCENT or QUANTITY>PERCENT, for example throughput<-5% or p99>10%";

/// Result of checking a comparison against a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitCheck {
    /// These rows went beyond the limit, in words.
    Exceeded(Vec<String>),
    /// No row went beyond the limit.
    Within,
    /// The limit cannot be checked, for this reason: no row has the quantity, a row has too few runs, and the like.
    Undecided(String),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let at = text.find(['<', '>']).ok_or_else(|| format!("`{text}` has neither < nor >: {FORM}"))?;
        let (word, rest) = (text[..at].trim(), text[at + 1..].trim());
        let names = || GATE_METRICS.into_iter().map(|(name, _)| name);
        let metric = GATE_METRICS.into_iter().find(|(name, _)| *name == word).map(|(_, metric)| metric);
        let metric = metric.ok_or_else(|| {
            let near = nearest(word, names()).map_or(String::new(), |near| format!("; did you mean {near}?"));
            format!("`{word}` is none of {}{near}", names().collect::<Vec<_>>().join(", "))
        })?;
        let number = rest.strip_suffix('%').ok_or_else(|| format!("`{rest}` is not a percentage: {FORM}"))?;
        let percent: f64 =
            number.trim().parse().map_err(|_| format!("`{rest}` is not a percentage: {FORM}"))?;
        let is_below = text[at..].starts_with('<');
        // A positive limit makes no sense here: `throughput<5%` would refuse every run that did not gain.
        let is_sound =
            percent.is_finite() && if is_below { percent <= 0.0 && percent > -100.0 } else { percent >= 0.0 };
        if !is_sound {
            return Err(format!("`{text}` would fail without a change: {FORM}"));
        }
        Ok(Self { metric, is_below, ratio: 1.0 + percent / 100.0 })
    }
}

impl Limit {
    /// Returns true if the limit is smaller than `effect`, below which sides are equivalent.
    pub fn is_below(&self, effect: f64) -> bool {
        self.ratio.ln().abs() < (1.0 + effect).ln() * (1.0 - ROUNDING)
    }

    fn is_beyond(&self, ratio: f64) -> bool {
        if self.is_below { ratio < self.ratio } else { ratio > self.ratio }
    }

    /// Returns the rows of one side that moved beyond the limit, in words.
    fn rows_beyond(&self, changes: &[(&Row, usize, &Change)]) -> Vec<String> {
        let one_sided: Vec<_> = changes.iter().map(|change| self.one_sided_p(change)).collect();
        let is_valid = |row: &Row, side: usize| {
            let sides = [row.sides.first(), row.sides.get(side)];
            sides.into_iter().flatten().flatten().all(|measured| measured.trust != Some(Trust::Invalid))
        };
        let found = changes.iter().zip(stats::holm(&one_sided)).filter_map(|((row, side, change), p)| {
            if !is_valid(row, *side) || !self.is_beyond(change.ratio) {
                return None;
            }
            let moved = format!("{} {}", subject(row), signed(change.ratio));
            match (change.answer, p) {
                (Decision::Changed, _) => Some(moved),
                (_, Some(p)) if p <= stats::SIGNIFICANCE && excludes_1(change) => {
                    Some(format!("{moved} ({})", one_sided_text(p)))
                }
                _ => None,
            }
        });
        found.collect()
    }

    /// Returns the p of a change in the direction of the limit. Only that direction fails a gate, so the other needs no share
    /// of the chance of a false claim. With as many runs on both sides, each split of the permutation test has its mirror
    /// image. One direction then has half of the p.
    fn one_sided_p(&self, (row, side, change): &(&Row, usize, &Change)) -> Option<f64> {
        let p = change.p?;
        if (change.ratio < 1.0) != self.is_below {
            return Some(1.0);
        }
        let runs = |side: usize| Some(row.sides.get(side)?.as_ref()?.values.len());
        Some(if runs(0) == runs(*side) { p / 2.0 } else { p })
    }

    /// Checks a comparison. A row goes beyond the limit if it surely moved in the direction of the limit, and by more than
    /// the limit. Then the answer does not depend on the other rows.
    pub fn reached(&self, comparison: &Comparison) -> LimitCheck {
        let is_of = |measure: Measure| match self.metric {
            GateMetric::Throughput => measure.is_rate(),
            GateMetric::P99 => measure == Measure::P99Ns,
        };
        let rows: Vec<_> = comparison.rows.iter().filter(|row| is_of(row.measure)).collect();
        let mut changes: Vec<(&Row, usize, &Change)> = Vec::new();
        let mut beyond = Vec::new();
        for side in 1..comparison.sides.len() {
            let of_side =
                rows.iter().filter_map(|row| Some((*row, side, row.changes.get(side - 1)?.as_ref()?)));
            let of_side: Vec<_> = of_side.collect();
            beyond.extend(self.rows_beyond(&of_side));
            changes.extend(of_side);
        }
        if !beyond.is_empty() {
            return LimitCheck::Exceeded(beyond);
        }
        if changes.is_empty() {
            return LimitCheck::Undecided("no row has this quantity on both sides".into());
        }
        // A test that was left out cannot fail the limit, so it must not pass either.
        if let Some(left) = comparison.left_out.first() {
            return LimitCheck::Undecided(format!("{}: {}", left.what, left.reason));
        }
        if let Some(row) = rows.iter().find(|row| row.is_invalid()) {
            return LimitCheck::Undecided(format!("{}: one side has an invalid result", subject(row)));
        }
        if let Some((row, _, change)) = changes.iter().find(|(.., change)| !change.can_be_decided) {
            let rows = match comparison.comparisons {
                0 | 1 => "a row needs".into(),
                rows => format!("{rows} rows need"),
            };
            return LimitCheck::Undecided(format!(
                "{rows} {} runs per side, and {} has {}: use --repeat {}",
                comparison.runs_to_decide,
                subject(row),
                change.runs,
                recommended_runs(comparison.runs_to_decide)
            ));
        }
        // The interval has room for a change beyond the limit.
        let end =
            |change: &Change| if self.is_below { change.ci95_low_ratio } else { change.ci95_high_ratio };
        let is_open = |change: &Change| {
            change.answer == Decision::CannotTell && self.is_beyond(end(change).unwrap_or(change.ratio))
        };
        match changes.iter().find(|(.., change)| is_open(change)) {
            Some((row, _, change)) => {
                let more = match change.runs_needed {
                    Some(runs) => format!("{runs} runs would tell"),
                    None => "measure more runs".to_owned(),
                };
                let found = format!("{} {} may be chance", subject(row), signed(change.ratio));
                LimitCheck::Undecided(format!("{found}: {more}, or use --undecided"))
            }
            None => LimitCheck::Within,
        }
    }
}

/// Returns true if the interval of a change, for this row alone, has no place for an unchanged value.
fn excludes_1(change: &Change) -> bool {
    change.ci95_low_ratio.is_some_and(|low| low > 1.0)
        || change.ci95_high_ratio.is_some_and(|high| high < 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limit = |text: &str| text.parse::<Limit>();
        let throughput = Limit { metric: GateMetric::Throughput, is_below: true, ratio: 0.95 };
        assert_eq!(limit("throughput<-5%"), Ok(throughput));
        assert_eq!(limit(" throughput < -5 % "), Ok(throughput));
        assert_eq!(limit("p99>10%"), Ok(Limit { metric: GateMetric::P99, is_below: false, ratio: 1.1 }));
        for (text, said) in [
            ("throughput", "neither"),
            ("troughput<-5%", "did you mean throughput?"),
            ("throughput<-5", "not a percentage"),
            ("throughput<-x%", "not a percentage"),
            ("throughput<5%", "without a change"),
            ("p99>-5%", "without a change"),
            ("throughput<-100%", "without a change"),
        ] {
            let problem = limit(text).unwrap_err();
            assert!(problem.contains(said), "{text}: {problem}");
        }
    }
}
