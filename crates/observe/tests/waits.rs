//! Places where threads of this very process sleep, as the running kernel shows them.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use model::run::SampledThreads;
use observe::{Root, Waits};

/// Long enough for a thread to fall asleep on any machine; the test concludes nothing from the time it took.
const PATIENCE: Duration = Duration::from_secs(10);

fn share_of(waits: &Waits, symbols: &[&str]) -> f64 {
    let sites = waits.sites().into_iter().filter(|site| site.of == SampledThreads::Workers);
    sites.filter(|site| symbols.contains(&site.symbol.as_str())).map(|site| site.share).sum()
}

#[test]
fn blocked_and_spinning_threads_are_distinguished() {
    let mut waits = Waits::open(&Root::system());
    if let Some(hidden) = waits.hidden() {
        eprintln!("skipped: {hidden}");
        return;
    }
    let (sender, receiver) = channel();
    let tid = || rustix::thread::gettid().as_raw_nonzero().get();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sleeper_sender = sender.clone();
        scope.spawn(move || {
            sleeper_sender.send(tid()).unwrap();
            reader.read_exact(&mut [0]).unwrap();
        });
        let sleeper = receiver.recv().unwrap();
        scope.spawn(|| {
            sender.send(tid()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let spinner = receiver.recv().unwrap();
        waits.count_calls(true);
        let start = Instant::now();
        let mut asleep = 0.0;
        // The thread may not have reached its read yet; each new watch forgets the earlier looks.
        while asleep < 1.0 && start.elapsed() < PATIENCE {
            waits.watch(&[sleeper]);
            (0..20).for_each(|_| waits.sample());
            asleep = share_of(&waits, &["pipe_read", "anon_pipe_read"]);
        }
        let (calls, samples) = (waits.calls_blocked(), waits.call_samples());
        waits.watch(&[spinner]);
        (0..20).for_each(|_| waits.sample());
        let (running, sites) = (share_of(&waits, &["running"]), waits.sites());
        stop.store(true, Ordering::Relaxed);
        writer.write_all(&[0]).unwrap();
        assert_eq!(asleep, 1.0);
        assert_eq!((calls.as_slice(), samples), (&[("read", 20)][..], 20));
        assert_eq!(running, 1.0, "{sites:?}");
    });
    // After a thread has ended, nothing more is seen of it.
    let start = Instant::now();
    let has_changed = || {
        let before = waits.sites();
        waits.sample();
        waits.sites() != before
    };
    assert!(std::iter::repeat_with(has_changed).any(|seen| !seen || start.elapsed() > PATIENCE));
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn main_thread_of_another_process_is_sampled() {
    let mut waits = Waits::open(&Root::system());
    if waits.hidden().is_some() {
        eprintln!("skipped: where threads sleep is hidden");
        return;
    }
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    waits.watch(&[]);
    waits.watch_process(i32::try_from(child.id()).unwrap());
    let start = Instant::now();
    while share_of(&waits, &["pipe_read", "anon_pipe_read"]) == 0.0 && start.elapsed() < PATIENCE {
        waits.sample();
    }
    let sites = waits.sites();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(share_of(&waits, &["pipe_read", "anon_pipe_read"]) > 0.0, "{sites:?}");
}
