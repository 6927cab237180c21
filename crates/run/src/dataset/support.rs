//! Support of the kernel and the file system for the calls of the tests, tried before data is laid out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use engine::buffer::AlignedBuffer;
use engine::call_flags::CallFlags;
use engine::discard::discard;
use model::UserError;
use model::plan::{Dataset, Plan};
use model::workload::{DataVerb, DataWork, SyncMode};
use model::{size, spec};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{CHUNK_BYTES, DIGITS, Origin, open_again, open_at, prefix};
use crate::data_location::DataLocation;
use crate::hang_detection;

/// Tries what the tests of a plan need. Returns true if the file system refuses direct I/O.
///
/// # Errors
/// Fails if the kernel or the file system lacks something, a scratch file cannot be made or removed, or a call hangs.
pub fn check_calls(directory: &DataLocation, plan: &Plan, dataset: &Dataset) -> Result<bool, UserError> {
    let is_purged = plan.precondition.as_ref().is_some_and(|fill| fill.has_purge);
    if is_purged || plan.has_data_test(|data| data.verb == DataVerb::Discard) {
        check_discard(directory, dataset)?;
    }
    check_call_flags(directory, plan, dataset)?;
    Ok(plan.has_data_test(|data| data.direct) && refuses_direct(directory, dataset)?)
}

/// Returns an error if the kernel or the file system lacks a flag that the calls of a test have.
fn check_call_flags(directory: &DataLocation, plan: &Plan, dataset: &Dataset) -> Result<(), UserError> {
    for phase in &plan.phases {
        let Some(data) = phase.workload.data().filter(|data| CallFlags::from_work(data) != CallFlags::NONE)
        else {
            continue;
        };
        let action =
            format!("run `{}` in {}", spec::print(phase.requested_workload()), directory.path().display());
        let requested = data.clone();
        let is_device = matches!(directory.existing(), Some((_, Origin::ErasedDevice)));
        let refusal = move |directory: BorrowedFd<'_>, name: &str| {
            let file = match is_device {
                true => open_again(directory, OFlags::RDONLY),
                false => open_at(directory, name, OFlags::RDONLY),
            };
            Ok(flag_refusal(&file?, &requested))
        };
        let refused: Result<_, Errno> = match directory.existing() {
            Some((name, _)) => on_file(directory, name, &action, refusal)?,
            None => on_scratch_file(directory, dataset, &action, refusal)?.unwrap_or(Ok(None)),
        };
        let refused = refused.map_err(|errno| UserError::new(&action, std::io::Error::from(errno)))?;
        if let Some((cause, help)) = refused {
            return Err(UserError::new(action, cause).help(help));
        }
    }
    Ok(())
}

/// Returns why calls on a file cannot have the flags of a test, and the remedy.
fn flag_refusal(file: &OwnedFd, data: &DataWork) -> Option<(String, &'static str)> {
    if data.atomic {
        let block = size::exact(data.block_bytes);
        return match observe::atomic_writes(file.as_fd()) {
            None => Some((
                "this file system or device promises no atomic writes; RWF_ATOMIC needs Linux 6.11".into(),
                "drop atomic",
            )),
            Some(units) if !data.block_bytes.is_power_of_two() || !units.contains(&data.block_bytes) => {
                let (least, most) = (size::exact(*units.start()), size::exact(*units.end()));
                let cause =
                    format!("blocks of {block} are not atomic here: only powers of 2 from {least} to {most}");
                Some((cause, "use such a block size, or drop atomic"))
            }
            Some(_) => None,
        };
    }
    match CallFlags::from_work(data).try_on(file) {
        Err(Errno::OPNOTSUPP) if data.uncached => Some((
            "RWF_DONTCACHE needs Linux 6.14, and ext4, XFS, btrfs or another file system that has it".into(),
            "drop uncached",
        )),
        Err(Errno::OPNOTSUPP) if data.sync == SyncMode::Dsync => {
            Some(("RWF_DSYNC needs Linux 4.7".into(), "use sync=each"))
        }
        // The test itself reports other errors.
        _ => None,
    }
}

/// Returns an error if the file system of a work directory cannot punch holes, tried on a scratch file.
fn check_discard(directory: &DataLocation, plan: &Dataset) -> Result<(), UserError> {
    let action = format!("discard blocks of files in {}", directory.path().display());
    let punch = |directory: BorrowedFd<'_>, name: &str| {
        discard(open_at(directory, name, OFlags::RDWR)?.as_fd(), false, 0, CHUNK_BYTES)
    };
    // A device answers for itself, with the first discard.
    let Some(punched) = on_scratch_file(directory, plan, &action, punch)? else { return Ok(()) };
    punched.map_err(|errno| {
        let error = UserError::new(&action, std::io::Error::from(errno));
        match errno {
            Errno::OPNOTSUPP => error.help(
                "drop discard (--precondition instead of --purge), or choose a directory on ext4, XFS, btrfs or \
                 tmpfs: this file system cannot punch holes",
            ),
            _ => error,
        }
    })
}

/// Returns true if the file system of a target refuses direct I/O; false for a device. Some FUSE servers open a file with
/// `O_DIRECT` and refuse its transfers, so one block is written to a scratch file. A file that is only read is only opened.
fn refuses_direct(directory: &DataLocation, plan: &Dataset) -> Result<bool, UserError> {
    let action = format!("try direct I/O in {}", directory.path().display());
    let is_refused = match directory.existing() {
        Some((name, Origin::Read)) => {
            let is_refused = |directory: BorrowedFd<'_>, name: &str| {
                is_direct_refused(directory, name, OFlags::RDONLY, |_| Ok(()))
            };
            Some(on_file(directory, name, &action, is_refused)?)
        }
        Some(_) => None,
        None => on_scratch_file(directory, plan, &action, |directory, name| {
            is_direct_refused(directory, name, OFlags::WRONLY, write_block)
        })?,
    };
    Ok(is_refused.unwrap_or(false))
}

/// Bytes of a block that direct I/O takes on every common file system.
const DIRECT_BYTES: usize = 4096;

/// Writes a block with the alignment of the file system, which is checked with the blocks of each test.
fn write_block(file: &OwnedFd) -> rustix::io::Result<()> {
    let align_bytes = observe::direct_io(file.as_fd()).map_or(0, |align| align.offset_align_bytes as usize);
    let mut block = AlignedBuffer::new(DIRECT_BYTES.max(align_bytes));
    rustix::io::pwrite(file, block.bytes_mut(), 0).map(drop)
}

/// Returns true if opening with `O_DIRECT`, or the use of the file, fails with EINVAL, and opening without it does not.
fn is_direct_refused(
    directory: BorrowedFd<'_>,
    name: &str,
    access: OFlags,
    use_file: impl Fn(&OwnedFd) -> rustix::io::Result<()>,
) -> bool {
    let open = |flags| open_at(directory, name, flags);
    let used = open(access | OFlags::DIRECT).and_then(|file| use_file(&file));
    used == Err(Errno::INVAL) && open(access).is_ok()
}

/// Calls `work` with a directory and the name of a file in it.
fn on_file<T: Send + 'static>(
    directory: &DataLocation,
    name: &str,
    action: &str,
    work: impl FnOnce(BorrowedFd<'_>, &str) -> T + Send + 'static,
) -> Result<T, UserError> {
    let (name, descriptor) = (name.to_owned(), directory.descriptor().try_clone_to_owned());
    let descriptor = descriptor.map_err(|error| UserError::new(action, error))?;
    hang_detection::wait_with_progress(action, || 0, move || work(descriptor.as_fd(), &name))
}

/// Makes an empty file in a work directory, calls `work` with the directory and the name, and removes the file.
/// Returns `None` if the target is no directory.
fn on_scratch_file<T: Send + 'static>(
    directory: &DataLocation,
    plan: &Dataset,
    action: &str,
    work: impl FnOnce(BorrowedFd<'_>, &str) -> T + Send + 'static,
) -> Result<Option<T>, UserError> {
    let Some(group) = plan.groups.first().filter(|_| directory.existing().is_none()) else { return Ok(None) };
    let name = format!("{}{:0DIGITS$x}", prefix(0, group), 0);
    let work = move |directory: BorrowedFd<'_>, name: &str| {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        drop(rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?);
        let result = work(directory, name);
        rustix::fs::unlinkat(directory, name, AtFlags::empty())?;
        Ok(result)
    };
    on_file(directory, &name, action, work)?
        .map(Some)
        .map_err(|errno: Errno| UserError::new(action, std::io::Error::from(errno)))
}
