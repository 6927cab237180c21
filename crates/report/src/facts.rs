//! Facts in which runs may differ besides their numbers: machine, kernel, devices, file system, settings, the plan.
//! Comparisons and trends report the same facts.
//!
//! A [`Fact`] that explains no number is `without_effect`. A fact about a test belongs into `from_tests`, so that a trend
//! shows only the facts of its test.

use std::collections::BTreeSet;

use model::Run;
use model::comparison::Difference;
use model::run::{LatencyByPlace, PhaseRecord, Place, PlaceLatency, Setting};
use model::size;
use model::target::{Backing, Device, DeviceKind};

use crate::numbers::{amount, duration, latency, percent, thousands};

/// Sizes that differ by a smaller factor count as the same, because they are chosen by the speed of the target.
const SAME_SIZE: f64 = 1.25;

/// Name of the fact about commit, target and profile of skye.
const BUILD: &str = "build";

/// Name of the fact about the C library of skye.
const C_LIBRARY: &str = "C library";

/// One fact about a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fact {
    /// Name of the fact.
    pub name: String,
    /// Value of the fact, as people read it.
    pub value: Value,
    /// True if the fact is worth reporting even where all sides agree.
    pub is_notable: bool,
    /// True if the fact may explain different numbers. Labels, and values that change from run to run, are reported
    /// where they differ, but are not taken for a cause.
    pub may_affect_results: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Text, which differs unless it is equal.
    Text(String),
    /// Words in any order. Only the words that some side lacks are reported as different.
    Words(Vec<String>),
    /// Text with its number, which differs if the numbers are more than a factor of [`SAME_SIZE`] apart.
    Approximate(String, f64),
    /// Places of data, which differ unless half of the fewer bytes are the same.
    Places(Vec<Place>),
}

impl Fact {
    fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: Value::Text(value.into()),
            is_notable: false,
            may_affect_results: true,
        }
    }

    pub fn notable(name: &str, value: impl Into<String>) -> Self {
        Self { is_notable: true, ..Self::new(name, value) }
    }

    fn without_effect(self) -> Self {
        Self { may_affect_results: false, ..self }
    }

    fn words(name: &str, words: impl IntoIterator<Item = String>) -> Self {
        Self { value: Value::Words(words.into_iter().collect()), ..Self::new(name, "") }
    }

    fn format_estimate(name: &str, text: String, number: f64) -> Self {
        Self { value: Value::Approximate(text, number), ..Self::new(name, "") }
    }
}

/// Returns true if two sizes count as the same.
pub(crate) fn is_same_size(one: f64, other: f64) -> bool {
    (one / other).max(other / one) <= SAME_SIZE || one == other
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Approximate(text, _) => text.clone(),
            Self::Words(words) => words.join(","),
            Self::Places(places) => places_text(places),
        }
    }

    /// Takes in the places of another run. Returns false for other values.
    fn takes_in(&mut self, other: &Self) -> bool {
        let (Self::Places(known), Self::Places(more)) = (self, other) else { return false };
        *known = Place::merged([known.as_slice(), more].concat());
        true
    }

    fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Approximate(_, one), Self::Approximate(_, other)) => is_same_size(*one, *other),
            // The order of the words does not matter.
            (Self::Words(one), Self::Words(other)) => {
                one.iter().collect::<BTreeSet<_>>() == other.iter().collect::<BTreeSet<_>>()
            }
            (Self::Places(one), Self::Places(other)) => Place::are_same(one, other),
            _ => self == other,
        }
    }
}

/// Returns the places of data in words: "175 to 179 GB, 204 to 205 GB".
pub(crate) fn places_text(places: &[Place]) -> String {
    let text = |place: &Place| {
        let [start, end] = [place.start_bytes, place.end_bytes].map(size::decimal);
        if start == end {
            return end;
        }
        let unit = end.split_once(' ').map_or("", |(_, unit)| unit);
        format!("{} to {end}", start.strip_suffix(unit).unwrap_or(&start).trim_end())
    };
    places.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns the mean latency of each place in words: "14 GB 0.21 ms, 20 GB 0.43 ms; slowest over fastest 2.1 (1.9 to 2.2)".
pub(crate) fn latency_by_place(found: &LatencyByPlace) -> String {
    let of_place =
        |one: &PlaceLatency| format!("{} {}", places_text(&[one.place]), latency(one.latency_mean_ns));
    let places = found.places.iter().map(of_place).collect::<Vec<_>>().join(", ");
    let [ratio, low, high] =
        [found.ratio, found.ratio_low, found.ratio_high].map(|ratio| amount(ratio).unwrap_or_default());
    format!("{places}; slowest over fastest {ratio} ({low} to {high})")
}

/// The facts of all runs of a side, or of one run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Facts {
    /// Facts, each with all different values that the runs have.
    all: Vec<(Fact, Vec<Value>)>,
}

impl Facts {
    pub fn add(&mut self, facts: Vec<Fact>) {
        for fact in facts {
            let Some((_, values)) = self.all.iter_mut().find(|(known, _)| known.name == fact.name) else {
                self.all.push((fact.clone(), vec![fact.value]));
                continue;
            };
            let is_known =
                values.iter_mut().any(|known| known.takes_in(&fact.value) || known.is_like(&fact.value));
            if !is_known {
                values.push(fact.value);
            }
        }
    }

    fn values(&self, name: &str) -> Option<&[Value]> {
        self.all.iter().find(|(fact, _)| fact.name == name).map(|(_, values)| values.as_slice())
    }

    pub fn value(&self, name: &str) -> Option<String> {
        self.values(name).map(joined)
    }

    /// Names of all facts.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|(fact, _)| fact.name.as_str())
    }
}

fn joined(values: &[Value]) -> String {
    values.iter().map(Value::text).collect::<Vec<_>>().join(" or ")
}

/// Returns the facts that differ between sides, and the notable facts that are the same.
pub(crate) fn compare(sides: &[&Facts]) -> (Vec<Difference>, Vec<Setting>) {
    let (mut differs, mut same) = (Vec::new(), Vec::new());
    let mut all: Vec<&Fact> = Vec::new();
    for (fact, _) in sides.iter().flat_map(|facts| &facts.all) {
        if all.iter().all(|known| known.name != fact.name) {
            all.push(fact);
        }
    }
    for Fact { name, is_notable, may_affect_results, .. } in all {
        let values: Vec<_> = sides.iter().map(|facts| facts.values(name)).collect();
        let first = values[0];
        // The order in which runs were named does not matter.
        let has = |all: &[Value], one: &Value| all.iter().any(|other| one.is_like(other));
        let is_like = |other: &Option<&[Value]>| match (first, *other) {
            (Some(one), Some(other)) => {
                one.iter().all(|value| has(other, value)) && other.iter().all(|value| has(one, value))
            }
            // Older runs have neither.
            (Some([Value::Places(_)]), None) | (None, Some([Value::Places(_)])) => true,
            (Some(_), None) | (None, Some(_)) if [BUILD, C_LIBRARY].contains(&name.as_str()) => true,
            (one, other) => one.is_none() && other.is_none(),
        };
        if values.iter().all(is_like) {
            if let Some(values) = first.filter(|_| *is_notable) {
                same.push(Setting { name: name.clone(), value: joined(values) });
            }
        } else {
            let values = without_common_words(&values);
            differs.push(Difference { name: name.clone(), values, may_affect_results: *may_affect_results });
        }
    }
    (differs, same)
}

/// Returns the values of each side, without the words that all sides have.
fn without_common_words(sides: &[Option<&[Value]>]) -> Vec<Option<String>> {
    let words: Option<Vec<&Vec<String>>> = sides
        .iter()
        .map(|side| match side {
            Some([Value::Words(words)]) => Some(words),
            _ => None,
        })
        .collect();
    let Some(words) = words else {
        return sides.iter().map(|values| values.map(joined)).collect();
    };
    let is_on_all = |word: &String| words.iter().all(|side| side.contains(word));
    let own = words.iter().map(|side| {
        let own: Vec<_> = side.iter().filter(|word| !is_on_all(word)).cloned().collect();
        if own.is_empty() { "–".to_owned() } else { own.join(",") }
    });
    own.map(Some).collect()
}

/// The facts of a run.
pub(crate) fn from_run(run: &Run) -> Vec<Fact> {
    let mut facts = facts_outside_tests(run);
    facts.extend(from_tests(&run.phases.iter().collect::<Vec<_>>()));
    facts
}

/// The facts of a run, without those of its tests.
pub(crate) fn facts_outside_tests(run: &Run) -> Vec<Fact> {
    let mut facts = Vec::new();
    add_machine_facts(run, &mut facts);
    add_target_facts(run, &mut facts);
    add_plan_facts(run, &mut facts);
    facts.push(Fact::notable("skye", run.skye_version.clone()));
    // The version before the parentheses is the fact above.
    let build = run.skye_build.iter().filter_map(|build| build.split_once(" (")?.1.strip_suffix(')'));
    facts.extend(build.map(|words| Fact::words(BUILD, words.split(", ").map(String::from))));
    facts.extend(run.skye_libc.iter().map(|library| Fact::new(C_LIBRARY, library.clone())));
    let settings = run.environment.settings.iter();
    facts.extend(settings.map(|setting| Fact::new(&setting.name, setting.value.clone())));
    facts
}

fn add_machine_facts(run: &Run, facts: &mut Vec<Fact>) {
    let environment = &run.environment;
    if environment.target.backing == Backing::Simulated {
        return;
    }
    facts.push(Fact::notable("host", environment.host.clone()));
    facts.push(Fact::notable("kernel", environment.kernel.clone()));
    facts.extend(environment.cpu_model.iter().map(|model| Fact::new("processor", model.clone())));
    facts.push(Fact::new("CPUs", environment.cpus.to_string()));
    facts.push(Fact::new("memory", size::binary(environment.memory_bytes)));
    let virtualisation = environment.virtualisation.clone().unwrap_or_else(|| "none seen".into());
    facts.push(Fact::new("virtualisation", virtualisation));
    facts.push(Fact::new("user", if environment.is_root { "root" } else { "not root" }));
    facts.push(Fact::words("hidden", environment.hidden_sources.iter().cloned()));
}

fn add_target_facts(run: &Run, facts: &mut Vec<Fact>) {
    let target = &run.environment.target;
    if let Some(command) = run.pairing.as_ref().and_then(|pairing| pairing.command.clone()) {
        facts.push(Fact::new("command", command).without_effect());
    }
    if let Some(label) = &run.label {
        facts.push(Fact::new("label", label.clone()).without_effect());
    }
    facts.push(Fact::new("target", target.path.clone()));
    facts.push(Fact::notable("file system", target.file_system.clone()));
    facts.push(Fact::words("mount", target.mount_options.iter().cloned()));
    if target.device_stack.is_empty() && target.backing != Backing::Simulated {
        facts.push(Fact::notable("source", target.source.clone()));
    }
    let models = unique(target.device_stack.iter().filter_map(|device| device.model.clone()));
    if !models.is_empty() {
        facts.push(Fact::notable("device", models));
    }
    if !target.device_stack.is_empty() {
        facts.push(Fact::new("stack", unique(target.device_stack.iter().map(layer))));
    }
    if let Some(top) = target.top_device() {
        facts.push(Fact::new("device size", size::binary(top.size_bytes)));
    }
    let mut each = |name: &str, of: &dyn Fn(&Device) -> Option<String>| {
        let values = unique(target.device_stack.iter().filter_map(of));
        if !values.is_empty() {
            facts.push(Fact::new(name, values));
        }
    };
    each("scheduler", &|device| device.scheduler.clone());
    each("write cache", &|device| device.write_cache.clone());
    each("nr_requests", &|device| device.nr_requests.map(|count| count.to_string()));
    each("read-ahead", &|device| device.read_ahead_bytes.map(size::binary));
    each("rotational", &|device| device.rotational.map(|is| if is { "yes" } else { "no" }.to_owned()));
    each("physical block", &|device| device.physical_block_bytes.map(|bytes| size::binary(bytes.into())));
    add_geometry_facts(run, facts);
    if !target.notes.is_empty() {
        facts.push(Fact::words("remark", target.notes.iter().cloned()));
    }
}

fn add_geometry_facts(run: &Run, facts: &mut Vec<Fact>) {
    let target = &run.environment.target;
    let geometry = &target.geometry;
    let sizes = [
        ("block size", geometry.block_bytes),
        ("stripe unit", geometry.stripe_unit_bytes),
        ("stripe width", geometry.stripe_width_bytes),
        ("journal size", geometry.journal_bytes),
    ];
    facts.extend(sizes.into_iter().filter_map(|(name, bytes)| Some(Fact::new(name, size::binary(bytes?)))));
    facts.extend(geometry.allocation_groups.map(|count| Fact::new("allocation groups", thousands(count))));
    facts.extend(geometry.journal.iter().map(|journal| Fact::new("journal", journal.clone())));
    facts.extend(geometry.data_checksum.iter().map(|checksum| Fact::new("data checksum", checksum.clone())));
    facts.push(Fact::words("features", geometry.features.iter().cloned()));
    let space = target.space;
    if space.total_bytes > 0 {
        let used = 1.0 - space.free_bytes as f64 / space.total_bytes as f64;
        facts.push(Fact::format_estimate("in use", percent(used), used.max(0.05)).without_effect());
    }
}

fn add_plan_facts(run: &Run, facts: &mut Vec<Fact>) {
    let plan = &run.plan;
    facts.push(Fact::notable("preset", plan.preset.clone()));
    let seeds = plan.seed.map_or_else(|| "fresh".to_owned(), |seed| seed.to_string());
    facts.push(Fact::notable("seeds", seeds).without_effect());
    facts.push(Fact::new("time per test", duration(plan.phase_time_ns)));
    if plan.verify_all {
        facts.push(Fact::new("verified", "every byte"));
    }
    if let Some(clients) = plan.clients {
        facts.push(Fact::notable("clients", thousands(clients.count.into())));
        facts.push(Fact::words("hosts", run.hosts.iter().map(|host| host.name.clone())));
    }
}

/// The facts of some tests of a run, taken together: engines, size of the data set, number of files.
pub(crate) fn from_tests(phases: &[&PhaseRecord]) -> Vec<Fact> {
    let mut engines: Vec<String> = Vec::new();
    for phase in phases {
        for word in std::iter::once(&phase.engine.name).chain(&phase.engine.features) {
            if !engines.contains(word) {
                engines.push(word.clone());
            }
        }
    }
    let mut facts = vec![Fact::words("engine", engines)];
    let (on_data, on_files): (Vec<_>, Vec<_>) =
        phases.iter().map(|phase| &phase.workload).partition(|workload| workload.block_bytes.is_some());
    if let Some(bytes) = on_data.iter().map(|workload| workload.size_bytes).max() {
        facts.push(Fact::format_estimate("data set", size::binary(bytes), bytes as f64));
    }
    if let Some(files) = on_files.iter().map(|workload| workload.files).max() {
        facts.push(Fact::format_estimate("files", thousands(files), files as f64));
    }
    let places = Place::merged(phases.iter().flat_map(|phase| phase.seen.places.iter().copied()).collect());
    if !places.is_empty() {
        let fact = Fact { value: Value::Places(places), ..Fact::new("place of data", "") };
        facts.push(fact.without_effect());
    }
    facts
}

/// The kind of a device with its details. The model of a disk is a separate fact.
fn layer(device: &Device) -> String {
    let kind = match device.kind {
        DeviceKind::Disk => "disk",
        DeviceKind::Partition => "partition",
        DeviceKind::Loop => "loop",
        DeviceKind::DeviceMapper => "device mapper",
        DeviceKind::Raid => "array",
        DeviceKind::Zram => "zram",
    };
    if device.details.is_empty() {
        kind.to_owned()
    } else {
        format!("{kind} ({})", device.details.join(", "))
    }
}

/// Joins the texts in their order, each once.
fn unique(texts: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for text in texts {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn facts(run: &Run) -> Facts {
        let mut facts = Facts::default();
        facts.add(from_run(run));
        facts
    }

    fn differences(after: &Run) -> Vec<(String, Vec<Option<String>>)> {
        let (differs, _) = compare(&[&facts(&sample::run()), &facts(after)]);
        differs.into_iter().map(|difference| (difference.name, difference.values)).collect()
    }

    #[test]
    fn identical_runs_have_only_common_facts() {
        let run = sample::run();
        let (differs, same) = compare(&[&facts(&run), &facts(&run)]);
        assert_eq!(differs, []);
        let same: Vec<_> = same.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(same, ["host", "kernel", "file system", "device", "preset", "seeds", "skye"]);
    }

    #[test]
    fn only_differing_words_of_builds_are_listed() {
        let mut run = sample::run();
        run.skye_build = Some("0.1.0 (0123abcd, x86_64-unknown-linux-gnu, release)".into());
        let values = ["7c69668c+", "0123abcd"].map(|commit| Some(commit.to_owned())).into();
        assert_eq!(differences(&run), [("build".to_owned(), values)]);
        run.skye_build = None;
        assert_eq!(differences(&run), [], "an older document has no build");
    }

    #[test]
    fn different_c_libraries_are_listed() {
        let mut run = sample::run();
        run.skye_libc = Some("static musl".into());
        let values = ["glibc 2.36", "static musl"].map(|library| Some(library.to_owned())).into();
        assert_eq!(differences(&run), [("C library".to_owned(), values)]);
        run.skye_libc = None;
        assert_eq!(differences(&run), [], "an older document has no C library");
    }

    #[test]
    fn only_differing_mount_options_are_listed() {
        let mut run = sample::run();
        run.environment.target.mount_options =
            ["rw", "relatime", "attr2", "inode64", "noquota"].map(String::from).into();
        run.environment.target.device_stack[1].scheduler = Some("mq-deadline".into());
        run.environment.target.geometry.features = vec!["reflink".into()];
        let values_of = |name: &str, before: &str, after: &str| {
            (name.to_owned(), vec![Some(before.to_owned()), Some(after.to_owned())])
        };
        assert_eq!(
            differences(&run),
            [
                values_of("mount", "noatime", "relatime"),
                values_of("scheduler", "none", "mq-deadline"),
                values_of("features", "–", "reflink"),
            ]
        );
    }

    #[test]
    fn mount_options_in_another_order_are_the_same() {
        let mut run = sample::run();
        run.environment.target.mount_options.reverse();
        assert_ne!(run, sample::run());
        assert_eq!(differences(&run), []);
    }

    #[test]
    fn label_seed_and_free_space_do_not_affect_results() {
        let mut run = sample::run();
        run.label = Some("after".into());
        run.plan.seed = Some(7);
        run.environment.target.space.free_bytes /= 9;
        run.environment.kernel = "Linux 7.0".into();
        let (differs, _) = compare(&[&facts(&sample::run()), &facts(&run)]);
        let found: Vec<_> = differs.iter().map(|one| (one.name.as_str(), one.may_affect_results)).collect();
        assert_eq!(found, [("kernel", true), ("in use", false), ("seeds", false), ("label", false)]);
    }

    #[test]
    fn file_count_is_listed_when_it_differs() {
        let mut run = sample::run();
        let create = sample::phase("create:t4");
        run.phases.push(create.clone());
        let before = facts(&run);
        for phase in run.phases.iter_mut().filter(|phase| phase.spec == create.spec) {
            phase.workload.files = create.workload.files * 2;
        }
        let (differs, _) = compare(&[&before, &facts(&run)]);
        let found: Vec<_> = differs.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(found, ["files"]);
    }

    #[test]
    fn small_difference_of_automatic_sizes_is_ignored() {
        let mut run = sample::run();
        for (factor, is_told) in [(1.2, false), (0.85, false), (2.0, true)] {
            for phase in &mut run.phases {
                phase.workload.size_bytes = (4.0 * factor * f64::from(1 << 30)) as u64;
            }
            assert_eq!(!differences(&run).is_empty(), is_told, "{factor}: {:?}", differences(&run));
        }
    }

    #[test]
    fn run_order_makes_no_difference() {
        let mut other = sample::run();
        other.environment.kernel = "Linux 7.0".into();
        let mut sides = [Facts::default(), Facts::default()];
        for (side, runs) in sides.iter_mut().zip([[&sample::run(), &other], [&other, &sample::run()]]) {
            runs.into_iter().for_each(|run| side.add(from_run(run)));
        }
        assert_eq!(compare(&[&sides[0], &sides[1]]).0, []);
    }

    #[test]
    fn fact_missing_on_one_side_differs() {
        let mut run = sample::run();
        run.environment.settings.push(Setting { name: "clocksource".into(), value: "tsc".into() });
        assert_eq!(differences(&run), [("clocksource".to_owned(), vec![None, Some("tsc".to_owned())])]);
        let mut both = facts(&sample::run());
        run.environment.kernel = "Linux 7.0".into();
        both.add(from_run(&run));
        assert_eq!(both.value("kernel").as_deref(), Some("Linux 6.12.9 or Linux 7.0"));
    }
}
