//! Reads TOML through JSON.
//!
//! Serde makes a copy of its code for each format, and the program reads JSON anyway. So the text of a preset, a device or a
//! mix becomes JSON first. Each key and value has a line there, by which an error leads back to the text.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeFloat, DeInteger, DeTable, DeValue};

use crate::json::FromJson;
use crate::nearest;

/// Reads a text.
///
/// # Errors
/// One sentence with the line, and the nearest known word where the mistake is a word.
pub(crate) fn from_toml<T: FromJson>(text: &str) -> Result<T, String> {
    let (json, lines) = to_json(text)?;
    T::from_json(&json).map_err(|error| {
        let message = error.to_string();
        let suffix = format!(" at line {} column {}", error.line(), error.column());
        let message = message.strip_suffix(&suffix).unwrap_or(&message);
        // A mistake in an element of a list is noticed where the next one begins, before its first character.
        let line = error.line().saturating_sub(usize::from(error.column() == 0));
        let Line { value, table } = lines.get(line).copied().unwrap_or_default();
        if error.is_syntax() {
            // The JSON is sound, so what is missing is the text of a word.
            explain(text, "use a word in quotes", value)
        } else if message.starts_with("missing field ") {
            explain(text, message, table)
        } else {
            explain(text, message, value)
        }
    })
}

/// Returns a text as JSON, and the places of its lines in the text. Lines are counted from 1.
fn to_json(text: &str) -> Result<(String, Vec<Line>), String> {
    let table = DeTable::parse(text)
        .map_err(|error| explain(text, error.message(), error.span().map_or(0, |span| span.start)))?;
    let mut writer = Writer { json: String::new(), lines: vec![Line::default(); 2], problem: None };
    writer.table(table.get_ref(), 0);
    match writer.problem {
        Some((place, problem)) => Err(explain(text, &problem, place)),
        None => Ok((writer.json, writer.lines)),
    }
}

/// Explains what is wrong at a place in a TOML text.
fn explain(text: &str, message: &str, place: usize) -> String {
    let before = text.get(..place).unwrap_or_default();
    let line = 1 + before.matches('\n').count();
    // "unknown field `a`, expected one of `b`, `c`", and the same for variants.
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = quoted.next().filter(|_| message.starts_with("unknown "));
    match unknown.and_then(|word| Some((word, nearest(word, quoted)?))) {
        Some((word, near)) => format!("line {line}: unknown keyword `{word}`, did you mean `{near}`?"),
        None => format!("line {line}: {message}"),
    }
}

/// Places in a TOML text that a line of JSON stands for.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    value: usize,
    /// The table that ends in this line.
    table: usize,
}

/// JSON, and the places of its lines in the TOML text.
struct Writer {
    json: String,
    lines: Vec<Line>,
    /// The first value that JSON does not have: its place, and what is wrong with it.
    problem: Option<(usize, String)>,
}

impl Writer {
    fn begin_line(&mut self, value: usize) {
        self.json.push('\n');
        self.lines.push(Line { value, table: 0 });
    }

    fn table(&mut self, table: &DeTable<'_>, place: usize) {
        self.json.push('{');
        for (index, (key, value)) in table.iter().enumerate() {
            self.json.push_str(if index > 0 { "," } else { "" });
            self.begin_line(key.span().start);
            self.json.push_str(&Value::from(key.get_ref().as_ref()).to_string());
            self.json.push(':');
            self.value(value);
        }
        // A mistake in the last value is noticed after the end of the table. No other table may end in that line.
        if let Some((_, last)) = table.iter().next_back() {
            self.begin_line(last.span().start);
        }
        if let Some(line) = self.lines.last_mut() {
            line.table = place;
        }
        self.json.push('}');
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>) {
        let place = value.span().start;
        self.begin_line(place);
        let scalar = match value.get_ref() {
            DeValue::Table(table) => return self.table(table, place),
            DeValue::Array(values) => return self.array(values),
            DeValue::Boolean(is_set) => Ok(Value::from(*is_set)),
            DeValue::String(text) => Ok(Value::from(text.as_ref())),
            DeValue::Integer(integer) => integer_value(integer)
                .ok_or_else(|| format!("{integer} is out of range; use at most 18 digits")),
            DeValue::Float(float) => {
                float_value(float).ok_or_else(|| format!("{float} is out of range; use a finite number"))
            }
            DeValue::Datetime(date) => Err(format!("`{date}` is no number; use quotes for a text")),
        };
        match scalar {
            Ok(scalar) => self.json.push_str(&scalar.to_string()),
            Err(problem) => _ = self.problem.get_or_insert((place, problem)),
        }
    }

    fn array(&mut self, values: &DeArray<'_>) {
        self.json.push('[');
        for (index, value) in values.iter().enumerate() {
            self.json.push_str(if index > 0 { "," } else { "" });
            self.value(value);
        }
        self.json.push(']');
    }
}

fn integer_value(integer: &DeInteger<'_>) -> Option<Value> {
    let (text, radix) = (integer.as_str(), integer.radix());
    let negative = || i64::from_str_radix(text, radix).ok().map(Value::from);
    u64::from_str_radix(text, radix).ok().map(Value::from).or_else(negative)
}

fn float_value(float: &DeFloat<'_>) -> Option<Value> {
    float.as_str().parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Mix;
    use crate::{Request, SimDevice};

    #[test]
    fn all_kinds_of_values_become_json() {
        let text = "a = 1_000\nb = 0x10\nc = [-1.5, 'x\"y', true]\n[e]\nf = {g = 1e3}\nh = -5\n";
        let (json, _) = to_json(text).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "a": 1000, "b": 16, "c": [-1.5, "x\"y", true], "e": {"f": {"g": 1000.0}, "h": -5}
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn values_that_json_lacks_are_refused() {
        for (value, expected) in [
            ("inf", "inf is out of range; use a finite number"),
            ("1e400", "1e400 is out of range; use a finite number"),
            ("18446744073709551616", "18446744073709551616 is out of range; use at most 18 digits"),
            ("-9223372036854775809", "-9223372036854775809 is out of range; use at most 18 digits"),
            ("0x10000000000000000", "0x10000000000000000 is out of range; use at most 18 digits"),
            ("2026-11-30", "`2026-11-30` is no number; use quotes for a text"),
        ] {
            let problem = to_json(&format!("a = 1\nb = [{value}, nan]")).unwrap_err();
            assert_eq!(problem, format!("line 2: {expected}"));
        }
    }

    #[test]
    fn each_mistake_names_its_own_line() {
        const LATENCY: &str = "latency = { kind = \"fixed\", mean_us = 1 }\n";
        let sim = |text: &str| SimDevice::from_toml(text).unwrap_err();
        let mix = |text: &str| Mix::parse(text).unwrap_err();
        let request = |text: &str| Request::from_toml(text).unwrap_err();
        for (problem, line, expected) in [
            // The last table, whose parts contradict each other.
            (
                sim(&format!("{LATENCY}write_latency = {{ kind = \"fixed\", mean_us = 1, sigma = 1 }}")),
                2,
                "has only",
            ),
            (sim("# one\nlatency = { kind = \"lognormal\", mean_us = 1 }"), 2, "needs mean_us"),
            // One of several elements of a list.
            (
                sim(&format!("{LATENCY}throttles = [\n{{ at_s = 1 }},\n{{ at_s = 2, ops_per_second = 1 }}]")),
                3,
                "no limit",
            ),
            (
                sim(&format!(
                    "{LATENCY}[[throttles]]\nat_s = 1\n[[throttles]]\nat_s = 2\nops_per_second = 1"
                )),
                3,
                "no limit",
            ),
            (request("allow = [\n\"busy\",\n\"bsy\",\n\"busy\"]"), 3, "did you mean `busy`"),
            // A key that is missing belongs to its table.
            (
                sim(&format!("{LATENCY}[cache]\nbytes = 1\nlatency_us = 2\n")),
                2,
                "missing field `drain_bytes_per_second`",
            ),
            (mix("about = \"b\"\nversion = 1\n"), 1, "missing field"),
            // Words without quotes.
            (request("repeat = 1\nengine = 5"), 2, "use a word in quotes"),
        ] {
            assert!(
                problem.starts_with(&format!("line {line}: ")) && problem.contains(expected),
                "{line} {problem}"
            );
        }
    }
}
