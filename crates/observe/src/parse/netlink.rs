//! Messages of the kernel on netlink sockets.

use std::iter;

/// Bytes of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `NLMSG_ERROR` and `NLMSG_DONE`: no message follows.
pub(crate) const LAST: [u16; 2] = [2, 3];

/// Returns a message with its header.
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = (HEADER_BYTES + body.len()) as u32;
    let mut message = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &flags.to_ne_bytes()].concat();
    message.resize(HEADER_BYTES, 0);
    message.extend(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// Returns the messages of a datagram: the type of each, and the bytes after its header.
pub(crate) fn messages(datagram: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = datagram;
    iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let body = rest.get(HEADER_BYTES..length)?;
        let kind = u16_at(rest, 4)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

/// Parses the messages of one type in a datagram; the flag is true for the last datagram.
pub(crate) fn entries<T>(datagram: &[u8], wanted: u16, parse: impl Fn(&[u8]) -> Option<T>) -> (Vec<T>, bool) {
    let mut entries = Vec::new();
    for (kind, body) in messages(datagram) {
        if LAST.contains(&kind) {
            return (entries, true);
        }
        entries.extend((kind == wanted).then(|| parse(body)).flatten());
    }
    (entries, false)
}

/// Returns attributes (`struct nlattr`): the type and the value of each.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// `NLA_TYPE_MASK`: two more bits describe the encoding of the value.
    const TYPE: u16 = 0x3fff;
    let mut rest = bytes;
    iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..length)?;
        let kind = u16_at(rest, 2)? & TYPE;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Returns the value of the first attribute of this type.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|chunk| u16::from_ne_bytes(*chunk))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}
