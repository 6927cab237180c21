//! Asks the device mapper of which parts a mapping consists.

use rustix::ioctl::{self, Opcode, Updater, opcode};

use crate::parse::mapping_status::{HEAD_BYTES, MappedPart, parse, write_request};
use crate::root::Root;

/// `DM_TABLE_STATUS`. Without the flag for tables it returns states only, and no encryption keys.
const TABLE_STATUS: Opcode = opcode::read_write::<[u8; HEAD_BYTES]>(0xfd, 12);
/// Buffer size: enough for a mapping of a hundred parts.
const ANSWER_BYTES: usize = 16 << 10;

/// Returns the parts of the mapping with these numbers. Empty for users without permission, and for a machine that is a
/// tree of files.
pub(crate) fn mapped_parts(root: &Root, major: u32, minor: u32) -> Vec<MappedPart> {
    let control = Some(root).filter(|root| root.is_system()).and_then(|root| root.open("dev/mapper/control"));
    let Some(control) = control else { return Vec::new() };
    let mut buffer = [0; ANSWER_BYTES];
    write_request(&mut buffer, major, minor);
    // SAFETY: the kernel reads and writes at most as many bytes as the request says, and `write_request` wrote the size
    // of the buffer there. Any bytes are a valid array of bytes.
    let result = unsafe { ioctl::ioctl(control, Updater::<TABLE_STATUS, _>::new(&mut buffer)) };
    if result.is_ok() { parse(&buffer) } else { Vec::new() }
}
