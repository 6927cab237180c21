//! Stdout and stderr: what may be printed where, and in which style.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use report::printable;
use report::text::Style;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::SIGTSTP;
use signal_hook::iterator::Signals;

use crate::exit::Failure;
use crate::{job, signals};

/// Checks that stdout can be written to. `1</dev/null` makes one that cannot. The standard library then takes output
/// for written.
///
/// # Errors
/// Stdout is open for reading alone.
pub fn check_stdout() -> Result<(), Failure> {
    use rustix::fs::OFlags;
    match rustix::fs::fcntl_getfl(rustix::stdio::stdout()) {
        Ok(flags) if flags & OFlags::RWMODE == OFlags::RDONLY => Err(Failure::Refused(
            "cannot write to stdout: it is open only for reading; use `>`, not `<`, for results".into(),
        )),
        _ => Ok(()),
    }
}

/// Prints a line, or several, to stdout; styles are removed where it is not a terminal.
///
/// # Errors
/// [`Failure::ReaderGone`] if stdout has no reader any more.
pub fn print_line(text: &str) -> Result<(), Failure> {
    let choice = match job::is_rank() {
        true => ColorChoice::Never,
        false => AutoStream::choice(&std::io::stdout()),
    };
    print_bytes(format!("{}\n", styled(text, choice)).as_bytes())
}

/// Returns a text without its styles, if a stream shows none.
fn styled(text: &str, choice: ColorChoice) -> Cow<'_, str> {
    match choice {
        ColorChoice::Never => Cow::Owned(strip_str(text).to_string()),
        _ => Cow::Borrowed(text),
    }
}

/// Prints bytes to stdout as they are.
///
/// # Errors
/// [`Failure::ReaderGone`] if stdout has no reader any more.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    remove_live();
    // A terminal whose output is stopped takes both later.
    let bytes = if std::io::stdout().is_terminal() { below_live(bytes) } else { Cow::Borrowed(bytes) };
    write_while_read(rustix::stdio::stdout(), &bytes).map_err(|error| from_write_error(&error))
}

/// True while the terminal shows live lines. The cursor is at their beginning.
static HAS_LIVE_LINES: AtomicBool = AtomicBool::new(false);
/// Erases from the beginning of the line to the end of the screen.
const ERASE: &str = "\r\x1b[J";

/// Shows lines on stderr, in place of those shown before. The cursor stays at their beginning: a terminal that reflows its
/// lines moves the cursor with them. So all of them still lie behind it.
pub fn show_live(lines: &[String]) {
    let stderr = rustix::stdio::stderr();
    // A terminal whose output was stopped (Ctrl-S) would block us in the middle of a test.
    if !is_ready(stderr) {
        return;
    }
    let rows = rustix::termios::tcgetwinsize(stderr).map_or(0, |window| usize::from(window.ws_row));
    let lines = if rows > 0 { &lines[..lines.len().min(rows)] } else { lines };
    let erase = if HAS_LIVE_LINES.swap(true, Ordering::Relaxed) { ERASE } else { "" };
    let up = match lines.len() {
        0 | 1 => String::new(),
        count => format!("\x1b[{}A", count - 1),
    };
    // Lines wider than a window that has just changed are cut: broken ones would need more rows than we go up.
    let lines = lines.join("\n");
    let lines = styled(&lines, AutoStream::choice(&std::io::stderr()));
    let text = format!("{erase}\x1b[?7l{lines}{up}\r\x1b[?7h");
    let _ = write_while_read(stderr, text.as_bytes());
}

/// Removes the live lines, if there are any and the terminal takes output.
pub fn remove_live() {
    if is_ready(rustix::stdio::stderr()) && HAS_LIVE_LINES.swap(false, Ordering::Relaxed) {
        let _ = write_while_read(rustix::stdio::stderr(), ERASE.as_bytes());
    }
}

/// Removes the live lines before a stop by Ctrl-Z: what the shell prints then would cover them.
pub fn remove_live_at_stop() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(mut stops) = Signals::new([SIGTSTP]) else { return };
        // Without the thread, Ctrl-Z would do nothing.
        let started = observe::thread::start("stops", 64 << 10, move || {
            for signal in stops.forever() {
                remove_live();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
        });
        log::debug!("Ctrl-Z is {}", if started.is_ok() { "caught" } else { "without effect" });
    });
}

/// Returns the bytes for a terminal, after the removal of its live lines.
fn below_live(bytes: &[u8]) -> Cow<'_, [u8]> {
    match HAS_LIVE_LINES.swap(false, Ordering::Relaxed) {
        true => Cow::Owned([ERASE.as_bytes(), bytes].concat()),
        false => Cow::Borrowed(bytes),
    }
}

/// Bytes that a pipe takes at once when it has room at all (PIPE_BUF of Linux, pipe(7)).
const PIPE_BYTES: usize = 4096;
/// Interval between checks for a signal while stdout or stdin blocks.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Time that a reader has to continue reading after a signal. Files left behind elsewhere matter more.
const READER_MAX: Duration = Duration::from_secs(5);

/// Waits until the user has pressed Enter, standard input has ended, or the flag is raised.
pub fn wait_for_line(interrupt: &AtomicBool) {
    let stdin = rustix::stdio::stdin();
    while !interrupt.load(Ordering::Relaxed) {
        let mut polled = [PollFd::from_borrowed_fd(stdin, PollFlags::IN)];
        // A poll that a signal has interrupted says nothing, and a read would wait.
        match rustix::event::poll(&mut polled, Some(&POLL_INTERVAL)) {
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let mut byte = [0];
        match rustix::io::read(stdin, &mut byte) {
            Ok(1) if byte != *b"\n" => {}
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

/// Returns true if a descriptor accepts bytes without blocking.
pub fn is_ready(out: BorrowedFd<'_>) -> bool {
    const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::from_borrowed_fd(out, PollFlags::OUT)];
    // A descriptor that cannot be polled never makes anybody wait.
    rustix::event::poll(&mut polled, Some(&NO_TIME)) != Ok(0)
}

/// Returns true if stdout is a pipe without a reader.
pub fn reader_is_gone() -> bool {
    const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    let stdout = rustix::stdio::stdout();
    let mut polled = [PollFd::from_borrowed_fd(stdout, PollFlags::OUT)];
    rustix::event::poll(&mut polled, Some(&NO_TIME)).is_ok() && polled[0].revents().contains(PollFlags::ERR)
}

/// Writes to a descriptor. A slow reader of a pipe must not keep a signal from ending this process.
fn write_while_read(out: BorrowedFd<'_>, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let mut polled = [PollFd::from_borrowed_fd(out, PollFlags::OUT)];
        match rustix::event::poll(&mut polled, Some(&POLL_INTERVAL)) {
            Ok(0) if signals::was_ended_before(READER_MAX) => return Err(ErrorKind::BrokenPipe.into()),
            Ok(0) | Err(Errno::INTR) => continue,
            // A descriptor that cannot be polled is written to directly.
            Ok(_) | Err(_) => {}
        }
        match rustix::io::write(out, &bytes[..bytes.len().min(PIPE_BYTES)]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn from_write_error(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        // Closed before we began: the same, from the user's side.
        _ if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => Failure::ReaderGone,
        _ => Failure::Failed(format!("cannot write to stdout: {error}; free some space at its destination")),
    }
}

/// Flag of the size of the data in the program of the family that runs; unset for skye's own commands.
static DIALECT_SIZE_FLAG: OnceLock<Option<&'static str>> = OnceLock::new();

/// From the next error on, remedies name only flags that a program of the family has.
pub fn translate_remedies(size_flag: Option<&'static str>) {
    let _ = DIALECT_SIZE_FLAG.set(size_flag);
}

/// Options of `skye run` and of tests that remedies name and no program of the family has.
const OWN_OPTIONS: [&str; 7] =
    ["--size", "--time", "--write-limit", "--allow", "--buffered", ":buffered", ":fresh"];

/// Returns a message whose remedy has the flag of the size. A remedy with another option of skye is left out.
fn with_dialect_remedy(message: &str, size_flag: Option<&str>) -> String {
    let Some((cause, remedy)) = message.rsplit_once("; ") else { return message.to_owned() };
    let remedy = size_flag.map_or(remedy.to_owned(), |flag| remedy.replace("--size", flag));
    match OWN_OPTIONS.iter().any(|option| remedy.contains(option)) {
        true => cause.to_owned(),
        false => format!("{cause}; {remedy}"),
    }
}

/// Prints an error to stderr.
pub fn error(message: &str) {
    match DIALECT_SIZE_FLAG.get() {
        Some(size_flag) => self::message("skye", &with_dialect_remedy(message, *size_flag)),
        None => self::message("skye", message),
    }
}

/// Prints a message to stderr, after a word for its kind. Errors are ignored: a closed stderr cannot show them.
pub fn message(word: &str, message: &str) {
    write_message(format!("{word}: {}\n", printable(message)).as_bytes());
}

/// Number of times that something was printed to stderr.
static MESSAGES: AtomicUsize = AtomicUsize::new(0);

/// Returns how often something was printed to stderr, which may be the same terminal as stdout.
pub fn message_count() -> usize {
    MESSAGES.load(Ordering::Relaxed)
}

/// Prints a line to stderr, without a word for its kind; styles are removed where it is not a terminal.
pub fn write_note(line: &str) {
    write_message(format!("{}\n", styled(line, AutoStream::choice(&std::io::stderr()))).as_bytes());
}

/// Prints bytes to stderr as they are.
pub fn write_message(bytes: &[u8]) {
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    let _ = write_while_read(rustix::stdio::stderr(), &below_live(bytes));
}

/// Prints a line of progress to stderr, unless its reader is slow: that must not hold up a test.
pub fn write_progress(line: &str) {
    if is_ready(rustix::stdio::stderr()) {
        message("skye", line);
    }
}

/// Removes the lines from a terminal that were printed last, as far as they are still on its screen.
pub fn erase_above(lines: usize) {
    let height =
        rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |window| usize::from(window.ws_row));
    // Lines that have scrolled away stay where they are.
    let lines = lines.min(height.saturating_sub(1));
    if lines > 0 {
        let _ = print_bytes(format!("\x1b[{lines}A\x1b[J").as_bytes());
    }
}

/// Returns true if a user sees stdout as it is written. An MPI launcher gives its processes a pseudo-terminal, and
/// copies the lines.
pub fn is_visible() -> bool {
    std::io::stdout().is_terminal() && !job::is_rank()
}

/// Returns the style that stdout can show.
pub fn style() -> Style {
    Style { has_unicode: is_utf8_locale(), width: width() }
}

/// Returns the style that stderr can show now: its window may have changed.
pub fn live_style() -> Style {
    let columns = rustix::termios::tcgetwinsize(rustix::stdio::stderr()).map_or(0, |window| window.ws_col);
    match usize::from(columns) {
        0 => style(),
        width => Style { width, ..style() },
    }
}

fn is_utf8_locale() -> bool {
    let value = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = value("LC_ALL").or_else(|| value("LC_CTYPE")).or_else(|| value("LANG"));
    // Without any locale, as in cron or containers, nearly everything that reads us today reads UTF-8.
    locale.is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

fn width() -> usize {
    let stdout = std::io::stdout();
    // Width where nothing breaks lines. Tables have all of their columns; paragraphs stay narrow enough to read.
    const WIDTH_WITHOUT_TERMINAL: usize = 140;
    let window = if is_visible() { rustix::termios::tcgetwinsize(&stdout).ok() } else { None };
    window
        .map(|window| usize::from(window.ws_col))
        .filter(|columns| *columns > 0)
        .unwrap_or(WIDTH_WITHOUT_TERMINAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_flags_of_the_dialect() {
        let smaller = "cannot write: no space; make room, or use a smaller --size";
        assert!(with_dialect_remedy(smaller, Some("-s")).ends_with("; make room, or use a smaller -s"));
        assert_eq!(with_dialect_remedy(smaller, None), "cannot write: no space");
        let direct = "cannot read: refused; add :buffered to the test, or --buffered";
        assert_eq!(with_dialect_remedy(direct, Some("-s")), "cannot read: refused");
        assert_eq!(with_dialect_remedy("cannot read: refused", Some("-s")), "cannot read: refused");
    }
}
