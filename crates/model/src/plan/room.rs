//! Room for the files of a run: what is free, what stays free, and how many files fit.

use super::{Clients, Dataset, PlannedPhase, power_of_two_within};
use crate::machine::Machine;
use crate::request::Request;
use crate::size;
use crate::spec::{self, Defaults};
use crate::target::{Backing, Space, Target};
use crate::user_error::UserError;
use crate::workload::verbs::Change;
use crate::workload::{FileVerb, FilesWork, SyncMode, Work, Workload};

/// Default minimum of the data set. Below it, device caches and start-up dominate.
pub const DATASET_BYTES_MIN: u64 = 256 << 20;
/// Default maximum of the data set.
pub const DATASET_BYTES_MAX: u64 = 4 << 30;
/// Default maximum of a data set whose size does not depend on the rate of the storage. Several clients have one size.
const FIXED_DATASET_BYTES_MAX: u64 = 1 << 30;
/// Share of the write limit that such a data set takes at first, as a divisor. Tests write more than the data set has.
const FIXED_DATASET_DIVISOR: u64 = 8;
/// Default maximum of the bytes in the files of a test.
const FILES_BYTES_MAX: u64 = 256 << 20;
/// Most directories that one test keeps open at a time.
const DESCRIPTORS_MAX: u64 = 512;
/// Inodes of skye's directory, of its marker, and of a scratch file.
const OWN_INODES: u64 = 3;

/// Writes of a run that take more space than the data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writes {
    /// True if tests overwrite blocks.
    has_overwrites: bool,
    /// True if files grow, in the page cache.
    has_growing_files: bool,
}

impl Writes {
    /// Returns the writes of these tests.
    pub(super) fn from_tests<'a>(request: &Request, tests: impl Iterator<Item = &'a Workload>) -> Self {
        let tests: Vec<_> = tests.collect();
        let writing = || tests.iter().filter_map(|test| test.data()).filter(|data| data.writes());
        Self {
            has_overwrites: request.precondition.is_some() || writing().next().is_some(),
            has_growing_files: writing().any(|data| data.fresh) && writing().any(|data| !data.direct),
        }
    }

    /// Returns the name of the blocks that take as much space as the data on the file system of the target.
    fn space_doubled_by(self, target: &Target) -> Option<&'static str> {
        match self {
            Self { has_overwrites: true, .. } if target.copies_on_write() => Some("overwritten blocks"),
            Self { has_growing_files: true, .. } if target.preallocates() => {
                Some("preallocation past the end of growing files")
            }
            _ => None,
        }
    }
}

/// Rooms of all clients, of which there is at least one.
pub(super) struct Rooms(Vec<Room>);

impl Rooms {
    /// Returns the rooms. All clients have files of one size, so that of the least limit holds for all.
    pub(super) fn new(mut rooms: Vec<Room>) -> Self {
        let file_bytes_max = rooms.iter().map(|room| room.file_bytes_max).min().unwrap_or(u64::MAX);
        rooms.iter_mut().for_each(|room| room.file_bytes_max = file_bytes_max);
        Self(rooms)
    }
}

/// Room on a file system for one client.
pub(super) struct Room {
    /// Path of the target.
    pub(super) path: String,
    /// Bytes and inodes that are free for all clients on the file system.
    space: Space,
    /// Clients on the file system.
    clients_on_file_system: u32,
    /// Bytes that all clients together leave free.
    reserve_bytes: u64,
    /// Most bytes of a file.
    pub(super) file_bytes_max: u64,
    /// Name of blocks that take as much space as the data, if there are any: "overwritten blocks".
    space_doubled_by: Option<&'static str>,
    /// True if blocks of removed files are freed in the background, so that those of the last round still take space.
    frees_in_background: bool,
    /// Largest data set without a requested size, by the write limit.
    dataset_bytes_max: u64,
}

/// Part of the memory, as a divisor, that files in memory may take. Beyond the limit of a cgroup, the kernel kills.
const MEMORY_DIVISOR: u64 = 2;

/// Returns the space of a target. A file system in memory has no more than a part of the memory that this process may use.
fn space_of(target: &Target, machine: &Machine) -> Space {
    let memory_bytes = machine.memory_bytes / MEMORY_DIVISOR;
    if target.backing != Backing::Memory || memory_bytes == 0 {
        return target.space;
    }
    let Space { total_bytes, free_bytes, .. } = target.space;
    Space {
        total_bytes: total_bytes.min(memory_bytes),
        free_bytes: free_bytes.min(memory_bytes),
        ..target.space
    }
}

impl Room {
    /// Returns the free space of a run, or of one of its clients.
    pub(super) fn new(
        target: &Target,
        machine: &Machine,
        clients: Option<Clients>,
        dataset_bytes_max: u64,
        allow_low_space: bool,
        writes: Writes,
    ) -> Self {
        let keeps_reserve = !allow_low_space && target.erased.is_none();
        let space = space_of(target, machine);
        Self {
            path: target.path.clone(),
            // Without inodes, no file could be created. Some servers report 0 because they have no number.
            space: Space { inodes_free: space.inodes_free.filter(|free| *free > 0), ..space },
            clients_on_file_system: clients.map_or(1, |clients| clients.clients_on_file_system),
            file_bytes_max: match target.erased {
                Some(_) => u64::MAX,
                None => [machine.file_bytes_max, target.file_bytes_max()]
                    .into_iter()
                    .flatten()
                    .fold(u64::MAX, u64::min),
            },
            frees_in_background: keeps_reserve && target.frees_in_background(),
            space_doubled_by: writes.space_doubled_by(target).filter(|_| keeps_reserve),
            reserve_bytes: if keeps_reserve { space.reserve_bytes() } else { 0 },
            dataset_bytes_max: dataset_bytes_max
                / clients.map_or(1, |clients| u64::from(clients.count.max(1))),
        }
    }

    /// Returns the largest data set without a requested size. One that `is_fixed` does not depend on the rate of the storage.
    pub(super) fn dataset_bytes_max(&self, is_fixed: bool) -> u64 {
        let (bytes, most) = match is_fixed {
            true => (self.dataset_bytes_max / FIXED_DATASET_DIVISOR, FIXED_DATASET_BYTES_MAX),
            false => (self.dataset_bytes_max, DATASET_BYTES_MAX),
        };
        most.min(power_of_two_within(bytes))
    }

    /// Returns the client's share of what is free, with the reserve.
    pub(super) fn share(&self) -> Space {
        self.space.shared_by(self.clients_on_file_system)
    }

    /// Returns the bytes that the client may take.
    pub(super) fn usable_bytes(&self) -> u64 {
        if !self.space.has_bytes() {
            return i64::MAX as u64;
        }
        let free_bytes = self.space.free_bytes.saturating_sub(self.reserve_bytes);
        let free_bytes = if self.space_doubled_by.is_some() { free_bytes / 2 } else { free_bytes };
        Space { free_bytes, ..self.space }.shared_by(self.clients_on_file_system).free_bytes
    }

    /// Returns the error of a file that would be too large.
    pub(super) fn refuse_file(&self, action: impl Into<String>, file_bytes: u64) -> Result<(), UserError> {
        if file_bytes <= self.file_bytes_max {
            return Ok(());
        }
        let [bytes, max] = [file_bytes, self.file_bytes_max].map(size::binary);
        let cause = format!("a file would need {bytes}, and RLIMIT_FSIZE or the file system allows {max}");
        Err(UserError::new(action, cause).help("use smaller or more files, or raise the limit (ulimit -f)"))
    }

    /// Returns a remedy for a client that needs this number of bytes: `less` only if anything fits.
    pub(super) fn help(&self, needed_bytes: u64, less: &str) -> String {
        let mut help = String::from("free some space");
        if self.usable_bytes() > 0 {
            help.push_str(&format!(", or {less}"));
        }
        if self.clients_on_file_system > 1 {
            help.push_str(", or use fewer clients");
        }
        if self.reserve_bytes > 0 && needed_bytes <= self.share().free_bytes {
            help.push_str(", or add --allow low-space");
        }
        help
    }

    /// Says what is free: "for each of 4 clients; 8 GiB is free, less a reserve of 1 GiB".
    pub(super) fn describe(&self) -> String {
        let mut text = format!("; {} is free", size::binary(self.space.free_bytes));
        if self.clients_on_file_system > 1 {
            text.insert_str(0, &format!(" for each of {} clients", self.clients_on_file_system));
        }
        if self.reserve_bytes > 0 {
            text.push_str(&format!(", less a reserve of {}", size::binary(self.reserve_bytes)));
        }
        if let Some(twice) = self.space_doubled_by {
            text.push_str(&format!(", and half of that is reserved for {twice}"));
        }
        text
    }

    fn needs(&self, files: &FilesWork, threads: u32) -> Needs {
        let directories = files.dirs.saturating_mul(files.levels.into()) + 1;
        let directories = trees(files, threads).saturating_mul(directories);
        // An empty file still takes about half a KiB of inode and directory on common file systems.
        let metadata_bytes = if self.space.inodes_free.is_some() { 64 } else { 512 };
        let metadata_bytes = files.files_max(threads).saturating_mul(metadata_bytes);
        let rounds = if self.frees_in_background { 2 } else { 1 };
        Needs {
            inodes: files.inodes(threads).saturating_add(directories).saturating_add(OWN_INODES),
            bytes: files.space_bytes_max(threads).saturating_mul(rounds).saturating_add(metadata_bytes),
        }
    }
}

impl Rooms {
    /// Returns the smallest usable space of all clients.
    pub(super) fn least(&self) -> &Room {
        let least = self.0.iter().min_by_key(|room| room.usable_bytes());
        least.unwrap_or(&self.0[0])
    }

    /// Reduces the default number of files to a power of two that takes half of the space at most. Of the space,
    /// `laid_out_bytes` are for data. Returns a note if it reduced it.
    pub(super) fn fit_files<'a>(
        &self,
        tests: impl Iterator<Item = &'a mut Workload>,
        laid_out_bytes: u64,
    ) -> Option<String> {
        let mut files_min = None;
        for test in tests {
            let threads = test.threads;
            let Work::Files(work) = &mut test.work else { continue };
            let own_files = work.own_files(threads);
            if work.verb == FileVerb::Replay || work.files != own_files.unwrap_or(Defaults::default().files) {
                continue;
            }
            if own_files.is_none() {
                let usual = FILES_BYTES_MAX / work.size_max_bytes.max(FILES_BYTES_MAX / work.files);
                work.files = power_of_two_within(usual.max(1));
            }
            let fits = |work: &FilesWork| {
                self.0.iter().all(|room| {
                    let (needs, usable) = (room.needs(work, threads), room.usable_bytes());
                    let inodes_free = room.share().inodes_free;
                    inodes_free.is_none_or(|free| needs.inodes <= free / 2)
                        && needs.bytes <= usable.saturating_sub(laid_out_bytes).min(usable / 2)
                })
            };
            let least = u64::from(threads).max(work.dirs);
            while !fits(work) && work.files / 2 >= least {
                work.files /= 2;
                files_min = Some(work.files.min(files_min.unwrap_or(u64::MAX)));
            }
        }
        let mut note = format!("file tests are reduced to as few as {} files", size::count(files_min?));
        let room = self.least();
        let space = room.share();
        if room.clients_on_file_system > 1 {
            note.push_str(&format!(" on each of {} clients", room.clients_on_file_system));
        }
        let inodes = space.inodes_free.map(|inodes| format!("{} inodes and ", size::count(inodes)));
        let free_bytes = size::binary(space.free_bytes);
        Some(format!("{note}: {}{free_bytes} are free", inodes.unwrap_or_default()))
    }

    /// Refuses tests on files for which bytes, inodes or descriptors would not suffice beside the data set.
    pub(super) fn check_files(
        &self,
        phases: &[PlannedPhase],
        dataset: Option<&Dataset>,
    ) -> Result<(), UserError> {
        for (workload, room) in
            phases.iter().flat_map(|phase| self.0.iter().map(|room| (&phase.workload, room)))
        {
            let Some(files) = workload.files() else { continue };
            let action = || format!("run `{}` in {}", spec::print(workload), room.path);
            let Needs { inodes, bytes } = room.needs(files, workload.threads);
            let data_files: u64 =
                dataset.iter().flat_map(|set| &set.groups).map(|group| u64::from(group.files)).sum();
            let inodes = inodes.saturating_add(data_files);
            let descriptors = trees(files, workload.threads) * files.dirs;
            let holds = files.dirs > 1 && files.verb.change() != Change::RemovedTree;
            if files.sync == SyncMode::Each && holds && descriptors > DESCRIPTORS_MAX {
                return Err(UserError::new(
                    action(),
                    format!("sync=each opens {descriptors} directories, more than {DESCRIPTORS_MAX}"),
                )
                .help("use a smaller dirs=, fewer threads, or sync=end"));
            }
            if let Some(free) = room.share().inodes_free.filter(|free| inodes > *free) {
                let clients = room.clients_on_file_system;
                let (each, for_each) = match clients {
                    0 | 1 => (String::new(), ""),
                    _ => (format!(" for each of {clients} clients"), " for each"),
                };
                let can_be_fewer = files.files > u64::from(workload.threads).max(files.dirs);
                let help = match (can_be_fewer, clients > 1) {
                    (true, false) => "use a smaller --files",
                    (true, true) => "use a smaller --files, or fewer clients",
                    (false, true) => "use fewer clients",
                    (false, false) => "use another file system, or fewer threads",
                };
                let cause = format!("it needs {inodes} inodes{each}, and {free} are free{for_each}");
                return Err(UserError::new(action(), cause).help(help));
            }
            room.refuse_file(action(), files.size_max_bytes)?;
            let laid_out = dataset.map_or(0, Dataset::file_bytes_max);
            if bytes.saturating_add(laid_out) > room.usable_bytes() {
                return Err(UserError::new(
                    action(),
                    format!(
                        "its files need about {}, and its data {}{}",
                        size::binary(bytes),
                        size::binary(laid_out),
                        room.describe()
                    ),
                )
                .help(room.help(bytes.saturating_add(laid_out), "use a smaller files= or size=")));
            }
        }
        Ok(())
    }
}

/// Demand of the files of a test.
struct Needs {
    inodes: u64,
    bytes: u64,
}

/// Returns the number of trees in which the threads have their files.
fn trees(files: &FilesWork, threads: u32) -> u64 {
    if files.shared { 1 } else { threads.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::fixtures::{GIB, disk_that_polls, machine, request_for};
    use crate::plan::{ClientSite, Plan, plan_for, plan_for_all};
    use crate::request::Request;
    use crate::size::Size;

    /// Plans the tests in a space, for this number of clients that share it.
    fn planned(request: &Request, space: Space, clients_on_file_system: u32) -> Result<Plan, String> {
        let target = Target { space, ..disk_that_polls(None) };
        let clients = (clients_on_file_system > 1).then_some(Clients {
            count: clients_on_file_system,
            number: None,
            clients_on_file_system,
        });
        plan_for(request, &target, &machine(None), clients).map_err(|error| error.to_string())
    }

    fn free(total_bytes: u64, free_bytes: u64, inodes_free: Option<u64>) -> Space {
        Space { total_bytes, free_bytes, inodes_total: inodes_free, inodes_free }
    }

    #[test]
    fn clients_on_one_file_system_share_one_reserve() {
        let refusal = |free_bytes, clients_on_file_system, size| {
            let request = Request { size: Some(Size::Bytes(size)), ..request_for(&["read:seq1m"]) };
            planned(&request, free(4 * GIB, free_bytes, None), clients_on_file_system).err()
        };
        // Three GiB for 20 clients.
        assert_eq!(refusal(4 * GIB, 20, 153 << 20), None);
        let refused = refusal(4 * GIB, 20, 154 << 20).unwrap();
        assert!(
            refused.contains("needs 154 MiB for each of 20 clients; 4 GiB is free, less a reserve of 1 GiB"),
            "{refused}"
        );
        // A quarter of what is free stays free, and 5 % of the file system at least.
        assert_eq!(refusal(GIB, 1, 768 << 20), None);
        assert!(refusal(GIB, 1, 769 << 20).unwrap().contains("a reserve of 256 MiB"));
        assert!(refusal(GIB / 4, 1, GIB / 4).unwrap().contains("a reserve of 205 MiB"));
    }

    #[test]
    fn copy_on_write_blocks_need_extra_space() {
        let refusal = |file_system: &str, size| {
            let space = free(4 * GIB, 4 * GIB, None);
            let target = Target { space, file_system: file_system.into(), ..disk_that_polls(None) };
            let request = Request { size: Some(Size::Bytes(size)), ..request_for(&["write:rnd64k"]) };
            plan_for(&request, &target, &machine(None), None).err().map(|error| error.to_string())
        };
        assert_eq!(refusal("btrfs", 3 * GIB / 2), None);
        let refused = refusal("btrfs", 2 * GIB).unwrap();
        assert!(
            refused.contains("a reserve of 1 GiB, and half of that is reserved for overwritten blocks"),
            "{refused}"
        );
        assert_eq!(refusal("xfs", 3 * GIB), None);
        let growing = |test: &str| {
            let space = free(4 * GIB, 4 * GIB, None);
            let target = Target { space, file_system: "xfs".into(), ..disk_that_polls(None) };
            let request = Request { size: Some(Size::Bytes(2 * GIB)), ..request_for(&[test]) };
            plan_for(&request, &target, &machine(None), None).err().map(|error| error.to_string())
        };
        assert_eq!(growing("write:seq1m:fresh"), None);
        let refused = growing("write:seq1m:buffered:fresh").unwrap();
        assert!(
            refused.contains("half of that is reserved for preallocation past the end of growing files"),
            "{refused}"
        );
        let read = Request { size: Some(Size::Bytes(3 * GIB)), ..request_for(&["read"]) };
        let target = Target {
            space: free(4 * GIB, 4 * GIB, None),
            file_system: "btrfs".into(),
            ..disk_that_polls(None)
        };
        assert!(plan_for(&read, &target, &machine(None), None).is_ok());
    }

    #[test]
    fn plan_fits_the_file_system_of_each_client() {
        let target = |file_system: &str, free_bytes| {
            let space = free(free_bytes, free_bytes, None);
            Target {
                space,
                file_system: file_system.into(),
                path: file_system.into(),
                ..disk_that_polls(None)
            }
        };
        let machine = machine(None);
        let planned = |request: &Request, targets: [&Target; 2]| {
            let places =
                targets.map(|target| ClientSite { target, machine: &machine, clients_on_file_system: 1 });
            plan_for_all(request, &places).map_err(|error| error.to_string())
        };
        let (btrfs, ext4) = (target("btrfs", 800 << 20), target("ext4", 500 << 20));
        let sized =
            |mib: u64| Request { size: Some(Size::Bytes(mib << 20)), ..request_for(&["write:rnd4k"]) };
        // btrfs has 600 MiB beyond its reserve and takes half of them, ext4 has 375 MiB.
        for targets in [[&btrfs, &ext4], [&ext4, &btrfs]] {
            assert!(planned(&sized(300), targets).is_ok());
            let refused = planned(&sized(301), targets).unwrap_err();
            assert!(refused.contains("in btrfs") && refused.contains("800 MiB is free"), "{refused}");
        }
        // The limit on a file's size of one client holds for all.
        let limited = Machine { file_bytes_max: Some(8 << 20), ..machine.clone() };
        let places = [(&btrfs, &machine), (&ext4, &limited)];
        let places =
            places.map(|(target, machine)| ClientSite { target, machine, clients_on_file_system: 1 });
        let plan = plan_for_all(&request_for(&["read:seq1m"]), &places).unwrap();
        assert_eq!(plan.dataset.unwrap().size_bytes_max, 8 << 20);
        let (ample, xfs) = (target("ext4", 100 * GIB), target("xfs", 300 << 20));
        let files =
            |targets| planned(&request_for(&["create:size=1m"]), targets).unwrap().phases[0].workload.clone();
        assert_eq!(files([&ample, &xfs]), files([&xfs, &xfs]));
        // Three clients have a third of the inodes each, whichever client is the first.
        let few = Target { space: free(100 * GIB, 100 * GIB, Some(3000)), ..ample.clone() };
        let place =
            |target, clients_on_file_system| ClientSite { target, machine: &machine, clients_on_file_system };
        for places in [[place(&ample, 1), place(&few, 3)], [place(&few, 3), place(&ample, 1)]] {
            let plan = plan_for_all(&request_for(&["create"]), &places).unwrap();
            assert_eq!(plan.phases[0].workload.files().unwrap().files, 256);
        }
    }

    #[test]
    fn default_data_set_shrinks_with_free_space() {
        let size = |space, clients_on_file_system| {
            let plan = planned(&request_for(&["read:seq1m:q8"]), space, clients_on_file_system).unwrap();
            plan.dataset.unwrap().size_bytes_max >> 20
        };
        for (free_mib, expected) in [(64 << 10, 4096), (20 << 10, 2048), (1024, 256), (280, 64), (32, 8)] {
            assert_eq!(size(free(free_mib << 20, free_mib << 20, None), 1), expected, "{free_mib} MiB");
        }
        // Clients have a gibibyte each at most, and an eighth of their share of the write limit.
        assert_eq!(size(free(100 * GIB, 100 * GIB, None), 4), 1024);
        assert_eq!(size(free(100 * GIB, 100 * GIB, None), 20), 128);
        assert_eq!(size(free(GIB, GIB, None), 20), 16);
        // A file system that does not report its free space gets the smallest default set.
        assert_eq!(size(Space::default(), 1), 256);
    }

    #[test]
    fn smallest_data_set_is_planned_on_a_small_volume() {
        let sized = |free_bytes, test: &str| planned(&request_for(&[test]), free(GIB, free_bytes, None), 1);
        let plan = sized(120 << 20, "read:seq1m:q64").unwrap();
        assert_eq!(plan.dataset.unwrap().size_bytes_max, 64 << 20);
        let refused = sized(64 << 20, "read:seq1m:q64").unwrap_err();
        assert!(
            refused.contains("free some space, or use smaller blocks, less depth or fewer threads"),
            "{refused}"
        );
    }

    #[test]
    fn data_set_in_memory_is_limited_by_free_memory() {
        let machine = Machine { memory_bytes: 256 << 20, ..machine(None) };
        let space = free(2 * GIB, 2 * GIB, None);
        let size = |backing| {
            let target = Target { space, backing, ..disk_that_polls(None) };
            let plan = plan_for(&request_for(&["read:seq1m"]), &target, &machine, None).unwrap();
            plan.dataset.unwrap().size_bytes_max
        };
        // A reserve of 32 MiB stays free.
        assert!(size(Backing::Memory) <= 96 << 20);
        assert!(size(Backing::Devices) > 96 << 20);
    }

    #[test]
    fn default_data_set_fits_into_each_write_limit() {
        let planned = |mib: u64, clients| {
            let limit = Some(Size::Bytes(mib << 20));
            let request = Request { write_limit: limit, ..request_for(&["read:seq1m", "write:seq1m"]) };
            let clients = Some(Clients { count: clients, number: None, clients_on_file_system: 1 });
            plan_for(&request, &disk_that_polls(None), &machine(None), clients).map(|plan| plan.dataset)
        };
        for clients in [1, 2] {
            assert!((20..600).all(|mib| planned(mib, clients).is_ok()), "{clients} clients");
        }
    }

    #[test]
    fn data_set_respects_the_file_size_limit() {
        let space = free(100 * GIB, 100 * GIB, None);
        let sized = |file_system: &str, file_bytes_max, size: Option<u64>, test: &str| {
            let machine = Machine { file_bytes_max, ..machine(None) };
            let target = Target { space, file_system: file_system.into(), ..disk_that_polls(None) };
            let request = Request { size: size.map(Size::Bytes), ..request_for(&[test]) };
            plan_for(&request, &target, &machine, None).map_err(|error| error.to_string())
        };
        let default = |file_system, file_bytes_max, test| {
            sized(file_system, file_bytes_max, None, test).unwrap().dataset.unwrap().size_bytes_max
        };
        assert_eq!(default("vfat", None, "read:seq1m"), 4 * GIB - (1 << 20));
        assert_eq!(default("ext4", Some(8 << 20), "read:seq1m"), 8 << 20);
        assert_eq!(default("ext4", Some(8 << 20), "read:seq1m:t4"), 32 << 20);
        let refused = sized("ext4", Some(8 << 20), Some(GIB), "read:seq1m").unwrap_err();
        assert!(refused.contains("a file would need 1 GiB") && refused.contains("allows 8 MiB"), "{refused}");
        let refused = sized("ext4", Some(8 << 20), None, "create:size=9m").unwrap_err();
        assert!(refused.contains("a file would need 9 MiB"), "{refused}");
    }

    #[test]
    fn file_tests_fit_into_space_left_by_data_set() {
        let request = request_for(&["read:seq1m:q16", "create"]);
        let space = free(32 << 20, 28 << 20, None);
        let plan = planned(&request, space, 1).unwrap();
        assert_eq!(plan.dataset.unwrap().size_bytes_max, 16 << 20);
        assert_eq!(plan.phases[1].workload.files().unwrap().files, 8192);
    }

    #[test]
    fn file_count_is_limited_by_space_and_inodes() {
        let files = |test: &str, space| {
            let plan = planned(&request_for(&[test]), space, 1).unwrap();
            assert_eq!(
                plan.notes.iter().any(|note| note.contains("as few as")),
                test != "create:size=16k:files=9" && space.free_bytes < 2 * GIB
            );
            plan.phases[0].workload.files().unwrap().files
        };
        let ample = free(100 * GIB, 100 * GIB, Some(1 << 20));
        assert_eq!(files("create", ample), 1 << 16);
        assert_eq!(files("create:size=16k", ample), 1 << 14);
        assert_eq!(files("create:size=1g", ample), 1);
        let small = |inodes| free(GIB, GIB, inodes);
        assert_eq!(files("create:t4", small(Some(65_525))), 1 << 14);
        assert_eq!(files("create:t4", small(Some(1013))), 256);
        assert_eq!(files("create:size=16k:files=9", small(Some(1013))), 9);
        assert_eq!(files("create:size=1m", free(GIB, GIB / 4, None)), 32, "XFS frees removed files later");
        // A number that the user sets stays.
        let refused = planned(&request_for(&["create:files=2000"]), small(Some(1013)), 1).unwrap_err();
        assert!(refused.contains("inodes, and 1013 are free; use a smaller --files"), "{refused}");
        let one_each = request_for(&["create:files=1"]);
        assert!(planned(&one_each, small(Some(245)), 20).is_ok());
        let refused = planned(&one_each, small(Some(79)), 20).unwrap_err();
        let cause = "it needs 6 inodes for each of 20 clients, and 3 are free for each; use fewer clients";
        assert!(refused.contains(cause), "{refused}");
    }
}
