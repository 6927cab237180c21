//! Hides parts of a run, as a container, a user's rights or an older kernel do. The verdict may then be coarser, but never be
//! about another layer.

use model::layer::LayerKind;
use model::run::{Confidence, Load, PhaseRecord, SystemUse, Verdict};
use model::{Limiter, Run};

/// A part of a run: its name, and a function that removes it.
pub type Source = (&'static str, fn(&mut Run));

/// Parts that may be hidden.
pub const SOURCES: &[Source] = &[
    ("experiments", |run| each_row(run, |row| row.judged.sensitivity = None)),
    ("wait channels", |run| each_row(run, |row| row.seen.wait_channels.clear())),
    ("devices", |run| each_row(run, hide_devices)),
    ("lower layers", hide_lower_layers),
    ("helpers", |run| each_system(run, |system| system.helpers.clear())),
    ("limits", |run| each_system(run, |system| system.caps.clear())),
    ("network", |run| each_system(run, |system| system.network = None)),
    ("CPUs", |run| each_row(run, |row| row.seen.cpu = None)),
];

fn each_row(run: &mut Run, hide: impl Fn(&mut PhaseRecord)) {
    run.phases.iter_mut().for_each(hide);
}

fn each_system(run: &mut Run, hide: impl Fn(&mut SystemUse)) {
    run.phases.iter_mut().filter_map(|row| row.seen.system.as_mut()).for_each(hide);
}

fn hide_devices(row: &mut PhaseRecord) {
    row.seen.device = None;
    let frames = row.figures.intervals.iter_mut().filter_map(|interval| interval.frame.as_mut());
    frames.for_each(|frame| frame.devices.clear());
}

/// Hides all below the first device, as the system does for a user without rights.
fn hide_lower_layers(run: &mut Run) {
    let layers = &mut run.environment.target.layers;
    let Some(first) = layers.iter().position(|layer| layer.kind == LayerKind::Device) else { return };
    // Nothing is hidden below the last one.
    if layers[first].below.is_empty() {
        return;
    }
    layers.truncate(first + 1);
    layers[first].below.clear();
    layers[first].hidden = Some("not visible".into());
    let cut = |load: &mut Load| load.flows.retain(|flow| flow.layer as usize <= first);
    each_row(run, |row| {
        row.seen.load.iter_mut().for_each(cut);
        let known = row.judged.sensitivity.iter_mut();
        let responses = known.flat_map(|known| [&mut known.depth, &mut known.single, &mut known.block]);
        responses.flatten().filter_map(|response| response.load.as_mut()).for_each(cut);
    });
}

/// Layer in which a limiter is; `None` where it leaves the layer open.
fn layer(limiter: Limiter) -> Option<Layer> {
    Some(match limiter {
        Limiter::RequestedRate | Limiter::ThinkTime => Layer::Request,
        Limiter::BenchmarkItself
        | Limiter::ClientCpu
        | Limiter::KernelCpu
        | Limiter::CpuSaturated
        | Limiter::CpuContention
        | Limiter::CpuQuota
        | Limiter::HypervisorSteal => Layer::Cpu,
        Limiter::PageCache | Limiter::PageCacheAbsorbed | Limiter::MetadataCache => Layer::Cache,
        Limiter::MemoryPressure => Layer::Memory,
        Limiter::FsyncJournal | Limiter::LockContention => Layer::FileSystem,
        Limiter::QueueFull | Limiter::IoThrottle | Limiter::HelperCpu | Limiter::DirtyThrottling => {
            Layer::Gate
        }
        Limiter::DeviceBandwidth
        | Limiter::DeviceOps
        | Limiter::DeviceLatency
        | Limiter::DeviceUndetermined
        | Limiter::NoisyNeighbour
        | Limiter::BelowOs => Layer::Device,
        Limiter::RemoteLatency
        | Limiter::RemoteUndetermined
        | Limiter::ServerSaturated
        | Limiter::NetworkBandwidth
        | Limiter::EachClient
        | Limiter::BelowClients => Layer::Server,
        Limiter::Mixed | Limiter::NotClear => return None,
    })
}

/// Place of a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layer {
    Request,
    Cpu,
    /// Answers from memory. They take CPU time.
    Cache,
    Memory,
    FileSystem,
    /// Queue, limit and threads of a device or server, and pages that wait to be written.
    Gate,
    Device,
    Server,
}

impl Layer {
    /// Returns true if this is the other one, or if the other one belongs to it as seen from above.
    fn includes(self, other: Self) -> bool {
        match self {
            Self::Cpu => matches!(other, Self::Cpu | Self::Cache),
            Self::Device | Self::Server => other == self || other == Self::Gate,
            _ => other == self,
        }
    }
}

fn layers(verdict: &Verdict) -> Vec<Layer> {
    match verdict.limiter {
        Some(Limiter::Mixed) => {
            verdict.ranking.iter().take(2).filter_map(|part| layer(part.limiter)).collect()
        }
        limiter => limiter.and_then(layer).into_iter().collect(),
    }
}

/// Returns true if a verdict leaves another one possible, or says nothing.
fn is_coarser(blind: &Verdict, full: &Verdict) -> bool {
    let [before, after] = [full, blind].map(layers);
    // That the limit is inside a device, and not before it, is sure only if both show.
    let is_sure = blind.is_at_least(Confidence::Confirmed);
    let includes = |after: &Layer, before: &Layer| {
        after.includes(*before) && (after == before || !is_sure || *after == Layer::Cpu)
    };
    before.is_empty()
        || after.is_empty()
        || after.iter().any(|after| before.iter().any(|before| includes(after, before)))
}

/// Returns a line for each verdict that is about another layer if a part of the run is hidden.
pub fn moved_verdicts(run: &Run) -> Vec<String> {
    let mut moved = Vec::new();
    for (source, hide) in SOURCES {
        let mut hidden = run.clone();
        hide(&mut hidden);
        judge::rejudge(&mut hidden);
        for (row, blind) in run.phases.iter().zip(&hidden.phases) {
            let verdicts = [row, blind].map(|row| row.judged.verdict.as_ref());
            let [Some(full), Some(blind)] = verdicts else { continue };
            if !is_coarser(blind, full) {
                let words = [full, blind].map(|verdict| {
                    format!(
                        "{} ({:?})",
                        verdict.limiter.map_or("", Limiter::title),
                        verdict.confidence.unwrap_or(Confidence::Undetermined)
                    )
                });
                moved.push(format!("{}: {}; without {source}: {}", row.spec, words[0], words[1]));
            }
        }
    }
    moved
}
