//! Input of a judgement: a record, and the facts known around it.

use std::collections::HashMap;

use model::Plan;
use model::layer::LayerKind;
use model::plan::PlannedPhase;
use model::run::{DeviceFrame, DeviceUse, Environment, Flow, Frame, PhaseRecord, TargetProbes};
use model::target::{Backing, Target};
use model::workload::{DataWork, FilesWork};

/// Copy-on-write file systems: they write changed data to another place, and update their metadata trees. Kernel
/// threads write these trees and are charged for them.
const COPY_ON_WRITE: &[&str] = &["btrfs", "bcachefs", "f2fs", "nilfs2"];

/// A record, with its test, its plan and its machine.
#[derive(Debug, Clone, Copy)]
pub struct JudgeInput<'a> {
    /// The record.
    pub record: &'a PhaseRecord,
    /// The test.
    pub phase: &'a PlannedPhase,
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The machine and the target.
    pub environment: &'a Environment,
    /// Results of short experiments on the target.
    pub probes: Option<&'a TargetProbes>,
}

impl<'a> JudgeInput<'a> {
    /// Creates an input.
    pub fn new(
        record: &'a PhaseRecord,
        phase: &'a PlannedPhase,
        plan: &'a Plan,
        environment: &'a Environment,
        probes: Option<&'a TargetProbes>,
    ) -> Self {
        Self { record, phase, plan, environment, probes }
    }

    /// Returns the measured target.
    pub fn target(&self) -> &'a Target {
        &self.environment.target
    }

    /// Returns the test, if it is a test of data.
    pub fn data(&self) -> Option<&'a DataWork> {
        self.phase.workload.data()
    }

    /// Returns the test, if it is a test of data in files. A test that touches no file has no device to compare with.
    pub fn data_in_files(&self) -> Option<&'a DataWork> {
        self.data().filter(|_| self.phase.engine.needs_files())
    }

    /// Returns the test, if it is a test of files.
    pub fn files(&self) -> Option<&'a FilesWork> {
        self.phase.workload.files()
    }

    /// Returns the number of threads, of all clients together.
    pub fn threads(&self) -> u64 {
        self.clients() * u64::from(self.phase.workload.threads)
    }

    /// Returns the number of clients whose sum this is.
    pub fn clients(&self) -> u64 {
        self.record.hosts.len().max(1) as u64
    }

    /// Returns true unless it is a test that only reads data.
    pub fn writes(&self) -> bool {
        self.data().is_none_or(DataWork::writes)
    }

    /// Returns true if the operations reach something that has a speed. Those of engines that do nothing do not.
    pub fn is_measured(&self) -> bool {
        self.phase.engine.does_io()
    }

    /// Returns true if devices of this machine hold the data.
    pub fn is_on_devices(&self) -> bool {
        self.target().backing == Backing::Devices
    }

    /// Returns true if the target is on a virtual disk. The host decides how fast such a disk is, and other guests
    /// share it.
    pub fn is_on_virtual_disk(&self) -> bool {
        self.environment.virtualisation.is_some() && self.target().is_backed_by_disk()
    }

    /// Returns the requests at the server of a file system in user space or on a network, if they are counted.
    pub fn server_flow(&self) -> Option<&'a Flow> {
        let top = self.target().layers.first()?;
        self.record.seen.load.as_ref().filter(|_| top.kind != LayerKind::Device)?.flow_of(0)
    }

    /// Returns the counts of the mounted device, where they can be compared with the requested work.
    pub fn device(&self) -> Option<&'a DeviceUse> {
        self.record.seen.device.as_ref().filter(|_| self.has_one_device_on_top() && !self.is_uncounted())
    }

    /// Returns true if all data passes through one device. Under a file system on several devices, each counts its
    /// part.
    fn has_one_device_on_top(&self) -> bool {
        let stack = &self.target().device_stack;
        let is_below = |name: &String| stack.iter().any(|device| device.backing_devices.contains(name));
        stack.iter().filter(|device| !is_below(&device.name)).count() < 2
    }

    /// Returns true if the device counted nothing, though it must have been used: its counters are off, or belong to
    /// another device.
    pub fn is_uncounted(&self) -> bool {
        let record = self.record;
        let is_silent = record.seen.device.as_ref().is_some_and(|use_| use_.operations == 0);
        let read = record.counts.app_bytes_read as f64;
        // Synced data has reached the device, unless syncing was switched off.
        let has_synced = record.figures.rate.durable_ops_per_second.is_some()
            && record.counts.app_bytes_written > 0
            && !self.has_mount_option("volatile");
        let is_charged = self.charged_read_bytes().is_some_and(|charged| charged > read / 2.0);
        is_silent && (has_synced || (read > 0.0 && is_charged))
    }

    /// Returns the bytes that the kernel charged to us as reads from devices; `None` where it does not tell.
    pub fn charged_read_bytes(&self) -> Option<f64> {
        let is_hidden =
            self.environment.hidden_sources.iter().any(|source| source.starts_with("/proc/self/io"));
        // A test without a frame was not sampled.
        let has_frames = self.frames().next().is_some() && !is_hidden;
        has_frames.then(|| self.frames().map(|frame| frame.own_io.device_read_bytes as f64).sum())
    }

    /// Returns the bytes sent and received during a test on files of a server. If no interface carried any, both are 0.
    /// Returns `None` for other tests, and where the kernel hides the counters.
    pub fn network_bytes(&self) -> Option<(u64, u64)> {
        let _ = self.files()?;
        let hidden = &self.environment.hidden_sources;
        let is_hidden = hidden.iter().any(|source| source.starts_with("/proc/self/net/dev"));
        let system = self.record.seen.system.as_ref().filter(|_| self.is_of_host() && !is_hidden)?;
        let network = system.network.as_ref();
        Some(network.map_or((0, 0), |network| (network.sent_bytes, network.received_bytes)))
    }

    /// Returns true if the source of the mount is on a host.
    fn is_of_host(&self) -> bool {
        let target = self.target();
        let is_remote = target.backing == Backing::RemoteOrUserSpace;
        is_remote && (target.source.contains(':') || target.source.starts_with("//"))
    }

    /// Returns true if the data crosses a line to a server.
    pub fn has_line(&self) -> bool {
        self.is_of_host() || self.target().layers.iter().any(|layer| layer.kind == LayerKind::Line)
    }

    /// Returns the activity of the machine, interval by interval.
    pub fn frames(&self) -> impl Iterator<Item = &'a Frame> {
        self.record.figures.intervals.iter().filter_map(|interval| interval.frame.as_ref())
    }

    /// Returns the activity of each device of the stack, interval by interval.
    pub fn device_frames(&self) -> impl Iterator<Item = &'a DeviceFrame> {
        self.frames().flat_map(|frame| &frame.devices)
    }

    /// Returns the flushes of the device with most of them. Partitions and mappings do not count their own.
    pub fn flushes(&self) -> f64 {
        let mut counted: HashMap<&str, f64> = HashMap::new();
        for device in self.device_frames() {
            *counted.entry(&device.name).or_default() += device.flushes as f64;
        }
        let mounted = self.record.seen.device.as_ref().map_or(0, |device| device.flushes);
        counted.into_values().fold(mounted as f64, f64::max)
    }

    /// Returns the device bytes per requested byte.
    pub fn ratio(&self) -> Option<f64> {
        self.device()?.bytes_per_app_byte
    }

    /// Returns true if the file system writes more than the application. The kernel does not charge the test for the
    /// excess.
    pub fn amplifies_writes(&self) -> bool {
        let copies = COPY_ON_WRITE.contains(&self.target().file_system.as_str());
        let is_journaled = self.has_mount_option("data=journal") || self.has_mount_option("sync");
        self.record.counts.app_bytes_written > 0 && (copies || is_journaled)
    }

    /// Returns true if the test kept the requested rate. Then its latencies describe the storage, not its rate.
    pub fn keeps_requested_rate(&self) -> bool {
        let fell_behind = self.record.judged.notes.iter().any(|note| note.code == "fell_behind");
        self.record.workload.arrival != "closed_loop" && !fell_behind
    }

    /// Returns the duration of the test in seconds, including the sync at the end.
    pub fn seconds(&self) -> f64 {
        self.record.counts.elapsed_ns as f64 / 1e9
    }

    /// Returns half the width of the headline's 95 % interval, as a share of the headline; `None` without an interval.
    pub fn half_width(&self) -> Option<f64> {
        self.record.figures.rate.half_width()
    }

    /// Returns true if an option of the mount has exactly this name: "barrier" and "barrier=0" are two options.
    pub fn has_mount_option(&self, name: &str) -> bool {
        self.target().mount_options.iter().any(|option| option == name)
    }
}

/// Returns the test of a record from the plan of its run.
pub(crate) fn planned<'a>(record: &PhaseRecord, plan: &'a Plan) -> Option<&'a PlannedPhase> {
    let id = record.id.split('#').next()?;
    plan.phases.iter().find(|phase| phase.id == id)
}
