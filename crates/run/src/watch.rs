//! Watches a machine on which no test runs, while clients measure what it serves.

use model::run::{Frame, ServerDevice, ServerQuota, ServerUse, SystemUse};
use model::{Machine, Target};
use observe::{NfsServer, Root};

use crate::meter::Meter;

/// Watch over a machine.
pub struct Watch {
    root: Root,
    meter: Meter,
    nfsd: Option<NfsServer>,
}

impl Watch {
    /// Begins to watch the machine, and the devices below a directory of it.
    pub fn begin(root: &Root, target: &Target) -> Self {
        let mut meter = Meter::new(root, target);
        meter.reset(&[], false);
        let nfsd = NfsServer::now(root);
        meter.begin();
        Self { root: root.clone(), meter, nfsd }
    }

    /// Samples states that no counter records.
    pub fn sample(&mut self) {
        self.meter.sample(0);
    }

    /// Ends the watch. The name of the machine is left to those who know it.
    pub fn end(mut self, machine: &Machine) -> ServerUse {
        self.meter.end();
        let observed = self.meter.take_sums();
        let nfsd = self.nfsd.zip(NfsServer::now(&self.root)).map(|(before, now)| now.since(&before));
        ServerUse {
            name: String::new(),
            watched_ns: observed.measured_ns,
            cpus: machine.cpus_online,
            cpu: observed.cpu(),
            quota: quota(&observed.system, observed.measured_ns),
            devices: observed.sum.as_ref().map(|sum| devices(sum, observed.measured_ns)).unwrap_or_default(),
            network: observed.system.network,
            helpers: observed.system.helpers,
            nfsd,
        }
    }
}

/// Returns the use of the CPU quota of this process, in which a server that shares its cgroup works.
fn quota(system: &SystemUse, time_ns: u64) -> Option<ServerQuota> {
    let used_up_share = (system.quota_used_up_ns? as f64 / time_ns.max(1) as f64).min(1.0);
    Some(ServerQuota { cpus: system.quota_cpus?, used_up_share })
}

/// Returns the rates of all devices over this time.
fn devices(sum: &Frame, time_ns: u64) -> Vec<ServerDevice> {
    let time_ns = time_ns.max(1) as f64;
    let each = sum.devices.iter().map(|device| ServerDevice {
        name: device.name.clone(),
        busy_share: (device.busy_ns as f64 / time_ns).min(1.0),
        requests: device.in_flight_ns as f64 / time_ns,
        ops_per_second: (device.reads + device.writes) as f64 * 1e9 / time_ns,
        bytes_per_second: (device.read_bytes + device.written_bytes) as f64 * 1e9 / time_ns,
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_of_this_machine_gives_plausible_values() {
        let root = Root::system();
        let directory = tempfile::tempdir().unwrap();
        let target = observe::target(&root, directory.path()).unwrap();
        let machine = observe::machine(&root);
        let mut watch = Watch::begin(&root, &target);
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 300 {
            watch.sample();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let seen = watch.end(&machine);
        assert!(seen.watched_ns >= 300_000_000 && seen.cpus == machine.cpus_online, "{seen:?}");
        assert!(seen.cpu.is_none_or(|cpu| (0.0..=1.0).contains(&cpu.busy())));
        assert!(seen.devices.iter().all(|device| (0.0..=1.0).contains(&device.busy_share)));
        assert_eq!(seen.devices.len(), target.device_stack.len());
    }
}
