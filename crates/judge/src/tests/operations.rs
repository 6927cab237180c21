//! Verdicts on operations of a mix, by made-up samples.

use model::Limiter;
use model::observation::Observation;
use model::run::{
    ClientShare, Confidence, OperationSamples, OperationVerdict, SampledThreads, TimeBreakdown, WaitChannel,
};
use model::target::Backing;

use crate::fixtures::{InputBuilder, clean, client};
use crate::judge;

/// An operation: its name, its share of the time in thousandths, and samples by place.
type Operation<'a> = (&'a str, u64, &'a [(&'a str, u64)]);

const COMMIT: &str = "jbd2_log_wait_commit";

/// A mix of mail by four threads on eight CPUs whose operations slept in these places.
fn mail(operations: &[Operation<'_>]) -> InputBuilder {
    mix("mix:mail:t4", operations)
}

fn mix(spec: &str, operations: &[Operation<'_>]) -> InputBuilder {
    let mut world = clean(spec);
    let step = world.record.figures.steps[0].clone();
    world.record.figures.steps = (operations.iter())
        .map(|(name, thousandths, _)| {
            let mut step = step.clone();
            (step.name, step.ops) = ((*name).to_owned(), 10_000);
            step.elapsed_ns = Some(thousandths * 1_000_000);
            step
        })
        .collect();
    let channels = &mut world.record.seen.wait_channels;
    for (operation, _, sites) in operations {
        for (symbol, samples) in *sites {
            let of_it = OperationSamples { operation: (*operation).to_owned(), samples: *samples };
            let site = WaitChannel {
                of: SampledThreads::Workers,
                class: None,
                symbol: (*symbol).to_owned(),
                share: 0.0,
                samples: *samples,
                operations: vec![of_it],
            };
            match channels.iter_mut().find(|known| known.symbol == *symbol) {
                Some(known) => known.add(&site),
                None => channels.push(site),
            }
        }
    }
    let all: u64 = channels.iter().map(|site| site.samples).sum();
    let asleep: u64 = channels.iter().filter(|site| site.is_asleep()).map(|site| site.samples).sum();
    let blocked = asleep as f64 / all.max(1) as f64;
    let awake = 1.0 - blocked;
    world.record.seen.budget = Some(TimeBreakdown {
        user: 0.11 * awake,
        kernel: 0.85 * awake,
        run_queue: 0.04 * awake,
        quota: None,
        steal: 0.0,
        blocked,
    });
    world
}

impl InputBuilder {
    fn operations(&self) -> Vec<OperationVerdict> {
        let mut record = self.record.clone();
        judge(&mut record, &self.plan, &self.environment, Some(&self.probes));
        let verdict = record.judged.verdict.unwrap();
        for found in &verdict.operations {
            let text = wording::operation(found);
            assert!(!text.contains("NaN") && !text.contains(['{', '}']), "{text}");
            let sum: f64 = found.ranking.iter().map(|part| part.share).sum();
            assert!(sum < 1.0 + 1e-6 && found.confidence <= Confidence::Likely, "{found:?}");
            assert_eq!(found.limiter == Limiter::NotClear, found.confidence == Confidence::Undetermined);
        }
        verdict.operations
    }

    fn limiters(&self) -> Vec<(String, Limiter)> {
        self.operations().into_iter().map(|found| (found.operation, found.limiter)).collect()
    }
}

fn expected_limiters(expected: &[(&str, Limiter)]) -> Vec<(String, Limiter)> {
    expected.iter().map(|(name, limiter)| ((*name).to_owned(), *limiter)).collect()
}

#[test]
fn operation_limiter_comes_from_its_own_samples() {
    let world = mail(&[
        ("stat-missing", 9, &[("running", 40)]),
        ("read", 240, &[("running", 380), ("folio_wait_bit_common", 20)]),
        ("create", 500, &[(COMMIT, 500), ("folio_wait_bit", 200), ("running", 100)]),
        ("rename", 251, &[("lock_rename", 350), ("running", 50)]),
    ]);
    let expected = [
        ("create", Limiter::FsyncJournal),
        ("rename", Limiter::LockContention),
        ("read", Limiter::KernelCpu),
    ];
    assert_eq!(world.limiters(), expected_limiters(&expected));
    let create = &world.operations()[0];
    assert_eq!((create.samples, create.time_share), (800, 0.5));
    let text = wording::operation(create);
    assert_eq!(
        text,
        "50 % of the time, commit / flush (likely): its threads waited for a commit or flush in 88 % of 800 samples \
         (jbd2_log_wait_commit)"
    );
    let text = wording::operation(&world.operations()[2]);
    assert_eq!(
        text,
        "24 % of the time, kernel CPU (likely): its threads were runnable in 95 % of 400 samples; over all \
         operations, threads that were not asleep spent 85 % of their time in the kernel, 11 % in user space"
    );
    let all = wording::operations(&world.operations());
    let of_all = |sentence: &&String| sentence.contains("over all operations");
    assert_eq!(all.iter().filter(of_all).count(), 1, "{all:?}");
}

#[test]
fn page_waits_count_as_sync_in_syncing_operations() {
    let pages = [("folio_wait_bit_common", 390), ("submit_bio_wait", 100), ("running", 30)];
    let world = mail(&[("create", 500, &pages), ("read", 500, &pages)]);
    let expected = [("create", Limiter::FsyncJournal), ("read", Limiter::DeviceLatency)];
    assert_eq!(world.limiters(), expected_limiters(&expected));
    let [create, read] = &world.operations()[..] else { panic!() };
    let sentence =
        "waited for a sync in 94 % of 520 samples, mostly for writeback of its pages (folio_wait_bit_common)";
    assert!(wording::operation(create).ends_with(sentence), "{}", wording::operation(create));
    assert!(wording::operation(read).contains("waited for pages in 94 %"), "{}", wording::operation(read));
    // The test as a whole waits for syncs, but the pages of reads are none of them.
    let mut reads =
        mail(&[("create", 100, &[(COMMIT, 100)]), ("read", 900, &[("folio_wait_bit_common", 900)])]);
    judge(&mut reads.record, &reads.plan, &reads.environment, None);
    assert_ne!(reads.record.judged.verdict.unwrap().limiter, Some(Limiter::FsyncJournal));
    // On a server there is no journal of this machine.
    let mut remote = mail(&[("create", 900, &[("request_wait_answer", 850), ("folio_wait_bit", 50)])]);
    remote.set_backing(Backing::RemoteOrUserSpace, "fuse");
    assert_eq!(remote.limiters(), expected_limiters(&[("create", Limiter::RemoteUndetermined)]));
}

#[test]
fn operation_waiting_on_idle_device_is_not_clear() {
    let pages: Operation<'_> = ("read", 1000, &[("folio_wait_bit_common", 900), ("running", 100)]);
    let mut idle = mail(&[pages]);
    idle.frames(|frame| {
        frame.devices.iter_mut().for_each(|device| device.in_flight_ns = 1_000_000);
    });
    let found = &idle.operations()[0];
    assert_eq!(found.limiter, Limiter::NotClear);
    assert!(found.observations.iter().any(|seen| matches!(seen, Observation::OperationHidden { .. })));
}

#[test]
fn operation_with_few_samples_is_not_clear() {
    let with = |asleep, running| mail(&[("create", 1000, &[(COMMIT, asleep), ("running", running)])]);
    let limiter = |world: &InputBuilder| world.operations()[0].limiter;
    assert_eq!(limiter(&with(300, 100)), Limiter::FsyncJournal);
    // Four threads of one instant may wait for the same commit: these are five samples.
    assert_eq!(limiter(&with(15, 5)), Limiter::NotClear);
    assert_eq!(limiter(&with(24, 0)), Limiter::FsyncJournal);
    assert_eq!(limiter(&with(20, 0)), Limiter::NotClear);
    // Samples of the same call count as one.
    let mut few = with(300, 100);
    few.record.figures.steps[0].ops = 5;
    assert_eq!(limiter(&few), Limiter::NotClear);
    let text = wording::operation(&few.operations()[0]);
    let sentence = "not clear: too few calls for a verdict (5); its threads waited for a commit or flush in";
    assert!(text.contains(sentence), "{text}");
    assert_eq!(mail(&[("create", 1000, &[])]).operations(), []);
}

#[test]
fn two_limits_of_about_the_same_time_are_mixed() {
    let world = mail(&[("create", 1000, &[(COMMIT, 450), ("running", 400), ("unheard_of", 50)])]);
    let found = &world.operations()[0];
    assert_eq!(found.limiter, Limiter::Mixed);
    let parts: Vec<_> = found.ranking.iter().take(2).map(|part| part.limiter).collect();
    assert_eq!(parts, [Limiter::FsyncJournal, Limiter::KernelCpu]);
    assert!(wording::operation(found).contains("mixed: commit / flush 50 %, kernel CPU 44 % (likely): its"));
    assert_eq!(found.observations.len(), 3);
    // An unknown wait channel is no evidence.
    let hidden = mail(&[("create", 1000, &[("unheard_of", 700), ("running", 200)])]);
    assert_eq!(hidden.operations()[0].limiter, Limiter::NotClear);
    assert!(
        wording::operation(&hidden.operations()[0]).contains("slept in unheard_of in 78 % of 900 samples")
    );
}

#[test]
fn oversampled_sleep_makes_the_limiter_not_clear() {
    let mut world = mail(&[("create", 1000, &[(COMMIT, 240), ("running", 160)])]);
    assert_eq!(world.operations()[0].limiter, Limiter::Mixed);
    let mut most = mail(&[("create", 1000, &[(COMMIT, 280), ("running", 120)])]);
    assert_eq!(most.operations()[0].limiter, Limiter::FsyncJournal);
    for world in [&mut world, &mut most] {
        world.budget().blocked -= 0.3;
        world.budget().kernel += 0.3;
    }
    assert_eq!(
        [&world, &most].map(|world| world.operations()[0].limiter),
        [Limiter::Mixed, Limiter::NotClear]
    );
}

#[test]
fn running_operation_gets_cpu_limiter_of_the_test() {
    // Eight CPUs, sixteen threads that use them all.
    let mut world =
        mix("mix:web:t16", &[("read", 950, &[("running", 3000)]), ("log", 50, &[("running", 200)])]);
    let budget = world.budget();
    (budget.user, budget.kernel, budget.run_queue) = (0.05, 0.45, 0.5);
    assert_eq!(world.limiters(), expected_limiters(&[("read", Limiter::CpuSaturated)]));
    // Awake time of several kinds: how it divides within one operation is not known.
    let mut mixed = mail(&[("read", 500, &[("running", 900)]), ("create", 500, &[(COMMIT, 900)])]);
    let budget = mixed.budget();
    (budget.user, budget.kernel, budget.run_queue) = (0.02, 0.28, 0.2);
    let expected = [("read", Limiter::Mixed), ("create", Limiter::FsyncJournal)];
    assert_eq!(mixed.limiters(), expected_limiters(&expected));
    // A lock needs two threads.
    let alone = mix("mix:mail", &[("rename", 1000, &[("lock_rename", 900)])]);
    assert_eq!(alone.operations()[0].limiter, Limiter::NotClear);
}

#[test]
fn totals_of_clients_have_operation_limiters() {
    let mut world =
        mail(&[("create", 900, &[(COMMIT, 800), ("running", 100)]), ("list", 100, &[("running", 99)])]);
    let budget = world.record.seen.budget.take();
    for name in ["ada", "bob"] {
        let share = client(name, 1e4, Limiter::FsyncJournal, Confidence::Likely);
        world.record.hosts.push(ClientShare { budget: budget.clone(), ..share });
    }
    let expected = [("create", Limiter::FsyncJournal), ("list", Limiter::KernelCpu)];
    assert_eq!(world.limiters(), expected_limiters(&expected));
    // Three clients of four threads on the eight CPUs of one machine.
    let share = world.record.hosts[0].clone();
    for one in 0..3 {
        let mut share = ClientShare { name: format!("ada#{one}"), ..share.clone() };
        let budget = share.budget.as_mut().unwrap();
        (budget.kernel, budget.run_queue) = (budget.run_queue, budget.kernel);
        if one == 0 {
            world.record.hosts.clear();
        }
        world.record.hosts.push(share);
    }
    assert_eq!(world.limiters()[1].1, Limiter::CpuSaturated);
}

#[test]
fn test_without_mix_has_no_operation_limiters() {
    assert_eq!(clean("stat:t4").operations(), []);
    assert_eq!(clean("read:rnd4k").operations(), []);
}
