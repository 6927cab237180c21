//! Finds logs of zcav in any text, as far as they differ from the rest.

use model::printable::printable;

use super::log::{DEVICE, HEADING, LOOPS, TOO_FAST};
use super::{Line, Log, Pass, Verb};
pub use crate::bonniepp::Problem;

/// Most characters of foreign text that a problem repeats.
const EXCERPT_CHARS_MAX: usize = 60;
/// Most digits of a number, and most decimals of an offset: no log has more.
const DIGITS_MAX: usize = 18;
const DECIMALS_MAX: usize = 9;

/// Returns the logs of zcav in a text, and a problem for each of their lines that only looks like one of zcav.
///
/// The text may be the stdout of zcav, with or without its stderr, also of several runs. Other lines are skipped. A log
/// begins with its heading. Offsets, rates and times are decimal numbers; `++++` is too fast to be timed.
pub fn read(text: &str) -> (Vec<Log>, Vec<Problem>) {
    let mut reader = Reader::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (index, line) in text.lines().enumerate() {
        reader.line(index + 1, line.trim());
    }
    reader.close();
    (reader.logs, reader.problems)
}

#[derive(Default)]
struct Reader {
    logs: Vec<Log>,
    problems: Vec<Problem>,
    /// Log whose lines follow.
    open: Option<Log>,
    /// Parts of the next log that come before its heading.
    before: Log,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) {
        if line == HEADING {
            self.close();
            self.open = Some(Log { offset_decimals: 2, ..std::mem::take(&mut self.before) });
        } else if let Some(loops) = line.strip_prefix(LOOPS) {
            self.close();
            match parse_integer(loops).and_then(|loops| u32::try_from(loops).ok()) {
                Some(loops) => self.before.loops = Some(loops),
                None => self.problem(number, loops, "a number of passes"),
            }
        } else if let Some(name) = line.strip_prefix(DEVICE) {
            self.close();
            self.before.name = name.to_owned();
        } else if let Some(name) = finished(line) {
            // The line is from stderr. It comes before the log, or in the middle of a log of a single pass.
            if self.open.as_ref().is_some_and(|log| log.loops.is_some()) {
                self.close();
            }
            let log = self.open.as_mut().unwrap_or(&mut self.before);
            name.clone_into(&mut log.name);
        } else if let Some(pass) = summary(line) {
            match self.open.take_if(|log| log.loops.is_none()) {
                Some(mut log) => {
                    log.passes.push(pass);
                    self.logs.push(log);
                }
                None => {
                    self.close();
                    self.before.passes.push(pass);
                }
            }
        } else {
            self.data(number, line);
        }
    }

    fn data(&mut self, number: usize, line: &str) {
        let Some(log) = &mut self.open else { return };
        let fields = line.strip_prefix('#').unwrap_or(line);
        if !fields.starts_with(|first: char| first.is_ascii_digit()) {
            return;
        }
        match parsed(fields) {
            Some((parsed, decimals)) if log.lines.is_empty() || decimals == log.offset_decimals => {
                log.offset_decimals = decimals;
                log.lines.push(parsed);
            }
            _ => self.problem(number, line, "an offset in GiB, a rate in MiB/s or ++++, and seconds"),
        }
    }

    fn problem(&mut self, line: usize, has: &str, expected: &str) {
        let start = printable(&has.chars().take(EXCERPT_CHARS_MAX).collect::<String>());
        let cut = if has.chars().nth(EXCERPT_CHARS_MAX).is_some() { "…" } else { "" };
        self.problems.push(Problem {
            line,
            field: None,
            has: format!("`{start}{cut}`"),
            expected: expected.into(),
        });
    }

    fn close(&mut self) {
        self.logs.extend(self.open.take());
    }
}

/// Parses a line of numbers, and counts the decimals of its offset.
fn parsed(line: &str) -> Option<(Line, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (offset, rate, seconds) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() {
        return None;
    }
    let decimals = offset.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let mib_per_second = if rate == TOO_FAST { None } else { Some(decimal(rate)?) };
    let line = Line { offset_gib: decimal(offset)?, mib_per_second, seconds: decimal(seconds)? };
    (decimals <= DECIMALS_MAX).then_some((line, decimals))
}

/// Parses digits with at most one point.
fn decimal(text: &str) -> Option<f64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = is_number(whole) && is_number(decimals) && text.len() <= DIGITS_MAX;
    if fits { text.parse().ok() } else { None }
}

fn parse_integer(text: &str) -> Option<u64> {
    let is_number = text.len() <= DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Parses "# Read 1024 megs in 0 seconds, 4192 megabytes per second."
fn summary(line: &str) -> Option<Pass> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let ["#", verb, mib, "megs", "in", seconds, "seconds,", rate, "megabytes", "per", "second."] = words[..]
    else {
        return None;
    };
    let verb = match verb {
        "Read" => Verb::Read,
        "Wrote" => Verb::Wrote,
        _ => return None,
    };
    Some(Pass {
        verb,
        mib: parse_integer(mib)?,
        seconds: parse_integer(seconds)?,
        mib_per_second: parse_integer(rate)?,
    })
}

/// Returns the file in "# Finished loop 1, on device /dev/sda at 1:21:08".
fn finished(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("# Finished loop ")?.split_once(", on device ")?;
    rest.rsplit_once(" at ").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_lines_are_reported_and_others_kept() {
        let text = "#block offset (GiB), MiB/s, time\n0.00 5.00 1.000\n0.25 fast 1.000\n0.50 5.00\n#0.75 ++++ 0.1 9\n\
                    0.8 1.00 1.000\nreal 0m2\n\n1.00 5.00 inf\n1.25 6.00 1.000\n";
        let (logs, problems) = read(text);
        assert_eq!((logs.len(), logs[0].lines.len()), (1, 2));
        let lines: Vec<_> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 9]);
        assert!(problems[0].to_string().starts_with("line 3: has `0.25 fast 1.000`, expected an offset"));
        assert_eq!(read("#loops: many\n").1[0].line, 1);
    }

    #[test]
    fn text_without_a_log_is_ignored() {
        for text in ["", "1 2 3\n4 5 6", "# Read a book", "{\"schema\": 1}", "# Finished loop"] {
            assert_eq!(read(text), (vec![], vec![]), "{text}");
        }
    }

    #[test]
    fn several_logs_are_parsed_with_their_names() {
        let one = |name: &str, loops: &str| {
            format!("{name}{loops}#block offset (GiB), MiB/s, time\n0.00 5.00 1.000\n")
        };
        let summary = "# Read 5 megs in 1 seconds, 5 megabytes per second.\n";
        let text = format!(
            "{}{summary}\n\n{}\n{}{summary}",
            one("# device a b\n", ""),
            one("# device c\n", &format!("{summary}{summary}#loops: 2\n")),
            one("# Finished loop 1, on device /at home at 1:21:08\n", ""),
        );
        let (logs, problems) = read(&text);
        assert_eq!(problems, []);
        let summaries: Vec<_> = logs
            .iter()
            .map(|log| (log.name.as_str(), log.passes.len(), log.loops, log.lines.len()))
            .collect();
        assert_eq!(summaries, [("a b", 1, None, 1), ("c", 2, Some(2), 1), ("/at home", 1, None, 1)]);
    }

    fn any_log() -> impl Strategy<Value = Log> {
        let line = (any::<bool>(), 0u64..1 << 30, 0u64..1 << 30).prop_map(|(timed, rate, ms)| Line {
            offset_gib: 0.0,
            mib_per_second: timed.then_some(rate as f64 / 100.0),
            seconds: ms as f64 / 1000.0,
        });
        let pass = (any::<bool>(), 0u64..1 << 40, 0u64..1 << 40, 0u64..1 << 40).prop_map(
            |(read, mib, seconds, mib_per_second)| Pass {
                verb: if read { Verb::Read } else { Verb::Wrote },
                mib,
                seconds,
                mib_per_second,
            },
        );
        let parts = (
            prop::collection::vec(line, 0..9),
            prop::collection::vec(pass, 1..4),
            any::<bool>(),
            prop::sample::select(vec![2usize, 4]),
            "[a-z/]{1,9}",
        );
        parts.prop_map(|(mut lines, mut passes, several, offset_decimals, name)| {
            for (index, line) in lines.iter_mut().enumerate() {
                line.offset_gib = index as f64 / 4.0;
            }
            if !several {
                passes.truncate(1);
            }
            let offset_decimals = if lines.is_empty() { 2 } else { offset_decimals };
            Log { name, loops: several.then_some(passes.len() as u32), passes, lines, offset_decimals }
        })
    }

    proptest! {
        #[test]
        fn written_logs_read_back_unchanged(logs in prop::collection::vec(any_log(), 0..4)) {
            let text: String = logs.iter().map(|log| format!("{}{}\n\n", log.title(), log.text())).collect();
            prop_assert_eq!(read(&text), (logs, vec![]));
        }

        #[test]
        fn any_text_parses_without_panic(text: String) {
            read(&text);
        }

        #[test]
        fn arbitrary_text_after_heading_does_not_panic(
            lines in prop::collection::vec("(#|# Read |# device |#loops: )?[0-9.+ e-]{0,30}( megs in [0-9]* seconds,)?", 0..9)
        ) {
            let (logs, _) = read(&format!("{HEADING}\n{}", lines.join("\n")));
            logs.iter().for_each(|log| drop(log.text()));
        }
    }
}
