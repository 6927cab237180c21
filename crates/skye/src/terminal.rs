//! Stdout and stderr: what may be printed where, and in which style.

use std::io::{ErrorKind, IsTerminal, Write};

use report::printable;
use report::text::Style;

use crate::exit::Failure;

/// Whether stdout can be written to: `1</dev/null` makes one that cannot, and the standard library takes what is written
/// to it for written.
///
/// # Errors
/// It cannot.
pub fn check_stdout() -> Result<(), Failure> {
    use rustix::fs::OFlags;
    match rustix::fs::fcntl_getfl(rustix::stdio::stdout()) {
        Ok(flags) if flags & OFlags::RWMODE == OFlags::RDONLY => Err(Failure::Refused(
            "cannot write to stdout: it is open for reading alone; use `>`, not `<`, for where results go"
                .into(),
        )),
        _ => Ok(()),
    }
}

/// Prints a line, or several, to stdout; styles are removed where it is not a terminal.
///
/// # Errors
/// [`Failure::ReaderGone`] if nobody reads it any more.
pub fn print_line(text: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| of_write(&error))
}

/// Prints bytes to stdout as they are.
///
/// # Errors
/// [`Failure::ReaderGone`] if nobody reads it any more.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| of_write(&error))
}

fn of_write(error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        // Closed before we began: the same, from the user's side.
        _ if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => Failure::ReaderGone,
        _ => Failure::Failed(format!("cannot write to stdout: {error}; make room where it leads")),
    }
}

/// Prints an error to stderr.
pub fn error(message: &str) {
    self::message("skye", message);
}

/// Prints a message to stderr, after a word that says what it is. A stderr that is closed cannot be told so.
pub fn message(word: &str, message: &str) {
    let _ = writeln!(anstream::stderr(), "{word}: {}", printable(message));
}

/// What stdout can show.
pub fn style() -> Style {
    Style { unicode: speaks_utf8(), width: width() }
}

fn speaks_utf8() -> bool {
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
    // Where nothing breaks lines, tables have all of their columns; paragraphs stay as narrow as they can be read.
    const UNBROKEN: usize = 140;
    let window = if stdout.is_terminal() { rustix::termios::tcgetwinsize(&stdout).ok() } else { None };
    window.map(|window| usize::from(window.ws_col)).filter(|columns| *columns > 0).unwrap_or(UNBROKEN)
}
