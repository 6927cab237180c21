use std::collections::BTreeSet;

use model::figure::{Bytes, Count, Share};
use model::finding::Finding;
use model::layer::{Layer, LayerKind};
use model::run::{HostRecord, MonitorRecord, Pairing};
use model::target::{DeviceKind, ErasedDevice, Target};
use model::{Run, printable::printable};
use proptest::prelude::*;
use serde_json::Value;

use super::anonymise;
use super::fields::{FIELDS, Field, field};
use crate::sample;
use crate::text::{Detail, screen, why};

/// Adds the text fields below a schema, each with the key of the object around it.
fn text_fields(
    schema: &Value,
    all: &Value,
    place: (&str, &str),
    above: &[&str],
    found: &mut BTreeSet<String>,
) {
    let (parent, key) = place;
    let is_text = |kind: &Value| kind == "string";
    let kind = &schema["type"];
    if schema.get("const").is_some() || schema.get("enum").is_some() {
        return;
    }
    // A value of any type may be a text.
    let is_any = schema == &Value::Bool(true) || schema.as_object().is_some_and(|it| it.is_empty());
    if is_any || is_text(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_text)) {
        found.insert(format!("{parent}.{key}"));
    }
    let definition = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
    if let Some(name) = definition.filter(|name| !above.contains(name)) {
        text_fields(&all["$defs"][name], all, place, &[above, &[name]].concat(), found);
    }
    for choices in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for choice in schema[choices].as_array().into_iter().flatten() {
            text_fields(choice, all, place, above, found);
        }
    }
    for (inner, value) in schema["properties"].as_object().into_iter().flatten() {
        text_fields(value, all, (key, inner), above, found);
    }
    if let Some(items) = schema.get("items") {
        text_fields(items, all, place, above, found);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| **values != Value::Bool(false)) {
        text_fields(values, all, (key, "*"), above, found);
    }
}

#[test]
fn every_text_of_the_schema_has_a_meaning() {
    let schema: Value = serde_json::from_str(include_str!("../../../../schema/run.v3.json")).unwrap();
    let mut found = BTreeSet::new();
    text_fields(&schema, &schema, ("", "run"), &[], &mut found);
    let listed: BTreeSet<_> = FIELDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    let missing: Vec<_> = found.difference(&listed).collect();
    assert!(missing.is_empty(), "decide in fields.rs whether they are names: {missing:?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "no longer in the schema: {gone:?}");
    assert_eq!(listed.len(), FIELDS.len(), "a field has two meanings");
    assert!(found.len() > 150, "the schema has more texts than {}", found.len());
}

/// Names of a machine and its user, as an owner may choose them.
#[derive(Debug, Clone)]
struct Secrets {
    host: String,
    directory: String,
    user: String,
    serial: String,
    label: String,
    group: String,
    volume: String,
    server: String,
}

impl Secrets {
    fn from_words(words: [String; 8]) -> Self {
        let [host, directory, user, serial, label, group, volume, server] = words;
        Self { host, directory, user, serial, label, group, volume, server }
    }

    fn all(&self) -> [&str; 8] {
        [
            &self.host,
            &self.directory,
            &self.user,
            &self.serial,
            &self.label,
            &self.group,
            &self.volume,
            &self.server,
        ]
    }

    fn path(&self) -> String {
        format!("/srv/{}/two words", self.directory)
    }

    /// A target with a name in each place that may have one.
    fn target(&self) -> Target {
        let mut target = sample::mapped();
        target.path = self.path();
        target.mount_point = format!("/srv/{}", self.directory);
        target.source = format!("/dev/mapper/{}-data", self.volume);
        target.mount_options =
            vec!["rw".into(), "rsize=1048576".into(), "data=ordered".into(), "addr=192.168.7.9".into()];
        target.mount_options.push(format!("username={}", self.user));
        target.mount_options.push(format!("lowerdir=/home/{0}/low:/{0}", self.user));
        let device = target.device_stack.iter_mut().find(|it| it.kind == DeviceKind::DeviceMapper).unwrap();
        device.details = vec![format!("LVM volume {}-data", self.volume), "striped".into()];
        let device = target.device_stack.last_mut().unwrap();
        device.kind = DeviceKind::Loop;
        device.details = vec![format!("file /home/{}/an image.raw", self.user)];
        target.layers.push(Layer {
            hidden: Some(format!("/home/{}/an image.raw is not visible here", self.user)),
            ..Layer::new(LayerKind::Fuse, "fuse.sshfs")
        });
        target.notes = vec![format!("{}-data is a snapshot; see /home/{}.", self.volume, self.user)];
        target.erased = Some(ErasedDevice {
            serial: Some(self.serial.clone()),
            wwn: Some(format!("eui.{}", self.serial)),
            ..ErasedDevice::default()
        });
        target
    }

    /// Puts all names into a run, into their fields and into sentences.
    fn put_into(&self, run: &mut Run) {
        let path = self.path();
        run.environment.host = self.host.clone();
        run.environment.target = self.target();
        run.environment.hidden_sources = vec![format!("/proc/1/io: as {} on {}", self.user, self.host)];
        run.label = Some(self.label.clone());
        run.plan.label = run.label.clone();
        run.plan.notes = vec![format!("\"{path}\" is in use by {} ({}).", self.host, self.label)];
        run.plan.preset = format!("/home/{}/mine.toml", self.user);
        run.plan.tests.push(format!("replay:/home/{0}/{0}.txt:t8", self.user));
        run.plan.mixes.0.insert(format!("{}.toml", self.user), format!("about = \"{}\"", self.label));
        run.plan.tests.push(format!("mix:{}.toml", self.user));
        run.command = ["/usr/bin/skye", "run", "--label", &self.label, "--erase", &self.serial, "-o"]
            .map(String::from)
            .into();
        run.command.extend([
            path.clone(),
            format!("--json=/home/{}/x", self.user),
            "--time".into(),
            "20".into(),
        ]);
        run.command.extend(["--test".into(), "read:rnd4k".into(), format!("--rsh=ssh -i {}", self.user)]);
        run.plan.tests.push("read:rnd4k".into());
        run.pairing = Some(Pairing {
            id: "1-2".into(),
            side: "A".into(),
            first: vec![true],
            command: Some(format!("ssh {} run", self.server)),
        });
        let mut environment = run.environment.clone();
        environment.host = format!("{}.example.org", self.server);
        environment.target.source = format!("{}@{}:/export/{}", self.user, self.server, self.directory);
        let name = format!("{}@{}#2", self.user, self.server);
        run.hosts.push(HostRecord {
            client: 0,
            name: name.clone(),
            skye_version: "0.1.0".into(),
            environment,
            clock: None,
            lost: Some(format!("{} closed the connection from 10.1.2.3", self.server)),
        });
        run.tool.warnings = vec![format!("{}: {path}/skye.abcdef/f0: Permission denied", self.host)];
        let phase = &mut run.phases[0];
        phase.reason =
            Some(format!("cannot open {path}/skye.abcdef/data.3, /home/{}/x: No space left", self.user));
        phase.label = format!("{} t8", self.user);
        phase.seen.monitor = Some(MonitorRecord {
            command: format!("iostat {}", self.host),
            output_file: Some(format!("{}.txt", self.label)),
            exit_code: Some(0),
            signal: None,
            last_signal: None,
        });
        let client = sample::client(&name, phase);
        phase.hosts.push(client);
        let limit = format!("/sys/fs/cgroup/{}.slice/{}/io.max", self.user, self.group);
        let source = |source: &str| Finding::OperationsLimitChanged {
            source: source.into(),
            device: "vda".into(),
            first_ops_per_second: model::figure::OpsPerSecond(5.0),
            last_ops_per_second: model::figure::OpsPerSecond(7.0),
        };
        phase.judged.notes.push(wording::note(source(&limit), []));
        let charged = Finding::ChargedMore {
            excess: Share(0.5),
            mount_point: format!("/srv/{}", self.directory).as_str().into(),
        };
        phase.judged.notes.push(wording::note(charged, []));
        let first = format!("open {path} as {}", self.user);
        let unlike =
            Finding::UnlikeLoad { unlike: Count(1), operations: Count(2), first: first.as_str().into() };
        phase.judged.notes.push(wording::note(unlike, []));
        let id = "0b1f9a52-61a3-4f0e-9f5c-0123456789ab";
        let unknown = Finding::TargetIsMemory { name: format!("{id} of {}", self.host).as_str().into() };
        phase.judged.notes.push(wording::note(unknown, []));
        let device = Finding::WriteCacheHeld {
            device: format!("{}-data", self.volume).as_str().into(),
            written_bytes: Bytes(7),
        };
        phase.judged.notes.push(wording::note(device, []));
    }
}

fn named_run(secrets: &Secrets) -> Run {
    let mut run = sample::run();
    secrets.put_into(&mut run);
    run
}

fn secrets() -> Secrets {
    let words = [
        "zuse7",
        "payroll",
        "grace",
        "S4EWNF0M123456",
        "before the move",
        "docker-7f3a",
        "vg-ledger",
        "filer",
    ];
    Secrets::from_words(words.map(String::from))
}

/// Texts of all forms of a run.
fn forms(run: &Run) -> [String; 8] {
    let rows: Vec<_> = (0..run.phases.len()).collect();
    [
        crate::json::write(run),
        crate::csv::write(run),
        crate::csv::long::write(run),
        crate::html::page(run, crate::html::Embed::Nothing),
        crate::openmetrics::write(run),
        crate::markdown::write(run),
        screen(run, Detail::All, &sample::WIDE),
        why(run, &rows, &sample::WIDE),
    ]
}

#[test]
fn no_form_of_an_anonymous_run_has_a_name() {
    let secrets = secrets();
    let run = named_run(&secrets);
    for name in secrets.all() {
        assert!(crate::json::write(&run).contains(name), "{name} is not in the run itself");
    }
    let anonymous = anonymise(&run).unwrap();
    for text in forms(&anonymous) {
        for name in
            secrets.all().into_iter().chain(["192.168.7.9", "10.1.2.3", "0b1f9a52", "two words", "image.raw"])
        {
            assert!(!text.contains(name), "{name}\n{text}");
        }
    }
}

#[test]
fn placeholders_are_the_same_everywhere() {
    let anonymous = anonymise(&named_run(&secrets())).unwrap();
    let environment = &anonymous.environment;
    let texts = [
        &environment.host,
        &environment.target.path,
        &environment.target.mount_point,
        &environment.target.source,
        &environment
            .target
            .device_stack
            .iter()
            .map(|device| device.details.join(", "))
            .collect::<Vec<_>>()
            .join("; "),
        &environment.target.mount_options.join(","),
        &environment.target.notes.join("\n"),
        &environment.hidden_sources.join("\n"),
        &anonymous.command.join(" "),
        &anonymous.plan.preset,
        &anonymous.plan.tests[anonymous.plan.tests.len() - 3..].join(" "),
        &anonymous.plan.notes.join("\n"),
        &anonymous.hosts[0].name,
        &anonymous.hosts[0].environment.host,
        &anonymous.hosts[0].environment.target.source,
        &anonymous.hosts[0].lost.clone().unwrap(),
        &anonymous.tool.warnings.join("\n"),
        &anonymous.phases[0].label,
        &anonymous.phases[0].reason.clone().unwrap(),
        &anonymous.phases[0]
            .judged
            .notes
            .iter()
            .map(|note| note.text.as_str())
            .collect::<Vec<_>>()
            .join("\n"),
    ];
    insta::assert_snapshot!(texts.map(String::as_str).join("\n"));
}

/// Returns the document without its texts.
fn numbers(value: &Value, place: (&str, &str)) -> Value {
    match value {
        Value::String(text) if field(place.0, place.1) == Field::Plain => Value::String(text.clone()),
        Value::String(_) => Value::Null,
        Value::Array(values) => values.iter().map(|value| numbers(value, place)).collect(),
        Value::Object(values) => {
            let inner = values.iter().filter(|(key, _)| *key != "mixes");
            Value::Object(inner.map(|(key, value)| (key.clone(), numbers(value, (place.1, key)))).collect())
        }
        other => other.clone(),
    }
}

#[test]
fn numbers_and_plain_words_stay() {
    for run in [named_run(&secrets()), sample::swept_run(), sample::simulated_run()] {
        let read = |run: &Run| serde_json::from_str::<Value>(&crate::json::write(run)).unwrap();
        let anonymous = anonymise(&run).unwrap();
        assert_eq!(numbers(&read(&anonymous), ("", "run")), numbers(&read(&run), ("", "run")));
    }
}

#[test]
fn kernel_and_common_names_stay() {
    let mut run = sample::run();
    run.environment.target.path = "/dev/nvme0n1".into();
    run.environment.target.mount_point = "/".into();
    run.environment.target.source = "/dev/nvme0n1p2".into();
    run.environment.host = "localhost".into();
    run.tool.warnings =
        vec!["/proc/sys/vm/dirty_ratio, /sys/fs/cgroup/io.max, 3/s, / and /dev/shm/skye.abcdef".into()];
    run.command =
        ["skye", "/dev/nvme0n1", "--size", "10g", "--test", "rw=randread:bs=4k", "--allow", "low-space,busy"]
            .map(String::from)
            .into();
    let anonymous = anonymise(&run).unwrap();
    assert_eq!(anonymous.tool.warnings, run.tool.warnings);
    assert_eq!(anonymous.command, run.command);
    assert_eq!(anonymous.environment, run.environment);
}

#[test]
fn names_in_paths_of_the_kernel_are_replaced() {
    let mut run = sample::run();
    let paths = [
        ("/sys/fs/cgroup/io.max", "/sys/fs/cgroup/io.max"),
        ("/sys/fs/cgroup/payroll.slice/a/io.max", "/sys/fs/cgroup/cgroup-1/io.max"),
        (
            "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device",
            "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device",
        ),
        ("/sys/fs/cgroup/cpu,cpuacct/payroll/cpu.stat", "/sys/fs/cgroup/cpu,cpuacct/cgroup-2/cpu.stat"),
        ("/sys/fs/cgroup/payroll.slice", "/sys/fs/cgroup/cgroup-3"),
        ("/sys/fs/btrfs/0b1f9a52-61a3-4f0e-9f5c-0123456789ab/x", "/sys/fs/btrfs/uuid-1/x"),
        ("/dev/mapper/payroll", "/path-1"),
        ("/dev/sda1", "/dev/sda1"),
        ("/dev/shm/payroll", "/path-2"),
        ("sim:payroll.toml", "sim:device-1"),
    ];
    run.environment.target.mount_point = "/".into();
    let monitored = |path: &str| MonitorRecord {
        command: String::new(),
        output_file: Some(path.into()),
        exit_code: None,
        signal: None,
        last_signal: None,
    };
    let phase = run.phases[0].clone();
    run.phases = Vec::from_iter(paths.map(|(path, _)| {
        let mut phase = phase.clone();
        phase.seen.monitor = Some(monitored(path));
        phase
    }));
    let anonymous = anonymise(&run).unwrap();
    let replaced =
        anonymous.phases.iter().map(|phase| phase.seen.monitor.clone().unwrap().output_file.unwrap());
    assert_eq!(replaced.collect::<Vec<_>>(), paths.map(|(_, expected)| expected));
}

#[test]
fn anonymous_run_is_anonymised_to_itself() {
    let once = anonymise(&named_run(&secrets())).unwrap();
    let names = |run: &Run| {
        (run.environment.host.clone(), run.environment.target.path.clone(), run.phases[0].reason.clone())
    };
    assert_eq!(names(&anonymise(&once).unwrap()), names(&once));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn anonymous_run_has_none_of_any_names(
        words in proptest::array::uniform8("[a-z]{5,9}[0-9]{2}"),
        fill in "[ -~]{0,12}",
    ) {
        let secrets = Secrets::from_words(words);
        let mut run = named_run(&secrets);
        run.phases.truncate(1);
        for name in secrets.all() {
            run.plan.notes.push(format!("{fill} {name} {fill}: {name}"));
        }
        let text = crate::json::write(&anonymise(&run).unwrap());
        // A name by itself is one only where its field has shown it, as labels and hosts have.
        for name in [&secrets.host, &secrets.serial, &secrets.label, &secrets.server] {
            prop_assert!(!text.contains(name.as_str()), "{}\n{}", name, text);
        }
    }

    #[test]
    fn any_run_can_be_anonymised(run in sample::any_run()) {
        let anonymous = anonymise(&run).unwrap();
        prop_assert_eq!(anonymous.phases.len(), run.phases.len());
        prop_assert_eq!(anonymise(&run).unwrap(), anonymous);
    }

    #[test]
    fn hostile_names_do_not_survive(name in "\\PC{4,20}[0-9]x") {
        let mut run = sample::hostile_run();
        run.environment.host = name.clone();
        run.tool.warnings = vec![format!("on {name}, all is well")];
        let anonymous = anonymise(&run).unwrap();
        prop_assert!(!anonymous.environment.host.contains(&name));
        prop_assert!(!printable(&anonymous.tool.warnings[0]).contains(&printable(&name)), "{:?}", anonymous.tool.warnings);
    }
}
