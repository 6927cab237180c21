//! Queueing disciplines of this host that hold back an interface's packets.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use crate::parse::qdisc::{self, Qdisc};

/// Largest datagram in bytes: the kernel fills one page, or 32 KiB for a buffer that large.
const DATAGRAM_BYTES: usize = 32 << 10;

/// The protocol of that name, whose number is zero.
const NETLINK_ROUTE: Option<Protocol> = None;

/// Returns the slowest discipline that all packets from this interface pass, in this thread's network
/// namespace. Returns `None` if there is none, or if the kernel does not answer.
pub(super) fn slowest(interface: &str) -> Option<Qdisc> {
    qdiscs_and_index(interface).ok().and_then(|(all, index)| qdisc::slowest(&all, index).cloned())
}

fn qdiscs_and_index(interface: &str) -> Result<(Vec<Qdisc>, u32), Errno> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, NETLINK_ROUTE)?;
    let index = name_to_index(kernel.as_fd(), interface)?;
    send(kernel.as_fd(), &request(), SendFlags::empty())?;
    let (mut all, mut datagram) = (Vec::new(), vec![0; DATAGRAM_BYTES]);
    loop {
        // The kernel queues the answer before the request returns, so nothing waits here.
        let (bytes, _) = recv(kernel.as_fd(), datagram.as_mut_slice(), RecvFlags::DONTWAIT)?;
        let (found, is_last) = qdisc::parse(&datagram[..bytes]);
        all.extend(found);
        if is_last {
            return Ok((all, index));
        }
    }
}

/// Returns `struct nlmsghdr` and `struct tcmsg`, which request all disciplines of all interfaces.
fn request() -> [u8; 36] {
    /// `RTM_GETQDISC`.
    const GET_QDISC: u16 = 38;
    /// `NLM_F_REQUEST | NLM_F_DUMP`.
    const FLAGS: u16 = 0x301;
    let mut request = [0; 36];
    request[..4].copy_from_slice(&36_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&GET_QDISC.to_ne_bytes());
    request[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    request
}
