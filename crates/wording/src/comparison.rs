//! Words and numbers of comparisons, for every form that shows one.

use std::collections::HashSet;

use model::comparison::{
    Change, Decision, Difference, Direction, Measure, Row, SideResult, recommended_runs,
};
use model::{Comparison, FileVerb};

use model::numbers::{amount, latency, megabytes, percent, rank};

/// Text where nothing is known.
pub const MISSING: &str = model::numbers::MISSING;

/// Formats a value of a row: "2,655 MB/s", "412,310 IOPS", "142,310/s", "1.92 ms".
pub fn value(row: &Row, value: f64) -> String {
    let formatted = match row.measure {
        Measure::BytesPerSecond => megabytes(value),
        Measure::OpsPerSecond if is_on_blocks(row) => amount(value).map(|rate| format!("{rate} IOPS")),
        Measure::OpsPerSecond => amount(value).map(|rate| format!("{rate}/s")),
        Measure::P99Ns => Some(latency(value as u64)),
    };
    formatted.unwrap_or_else(|| MISSING.into())
}

/// Returns true if the row's operations move blocks, so that they are called IOPS.
fn is_on_blocks(row: &Row) -> bool {
    !row.label.is_empty() && row.name.parse::<FileVerb>().is_err()
}

/// Formats the distance from a side's value to the farther end of its interval: "±1.2 %", beyond twice the value
/// "×÷2.4". The text is empty where there is no interval.
pub fn spread(measured: &SideResult) -> String {
    let Some((low, high)) = measured.ci95_low.zip(measured.ci95_high) else { return String::new() };
    let half = (high / measured.mean - 1.0).max(1.0 - low / measured.mean);
    if half >= 1.0 {
        return format!("×÷{}", amount(1.0 + half).unwrap_or_default());
    }
    format!("±{}", short_percent(half))
}

/// Formats a change: "+2.2 %", "-17 %", "+135 %", "0.0 %"; beyond ten times "×12".
pub fn signed(ratio: f64) -> String {
    if ratio >= 10.0 {
        return format!("×{}", amount(ratio).unwrap_or_default());
    }
    let percent = (ratio - 1.0) * 100.0;
    let formatted =
        if percent.abs() < 99.95 { format!("{percent:+.1} %") } else { format!("{percent:+.0} %") };
    // A change of zero gets no sign.
    if formatted == "-0.0 %" || formatted == "+0.0 %" { "0.0 %".into() } else { formatted }
}

/// Formats a share in percent with as many digits as matter: "0.4 %", "12 %".
pub fn short_percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// Formats the ends of a change's interval: "+1.2 to +3.2 %"; empty where there is none.
pub fn ends(change: &Change) -> String {
    let Some((low, high)) = change.ci95_low_ratio.zip(change.ci95_high_ratio) else { return String::new() };
    let (low, high) = (signed(low), signed(high));
    match low.strip_suffix(" %") {
        Some(bare) if high.ends_with('%') => format!("{bare} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// Formats the p-value, corrected for the number of rows: "p=0.002"; empty where there is none.
pub fn p(change: &Change) -> String {
    match change.p_corrected {
        None => String::new(),
        Some(p) if p < 0.001 => "p<0.001".into(),
        Some(p) => format!("p={p:.3}"),
    }
}

/// Formats the corrected p of a change in one direction: "p=0.031 for this direction".
pub fn one_sided_text(p: f64) -> String {
    format!("p={p:.3} for this direction")
}

/// Formats the cell in the column of changes: "+2.2 %", "~ same", "~".
pub fn answer(change: &Change) -> String {
    match (change.answer, change.p) {
        (Decision::Changed, _) => signed(change.ratio),
        (Decision::Equivalent, _) => "~ same".into(),
        // Without repetitions, a change can be seen but not claimed.
        (Decision::CannotTell, None) => format!("{} ?", signed(change.ratio)),
        (Decision::CannotTell, Some(_)) => "~".into(),
    }
}

/// Returns the answer as the end of a sentence. Examples: "changed by +2.2 % (+1.2 to +3.2 %)", "equivalent within ± 3
/// %", "undecided: needs 16 runs per side".
pub fn sentence(change: &Change, comparison: &Comparison) -> String {
    let each = each(comparison);
    match change.answer {
        Decision::Changed => format!("changed by {} ({})", signed(change.ratio), ends(change)),
        Decision::Equivalent => format!("equivalent within ± {}", margin(comparison.effect)),
        Decision::CannotTell => match change.runs_needed {
            Some(runs) => format!("undecided: needs {runs} {each}"),
            None => "undecided: needs more than 1,000 runs, so look for disturbances".into(),
        },
    }
}

/// Returns the unit of further measurements that would be needed.
pub fn each(comparison: &Comparison) -> &'static str {
    if comparison.is_interleaved { "pairs" } else { "runs per side" }
}

/// Formats the number of them that is needed: "16", "more than 1,000".
pub fn needed(change: &Change) -> String {
    change.runs_needed.map_or("more than 1,000".into(), |runs| runs.to_string())
}

/// Formats a number of runs: "1 run", "6 runs".
pub fn runs(count: u32) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

/// Returns the first of several ways to name things that gives no two things the same name.
pub fn first_distinct(choices: impl IntoIterator<Item = Vec<String>>) -> Option<Vec<String>> {
    let are_distinct = |names: &Vec<String>| names.iter().collect::<HashSet<_>>().len() == names.len();
    choices.into_iter().find(are_distinct)
}

/// Formats a margin: "3 %", "0.5 %".
pub fn margin(share: f64) -> String {
    format!("{} %", (share * 1000.0).round() / 10.0)
}

/// Returns the test of a row: "read 1M q8"; for its latency "read 1M q8 p99".
pub fn subject(row: &Row) -> String {
    let test = format!("{} {}", row.name, row.label);
    let measure = if row.measure == Measure::P99Ns { " p99" } else { "" };
    format!("{}{measure}", test.trim_end())
}

/// Returns the limiters of a row: "device bandwidth", "all CPUs → device operations"; empty if none is known.
pub fn limiters(row: &Row) -> String {
    let known = row.sides.iter().flatten().filter_map(|measured| measured.limiter);
    let mut titles: Vec<&str> = Vec::new();
    for limiter in known {
        if titles.last() != Some(&limiter.title()) {
            titles.push(limiter.title());
        }
    }
    titles.join(" → ")
}

/// Formats a difference between sides: "mq-deadline → none".
pub fn difference(difference: &Difference) -> String {
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    difference.values.iter().map(value).collect::<Vec<_>>().join(" → ")
}

/// Lists the rates that are not settled, with the number of runs that would settle them: one in a sentence, several in
/// a list.
pub fn unsettled(comparison: &Comparison) -> Vec<(Vec<String>, String)> {
    let mut open_changes = Vec::new();
    for row in comparison.rows.iter().filter(|row| row.measure.is_rate()) {
        for (change, side) in row.changes.iter().zip(&comparison.sides[1..]) {
            let Some(change) = change.as_ref().filter(|change| change.answer == Decision::CannotTell) else {
                continue;
            };
            let on = if comparison.sides.len() > 2 { format!(" on {}", side.name) } else { String::new() };
            open_changes.push((format!("{}{on}", subject(row)), change));
        }
    }
    if let [(subject, change)] = &open_changes[..] {
        return vec![(vec![subject.clone()], sentence(change, comparison))];
    }
    let listed: Vec<_> =
        open_changes.iter().map(|(subject, change)| format!("{subject} ({})", needed(change))).collect();
    match listed.is_empty() {
        true => Vec::new(),
        false => vec![(listed, format!("undecided; brackets show the {} needed", each(comparison)))],
    }
}

/// Lists the warnings about rows; rows with the same warning are together.
pub fn warnings(comparison: &Comparison) -> Vec<(Vec<String>, String)> {
    let mut grouped: Vec<(Vec<String>, String)> = Vec::new();
    for (row, warning) in
        comparison.rows.iter().flat_map(|row| row.warnings.iter().map(move |one| (row, one)))
    {
        match grouped.iter_mut().find(|(_, known)| known == warning) {
            Some((subjects, _)) => subjects.push(subject(row)),
            None => grouped.push((vec![subject(row)], warning.clone())),
        }
    }
    grouped
}

/// Returns conclusions from the whole comparison, in sentences: the runs needed, the changes it could find, the
/// questions it cannot answer.
pub fn conclusions(comparison: &Comparison) -> Vec<String> {
    let mut sentences = Vec::new();
    if comparison.has_p_values() {
        sentences.extend(too_few_runs(comparison));
        sentences.extend(detectable(comparison));
        if changes(comparison).any(|(_, change)| change.answer == Decision::Changed) {
            sentences.extend(causes(comparison));
        }
        if comparison.comparisons > 1 {
            sentences.push(format!("p is corrected for {} rows (Holm).", comparison.comparisons));
        }
        if !comparison.is_interleaved {
            sentences.push(
                "The sides were measured one after the other, so drift counts as a change: use skye ab to alternate between them."
                    .into(),
            );
        }
    } else if comparison.is_interleaved {
        sentences.push("One pair cannot show a change: use a longer --total.".into());
    } else {
        let repetitions = recommended_runs(comparison.runs_to_decide);
        let single: Vec<_> =
            comparison.sides.iter().filter(|side| side.runs < 2).map(|side| side.name.as_str()).collect();
        let which = if single.len() == comparison.sides.len() {
            "One run per side".to_owned()
        } else {
            format!("One run of {}", single.join(" and "))
        };
        sentences.push(format!("{which} cannot show a change: use --repeat {repetitions}, or skye ab."));
    }
    sentences
}

/// Returns a note on a plan whose repetitions are too few to show a change in any of its rows.
pub fn too_few_repetitions(repeated: u32, rows: usize, runs_to_decide: u32) -> String {
    let rows = if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") };
    let recommended = recommended_runs(runs_to_decide);
    format!(
        "against as many, {repeated} repetitions of {rows} cannot show a change in skye compare: use --repeat {recommended}"
    )
}

fn changes(comparison: &Comparison) -> impl Iterator<Item = (&Row, &Change)> {
    comparison.rows.iter().flat_map(|row| row.changes.iter().flatten().map(move |change| (row, change)))
}

/// Returns a sentence on the rates that so few runs cannot settle, however far apart they lie.
fn too_few_runs(comparison: &Comparison) -> Option<String> {
    let rates = changes(comparison).filter(|(row, _)| row.measure.is_rate());
    let runs_min = rates.filter(|(_, change)| !change.can_be_decided).map(|(_, change)| change.runs).min()?;
    let (rows, needed) = (comparison.comparisons, comparison.runs_to_decide);
    let each = each(comparison);
    Some(match rows {
        1 => format!("{runs_min} {each} are too few: a change needs at least {needed}."),
        _ => format!("Some rows have {runs_min} {each}: with {rows} rows, a change needs at least {needed}."),
    })
}

fn detectable(comparison: &Comparison) -> Option<String> {
    let rates = changes(comparison).filter(|(row, _)| row.measure.is_rate());
    let mut found: Vec<_> = rates.filter_map(|(row, change)| Some((change.detectable?, row))).collect();
    found.sort_by_cached_key(|(least, _)| rank(*least));
    let ((least, easiest), (most, hardest)) = (found.first()?, found.last()?);
    // A change beyond a doubling is shown as a factor.
    let found = |share: f64| match amount(1.0 + share) {
        Some(factor) if share >= 1.0 => format!("a factor of {factor}"),
        _ => percent(share),
    };
    let (least, most) = (found(*least), found(*most));
    Some(match least == most || easiest.spec == hardest.spec {
        true => format!("These runs have 80 % power to detect a change of a rate by {most}."),
        false => format!(
            "These runs have 80 % power to detect a change of a rate by {least} ({}), at worst {most} ({}).",
            subject(easiest),
            subject(hardest)
        ),
    })
}

fn causes(comparison: &Comparison) -> Option<String> {
    // A different directory is only a different name; other facts cover the layers under it.
    let causes =
        comparison.differs.iter().filter(|one| one.may_affect_results && one.name != "target").count();
    (causes > 1).then(|| {
        format!(
            "{} settings differ: this comparison does not separate their effects.",
            capital(&count(causes))
        )
    })
}

fn count(number: usize) -> String {
    const WORDS: [&str; 10] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    WORDS.get(number).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

/// Returns the answer to the question that was asked, in a sentence.
pub fn headline(comparison: &Comparison) -> String {
    let Some(after) = comparison.sides.get(1) else { return String::new() };
    if comparison.sides.len() > 2 {
        let others = capital(&count(comparison.sides.len() - 1));
        return format!("{others} sides, each against {}.", comparison.sides[0].name);
    }
    let (invalid, valid): (Vec<&Row>, Vec<_>) =
        comparison.rows.iter().filter(|row| row.measure.is_rate()).partition(|row| row.is_invalid());
    let changes: Vec<_> = valid.iter().filter_map(|row| row.changes.first()?.as_ref()).collect();
    let of = |direction| changes.iter().filter(|change| change.direction == Some(direction)).count();
    let (better, worse) = (of(Direction::Better), of(Direction::Worse));
    let same = changes.iter().filter(|change| change.answer == Decision::Equivalent).count();
    let unknown = changes.len() - better - worse - same;
    let tests = |number: usize| if number == 1 { "1 test".to_owned() } else { format!("{number} tests") };
    let parts = [
        (better, format!("faster in {}", tests(better))),
        (worse, format!("slower in {}", tests(worse))),
        (same, format!("the same in {}", tests(same))),
    ];
    let parts: Vec<_> = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
    let mut sentence = match (parts.is_empty(), unknown) {
        (true, _) if !comparison.has_p_values() => {
            let of = if comparison.is_interleaved { "pair" } else { "run per side" };
            format!("Too few runs to tell whether \"{}\" is faster: one {of}.", after.name)
        }
        (true, _) => format!("Too few runs to tell whether \"{}\" is faster.", after.name),
        (false, 0) => format!("\"{}\" is {}.", after.name, parts.join(", ")),
        (false, _) => {
            format!("\"{}\" is {}; undecided in {}.", after.name, parts.join(", "), tests(unknown))
        }
    };
    sentence.push_str(&waiting(comparison));
    if !invalid.is_empty() {
        sentence.push_str(&format!(" A number is invalid in {}.", tests(invalid.len())));
    }
    sentence
}

/// Returns a sentence on changes of p99. Where rates are the same and the waiting is not, that is the change. It is
/// reported in any case.
fn waiting(comparison: &Comparison) -> String {
    let latencies = comparison.rows.iter().filter(|row| !row.measure.is_rate() && !row.is_invalid());
    let changes: Vec<_> = latencies.filter_map(|row| row.changes.first()?.as_ref()?.direction).collect();
    let of = |direction| changes.iter().filter(|one| **one == direction).count();
    match (of(Direction::Better), of(Direction::Worse)) {
        (0, 0) => String::new(),
        (better, 0) => format!(" Its p99 is lower in {better}."),
        (0, worse) => format!(" Its p99 is higher in {worse}."),
        (better, worse) => format!(" Its p99 is lower in {better}, higher in {worse}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_changes_are_formatted_with_sign() {
        let texts = [1.022, 0.268, 1.0, 1.00001, 2.347, 0.0, 12.3, 1.9994].map(signed);
        assert_eq!(texts, ["+2.2 %", "-73.2 %", "0.0 %", "0.0 %", "+135 %", "-100 %", "×12.3", "+99.9 %"]);
        assert_eq!([0.03, 0.005, 0.1].map(margin), ["3 %", "0.5 %", "10 %"]);
    }
}
