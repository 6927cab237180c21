//! A compressed memory device of our own.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::{fs, io};

const CONTROL: &str = "/sys/class/zram-control";

/// A device, which goes with its owner.
#[derive(Debug)]
pub struct Zram {
    number: String,
}

impl Zram {
    /// Makes one of that size.
    ///
    /// # Errors
    /// Only root may, and where the module is loaded.
    pub fn new(size_bytes: u64) -> io::Result<Self> {
        // Reading makes a device and yields its number.
        let number = fs::read_to_string(format!("{CONTROL}/hot_add"))?;
        let device = Self { number: number.trim().to_owned() };
        fs::write(device.attribute("disksize"), size_bytes.to_string())?;
        Ok(device)
    }

    /// The device: "/dev/zram1".
    pub fn path(&self) -> String {
        format!("/dev/zram{}", self.number)
    }

    /// The file of an attribute, such as `mm_stat`.
    pub fn attribute(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/sys/block/zram{}/{name}", self.number))
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // Whoever looks at new devices may hold it open for a moment.
        for _ in 0..50 {
            let reset = fs::write(self.attribute("reset"), "1");
            let removed = reset.and_then(|()| fs::write(format!("{CONTROL}/hot_remove"), &self.number));
            if removed.is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        eprintln!("zram{} is in use and was left to its users", self.number);
    }
}
