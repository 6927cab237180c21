//! `skye ab`: two directories, or one with two settings, measured in turns and compared.

use std::path::Path;
use std::time::{Duration, Instant};

use fleet::Clients;
use fleet::OnLoss;
use model::plan;
use model::request::{Request, Seconds};
use model::run::{Environment, Pairing, Setting};
use model::size::{self, Size};
use model::{Comparison, Machine, Plan, Target};
use observe::Root;
use report::compare::{self, Side};
use report::text;
use run::SessionOptions;

use crate::cli::AbArguments;
use crate::compare_command::{self, effect, reached, show};
use crate::driver::{self, RunOutcome, Setup, Start, Turns};
use crate::exit::{self, Failure};
use crate::fleet_run;
use crate::keeping::SaveTarget;
use crate::live_view::LiveView;
use crate::loads;
use crate::place::ResolvedTarget;
use crate::prepared::{FoundTarget, PreparedRun};
use crate::setting_commands::SettingCommands;
use crate::signals::Interruption;
use crate::{CommandResult, outputs, preset, terminal};

/// Preset that is measured by default.
const PRESET: &str = "quick";
/// Time of each test by default. It is short, because the number of pairs counts.
const TIME: Seconds = Seconds(2.0);
/// Default size of the data set, the same on both sides. It is at most the free space divided by `DATASET_SHARE`.
const DATASET_BYTES: u64 = 1 << 30;
const DATASET_SHARE: u64 = 10;
/// Most bytes that all pairs write together by default: as much as `rigorous`.
const WRITE_LIMIT_BYTES: u64 = 400_000_000_000;
/// Sides, which have equal shares of it.
const SIDES: u64 = 2;
/// Pairs of one block: A B B A, or B A A B.
const BLOCK: u32 = 2;
/// Half width of an interval, as a share of the effect. An interval this narrow excludes 0, or lies within the effect.
const WIDTH_OF_EFFECT: f64 = 0.5;

/// One of the two sides.
struct AbSide {
    name: &'static str,
    target: Target,
    plan: Plan,
}

/// Both sides, planned. Nothing is written yet.
struct PlannedSides {
    sides: [AbSide; 2],
    /// Seed of the order of the turns.
    seed: u64,
    /// Seed of each side.
    seeds: [u64; 2],
    pairs_min: u32,
}

/// Measures both sides, and compares them.
pub fn ab(arguments: &AbArguments) -> CommandResult {
    let effect = effect(arguments.effect, &arguments.gate.fail_on)?;
    let start = Start::now();
    compare_command::check(&arguments.display)?;
    let root = Root::system();
    let machine = driver::machine(&root);
    let (found, interruption) = find_sides(arguments, &root, &machine)?;
    let commands = arguments.commands();
    let limits = Limits::from_arguments(arguments, effect, &found, &machine);
    let (planned, prepared) = PlannedSides::new(arguments, found, &limits, &machine)?;
    let announcement = announcement(&planned.sides, commands.as_ref(), &machine, &limits, planned.pairs_min);
    if arguments.dry_run {
        terminal::print_line(&announcement)?;
        return Ok(exit::DONE);
    }
    arguments.output.as_deref().map_or(Ok(()), outputs::check_directory)?;
    let shows_text = compare_command::is_text(&arguments.display) && !arguments.quiet;
    if shows_text {
        terminal::print_line(&announcement)?;
    }
    let keeping = keeping(arguments);
    let interruption = interruption.map_or_else(Interruption::catch, Ok)?;
    let view = LiveView::with_log(arguments.quiet);
    let (commands, observed) = commands
        .map(|commands| {
            view.preparing("running both commands once");
            begin_commands(commands, &arguments.a, &planned.sides[0].target, &root, &machine, &interruption)
        })
        .transpose()?
        .unzip();
    let (sides, environments) = planned.open(prepared, limits.bytes, observed, &root, &interruption)?;
    if let Some(commands) = commands.as_ref().filter(|_| shows_text) {
        terminal::print_line(&settings_text(commands))?;
    }
    let setup = |environment, side: usize| Setup {
        start: start.clone(),
        seed: planned.seeds[side],
        interruption: interruption.clone(),
        view: view.clone(),
        observer: None,
        gate: None,
        // What both sides share is reported once.
        is_quiet: arguments.quiet || (side > 0 && commands.is_some()),
        monitor: None,
        environment,
        plan: planned.sides[side].plan.clone(),
    };
    let [of_a, of_b] = environments;
    let turns = [setup(of_a, 0), setup(of_b, 1)].map(|setup| Turns::begin(setup, &root, &machine));
    let measured =
        PairMeasurement { start, limits, view, planned: &planned, turns, sides, commands, interruption }
            .measure();
    finish(arguments, measured, &keeping, shows_text)
}

/// Returns the place for both runs.
fn keeping(arguments: &AbArguments) -> SaveTarget {
    let help = "choose a directory with -o DIR, or add --no-save";
    match arguments.no_save {
        true => SaveTarget::Nowhere,
        false => SaveTarget::find(arguments.output.as_deref(), Some(help)),
    }
}

/// Finds the targets of both sides. Where clients measure them, signals are caught, as they end the agents, too.
fn find_sides(
    arguments: &AbArguments,
    root: &Root,
    machine: &Machine,
) -> Result<([FoundTarget; 2], Option<Interruption>), Failure> {
    let clients = fleet_run::clients(&arguments.clients)?;
    if let Some(client) = clients.iter().flatten().find(|client| client.directory.is_some()) {
        let problem =
            format!("cannot measure in the directory of {client}: choose both directories before --hosts");
        return Err(Failure::Refused(problem));
    }
    let interruption = clients.is_some().then(Interruption::catch).transpose()?;
    let find = |path: &Path| match clients.clone().zip(interruption.as_ref()) {
        None => FoundTarget::here(root, machine, path),
        Some((clients, interruption)) => {
            let limits = preset::apply_preset(arguments.work.request(), PRESET)?;
            // The limit is that of all turns of both sides.
            let limit = arguments.work.0.write_limit.unwrap_or(Size::Bytes(WRITE_LIMIT_BYTES)).share(SIDES);
            let limits = Request { write_limit: Some(limit), ..limits };
            let (options, hosts) = (&arguments.clients, Clients::Hosts(clients));
            FoundTarget::on_clients(options, path, hosts, &limits, OnLoss::Stop, interruption)
        }
    };
    // With commands, both sides are one directory.
    let found = [find(&arguments.a)?, find(arguments.b.as_ref().unwrap_or(&arguments.a))?];
    Ok((found, interruption))
}

impl PlannedSides {
    fn new(
        arguments: &AbArguments,
        found: [FoundTarget; 2],
        limits: &Limits,
        machine: &Machine,
    ) -> Result<(Self, [PreparedRun; 2]), Failure> {
        let has_commands = arguments.commands().is_some();
        let mut request = request(arguments, &found, machine)?;
        // The least number of pairs follows from the number of tests.
        let tests = plan::plan(&request, found[0].target(), machine).map_err(Failure::refused)?.phases.len();
        let pairs_min = pairs_min(tests);
        let count = u64::from(found[0].clients());
        let each = limits.bytes / SIDES / u64::from(pairs_min);
        let requested_bytes = request.write_limit.map(|limit| bytes(limit, &found[0], machine));
        request.write_limit =
            Some(Size::Bytes(requested_bytes.map_or(each, |requested_bytes| requested_bytes.min(each))));
        let seed = request.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000));
        // Each side has other data: a store that both share might keep equal data only once. Commands share the files.
        let seeds = [seed, if has_commands { seed } else { seed.wrapping_add(count) }];
        let runs = SIDES * u64::from(pairs_min);
        let planned = |name, side: FoundTarget, seed| {
            let target = side.target().clone();
            let prepared = side.plan(request.clone(), machine, seed);
            let prepared = prepared.map_err(|failure| in_each_run(failure, runs))?;
            Ok::<_, Failure>((AbSide { name, target, plan: prepared.plan.clone() }, prepared))
        };
        let [a, b] = found;
        let ((a, by_a), (b, by_b)) = (planned("A", a, seeds[0])?, planned("B", b, seeds[1])?);
        let sides = [a, b];
        let turn_ns = |side: &AbSide| if has_commands { side.plan.turn().0 } else { side.plan.estimate_ns };
        let block_ns = u64::from(BLOCK) * sides.iter().map(turn_ns).sum::<u64>();
        if Duration::from_nanos(block_ns) > limits.total {
            return Err(Failure::Refused(format!(
                "cannot measure a block of A B B A within {}: it takes {}; use a longer --total, or fewer tests",
                model::numbers::duration(limits.total.as_nanos() as u64),
                model::numbers::format_estimate(block_ns)
            )));
        }
        Ok((Self { sides, seed, seeds, pairs_min }, [by_a, by_b]))
    }

    /// Opens the targets of both sides: one for both if their commands were `observed`, as they share its files.
    fn open(
        &self,
        prepared: [PreparedRun; 2],
        limit_bytes: u64,
        observed: Option<ObservedSides>,
        root: &Root,
        interruption: &Interruption,
    ) -> Result<OpenedSides, Failure> {
        let open = |prepared: PreparedRun, limit_bytes: u64| {
            let options =
                SessionOptions { write_limit_bytes: Some(limit_bytes), ..SessionOptions::default() };
            prepared.open(root, interruption, options)
        };
        let [a, b] = prepared;
        if let Some(observed) = observed {
            let (side, environment) = open(a, limit_bytes)?;
            let with = |(target, settings)| Environment { target, settings, ..environment.clone() };
            return Ok((vec![side], observed.map(with)));
        }
        let (a, of_a) = open(a, limit_bytes / SIDES)?;
        let (b, of_b) = open(b, limit_bytes / SIDES)?;
        Ok((vec![a, b], [of_a, of_b]))
    }
}

/// Those who measure, one for each side or one for both, and the environment of each side.
type OpenedSides = (Vec<Box<dyn run::Side>>, [Environment; 2]);

/// Target and settings of each side, as its command leaves them.
type ObservedSides = [(Target, Vec<Setting>); 2];

/// Runs both commands once, and returns what each leaves.
fn begin_commands(
    commands: [String; 2],
    path: &Path,
    target: &Target,
    root: &Root,
    machine: &Machine,
    interruption: &Interruption,
) -> Result<(SettingCommands, ObservedSides), Failure> {
    let observe = || {
        let Environment { target, settings, .. } = ResolvedTarget::find(root, machine, path)?.environment;
        Ok((target, settings))
    };
    let started = SettingCommands::begin(commands, target, interruption, observe);
    let (commands, [(target_a, of_a), (target_b, of_b)]) =
        started.map_err(|error| match interruption.exit_code() {
            Some(code) => Failure::Ended(interruption.reason(), code),
            None => Failure::refused(error),
        })?;
    let with = |mut settings: Vec<Setting>, side| {
        settings.extend(commands.settings_of(side));
        settings
    };
    let observed = [(target_a, with(of_a, 0)), (target_b, with(of_b, 1))];
    Ok((commands, observed))
}

/// Limits that end the measurement, besides knowing enough.
struct Limits {
    total: Duration,
    bytes: u64,
    effect: f64,
}

impl Limits {
    fn from_arguments(
        arguments: &AbArguments,
        effect: f64,
        found: &[FoundTarget; 2],
        machine: &Machine,
    ) -> Self {
        let requested_bytes = arguments.work.0.write_limit.map(|limit| bytes(limit, &found[0], machine));
        Self {
            total: Duration::from_secs_f64(arguments.total.0),
            bytes: requested_bytes.unwrap_or(WRITE_LIMIT_BYTES),
            effect,
        }
    }
}

fn bytes(size: Size, found: &FoundTarget, machine: &Machine) -> u64 {
    size.resolve(found.free_bytes(), machine.memory_bytes)
}

/// Returns the refusal of a plan that writes too much, for all runs of the sides: they have equal shares of the limit.
fn in_each_run(failure: Failure, runs: u64) -> Failure {
    match &failure {
        Failure::Refused(message) => match message.split_once("; use --write-limit") {
            Some((cause, _)) => Failure::Refused(format!(
                "{cause} in each of {runs} runs, which share --write-limit; raise it, or use a smaller --size or fewer tests"
            )),
            None => failure,
        },
        _ => failure,
    }
}

/// Returns the work for one turn on each side. It is the same on both, so that no data set is chosen by how fast a side
/// is.
fn request(arguments: &AbArguments, found: &[FoundTarget; 2], machine: &Machine) -> Result<Request, Failure> {
    let flags = arguments.work.request();
    let mut request = Request { write_limit: None, repeat: Some(1), probe: Some(false), ..flags };
    if request.preset.is_none() {
        request.time.get_or_insert(TIME);
    }
    let free = found.iter().map(FoundTarget::free_bytes).min().unwrap_or_default();
    let chosen = DATASET_BYTES.min(free / DATASET_SHARE);
    request.size.get_or_insert(Size::Bytes(chosen));
    let mut request = loads::read(preset::with_preset(request, PRESET, found[0].target())?)?;
    // A share of the free space is not the same on both.
    let size = request.size.map(|size| found.iter().map(|side| bytes(size, side, machine)).min());
    request.size = size.flatten().map(Size::Bytes);
    Ok(request)
}

/// Returns the number of pairs that this many tests need, in whole blocks.
fn pairs_min(tests: usize) -> u32 {
    (stats::runs_to_decide(tests, true) as u32).next_multiple_of(BLOCK)
}

/// Returns the settings that differ between the sides.
fn settings_text(commands: &SettingCommands) -> String {
    let style = terminal::style();
    let changes: Vec<_> = commands.differing().map(ToString::to_string).collect();
    let text = match changes.is_empty() {
        true if commands.has_changes() => "nothing: both commands leave the same settings".to_owned(),
        true => "no setting that skye reads: it cannot put back what the commands change".to_owned(),
        false => changes.join(" · "),
    };
    format!("{}\n", text::named_line("differs", &text, &style))
}

/// Returns the announcement of the work, before anything is written.
fn announcement(
    parties: &[AbSide; 2],
    commands: Option<&[String; 2]>,
    machine: &Machine,
    limits: &Limits,
    pairs_min: u32,
) -> String {
    let style = terminal::style();
    let title =
        format!("skye ab · skye {} · {}", env!("CARGO_PKG_VERSION"), report::printable(&machine.host));
    let mut lines = vec![title, String::new()];
    match commands {
        Some(commands) => {
            lines.push(text::target_lines("target", &parties[0].target, &style));
            for (AbSide { name, .. }, command) in parties.iter().zip(commands) {
                lines.push(text::named_line(name, &report::printable(command), &style));
            }
        }
        None => {
            for AbSide { name, target, .. } in parties {
                lines.push(text::target_lines(name, target, &style));
            }
        }
    }
    let turn = |party: &AbSide| match commands {
        Some(_) => party.plan.turn(),
        None => (party.plan.estimate_ns, party.plan.all_clients_bytes_max()),
    };
    let (times_ns, bytes): (Vec<_>, Vec<_>) = parties.iter().map(turn).unzip();
    let (pair_ns, pair_bytes) = (times_ns.iter().sum::<u64>(), bytes.iter().sum());
    let plan = plan_text(&parties[0].plan, commands.is_some(), (pair_ns, pair_bytes), limits, pairs_min);
    lines.push(text::named_line("plan", &plan, &style));
    let devices = parties.each_ref().map(|party| party.target.top_device().map(|device| &device.name));
    if commands.is_none() && devices[0].is_some() && devices[0] == devices[1] {
        let places = "both directories are on one device, and each turn has its files in other places: these are part of \
                      the intervals";
        lines.push(text::named_line("note", places, &style));
    }
    let needed = Duration::from_nanos(pair_ns * u64::from(pairs_min));
    if needed > limits.total {
        let needed = model::numbers::format_estimate(needed.as_nanos() as u64);
        let note = format!("{pairs_min} pairs would take {needed}: use a longer --total, or fewer tests");
        lines.push(text::named_line("note", &note, &style));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns tests, pairs, time and bytes of the work in words. A pair takes `pair_ns` and writes `pair_bytes`.
fn plan_text(
    plan: &Plan,
    has_commands: bool,
    (pair_ns, pair_bytes): (u64, u64),
    limits: &Limits,
    pairs_min: u32,
) -> String {
    let tests =
        if plan.phases.len() == 1 { "1 test".to_owned() } else { format!("{} tests", plan.phases.len()) };
    let by = plan
        .clients
        .map_or(String::new(), |clients| format!(", on {} clients simultaneously", clients.count));
    let files = if has_commands { "the same files" } else { "fresh files" };
    let all_bytes = size::decimal(match has_commands && pair_bytes == 0 {
        true => plan.bytes_to_write_max,
        false => limits.bytes,
    });
    let bytes = match pair_bytes {
        0 => format!("writes {all_bytes} at most"),
        each => format!("up to {} written per pair, {all_bytes} in total", size::decimal(each)),
    };
    format!(
        "{tests} alternating between the sides{by}, on {files}; at least {pairs_min} pairs of {}, until each ratio is \
         within ± {}, for at most {}; {bytes}",
        model::numbers::format_estimate(pair_ns),
        model::numbers::percent(limits.effect * WIDTH_OF_EFFECT),
        model::numbers::duration(limits.total.as_nanos() as u64),
    )
}

struct PairMeasurement<'a> {
    start: Start,
    limits: Limits,
    view: LiveView,
    planned: &'a PlannedSides,
    turns: [Turns; 2],
    /// Those who measure: one for each side, or one for both.
    sides: Vec<Box<dyn run::Side>>,
    /// Commands before the measurements of the sides.
    commands: Option<SettingCommands>,
    interruption: Interruption,
}

/// Reason why no other block followed.
enum StopReason {
    Known,
    Total,
    WriteLimit,
    Broken,
}

/// Result of the measurement.
struct PairsOutcome {
    pairs: u32,
    enough: StopReason,
    ended: [RunOutcome; 2],
    names: [String; 2],
    effect: f64,
    /// The widest interval at the end.
    known: Option<Width>,
    /// Settings that could not be put back, each with the reason.
    settings_left: Vec<String>,
}

impl PairMeasurement<'_> {
    /// Measures all tests of a side once. Returns true if another turn makes sense.
    fn turn(&mut self, party: usize, pair: u32, is_laid_out: &mut bool) -> bool {
        let Self { turns, sides, commands, .. } = self;
        let turns = &mut turns[party];
        turns.start(pair);
        let Some(commands) = commands else {
            let side = &mut *sides[party];
            let files = turns.lay_out(side, pair);
            let is_complete = files.is_ok();
            let goes_on = turns.measure(side, pair, files);
            return is_complete && !driver::is_stuck(side) && turns.clear(side) && goes_on;
        };
        if let Err(error) = commands.apply(party) {
            if !self.interruption.is_raised() {
                turns.fail(&error);
            }
            return false;
        }
        let side = &mut *sides[0];
        // The files are laid out once, and both sides use them.
        let files = if *is_laid_out { Ok(()) } else { turns.lay_out(side, pair) };
        *is_laid_out = true;
        turns.measure(side, pair, files)
    }

    /// Measures block after block, until enough is known or a limit is reached.
    fn measure(mut self) -> PairsOutcome {
        let mut random = fastrand::Rng::with_seed(self.planned.seed);
        let mut first = [Vec::new(), Vec::new()];
        let mut pairs = 0;
        let mut longest = Duration::ZERO;
        let mut known = None;
        let mut is_laid_out = false;
        let enough;
        loop {
            let since = Instant::now();
            // Slow drift is the same for both over a block: A B B A, or B A A B.
            let leader = usize::from(random.bool());
            let mut goes_on = true;
            for order in [[leader, 1 - leader], [1 - leader, leader]] {
                if !goes_on {
                    break;
                }
                pairs += 1;
                let progress = self.progress(pairs, known.as_ref());
                for (place, party) in order.into_iter().enumerate() {
                    if goes_on {
                        self.view.preparing(&progress);
                        first[party].push(place == 0);
                        goes_on = self.turn(party, pairs, &mut is_laid_out);
                    }
                }
                known = widest(self.compared().as_ref());
            }
            longest = longest.max(since.elapsed());
            let of_block = self.planned.sides.iter().map(|party| match self.commands {
                Some(_) => u64::from(BLOCK) * SIDES * party.plan.turn().1,
                None => u64::from(BLOCK) * party.plan.bytes_to_write_max,
            });
            let has_time = self.start.at.elapsed() + longest <= self.limits.total;
            let has_bytes = self.sides.iter().zip(of_block).all(|(side, more)| more <= side.left_bytes());
            enough = match () {
                () if !goes_on => StopReason::Broken,
                () if pairs >= self.planned.pairs_min && self.is_goal_met(known.as_ref()) => {
                    StopReason::Known
                }
                () if !has_time => StopReason::Total,
                () if !has_bytes => StopReason::WriteLimit,
                () => continue,
            };
            break;
        }
        self.end(pairs, enough, known, first)
    }

    /// Puts settings back and removes all files. `first` says for each turn of a side if it came first in its pair.
    fn end(
        self,
        pairs: u32,
        enough: StopReason,
        known: Option<Width>,
        first: [Vec<bool>; 2],
    ) -> PairsOutcome {
        let given = self.commands.as_ref().map(|commands| commands.commands().clone());
        // Settings go back before anything else can fail.
        let settings_left = self.commands.map_or_else(Vec::new, SettingCommands::end);
        let names = names(&self.planned.sides);
        let [a, b] = self.turns;
        let mut sides = self.sides.into_iter();
        let (side_a, side_b) = (sides.next(), sides.next());
        // Random, because two comparisons of the same seed that began in the same moment are still two.
        let id = format!("{}-{:016x}", self.start.text, fastrand::u64(..));
        let [first_a, first_b] = first;
        let pairing = |party: usize, first| Pairing {
            id: id.clone(),
            side: self.planned.sides[party].name.into(),
            first,
            command: given.as_ref().map(|commands| commands[party].clone()),
        };
        PairsOutcome {
            pairs,
            enough,
            ended: [a.end(side_a, pairing(0, first_a)), b.end(side_b, pairing(1, first_b))],
            names,
            effect: self.limits.effect,
            known,
            settings_left,
        }
    }

    fn progress(&self, pair: u32, known: Option<&Width>) -> String {
        let known = match known {
            Some(Width { half, row }) => {
                format!(" · {row} within ± {}", model::numbers::percent(*half))
            }
            None => String::new(),
        };
        format!("pair {pair} of at least {}{known}", self.planned.pairs_min)
    }

    fn is_goal_met(&self, known: Option<&Width>) -> bool {
        known.is_some_and(|width| width.half <= goal_half(self.limits.effect))
    }

    fn compared(&self) -> Option<Comparison> {
        let side = |party: usize| {
            let name = self.planned.sides[party].name;
            let pairing = Pairing { id: String::new(), side: name.into(), first: Vec::new(), command: None };
            Side::from_phases(name.into(), self.turns[party].phases(), pairing)
        };
        compare::compare(&[side(0), side(1)], self.limits.effect).ok()
    }
}

/// Returns half of the width, as a logarithm, at which an interval is known well enough.
fn goal_half(effect: f64) -> f64 {
    effect.ln_1p() * WIDTH_OF_EFFECT
}

/// Returns how far the goal was missed, for a sentence; empty if it was reached.
fn missed(effect: f64, known: Option<&Width>) -> String {
    let goal = effect * WIDTH_OF_EFFECT;
    let missed = known.filter(|known| known.half > goal_half(effect));
    missed.map_or(String::new(), |Width { half, row }| {
        let [reached, goal] = [half.exp_m1(), goal].map(model::numbers::percent);
        format!("{row} is within ± {reached}, not ± {goal}: ")
    })
}

/// The widest interval of a ratio.
struct Width {
    /// Reach to either side, as a logarithm.
    half: f64,
    /// Name of the row.
    row: String,
}

/// Returns the widest interval of all rates; `None` as long as one has no interval.
fn widest(comparison: Option<&Comparison>) -> Option<Width> {
    let rates = comparison?.rows.iter().filter(|row| row.measure.is_rate());
    let width = |row: &model::comparison::Row| {
        let change = row.changes.first()?.as_ref()?;
        let half = (change.ci95_high_ratio? / change.ci95_low_ratio?).ln() / 2.0;
        Some(Width { half, row: format!("{} {}", row.name, row.label).trim_end().to_owned() })
    };
    let widths: Option<Vec<_>> = rates.map(width).collect();
    widths?.into_iter().max_by(|one, other| one.half.total_cmp(&other.half))
}

/// Returns the directories as they were given, or letters if both are the same.
fn names(parties: &[AbSide; 2]) -> [String; 2] {
    let [a, b] = parties.each_ref().map(|party| party.target.path.clone());
    if a == b { parties.each_ref().map(|party| party.name.to_owned()) } else { [a, b] }
}

/// Reports failures, saves both runs, and shows the comparison.
fn finish(
    arguments: &AbArguments,
    measured: PairsOutcome,
    keeping: &SaveTarget,
    shows_text: bool,
) -> CommandResult {
    let mut code = report_failures(&measured);
    let interruption = measured.ended[0].interruption.clone();
    if measured.ended[0].reader_is_gone() {
        return Ok(exit::DONE);
    }
    let ended_text = measured.ended_text();
    let PairsOutcome { ended, names, effect, .. } = measured;
    let mut saved = Vec::new();
    let named = names.into_iter().zip(ended).map(|(name, RunOutcome { run, .. })| {
        let mut file = String::new();
        if !run.phases.is_empty() && !interruption.is_repeated() {
            match keeping.keep(&run, None) {
                Ok(Some(path)) => {
                    file = path.display().to_string();
                    saved.push(path);
                }
                Ok(None) => {}
                Err(message) => {
                    terminal::error(&message);
                    code = exit::worse(code, exit::FAILED);
                }
            }
        }
        (name, [(file, run)])
    });
    let named: Vec<_> = named.collect();
    let sides: Vec<_> =
        named.iter().map(|(name, documents)| Side::from_runs(name.clone(), documents)).collect();
    let comparison = match compare::compare(&sides, effect) {
        Ok(comparison) => comparison,
        Err(_) if interruption.is_raised() => return Ok(interruption.exit_code().unwrap_or(code)),
        Err(_) => {
            let problem = "no test has a result on both sides: nothing can be compared";
            return Err(Failure::Failed(problem.into()));
        }
    };
    let runs: Vec<_> = named.into_iter().map(|(_, documents)| documents.map(|(_, run)| run).into()).collect();
    show(&comparison, &runs, &arguments.display)?;
    if shows_text {
        let style = terminal::style();
        let mut lines = vec![text::named_line("ended", &ended_text, &style)];
        if !saved.is_empty() {
            let names: Vec<_> =
                saved.iter().map(|path| path.file_name().unwrap_or_default().to_string_lossy()).collect();
            lines.push(text::named_line("saved", &names.join(" and "), &style));
        }
        terminal::print_line(&format!("\n{}", lines.join("\n")))?;
    }
    if code == exit::DONE && !interruption.is_raised() {
        code = reached(&comparison, &arguments.gate);
    }
    Ok(interruption.exit_code().unwrap_or(code))
}

/// Says on stderr what failed on either side. Returns the exit code so far.
fn report_failures(measured: &PairsOutcome) -> u8 {
    let PairsOutcome { ended, settings_left, .. } = measured;
    settings_left.iter().for_each(|left| {
        terminal::error(&format!("cannot put a setting back: {}", report::printable(left)));
    });
    let is_whole = ended.each_ref().map(RunOutcome::report_failures) == [true, true];
    // The same signal ended both.
    let left = |ended: &&RunOutcome| (ended.is_closing(), ended.left.len());
    ended.iter().rev().max_by_key(left).into_iter().for_each(RunOutcome::report_signal);
    if ended.iter().any(|ended| ended.run.phases.iter().any(driver::is_damaged)) {
        return exit::DAMAGED;
    }
    if is_whole && settings_left.is_empty() { exit::DONE } else { exit::FAILED }
}

impl PairsOutcome {
    /// Returns the number of pairs, and why no other followed, in words.
    fn ended_text(&self) -> String {
        let missed = || missed(self.effect, self.known.as_ref());
        let why = match self.enough {
            StopReason::Known => {
                let goal = model::numbers::percent(self.effect * WIDTH_OF_EFFECT);
                format!("every ratio is within ± {goal}")
            }
            StopReason::Total => format!("{}another A B B A would exceed --total", missed()),
            StopReason::WriteLimit => format!("{}another A B B A would exceed --write-limit", missed()),
            StopReason::Broken => "a side failed".into(),
        };
        let pairs = if self.pairs == 1 { "1 pair".to_owned() } else { format!("{} pairs", self.pairs) };
        format!("after {pairs}: {why}")
    }
}
