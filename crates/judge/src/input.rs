//! What is judged: a record, and what is known around it.

use std::collections::HashMap;

use model::Plan;
use model::plan::PlannedPhase;
use model::run::{DeviceFrame, DeviceUse, Environment, Frame, PhaseRecord, TargetProbes};
use model::target::{Backing, Target};
use model::workload::{DataWork, Engine, FilesWork};

/// File systems that write elsewhere what is written again, and keep trees of their own for that. The kernel's threads
/// write those, and are charged for it.
const COPY_ON_WRITE: &[&str] = &["btrfs", "bcachefs", "f2fs", "nilfs2"];

/// A record, with the test that it is of, the plan and the machine.
#[derive(Debug, Clone, Copy)]
pub struct JudgeInput<'a> {
    /// The record.
    pub record: &'a PhaseRecord,
    /// The test.
    pub phase: &'a PlannedPhase,
    /// What was to be done.
    pub plan: &'a Plan,
    /// The machine and the target.
    pub environment: &'a Environment,
    /// What short experiments found out about the target.
    pub probes: Option<&'a TargetProbes>,
}

impl<'a> JudgeInput<'a> {
    /// An input.
    pub fn new(
        record: &'a PhaseRecord,
        phase: &'a PlannedPhase,
        plan: &'a Plan,
        environment: &'a Environment,
        probes: Option<&'a TargetProbes>,
    ) -> Self {
        Self { record, phase, plan, environment, probes }
    }

    /// Where it was measured.
    pub fn target(&self) -> &'a Target {
        &self.environment.target
    }

    /// The test, if it is one on data.
    pub fn data(&self) -> Option<&'a DataWork> {
        self.phase.workload.data()
    }

    /// The test, if it is one on data in files: what touches none has no device to be compared with.
    pub fn data_in_files(&self) -> Option<&'a DataWork> {
        self.data().filter(|_| self.phase.engine.needs_files())
    }

    /// The test, if it is one on files.
    pub fn files(&self) -> Option<&'a FilesWork> {
        self.phase.workload.files()
    }

    /// Whether its operations reach something that has a speed: not those of engines that do nothing.
    pub fn is_measured(&self) -> bool {
        !matches!(self.phase.engine, Engine::Null | Engine::Nop)
    }

    /// Whether devices of this machine hold the data.
    pub fn is_on_devices(&self) -> bool {
        self.target().backing == Backing::Devices
    }

    /// Whether it is on a disk that a hypervisor made: what that does is what the host lets it, and other guests share it.
    pub fn is_on_virtual_disk(&self) -> bool {
        self.environment.virtualisation.is_some() && self.target().lies_on_disk()
    }

    /// What the mounted device counted, where that can be compared with what was asked for.
    pub fn device(&self) -> Option<&'a DeviceUse> {
        self.record.device.as_ref().filter(|_| self.has_one_device_on_top() && !self.is_uncounted())
    }

    /// Whether all data passes through one device: of a file system on several, each counts its part.
    fn has_one_device_on_top(&self) -> bool {
        let stack = &self.target().device_stack;
        let is_below = |name: &String| stack.iter().any(|device| device.lies_on.contains(name));
        stack.iter().filter(|device| !is_below(&device.name)).count() < 2
    }

    /// Whether the device counted nothing at all, though it must have been used: its counters are off, or are those of
    /// another.
    pub fn is_uncounted(&self) -> bool {
        let record = self.record;
        let is_silent = record.device.as_ref().is_some_and(|use_| use_.operations == 0);
        let read = record.app_bytes_read as f64;
        // What was synced has reached it, unless syncing was switched off.
        let has_synced = record.rate.durable_ops_per_second.is_some()
            && record.app_bytes_written > 0
            && !self.has_mount_option("volatile");
        let is_charged = self.charged_read_bytes().is_some_and(|charged| charged > read / 2.0);
        is_silent && (has_synced || (read > 0.0 && is_charged))
    }

    /// Bytes that the kernel charged us with reading from devices; `None` where it does not tell.
    pub fn charged_read_bytes(&self) -> Option<f64> {
        let is_hidden =
            self.environment.hidden_sources.iter().any(|source| source.starts_with("/proc/self/io"));
        // A test without a frame was looked at by nobody.
        let has_frames = self.frames().next().is_some() && !is_hidden;
        has_frames.then(|| self.frames().map(|frame| frame.own_io.device_read_bytes as f64).sum())
    }

    /// What the machine did, interval by interval.
    pub fn frames(&self) -> impl Iterator<Item = &'a Frame> {
        self.record.intervals.iter().filter_map(|interval| interval.frame.as_ref())
    }

    /// What each device of the stack did, interval by interval.
    pub fn device_frames(&self) -> impl Iterator<Item = &'a DeviceFrame> {
        self.frames().flat_map(|frame| &frame.devices)
    }

    /// Flushes of the device that made most of them: partitions and mappings do not count their own.
    pub fn flushes(&self) -> f64 {
        let mut counted: HashMap<&str, f64> = HashMap::new();
        for device in self.device_frames() {
            *counted.entry(&device.name).or_default() += device.flushes as f64;
        }
        let mounted = self.record.device.as_ref().map_or(0, |device| device.flushes);
        counted.into_values().fold(mounted as f64, f64::max)
    }

    /// Device bytes per byte asked for.
    pub fn ratio(&self) -> Option<f64> {
        self.device()?.bytes_per_app_byte
    }

    /// Whether the file system writes more than it is asked to, which nobody charges us with.
    pub fn writes_behind(&self) -> bool {
        self.record.app_bytes_written > 0 && COPY_ON_WRITE.contains(&self.target().file_system.as_str())
    }

    /// Whether it was asked for a rate, which it kept: then it is the latencies that tell about the storage.
    pub fn rate_is_given(&self) -> bool {
        let fell_behind = self.record.notes.iter().any(|note| note.code == "fell_behind");
        self.record.workload.arrival != "closed_loop" && !fell_behind
    }

    /// Seconds that it took, the sync at the end included.
    pub fn seconds(&self) -> f64 {
        self.record.elapsed_ns as f64 / 1e9
    }

    /// Half of the 95 % interval of the headline, as a share of it; `None` where there is no interval.
    pub fn half_width(&self) -> Option<f64> {
        self.record.rate.half_width()
    }

    /// Whether an option of the mount has this name: "barrier" and "barrier=0" are two options.
    pub fn has_mount_option(&self, name: &str) -> bool {
        self.target().mount_options.iter().any(|option| option == name)
    }
}
