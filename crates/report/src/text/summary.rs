//! A run in one line, for chats and monitoring.

use model::Run;
use model::run::{Mark, PhaseRecord};

use super::{mark, missing_reason};
use crate::headline::Measure;
use crate::{printable, slug};

/// "standard on /srv/data: write-1m-q8 2,714 MB/s, …, unlink-t4 505,786/s; no row is marked".
pub(super) fn line(run: &Run) -> String {
    let rate = |phase: &PhaseRecord| {
        let measure = Measure::from_phase(phase);
        let rate = measure.rate(phase).filter(|_| missing_reason(phase).is_none());
        let rate = rate.and_then(|rate| measure.text(rate)).unwrap_or_else(|| "no rate".to_owned());
        format!("{} {rate}", slug::from_phase(phase))
    };
    let rates: Vec<_> = run.phases.iter().map(rate).collect();
    let marked: Vec<_> =
        run.phases.iter().filter(|phase| mark(phase) != Mark::Remark).map(slug::from_phase).collect();
    let marked = match &marked[..] {
        [] => "no row is marked".to_owned(),
        [one] => format!("{one} is marked"),
        several => format!("{} are marked", several.join(", ")),
    };
    let [preset, path] = [&run.plan.preset, &run.environment.target.path].map(|text| printable(text));
    format!("{preset} on {path}: {}; {marked}", rates.join(", "))
}

#[cfg(test)]
mod tests {
    use super::line;
    use crate::sample;

    #[test]
    fn run_summary_is_one_line() {
        let runs = [sample::run(), sample::partial_run(), sample::hostile_run()];
        let lines: Vec<_> = runs.iter().map(line).collect();
        assert!(lines.iter().all(|line| line.lines().count() == 1));
        insta::assert_snapshot!(lines.join("\n"));
    }
}
