//! Clocks, as a type parameter. The kernel's monotonic clock and the processor's counter share an axis; simulated
//! devices have a virtual clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A monotonic clock.
pub trait Clock {
    /// Nanoseconds since an arbitrary but fixed instant.
    fn now_ns(&self) -> u64;

    /// Returns at `at_ns`, as exactly as the machine allows: sleeps until shortly before, then polls the clock.
    #[cold]
    fn wait_until(&self, at_ns: u64) {
        loop {
            let left_ns = at_ns.saturating_sub(self.now_ns());
            if left_ns == 0 {
                return;
            }
            if left_ns > SPIN_NS {
                self.sleep(left_ns - SPIN_NS);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Lets at least this time pass.
    fn sleep(&self, time_ns: u64) {
        std::thread::sleep(Duration::from_nanos(time_ns));
    }
}

/// Largest delay expected when a sleeping thread wakes up: its timer slack (50 us) and the way back to a CPU.
pub const SPIN_NS: u64 = 100_000;

/// `CLOCK_MONOTONIC`, read through the vDSO: no system call if the clock source allows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Monotonic;

impl Clock for Monotonic {
    #[inline]
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        // Neither part is ever negative on a monotonic clock.
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// The processor's time stamp counter, on the axis of [`Monotonic`].
///
/// A read costs less than half of the vDSO's, which matters if an operation takes a microsecond. The counter is used
/// only if the kernel itself trusts it as clock source: then it runs at one rate on all CPUs.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    base_ticks: u64,
    base_ns: u64,
    /// Nanoseconds per tick, times 2^32.
    factor: u64,
}

/// Distance of the two readings. Each pair is exact to about 20 ns, so the rate is exact to 1 in 10^6.
const CALIBRATION: Duration = Duration::from_millis(20);

impl Tsc {
    /// Compares the counter with the kernel's clock for 20 ms. Returns `None` if the kernel does not trust the counter.
    pub fn calibrate() -> Option<Self> {
        let source =
            std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .ok()?;
        if source.trim() != "tsc" {
            return None;
        }
        let (first_ticks, first_ns) = pair()?;
        std::thread::sleep(CALIBRATION);
        let (base_ticks, base_ns) = pair()?;
        let ticks = base_ticks.checked_sub(first_ticks).filter(|ticks| *ticks > 0)?;
        let factor = u64::try_from((u128::from(base_ns - first_ns) << 32) / u128::from(ticks)).ok()?;
        Some(Self { base_ticks, base_ns, factor })
    }

    /// Keeps the rate but starts from a new common instant, so that the rate's remaining error does not add up over a
    /// run.
    #[must_use]
    pub fn anchored(self) -> Self {
        pair().map_or(self, |(base_ticks, base_ns)| Self { base_ticks, base_ns, ..self })
    }
}

impl Clock for Tsc {
    #[inline]
    fn now_ns(&self) -> u64 {
        // There is nothing to measure before the anchor. The counter of a CPU that lags some ticks must not wrap
        // around.
        let ticks = ticks().saturating_sub(self.base_ticks);
        self.base_ns + ((u128::from(ticks) * u128::from(self.factor)) >> 32) as u64
    }
}

/// The best clock of this machine. Each read takes one branch, always the same way; the alternative is two copies of
/// every loop.
#[derive(Debug, Clone, Copy)]
pub enum Timer {
    /// The processor's counter, where the kernel trusts it.
    Tsc(Tsc),
    /// The kernel's clock.
    Kernel,
    /// A clock that advances by a microsecond with each read, and by sleeps: each latency shows what it counts.
    #[cfg(test)]
    Virtual(&'static std::sync::atomic::AtomicU64),
}

impl Timer {
    /// Finds the best clock, which takes 20 ms.
    pub fn best() -> Self {
        Tsc::calibrate().map_or(Self::Kernel, Self::Tsc)
    }

    /// See [`Tsc::anchored`].
    #[must_use]
    pub fn anchored(self) -> Self {
        match self {
            Self::Tsc(tsc) => Self::Tsc(tsc.anchored()),
            other => other,
        }
    }

    /// A clock that begins near 0.
    #[cfg(test)]
    pub(crate) fn new_virtual() -> Self {
        Self::Virtual(Box::leak(Box::new(1.into())))
    }

    /// Name of the clock in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tsc(_) => "tsc",
            Self::Kernel => "monotonic",
            #[cfg(test)]
            Self::Virtual(_) => "virtual",
        }
    }
}

impl Clock for Timer {
    #[inline]
    fn now_ns(&self) -> u64 {
        match self {
            Self::Tsc(tsc) => tsc.now_ns(),
            Self::Kernel => kernel_now_ns(),
            #[cfg(test)]
            Self::Virtual(clock) => clock.fetch_add(1000, std::sync::atomic::Ordering::Relaxed) + 1000,
        }
    }

    #[cfg(test)]
    fn sleep(&self, time_ns: u64) {
        match self {
            Self::Virtual(clock) => _ = clock.fetch_add(time_ns, std::sync::atomic::Ordering::Relaxed),
            _ => std::thread::sleep(Duration::from_nanos(time_ns)),
        }
    }
}

/// Not inlined: each loop would get a copy at each clock read. A call costs nothing compared with the read.
#[inline(never)]
fn kernel_now_ns() -> u64 {
    Monotonic.now_ns()
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: RDTSC reads a register and touches no memory. Every x86-64 processor has it. If the kernel forbids it to
    // programs (PR_SET_TSC) it faults, which is a crash and not undefined behaviour.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Never called: other processors have no counter that the kernel would name "tsc".
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// Reads the counter and the clock at the same instant. Returns the fastest of several tries.
fn pair() -> Option<(u64, u64)> {
    let one = |_| {
        let before = ticks();
        let now_ns = Monotonic.now_ns();
        let after = ticks();
        (after.saturating_sub(before), before / 2 + after / 2, now_ns)
    };
    (0..10).map(one).min_by_key(|(took, ..)| *took).map(|(_, ticks, now_ns)| (ticks, now_ns))
}

/// Cost of one clock read in nanoseconds: the mean of the fastest of several short bursts.
pub fn read_cost_ns(clock: &impl Clock) -> f64 {
    const READS: u64 = 1000;
    let burst = || {
        let start = clock.now_ns();
        let mut last = start;
        for _ in 0..READS {
            last = std::hint::black_box(clock.now_ns());
        }
        last.saturating_sub(start) as f64 / READS as f64
    };
    (0..5).map(|_| burst()).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tsc_clock_agrees_with_kernel_clock() {
        let Some(tsc) = Tsc::calibrate() else { return };
        let tsc = tsc.anchored();
        let mut last_ns = 0;
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(10));
            // Every read of the counter lies between two reads of the kernel's clock, within 1 in 10^4 of the time
            // since the anchor. That is far more than the error, and far less than any mistake in the arithmetic.
            let before_ns = Monotonic.now_ns();
            let now_ns = tsc.now_ns();
            let after_ns = Monotonic.now_ns();
            let slack_ns = (after_ns - tsc.base_ns) / 10_000 + 100;
            assert!(
                now_ns + slack_ns >= before_ns && now_ns <= after_ns + slack_ns,
                "{before_ns} {now_ns} {after_ns}"
            );
            assert!(now_ns > last_ns);
            last_ns = now_ns;
        }
    }
}
