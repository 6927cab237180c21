//! Cases of the lab: what is built in a guest, what runs there, and what skye must say of it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// Functions that scripts of cases may use; in the guest, they are in `/lab/functions`.
pub const FUNCTIONS: &str =
    concat!(include_str!("../../lab/functions.sh"), "\n", include_str!("../../lab/record.sh"));
/// Limit in seconds of what is around a run.
const SETUP_SECONDS: u32 = 300;
/// Usual limit in seconds of a run.
const SECONDS: u32 = 120;

/// A file of cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<Case>,
}

/// Something built in a guest, with the answer that it must have.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Its name, unique in its file.
    pub name: String,
    /// Its setup in words.
    pub built: String,
    /// Directory of `crates/observe/tests/fixtures` that gets the tree of files that the case records.
    pub fixture: Option<String>,
    /// True if it runs also without `--long`.
    #[serde(default)]
    pub is_short: bool,
    /// Versions of the kernels that can build it; all if empty.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Packages with programs that only this case needs.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Script of a shell that builds it. Each of its commands must succeed.
    #[serde(default)]
    pub setup: String,
    /// Script of a shell whose commands are measured; `measure` in it is `skye run` with a document.
    pub run: String,
    /// Script that takes it down again.
    #[serde(default)]
    pub after: String,
    /// Limit of `run` in seconds.
    #[serde(default = "usual_seconds")]
    pub seconds: u32,
    /// True if skye can remove nothing, because the target no longer works.
    #[serde(default)]
    pub leaves_files: bool,
    /// Exit code of `run`.
    #[serde(default)]
    pub exit: i32,
    /// Values in the document, by JSON pointer.
    #[serde(default)]
    pub equals: BTreeMap<String, Value>,
    /// Values in the document of which one must be there.
    #[serde(default)]
    pub one_of: BTreeMap<String, Vec<Value>>,
    /// Numbers in the document, each with the percentage by which it may differ.
    #[serde(default)]
    pub near: BTreeMap<String, (f64, f64)>,
    /// Texts in the document, or in what the program prints.
    #[serde(default)]
    pub expected_texts: Vec<String>,
    /// Texts that are in neither.
    #[serde(default)]
    pub never: Vec<String>,
}

fn usual_seconds() -> u32 {
    SECONDS
}

/// Answer of a case.
#[derive(Debug)]
pub struct Answer {
    /// Answer of skye: limiter and confidence of each row, or else its exit code.
    pub verdicts: String,
    /// Differences from what it must say; none if it is right.
    pub wrong: Vec<String>,
}

impl Case {
    /// Reads a file of cases.
    ///
    /// # Errors
    /// It is no such file, or two of its cases have one name.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let cases = toml::from_str::<File>(text).context("read cases")?.case;
        for (at, case) in cases.iter().enumerate() {
            let is_new = cases[..at].iter().all(|other| other.name != case.name);
            ensure!(is_new, "two cases are named {}", case.name);
        }
        Ok(cases)
    }

    /// Returns true if a kernel of that version can build it.
    pub fn runs_on(&self, version: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|known| known == version)
    }

    /// Writes the scripts of the case.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir(directory).with_context(|| format!("make {}", directory.display()))?;
        for (name, script) in [("setup", &self.setup), ("run", &self.run), ("after", &self.after)] {
            fs::write(directory.join(name), format!(". /lab/functions\n{script}"))?;
        }
        fs::write(directory.join("seconds"), self.seconds.to_string())?;
        Ok(())
    }

    /// Compares what the guest left in the case's directory with what must be there.
    pub fn judge(&self, directory: &Path) -> Answer {
        let read = |name: &str| {
            let bytes = fs::read(directory.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim().to_owned()
        };
        let status = read("status");
        if status.is_empty() {
            let wrong = format!("its setup failed: {}", read("setup.out"));
            return Answer { verdicts: "–".into(), wrong: vec![wrong] };
        }
        let (printed, document) = (format!("{}\n{}", read("out"), read("err")), read("document.json"));
        let value = serde_json::from_str::<Value>(&document).unwrap_or(Value::Null);
        let mut wrong = self.differences(&value, &format!("{printed}\n{document}"));
        if status != self.exit.to_string() {
            wrong.push(format!("exit code {status}, expected {}; it printed {printed}", self.exit));
        }
        let left = read("left");
        if !left.is_empty() && !self.leaves_files {
            wrong.push(format!("not removed: {left}"));
        }
        Answer { verdicts: verdicts(&value).unwrap_or_else(|| format!("exit code {status}")), wrong }
    }

    fn differences(&self, document: &Value, text: &str) -> Vec<String> {
        let of = |pointer: &str| document.pointer(pointer).unwrap_or(&Value::Null);
        let mut wrong = Vec::new();
        for (pointer, value) in &self.equals {
            if of(pointer) != value {
                wrong.push(format!("{pointer} is {}, expected {value}", of(pointer)));
            }
        }
        for (pointer, values) in &self.one_of {
            if !values.contains(of(pointer)) {
                wrong.push(format!("{pointer} is {}, expected one of {values:?}", of(pointer)));
            }
        }
        for (pointer, (value, percent)) in &self.near {
            let is = of(pointer).as_f64().unwrap_or(f64::NAN);
            // NaN is near nothing.
            let is_near = (is - value).abs() <= value * percent / 100.0;
            if !is_near {
                wrong.push(format!("{pointer} is {is}, expected {value} ± {percent} %"));
            }
        }
        wrong.extend(
            self.expected_texts
                .iter()
                .filter(|words| !text.contains(*words))
                .map(|words| format!("no {words:?}")),
        );
        wrong.extend(
            self.never.iter().filter(|words| text.contains(*words)).map(|words| format!("{words:?}")),
        );
        wrong
    }
}

/// Limiters of all rows, each with its confidence.
fn verdicts(document: &Value) -> Option<String> {
    let of = |row: &Value| {
        let verdict = &row["verdict"];
        Some(format!("{} ({})", verdict["limiter"].as_str()?, verdict["confidence"].as_str()?))
    };
    let rows: Vec<_> = document["phases"].as_array()?.iter().filter_map(of).collect();
    (!rows.is_empty()).then(|| rows.join(", "))
}

/// Script of a guest that runs the cases in its numbered directories, one after the other.
pub fn script() -> String {
    format!(
        r#"cp /lab/skye /tmp/skye
export SKYE=/tmp/skye
for case in /lab/[0-9]*; do
  cd "$case"
  echo "lab: $case" > /dev/console
  if timeout {SETUP_SECONDS} sh -e ./setup > setup.out 2>&1 < /dev/null; then
    timeout "$(cat seconds)" sh ./run > out 2> err < /dev/null
    echo $? > status
    find /mnt -maxdepth 3 -name 'skye.*' > left 2> /dev/null
  fi
  timeout {SETUP_SECONDS} sh ./after > after.out 2>&1 < /dev/null
done
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
[[case]]
name = "one"
built = "a limit"
run = "measure /mnt --test read"
expected_texts = ["io.max"]
never = ["not clear"]
[case.equals]
"/phases/0/verdict/limiter" = "io_throttle"
[case.near]
"/phases/0/rate/ops_per_second" = [700, 3]
"#;

    fn answer(document: &str, exit: &str) -> Answer {
        let case = Case::read(TEXT).unwrap().remove(0);
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("document.json"), document).unwrap();
        fs::write(directory.path().join("status"), exit).unwrap();
        case.judge(directory.path())
    }

    #[test]
    fn case_passes_only_if_every_expectation_holds() {
        let row = |limiter: &str, rate: f64| {
            format!(
                r#"{{"phases":[{{"verdict":{{"limiter":"{limiter}","confidence":"likely"}},
                    "rate":{{"ops_per_second":{rate}}},"seen":"io.max"}}]}}"#
            )
        };
        let right = answer(&row("io_throttle", 710.0), "0\n");
        assert_eq!((right.verdicts.as_str(), right.wrong.len()), ("io_throttle (likely)", 0));
        assert_eq!(answer(&row("device_ops", 710.0), "0").wrong.len(), 1);
        assert_eq!(answer(&row("io_throttle", 750.0), "0").wrong.len(), 1);
        assert_eq!(answer(&row("io_throttle", 710.0), "3").wrong.len(), 1);
        assert_eq!(answer(&row("not clear", 710.0), "0").wrong.len(), 2);
        assert_eq!(answer("", "0").wrong.len(), 3);
        assert!(answer("", "").wrong[0].starts_with("its setup failed"));
    }

    #[test]
    fn duplicate_case_name_is_refused() {
        assert!(Case::read(&format!("{TEXT}{TEXT}")).is_err());
    }
}
