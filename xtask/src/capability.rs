//! Capabilities of the machine that tests may need. Each is probed by doing it, once per process; a test that cannot
//! run reports it.
//!
//! ```
//! // At the top of a test; returns from it where the machine cannot run it.
//! fn loop_device_reports_its_backing_file() {
//!     xtask::require!(root, loop);
//! }
//! ```
//!
//! `SKYE_TEST_SKIPS` is the file to which skips are appended; `cargo xtask test` reads it. With
//! `SKYE_TEST_REQUIRE=root,loop`, skips for lack of these capabilities are failures. With `quiet` in it, tests that
//! were undecided on a busy machine are failures, too.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::packages;

/// Environment variable: the file to which skips are appended, a line each.
pub const SKIPS_VARIABLE: &str = "SKYE_TEST_SKIPS";
/// Environment variable: comma-separated capabilities whose absence is a failure.
pub const REQUIRE_VARIABLE: &str = "SKYE_TEST_REQUIRE";
/// Word in [`REQUIRE_VARIABLE`] that turns undecided tests into failures.
pub const QUIET: &str = "quiet";
/// User ID of another user than the owner, for tests.
pub const OTHER_USER: u32 = 65534;

/// Shell script for a private mount namespace: mounts tracefs at `/sys/kernel/tracing`.
pub const MOUNT_TRACEFS: &str = "{ test -e /sys/kernel/tracing/trace_marker || \
    mount -t tracefs skye-probe /sys/kernel/tracing; }";

/// One ability that a machine has or lacks.
#[derive(Debug)]
pub struct Capability {
    /// Name in [`require!`] and in `SKYE_TEST_REQUIRE`.
    pub name: &'static str,
    /// Action that it makes possible for a test.
    pub lets: &'static str,
    probe: fn() -> Result<(), String>,
    answer: OnceLock<Result<(), String>>,
}

impl Capability {
    const fn new(name: &'static str, lets: &'static str, probe: fn() -> Result<(), String>) -> Self {
        Self { name, lets, probe, answer: OnceLock::new() }
    }

    /// Returns `Ok` if this machine has the capability, otherwise the reason why not.
    ///
    /// # Errors
    /// The reason, as a fragment that follows "needs NAME: ".
    pub fn check(&self) -> Result<(), String> {
        self.answer.get_or_init(self.probe).clone()
    }
}

/// All capabilities; a new one is one line here and one function below.
pub static CAPABILITIES: [Capability; 31] = [
    Capability::new("root", "run as user 0", probe_root),
    Capability::new("loop", "attach loop devices", probe_loop),
    Capability::new("host", "see all processes of the machine", probe_host),
    Capability::new("zram", "create compressed memory devices", probe_zram),
    Capability::new("fuse", "mount user-space file systems", probe_fuse),
    Capability::new("tmpfs", "mount tmpfs", probe_tmpfs),
    Capability::new("ext4", "create and mount ext4", || probe_file_system("ext4", 16)),
    // mkfs.xfs refuses anything smaller than 300 MB.
    Capability::new("xfs", "create and mount xfs", || probe_file_system("xfs", 320)),
    // mkfs.btrfs refuses anything smaller than 109 MiB.
    Capability::new("btrfs", "create and mount btrfs", || probe_file_system("btrfs", 128)),
    Capability::new("blkio", "limit a device with cgroup v1", probe_blkio),
    Capability::new("quota", "limit CPU time with cgroups", probe_quota),
    Capability::new("memory", "limit memory with cgroups", probe_memory),
    Capability::new("overlay", "mount an overlay over ext4", probe_overlay),
    Capability::new("netns", "create network namespaces, and limit the traffic between them", probe_netns),
    Capability::new("timens", "run a program with another monotonic clock", probe_timens),
    Capability::new("sshfs", "mount a server's directory with sshfs", probe_sshfs),
    Capability::new("bindfs", "mount a directory with bindfs", || probe_daemon(rig::Daemon::Bindfs)),
    Capability::new("gocryptfs", "mount an encrypted directory", || probe_daemon(rig::Daemon::Gocryptfs)),
    Capability::new("bonnie", "run the original bonnie++", probe_bonnie),
    Capability::new("valgrind", "count instructions", probe_valgrind),
    Capability::new("strace", "count system calls", probe_strace),
    Capability::new("sfdisk", "write partition tables", probe_sfdisk),
    Capability::new("fio", "run fio", probe_fio),
    Capability::new("tracefs", "write and read the kernel's trace", probe_tracefs),
    Capability::new("promtool", "check metrics as Prometheus does", || promtool().map(drop)),
    Capability::new("tmux", "run a terminal that reflows its lines", probe_tmux),
    Capability::new("user", "run a program as another user", probe_user),
    Capability::new("chromium", "open pages in a browser", probe_chromium),
    Capability::new("openmpi", "run jobs of Open MPI", || probe_mpi("openmpi", &["--allow-run-as-root"])),
    Capability::new("mpich", "run jobs of MPICH", || probe_mpi("mpich", &[])),
    Capability::new("guest", "boot a guest with another kernel", probe_guest),
];

/// Returns the capability of that name.
pub fn find(name: &str) -> Option<&'static Capability> {
    CAPABILITIES.iter().find(|capability| capability.name == name)
}

/// Returns from a test that needs what this machine lacks: `require!(root, loop)`.
///
/// `cargo xtask test` lists the skip and its reason. If `SKYE_TEST_REQUIRE` contains the capability, the test fails
/// instead.
#[macro_export]
macro_rules! require {
    ($($capability:tt),+ $(,)?) => {
        // The name of a function inside the test contains the path of the test, in any thread.
        fn here() {}
        if $crate::capability::skip(std::any::type_name_of_val(&here), &[$(stringify!($capability)),+]) {
            return;
        }
    };
}

/// Returns true if a test must be skipped because a capability is missing. Use [`require!`].
///
/// # Panics
/// A name is unknown, or `SKYE_TEST_REQUIRE` forbids the skip.
pub fn skip(here: &str, names: &[&str]) -> bool {
    let test = here.strip_suffix("::here").unwrap_or(here);
    let lacking: Vec<_> = names.iter().filter_map(|name| Some((*name, lack(name)?))).collect();
    let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
    for (name, reason) in &lacking {
        assert!(
            !is_required(&required, name),
            "{test} needs {name}, which {REQUIRE_VARIABLE} requires: {reason}"
        );
    }
    let Some((name, reason)) = lacking.first() else {
        return false;
    };
    list_skip(test, &format!("needs {name}: {reason}"));
    true
}

/// A test that did not pass and did not fail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skip {
    /// True if the test ran, and the machine was too busy to decide it; false if it did not run.
    pub is_undecided: bool,
    /// Path of the test.
    pub test: String,
    /// Reason of the skip.
    pub reason: String,
}

impl Skip {
    /// Reads all skips of a list, each once and in order.
    pub fn read_all(list: &str) -> BTreeSet<Self> {
        let read = |line: &str| {
            let mut fields = line.splitn(3, '\t');
            let is_undecided = fields.next()? == "undecided";
            let [test, reason] = [fields.next()?, fields.next()?].map(str::to_owned);
            Some(Self { is_undecided, test, reason })
        };
        list.lines().filter_map(read).collect()
    }

    fn word(&self) -> &'static str {
        if self.is_undecided { "undecided" } else { "skipped" }
    }

    /// Appends the skip to the list.
    fn write(&self) {
        let line = format!("{}\t{}\t{}\n", self.word(), self.test, self.reason.replace(['\n', '\t'], " "));
        eprint!("{line}");
        if let Some(path) = std::env::var_os(SKIPS_VARIABLE) {
            // One write to a file opened for appending: tests of one process do not tear each other's lines.
            let file = OpenOptions::new().append(true).create(true).open(&path);
            let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
            assert!(written.is_ok(), "cannot record a skip in {}: {written:?}", path.display());
        }
    }
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: {}", self.word(), self.test, self.reason)
    }
}

/// Lists a test that was skipped, also for other reasons than a capability.
///
/// # Panics
/// The list cannot be written.
pub fn list_skip(test: &str, reason: &str) {
    Skip { is_undecided: false, test: test.to_owned(), reason: reason.to_owned() }.write();
}

/// Lists a test that the machine was too busy to decide.
///
/// # Panics
/// `SKYE_TEST_REQUIRE` names [`QUIET`], or the list cannot be written.
pub fn list_undecided(here: &str, reason: &str) {
    let test = here.strip_suffix("::here").unwrap_or(here);
    let required = std::env::var(REQUIRE_VARIABLE).unwrap_or_default();
    assert!(
        !is_required(&required, QUIET),
        "{test} is undecided, and {REQUIRE_VARIABLE} requires a quiet machine: {reason}"
    );
    Skip { is_undecided: true, test: test.to_owned(), reason: reason.to_owned() }.write();
}

/// Returns true if a list of requirements contains a name.
fn is_required(list: &str, name: &str) -> bool {
    list.split(',').any(|word| word.trim() == name)
}

fn lack(name: &str) -> Option<String> {
    let Some(capability) = find(name) else { panic!("no capability `{name}`; use {}", names().join(", ")) };
    capability.check().err()
}

/// Names of all capabilities.
pub fn names() -> Vec<&'static str> {
    CAPABILITIES.iter().map(|capability| capability.name).collect()
}

fn probe_root() -> Result<(), String> {
    // The owner of /proc/self is the effective user of this process.
    let owner = fs::metadata("/proc/self").map_err(|error| format!("cannot read /proc/self: {error}"))?.uid();
    if owner == 0 { Ok(()) } else { Err(String::from("not root")) }
}

fn probe_host() -> Result<(), String> {
    // The kernel gives the initial PID namespace this number (PROC_PID_INIT_INO in include/linux/proc_ns.h).
    match fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link == Path::new("pid:[4026531836]") => Ok(()),
        Ok(_) => Err("this is not the initial PID namespace".into()),
        Err(error) => Err(format!("/proc/self/ns/pid: {error}")),
    }
}

fn probe_loop() -> Result<(), String> {
    probe_root()?;
    let directory = scratch()?;
    let image = sparse_file(directory.path(), 1)?;
    let device = run(Command::new("losetup").args(["--find", "--show"]).arg(&image))?;
    run(Command::new("losetup").args(["--detach", device.trim()])).map(drop)
}

fn probe_zram() -> Result<(), String> {
    probe_root()?;
    let control = Path::new("/sys/class/zram-control");
    // Reading hot_add makes a device and yields its number.
    let number = fs::read_to_string(control.join("hot_add")).map_err(|error| {
        format!("cannot create a device with {}: {error} (modprobe zram?)", control.display())
    })?;
    fs::write(control.join("hot_remove"), number.trim())
        .map_err(|error| format!("cannot remove /dev/zram{}: {error}", number.trim()))
}

fn probe_fuse() -> Result<(), String> {
    probe_root()?;
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(|error| format!("cannot open /dev/fuse: {error}"))?;
    let directory = scratch()?;
    // The kernel takes the server's descriptor by number; a child surely has standard input.
    let mut mount = Command::new("mount");
    mount.args(["-i", "-t", "fuse", "-o", "fd=0,rootmode=40000,user_id=0,group_id=0", "skye-probe"]);
    run(mount.arg(directory.path()).stdin(Stdio::from(device)))?;
    // Closes our end: otherwise, any access to the mount point would wait for an answer.
    drop(mount);
    unmount(directory.path())
}

fn probe_tmpfs() -> Result<(), String> {
    probe_root()?;
    let directory = scratch()?;
    run(Command::new("mount").args(["-t", "tmpfs", "skye-probe"]).arg(directory.path()))?;
    unmount(directory.path())
}

fn probe_file_system(file_system: &str, size_mib: u64) -> Result<(), String> {
    find("loop").map_or(Ok(()), Capability::check)?;
    let directory = scratch()?;
    let image = sparse_file(directory.path(), size_mib)?;
    run(Command::new(format!("mkfs.{file_system}")).arg("-q").arg(&image))?;
    let mount_point = directory.path().join("mount");
    fs::create_dir(&mount_point)
        .map_err(|error| format!("cannot create {}: {error}", mount_point.display()))?;
    run(Command::new("mount")
        .args(["-t", file_system, "-o", "loop"])
        .arg(&image)
        .arg(&mount_point)
        .stdin(Stdio::null()))?;
    unmount(&mount_point)
}

fn probe_blkio() -> Result<(), String> {
    find("loop").map_or(Ok(()), Capability::check)?;
    let limited = rig::Spec::disk().size_mib(1).read_iops(1000);
    rig::Disk::build(&limited).map(drop).map_err(|error| error.to_string())
}

fn probe_tracefs() -> Result<(), String> {
    probe_root()?;
    // Another user may have stopped the trace, which must not be changed.
    let is_on = "test \"$(cat /sys/kernel/tracing/tracing_on)\" = 1 -a -w /sys/kernel/tracing/trace_marker";
    let script = format!("{MOUNT_TRACEFS} && {is_on}");
    run(Command::new("unshare").args(["--mount", "sh", "-c", &script])).map(drop)
}

fn probe_quota() -> Result<(), String> {
    probe_root()?;
    rig::Group::quota(&rig::Spec::quota(0.5)).map(drop).map_err(|error| error.to_string())
}

fn probe_memory() -> Result<(), String> {
    probe_root()?;
    rig::Group::memory(&rig::Spec::memory(64 << 20)).map(drop).map_err(|error| error.to_string())
}

fn probe_overlay() -> Result<(), String> {
    find("ext4").map_or(Ok(()), Capability::check)?;
    let overlay = rig::Spec::disk().size_mib(16).file_system("ext4").with_overlay();
    rig::Disk::build(&overlay).map(drop).map_err(|error| error.to_string())
}

fn probe_bonnie() -> Result<(), String> {
    match packages::is_installed("bonnie++") {
        true => Ok(()),
        false => Err("bonnie++ is not installed (package bonnie++)".into()),
    }
}

fn probe_netns() -> Result<(), String> {
    probe_root()?;
    // Both devices and their limit vanish with the namespace.
    let script = "ip link add name near type veth peer name far && \
                  tc qdisc add dev near root tbf rate 1mbit burst 64kb latency 50ms";
    run(Command::new("unshare").args(["--net", "sh", "-c", script]).stdin(Stdio::null())).map(drop)
}

fn probe_timens() -> Result<(), String> {
    probe_root()?;
    let arguments = ["--time", "--monotonic", "7", "--fork", "true"];
    run(Command::new("unshare").args(arguments).stdin(Stdio::null())).map(drop)
}

fn probe_sshfs() -> Result<(), String> {
    find("netns").map_or(Ok(()), Capability::check)?;
    find("fuse").map_or(Ok(()), Capability::check)?;
    let network = rig::Spec::network(1_000_000_000).size_mib(1);
    rig::Network::build(&network, &[]).map(drop).map_err(|error| error.to_string())
}

fn probe_daemon(daemon: rig::Daemon) -> Result<(), String> {
    find("loop").map_or(Ok(()), Capability::check)?;
    let disk = rig::Spec::disk().file_system("ext4").daemon(daemon);
    rig::Disk::build(&disk).map(drop).map_err(|error| error.to_string())
}

fn probe_user() -> Result<(), String> {
    probe_root()?;
    let mut id = Command::new("id");
    let printed = run(id.arg("-u").uid(OTHER_USER).gid(OTHER_USER).current_dir("/"))?;
    match printed.trim().parse::<u32>() {
        Ok(OTHER_USER) => Ok(()),
        _ => Err(format!("a child started as {OTHER_USER} ran as {}", printed.trim())),
    }
}

fn probe_sfdisk() -> Result<(), String> {
    run(Command::new("sfdisk").arg("--version")).map(drop)
}

/// Returns the program that checks metrics of Prometheus.
///
/// # Errors
/// Its package cannot be fetched or unpacked.
pub fn promtool() -> Result<std::path::PathBuf, String> {
    crate::lab::program("prometheus", "usr/bin/promtool").map_err(|error| format!("{error:#}"))
}

fn probe_tmux() -> Result<(), String> {
    run(Command::new("tmux").arg("-V").stdin(Stdio::null())).map(drop)
}

fn probe_strace() -> Result<(), String> {
    run(Command::new("strace").args(["-o", "/dev/null", "true"]).stdin(Stdio::null())).map(drop)
}

fn probe_fio() -> Result<(), String> {
    run(Command::new("fio").arg("--version").stdin(Stdio::null())).map(drop)
}

fn probe_mpi(family: &str, options: &[&str]) -> Result<(), String> {
    let mut launcher = Command::new(format!("mpirun.{family}"));
    // A program that ends before the launcher has passed its standard input on may end the launcher, too, by SIGPIPE.
    launcher.args(["-n", "1"]).args(options).arg("cat").stdin(Stdio::null());
    run(&mut launcher).map(drop)
}

fn probe_valgrind() -> Result<(), String> {
    // Valgrind needs more than itself, such as the symbols of the dynamic linker.
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "true"]).stdin(Stdio::null());
    run(&mut valgrind).map(drop)
}

fn probe_chromium() -> Result<(), String> {
    let home = scratch()?;
    // A printed version proves little: chromium must come up without a window, a sandbox and a home.
    let mut chromium = Command::new("chromium");
    chromium.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-breakpad",
    ]);
    chromium.args(["--no-first-run", "--disable-background-networking", "--dump-dom"]);
    chromium
        .arg(format!("--user-data-dir={}", home.path().display()))
        .arg("data:text/html,<p id=skye-probe>");
    chromium.env("HOME", home.path()).env_remove("DISPLAY").stdin(Stdio::null());
    match run(&mut chromium)?.contains("<p id=\"skye-probe\">") {
        true => Ok(()),
        false => Err("chromium opened a page, and did not render it".into()),
    }
}

fn probe_guest() -> Result<(), String> {
    probe_root()?;
    crate::lab::probe()
}

fn scratch() -> Result<tempfile::TempDir, String> {
    let made = tempfile::Builder::new().prefix("skye-probe.").tempdir();
    made.map_err(|error| format!("cannot create a temporary directory: {error}"))
}

fn sparse_file(directory: &Path, size_mib: u64) -> Result<std::path::PathBuf, String> {
    let path = directory.join("image");
    let made = File::create_new(&path).and_then(|file| file.set_len(size_mib << 20));
    made.map(|()| path).map_err(|error| format!("cannot create a file in {}: {error}", directory.display()))
}

fn unmount(mount_point: &Path) -> Result<(), String> {
    let done = run(Command::new("umount").arg(mount_point));
    if done.is_err() {
        // A mount that stays would outlive the probe; a detached one goes with its last user.
        run(Command::new("umount").arg("--lazy").arg(mount_point))?;
    }
    Ok(())
}

/// Runs a command to its end and returns its output, or else its complaint.
fn run(command: &mut Command) -> Result<String, String> {
    // Administrators' commands lie outside the search path of many users.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C");
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run {name}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{name}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_probe_gives_reason_and_cleans_up() {
        for capability in &CAPABILITIES {
            match capability.check() {
                Ok(()) => eprintln!("{}: yes", capability.name),
                Err(reason) => {
                    eprintln!("{}: {reason}", capability.name);
                    assert!(!reason.is_empty());
                }
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own: Vec<_> = mounts.lines().filter(|line| line.contains("skye-probe")).collect();
        assert_eq!(own, [""; 0]);
    }

    #[test]
    fn test_name_is_found_in_unnamed_thread() {
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        let end = "capability::tests::test_name_is_found_in_unnamed_thread::here";
        assert!(name.ends_with(end), "{name}");
        assert!(!skip(name, &[]));
    }

    #[test]
    fn skip_is_listed_once_with_its_reason() {
        let list = "skipped\tengine::direct\tneeds loop: not root\nundecided\te2e::quota\tothers used 2 CPUs\n\
                    undecided\te2e::quota\tothers used 2 CPUs\n";
        let lines: Vec<_> = Skip::read_all(list).iter().map(Skip::to_string).collect();
        assert_eq!(
            lines,
            ["skipped: engine::direct: needs loop: not root", "undecided: e2e::quota: others used 2 CPUs"]
        );
    }

    #[test]
    #[should_panic(expected = "no capability `teleport`")]
    fn unknown_capability_panics() {
        skip("x", &["teleport"]);
    }
}
