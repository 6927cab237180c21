//! Limits of groups of processes, as words.

use model::size;

use super::{bytes, number, parse_time, time};

/// The kernel counts memory in pages: a limit below one page would be a limit of nothing.
const PAGE_BYTES: u64 = 4096;

/// A group of processes with a limited amount of CPU time.
#[derive(Debug, Clone, PartialEq)]
pub struct QuotaSpec {
    /// CPUs' worth of time: 0.2 is a fifth of one.
    pub cpus: f64,
    /// Period in which the allowed time is given out once. A process that has used it up waits for the next period.
    pub period_us: u64,
}

impl QuotaSpec {
    /// Sets the period in which time is given out.
    #[must_use]
    pub fn period_ms(mut self, period_ms: u64) -> Self {
        self.period_us = period_ms * 1000;
        self
    }

    /// CPU time that is given out in a period.
    pub fn quota_us(&self) -> u64 {
        (self.cpus * self.period_us as f64).round() as u64
    }

    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "cpus" => {
                let cpus: f64 = number(value)?;
                // A larger number than the kernel can count would be no limit, and zero or less is no amount.
                if !(cpus > 0.0 && cpus <= 1e6) {
                    return Err(format!("`{value}` is not a number of CPUs"));
                }
                self.cpus = cpus;
            }
            "period" => self.period_us = parse_time(value)? / 1000,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Self { cpus, period_us } = self;
        vec![format!("cpus={cpus}"), format!("period={}", time(period_us * 1000))]
    }
}

/// A group of processes with a limited amount of memory, the page cache included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemorySpec {
    /// Memory that all of them together may have.
    pub limit_bytes: u64,
}

impl MemorySpec {
    pub(super) fn put(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "limit" => {
                let limit_bytes = bytes(value)?;
                if limit_bytes < PAGE_BYTES {
                    return Err(format!("`{value}` is less than a page of memory"));
                }
                self.limit_bytes = limit_bytes;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn words(&self) -> Vec<String> {
        let Self { limit_bytes } = self;
        vec![format!("limit={}", size::exact(*limit_bytes))]
    }
}
