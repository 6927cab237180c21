//! Bytes that a network interface received and sent.

use std::fs::File;

use model::run::Flow;

use crate::parse::net_dev;
use crate::reading::read_all;
use crate::root::Root;

#[derive(Debug)]
pub(super) struct Line {
    counters: File,
    name: String,
}

impl Line {
    /// Opens the counters of the interfaces in this thread's network namespace.
    pub(super) fn open(root: &Root, name: &str) -> Option<Self> {
        Some(Self { counters: root.open("proc/self/net/dev")?, name: name.to_owned() })
    }

    pub(super) fn read(&self, now: &mut Flow, buffer: &mut Vec<u8>) {
        let Some(text) = read_all(Some(&self.counters), buffer) else { return };
        if let Some(found) = net_dev::interfaces(text).find(|found| found.name == self.name) {
            (now.read_bytes, now.written_bytes) = (found.received_bytes, found.sent_bytes);
        }
    }
}
