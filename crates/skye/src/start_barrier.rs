//! Start barrier of several `skye bonnie++ -y s`: each test starts once all processes have reached it.
//!
//! `-p N` makes N seats. A program takes a seat by a lock on its file, and the kernel releases the lock however the
//! program ends. The file contains the position of the test that its program has reached. A program that skips a test
//! reaches a later one, so no other program waits for it. A killed program is reported, and one that never arrives is
//! waited for [`SEAT_TIMEOUT`]. Once all programs have ended, the seats serve the next ones.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use family::bonniepp::arguments::SEMAPHORE_MAX;
use model::UserError;
use rustix::fs::{FlockOperation, OFlags, flock};

/// Longest wait for a program that has not taken its seat.
const SEAT_TIMEOUT: Duration = Duration::from_secs(60);
/// Polling interval of the other seats.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// File with the number of seats.
const COUNT: &str = "seats";
/// Name of a seat until it is locked.
const UNLOCKED_SEAT_NAME: &str = "joining";
/// Position of a program that has ended all tests.
const END: u64 = u64::MAX;

/// Returns the directory of this user's seats. A program that has become another user still has the variables of the
/// first.
fn directory() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let is_own = |directory: &PathBuf| fs::metadata(directory).is_ok_and(|about| about.uid() == user);
    match runtime.filter(is_own) {
        Some(directory) => directory.join("skye-bonnie++"),
        None => Path::new("/tmp").join(format!("skye-bonnie++-{user}")),
    }
}

/// Makes this number of seats, in place of all former ones.
///
/// # Errors
/// The directory cannot be made, or is another user's.
pub fn prepare(seats: u32) -> Result<(), UserError> {
    remove()?;
    let directory = directory();
    let made = fs::DirBuilder::new().mode(0o700).create(&directory);
    made.and_then(|()| fs::write(directory.join(COUNT), seats.to_string()))
        .map_err(|error| UserError::new(format!("create the barrier in {}", directory.display()), error))
}

/// Removes the seats.
///
/// # Errors
/// They cannot be removed, are another user's, or programs have taken them.
pub fn remove() -> Result<(), UserError> {
    let directory = directory();
    let action = format!("remove the barrier in {}", directory.display());
    let fail = |error: io::Error| UserError::new(&action, error);
    let about = match fs::symlink_metadata(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about.map_err(fail)?,
    };
    if !is_ours(&about) {
        return Err(UserError::new("remove the barrier", not_ours(&directory)));
    }
    let is_taken = |number| matches!(read_seat(&directory, number), Other::At(place) if place != END);
    if (0..SEMAPHORE_MAX).any(is_taken) {
        return Err(UserError::new(&action, "programs use it").help("wait until they have exited"));
    }
    // Other files are not ours: they stay, and removing the directory fails.
    for entry in fs::read_dir(&directory).map_err(fail)?.flatten() {
        let name = entry.file_name();
        let is_seat = name
            .to_str()
            .is_some_and(|name| name == COUNT || name == UNLOCKED_SEAT_NAME || name.parse::<u32>().is_ok());
        if is_seat {
            fs::remove_file(entry.path()).map_err(fail)?;
        }
    }
    fs::remove_dir(&directory).map_err(fail)
}

fn is_ours(about: &fs::Metadata) -> bool {
    about.is_dir() && about.uid() == rustix::process::geteuid().as_raw() && about.mode() & 0o022 == 0
}

fn not_ours(directory: &Path) -> String {
    format!("{} is not a directory that only this user may write to", directory.display())
}

/// A seat among others.
pub struct Seat {
    directory: PathBuf,
    number: u32,
    seats: u32,
    /// Its file, which is locked.
    file: File,
    /// Seats of programs that were named as missing.
    named: Vec<u32>,
    interrupt: Arc<AtomicBool>,
}

/// State of another seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    /// No program has taken it yet.
    Free,
    /// Its program has reached that position.
    At(u64),
    /// Its program was killed before.
    Ended,
}

impl Seat {
    /// Takes a seat; a raised flag ends all waits.
    ///
    /// # Errors
    /// There are no seats, or all are taken.
    pub fn take(interrupt: Arc<AtomicBool>) -> Result<Self, UserError> {
        Self::take_in(directory(), interrupt)
    }

    fn take_in(directory: PathBuf, interrupt: Arc<AtomicBool>) -> Result<Self, UserError> {
        let action = "join the barrier (-y)";
        let help = "create the barrier for N programs first: skye bonnie++ -p N";
        let fail = |error: &dyn std::fmt::Display| {
            UserError::new(action, format!("{}: {error}", directory.display()))
        };
        let about = fs::symlink_metadata(&directory).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                UserError::new(action, format!("there is no barrier in {}", directory.display())).help(help)
            }
            _ => fail(&error),
        })?;
        if !is_ours(&about) {
            return Err(UserError::new(action, not_ours(&directory)));
        }
        let count = File::open(directory.join(COUNT)).map_err(|error| fail(&error))?;
        // Held until this program has its seat, so that two never begin at the same time.
        flock(&count, FlockOperation::LockExclusive).map_err(|errno| fail(&io::Error::from(errno)))?;
        let text = io::read_to_string(&count).map_err(|error| fail(&error))?;
        let seats = text.trim().parse().ok().filter(|seats| (1..=SEMAPHORE_MAX).contains(seats));
        let seats = seats.ok_or_else(|| fail(&"its file does not contain the number of programs"))?;
        if (0..seats).all(|number| matches!(read_seat(&directory, number), Other::Ended | Other::At(END))) {
            (0..seats)
                .try_for_each(|number| fs::remove_file(place(&directory, number)))
                .map_err(|error| fail(&error))?;
        }
        let number = (0..seats).find(|number| read_seat(&directory, *number) == Other::Free);
        let Some(number) = number else {
            let taken = UserError::new(action, format!("all {seats} positions are in use"));
            return Err(taken.help("wait until these programs have exited"));
        };
        // It gets its name once it is locked: a seat without a lock is that of a program that has ended.
        let joining = directory.join(UNLOCKED_SEAT_NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&joining);
        let file = file.map_err(|error| fail(&error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .and_then(|()| fs::rename(&joining, place(&directory, number)))
            .map_err(|error| fail(&error))?;
        Ok(Self { directory, number, seats, file, named: Vec::new(), interrupt })
    }

    /// Comes to a place, and waits until the others have come there, too. Returns the numbers of seats whose programs
    /// will not come, each once.
    pub fn wait(&mut self, place: u64) -> Vec<u32> {
        self.come_to(place);
        let (since, mut missing) = (Instant::now(), Vec::new());
        for number in (0..self.seats).filter(|number| *number != self.number) {
            while !self.named.contains(&number) && !self.interrupt.load(Ordering::Relaxed) {
                match read_seat(&self.directory, number) {
                    Other::At(other) if other >= place => break,
                    Other::Free if since.elapsed() < SEAT_TIMEOUT => {}
                    Other::At(_) => {}
                    Other::Free | Other::Ended => {
                        self.named.push(number);
                        missing.push(number);
                    }
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        missing
    }

    fn come_to(&self, place: u64) {
        // Where it cannot be written, the others go on when this program ends.
        let _ = self.file.write_all_at(&place.to_le_bytes(), 0);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.come_to(END);
    }
}

fn place(directory: &Path, number: u32) -> PathBuf {
    directory.join(number.to_string())
}

fn read_seat(directory: &Path, number: u32) -> Other {
    let Ok(file) = File::open(place(directory, number)) else { return Other::Free };
    // Looks share the lock, so that they never take one another for the program. Once the lock is free, the place stays.
    let is_held = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    let mut bytes = [0; 8];
    let place = match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => 0,
    };
    if is_held || place == END { Other::At(place) } else { Other::Ended }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a directory in which no group may write, whatever the umask.
    fn private_directory() -> tempfile::TempDir {
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        tempfile::Builder::new().permissions(only_owner).tempdir().unwrap()
    }

    fn seats(directory: &Path, count: u32) -> Vec<Seat> {
        fs::write(directory.join(COUNT), count.to_string()).unwrap();
        (0..count).map(|_| Seat::take_in(directory.to_owned(), Arc::default()).unwrap()).collect()
    }

    #[test]
    fn barrier_waits_only_for_programs_with_the_test() {
        let temp = private_directory();
        let mut all = seats(temp.path(), 3);
        // The last one leaves the first two tests out.
        all[2].come_to(3);
        let (one, rest) = all.split_at_mut(1);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| one[0].wait(1));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!first.is_finished(), "the second has not come");
            assert!(rest[0].wait(1).is_empty());
            assert!(first.join().unwrap().is_empty());
        });
    }

    #[test]
    fn killed_program_is_reported_once() {
        let temp = private_directory();
        let mut all = seats(temp.path(), 3);
        // Killed: the kernel gives the lock back, and nothing is written.
        let killed = all.pop().unwrap();
        flock(&killed.file, FlockOperation::Unlock).unwrap();
        drop(all.pop().unwrap());
        assert_eq!(all[0].wait(1), [2]);
        assert!(all[0].wait(2).is_empty());
    }

    #[test]
    fn barrier_positions_are_reusable_after_all_exit() {
        let temp = private_directory();
        let mut all = seats(temp.path(), 2);
        let refused = Seat::take_in(temp.path().to_owned(), Arc::default()).err().unwrap();
        assert!(refused.to_string().contains("all 2 positions are in use"), "{refused}");
        all.clear();
        assert_eq!(seats(temp.path(), 2).len(), 2);
    }

    #[test]
    fn interrupt_ends_barrier_wait() {
        let temp = private_directory();
        let mut all = seats(temp.path(), 2);
        all[0].interrupt.store(true, Ordering::Relaxed);
        assert!(all[0].wait(1).is_empty());
    }
}
