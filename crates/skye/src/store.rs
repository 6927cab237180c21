//! The store of runs: one JSON file each, named by time and host, in the state directory of the user.

use std::io::Write;
use std::path::{Path, PathBuf};

use model::{Run, Trouble};

/// Where runs are saved: `$XDG_STATE_HOME/skye/runs`, or below `$HOME/.local/state`; `None` without either.
pub fn directory() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    Some(state?.join("skye/runs"))
}

/// The name of a run's file: `20261121T140307Z-ada`, without an ending.
pub fn stem(run: &Run) -> String {
    let whole_seconds = run.started_at.split('.').next().unwrap_or_default();
    let time: String =
        whole_seconds.trim_end_matches('Z').chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let host: String = run
        .environment
        .host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
        .collect();
    format!("{time}Z-{host}")
}

/// Saves a run under a name of its own in a directory, which is made if need be.
///
/// # Errors
/// The path, why, and what to do.
pub fn save(run: &Run, directory: &Path) -> Result<PathBuf, Trouble> {
    let fail = |error: std::io::Error| {
        Trouble::new(format!("save the run in {}", directory.display()), error)
            .remedy("make room or name another place with -o DIR; the run is still printed here")
    };
    std::fs::create_dir_all(directory).map_err(fail)?;
    let stem = stem(run);
    let free = (1..).map(|number| match number {
        1 => directory.join(format!("{stem}.json")),
        _ => directory.join(format!("{stem}-{number}.json")),
    });
    let path = free.into_iter().find(|path| !path.exists()).unwrap_or_else(|| directory.join(&stem));
    write_whole(&path, report::json::write(run).as_bytes()).map_err(fail)?;
    Ok(path)
}

/// Writes a file so that it is there whole or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Devices, pipes and the like cannot be replaced; they are written to.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let part = part_of(path);
    let written = std::fs::File::create_new(&part)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// What a file is called until it is whole.
fn part_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Whether a file could be written at that path: makes its unfinished form, and takes it away again.
///
/// # Errors
/// It could not.
pub fn try_part(path: &Path) -> std::io::Result<()> {
    let part = part_of(path);
    std::fs::File::create_new(&part)?;
    std::fs::remove_file(&part)
}

/// Paths of saved runs, newest first.
pub fn runs() -> Vec<PathBuf> {
    let entries = directory().and_then(|directory| std::fs::read_dir(directory).ok());
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|ending| ending == "json")).collect();
    paths.sort();
    paths.reverse();
    paths
}

/// The file that `@`, `@-1` or a path means.
///
/// # Errors
/// There are not so many saved runs.
pub fn find(name: &str) -> Result<PathBuf, String> {
    let Some(rest) = name.strip_prefix('@') else { return Ok(PathBuf::from(name)) };
    let back = match rest {
        "" => Some(0),
        _ => rest.strip_prefix('-').and_then(|number| number.parse::<usize>().ok()),
    };
    let Some(back) = back else {
        return Err(format!("cannot find {name}: @ is the last saved run, @-1 the one before"));
    };
    let runs = runs();
    runs.get(back).cloned().ok_or_else(|| {
        let place = directory().map_or("a store (neither XDG_STATE_HOME nor HOME is set)".into(), |place| {
            place.display().to_string()
        });
        format!(
            "cannot find {name}: {place} holds {} saved; name a file, or measure first with skye run DIR",
            plural(runs.len())
        )
    })
}

fn plural(runs: usize) -> String {
    if runs == 1 { "1 run".into() } else { format!("{runs} runs") }
}

/// Reads a run from a file.
///
/// # Errors
/// The path, and what was expected where.
pub fn read(path: &Path) -> Result<Run, String> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Trouble::new(format!("read the run {}", path.display()), error)
            .remedy("name a saved run; skye list shows them")
            .to_string()
    })?;
    report::json::read(&text).map_err(|problem| format!("cannot read the run {}: {problem}", path.display()))
}
