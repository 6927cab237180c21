//! Output of `--verbose`: one line on stderr per message.

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        crate::terminal::message(record.level().as_str(), &record.args().to_string());
    }

    fn flush(&self) {}
}

/// Enables messages; only warnings unless `verbose`.
pub fn install(verbose: bool) {
    log::set_max_level(if verbose { LevelFilter::Debug } else { LevelFilter::Warn });
    // Fails only if a logger is set already, which it is not.
    let _ = log::set_logger(&Stderr);
}
