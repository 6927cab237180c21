//! `skye fio`: the command line of skye that does what one of fio does.

use model::spec::{FIO_KEYS, command_line};
use report::text;

use crate::CommandResult;
use crate::exit::{self, Failure};
use crate::terminal;

/// Prints the command line for keys of fio, and what differs; without keys, what skye has for each of them.
///
/// # Errors
/// A key is unknown, or has no counterpart.
pub fn fio(keys: &[String]) -> CommandResult {
    if keys.is_empty() {
        let here: Vec<_> = FIO_KEYS.iter().map(|key| key.here.replace('`', "")).collect();
        let meanings: Vec<_> =
            FIO_KEYS.iter().zip(&here).map(|(key, here)| (key.names[0], here.as_str())).collect();
        let after = "skye fio KEYS prints the command line of skye for one of fio: skye fio --rw=randread --bs=4k \
                     --runtime=60";
        terminal::print_line(&text::index(&meanings, after, &terminal::style()))?;
        return Ok(exit::DONE);
    }
    let translation = command_line(keys)
        .map_err(|problem| Failure::Refused(format!("cannot translate these keys of fio: {problem}")))?;
    let notes = translation.notes.iter().map(|note| format!("\n  · {note}"));
    terminal::print_line(&format!("skye {}{}", translation.text, notes.collect::<String>()))?;
    Ok(exit::DONE)
}
