//! What came out of a run, in a sentence or two.

use model::Run;
use model::run::{PhaseRecord, Trust};
use model::target::Backing;

use super::test::{Test, trust};
use crate::text::{Kind, is_of_device, limiter_of, missing_reason, partial};

/// "The device is the limit in 5 of 7 data tests.", or what is true instead.
pub(crate) fn headline(run: &Run, tests: &[Test<'_>]) -> String {
    let measured: Vec<_> =
        tests.iter().map(|test| test.phase).filter(|phase| missing_reason(phase).is_none()).collect();
    let mut sentences = Vec::new();
    if run.environment.target.backing == Backing::Simulated {
        sentences.push("The device is simulated, so these are no numbers of storage.".to_owned());
    } else if measured.is_empty() {
        sentences.push("Nothing was measured.".to_owned());
    } else {
        sentences.push(limits(&measured));
    }
    let distrusted = measured.iter().filter(|phase| trust(phase) != Trust::Ok).count();
    match (distrusted, measured.len()) {
        (0, _) => {}
        (2, 2) => sentences.push("Both numbers are marked: see the findings.".to_owned()),
        (1, 1) => sentences.push("Its number is marked: see the findings.".to_owned()),
        (marked, all) if marked == all => {
            sentences.push(format!("All {all} numbers are marked: see the findings."))
        }
        (1, _) => sentences.push("One number is marked: see the findings.".to_owned()),
        (marked, _) => sentences.push(format!("{marked} numbers are marked: see the findings.")),
    }
    sentences.extend(partial(run).map(|rest| format!("The run was ended early: {rest}.")));
    sentences.join(" ")
}

/// How many tests the device limits: those on data, or where there are none, what limits those on files.
fn limits(measured: &[&PhaseRecord]) -> String {
    let of_kind = |kind: Kind| -> Vec<&PhaseRecord> {
        measured.iter().copied().filter(|phase| Kind::of(phase) == kind).collect()
    };
    let data = of_kind(Kind::Data);
    let (tests, what) = if data.is_empty() { (of_kind(Kind::Files), "file") } else { (data, "data") };
    // What nobody knows has no limiter here.
    let known: Vec<_> = tests
        .iter()
        .filter(|phase| trust(phase) != Trust::Invalid)
        .filter_map(|phase| limiter_of(phase))
        .map(|(limiter, _)| limiter)
        .filter(|limiter| *limiter != model::Limiter::NotClear)
        .collect();
    let of_device = known.iter().filter(|limiter| is_of_device(**limiter)).count();
    let all = tests.len();
    let counted = |count: usize| match (count, all) {
        (1, 1) => format!("the one {what} test"),
        (count, all) if count == all => format!("all {all} {what} tests"),
        (0, all) => format!("none of {all} {what} tests"),
        (count, all) => format!("{count} of {all} {what} tests"),
    };
    if known.is_empty() {
        return match all {
            1 => format!("What limited the one {what} test is not clear."),
            all => format!("What limited the {all} {what} tests is not clear."),
        };
    }
    if of_device > 0 {
        return format!("The device is the limit in {}.", counted(of_device));
    }
    let most = known.iter().map(|limiter| (known.iter().filter(|other| *other == limiter).count(), limiter));
    let (count, limiter) = most.rev().max_by_key(|(count, _)| *count).unwrap_or((0, &known[0]));
    let title = limiter.title();
    match (what, all) {
        ("file", _) => format!("The limit in {} is: {title}.", counted(count)),
        (_, 1) => format!("The device is not the limit in the one data test: {title} is."),
        _ => format!("The device is the limit in {}; most often it is {title} ({count}).", counted(0)),
    }
}
