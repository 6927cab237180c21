//! Other programs that make and undo things.

use std::process::{Child, Command, Stdio};

use model::UserError;

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn run(command: &mut Command, action: &str) -> Result<String, UserError> {
    let name = prepare(command);
    let output = command.output().map_err(|error| cannot_start(action, &name, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(UserError::new(action, format!("{name}: {}: {message}", output.status)))
}

/// Starts a command that keeps running.
pub(crate) fn start(command: &mut Command, action: &str) -> Result<Child, UserError> {
    let name = prepare(command);
    command.spawn().map_err(|error| cannot_start(action, &name, &error))
}

/// Sets the locale to C, and lets the command find the programs of administrators. Returns the command's name.
fn prepare(command: &mut Command) -> String {
    // These programs lie outside the search path of many users.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    command.get_program().to_string_lossy().into_owned()
}

fn cannot_start(action: &str, name: &str, error: &std::io::Error) -> UserError {
    UserError::new(action, format!("{name}: {error}")).help(format!("install {name}"))
}

/// Gives this thread the CPU before all others, and lets its sleep end on time: the instants of a rig's answers must be
/// exact. Where that is not allowed, times are less exact, and the rig's records show it.
pub(crate) fn set_realtime_priority() {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let thread = rustix::thread::gettid().as_raw_nonzero().get().to_string();
    let _ = Command::new("chrt")
        .args(["--fifo", "--pid", "20", &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
