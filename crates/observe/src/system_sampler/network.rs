//! Traffic of the network interfaces.

use std::fs::File;

use model::layer::{Layer, LayerKind};
use model::run::NetworkUse;

use crate::netlink::slowest_qdisc;
use crate::parse::net_dev;
use crate::reading::read_all;
use crate::root::Root;

const LOOPBACK: &str = "lo";
/// An interface on the route carries at least one of this many parts of what the busiest one does.
const LINE_PARTS: u64 = 10;
const BITS_PER_MEGABIT: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Network {
    root: Root,
    file: Option<File>,
    interfaces: Vec<Interface>,
    /// Names of those on the route to the target's servers.
    lines: Vec<String>,
    is_started: bool,
}

#[derive(Debug)]
struct Interface {
    name: String,
    /// Bytes received and sent.
    before: [u64; 2],
    sum: [u64; 2],
}

impl Network {
    pub fn open(root: &Root, layers: &[Layer], hidden: &mut Vec<String>) -> Self {
        // This file shows the network namespace of this thread.
        let file = root.open("proc/self/net/dev");
        if file.is_none() {
            hidden.push("/proc/self/net/dev: bytes sent and received".to_owned());
        }
        let lines = layers.iter().filter(|layer| layer.kind == LayerKind::Line);
        let lines = lines.map(|layer| layer.name.clone()).collect();
        Self { root: root.clone(), file, interfaces: Vec::new(), lines, is_started: false }
    }

    /// Calls `each` with every interface and its counters now; the counters of new interfaces start at 0.
    fn read(&mut self, buffer: &mut Vec<u8>, each: impl Fn(&mut Interface, [u64; 2])) {
        let Some(bytes) = read_all(self.file.as_ref(), buffer) else { return };
        for found in net_dev::interfaces(bytes) {
            let known = self.interfaces.iter().position(|interface| interface.name == found.name);
            let index = known.unwrap_or_else(|| {
                let name = found.name.to_owned();
                self.interfaces.push(Interface { name, before: [0; 2], sum: [0; 2] });
                self.interfaces.len() - 1
            });
            each(&mut self.interfaces[index], [found.received_bytes, found.sent_bytes]);
        }
    }

    pub fn begin(&mut self, buffer: &mut Vec<u8>) {
        self.read(buffer, |interface, now| interface.before = now);
        self.is_started = true;
    }

    pub fn end(&mut self, buffer: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_started) {
            self.read(buffer, |interface, now| {
                for ((sum, before), now) in interface.sum.iter_mut().zip(interface.before).zip(now) {
                    *sum += now.saturating_sub(before);
                }
            });
        }
    }

    /// Returns the busiest interface on the route to a server of the target. Without one, it is the busiest of all; the
    /// loopback interface only if no other carried any traffic.
    pub fn take(&mut self) -> Option<NetworkUse> {
        let interfaces = std::mem::take(&mut self.interfaces);
        let all_bytes = |interface: &Interface| interface.sum[0].saturating_add(interface.sum[1]);
        let moved = interfaces.into_iter().filter(|interface| all_bytes(interface) > 0);
        let moved: Vec<_> = moved.collect();
        let most = moved.iter().map(all_bytes).max()?;
        let busiest = moved.into_iter().max_by_key(|interface| {
            // A route with little traffic is that of a side channel.
            let carries = all_bytes(interface) >= most / LINE_PARTS;
            let is_line = carries && self.lines.contains(&interface.name);
            (is_line, interface.name != LOOPBACK, all_bytes(interface))
        })?;
        let speed_path = format!("sys/class/net/{}/speed", busiest.name);
        // If the speed is unknown, the file cannot be read or says −1.
        let megabits = self.root.number::<i64>(&speed_path).and_then(|speed| u64::try_from(speed).ok());
        let speed = megabits.filter(|speed| *speed > 0);
        let shaper = self.root.is_system().then(|| slowest_qdisc(&busiest.name)).flatten();
        let [received_bytes, sent_bytes] = busiest.sum;
        Some(NetworkUse {
            interface: busiest.name,
            sent_bytes,
            received_bytes,
            speed_bits_per_second: speed.map(|megabits| megabits.saturating_mul(BITS_PER_MEGABIT)),
            shaped_bytes_per_second: shaper
                .as_ref()
                .and_then(|shaper| shaper.bytes_per_second)
                .map(|rate| rate as f64),
            shaper: shaper.map(|shaper| shaper.kind),
            line_bytes_per_second: None,
            peak_received_bytes_per_second: None,
            peak_sent_bytes_per_second: None,
        })
    }
}
