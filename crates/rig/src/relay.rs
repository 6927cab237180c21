//! A longer way to a server: a process that passes on bytes between two others, each after a time that can be set.
//!
//! The kernel's `netem` would do this, but not every kernel is built with it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use model::UserError;

use crate::command;
use crate::text::{parse_time, time};

/// First word of its command line.
const RELAY: &str = "relay";
/// Maximum bytes to relay at a time: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum bytes in flight in one direction: 2 Gbit/s times 4 ms. A larger window would buffer whole files.
const WINDOW_BYTES: usize = 1 << 20;

/// Returns a script that starts `behind` with its own arguments, with the delay that a file has, in each direction. The
/// script calls `program`: our own command line without the words of a rig.
pub(crate) fn script(program: &[OsString], delay_file: &Path, behind: &str) -> Vec<u8> {
    let mut script = b"#!/bin/sh\nexec".to_vec();
    let mut put = |word: &OsStr| {
        script.extend(b" '");
        script.extend(word.as_bytes().iter().flat_map(|byte| match byte {
            b'\'' => br"'\''".to_vec(),
            byte => vec![*byte],
        }));
        script.extend(b"'");
    };
    program.iter().for_each(|word| put(word));
    put(RELAY.as_ref());
    put(delay_file.as_ref());
    script.extend(format!(" {behind} \"$@\"\n").bytes());
    script
}

/// Writes the delay into the file of a relay, which applies it to the next bytes.
pub(crate) fn set_delay(file: &Path, delay_ns: u64) -> io::Result<()> {
    // A file that is half written must not be read.
    let new = file.with_extension("new");
    fs::write(&new, time(delay_ns)).and_then(|()| fs::rename(&new, file))
}

fn read_delay(file: &Path) -> io::Result<Duration> {
    parse_time(&fs::read_to_string(file)?).map(Duration::from_nanos).map_err(io::Error::other)
}

/// Returns the arguments of a command line for a relay.
pub(crate) fn words(words: &[OsString]) -> Option<&[OsString]> {
    words.split_first().filter(|(first, _)| *first == RELAY).map(|(_, rest)| rest)
}

/// Starts the program in `words` behind a delay, and relays its input and output until it exits.
///
/// # Errors
/// The program does not start, or bytes cannot be passed on.
pub(crate) fn run(words: &[OsString]) -> Result<(), UserError> {
    let action = "relay bytes with a delay";
    let [delay_file, program, arguments @ ..] = words else {
        return Err(UserError::new(action, "the file of a delay and a program are missing"));
    };
    let delay_file = Path::new(delay_file);
    let fail = |error: io::Error| UserError::new(action, error);
    let mut there = Command::new(program);
    there.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut there = command::start(&mut there, action)?;
    let own = |end: io::Result<std::os::fd::OwnedFd>| end.map(File::from).map_err(fail);
    let (input, output) =
        (own(io::stdin().as_fd().try_clone_to_owned())?, own(io::stdout().as_fd().try_clone_to_owned())?);
    let (to, from) = (there.stdin.take(), there.stdout.take());
    let forth = to.map(|to| {
        let delay_file = delay_file.to_owned();
        thread::spawn(move || pass(input, to, delay_file))
    });
    let back = from.map_or(Ok(()), |from| pass(from, output, delay_file.to_owned()));
    // Bytes that still come in have no receiver.
    drop(forth);
    there.wait().map_err(fail)?;
    back.map_err(fail)
}

/// Bytes on the way, and a signal for each arrival.
#[derive(Default)]
struct DelayLine {
    bytes: Mutex<usize>,
    arrived: Condvar,
}

impl DelayLine {
    /// Waits until there is room for a part, and takes it.
    fn enter(&self, bytes: usize) {
        let full = |in_transit: &mut usize| *in_transit > 0 && *in_transit + bytes > WINDOW_BYTES;
        let in_transit = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *self.arrived.wait_while(in_transit, full).unwrap_or_else(PoisonError::into_inner) += bytes;
    }

    fn leave(&self, bytes: usize) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) -= bytes;
        self.arrived.notify_one();
    }
}

/// Passes on all bytes until the end, each part after the delay that the file then has.
fn pass(mut from: impl Read + Send + 'static, mut to: impl Write, delay_file: PathBuf) -> io::Result<()> {
    let (sender, parts) = mpsc::channel::<(Instant, Vec<u8>)>();
    let line = Arc::new(DelayLine::default());
    let entry = Arc::clone(&line);
    thread::spawn(move || {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            entry.enter(count);
            let arrived = Instant::now();
            let sent = read_delay(&delay_file)
                .is_ok_and(|delay| sender.send((arrived + delay, buffer[..count].to_vec())).is_ok());
            if !sent {
                break;
            }
        }
    });
    command::set_realtime_priority();
    for (due, bytes) in parts {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        to.write_all(&bytes)?;
        line.leave(bytes.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relay_delays_bytes_without_loss() {
        let (from, mut near) = io::pipe().unwrap();
        let (mut far, to) = io::pipe().unwrap();
        let delay = Duration::from_millis(20);
        let directory = tempfile::tempdir().unwrap();
        let delay_file = directory.path().join("delay");
        set_delay(&delay_file, 20_000_000).unwrap();
        let passing = thread::spawn(move || pass(from, to, delay_file));
        let started = Instant::now();
        let sent: Vec<u8> = (0..3 * CHUNK_BYTES).map(|byte| (byte % 251) as u8).collect();
        let sending = sent.clone();
        let writer = thread::spawn(move || near.write_all(&sending));
        let mut received = vec![0; 1];
        far.read_exact(&mut received).unwrap();
        assert!(started.elapsed() >= delay);
        far.read_to_end(&mut received).unwrap();
        assert_eq!(received, sent);
        writer.join().unwrap().unwrap();
        passing.join().unwrap().unwrap();
    }

    #[test]
    fn script_quotes_its_arguments() {
        let script = script(&["/opt/it's here".into(), "rig-server".into()], Path::new("/run/delay"), "ssh");
        let expected = "#!/bin/sh\nexec '/opt/it'\\''s here' 'rig-server' 'relay' '/run/delay' ssh \"$@\"\n";
        assert_eq!(String::from_utf8(script).unwrap(), expected);
        assert_eq!(words(&[RELAY.into(), "1ms".into()]), Some(&["1ms".into()][..]));
        assert_eq!(words(&["disk".into()]), None);
    }
}
