//! Foundation of the end-to-end tests: file systems made for one test, and the program run with its own home.
//!
//! Everything undoes itself when it is dropped, even while a failed test unwinds. Names of temporary directories begin
//! with [`PREFIX`], which identifies leftovers of a killed test process. `cargo xtask rigs --clean` undoes its mounts.

pub mod fuse;
pub mod mounts;
pub mod program;
pub mod pty;
pub mod sshd;

/// Beginning of the names of temporary directories.
pub const PREFIX: &str = "skye-test.";

/// Makes a temporary directory, in memory if `bytes` fit there well, else where temporary files go.
pub fn scratch(bytes: u64) -> tempfile::TempDir {
    let room = rustix::fs::statvfs("/dev/shm").map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let builder = || {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        builder
    };
    // Memory is shared with everything else that runs, so half of it is left alone.
    let made = if room / 2 > bytes { builder().tempdir_in("/dev/shm") } else { builder().tempdir() };
    made.or_else(|_| builder().tempdir()).expect("a temporary directory")
}

/// Returns the ID of a device without serial number: its size, the number of the disk since the machine started, and that of
/// a partition.
pub fn device_id(device: &std::path::Path) -> String {
    let at = std::path::Path::new("/sys/class/block").join(device.file_name().unwrap());
    let at = at.canonicalize().unwrap();
    let number = |at: &std::path::Path, name: &str| {
        std::fs::read_to_string(at.join(name)).ok()?.trim().parse::<u64>().ok()
    };
    let bytes = number(&at, "size").unwrap() * 512;
    match number(&at, "partition") {
        None => format!("{bytes}-{}", number(&at, "diskseq").unwrap()),
        Some(part) => format!("{bytes}-{}-p{part}", number(at.parent().unwrap(), "diskseq").unwrap()),
    }
}
