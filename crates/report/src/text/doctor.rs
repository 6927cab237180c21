//! `skye doctor`: the examined machine, a line for each check, and the conclusion.

use std::collections::{BTreeMap, BTreeSet};

use model::health::{Check, Severity};
use model::holding::{Contents, DeviceUsage, Part};
use model::numbers::latency;
use model::run::{Environment, HostRecord};
use model::size;

use super::preamble::environment_facts;
use super::style::{RED, Style, YELLOW, paint};
use super::wrap::{allow_breaks, field, with_units, wrap};
use crate::printable;

/// Columns before a finding: two blanks, the state, the name of the check.
const INDENT: usize = 21;
/// Prefix of advice, and the blanks before its further lines.
const ARROW: &str = "→ ";
const ADVICE_INDENT: &str = "  ";

/// Lists what the checks examine: target, devices, host.
pub fn environment_summary(environment: &Environment, style: &Style) -> String {
    let lines: Vec<_> =
        environment_facts(environment).into_iter().map(|(name, text)| field(name, &text, style)).collect();
    style.finish(lines.join("\n"))
}

/// Lists the identity of a block device, its contents and its users.
pub fn holding(holding: &DeviceUsage, style: &Style) -> String {
    let uses = holding.uses();
    let link = holding
        .link
        .as_ref()
        .map(|link| format!("{}, {}/s", link.name, size::decimal(link.bytes_per_second)));
    let state = (!holding.state.is_empty()).then(|| holding.state.join(", "));
    let lines = [
        ("serial", Some(identity(holding))),
        ("link", link.map(|link| printable(&link))),
        ("state", state.map(|state| printable(&state))),
        ("holds", Some(contents(&holding.parts))),
        ("used by", Some(if uses.is_empty() { "nobody".into() } else { printable(&uses.join(", ")) })),
    ];
    let known = lines.into_iter().filter_map(|(name, text)| Some(field(name, &text?, style)));
    style.finish(known.collect::<Vec<_>>().join("\n"))
}

fn identity(holding: &DeviceUsage) -> String {
    let [serial, wwn] = [&holding.serial, &holding.wwn].map(|word| word.as_ref().map(|word| printable(word)));
    match (serial, wwn) {
        (Some(serial), Some(wwn)) => format!("{serial}, WWN {wwn}"),
        (Some(serial), None) => serial,
        (None, Some(wwn)) => format!("none, WWN {wwn}"),
        (None, None) => {
            let id = holding.ids().into_iter().next();
            let id = id.map_or_else(|| "it has no ID".to_owned(), |id| format!("its ID is {id}"));
            let others = printable(&holding.same_size.join(", "));
            let why = if others.is_empty() { others } else { format!(" (same size: {others})") };
            format!("none, and no WWN; {id}{why}")
        }
    }
}

/// Lists the signature on each part, and partitions without one. Unreadable parts are reported once.
fn contents(parts: &[Part]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for part in parts {
        let name = format!("{} ({})", printable(&part.name), size::decimal(part.size_bytes));
        let text = match &part.contents {
            Contents::Signature(signature) => format!("{name}: {}", printable(signature)),
            Contents::Nothing if part.is_partition => format!("{name}: no signature known to blkid"),
            Contents::Unreadable(reason) => format!("unknown: {}", printable(reason)),
            Contents::Nothing | Contents::NotRead => continue,
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.is_empty() { "no signature known to blkid".into() } else { texts.join(", ") }
}

/// Renders a line for each check that a reader would miss, and the conclusion.
pub fn doctor(checks: &[Check], style: &Style) -> String {
    let visible = checks.iter().filter(|check| wording::fitness::is_worth_a_line(check));
    let lines: Vec<_> = visible.map(|check| line(check, style)).collect();
    style.finish(format!("{}\n\n{}", lines.join("\n"), conclusion(checks, style)))
}

/// A client of a run, with the fitness of its machine.
pub struct ClientChecks {
    /// The client.
    pub host: HostRecord,
    /// Its fitness.
    pub checks: Vec<Check>,
    /// Number of its directory, which is equal for clients with a shared directory; `None` if it was not checked.
    pub shares: Option<usize>,
}

/// Renders each client with its problems, those of this machine, and the clients that share a directory.
pub fn doctor_of_clients(clients: &[ClientChecks], here: &[Check], style: &Style) -> String {
    let mut lines = Vec::new();
    for (index, client) in clients.iter().enumerate() {
        lines.push(format!("  {}", client_line(client)));
        // Clients of one machine list its problems once.
        let host = |client: &ClientChecks| client.host.environment.host.clone();
        if clients
            .get(index + 1)
            .is_some_and(|next| host(next) == host(client) && next.checks == client.checks)
        {
            continue;
        }
        // Confirmed data that a crash loses is no noise of a machine, so a note is enough.
        let is_listed = |check: &&Check| {
            check.severity >= Severity::Warn || check.severity == Severity::Note && check.name == "durable"
        };
        lines.extend(client.checks.iter().filter(is_listed).map(|check| line(check, style)));
    }
    let problems = here.iter().filter(|check| check.severity >= Severity::Warn);
    lines.extend(problems.map(|check| line(check, style)));
    lines.push(String::new());
    let versions: BTreeSet<_> = clients.iter().map(|client| &client.host.skye_version).collect();
    if versions.len() > 1 {
        lines.push("  The clients have different versions of skye.".to_owned());
    }
    lines.extend(sharing(clients).map(|sentence| format!("  {sentence}")));
    let fit =
        clients.iter().filter(|client| client.checks.iter().all(|check| check.severity < Severity::Warn));
    lines.push(match (fit.count(), clients.len()) {
        (fit, all) if fit == all => "  All clients are fit to measure.".to_owned(),
        (fit, all) => format!("  {fit} of {all} clients are fit to measure without a warning."),
    });
    style.finish(lines.join("\n"))
}

/// One line about a client: its program, its target and its clock.
fn client_line(client: &ClientChecks) -> String {
    let HostRecord { name, skye_version, environment, clock, .. } = &client.host;
    let target = &environment.target;
    let mut parts = vec![
        format!("skye {skye_version}"),
        format!("{}, {} free", target.file_system, size::decimal(target.space.free_bytes)),
    ];
    if let Some(clock) = clock {
        let offset = latency(clock.offset_ns.unsigned_abs());
        let sign = if clock.offset_ns < 0 { "-" } else { "+" };
        parts.push(format!("clock {sign}{offset} ± {}", latency(clock.bound_ns)));
        parts.push(format!("round trip {}", latency(clock.round_trip_ns)));
    }
    format!("{:<12} {}", printable(name), printable(&parts.join(" · ")))
}

/// Lists the clients that share a directory; `None` if it was not checked.
fn sharing(clients: &[ClientChecks]) -> Option<String> {
    let mut groups: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for client in clients {
        groups.entry(client.shares?).or_default().push(printable(&client.host.name));
    }
    let (shared, alone): (Vec<_>, Vec<_>) = groups.into_values().partition(|names| names.len() > 1);
    let all = |groups: Vec<Vec<String>>| groups.iter().map(|names| names.join(", ")).collect::<Vec<_>>();
    match (&shared[..], &alone[..]) {
        ([], [] | [_]) => None,
        ([_], []) => Some("All clients share one directory.".to_owned()),
        ([], _) => Some("Each client has a separate directory.".to_owned()),
        (_, []) => Some(format!("Clients that share a directory: {}.", all(shared).join("; "))),
        _ => {
            let (shared, alone) = (all(shared).join("; "), all(alone).join(", "));
            Some(format!("Clients that share a directory: {shared}. With a separate one: {alone}."))
        }
    }
}

/// Renders the finding of a check, and below it the advice.
fn line(check: &Check, style: &Style) -> String {
    let width = style.paragraph() - INDENT;
    // Characters that cannot be shown are replaced before lines are broken, because replacements may be longer.
    let wrapped = |text: &str, width: usize| wrap(&with_units(&style.foreign(text)), width);
    let mut lines = wrapped(&check.found, width);
    if let Some(advice) = &check.advice {
        for (index, line) in wrapped(advice, width - ADVICE_INDENT.len()).iter().enumerate() {
            lines.push(format!("{}{line}", if index == 0 { ARROW } else { ADVICE_INDENT }));
        }
    }
    let state = paint(colour(check.severity), &format!("{:<5}", word(check.severity)));
    let mut rendered = format!("  {state}  {:<12}{}", check.name, lines[0]);
    for line in &lines[1..] {
        rendered.push_str(&format!("\n{:INDENT$}{line}", ""));
    }
    rendered
}

/// The state as a word: colour only repeats it.
fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Pass => "fine",
        Severity::Note => "note",
        Severity::Warn => "warn",
        Severity::Fail => "unfit",
    }
}

fn colour(severity: Severity) -> anstyle::Style {
    match severity {
        Severity::Pass | Severity::Note => anstyle::Style::new(),
        Severity::Warn => YELLOW,
        Severity::Fail => RED,
    }
}

/// Says in a line if this machine is fit to measure on.
fn conclusion(checks: &[Check], style: &Style) -> String {
    let named = |severity| {
        let mut names: Vec<_> = checks
            .iter()
            .filter(|check| check.severity == severity)
            .map(|check| check.name.clone())
            .collect();
        names.dedup();
        (names.len(), names.join(", "))
    };
    let (unfit, warned) = (named(Severity::Fail), named(Severity::Warn));
    let text = match (unfit, warned) {
        ((0, _), (0, _)) => "fit to measure here".to_owned(),
        ((0, _), (1, names)) => format!("fit, but 1 problem affects results: {names}"),
        ((0, _), (count, names)) => format!("fit, but {count} problems affect results: {names}"),
        ((1, name), _) => {
            let mut unfit = checks.iter().filter(|check| check.severity == Severity::Fail);
            format!("not fit: {}", unfit.next().map_or(name, |check| printable(&check.found)))
        }
        ((count, names), _) => format!("not fit, for {count} reasons: {names}"),
    };
    wrap(&style.finish(with_units(&text)), style.paragraph() - 2)
        .iter()
        .map(|line| format!("  {}", allow_breaks(line)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use model::run::ClockRecord;
    use model::target::Link;

    fn check(severity: Severity, name: &'static str, found: &str, advice: Option<&str>) -> Check {
        Check { name: name.into(), severity, found: found.into(), advice: advice.map(str::to_owned) }
    }

    fn sound() -> Vec<Check> {
        vec![
            check(Severity::Pass, "storage", "xfs on nvme0n1p2, a device of this machine", None),
            check(Severity::Pass, "clock", "tsc, 24 ns per read", None),
            check(
                Severity::Note,
                "host",
                "kvm",
                Some("caches and limits outside of it affect results and are not visible here"),
            ),
        ]
    }

    fn suspect() -> Vec<Check> {
        let mut checks = sound();
        checks.push(check(
            Severity::Warn,
            "other I/O",
            "foreign I/O on nvme0n1: 12.3 MB/s, busy 31 % of the time",
            Some("measure when it is quiet"),
        ));
        checks.push(check(
            Severity::Warn,
            "heat",
            "nvme0n1 is at 81 °C, and throttles at 83 °C",
            Some("let it cool down, or improve the airflow"),
        ));
        checks
    }

    fn unfit() -> Vec<Check> {
        let mut checks = suspect();
        checks.insert(
            0,
            check(
                Severity::Fail,
                "storage",
                "tmpfs is in memory: results here do not measure storage",
                Some("choose a directory on a disk"),
            ),
        );
        checks
    }

    fn part(name: &str, contents: Contents, uses: &[&str]) -> Part {
        Part {
            name: name.into(),
            size_bytes: 500_000_000_000,
            is_partition: name != "sda",
            uses: uses.iter().map(|use_| (*use_).into()).collect(),
            contents,
        }
    }

    #[test]
    fn device_is_listed_with_contents_and_users() {
        let table = Contents::Signature("gpt partition table".into());
        let data = Contents::Signature("ext4 \"da\x1b[31mta\"".into());
        let parts = vec![
            part("sda", table, &[]),
            part("sda1", data, &["is mounted at /srv"]),
            part("sda2", Contents::Nothing, &[]),
        ];
        let serial = Some("S4EWNF0M".to_owned());
        let full = DeviceUsage {
            serial,
            wwn: Some("naa.5002538e".into()),
            link: Some(Link { name: "PCIe 3.0 x4".into(), bytes_per_second: 3_938_000_000 }),
            state: vec!["live".into(), "2 commands have failed".into()],
            size_bytes: 1,
            parts,
            ..DeviceUsage::default()
        };
        let listing = |of: &DeviceUsage| sample::plain(&holding(of, &sample::WIDE));
        let text = listing(&full).split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "serial S4EWNF0M, WWN naa.5002538e link PCIe 3.0 x4, 3.94 GB/s state live, 2 commands have failed",
            "holds sda (500 GB): gpt partition table, sda1 (500 GB): ext4",
            "sda2 (500 GB): no signature known to blkid",
            "used by sda1 is mounted at /srv",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains('\x1b'), "{text:?}");
        let empty = DeviceUsage {
            size_bytes: 4096,
            parts: vec![part("sda", Contents::Nothing, &[])],
            ..DeviceUsage::default()
        };
        assert_eq!(
            listing(&empty),
            "  serial   none, and no WWN; its ID is 4096\n  holds    no signature known to blkid\n  used by  nobody"
        );
        let hidden = Contents::Unreadable("Permission denied".into());
        let unread =
            DeviceUsage { parts: vec![part("sda", hidden.clone(), &[]), part("sda1", hidden, &[])], ..empty };
        assert!(listing(&unread).contains("holds    unknown: Permission denied\n"), "{}", listing(&unread));
    }

    fn plain_text(checks: &[Check], style: &Style) -> String {
        sample::plain(&doctor(checks, style))
    }

    #[test]
    fn examined_machine_and_target() {
        let environment = sample::environment(sample::mapped());
        insta::assert_snapshot!(sample::plain(&environment_summary(&environment, &sample::WIDE)));
    }

    #[test]
    fn fit_machine_report_snapshot() {
        insta::assert_snapshot!(plain_text(&sound(), &sample::WIDE));
    }

    #[test]
    fn fit_machine_with_warnings() {
        insta::assert_snapshot!(plain_text(&suspect(), &sample::WIDE));
        let one = &suspect()[..4];
        assert!(plain_text(one, &sample::WIDE).ends_with("  fit, but 1 problem affects results: other I/O"));
    }

    #[test]
    fn unfit_machine_report_snapshot() {
        insta::assert_snapshot!(plain_text(&unfit(), &sample::WIDE));
        let mut two = unfit();
        two.push(check(Severity::Fail, "plan", "refused: no room", None));
        assert!(plain_text(&two, &sample::WIDE).ends_with("  not fit, for 2 reasons: storage, plan"));
    }

    #[test]
    fn unfit_machine_on_narrow_ascii_terminal() {
        let text = plain_text(&unfit(), &Style { has_unicode: false, ..sample::NARROW });
        assert!(text.is_ascii());
        insta::assert_snapshot!(text);
    }

    #[test]
    fn state_is_a_word_with_colour() {
        let text = doctor(&unfit(), &sample::WIDE);
        assert!(text.contains("\x1b[31m\x1b[1munfit") || text.contains("\x1b[1m\x1b[31munfit"), "{text:?}");
        assert!(text.contains("\x1b[33mwarn"), "{text:?}");
    }

    #[test]
    fn hostile_text_in_checks_is_escaped() {
        let checks = [check(Severity::Fail, "storage", "a\x1b[2Jb\u{202e}c\nd", Some("e\x07f"))];
        let text = plain_text(&checks, &sample::WIDE);
        assert!(!text.chars().any(|c| c != '\n' && model::printable::affects_display(c)), "{text:?}");
    }

    #[test]
    fn clients_have_one_line_each_with_warnings() {
        let host = |number: u32, name: &str, version: &str, offset_ns: i64| HostRecord {
            client: number,
            name: name.into(),
            skye_version: version.into(),
            environment: sample::environment(sample::nfs()),
            clock: Some(ClockRecord { offset_ns, bound_ns: 24_000, round_trip_ns: 48_000, drift_ns: None }),
            lost: None,
        };
        let hosts = [
            host(0, "ada", "0.1.0", 12_000),
            host(1, "bob#1", "0.1.0", -7_000_000_000),
            host(2, "eve", "0.2.0", 0),
        ];
        let (sound, suspect) = (sound(), suspect());
        let client_lines = |directories: [usize; 3]| -> String {
            let clients: Vec<_> = hosts
                .iter()
                .zip([&sound, &suspect, &sound])
                .zip(directories)
                .map(|((host, checks), number)| ClientChecks {
                    host: host.clone(),
                    checks: checks.clone(),
                    shares: Some(number),
                })
                .collect();
            sample::plain(&doctor_of_clients(&clients, &[], &sample::WIDE))
        };
        insta::assert_snapshot!(client_lines([0, 0, 2]));
        let twice: Vec<_> = (0..2)
            .map(|client| ClientChecks {
                host: host(client, "ada", "0.1.0", 0),
                checks: suspect.clone(),
                shares: None,
            })
            .collect();
        let text = sample::plain(&doctor_of_clients(&twice, &unfit()[..1], &sample::WIDE));
        assert_eq!((text.matches("heat").count(), text.matches("unfit").count()), (1, 1), "{text}");
        assert!(client_lines([1; 3]).contains("All clients share one directory."));
        assert!(client_lines([0, 1, 2]).contains("Each client has a separate directory."));
    }
}
