//! Time for which I/O, memory and CPU held up tasks of the whole machine.

use std::fs::File;

use model::run::Pressures;

use crate::parse::pressure;
use crate::reading::read_start;
use crate::root::Root;

const FILES: [&str; 3] = ["proc/pressure/io", "proc/pressure/memory", "proc/pressure/cpu"];
const BUFFER_BYTES: usize = 512;
const NS_PER_US: f64 = 1e3;

#[derive(Debug)]
pub(super) struct Stalls {
    files: [Option<File>; 3],
    before: Option<[u64; 3]>,
    sum_us: Option<[u64; 3]>,
}

impl Stalls {
    pub fn open(root: &Root, hidden: &mut Vec<String>) -> Self {
        let stalls = Self { files: FILES.map(|path| root.open(path)), before: None, sum_us: None };
        // If a boot option switched counting off, the files exist but cannot be read.
        if stalls.now().is_none() {
            hidden.push(
                "/proc/pressure/*: how long tasks of the machine stalled on I/O, memory and CPU".to_owned(),
            );
        }
        stalls
    }

    fn now(&self) -> Option<[u64; 3]> {
        let total_us = |file: &Option<File>| {
            let mut buffer = [0; BUFFER_BYTES];
            let text = std::str::from_utf8(read_start(file.as_ref(), &mut buffer)?).ok()?;
            Some(pressure::parse(text)?.total_us)
        };
        let [io, memory, cpu] = &self.files;
        Some([total_us(io)?, total_us(memory)?, total_us(cpu)?])
    }

    pub fn begin(&mut self) {
        self.before = self.now();
    }

    pub fn end(&mut self) {
        if let Some((before, now)) = self.before.take().zip(self.now()) {
            let sum_us = self.sum_us.get_or_insert_default();
            for ((sum, before), now) in sum_us.iter_mut().zip(before).zip(now) {
                *sum += now.saturating_sub(before);
            }
        }
    }

    pub fn take(&mut self, measured_ns: u64) -> Option<Pressures> {
        let sum_us = self.sum_us.take().filter(|_| measured_ns > 0)?;
        let [io, memory, cpu] = sum_us.map(|us| (us as f64 * NS_PER_US / measured_ns as f64).min(1.0));
        Some(Pressures { io, memory, cpu })
    }
}
