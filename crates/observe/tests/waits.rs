//! Places where threads of this very process sleep, as the running kernel shows them.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use model::run::WaitsOf;
use observe::{Root, Waits};

/// Long enough for a thread to fall asleep on any machine; the test concludes nothing from the time it took.
const PATIENCE: Duration = Duration::from_secs(10);

fn share_of(waits: &Waits, symbols: &[&str]) -> f64 {
    let sites = waits.sites().into_iter().filter(|site| site.of == WaitsOf::Workers);
    sites.filter(|site| symbols.contains(&site.symbol.as_str())).map(|site| site.share).sum()
}

#[test]
fn blocked_and_spinning_threads_are_distinguished() {
    let mut waits = Waits::open(&Root::system());
    if let Some(hidden) = waits.hidden() {
        eprintln!("skipped: {hidden}");
        return;
    }
    let (tell, told) = channel();
    let tid = || rustix::thread::gettid().as_raw_nonzero().get();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let tell_too = tell.clone();
        scope.spawn(move || {
            tell_too.send(tid()).unwrap();
            reader.read_exact(&mut [0]).unwrap();
        });
        let sleeper = told.recv().unwrap();
        scope.spawn(|| {
            tell.send(tid()).unwrap();
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let spinner = told.recv().unwrap();
        waits.count_calls(true);
        let start = Instant::now();
        let mut asleep = 0.0;
        // The thread may not have reached its read yet; each new watch forgets the earlier looks.
        while asleep < 1.0 && start.elapsed() < PATIENCE {
            waits.watch(&[sleeper]);
            (0..20).for_each(|_| waits.look());
            asleep = share_of(&waits, &["pipe_read", "anon_pipe_read"]);
        }
        let (calls, looks) = (waits.calls_blocked(), waits.call_looks());
        waits.watch(&[spinner]);
        (0..20).for_each(|_| waits.look());
        let (running, sites) = (share_of(&waits, &["running"]), waits.sites());
        stop.store(true, Ordering::Relaxed);
        writer.write_all(&[0]).unwrap();
        assert_eq!(asleep, 1.0);
        assert_eq!((calls.as_slice(), looks), (&[("read", 20)][..], 20));
        assert_eq!(running, 1.0, "{sites:?}");
    });
    // After a thread has ended, nothing more is seen of it.
    let start = Instant::now();
    let looks_at_it = || {
        let before = waits.sites();
        waits.look();
        waits.sites() != before
    };
    assert!(std::iter::repeat_with(looks_at_it).any(|seen| !seen || start.elapsed() > PATIENCE));
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
        waits.look();
    }
    let sites = waits.sites();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(share_of(&waits, &["pipe_read", "anon_pipe_read"]) > 0.0, "{sites:?}");
}
