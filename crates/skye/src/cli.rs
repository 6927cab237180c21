//! The command line: each option declared once, from which help, completions and the manual page come. Options of a
//! request are declared in `model`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum,
    ValueHint,
};
use model::request::{Allow, Flag, FlagValue, Percent, Request, RequestOption, Seconds};
use model::size::Size;
use model::workload::MixName;
use model::{DataVerb, FileVerb, Percentiles, spec};
use report::compare::Limit;

use crate::CommandResult;
use crate::exit::{self, Failure};
use crate::first_steps;
use crate::{terminal, version};

/// skye measures file systems and the storage under them, and reports what limited every number.
#[derive(Debug, Parser)]
#[command(name = "skye", version = version::FULL, about, max_term_width = 100, arg_required_else_help = false)]
#[command(
    after_help = "skye DIR is skye run DIR. More: COMMAND -h, help spec|csv|json|prometheus|exit, completions, man."
)]
#[command(after_long_help = first_steps::after_long_help())]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
    /// Print more: -v remarks, -vv all details, -vvv also each step, on stderr.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure: a preset, or your own tests.
    Run(Box<RunArguments>),
    /// Show a saved run.
    Report(ReportArguments),
    /// Show all details of rows: evidence, experiments, remarks and advice.
    Why(WhyArguments),
    /// Measure two directories alternately, and compare them.
    Ab(Box<AbArguments>),
    /// Compare saved runs: changes with their confidence, and other differences.
    #[command(
        after_help = "A RUN is a file, @ for the last saved run, @-1 for the one before, a saved name or label, or\n\
a file with results of bonnie++, bonnie, GoBonnieGo, zcav or getc_putc. All are compared with the first.\n\
Exit codes: 0 done, 2 a file is not a run or nothing can be compared, 4 a change exceeded --fail-on,\n\
6 --fail-on cannot be decided."
    )]
    Compare(CompareArguments),
    /// List saved runs, which are in $XDG_STATE_HOME/skye/runs or ~/.local/state/skye/runs.
    List(ListArguments),
    /// List presets, with their tests, times and bytes.
    Presets,
    /// Print the command line of skye for one of fio, or list fio's keys.
    Fio {
        /// Keys of fio, as on its command line: --rw=randread --bs=4k --runtime=60.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        keys: Vec<String>,
    },
    /// Explain a limiter, a term or a key of fio; by default, list limiters.
    Explain {
        /// Name in a table or in a document: "page cache", page_cache.
        limiter: Vec<String>,
    },
    /// Check this machine and target for problems that distort results; writes no data.
    #[command(after_help = "Each line is fine, a note, a warning that results will be suspect, or unfit.\n\
It takes about three seconds, with one busy thread. With --hosts, each host creates an empty directory for a\n\
moment, to find out which hosts share one. Exit code 5 if anything is unfit.")]
    Doctor {
        /// Directory to check.
        #[arg(default_value = ".", value_hint = ValueHint::DirPath)]
        directory: PathBuf,
        /// The clients.
        #[command(flatten)]
        clients: ClientArguments,
    },
    /// Measure devices with known limits, and check that skye reports them.
    ///
    /// As root, it sets up loop devices, user-space servers, cgroups and a network namespace, one after the other. That
    /// takes about 12 minutes. It journals each change before making it, and undoes all changes at the end; after a
    /// kill, the next selftest undoes them.
    #[command(
        name = "selftest",
        after_help = "Exit codes: 0 all correct, 5 a limit was missed or wrong, 1 a case failed, nothing was measured
\
or the cleanup failed, 2 refused, 128 + N ended by signal N after the cleanup."
    )]
    SelfTest(SelfTestArguments),
    /// Measure as a client of another skye's run; skye run --hosts starts it automatically.
    ///
    /// It communicates with that skye on stdin and stdout, and ends with it. It writes only below its directory, and no
    /// message raises its limits.
    Agent(AgentArguments),
    /// Remove leftovers of killed runs from a directory.
    Clean {
        /// Directory that was tested.
        #[arg(value_hint = ValueHint::DirPath)]
        directory: PathBuf,
    },
    /// The programs whose place skye takes.
    #[command(flatten)]
    Family(FamilyCommand),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page of skye, or of one of its commands.
    Man {
        /// The command.
        command: Option<String>,
    },
}

/// Programs of the family, each with its own command line; `--help` after the name lists it.
#[derive(Debug, Subcommand)]
pub enum FamilyCommand {
    /// The twelve tests of bonnie++, with its flags, its table and its CSV, and what limited each.
    #[command(name = "bonnie++", disable_help_flag = true)]
    BonniePp(FamilyArguments),
    /// The six tests of bonnie 1.4 or Bonnie-64, with its flags and its table, and what limited each.
    #[command(name = "bonnie", disable_help_flag = true)]
    Bonnie(FamilyArguments),
    /// The three tests of GoBonnieGo, with its flags, its lines and its JSON, and what limited each.
    #[command(name = "gobonniego", disable_help_flag = true)]
    GoBonnieGo(FamilyArguments),
    /// The rate of a device or file over its offset, as in zcav.
    #[command(name = "zcav", disable_help_flag = true)]
    Zcav(FamilyArguments),
    /// Single bytes in eight ways, as in getc_putc.
    #[command(name = "getc_putc", disable_help_flag = true)]
    GetcPutc(FamilyArguments),
    /// A file of random numbers for bonnie++ -Z, as from generate_randfile.
    #[command(name = "generate_randfile", disable_help_flag = true)]
    GenerateRandfile(FamilyArguments),
    /// Show results of bonnie++, of any version, as a page in HTML.
    #[command(name = "bon_csv2html", disable_help_flag = true)]
    CsvToHtml(FamilyArguments),
    /// Show results of bonnie++, of any version, as text.
    #[command(name = "bon_csv2txt", disable_help_flag = true)]
    CsvToTxt(FamilyArguments),
}

/// The words of another program.
#[derive(Debug, Args)]
pub struct FamilyArguments {
    /// Arguments of the program; --help lists them.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "WORDS",
        value_hint = ValueHint::AnyPath
    )]
    pub words: Vec<OsString>,
}

/// Returns the language of tests, in short.
fn spec_help() -> String {
    let on_data = |is_bytes| {
        DataVerb::ALL.iter().filter(move |verb| verb.is_bytes() == is_bytes).map(|verb| verb.word())
    };
    let [data, bytes] = [false, true].map(|is_bytes| on_data(is_bytes).collect::<Vec<_>>().join(" "));
    let files: Vec<_> = FileVerb::ALL.iter().map(|verb| verb.word()).collect();
    format!(
        "A SPEC is VERB[:PATTERN][:QnTm][:KEY[=VALUE]...], for example read:rnd4k:q32t4 or create:t4:files=1m.\n\
         Verbs on data:  {data}, with patterns seqSIZE rndSIZE\n\
         Verbs on bytes: {bytes}\n\
         Verbs on files: {}\n\
         Sizes: 4k is 4096, 4kB is 4000; also 10% of the free space and 2xRAM.",
        files.join(" ")
    )
}

/// Directory and limits of a client.
#[derive(Debug, Args)]
pub struct AgentArguments {
    /// Directory to measure in; or a block device or a file, which is only read.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub dir: PathBuf,
    /// Maximum bytes to write [default: 40GB].
    #[arg(long, value_name = "SIZE")]
    pub write_limit: Option<Size>,
    /// Allow what is refused or warned about by default.
    #[arg(long, value_name = "WHAT")]
    pub allow: Vec<Allow>,
    /// Time without progress after which a call counts as hung [default: 60 s, then 20 s or four times the longest].
    #[arg(long, value_name = "TIME", value_parser = hang_timeout)]
    pub hang_timeout: Option<Duration>,
    /// The process that starts it is its coordinator.
    #[arg(long, hide = true)]
    pub here: bool,
}

/// Clients that make a run together.
#[derive(Debug, Clone, Args)]
pub struct ClientArguments {
    /// Measure on these hosts simultaneously: ada,bob:/mnt/b,user@host*2,node[01-04]. NAME*N is N clients there;
    /// local*N, N on this machine. Threads and depth of a SPEC are per client.
    #[arg(long, value_name = "HOSTS", conflicts_with = "hosts_file")]
    pub hosts: Option<String>,
    /// Read hosts from a file: one list per line, comments after #.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub hosts_file: Option<PathBuf>,
    /// Monitor these hosts during the run: their CPUs, network and NFS server, and the devices below a directory:
    /// nas1:/export. They run no test.
    #[arg(long, value_name = "HOSTS")]
    pub observe: Option<String>,
    /// Program that runs a command on a host and connects its stdin and stdout. Its arguments are the host and the
    /// command; {} places the host elsewhere, as in 'kubectl exec -i {} --' [default: ssh].
    #[arg(long, value_name = "PROGRAM")]
    pub rsh: Option<String>,
    /// Path of skye on other hosts.
    #[arg(long, value_name = "PATH", default_value = "skye")]
    pub remote_skye: String,
    /// Start at most N clients at once.
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub start_at_once: usize,
    /// Do not copy this program to ssh hosts that lack it.
    #[arg(long)]
    pub no_send: bool,
}

impl ClientArguments {
    /// Reads options that stand before the words of another program.
    ///
    /// # Errors
    /// An option is not understood, or lacks its value.
    pub fn from_args(words: &[OsString]) -> Result<Self, String> {
        let program = Self::augment_args(clap::Command::new("skye").no_binary_name(true));
        // Its first paragraph is the problem, and the others are about another command line.
        let to_message = |error: clap::Error| {
            let text = error.to_string();
            text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        };
        let matches = program.try_get_matches_from(words).map_err(to_message)?;
        Self::from_arg_matches(&matches).map_err(to_message)
    }
}

/// `--on-loss`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LossRule {
    /// End the run, and keep the measurements.
    Stop,
    /// Continue with the next test without it.
    Continue,
}

impl From<LossRule> for fleet::OnLoss {
    fn from(rule: LossRule) -> Self {
        match rule {
            LossRule::Stop => Self::Stop,
            LossRule::Continue => Self::Continue,
        }
    }
}

/// Tests, target, and places for the results.
#[derive(Debug, Args)]
#[command(after_help = spec_help())]
pub struct RunArguments {
    /// Directory to measure in; skye creates its own directory there and removes it. Or a block device or a file, which
    /// is only read. Or sim:FILE.toml, a simulated device.
    #[arg(default_value = ".", value_hint = ValueHint::AnyPath)]
    pub target: PathBuf,
    /// The tests.
    #[command(flatten)]
    pub work: WorkArguments<true>,
    /// Replay a load file of dbench in --clients threads, each in its own directory. The same as --test replay:FILE:tN.
    #[arg(long, value_name = "FILE", value_parser = load_name, value_hint = ValueHint::FilePath, conflicts_with = "preset")]
    pub replay: Option<String>,
    /// Threads of --replay [default: 1].
    #[arg(long = "clients", value_name = "N", requires = "replay", value_parser = clap::value_parser!(u32).range(1..=i64::from(spec::CONCURRENCY_MAX)))]
    pub replaying: Option<u32>,
    /// The clients.
    #[command(flatten)]
    pub clients: ClientArguments,
    /// When a client is lost, stop and keep the measurements, or continue without it.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "stop")]
    pub on_loss: LossRule,
    /// Do not sample threads and the system during a test; shows the cost of sampling.
    #[arg(long, hide = true)]
    pub unobserved: bool,
    /// Exit with code 5 if a result is invalid.
    #[arg(long)]
    pub strict: bool,
    /// Run a command such as perf or iostat during each test with sh -c, end it with INT, and save its output with the
    /// run. Variables: SKYE_PHASE, SKYE_SPEC, SKYE_TARGET, SKYE_PID, and SKYE_OUTPUT, a directory for its files.
    #[arg(long, value_name = "CMD", value_parser = NonEmptyStringValueParser::new(), value_hint = ValueHint::CommandString)]
    pub monitor: Option<String>,
    /// Time without progress after which a call counts as hung [default: 60 s, then 20 s or four times the longest].
    #[arg(long, value_name = "TIME", value_parser = hang_timeout)]
    pub hang_timeout: Option<Duration>,
    /// Print the plan as TOML, with estimates, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Save the run as JSON and CSV in this directory instead of the store.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// The forms.
    #[command(flatten)]
    pub forms: FormArguments,
    /// Only results: no title and no plan on stdout, no progress and no warnings on stderr.
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not save the run.
    #[arg(long, conflicts_with_all = ["output", "monitor"])]
    pub no_save: bool,
}

impl RunArguments {
    /// The flags as a request, to be laid over a preset.
    pub fn request(&self) -> Request {
        let mut request = self.work.request();
        let replay = |file: &String| match self.replaying {
            None | Some(1) => format!("replay:{file}"),
            Some(clients) => format!("replay:{file}:t{clients}"),
        };
        request.tests.extend(self.replay.as_ref().map(replay));
        request
    }
}

/// Reads a time of a second or more.
fn hang_timeout(text: &str) -> Result<Duration, String> {
    let time = text.parse::<Seconds>()?;
    if time.0 < 1.0 { Err("the minimum is a second".into()) } else { Ok(Duration::from_secs_f64(time.0)) }
}

/// Checks the name of a load file, which becomes a word of a SPEC.
fn load_name(name: &str) -> Result<String, String> {
    match name.contains(':') || name.trim() != name || name.is_empty() {
        true => Err("a SPEC cannot contain this name; choose one without colons".into()),
        false => Ok(name.to_owned()),
    }
}

/// Flags of a request, as they were given: those of a run, or those that `skye ab` takes as well.
#[derive(Debug)]
pub struct WorkArguments<const IS_RUN_COMMAND: bool>(pub Request);

impl<const IS_RUN_COMMAND: bool> WorkArguments<IS_RUN_COMMAND> {
    fn flags() -> impl Iterator<Item = (&'static RequestOption, &'static Flag)> {
        let command = if IS_RUN_COMMAND { "run" } else { "ab" };
        let options = Request::OPTIONS.iter().filter(move |option| option.commands.contains(&command));
        options.flat_map(|option| option.flags.iter().map(move |flag| (option, flag)))
    }

    /// Tests in words of other tools, each with its translation.
    pub fn translations(&self) -> impl Iterator<Item = (&str, spec::Translation)> {
        self.0.tests.iter().filter_map(|test| Some((test.as_str(), spec::translated(test).ok()??)))
    }

    /// The flags as a request, to be laid over a preset.
    pub fn request(&self) -> Request {
        // The plan refuses a test without a translation.
        let understood = |test: &String| match spec::translated(test) {
            Ok(Some(translation)) => translation.text,
            Ok(None) | Err(_) => test.clone(),
        };
        Request { tests: self.0.tests.iter().map(understood).collect(), ..self.0.clone() }
    }
}

impl<const IS_RUN_COMMAND: bool> Args for WorkArguments<IS_RUN_COMMAND> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(Self::flags().map(|(option, flag)| argument(option, flag)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<const IS_RUN_COMMAND: bool> FromArgMatches for WorkArguments<IS_RUN_COMMAND> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Self(Request::default());
        given.update_from_arg_matches(matches).map(|()| given)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        Self::flags().try_for_each(|(option, flag)| {
            let mut texts = matches.get_many::<String>(flag.name).into_iter().flatten();
            let set = texts.try_for_each(|text| (option.set)(&mut self.0, text));
            set.map_err(|problem| clap::Error::raw(ErrorKind::ValueValidation, problem))
        })
    }
}

/// Returns the argument of a flag. Two flags of one option exclude each other, and a preset excludes `--test`.
fn argument(option: &'static RequestOption, flag: &'static Flag) -> Arg {
    let others = option.flags.iter().map(|other| other.name).filter(|name| *name != flag.name);
    let others = others.chain((flag.name == "preset").then_some("test"));
    let action = if option.is_list { ArgAction::Append } else { ArgAction::Set };
    let help = if flag.help.is_empty() { option.meaning } else { flag.help };
    let argument = Arg::new(flag.name).long(flag.name).help(help.trim_end_matches('.')).action(action);
    let argument = argument.conflicts_with_all(others);
    match flag.value {
        FlagValue::Is(text) => argument.num_args(0).default_missing_value(text),
        FlagValue::Text(form) => {
            let hint = if form.contains("FILE") { ValueHint::FilePath } else { ValueHint::Unknown };
            let checked = |text: &str| (option.set)(&mut Request::default(), text).map(|()| text.to_owned());
            argument.value_name(form).value_hint(hint).value_parser(checked)
        }
        FlagValue::Word(name, words) => {
            let value = |(word, meaning): &(&'static str, &'static str)| {
                PossibleValue::new(*word).help(meaning.trim_end_matches('.'))
            };
            let values = PossibleValuesParser::new(words.iter().map(value));
            argument.value_name(name).value_parser(values).value_delimiter(option.is_list.then_some(','))
        }
    }
}

/// Which known devices to measure.
#[derive(Debug, Args)]
pub struct SelfTestArguments {
    /// List them, with the changes that each makes on this machine, and do nothing.
    #[arg(long, conflicts_with_all = ["clean", "json"])]
    pub list: bool,
    /// Measure only this one; may be repeated.
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Write the results as JSON; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Clean up after a killed selftest, and measure nothing.
    #[arg(long, conflicts_with_all = ["only", "json"])]
    pub clean: bool,
    /// Measure as the user with this ID, on devices that root set up.
    #[arg(long, hide = true, value_name = "UID")]
    pub measure_as: Option<u32>,
    /// Keep all CPUs busy during the measurement.
    #[arg(long, hide = true)]
    pub load: bool,
    /// Seed of their random order.
    #[arg(long, hide = true)]
    pub seed: Option<u64>,
    /// Keep the document of each run in this directory.
    #[arg(long, hide = true, value_name = "DIR")]
    pub keep: Option<PathBuf>,
}

/// How to list saved runs.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Print a line per test and target instead: its rate over all saved runs, and the run at which it changed.
    #[arg(long)]
    pub trend: bool,
}

/// Which saved run to show, and how.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A file (JSON, or a page that contains it), or a saved run: name, label, @ for the last, @-1 for the one before.
    #[arg(default_value = "@", value_name = "RUN", allow_hyphen_values = true, value_hint = ValueHint::FilePath)]
    pub run: String,
    /// The forms.
    #[command(flatten)]
    pub forms: FormArguments,
    /// Write its tables as Markdown; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub markdown: Option<PathBuf>,
    /// Print only the tables, and the reason of each mark.
    #[arg(short, long)]
    pub quiet: bool,
    /// Judge its rows again, by the rules of this version.
    #[arg(long)]
    pub rejudge: bool,
    /// Replace names of hosts, paths, serial numbers, labels and commands by placeholders; all numbers stay.
    #[arg(long)]
    pub anonymous: bool,
}

/// Forms of a run, in files or on stdout.
#[derive(Debug, Args)]
pub struct FormArguments {
    /// Write the run as JSON; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write one CSV line per phase; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Write one CSV line per number of each test, client, operation and call, for statistics programs; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv_long: Option<PathBuf>,
    /// Write a page with charts, which also contains the run; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
    /// Write rates, latencies and limiters as OpenMetrics, for Prometheus' textfile collector; - is stdout.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub openmetrics: Option<PathBuf>,
    /// Percentiles of latencies to show, ascending, at most 8, such as 50,99,99.9,99.99 [default: 50 and 99; in files also
    /// 99.9].
    #[arg(long, value_name = "LIST")]
    pub percentiles: Option<Percentiles>,
    /// Print one line, for chats and monitoring.
    #[arg(long, conflicts_with = "quiet")]
    pub summary: bool,
}

/// A row of a run.
#[derive(Debug, Args)]
pub struct WhyArguments {
    /// A saved run by its name, or as report takes it [default: the last saved run].
    #[arg(value_name = "RUN", allow_hyphen_values = true)]
    pub run: Option<String>,
    /// A row by its number or name, such as read-1m or read-4k-q32 [default: all].
    #[arg(value_name = "ROW")]
    pub row: Option<String>,
}

/// Which two directories to compare, and by what.
#[derive(Debug, Args)]
#[command(
    after_help = spec_help(),
    mut_arg("preset", |arg| arg.help("Preset, or a TOML file with the same keys [default: quick, with 2 s per test]")),
    mut_arg("size", |arg| arg.help("Size of the data set [default: 1 GiB, at most 10 % of the free space of either]")),
    mut_arg("time", |arg| arg.help("Seconds measured per test [default: from the preset, otherwise 2]")),
    mut_arg("label", |arg| arg.help("Your name for both runs")),
    mut_arg("write-limit", |arg| arg.help("Maximum bytes that all pairs may write in total [default: 400GB]"))
)]
pub struct AbArguments {
    /// The first directory, with which the second is compared.
    #[arg(value_name = "DIR_A", value_hint = ValueHint::DirPath)]
    pub a: PathBuf,
    /// The second directory.
    #[arg(value_name = "DIR_B", value_hint = ValueHint::DirPath, required_unless_present = "command_b")]
    pub b: Option<PathBuf>,
    /// Run this command before each measurement of side A, and --b before those of side B. Both measure the same files of
    /// DIR_A. Settings that skye can read are put back at the end.
    #[arg(long = "a", value_name = "COMMAND", requires = "command_b", conflicts_with_all = ["b", "hosts"])]
    pub command_a: Option<String>,
    /// Run this command before each measurement of side B. Short turns (--time 0.25) narrow the interval of a rate that
    /// wanders within seconds.
    #[arg(long = "b", value_name = "COMMAND", requires = "command_a")]
    pub command_b: Option<String>,
    /// The tests on both.
    #[command(flatten)]
    pub work: WorkArguments<false>,
    /// The clients: all measure both directories.
    #[command(flatten)]
    pub clients: ClientArguments,
    /// Ignore changes below this. Pairs are measured until each ratio is known within half of it [default: 3 %].
    #[arg(long, value_name = "PERCENT")]
    pub effect: Option<Percent>,
    /// Total time limit, such as 90s, 20m, 2h; no pair starts that would exceed it.
    #[arg(long, value_name = "TIME", default_value = "30m")]
    pub total: Seconds,
    /// Limits that no change may exceed.
    #[command(flatten)]
    pub gate: GateArguments,
    /// Output of the comparison.
    #[command(flatten)]
    pub display: DisplayArguments,
    /// Print the plan, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Save both runs in this directory instead of the store.
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: Option<PathBuf>,
    /// Only the comparison: no plan on stdout, no progress and no warnings on stderr.
    #[arg(short, long)]
    pub quiet: bool,
    /// Do not save the runs.
    #[arg(long, conflicts_with = "output")]
    pub no_save: bool,
}

impl AbArguments {
    /// Returns the commands of both sides, if there are any.
    pub fn commands(&self) -> Option<[String; 2]> {
        Some([self.command_a.clone()?, self.command_b.clone()?])
    }
}

/// Which runs to compare, and how.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The runs, one side each.
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::FilePath)]
    pub runs: Vec<String>,
    /// Group runs with the same value of KEY, one side for each value. KEY is label, host, kernel, scheduler, mount,
    /// "file system", or any other that a comparison lists.
    #[arg(long, value_name = "KEY")]
    pub by: Option<String>,
    /// Ignore changes below this [default: 3 %].
    #[arg(long, value_name = "PERCENT")]
    pub effect: Option<Percent>,
    /// Limits that no change may exceed.
    #[command(flatten)]
    pub gate: GateArguments,
    /// Output of the comparison.
    #[command(flatten)]
    pub display: DisplayArguments,
}

/// Limits that no change may exceed.
#[derive(Debug, Args)]
pub struct GateArguments {
    /// Exit with code 4 if throughput or p99 changed significantly by more than this, as in 'throughput<-5%' or 'p99>10%';
    /// may be repeated.
    #[arg(long, value_name = "LIMIT", allow_hyphen_values = true)]
    pub fail_on: Vec<Limit>,
    /// Answer instead of exit code 6 where a limit cannot be decided: too few runs, a missing test, an invalid number.
    #[arg(long, value_name = "ANSWER", requires = "fail_on")]
    pub undecided: Option<Undecided>,
}

/// Answer of a gate that cannot decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Undecided {
    /// As if no limit were exceeded.
    Pass,
    /// As if one were exceeded.
    Fail,
}

/// Output of a comparison.
#[derive(Debug, Args)]
pub struct DisplayArguments {
    /// Form to print.
    #[arg(long, value_enum, default_value = "text")]
    pub format: ComparisonFormat,
    /// Also write a page with charts; - is stdout, without other output.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `--format` of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ComparisonFormat {
    /// A table for the terminal.
    Text,
    /// A table for tickets and pull requests.
    Markdown,
    /// A line for each row and side.
    Csv,
    /// Everything, in schema skye.compare/1.
    Json,
    /// A page with charts.
    Html,
}

/// The command by which a run starts a worker on calls of the C library. It is not for users and not declared:
/// completions show what help and the manual page would hide.
pub const STDIO_WORKER: &str = "stdio-worker";

/// The number of the run's process, if it has started this one as its worker.
pub fn parent_of_stdio_worker(words: &[OsString]) -> Option<u32> {
    match words {
        [_, command, parent] if command == STDIO_WORKER => parent.to_str()?.parse().ok(),
        _ => None,
    }
}

/// The command by which the selftest starts this program as the process of a rig; as little for users as the one above.
pub const RIG_SERVER: &str = "rig-server";

/// The words of the rig, if this process is to be one.
pub fn words_of_rig(words: &[OsString]) -> Option<&[OsString]> {
    match words {
        [_, command, rig @ ..] if command == RIG_SERVER && !rig.is_empty() => Some(rig),
        _ => None,
    }
}

/// The words by which a program that becomes another user starts the process that saves its runs.
pub const STORE_SERVER: [&str; 2] = ["store-keeper", "-"];

/// Returns true for the words of [`STORE_SERVER`].
pub fn is_store_server(words: &[OsString]) -> bool {
    matches!(words, [_, rest @ ..] if *rest == STORE_SERVER)
}

/// Returns true for `-v`, `-vv`, … and `--verbose`.
pub fn is_verbose(word: &OsString) -> bool {
    let word = word.to_string_lossy();
    word == "--verbose"
        || word.strip_prefix('-').is_some_and(|v| !v.is_empty() && v.bytes().all(|v| v == b'v'))
}

/// Returns true if the command line has no words but those.
pub fn has_no_arguments(words: &[OsString]) -> bool {
    words.iter().skip(1).all(is_verbose)
}

/// Returns the topic of `skye help spec`, `skye help csv` and the like.
pub fn topic_of_help(words: &[OsString]) -> Option<HelpTopic> {
    let [_, help, topic] = words else { return None };
    HelpTopic::from_str(topic.to_str()?, false).ok().filter(|_| help == "help")
}

/// Topics of the help besides the commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HelpTopic {
    /// The language of tests.
    Spec,
    /// Simulated devices.
    Sim,
    /// Columns of CSV.
    Csv,
    /// Keys of JSON.
    Json,
    /// Metrics for Prometheus.
    Prometheus,
    /// Exit codes.
    Exit,
}

/// Returns the mix of `skye help mix:NAME`.
pub fn mix_of_help(words: &[OsString]) -> Option<MixName> {
    let [_, help, spec] = words else { return None };
    spec.to_str()?.strip_prefix("mix:")?.parse().ok().filter(|_| help == "help")
}

/// The command that is meant by a first word which is neither a command nor anything in the file system, with that word.
pub fn mistyped(words: &[OsString], command: &clap::Command) -> Option<(String, String)> {
    let first = words.iter().skip(1).find(|word| !is_verbose(word))?;
    let word = first.to_string_lossy();
    let is_word = word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '+');
    let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
    if !is_word || word == "help" || names.contains(&word.as_ref()) || std::path::Path::new(first).exists() {
        return None;
    }
    let near = model::nearest(&word, names.iter().copied())?.to_owned();
    Some((word.into_owned(), near))
}

/// `skye DIR` and `skye --preset quick DIR` mean `skye run …`.
pub fn with_default_command(mut words: Vec<OsString>, command: &clap::Command) -> Vec<OsString> {
    let names_command = |word: &OsString| {
        let word = word.to_string_lossy();
        let known = command.get_subcommands().any(|command| command.get_name() == word);
        known || matches!(word.as_ref(), "help" | "-h" | "--help" | "-V" | "--version")
    };
    let first = words.iter().skip(1).find(|word| !is_verbose(word));
    if !first.is_some_and(names_command) {
        words.insert(1.min(words.len()), "run".into());
    }
    words
}

/// The words that start this program as the one that serves the C library's streams.
pub fn stdio_program() -> Vec<OsString> {
    // By its descriptor, so that a program that was replaced meanwhile still starts itself.
    vec!["/proc/self/exe".into(), "stdio-worker".into()]
}

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skye", &mut text);
    terminal::print_bytes(&text)?;
    Ok(exit::DONE)
}

/// Prints the manual page of skye, or of one of its commands.
pub fn man(name: Option<&str>) -> CommandResult {
    let mut command = Cli::command();
    command.build();
    let page = match name {
        None => command,
        Some(name) => {
            let found = command.find_subcommand(name).cloned();
            found.ok_or_else(|| Failure::Refused(format!("there is no command {name}; skye -h lists all")))?
        }
    };
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(page).render(&mut text);
    rendered.map_err(|error| Failure::Failed(format!("cannot render the manual page: {error}")))?;
    terminal::print_bytes(&text)?;
    Ok(exit::DONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = with_default_command(line.split(' ').map(OsString::from).collect(), &Cli::command());
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn command_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn stdio_worker_command_needs_parent_pid() {
        let parent =
            |line: &str| parent_of_stdio_worker(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(parent("skye stdio-worker 77"), Some(77));
        for line in ["skye", "skye stdio-worker", "skye stdio-worker x", "skye run stdio-worker 77"] {
            assert_eq!(parent(line), None, "{line}");
        }
    }

    #[test]
    fn rig_server_and_store_keeper_need_arguments() {
        let of = |line: &str| {
            let words: Vec<_> = line.split(' ').map(OsString::from).collect();
            words_of_rig(&words).map(<[_]>::len)
        };
        assert_eq!(of("skye rig-server disk fs=ext4"), Some(2));
        let keeps = |line: &str| is_store_server(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(
            [keeps("skye store-keeper -"), keeps("skye store-keeper"), keeps("skye")],
            [true, false, false]
        );
        assert_eq!([of("skye"), of("skye rig-server"), of("skye run rig-server disk")], [None; 3]);
    }

    #[test]
    fn directory_without_command_starts_default_run() {
        assert_eq!(words("skye /mnt"), ["skye", "run", "/mnt"]);
        assert_eq!(words("skye --preset quick ."), ["skye", "run", "--preset", "quick", "."]);
        assert_eq!(words("skye list"), ["skye", "list"]);
        assert_eq!(words("skye -v list"), ["skye", "-v", "list"]);
        assert_eq!(words("skye --version"), ["skye", "--version"]);
    }

    /// Returns the commands of a page: lines of its code blocks, and code spans, that begin with `skye `. The flag is true for a
    /// span. A command ends before a comment, a redirection and another command.
    fn commands_of(page: &str) -> Vec<(String, bool)> {
        let mut is_code = false;
        let mut commands = Vec::new();
        for line in page.replace("\\\n", " ").lines() {
            if line.starts_with("```") {
                is_code = !is_code;
            }
            let spans = line.split('`').skip(1).step_by(2).filter(|_| !is_code);
            let whole = line.strip_prefix("$ ").unwrap_or(line);
            let found = spans.chain(Some(whole).filter(|_| is_code));
            let found =
                found.filter_map(|text| text.strip_prefix("sudo ").unwrap_or(text).strip_prefix("skye "));
            let ends = [" #", " >", " |", " &", ";"];
            let cut = |text: &str| {
                let is_unquoted = |at: &usize| text[..*at].matches('\'').count().is_multiple_of(2);
                let found = ends.iter().flat_map(|end| text.match_indices(end)).map(|(at, _)| at);
                text[..found.filter(is_unquoted).min().unwrap_or(text.len())].to_owned()
            };
            // A line of output begins with the name, too, and then has its version or a separator.
            let is_command = |text: &String| !text.contains(" · ") && !text.starts_with(['·', '…', '0']);
            commands.extend(found.map(cut).filter(is_command).map(|text| (text, !is_code)));
        }
        commands
    }

    #[test]
    fn commands_of_pages_are_understood() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let (mut count, mut wrong) = (0, Vec::new());
        for page in
            docs.chain([root.join("README.md")]).filter(|path| path.extension().is_some_and(|e| e == "md"))
        {
            for (command, is_span) in commands_of(&std::fs::read_to_string(&page).unwrap()) {
                let words = shlex::split(&command).unwrap_or_else(|| panic!("{command}"));
                // A variable of the shell with several words.
                let words = words.into_iter().filter(|word| word != "$tests");
                let words: Vec<OsString> =
                    std::iter::once("skye".to_owned()).chain(words).map(OsString::from).collect();
                if topic_of_help(&words).is_some() || mix_of_help(&words).is_some() {
                    continue;
                }
                let definition = Cli::command();
                let found =
                    definition.clone().try_get_matches_from(with_default_command(words.clone(), &definition));
                // A sentence may leave out what a command needs.
                let is_short = |error: &clap::Error| is_span && error.to_string().contains("required");
                let error = found.err().filter(|error| error.exit_code() != 0 && !is_short(error));
                wrong.extend(error.map(|error| format!("{}: skye {command}\n{error}", page.display())));
                let is_test = |pair: &&[OsString]| pair[0] == "--test";
                let tests = words.windows(2).filter(is_test).filter_map(|pair| pair[1].to_str());
                // An ellipsis stands for what the reader chooses.
                let mut tests = tests.filter(|test| !test.contains('…'));
                let problem = tests.find_map(|test| spec::parse(test, &spec::Defaults::default()).err());
                wrong.extend(problem.map(|problem| format!("{}: {problem}", page.display())));
                count += 1;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(count > 50, "{count}");
    }
}
