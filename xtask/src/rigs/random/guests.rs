//! Stacks in guests, of layers that this machine's kernel may lack: device mapper, md, NBD, NFS, and limits of cgroup v2.
//!
//! A guest is too slow for rates under changes. So the prediction is the truth, by a wider margin.

use std::path::Path;

use anyhow::{Context, Result};
use fastrand::Rng;
use model::Run;
use model::json::FromJson;
use model::layer::LayerKind;

use super::corpus::{self, Row};
use super::grammar::{Bound, Component, Load, Narrowest, Part, Time, log_uniform, part_words};
use crate::lab::{self, Case};

/// Least factor between the bound of the bottleneck and that of any other part.
const MARGIN: f64 = 2.5;
/// Most operations a second of a stack: the CPU of a guest makes three times as many.
const OPS_PER_SECOND_MAX: f64 = 400.0;
/// Fewest operations a second, so that a test has enough of them.
const OPS_PER_SECOND_MIN: f64 = 20.0;
/// Most draws until one is clear.
const DRAWS_MAX: u32 = 100_000;
/// Share of a link's bytes that are the test's.
const PAYLOAD_SHARE: f64 = 0.94;

/// A stack in a guest, with one load.
#[derive(Debug, Default)]
pub(super) struct GuestStack {
    /// Seed that draws it again.
    pub seed: u64,
    /// Parts, from the bottom up.
    pub words: Vec<String>,
    pub load: Load,
    pub bottleneck: Option<Part>,
    target: String,
    setup: Vec<String>,
    /// In the order of the setup; it is undone from the end.
    after: Vec<String>,
    packages: &'static [&'static str],
    has_group: bool,
    /// Kinds of its layers from the bottom up.
    layers: Vec<LayerKind>,
    latency_ms: u64,
    components: Vec<Component>,
}

impl GuestStack {
    /// Draws a stack whose load has one bottleneck by a clear margin.
    ///
    /// # Panics
    /// No draw has one: a bound is wrong.
    pub(super) fn draw(seed: u64) -> Self {
        let random = &mut Rng::with_seed(seed);
        let mut drawn = (0..DRAWS_MAX).filter_map(|_| {
            let stack = Self::any(seed, random);
            Some(Self { bottleneck: Some(stack.predicted()?), ..stack })
        });
        drawn.next().unwrap_or_else(|| panic!("no stack of a guest has a clear bottleneck"))
    }

    fn any(seed: u64, random: &mut Rng) -> Self {
        let is_read = random.bool();
        let block_bytes = if random.bool() { 4096 } else { 65536 };
        let load = Load::draw(random, is_read, block_bytes, 16);
        let stack = Self { seed, load, ..Self::default() };
        match random.u8(..8) {
            0 => stack.with_link(random, &NFS),
            1 => stack.with_link(random, &NBD),
            _ => stack.with_block(random),
        }
    }

    fn add(&mut self, words: String, setup: String, after: &str) {
        self.words.push(words);
        self.setup.push(setup);
        self.after.push(after.to_owned());
    }

    /// Devices of the guest, with a file system for writes.
    fn with_block(mut self, random: &mut Rng) -> Self {
        match random.u8(..4) {
            0 | 1 => {
                let ms = random.u64(4..=20);
                self.add(format!("null_blk of {ms} ms"), format!("null 0 {ms} 64"), "unnull 0");
                self.latency_ms += ms;
                self.target = "/dev/nullb0".into();
            }
            2 => {
                self.words.push("NVMe".into());
                self.target = "/dev/nvme0n1".into();
            }
            _ => {
                let create = "mdadm --create /dev/md0 --level=0 --chunk=64 --raid-devices=2 --metadata=1.2 --run \
                              /dev/nvme0n1 /dev/nvme1n1";
                let stop = "mdadm --stop /dev/md0; wipefs -qa /dev/nvme0n1 /dev/nvme1n1";
                self.add("RAID 0 of two NVMe".into(), format!("modprobe raid0\n{create}"), stop);
                self.layers.push(LayerKind::Device);
                self.target = "/dev/md0".into();
            }
        }
        self.layers.push(LayerKind::Device);
        self.add_limit(random);
        for number in 0..random.u8(..3) {
            self.add_mapped(random, number);
            self.add_limit(random);
        }
        if !self.load.is_read || random.bool() {
            let setup = format!("mounted {}", self.target);
            self.add("ext4".into(), setup, "umount /mnt/t; wipefs -qa /dev/nvme0n1");
            self.target = "/mnt/t".into();
            self.layers.push(LayerKind::FileSystem);
        }
        if self.latency_ms > 0 {
            self.add_latency(Part::LowerService, self.latency_ms);
        }
        self
    }

    /// A target of device mapper over the uppermost device.
    fn add_mapped(&mut self, random: &mut Rng, number: u8) {
        let lower = &self.target;
        let (words, table) = if random.bool() {
            ("dm-linear".to_owned(), format!("linear {lower} 0"))
        } else {
            let ms = random.u64(4..=20);
            self.latency_ms += ms;
            (format!("dm-delay of {ms} ms"), format!("delay {lower} 0 {ms}"))
        };
        let name = format!("m{number}");
        let setup = format!("mapped {name} \"0 $(sectors {lower}) {table}\"");
        self.components.iter_mut().for_each(|component| component.part = component.part.below_device());
        self.add(words, setup, &format!("dmsetup remove {name}"));
        self.target = format!("/dev/mapper/{name}");
        self.layers.push(LayerKind::Device);
    }

    /// A limit of cgroup v2 on the uppermost device, for some.
    fn add_limit(&mut self, random: &mut Rng) {
        if random.u8(..3) > 0 {
            return;
        }
        let (unit, value, bound) = if random.bool() {
            let ops = log_uniform(random, 20.0, 400.0) as u64;
            ("iops", ops, Bound::Ops(ops as f64))
        } else {
            let bytes = log_uniform(random, 0.3e6, 10e6) as u64;
            ("bps", bytes, Bound::Bytes(bytes as f64))
        };
        let key = format!("{}{unit}", if self.load.is_read { "r" } else { "w" });
        let mut setup =
            format!("echo \"$(number {}) {key}={value}\" > /sys/fs/cgroup/lab/io.max", self.target);
        let mut after = "";
        if !self.has_group {
            (setup, after) = (format!("group io\n{setup}"), "ungroup");
            self.has_group = true;
        }
        self.add(format!("io.max {key}={value}"), setup, after);
        self.components.push(Component { part: Part::Cap, bound, relief: None });
    }

    /// A server in memory behind a link that is slow or far.
    fn with_link(mut self, random: &mut Rng, server: &Server) -> Self {
        self.packages = server.packages;
        self.words.push(server.words.into());
        let memory = "mkdir -p /srv\nmount -t tmpfs -o size=512m tmpfs /srv";
        self.setup.extend([memory, server.setup].map(String::from));
        self.after.push(server.after.into());
        self.target = server.target.into();
        self.layers.push(server.layer);
        let (words, shape) = if random.bool() {
            let mbit = log_uniform(random, 8.0, 60.0) as u64;
            let bound = Bound::Bytes(mbit as f64 * 1e6 / 8.0 * PAYLOAD_SHARE);
            self.components.push(Component { part: Part::Line, bound, relief: None });
            (format!("link of {mbit} Mbit/s"), format!("tbf rate {mbit}mbit burst 64kb latency 200ms"))
        } else {
            let ms = random.u64(4..=30);
            self.add_latency(server.latency, 2 * ms);
            (format!("link of {ms} ms"), format!("netem delay {ms}ms"))
        };
        let setup = format!("ip link set lo mtu 1500\ntc qdisc add dev lo root {shape}");
        self.add(words, setup, "tc qdisc del dev lo root; ip link set lo mtu 65536");
        self
    }

    fn add_latency(&mut self, part: Part, ms: u64) {
        let time = Time::new(ms as f64 / 1e3);
        self.components.push(Component {
            part,
            bound: Bound::InFlight { count_max: u32::MAX, time },
            relief: None,
        });
    }

    /// Returns the part that limits the load by a clear margin.
    fn predicted(&self) -> Option<Part> {
        let Narrowest { part, rate, is_clear } = Narrowest::new(&self.components, self.load, MARGIN)?;
        (is_clear && (OPS_PER_SECOND_MIN..=OPS_PER_SECOND_MAX).contains(&rate)).then_some(part)
    }

    /// Returns the scripts that build, measure and undo it.
    fn case(&self) -> Result<Case> {
        let after: Vec<_> = self.after.iter().rev().filter(|words| !words.is_empty()).cloned().collect();
        let enter = if self.has_group { "enter; " } else { "" };
        let size = if self.target.starts_with("/mnt") { "--size 32m " } else { "" };
        let run = format!("{enter}measure {} {size}--time 3 --test {}", self.target, self.load.spec());
        let text = format!(
            "[[case]]\nname = '{}'\nbuilt = '{}'\npackages = {:?}\nsetup = '''\n{}\n'''\nrun = '''\n{run}\n'''\nafter = \
             '''\n{}\n'''\n",
            self.seed,
            self.words.join(", "),
            self.packages,
            self.setup.join("\n"),
            after.join("\n")
        );
        Case::read(&text)?.pop().context("no case")
    }

    /// Returns the row of the run that a guest left.
    fn row(&self, document: &Path) -> Result<Row> {
        let text = std::fs::read_to_string(document).context("no document")?;
        let run = Run::from_json(&text)?;
        let phase = run.phases.first().context("no test was measured")?;
        Ok(Row {
            stack: format!("guest: {}", self.words.join(", ")),
            parts: part_words(&self.components),
            bottleneck: self.bottleneck.map_or("", Part::word).to_owned(),
            is_answered: false,
            at_server: None,
            layers: self.layers.iter().rev().copied().collect(),
            run: corpus::cut(&run, phase),
        })
    }
}

/// A server of the guest itself.
struct Server {
    words: &'static str,
    setup: &'static str,
    after: &'static str,
    packages: &'static [&'static str],
    target: &'static str,
    layer: LayerKind,
    /// Bottleneck of a far one.
    latency: Part,
}

const NFS: Server = Server {
    words: "NFS 4.2",
    setup: "server async\nmount -t nfs4 -o vers=4.2 127.0.0.1:/ /mnt/n",
    after: "unserved",
    packages: &[],
    target: "/mnt/n",
    layer: LayerKind::Remote,
    latency: Part::Service,
};
const NBD: Server = Server {
    words: "NBD, ext4",
    setup: "network_disk\nmounted /dev/nbd0",
    after: "umount /mnt/t; no_network_disk",
    packages: &["nbd-server", "nbd-client"],
    target: "/mnt/t",
    layer: LayerKind::FileSystem,
    latency: Part::LowerService,
};

/// Measures stacks, and returns the row of each or the reason why there is none.
///
/// # Errors
/// No guest can run here.
pub(super) fn measure(program: &Path, stacks: &[GuestStack]) -> Result<Vec<Result<Row>>> {
    let kept = tempfile::Builder::new().prefix("skye-exam.").tempdir().context("create a directory")?;
    let cases = stacks.iter().map(GuestStack::case).collect::<Result<Vec<_>>>()?;
    let results = lab::run_cases(&cases, program, Some(kept.path()))?;
    let rows = stacks.iter().zip(results).map(|(stack, result)| {
        let document = result.kept.as_deref().context("nothing was kept")?.join("document.json");
        stack.row(&document).with_context(|| format!("{} {}", result.verdicts, result.wrong.join("; ")))
    });
    Ok(rows.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drawn_guest_is_a_case_with_one_bottleneck() {
        let mut parts = Vec::new();
        for stack in (0..60).map(GuestStack::draw) {
            let case = stack.case().unwrap();
            assert_eq!(
                (case.name, GuestStack::draw(stack.seed).words),
                (stack.seed.to_string(), stack.words)
            );
            parts.extend(stack.bottleneck);
        }
        for part in [Part::Cap, Part::LowerCap, Part::Line, Part::Service, Part::LowerService] {
            assert!(parts.contains(&part), "{part:?}");
        }
    }
}
