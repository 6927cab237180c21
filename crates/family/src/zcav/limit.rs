//! The limit of a rate, from exact numbers: CPU time of the thread and bytes that devices gave it.

use model::numbers::percent;

use super::Verb;

/// Shares of the bytes below which almost nothing came from a device, and above which all bytes did. The kernel reads
/// ahead of requests, and file systems read where the data lies.
const NO_DEVICE_SHARE: f64 = 0.05;
const ALL_DEVICE_SHARE: f64 = 0.95;
/// Share of the time on a CPU from which a thread that only moves bytes can hardly be faster.
const BUSY_SHARE: f64 = 0.8;
/// Share of the time on a CPU below which the CPU hardly matters.
const IDLE_SHARE: f64 = 0.5;
/// Share of the time spent waiting for a CPU from which the sentence mentions it.
const QUEUED_SHARE: f64 = 0.1;

/// Work of a thread that read or wrote one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// Kind of the work.
    pub verb: Verb,
    /// Time of all blocks.
    pub elapsed_ns: u64,
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time in which the thread was ready and had no CPU.
    pub queued_ns: u64,
    /// Bytes that the thread moved.
    pub moved_bytes: u64,
    /// Bytes that the block layer fetched for the thread; `None` if the kernel does not report them.
    pub device_bytes: Option<u64>,
}

impl Effort {
    /// Returns the limit of the rate in one sentence, without the name of the file. Returns `None` if nothing was
    /// moved.
    pub fn sentence(&self) -> Option<String> {
        if self.elapsed_ns == 0 || self.moved_bytes == 0 {
            return None;
        }
        let share = |ns: u64| (ns as f64 / self.elapsed_ns as f64).min(1.0);
        let busy = share(self.cpu_ns);
        let queued = share(self.queued_ns).min(1.0 - busy);
        let waited = (1.0 - busy - queued).max(0.0);
        let device_share = self
            .device_bytes
            .filter(|_| self.verb == Verb::Read)
            .map(|bytes| bytes as f64 / self.moved_bytes as f64);
        let is_memory = device_share.is_some_and(|share| share < NO_DEVICE_SHARE);
        let device = match self.verb {
            Verb::Read => "the device",
            Verb::Wrote => "the device to make each chunk durable",
        };
        let mut sentence = if is_memory && busy + queued >= IDLE_SHARE && busy >= queued {
            format!(
                "no device was read: memory answered, as it does for holes and what is cached, and its thread was busy {} \
                 of the time",
                percent(busy)
            )
        } else if is_memory && queued < IDLE_SHARE {
            format!(
                "{} of the time it waited, and the kernel counts no device for it: a server or another program answered",
                percent(waited)
            )
        } else if queued >= IDLE_SHARE {
            return Some(format!(
                "{} of the time it was ready and other programs had the CPU: they set the rate",
                percent(queued)
            ));
        } else if busy >= BUSY_SHARE {
            format!(
                "its thread was busy {} of the time: one CPU, not the device, set the rate",
                percent(busy)
            )
        } else if busy <= IDLE_SHARE {
            format!("{} of the time it waited for {device}", percent(waited))
        } else {
            format!(
                "its thread was busy {} of the time and waited {} for {device}: both set the rate",
                percent(busy),
                percent(waited)
            )
        };
        if queued >= QUEUED_SHARE {
            sentence += &format!("; {} of it, other programs had the CPU", percent(queued));
        }
        if let Some(share) = device_share.filter(|share| (NO_DEVICE_SHARE..ALL_DEVICE_SHARE).contains(share))
        {
            sentence +=
                &format!("; only {} of the bytes came from it, the others from memory", percent(share));
        }
        Some(sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(cpu: u64, queued: u64, device_bytes: Option<u64>, verb: Verb) -> String {
        let effort =
            Effort { verb, elapsed_ns: 1000, cpu_ns: cpu, queued_ns: queued, moved_bytes: 100, device_bytes };
        effort.sentence().unwrap()
    }

    #[test]
    fn each_case_has_its_sentence() {
        for (cpu, queued, device, verb, parts) in [
            (30, 0, Some(100), Verb::Read, &["97 % of the time it waited for the device"][..]),
            (30, 0, None, Verb::Read, &["97 % of the time it waited for the device"]),
            (980, 0, Some(120), Verb::Read, &["busy 98 %", "one CPU, not the device, set the rate"]),
            (650, 0, Some(100), Verb::Read, &["busy 65 %", "waited 35 %", "both set the rate"]),
            (980, 0, Some(0), Verb::Read, &["no device was read: memory answered", "98 %"]),
            (100, 0, Some(4), Verb::Read, &["90 % of the time it waited", "no device", "a server"]),
            (
                100,
                200,
                Some(100),
                Verb::Read,
                &["70 % of the time it waited", "20 % of it, other programs had the CPU"],
            ),
            (100, 0, Some(40), Verb::Read, &["90 %", "only 40 % of the bytes came from it"]),
            (
                100,
                0,
                Some(0),
                Verb::Wrote,
                &["90 % of the time it waited for the device to make each chunk durable"],
            ),
            (
                380,
                500,
                Some(100),
                Verb::Read,
                &["50 % of the time it was ready and other programs", "set the rate"],
            ),
            // The clocks differ a little.
            (1010, 20, Some(100), Verb::Read, &["busy 100 %"]),
        ] {
            let said = said(cpu, queued, device, verb);
            assert!(parts.iter().all(|part| said.contains(part)), "{parts:?}: {said}");
        }
        let nothing = Effort {
            verb: Verb::Read,
            elapsed_ns: 0,
            cpu_ns: 0,
            queued_ns: 0,
            moved_bytes: 0,
            device_bytes: None,
        };
        assert_eq!(nothing.sentence(), None);
    }
}
