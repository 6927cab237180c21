//! For each limiter, a case that it holds back and that is named so; and how sure that is.

use model::Limiter;
use model::run::{
    CallUse, Cap, CeilingShares, Confidence, CpuShares, Helper, NetworkUse, Pressures, Reclaim, Sensed,
    Sensitivity, SystemUse, WaitSite, WaitsOf,
};
use model::target::{Backing, DeviceKind};
use model::{Experiment, Plan};

use crate::fixtures::{World, clean};
use crate::limiters::conclude;
use crate::{JudgeInput, next_experiment};

fn sensed(value: f64, half_width: f64) -> Option<Sensed> {
    Some(Sensed {
        value,
        half_width: Some(half_width),
        before_ops_per_second: 1e5,
        after_ops_per_second: 1e5 * 4f64.powf(value),
        change: "q1t4".into(),
    })
}

impl World {
    /// Answers to a pause, to more depth and to other blocks.
    fn answers(mut self, delay: f64, depth: f64, block: f64) -> Self {
        self.record.sensitivity = Some(Sensitivity {
            delay: sensed(delay, 0.1),
            depth: sensed(depth, 0.1),
            block: sensed(block, 0.1),
            separate: None,
        });
        self
    }

    /// Shares of the threads' time: in their own code, in the kernel, waiting for a CPU, blocked.
    fn spends(mut self, user: f64, kernel: f64, run_queue: f64, blocked: f64) -> Self {
        let budget = self.budget();
        (budget.user, budget.kernel, budget.run_queue, budget.blocked) = (user, kernel, run_queue, blocked);
        self
    }

    fn blocked(self) -> Self {
        self.spends(0.0, 0.02, 0.01, 0.97)
    }

    /// Where its threads slept, in shares of all looks; for the rest of them they were running.
    fn sleeps(mut self, sites: &[(&str, f64)]) -> Self {
        let site = |of: WaitsOf, symbol: &str, share: f64| WaitSite {
            of,
            class: None,
            symbol: symbol.into(),
            share,
            samples: (share * 1000.0) as u64,
        };
        let asleep: f64 = sites.iter().map(|(_, share)| share).sum();
        let ring = self.plan.phases[0].engine == model::workload::Engine::Uring;
        let of = if ring { WaitsOf::RingWorkers } else { WaitsOf::Workers };
        self.record.wait_sites = sites.iter().map(|(symbol, share)| site(of, symbol, *share)).collect();
        self.record.wait_sites.push(site(WaitsOf::Workers, "running", 1.0 - asleep));
        self
    }

    /// Requests in the mounted device, on average.
    fn queues(mut self, requests: f64) -> Self {
        self.frames(|frame| {
            frame.devices.iter_mut().for_each(|device| device.in_flight_ns = (requests * 1e8) as u64);
        });
        self
    }

    /// On a machine whose CPUs are all busy.
    fn hogged(mut self) -> Self {
        self.record.cpu = Some(CpuShares { user: 0.9, kernel: 0.1, steal: 0.0 });
        self
    }

    fn system(mut self, change: impl Fn(&mut SystemUse)) -> Self {
        change(self.record.system.get_or_insert_with(SystemUse::default));
        self
    }

    fn remote(mut self, requests: f64) -> Self {
        self.lies_on(Backing::RemoteOrUserSpace, "fuse");
        self.system(|system| system.server_in_flight = Some(requests))
    }

    #[track_caller]
    fn is(&self, limiter: Limiter, confidence: Confidence) {
        let phase = &self.plan.phases[0];
        let input = JudgeInput::new(&self.record, phase, &self.plan, &self.environment, Some(&self.probes));
        let found = conclude(&input).unwrap();
        assert_eq!((found.limiter, found.confidence), (limiter, confidence), "{:#?}", found.evidence);
        let sum: f64 = found.ranking.iter().map(|ranked| ranked.share).sum();
        assert!(sum <= 1.0 + 1e-6, "{:?}", found.ranking);
        assert_eq!(confidence >= Likely, found.evidence.kinds() >= 2 && limiter != Limiter::NotClear);
        for sentence in found.evidence.sentences().chain(found.advice.as_deref()) {
            assert!(
                !sentence.is_empty() && !sentence.contains("NaN") && !sentence.contains("inf "),
                "{sentence}"
            );
        }
    }

    fn next(&self, tried: &[Experiment]) -> Option<Experiment> {
        next_experiment(&self.record, &self.plan, &self.environment, Some(&self.probes), tried)
    }
}

use Confidence::{Confirmed, Likely, Undetermined};

#[test]
fn latency_times_depth() {
    let one = clean("read:rnd4k").blocked().queues(0.97).sleeps(&[("__iomap_dio_rw", 0.95)]);
    one.is(Limiter::DeviceLatency, Likely);
    one.clone().answers(1.0, 0.98, 0.0).is(Limiter::DeviceLatency, Confirmed);
    let deep = clean("read:rnd4k:q32").blocked().queues(31.0);
    deep.clone().answers(1.02, 0.8, 0.0).is(Limiter::DeviceLatency, Confirmed);
    let remote = clean("read:rnd4k").blocked().remote(0.97).sleeps(&[("request_wait_answer", 0.95)]);
    remote.is(Limiter::RemoteLatency, Likely);
    remote.answers(1.0, 0.98, 0.0).is(Limiter::RemoteLatency, Confirmed);
}

#[test]
fn a_target_that_gives_all_it_has() {
    let full = clean("read:rnd4k:q32").blocked().queues(31.0);
    // What nobody tried is likely only where few targets could take more.
    full.is(Limiter::NotClear, Undetermined);
    clean("read:rnd4k:q128").blocked().queues(120.0).is(Limiter::DeviceOps, Likely);
    full.clone().answers(0.02, 0.01, 0.0).is(Limiter::DeviceOps, Confirmed);
    full.clone().answers(0.02, 0.01, -0.98).is(Limiter::DeviceBandwidth, Confirmed);
    clean("read:seq1m:q8").blocked().queues(16.0).is(Limiter::DeviceBandwidth, Likely);
    let mut virtual_disk = full.answers(0.02, 0.01, -0.98);
    virtual_disk.environment.virtualisation = Some("kvm".into());
    virtual_disk.is(Limiter::DeviceBandwidth, Likely);
    // A pause that costs something for sure says that there is room, however unsure how much.
    let mut has_room = clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.95, 0.2, 0.0);
    has_room.record.sensitivity.as_mut().unwrap().delay = sensed(0.95, 0.43);
    has_room.is(Limiter::DeviceOps, Likely);
    let server = clean("read:rnd4k:t16").blocked().remote(15.5).sleeps(&[("request_wait_answer", 0.95)]);
    server.clone().answers(0.0, 0.0, 0.0).is(Limiter::ServerSaturated, Confirmed);
    // One at a time, a pause leaves any target idle; that four bring no more is what counts.
    let slow = clean("read:rnd4k").blocked().queues(0.98).answers(1.0, 0.03, 0.0);
    slow.is(Limiter::DeviceOps, Confirmed);
}

#[test]
fn the_knee_between_them() {
    let knee = clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.55, 0.3, 0.0);
    knee.is(Limiter::Mixed, Likely);
    // A pause that took longer than asked for; more depth brought something, but not what it should.
    let few = clean("read:rnd4k:q8").blocked().queues(7.0).answers(1.3, 0.3, 0.0);
    few.is(Limiter::Mixed, Likely);
    clean("read:rnd4k:q8").blocked().queues(7.0).answers(1.3, 0.1, 0.0).is(Limiter::NotClear, Undetermined);
}

#[test]
fn a_network_that_is_full() {
    let link =
        clean("write:seq1m").blocked().remote(0.9).sleeps(&[("request_wait_answer", 0.9)]).system(|system| {
            let network = NetworkUse {
                interface: "eth0".into(),
                sent_bytes: 440_000_000_000,
                received_bytes: 1_000_000,
                speed_bits_per_second: None,
            };
            system.network = Some(network);
        });
    link.clone().is(Limiter::NetworkBandwidth, Likely);
    // Busy CPUs may be the ends of the link, and nobody knows what it could carry.
    let mut busy = link.clone();
    busy.record.cpu = Some(CpuShares { user: 0.3, kernel: 0.5, steal: 0.0 });
    busy.clone().is(Limiter::NotClear, Undetermined);
    busy.answers(0.0, 0.0, -0.95).is(Limiter::NetworkBandwidth, Confirmed);
    link.answers(0.0, 0.0, -0.95).is(Limiter::NetworkBandwidth, Confirmed);
}

#[test]
fn limits_that_somebody_set() {
    let hidden = clean("read:rnd4k:q8").blocked().queues(0.2);
    hidden.is(Limiter::IoThrottle, Likely);
    hidden.clone().answers(0.02, 0.0, 0.0).is(Limiter::IoThrottle, Confirmed);
    let cap = |ops_per_second: Option<f64>, bytes_per_second: Option<f64>, is_read: bool| Cap {
        source: "/sys/fs/cgroup/blkio/blkio.throttle.read_iops_device".into(),
        device: "nvme0n1".into(),
        is_read,
        ops_per_second,
        bytes_per_second,
    };
    let visible = |cap: Cap| hidden.clone().system(|system| system.caps = vec![cap.clone()]);
    visible(cap(Some(101_000.0), None, true)).is(Limiter::IoThrottle, Confirmed);
    visible(cap(None, Some(4096e5), true)).is(Limiter::IoThrottle, Confirmed);
    // Threads that wait in the device have passed it.
    let in_device = visible(cap(Some(101_000.0), None, true)).queues(7.8);
    assert_ne!(judged(&in_device), Limiter::IoThrottle);
    // Unless those who answer for the device have no CPU: they keep requests that nothing holds back any more.
    let cap_at_rate = visible(cap(Some(101_000.0), None, true));
    cap_at_rate.clone().queues(5.0).hogged().is(Limiter::IoThrottle, Likely);
    cap_at_rate.clone().queues(7.8).hogged().answers(0.0, 0.0, 0.0).is(Limiter::IoThrottle, Likely);
    assert_eq!(judged(&hidden.clone().queues(5.0).hogged().answers(0.0, 0.0, 0.0)), Limiter::NotClear);
    hidden.clone().queues(7.8).hogged().answers(0.0, 0.0, 0.0).is(Limiter::DeviceOps, Confirmed);
    // Writes of a new file wait for one another.
    clean("write:seq64k:q8").blocked().queues(0.2).is(Limiter::IoThrottle, Likely);
    assert_ne!(judged(&clean("write:seq64k:q8:fresh").blocked().queues(0.2)), Limiter::IoThrottle);
    // Threads that sleep elsewhere are held back by something else.
    let elsewhere = hidden.clone().sleeps(&[("folio_wait_bit", 0.9)]).answers(0.02, 0.0, 0.0);
    assert_ne!(judged(&elsewhere), Limiter::IoThrottle);
    // What is above, or for the other direction, is none.
    visible(cap(Some(500_000.0), None, true)).is(Limiter::IoThrottle, Likely);
    visible(cap(Some(100_000.0), None, false)).is(Limiter::IoThrottle, Likely);
}

#[test]
fn queues_that_are_full() {
    let of_four = |spec: &str| {
        let mut world = clean(spec).blocked().queues(4.0);
        world.target().device_stack[0].nr_requests = Some(4);
        world
    };
    let full = of_four("read:rnd4k:t16");
    full.clone()
        .sleeps(&[("blk_mq_get_tag", 0.7), ("__iomap_dio_rw", 0.25)])
        .is(Limiter::QueueFull, Confirmed);
    of_four("read:rnd4k:q16").sleeps(&[("blk_mq_get_tag", 0.7)]).is(Limiter::QueueFull, Confirmed);
    // Whose turn is given out by somebody else waits for no tag, and a queue that is empty is not full.
    let paced = clean("write:rnd4k:t16").blocked().queues(2.6).sleeps(&[("rq_qos_wait", 0.9)]);
    assert_ne!(judged(&paced), Limiter::QueueFull);
    clean("read:rnd4k:t16")
        .blocked()
        .queues(2.6)
        .sleeps(&[("blk_mq_get_tag", 0.7)])
        .is(Limiter::QueueFull, Likely);
}

#[test]
fn journals_and_flushes() {
    let mut synced =
        clean("fsync:rnd4k").blocked().sleeps(&[("submit_bio_wait", 0.6), ("jbd2_log_wait_commit", 0.3)]);
    synced.is(Limiter::FsyncJournal, Likely);
    let flushes = synced.record.ops;
    synced.device().flushes = flushes;
    synced.is(Limiter::FsyncJournal, Confirmed);
}

#[test]
fn writers_that_are_held_back() {
    let held = clean("write:seq1m:buffered").blocked().sleeps(&[("balance_dirty_pages", 0.9)]);
    held.is(Limiter::DirtyThrottling, Confirmed);
}

#[test]
fn threads_that_wait_for_each_other() {
    let shared = clean("write:rnd4k:t16")
        .blocked()
        .queues(1.0)
        .sleeps(&[("ext4_file_write_iter", 0.9), ("__iomap_dio_rw", 0.06)]);
    shared.is(Limiter::LockContention, Confirmed);
    let mut few = shared;
    few.environment.cpus = 2;
    few.is(Limiter::LockContention, Likely);
    // Those who spin for it are seen working; that each alone does more betrays them.
    let mut spinning = clean("stat:t8:shared").spends(0.1, 0.6, 0.3, 0.0);
    spinning.record.sensitivity = Some(Sensitivity { separate: sensed(1.6, 0.1), ..Sensitivity::default() });
    spinning.is(Limiter::LockContention, Likely);
    let holder_is_held = clean("write:rnd4k:t2:buffered")
        .blocked()
        .sleeps(&[("ext4_buffered_write_iter", 0.48), ("balance_dirty_pages", 0.47)]);
    assert_ne!(judged(&holder_is_held), Limiter::LockContention);
}

#[test]
fn memory_that_has_to_be_found() {
    let pressed =
        clean("read:seq1m:buffered").blocked().sleeps(&[("reclaim_throttle", 0.6)]).system(|system| {
            system.pressure = Some(Pressures { io: 0.4, memory: 0.5, cpu: 0.0 });
        });
    pressed.is(Limiter::MemoryPressure, Confirmed);
    let in_cgroup = clean("write:seq1m:buffered").spends(0.02, 0.7, 0.02, 0.26).system(|system| {
        system.pressure = Some(Pressures { io: 0.4, memory: 0.5, cpu: 0.0 });
        system.reclaim =
            Some(Reclaim { direct_scanned_pages: 0, refaulted_pages: 0, cgroup_limit_hits: 9000 });
    });
    in_cgroup.is(Limiter::MemoryPressure, Likely);
    // Nobody finds pressure: what is read has only just been given back, again and again.
    let again = |hits: u64, refaulted_share: f64| {
        let read = clean("read:seq128k:buffered").blocked().sleeps(&[("folio_wait_bit_common", 0.9)]);
        let pages = read.record.app_bytes_read as f64 / 4096.0 * refaulted_share;
        read.system(|system| {
            system.reclaim = Some(Reclaim {
                direct_scanned_pages: 0,
                refaulted_pages: pages as u64,
                cgroup_limit_hits: hits,
            });
        })
    };
    again(9000, 1.0).is(Limiter::MemoryPressure, Likely);
    // Where no group is full, or what is read is new, it is the device that it waits for.
    assert_ne!(judged(&again(0, 1.0)), Limiter::MemoryPressure);
    assert_ne!(judged(&again(9000, 0.1)), Limiter::MemoryPressure);
    // So much cannot have been ours.
    assert_ne!(judged(&again(9000, 2.0)), Limiter::MemoryPressure);
}

#[test]
fn cpus_of_the_test_and_of_others() {
    let putc = clean("putc-write").spends(0.87, 0.05, 0.01, 0.07).sleeps(&[]).system(|system| {
        system.calls = Some(CallUse {
            read_calls: 0,
            write_calls: 1000,
            bytes_per_read_call: None,
            bytes_per_write_call: Some(4096.0),
        });
    });
    putc.is(Limiter::ClientCpu, Confirmed);
    clean("byte-write").spends(0.2, 0.75, 0.01, 0.04).sleeps(&[]).is(Limiter::KernelCpu, Likely);
    let mut idle = clean("rewrite:seq128k").spends(0.06, 0.9, 0.0, 0.04).sleeps(&[]);
    idle.device_frames(|device| device.busy_ns = 30_000_000);
    idle.is(Limiter::KernelCpu, Confirmed);
    let mut saturated = clean("write:rnd4k:t32").spends(0.05, 0.2, 0.6, 0.15);
    saturated.is(Limiter::CpuSaturated, Likely);
    saturated.environment.cpus = 64;
    let hogged = clean("read:rnd4k").spends(0.05, 0.2, 0.6, 0.15).system(|system| {
        system.helpers = vec![Helper { name: "hog".into(), pid: 7, is_kernel: false, cpu_share: 0.99 }];
    });
    hogged.is(Limiter::CpuContention, Likely);
    let mut held = clean("read:rnd4k").spends(0.05, 0.1, 0.0, 0.05).system(|system| {
        system.quota_throttled_ns = Some(3_200_000_000);
        system.quota_cpus = Some(0.2);
    });
    held.budget().quota = Some(0.8);
    held.is(Limiter::CpuQuota, Confirmed);
    let mut stolen = clean("read:rnd4k").spends(0.1, 0.3, 0.0, 0.3);
    stolen.budget().steal = 0.3;
    stolen.is(Limiter::HypervisorSteal, Likely);
}

#[test]
fn answers_from_memory() {
    let mut cached = clean("read:seq1m:buffered").spends(0.02, 0.97, 0.01, 0.0).sleeps(&[]);
    cached.record.page_cache_share = Some(1.0);
    cached.device().bytes_per_app_byte = Some(0.0);
    cached.is(Limiter::PageCache, Confirmed);
    let mut absorbed = clean("write:seq1m:buffered:sync=none").spends(0.02, 0.97, 0.01, 0.0).sleeps(&[]);
    absorbed.device().bytes_per_app_byte = Some(0.2);
    absorbed.is(Limiter::PageCacheAbsorbed, Confirmed);
    let mut stat = clean("stat:t4").spends(0.3, 0.6, 0.1, 0.0).sleeps(&[]);
    stat.device().bytes_read = 0;
    stat.is(Limiter::MetadataCache, Confirmed);
    // What others read meanwhile is not charged to the test.
    stat.device().bytes_read = 1 << 30;
    stat.is(Limiter::MetadataCache, Confirmed);
    stat.frames(|frame| frame.own_io.device_read_bytes = 1 << 30);
    stat.is(Limiter::KernelCpu, Likely);
}

#[test]
fn others_on_the_device() {
    let mut shared = clean("read:rnd4k:q8").blocked().queues(16.0);
    shared.device().foreign_share = Some(0.5);
    shared.is(Limiter::NoisyNeighbour, Likely);
    shared.clone().answers(0.0, 0.1, 0.0).is(Limiter::NoisyNeighbour, Confirmed);
    // A device with room for more is not what others take.
    shared.answers(1.0, 0.9, 0.0).is(Limiter::DeviceLatency, Confirmed);
}

#[test]
fn helpers_that_are_busy_all_the_time() {
    let ssh =
        clean("read:seq1m").blocked().remote(1.0).sleeps(&[("request_wait_answer", 0.9)]).system(|system| {
            system.helpers = vec![Helper { name: "ssh".into(), pid: 7, is_kernel: false, cpu_share: 0.97 }];
        });
    // On another file system it works for somebody else.
    assert_ne!(judged(&ssh), Limiter::HelperCpu);
    let mut sshfs = ssh;
    sshfs.target().file_system = "fuse.sshfs".into();
    sshfs.is(Limiter::HelperCpu, Likely);
    // Threads of the kernel that take turns on one queue are one together, if it is a queue of the target's.
    let queue = |device: &str| {
        let mut read = clean("read:seq1m:q16").blocked().queues(15.0).answers(0.0, 0.0, -1.0);
        read.target().device_stack[0].kind = DeviceKind::Loop;
        read.target().device_stack[0].name = "loop0".into();
        let thread = |name: String, pid| Helper { name, pid, is_kernel: true, cpu_share: 0.45 };
        let threads =
            vec![thread(format!("kworker/u8:22-{device}"), 7), thread(format!("kworker/1:3+{device}"), 8)];
        read.system(|system| system.helpers.clone_from(&threads))
    };
    queue("loop0").is(Limiter::HelperCpu, Likely);
    assert_ne!(judged(&queue("loop1")), Limiter::HelperCpu);
    assert_ne!(judged(&queue("loop01")), Limiter::HelperCpu);
    // Ciphers have threads on all CPUs, of which none is full.
    let mut cipher = queue("kcryptd/253:0");
    cipher.target().device_stack[0].kind = DeviceKind::DeviceMapper;
    assert_ne!(judged(&cipher), Limiter::HelperCpu);
}

#[test]
fn a_rate_that_comes_and_goes_below() {
    let mut host = clean("read:rnd4k:q4").blocked().queues(4.0);
    host.environment.virtualisation = Some("kvm".into());
    for (index, interval) in host.record.intervals.iter_mut().enumerate() {
        interval.ops = if index / 10 % 2 == 0 { 10_000 } else { 2_000 };
    }
    host.steady().found = false;
    host.is(Limiter::BelowOs, Likely);
}

#[test]
fn what_was_asked_for_and_skye_itself() {
    let mut asked = clean("read:rnd4k:rate=100000").spends(0.05, 0.1, 0.0, 0.85);
    asked.record.workload.rate_ops_per_second = Some(1e5);
    asked.is(Limiter::RateLimitAsked, Confirmed);
    let mut own = clean("read:rnd4k:q32").spends(0.8, 0.2, 0.0, 0.0).sleeps(&[]);
    own.record.ceiling_shares = Some(CeilingShares { own_loop: Some(0.9), memory: None });
    own.is(Limiter::BenchmarkItself, Confirmed);
    let mut late = clean("read:rnd4k:q32").spends(0.1, 0.5, 0.0, 0.4).queues(28.0);
    late.record.engine.idle_slots = Some(3.5);
    late.is(Limiter::BenchmarkItself, Likely);
    late.record.engine.idle_slots = Some(3.0);
    assert_ne!(judged(&late), Limiter::BenchmarkItself);
}

#[test]
fn what_conflicts_or_was_not_seen_is_not_clear() {
    let mut unseen = clean("read:rnd4k:t16").blocked();
    unseen.lies_on(Backing::RemoteOrUserSpace, "fuse");
    unseen.is(Limiter::NotClear, Undetermined);
    let unsure = Sensitivity { depth: sensed(0.5, 0.9), ..Sensitivity::default() };
    let mut world = clean("read:rnd4k:q32").blocked().queues(31.0);
    world.record.sensitivity = Some(unsure);
    world.is(Limiter::NotClear, Undetermined);
}

fn judged(world: &World) -> Limiter {
    world.judged().verdict.unwrap().limiter.unwrap()
}

#[test]
fn experiments_ask_what_is_open() {
    use Experiment::{Block, Delay, Depth, Separate};
    let waits = clean("read:rnd4k:q8").blocked().queues(7.9);
    assert_eq!(waits.next(&[]), Some(Delay));
    assert_eq!(waits.next(&[Delay]), Some(Depth));
    assert_eq!(waits.next(&[Delay, Depth]), Some(Block));
    assert_eq!(waits.next(&[Delay, Depth, Block]), None);
    // What is known needs no more.
    assert_eq!(waits.clone().answers(1.0, 0.9, 0.0).next(&[Delay, Depth]), None);
    // Threads that do not wait have said what holds them back; and what changes something is left alone.
    assert_eq!(clean("read:rnd4k:q8").spends(0.5, 0.5, 0.0, 0.0).next(&[]), None);
    // But for what more of them would bring, where there are CPUs for more.
    let busy = clean("read:rnd4k").spends(0.5, 0.5, 0.0, 0.0).sleeps(&[]);
    assert_eq!((busy.next(&[]), busy.next(&[Depth])), (Some(Depth), None));
    let shared = clean("stat:t8:shared").spends(0.1, 0.5, 0.4, 0.0);
    assert_eq!((shared.next(&[]), shared.next(&[Separate])), (Some(Separate), None));
    let mut write = clean("write:rnd4k:q8").blocked().queues(7.9);
    assert_eq!(write.next(&[]), None);
    let Plan { probe, .. } = &mut write.plan;
    *probe = model::workload::Probing::Writes;
    assert_eq!(write.next(&[]), Some(Delay));
}

#[test]
fn a_mix_is_told_by_its_parts() {
    let knee = clean("read:rnd4k:q32").blocked().queues(31.0).answers(0.55, 0.3, 0.0);
    let ranking = knee.judged().verdict.unwrap().ranking;
    let limiters: Vec<_> = ranking.iter().map(|ranked| ranked.limiter).collect();
    assert_eq!(limiters, [Limiter::DeviceLatency, Limiter::DeviceOps]);
}
