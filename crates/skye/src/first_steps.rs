//! First steps: the screens for users who do not know yet what to measure.

use std::ffi::OsString;

use clap::{CommandFactory, ValueEnum};
use model::mix::Mix;
use model::numbers::format_estimate;
use model::plan::WRITE_LIMIT_BYTES;
use model::size;
use model::workload::MixName;
use report::text::{self, Style, hanging, markdown};

use crate::CommandResult;
use crate::cli::{Cli, FamilyCommand, HelpTopic};
use crate::exit;
use crate::{preset, terminal};

/// The language of tests, as a page.
const SPEC: &str = include_str!("../../../docs/spec.md");
/// The description of simulated devices, as a page.
const SIMULATED_DEVICES: &str = include_str!("../../../docs/simulated-devices.md");
/// The formats of a run, as a page.
const FORMATS: &str = include_str!("../../../docs/formats.md");
/// Width of the help of commands.
const HELP_WIDTH: usize = 100;

/// Commands that the list leaves out: one that no user types, and two that the last line of the help names.
const OMITTED_COMMANDS: [&str; 3] = ["agent", "completions", "man"];

/// Width of the names in a list, in columns.
const NAME: usize = 12;

/// `skye` alone: three commands to try, and the presets.
pub fn introduction() -> CommandResult {
    let standard = preset::shipped().find(|(name, ..)| *name == preset::DEFAULT);
    let time = standard
        .and_then(|(_, request, _)| request.total)
        .map_or_else(String::new, |total| format!(", {}", format_estimate(total.as_ns())));
    terminal::print_line(&format!(
        "skye {} measures file systems and the storage under them, and reports what limited every number.

  skye .                       measure the storage under this directory{time}
  skye --preset quick DIR      measure DIR briefly, in well under a minute
  skye doctor DIR              check this machine and DIR for problems that distort results

Presets (--preset NAME, skye presets):
{}
skye creates its own directory in DIR, touches no other file, and removes it at the end.
skye -h lists all commands.",
        env!("CARGO_PKG_VERSION"),
        preset::shipped()
            .take(3)
            .map(|(name, request, _)| line(name, &request))
            .collect::<Vec<_>>()
            .join("\n")
    ))?;
    Ok(exit::DONE)
}

/// `skye presets`
pub fn presets() -> CommandResult {
    let mut lines = Vec::new();
    let (style, below) = (terminal::style(), format!("  {:NAME$} ", ""));
    for (name, request, purpose) in preset::shipped() {
        lines.push(line(name, &request));
        lines.extend([purpose, request.tests.join(" ")].map(|text| hanging(&below, &text, &style)));
    }
    terminal::print_line(&lines.join("\n"))?;
    Ok(exit::DONE)
}

/// Returns the line of a preset: its name, number of tests, longest time, and most bytes that it writes.
fn line(name: &str, request: &model::request::Request) -> String {
    let tests = request.tests.len() + request.tests_where_possible.len();
    let unit = if tests == 1 { "test, " } else { "tests," };
    let time = request.total.map_or("no time limit".to_owned(), |total| format_estimate(total.as_ns()));
    let bytes = match request.write_limit {
        Some(size::Size::Bytes(bytes)) => bytes,
        _ => WRITE_LIMIT_BYTES,
    };
    format!("  {name:NAME$} {tests:2} {unit} {time}, writes up to {}", size::decimal(bytes))
}

/// Returns the refusal of `skye help WORD` for a word that is neither a topic nor a command.
pub fn unknown_topic(words: &[OsString], command: &clap::Command) -> Option<String> {
    let [_, help, word] = words else { return None };
    let word = word.to_str().filter(|word| help == "help" && !word.starts_with('-'))?;
    if command.get_subcommands().any(|known| known.get_name() == word) {
        return None;
    }
    let topics: Vec<_> =
        HelpTopic::value_variants().iter().filter_map(ValueEnum::to_possible_value).collect();
    let topics: Vec<_> = topics.iter().map(clap::builder::PossibleValue::get_name).collect();
    Some(format!(
        "cannot help with `{word}`: the topics are {}, and the commands of skye -h; skye explain knows terms",
        topics.join(", ")
    ))
}

/// Prints the help on a topic.
///
/// # Errors
/// Standard output cannot be written to.
pub fn topic(topic: HelpTopic) -> CommandResult {
    let style = terminal::style();
    let text = match topic {
        HelpTopic::Spec => markdown(SPEC, &style),
        HelpTopic::Sim => markdown(SIMULATED_DEVICES, &style),
        HelpTopic::Csv => [
            text::index(wording::COLUMNS, wording::CSV_RULES, &style),
            text::index(wording::LONG_COLUMNS, wording::CSV_LONG_RULES, &style),
        ]
        .join("\n\n"),
        HelpTopic::Json => markdown(keys(), &style),
        HelpTopic::Prometheus => text::index(
            &report::openmetrics::help(),
            "Labels: host, target, clients, plan (--label, otherwise the preset) and test; of \
             latencies also quantile and step. Files in one directory of the \
             collector need different ones.",
            &style,
        ),
        HelpTopic::Exit => exit_codes(&style),
    };
    terminal::print_line(&text)?;
    Ok(exit::DONE)
}

/// Returns the part of the page about formats that has the keys of JSON.
fn keys() -> &'static str {
    FORMATS.find("## Keys of JSON").map_or("", |at| &FORMATS[at..])
}

fn exit_codes(style: &Style) -> String {
    let rows = wording::exit_codes::all().map(|(code, meaning)| format!("| {code} | {meaning} |\n"));
    markdown(&format!("| exit code | meaning |\n{}", rows.collect::<String>()), style)
}

/// Returns the end of the long help, which is also that of the manual page.
pub fn after_long_help() -> String {
    let codes = exit_codes(&Style { has_unicode: true, width: HELP_WIDTH });
    let codes = anstream::adapter::strip_str(&codes).to_string();
    format!("skye DIR is skye run DIR. skye help spec describes the test language.\n\n{codes}")
}

/// Prints a shipped mix.
///
/// # Errors
/// Standard output cannot be written to.
pub fn mix(name: MixName) -> CommandResult {
    terminal::print_line(Mix::text(name).trim_end())?;
    Ok(exit::DONE)
}

/// Returns the command line with its list of commands: first those that people need, then the programs whose place skye
/// takes.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let family = <FamilyCommand as clap::Subcommand>::augment_subcommands(clap::Command::new("family"));
    let family: Vec<_> = family.get_subcommands().map(|program| program.get_name().to_owned()).collect();
    let is_family = |own: &clap::Command| family.iter().any(|name| name == own.get_name());
    let is_omitted = |own: &clap::Command| OMITTED_COMMANDS.contains(&own.get_name());
    let own = command.get_subcommands().filter(|own| !is_family(own) && !is_omitted(own));
    let about = |own: &clap::Command| own.get_about().map_or_else(String::new, ToString::to_string);
    let own: Vec<_> = own.map(|own| format!("  {:NAME$} {}", own.get_name(), about(own))).collect();
    let list = format!(
        "Commands:\n{}\n\nReplacements for other programs, with their flags:\n  {}",
        own.join("\n"),
        family.join(" ")
    );
    command
        .before_help(list)
        .help_template("{about}\n\n{usage-heading} {usage}\n\n{before-help}{options}{after-help}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_begins_with_what_skye_does() {
        let help = command().render_help().to_string();
        assert!(help.starts_with("Measures") && !help.contains('{'), "{help}");
    }
}
