//! Messages between the ranks of an MPI job, through the library of its launcher.
//!
//! The library is opened at run time, so that one program serves Open MPI, the MPICH family and machines without either.
//! Both families have the same functions. Their handles differ: Open MPI has pointers to objects of the library, and the
//! MPICH family has the numbers of its common binary interface.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::ptr;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use model::UserError;

/// Library of Open MPI 4 and 5.
const OPEN_MPI: &[&str] = &["libmpi.so.40"];
/// Library of MPICH, Intel MPI and MVAPICH.
const MPICH: &[&str] = &["libmpi.so.12", "libmpich.so.12"];
/// Name that a site may have given its own.
const ANY: &[&str] = &["libmpi.so"];
/// `MPI_THREAD_FUNNELED`: only the thread that has initialised the library calls it. Both families have this number.
const FUNNELED: c_int = 1;
/// Action that fails without a library.
const ACTION: &str = "join the other ranks of this job";
/// Tag of all messages.
const TAG: c_int = 1;
/// `MPI_COMM_WORLD` and `MPI_BYTE` of the MPICH family.
const MPICH_HANDLES: (c_int, c_int) = (0x4400_0000, 0x4c00_010d);

// SAFETY: these are the types of the standard's C functions. Each call says why it is sound.
type InitThread = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type CommQuery<H> = unsafe extern "C" fn(H, *mut c_int) -> c_int;
type Probe<H> = unsafe extern "C" fn(c_int, c_int, H, *mut c_int, *mut c_void) -> c_int;
type Receive<H> = unsafe extern "C" fn(*mut c_void, c_int, H, c_int, c_int, H, *mut c_void) -> c_int;
type Send<H> = unsafe extern "C" fn(*const c_void, c_int, H, c_int, c_int, H, *mut H) -> c_int;
type Test<H> = unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

/// The job that this process is a rank of. Belongs to the thread that has joined it.
pub trait Job {
    /// Returns the number of this rank.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Receives a message of any rank into the buffer; false if none has arrived. No message is longer than the buffer.
    fn receive(&mut self, buffer: &mut [u8]) -> bool;

    /// Begins to send a message.
    fn send(&mut self, rank: usize, message: Vec<u8>);

    /// Returns true once all messages are sent.
    fn has_sent_all(&mut self) -> bool;

    /// Leaves the job. Waits until all ranks do.
    fn leave(self: Box<Self>);
}

/// Family of MPI libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Open MPI.
    OpenMpi,
    /// MPICH, and those that have its binary interface.
    Mpich,
}

/// Joins the job whose launcher has started this process. A library of the launcher's own family is tried first.
///
/// # Errors
/// There is no library, or it refuses.
pub fn join(family: Family) -> Result<Box<dyn Job>, UserError> {
    let fail = |cause: String| {
        UserError::new(ACTION, cause)
            .help("load the module of the MPI whose mpirun you use, or use --hosts instead of mpirun")
    };
    if cfg!(target_feature = "crt-static") {
        return Err(UserError::new(ACTION, "this is the static program, which cannot load an MPI library")
            .help("use the dynamic program instead, or --hosts instead of mpirun"));
    }
    set_close_on_exec();
    let open = |name: &&'static str| {
        // SAFETY: opening a library runs its initialisers. Those of an MPI library prepare its own state, and the launcher
        // of this process expects it to be opened.
        unsafe { Library::open(Some(*name), RTLD_NOW | RTLD_GLOBAL) }.ok().map(|library| (*name, library))
    };
    let names = match family {
        Family::OpenMpi => [OPEN_MPI, MPICH, ANY],
        Family::Mpich => [MPICH, OPEN_MPI, ANY],
    }
    .concat();
    let library = names.iter().find_map(open);
    let (name, library) = library
        .ok_or_else(|| fail(format!("none of these MPI libraries is installed: {}", names.join(", "))))?;
    log::debug!("the MPI library is {name}");
    let object = |name: &[u8]| {
        // SAFETY: the symbol is an object of Open MPI, of which only the address is used.
        unsafe { library.get::<*mut c_void>(name) }.ok().map(libloading::os::unix::Symbol::into_raw)
    };
    let world = (object(b"ompi_mpi_comm_world"), object(b"ompi_mpi_byte"));
    let missing = |error: libloading::Error| fail(format!("the MPI library lacks a function: {error}"));
    Ok(match world {
        (Some(world), Some(byte)) => {
            // `MPI_ANY_SOURCE` and `MPI_STATUS_IGNORE` of Open MPI.
            let constants = Constants { world, byte, any_source: -1, no_status: ptr::null_mut() };
            Box::new(Ranks::<*mut c_void>::init(library, constants).map_err(missing)?)
        }
        _ => {
            let (world, byte) = MPICH_HANDLES;
            let no_status = ptr::without_provenance_mut(1);
            let constants = Constants { world, byte, any_source: -2, no_status };
            Box::new(Ranks::<c_int>::init(library, constants).map_err(missing)?)
        }
    })
}

/// Keeps the channel to the launcher of MPICH from programs that this one starts. The launcher sees the end of a rank by
/// the end of that channel.
fn set_close_on_exec() {
    let number = std::env::var("PMI_FD").ok().and_then(|text| text.parse().ok());
    if let Some(number @ 3..) = number {
        // SAFETY: the launcher has opened this descriptor for the library in this process, and nobody closes it before
        // the library does. If it is not open, the call fails.
        let channel = unsafe { BorrowedFd::borrow_raw(number) };
        let _ = rustix::io::fcntl_setfd(channel, rustix::io::FdFlags::CLOEXEC);
    }
}

/// Constants of a family, whose handles are `H`.
#[derive(Debug, Clone, Copy)]
struct Constants<H> {
    world: H,
    byte: H,
    any_source: c_int,
    no_status: *mut c_void,
}

/// Functions of a library, which stays open as long as they are used.
struct Ranks<H> {
    constants: Constants<H>,
    probe: Probe<H>,
    receive: Receive<H>,
    send: Send<H>,
    test: Test<H>,
    finalize: Finalize,
    rank: usize,
    size: usize,
    /// Messages on their way. The library reads them until their request is done, so they are never dropped before.
    pending_sends: ManuallyDrop<Vec<(Box<H>, Vec<u8>)>>,
    /// Threads of the library may run until the process ends, so it stays in memory.
    _library: ManuallyDrop<Library>,
}

impl<H: Copy> Ranks<H> {
    fn init(library: Library, constants: Constants<H>) -> Result<Self, libloading::Error> {
        /// Returns a function of the library.
        ///
        /// # Safety
        /// `F` is its type.
        unsafe fn function<F: Copy>(library: &Library, name: &[u8]) -> Result<F, libloading::Error> {
            // SAFETY: as the caller says.
            unsafe { library.get::<F>(name).map(|symbol| *symbol) }
        }
        // SAFETY: the types are those of the MPI standard's C functions. `H` is the handle of this library's family: a
        // pointer where it has the objects of Open MPI, else a number.
        let (init, ranked, sized, mut ranks) = unsafe {
            let init: InitThread = function(&library, b"MPI_Init_thread")?;
            let ranked: CommQuery<H> = function(&library, b"MPI_Comm_rank")?;
            let sized: CommQuery<H> = function(&library, b"MPI_Comm_size")?;
            let ranks = Self {
                constants,
                probe: function(&library, b"MPI_Iprobe")?,
                receive: function(&library, b"MPI_Recv")?,
                send: function(&library, b"MPI_Isend")?,
                test: function(&library, b"MPI_Test")?,
                finalize: function(&library, b"MPI_Finalize")?,
                rank: 0,
                size: 0,
                pending_sends: ManuallyDrop::new(Vec::new()),
                _library: ManuallyDrop::new(library),
            };
            (init, ranked, sized, ranks)
        };
        let (mut provided, mut rank, mut size) = (0, 0, 0);
        // SAFETY: the standard allows null for the arguments of `main`, and all numbers outlive their call. An error ends
        // the process, by the library's default.
        unsafe {
            init(ptr::null_mut(), ptr::null_mut(), FUNNELED, &raw mut provided);
            ranked(constants.world, &raw mut rank);
            sized(constants.world, &raw mut size);
        }
        (ranks.rank, ranks.size) = (rank.max(0) as usize, size.max(0) as usize);
        Ok(ranks)
    }
}

impl<H: Copy> Job for Ranks<H> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        let Constants { world, byte, any_source, no_status } = self.constants;
        let mut has_arrived = 0;
        // SAFETY: the flag outlives the call, and `no_status` is the family's constant for "no status".
        unsafe { (self.probe)(any_source, TAG, world, &raw mut has_arrived, no_status) };
        if has_arrived == 0 {
            return false;
        }
        let length = c_int::try_from(buffer.len()).unwrap_or(c_int::MAX);
        // SAFETY: the library writes at most `length` bytes, to a buffer of that length or more.
        unsafe {
            (self.receive)(buffer.as_mut_ptr().cast(), length, byte, any_source, TAG, world, no_status);
        }
        true
    }

    fn send(&mut self, rank: usize, message: Vec<u8>) {
        let Constants { world, byte, .. } = self.constants;
        let (length, rank) = (c_int::try_from(message.len()), c_int::try_from(rank));
        let (Ok(length), Ok(rank)) = (length, rank) else { return };
        // The library overwrites it.
        let mut request = Box::new(world);
        // SAFETY: the message and the request are on the heap and do not move. Both are kept until `MPI_Test` says that
        // the request is done, or until `leave` has seen the end of all.
        unsafe {
            (self.send)(message.as_ptr().cast(), length, byte, rank, TAG, world, &raw mut *request);
        }
        self.pending_sends.push((request, message));
    }

    fn has_sent_all(&mut self) -> bool {
        let Self { test, pending_sends, constants, .. } = self;
        pending_sends.retain_mut(|(request, _)| {
            let mut is_done = 0;
            // SAFETY: the request belongs to a message that is kept, and the flag outlives the call.
            unsafe { test(&raw mut **request, &raw mut is_done, constants.no_status) };
            is_done == 0
        });
        pending_sends.is_empty()
    }

    fn leave(mut self: Box<Self>) {
        while !self.has_sent_all() {
            std::thread::yield_now();
        }
        // SAFETY: no message is on its way, and nothing calls the library afterwards.
        unsafe { (self.finalize)() };
    }
}
