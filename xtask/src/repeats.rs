//! `cargo xtask repeats DIR RESULTS N`: checks that ± covers repeats. It makes default runs, leaves each short repeat of a test out
//! in turn, and counts those that lie within the ± without it. It also compares random halves of these runs, between which
//! nothing changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use model::comparison::Decision;
use model::json::{FromJson, ToJson};
use model::run::{Confidence, Mark, PhaseRecord, Verdict};
use model::{Comparison, Experiment, Run};

/// Labels of the halves of the runs.
const HALVES: [&str; 2] = ["first", "second"];
/// Comparisons of random halves.
const COMPARISONS: u64 = 100;
/// Most of them that may claim a change.
const CLAIMS_MAX: u64 = 5;
/// Least share of repeats within ±.
const INSIDE_MIN: f64 = 0.85;
/// Most that ± may be wider than the range of that share of the repeats, in the median of all tests.
const WIDTH_MAX: f64 = 1.5;

/// Makes `runs` default runs in a directory and adds their documents to `results`, then reads all documents there. Returns true
/// if ± covers enough repeats, is not too wide, and few comparisons claim a change.
///
/// # Errors
/// The program cannot be built or run, or a document cannot be read.
pub fn command(directory: &Path, results: &Path, runs: u32) -> Result<bool> {
    let binary = crate::release("skye")?;
    for number in 1..=runs {
        let mut command = Command::new(&binary);
        command.arg(directory).arg("--quiet").arg("-o").arg(results);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().context("run skye")?;
        ensure!(status.success(), "run {number} of {runs}: {status}");
    }
    let documents = documents(results)?;
    let repeats = Repeats::new(&documents);
    print!("{}", repeats.table());
    print!("{}", Verdicts::new(&documents).table());
    let marked = |run: &Run| {
        let is_marked = |row: &&PhaseRecord| row.judged.notes.iter().any(|note| note.mark != Mark::Remark);
        run.phases.iter().filter(is_marked).count()
    };
    println!("marked rows of each run: {:?}", documents.iter().map(marked).collect::<Vec<_>>());
    let claims = claims(&binary, &documents)?;
    println!("{claims} of {COMPARISONS} comparisons of random halves claim a change");
    Ok(repeats.are_covered() && claims <= CLAIMS_MAX)
}

fn documents(results: &Path) -> Result<Vec<Run>> {
    let list = std::fs::read_dir(results).with_context(|| format!("list {}", results.display()))?;
    let paths: std::io::Result<Vec<PathBuf>> = list.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    ensure!(paths.len() > 1, "{} has {} documents; make more runs", results.display(), paths.len());
    let read = |path: &PathBuf| -> Result<Run> {
        let mut run = Run::from_json(&std::fs::read_to_string(path)?)?;
        judge::rejudge(&mut run);
        Ok(run)
    };
    paths.iter().map(|path| read(path).with_context(|| format!("read {}", path.display()))).collect()
}

/// Distances of the repeats of each test from its rate, and its ±, as natural logarithms.
#[derive(Debug, Default)]
struct Repeats(BTreeMap<String, Test>);

#[derive(Debug, Default)]
struct Test {
    distances: Vec<f64>,
    half_widths: Vec<f64>,
    /// Repeats within the ± that they are a part of.
    inside: usize,
    /// Repeats within the ± of the others, and their number.
    inside_others: [usize; 2],
}

impl Repeats {
    fn new(runs: &[Run]) -> Self {
        let mut all = Self::default();
        for run in runs {
            for (place, row) in run.phases.iter().enumerate() {
                let rate = &row.figures.rate;
                let Some((half, own)) = rate.repeat_half_width.zip(rate.steady_or_whole()) else { continue };
                let test = all.0.entry(row.spec.clone()).or_default();
                test.half_widths.push(half.ln_1p());
                for repeat in std::iter::once(None).chain(Experiment::ALL.iter().copied().map(Some)) {
                    let mut rows = run.phases.clone();
                    let Some(left_out) = rows.get_mut(place).and_then(|row| take_repeat(row, repeat)) else {
                        continue;
                    };
                    judge::propagate_results(&mut rows);
                    let without = rows.get(place).and_then(|row| row.figures.rate.repeat_half_width);
                    let distance = (left_out / own).ln().abs();
                    test.distances.push(distance);
                    test.inside += usize::from(distance <= half.ln_1p());
                    if let Some(without) = without {
                        test.inside_others[0] += usize::from(distance <= without.ln_1p());
                        test.inside_others[1] += 1;
                    }
                }
            }
        }
        all
    }

    fn inside(&self) -> (usize, usize) {
        self.0.values().fold((0, 0), |(inside, all), test| (inside + test.inside, all + test.distances.len()))
    }

    fn inside_others(&self) -> [usize; 2] {
        self.0
            .values()
            .fold([0; 2], |[inside, all], test| [inside + test.inside_others[0], all + test.inside_others[1]])
    }

    /// Returns the median over all tests of the ratio of ± to the range that holds enough repeats of these runs.
    fn width(&self) -> Option<f64> {
        quantile(self.0.values().filter_map(Test::width).collect(), 0.5)
    }

    fn table(&self) -> String {
        let mut text = String::from(
            "test                                 within ±      of   ±, median   85 % of repeats\n",
        );
        for (spec, test) in &self.0 {
            let [half, least] =
                [quantile(test.half_widths.clone(), 0.5), quantile(test.distances.clone(), INSIDE_MIN)];
            let percent = |value: Option<f64>| {
                value.map_or("–".into(), |value| format!("{:.1} %", value.exp_m1() * 100.0))
            };
            text += &format!(
                "{spec:36} {:8} {:7} {:>12} {:>17}\n",
                test.inside,
                test.distances.len(),
                percent(half),
                percent(least)
            );
        }
        let (inside, all) = self.inside();
        let share = inside as f64 / all.max(1) as f64 * 100.0;
        let [others_inside, others] = self.inside_others();
        let width = self.width().map_or("–".into(), |width| format!("{width:.2}"));
        text +=
            &format!("all {inside} of {all}, {share:.0} %; ± over that range {width}, median of the tests\n");
        text + &format!("within the ± of the other repeats: {others_inside} of {others}\n")
    }

    fn are_covered(&self) -> bool {
        let ((inside, all), [others_inside, others]) = (self.inside(), self.inside_others());
        all > 0
            && inside as f64 >= INSIDE_MIN * all as f64
            && others_inside as f64 >= INSIDE_MIN * others as f64
            && self.width().is_some_and(|width| width <= WIDTH_MAX)
    }
}

impl Test {
    fn width(&self) -> Option<f64> {
        let [half, least] =
            [quantile(self.half_widths.clone(), 0.5)?, quantile(self.distances.clone(), INSIDE_MIN)?];
        Some(half / least).filter(|width| width.is_finite())
    }
}

/// Limiters of equal rows, by their test.
#[derive(Debug, Default)]
struct Verdicts<'a>(BTreeMap<&'a str, Vec<&'a Verdict>>);

impl<'a> Verdicts<'a> {
    fn new(runs: &'a [Run]) -> Self {
        let mut all = Self::default();
        for row in runs.iter().flat_map(|run| &run.phases) {
            all.0.entry(&row.spec).or_default().extend(&row.judged.verdict);
        }
        all
    }

    /// Returns the pairs of equal rows, those whose limiters contradict each other, and those of them that are confirmed.
    fn pairs(verdicts: &[&Verdict]) -> [usize; 3] {
        let mut found = [0; 3];
        for (place, one) in verdicts.iter().enumerate() {
            for other in &verdicts[place + 1..] {
                let is_contrary = one.contradicts(other);
                let is_sure = [one, other].iter().all(|verdict| verdict.is_at_least(Confidence::Confirmed));
                found[0] += 1;
                found[1] += usize::from(is_contrary);
                found[2] += usize::from(is_contrary && is_sure);
            }
        }
        found
    }

    fn table(&self) -> String {
        let mut text =
            String::from("test                                   pairs  contrary  confirmed  limiters\n");
        let mut sums = [0; 3];
        for (spec, verdicts) in &self.0 {
            let found = Self::pairs(verdicts);
            sums = [0, 1, 2].map(|at| sums[at] + found[at]);
            let mut limiters: BTreeMap<_, usize> = BTreeMap::new();
            let names = verdicts.iter().filter_map(|verdict| verdict.limiter);
            names.for_each(|limiter| *limiters.entry(limiter.title()).or_default() += 1);
            let limiters: Vec<_> = limiters.iter().map(|(title, count)| format!("{count} {title}")).collect();
            let [pairs, contrary, confirmed] = found;
            text += &format!("{spec:36} {pairs:7} {contrary:9} {confirmed:10}  {}\n", limiters.join(", "));
        }
        let [pairs, contrary, confirmed] = sums;
        let share = contrary as f64 / pairs.max(1) as f64 * 100.0;
        text + &format!(
            "{contrary} of {pairs} pairs of equal rows have limiters that contradict each other, {share:.0} %; {confirmed} confirmed\n"
        )
    }
}

/// Takes a short repeat out of a row: the baseline of an experiment, or else the return visit. Returns its rate, if the row has it.
fn take_repeat(row: &mut PhaseRecord, experiment: Option<Experiment>) -> Option<f64> {
    let Some(experiment) = experiment else {
        return row.figures.return_visit.take().map(|visit| visit.ops_per_second);
    };
    let response = row.judged.sensitivity.as_mut()?.place_of(experiment).take()?;
    Some(response.before_ops_per_second)
}

fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    values.get((last as f64 * share).round() as usize).copied()
}

/// Returns the number of comparisons that claim a change between random halves of the runs.
fn claims(binary: &Path, runs: &[Run]) -> Result<u64> {
    let directory = tempfile::tempdir().context("create a directory")?;
    let path = |label: &str, number: usize| directory.path().join(format!("{label}{number}.json"));
    for (number, run) in runs.iter().enumerate() {
        for label in HALVES {
            let run = Run { label: Some(label.into()), ..run.clone() };
            std::fs::write(path(label, number), run.to_json())?;
        }
    }
    let mut claims = 0;
    for seed in 0..COMPARISONS {
        let mut order: Vec<_> = (0..runs.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let mut command = Command::new(binary);
        command.args(["compare", "--by", "label", "--format", "json"]);
        for (place, number) in order.into_iter().enumerate() {
            let label = HALVES[usize::from(place >= runs.len() / 2)];
            command.arg(path(label, number));
        }
        let output = command.stderr(Stdio::inherit()).output().context("run skye compare")?;
        let comparison: Comparison = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("skye compare exited with {} and no document", output.status))?;
        let mut changes = comparison.rows.iter().flat_map(|row| &row.changes).flatten();
        claims += u64::from(changes.any(|change| change.answer == Decision::Changed));
    }
    Ok(claims)
}

#[cfg(test)]
mod tests {
    use super::{Repeats, Test, quantile};

    #[test]
    fn coverage_and_width_are_of_all_repeats() {
        assert_eq!(quantile(vec![3.0, 1.0, 2.0], 0.5), Some(2.0));
        let test = Test {
            distances: vec![0.01, 0.02, 0.04],
            half_widths: vec![0.03],
            inside: 2,
            inside_others: [1, 2],
        };
        let all = Repeats([("read".to_owned(), test)].into());
        assert_eq!((all.inside(), all.width()), ((2, 3), Some(0.75)));
        assert!(!all.are_covered(), "{}", all.table());
    }
}
