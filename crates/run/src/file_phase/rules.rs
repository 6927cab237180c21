//! Names that tests on files may make.

use engine::names::{DIRECTORY_DIGITS, FILE_DIGITS, Kind};
use model::Experiment;
use model::marker::{LETTERS_MAX, NamePattern, RandomSuffix};
use model::plan::{Plan, PlannedPhase};
use model::spec::FILES_MAX;
use model::workload::{FileVerb, FilesWork, Naming};

use super::THREAD_DIGITS;

/// Returns the names that file tests of a plan may make.
pub fn rules(plan: &Plan) -> Vec<NamePattern> {
    let all = || plan.phases.iter().filter_map(|phase| phase.workload.files());
    // In directories of all clients, each has files of its own.
    let clients = plan.clients.map_or(1, |clients| u64::from(clients.count));
    let files = |work: &FilesWork| match work.verb {
        // Each file that a mix creates has a new number.
        FileVerb::Mix => FILES_MAX,
        FileVerb::Replay => work.load().map_or(0, |load| load.files.max(1)),
        _ if work.shared => work.files.saturating_mul(clients),
        _ => work.files,
    };
    let Some(files) = all().map(files).max() else { return vec![] };
    // Experiments have directories for more threads than their test.
    let of_experiment = |phase: &PlannedPhase| {
        let variant = Experiment::Depth.variant(phase, plan.cache).filter(|_| plan.may_probe(phase));
        variant.map_or(phase.workload.threads, |variant| variant.phase.workload.threads)
    };
    let on_files = plan.phases.iter().filter(|phase| phase.workload.files().is_some());
    let threads = on_files.map(|phase| u64::from(of_experiment(phase))).max().unwrap_or(1);
    let levels = all().map(|work| work.load().map_or(work.levels, |load| load.levels)).max().unwrap_or(1);
    // The names of a load have directories from the first on.
    let dirs = all().map(|work| work.load().map_or(work.dirs, |load| load.dirs + 1)).max().unwrap_or(1);
    let spelled = |letters: Option<RandomSuffix>| {
        let file = |kind: Kind| NamePattern::files(kind.letter(), FILE_DIGITS, files);
        let mut rules: Vec<_> = Kind::FILES.map(file).into();
        rules.push(NamePattern::directories(Kind::Directory.letter(), FILE_DIGITS, files, vec![]));
        rules.into_iter().map(move |rule: NamePattern| rule.with_letters(letters))
    };
    let is_used = |naming: &&Naming| all().any(|work| work.naming == **naming);
    let namings = Naming::ALL.iter().filter(is_used).map(|naming| letters(*naming));
    let namings: Vec<_> = namings.collect();
    let leaves = || namings.iter().copied().flat_map(spelled).collect::<Vec<_>>();
    let mut inside = leaves();
    for _ in 0..if dirs > 1 { levels } else { 0 } {
        let below = std::mem::replace(&mut inside, leaves());
        inside.push(NamePattern::directories('d', DIRECTORY_DIGITS, dirs, below));
    }
    vec![NamePattern::directories('t', THREAD_DIGITS, threads, inside)]
}

/// Returns the place of the letters beside the number in the names of a set.
fn letters(naming: Naming) -> Option<RandomSuffix> {
    match naming {
        Naming::Plain => None,
        Naming::NumberFirst => Some(RandomSuffix::After(LETTERS_MAX)),
        Naming::LettersFirst => Some(RandomSuffix::Before(LETTERS_MAX)),
    }
}
