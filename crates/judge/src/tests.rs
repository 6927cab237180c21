//! Cases that fall into each trap, cases beside it that do not, and properties of all judgements.

mod examples;
mod limiters;
mod operations;

use model::finding::Finding;
use model::run::{Mark, PhaseRecord, Status, Trust};
use proptest::prelude::*;
use serde_json::Value;

use crate::fixtures::{InputBuilder, clean};
use crate::{TRAPS, TrapFinding, judge};

/// Tests of every kind.
const SPECS: &[&str] = &[
    "read:rnd4k:q32",
    "write:rnd4k:q32",
    "rw:rnd4k",
    "rewrite",
    "fsync",
    "read:seq1m:buffered",
    "write:seq1m:buffered",
    "write:rnd4k:sync=each",
    "write:rnd4k:q8:sync=dsync",
    "read:uncached",
    "read:rnd4k:q32:rate=500",
    "byte-write",
    "byte-read",
    "create",
    "stat",
    "readdir",
    "unlink:missing",
];
/// Traps that fire for tests that went well.
const ALWAYS: &[&str] = &["amplification", "call_flags"];

#[test]
fn clean_run_is_trusted_without_findings() {
    for spec in SPECS {
        let world = clean(spec);
        let unexpected: Vec<_> =
            world.findings().into_iter().filter(|(code, _)| !ALWAYS.contains(code)).collect();
        assert_eq!(unexpected, [], "{spec}");
        assert_eq!(world.verdict(), (Trust::Ok, vec![]), "{spec}");
    }
}

#[test]
fn every_trap_has_firing_and_quiet_examples() {
    for trap in TRAPS.iter() {
        let of: Vec<bool> = examples::ALL
            .iter()
            .filter(|example| example.code == trap.code)
            .map(|example| example.has_finding)
            .collect();
        assert!(of.contains(&true) && of.contains(&false), "{}: {of:?}", trap.code);
    }
    let is_known = |code: &str| TRAPS.iter().any(|trap| trap.code == code);
    assert!(examples::ALL.iter().all(|example| is_known(example.code)));
}

#[test]
fn no_two_traps_share_a_code() {
    let mut codes: Vec<_> = TRAPS.iter().map(|trap| trap.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), TRAPS.len());
}

/// Figures of each trap and their wording at each length, for reading from top to bottom.
#[test]
fn trap_findings_snapshot() {
    let mut report = String::new();
    for example in examples::ALL.iter().filter(|example| example.has_finding) {
        let TrapFinding { finding, advice } = example.caught().unwrap();
        let trust = finding.grade().trust().word();
        report.push_str(&format!("{} ({trust}): {}\n", example.code, example.name.replace('_', " ")));
        report.push_str(&format!("  figures    {}\n", serde_json::to_string(&finding).unwrap()));
        report.push_str(&format!("  clause     {}\n", wording::clause(&finding)));
        report.push_str(&format!("  paragraph  {}\n\n", wording::paragraph(&[&finding], &advice)));
    }
    insta::assert_snapshot!(report);
}

#[test]
fn trap_codes_are_in_finding_order_and_explained() {
    let trap_codes: Vec<_> = TRAPS.iter().map(|trap| trap.code).collect();
    let mut codes: Vec<_> = Finding::CODES.iter().copied().filter(|code| trap_codes.contains(code)).collect();
    codes.dedup();
    assert_eq!(codes, trap_codes);
    for code in trap_codes {
        assert!(wording::FINDING_HELP.iter().any(|about| about.code == code), "{code} is not explained");
    }
}

/// A case with causes for invalid, for suspect, and for remarks.
fn troubled() -> InputBuilder {
    let mut world = clean("read:rnd4k:q32");
    world.budget().steal = 0.2;
    world.record.seen.extents.as_mut().unwrap().hole_share = 0.5;
    world.device().foreign_share = Some(0.3);
    world.latency().modes =
        vec![model::run::Mode { at_ns: 100, share: 0.5 }, model::run::Mode { at_ns: 9_000, share: 0.5 }];
    world.record.status = Status::Partial;
    world.note(Finding::NotCompared {});
    world.note(Finding::DataDiffers {});
    world
}

#[test]
fn trust_reasons_are_sorted_and_exclude_remarks() {
    let reasons = ["unwritten_extents", "verification_failed", "ended_early", "foreign_io", "steal"];
    assert_eq!(troubled().verdict(), (Trust::Invalid, reasons.map(String::from).to_vec()));
    let mut damaged = clean("read:rnd4k:q32");
    damaged.budget().steal = 0.2;
    damaged.note(Finding::DataDiffers {});
    let reasons = ["verification_failed", "steal"].map(String::from).to_vec();
    assert_eq!(damaged.verdict(), (Trust::Invalid, reasons));
}

#[test]
fn run_notes_precede_judge_notes() {
    let codes: Vec<_> = troubled().judged_record().judged.notes.into_iter().map(|note| note.code).collect();
    assert_eq!(
        codes,
        ["not_compared", "verification_failed", "unwritten_extents", "several_modes", "foreign_io", "steal"]
    );
}

#[test]
fn judging_twice_gives_the_same_record() {
    for world in SPECS.iter().map(|spec| clean(spec)).chain([troubled()]) {
        let once = world.judged_record();
        let twice = InputBuilder { record: once.clone(), ..world }.judged_record();
        assert_eq!(once, twice);
    }
}

#[test]
fn stored_record_is_judged_like_one_in_memory() {
    let world = troubled();
    let text = serde_json::to_string(&world.record).unwrap();
    let stored = InputBuilder { record: serde_json::from_str(&text).unwrap(), ..world.clone() };
    assert_eq!(stored.judged_record(), world.judged_record());
}

#[test]
fn unmeasured_test_has_no_verdict() {
    let mut skipped = clean("read");
    skipped.record.status = Status::Skipped;
    assert_eq!(skipped.judged_record().judged.verdict, None);
    let mut empty = clean("read");
    empty.record.counts.ops = 0;
    assert_eq!(empty.judged_record().judged.verdict, None);
    let mut unknown = clean("read");
    unknown.record.id = "77-read".into();
    assert_eq!(unknown.judged_record().judged.verdict, None);
    assert_eq!(clean("read:rnd4k:engine=null").judged_record().judged.verdict, None);
    let mut later = clean("read");
    later.record.id.push_str("#3");
    assert_eq!(later.verdict(), (Trust::Ok, vec![]));
}

#[test]
fn older_record_without_new_fields_is_trusted() {
    for spec in SPECS {
        let mut world = clean(spec);
        let mut older = serde_json::to_value(&world.record).unwrap();
        let keys = older.as_object_mut().unwrap();
        for key in ["steady", "rounds", "residency", "extents", "verdict", "verified_blocks"] {
            keys.remove(key);
        }
        for (parent, key) in [
            ("latency_ns", "ci95"),
            ("latency_ns", "modes"),
            ("rate", "ci95_low_ops_per_second"),
            ("rate", "ci95_high_ops_per_second"),
        ] {
            older[parent].as_object_mut().unwrap().remove(key);
        }
        world.record = serde_json::from_value(older).unwrap();
        assert_eq!(world.verdict(), (Trust::Ok, vec![]), "{spec}");
    }
}

/// Asserts that a finding has another mark than a remark exactly if it costs trust. Its text is not empty, and its
/// numbers are finite.
fn assert_sound(record: &PhaseRecord) {
    let verdict = record.judged.verdict.clone().unwrap();
    let is_reason = |code: &str| verdict.trust_reasons.iter().any(|reason| reason == code);
    for note in record.judged.notes.iter().filter(|note| TRAPS.iter().any(|trap| trap.code == note.code)) {
        assert_eq!(note.mark != Mark::Remark, is_reason(&note.code), "{note:?}");
        let text = wording::paragraph(&[&note.finding], &note.advice);
        assert!(!text.is_empty() && !text.contains("  "), "{note:?}");
        let words = || text.split(|c: char| !c.is_alphanumeric());
        assert!(!words().any(|word| word == "inf" || word == "NaN"), "{note:?}");
    }
    assert_eq!(verdict.trust == Trust::Ok, verdict.trust_reasons.is_empty());
}

/// Keys of a record whose values can be absent.
const NULLABLE: &[&str] = &[
    "device",
    "page_cache_share",
    "budget",
    "steady",
    "residency",
    "extents",
    "latency_ns",
    "frame",
    "before",
    "after",
    "p50",
    "p99",
    "ops_per_second",
    "durable_ops_per_second",
    "into_cache_ops_per_second",
    "steady_ops_per_second",
    "ci95_low_ops_per_second",
    "foreign_share",
    "bytes_per_app_byte",
];

/// Replaces some values of a document with other numbers or with null, as `choices` say.
fn distort(value: &mut Value, key: &str, choices: &mut impl Iterator<Item = u16>) {
    const WHOLE: &[u64] = &[0, 1, 4096, 99_999, 1 << 33, u64::MAX / 3, u64::MAX];
    const BROKEN: &[f64] = &[0.0, -1.0, 1e-300, 0.04, 0.6, 1.0, 7.5, 1e9, f64::MAX];
    let choice = usize::from(choices.next().unwrap());
    // A count has the same key.
    let is_count = key == "extents" && value.is_number();
    if NULLABLE.contains(&key) && !is_count && choice.is_multiple_of(11) {
        *value = Value::Null;
        return;
    }
    // Wrong counts of rows make a document unreadable, which is tested where documents are read.
    if matches!(key, "count" | "counts" | "missing") {
        return;
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| distort(item, key, choices)),
        Value::Object(words) => words.iter_mut().for_each(|(key, item)| distort(item, key, choices)),
        Value::Number(number) if choice.is_multiple_of(3) => {
            let choice = choice / 3;
            let is_short = matches!(key, "iodepth" | "threads" | "repetition");
            *value = match (is_short, number.is_f64()) {
                (true, _) => (choice as u32).wrapping_mul(0x9e37_79b9).into(),
                (_, true) => BROKEN[choice % BROKEN.len()].into(),
                _ if key.ends_with("_percent") => 50.into(),
                _ => WHOLE[choice % WHOLE.len()].into(),
            };
        }
        _ => {}
    }
}

/// Choices made from the seed.
fn choices(seed: u64) -> impl Iterator<Item = u16> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    std::iter::successors(Some(seed), next).map(|state| (state >> 48) as u16)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn distorted_records_are_judged_without_panic(
        spec in 0..SPECS.len(),
        seed in any::<u64>(),
        (level, file_system) in (0..4usize, 0..3usize),
        server_ram in proptest::option::of(any::<u64>()),
    ) {
        let mut world = clean(SPECS[spec]);
        world.array(["raid0", "raid1", "raid5", "raid10"][level], &[(9_000_000, 0), (1, 8_000_000), (7, 7)]);
        world.target().file_system = ["ext4", "btrfs", "nfs4"][file_system].into();
        world.make_unsteady();
        world.plan.server_ram_bytes = server_ram;
        let mut value = serde_json::to_value(&world.record).unwrap();
        distort(&mut value, "", &mut choices(seed));
        world.record = serde_json::from_value(value).unwrap();
        let record = world.judged_record();
        if record.counts.ops > 0 {
            assert_sound(&record);
        }
        let mut again = record.clone();
        judge(&mut again, &world.plan, &world.environment, Some(&world.probes));
        prop_assert_eq!(record, again);
    }
}
