//! Verbs that change what files hold, or copy it.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use model::workload::CopyWay;
use model::workload::verbs::{VerbStep, append, copy, truncate};
use rustix::fs::{OFlags, SeekFrom};

use super::verbs::{CREATE_FLAGS, CREATE_MODE, Content};
use super::{
    CallError, FileLocation, FileOps, NameOps, READ_FLAGS, StepTimer, WRITE_FLAGS, close_step, fails,
    open_step, sync_step,
};
use crate::failure::Cause;
use crate::names::{Kind, Name, Names};

const APPEND_FLAGS: OFlags = WRITE_FLAGS.union(OFlags::APPEND);
/// Byte that is appended.
const APPENDED: u8 = b'a';

/// `openat`, one `write` at the end of the file, `fsync` if each is made durable, and `close`.
#[derive(Debug)]
pub struct Append {
    bytes: Box<[u8]>,
    is_durable: bool,
}

impl Append {
    /// Appends this number of bytes; if `is_durable`, makes them durable.
    pub fn new(bytes: u64, is_durable: bool) -> Self {
        Self { bytes: vec![APPENDED; bytes.max(1) as usize].into(), is_durable }
    }
}

impl NameOps for Append {
    const GETDENTS: VerbStep = append::GETDENTS;

    #[inline]
    fn operate(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &CStr,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let wanted_bytes = self.bytes.len();
        timer.charge(wanted_bytes as u64)?;
        let opened = open_step(directory, name, APPEND_FLAGS, append::OPEN, timer)?;
        let got_bytes = rustix::io::write(&opened, &self.bytes).map_err(fails(append::WRITE.name))?;
        if got_bytes != wanted_bytes {
            return Err((append::WRITE.name, Cause::Short { got_bytes, wanted_bytes }));
        }
        timer.recorder.write(wanted_bytes as u64);
        timer.record_step(append::WRITE);
        sync_step(&opened, self.is_durable, append::FSYNC, timer)?;
        close_step(opened, append::CLOSE, timer)
    }
}

/// `openat`, `ftruncate` to half of the size, `fsync` if each cut is made durable, and `close`.
#[derive(Debug)]
pub struct Truncate {
    name: Name,
    content: Content,
    is_durable: bool,
}

impl Truncate {
    /// Cuts the files of a set, which hold this content. If `is_durable`, makes each cut durable.
    pub fn new(names: Names, content: Content, is_durable: bool) -> Self {
        Self { name: Name::new(names, Kind::File), content, is_durable }
    }
}

impl FileOps for Truncate {
    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let path = self.name.path_of(file);
        let opened = open_step(place.directory, path, WRITE_FLAGS, truncate::OPEN, timer)?;
        let half_bytes = self.content.size_bytes(file) / 2;
        rustix::fs::ftruncate(&opened, half_bytes).map_err(fails(truncate::FTRUNCATE.name))?;
        timer.record_step(truncate::FTRUNCATE);
        sync_step(&opened, self.is_durable, truncate::FSYNC, timer)?;
        close_step(opened, truncate::CLOSE, timer)
    }
}

/// Gives files the sizes back that they had, and the content of what is missing. It is not measured.
#[derive(Debug)]
pub struct Restore {
    name: Name,
    content: Option<Content>,
    written_bytes: u64,
}

impl Restore {
    /// Restores files of a set that held this content; without one, they were empty.
    pub fn new(names: Names, content: Option<Content>) -> Self {
        Self { name: Name::new(names, Kind::File), content, written_bytes: 0 }
    }

    /// Bytes that it has written.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }
}

impl FileOps for Restore {
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let path = self.name.path_of(file);
        let opened = open_step(place.directory, path, WRITE_FLAGS, truncate::OPEN, timer)?;
        let found_bytes = rustix::fs::fstat(&opened).map_err(fails("fstat"))?.st_size as u64;
        let size_bytes = self.content.as_ref().map_or(0, |content| content.size_bytes(file));
        if found_bytes > size_bytes {
            rustix::fs::ftruncate(&opened, size_bytes).map_err(fails("ftruncate"))?;
        } else if let Some(content) = self.content.as_mut().filter(|_| found_bytes < size_bytes) {
            timer.charge(size_bytes - found_bytes)?;
            rustix::fs::seek(&opened, SeekFrom::Start(found_bytes)).map_err(fails("write"))?;
            content.write(file, found_bytes, size_bytes, &opened).map_err(fails("write"))?;
            self.written_bytes += size_bytes - found_bytes;
        }
        close_step(opened, truncate::CLOSE, timer)
    }
}

/// How a copy moves the data of a file.
#[derive(Debug)]
enum CopyMethod {
    /// `read` and `write` in turn.
    ReadWrite(Box<[u8]>),
    /// `copy_file_range` of at most this many bytes.
    CopyRange(u64),
    /// `ioctl(FICLONE)`, which moves no data.
    Reflink,
}

impl CopyMethod {
    /// Copies this number of bytes, and records each call as a step.
    #[inline]
    fn copy(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        size_bytes: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        match self {
            Self::ReadWrite(chunk) => read_and_write(from, to, size_bytes, chunk, timer),
            Self::CopyRange(chunk_bytes) => copy_range(from, to, size_bytes, *chunk_bytes, timer),
            Self::Reflink => {
                rustix::fs::ioctl_ficlone(to, from).map_err(fails(copy::REFLINK.name))?;
                timer.record_step(copy::REFLINK);
                Ok(())
            }
        }
    }
}

#[inline]
fn read_and_write(
    from: &OwnedFd,
    to: &OwnedFd,
    size_bytes: u64,
    chunk: &mut [u8],
    timer: &mut StepTimer<'_>,
) -> Result<(), CallError> {
    let mut left_bytes = size_bytes;
    while left_bytes > 0 {
        let wanted_bytes = left_bytes.min(chunk.len() as u64) as usize;
        let read = rustix::io::read(from, &mut chunk[..wanted_bytes]);
        let got_bytes = read.map_err(fails(copy::READ.name))?;
        if got_bytes == 0 {
            return Err((copy::READ.name, Cause::Short { got_bytes, wanted_bytes }));
        }
        timer.recorder.read(got_bytes as u64);
        timer.record_step(copy::READ);
        let mut rest = &chunk[..got_bytes];
        while !rest.is_empty() {
            let written_bytes = rustix::io::write(to, rest).map_err(fails(copy::WRITE.name))?;
            timer.recorder.write(written_bytes as u64);
            timer.record_step(copy::WRITE);
            rest = &rest[written_bytes..];
        }
        left_bytes -= got_bytes as u64;
    }
    Ok(())
}

#[inline]
fn copy_range(
    from: &OwnedFd,
    to: &OwnedFd,
    size_bytes: u64,
    chunk_bytes: u64,
    timer: &mut StepTimer<'_>,
) -> Result<(), CallError> {
    let mut left_bytes = size_bytes;
    while left_bytes > 0 {
        let wanted_bytes = left_bytes.min(chunk_bytes) as usize;
        let copied = rustix::fs::copy_file_range(from, None, to, None, wanted_bytes);
        let got_bytes = copied.map_err(fails(copy::COPY_FILE_RANGE.name))?;
        if got_bytes == 0 {
            return Err((copy::COPY_FILE_RANGE.name, Cause::Short { got_bytes, wanted_bytes }));
        }
        timer.recorder.read(got_bytes as u64);
        timer.recorder.write(got_bytes as u64);
        timer.record_step(copy::COPY_FILE_RANGE);
        left_bytes -= got_bytes as u64;
    }
    Ok(())
}

/// `openat` of a file and of a new one beside it, the copy, `fsync` if each copy is made durable, and `close` of both.
#[derive(Debug)]
pub struct Copy {
    from: Name,
    to: Name,
    content: Content,
    method: CopyMethod,
    is_durable: bool,
}

impl Copy {
    /// Copies the files of a set, which hold this content, in chunks of `chunk_bytes`. If `is_durable`, makes each copy
    /// durable.
    pub fn new(names: Names, content: Content, by: CopyWay, chunk_bytes: u64, is_durable: bool) -> Self {
        let chunk_bytes = chunk_bytes.max(1);
        let method = match by {
            CopyWay::ReadWrite => CopyMethod::ReadWrite(vec![0; chunk_bytes as usize].into()),
            CopyWay::CopyRange => CopyMethod::CopyRange(chunk_bytes),
            CopyWay::Reflink => CopyMethod::Reflink,
        };
        Self {
            from: Name::new(names, Kind::File),
            to: Name::new(names, Kind::Copy),
            content,
            method,
            is_durable,
        }
    }
}

impl FileOps for Copy {
    #[inline]
    fn operate(
        &mut self,
        place: &FileLocation<'_>,
        file: u64,
        timer: &mut StepTimer<'_>,
    ) -> Result<(), CallError> {
        let size_bytes = self.content.size_bytes(file);
        // The server or file system may copy the data or share the blocks; that is unknown beforehand.
        timer.charge(size_bytes)?;
        let from = open_step(place.directory, self.from.path_of(file), READ_FLAGS, copy::OPEN, timer)?;
        let to = rustix::fs::openat(place.directory, self.to.path_of(file), CREATE_FLAGS, CREATE_MODE);
        let to = to.map_err(fails(copy::CREATE.name))?;
        timer.record_step(copy::CREATE);
        self.method.copy(&from, &to, size_bytes, timer)?;
        if self.is_durable {
            // The copy is durable only once its name is, too.
            let synced = rustix::fs::fsync(&to).and_then(|()| rustix::fs::fsync(place.leaf(file)));
            synced.map_err(fails(copy::FSYNC.name))?;
            timer.record_step(copy::FSYNC);
        }
        close_step(to, copy::CLOSE, timer)?;
        close_step(from, copy::CLOSE, timer)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;

    use super::super::tests::count_calls;
    use super::super::{Create, IndexedOps, VisitOrder, round};
    use super::*;
    use crate::clock::Timer;
    use crate::names::Tree;

    const TREE: Tree = Tree { files: 20, dirs: 1, levels: 1 };

    /// Runs a round over all files, and returns the bytes written or read, and the calls of each step.
    fn all(verb: &mut impl FileOps, place: &FileLocation<'_>) -> (u64, Vec<u64>) {
        let visits = VisitOrder::in_sequence(0, TREE.files);
        let (done, (_, bytes, calls)) = count_calls(u64::MAX, |recorder, limits| {
            round(verb, place, visits, &Timer::Kernel, recorder, limits)
        });
        assert_eq!((done.result, done.done), (Ok(()), TREE.files));
        (bytes, calls)
    }

    fn content() -> Content {
        Content::new(0, 5000, 700, 9, 0)
    }

    /// Runs a test on files with contents, which it gets before.
    fn on_files(test: impl FnOnce(&FileLocation<'_>, &dyn Fn(char) -> Vec<Vec<u8>>)) {
        let temp = tempfile::tempdir().unwrap();
        let directory = fs::File::open(temp.path()).unwrap();
        let place = FileLocation { directory: directory.as_fd(), leaves: &[], tree: TREE };
        all(&mut Create::new(TREE.plain(), Some(content()), false), &place);
        let held = |kind: char| {
            let paths = (0..TREE.files).map(|file| temp.path().join(format!("{kind}{file:08x}")));
            paths.map(|path| fs::read(path).unwrap()).collect()
        };
        test(&place, &held);
    }

    #[test]
    fn restore_undoes_append_and_truncate() {
        on_files(|place, held| {
            let before = held('f');
            let sizes: u64 = before.iter().map(|file| file.len() as u64).sum();
            let mut append = IndexedOps::new(TREE.plain(), Append::new(300, true));
            assert_eq!(all(&mut append, place), (300 * 20, vec![20; 4]));
            assert!(held('f').iter().zip(&before).all(|(file, old)| file.len() == old.len() + 300));
            let mut restore = Restore::new(TREE.plain(), Some(content()));
            all(&mut restore, place);
            assert_eq!((held('f') == before, restore.written_bytes()), (true, 0));

            let mut truncate = Truncate::new(TREE.plain(), content(), false);
            assert_eq!(all(&mut truncate, place), (0, vec![20; 3]));
            assert!(held('f').iter().zip(&before).all(|(file, old)| *file == old[..old.len() / 2]));
            all(&mut restore, place);
            let after = held('f');
            // The stamps of the second half tell where it was written, and not that it was cut.
            assert!(after.iter().zip(&before).all(|(file, old)| file.len() == old.len()));
            let halves: u64 = before.iter().map(|file| file.len() as u64 / 2).sum();
            assert_eq!(restore.written_bytes(), sizes - halves);
            let mut empty = Restore::new(TREE.plain(), None);
            all(&mut empty, place);
            assert!(held('f').iter().all(Vec::is_empty));
        });
    }

    fn copies(by: CopyWay, chunk_bytes: u64, is_durable: bool) {
        on_files(|place, held| {
            let before = held('f');
            let sizes: u64 = before.iter().map(|file| file.len() as u64).sum();
            let mut copy = Copy::new(TREE.plain(), content(), by, chunk_bytes, is_durable);
            let (bytes, calls) = all(&mut copy, place);
            assert_eq!(bytes, 2 * sizes, "each is read and written");
            assert_eq!((calls[0], calls[1], *calls.last().unwrap()), (20, 20, 40));
            assert!(calls[2] > 20, "in chunks: {calls:?}");
            assert_eq!((held('c'), held('f')), (before.clone(), before));
        });
    }

    #[test]
    fn copies_hold_the_same_data() {
        copies(CopyWay::ReadWrite, 700, true);
        copies(CopyWay::ReadWrite, 1000, false);
        copies(CopyWay::CopyRange, 700, false);
        copies(CopyWay::CopyRange, 1000, true);
    }
}
