//! Questions to the kernel on netlink sockets.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::parse::qdisc::{self, Qdisc};
use crate::parse::route::{self, Route};
use crate::parse::tcp_sockets::{self, TcpSocket};
use crate::parse::unix_sockets::{self, Pair};

/// Largest datagram in bytes: the kernel fills one page, or 32 KiB for a buffer that large.
const DATAGRAM_BYTES: usize = 32 << 10;
/// The protocol of routes, interfaces and disciplines, whose number is zero.
const ROUTE: Option<Protocol> = None;

/// Sends a request, and shows each datagram of the answer to `each`, which returns true for the last one.
fn ask(protocol: Option<Protocol>, request: &[u8], mut each: impl FnMut(&[u8]) -> bool) -> Result<(), Errno> {
    let kernel = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
    send(kernel.as_fd(), request, SendFlags::empty())?;
    let mut datagram = vec![0; DATAGRAM_BYTES];
    loop {
        // The kernel queues the answer before the request returns, so nothing waits here.
        let (bytes, _) = recv(kernel.as_fd(), datagram.as_mut_slice(), RecvFlags::DONTWAIT)?;
        if each(&datagram[..bytes]) {
            return Ok(());
        }
    }
}

/// Returns the slowest discipline that all packets from this interface pass, in this thread's network
/// namespace. Returns `None` if there is none, or if the kernel does not answer.
pub(crate) fn slowest_qdisc(interface: &str) -> Option<Qdisc> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    let index = name_to_index(socket.as_fd(), interface).ok()?;
    let mut all = Vec::new();
    ask(ROUTE, &qdisc::request(), |datagram| {
        let (found, is_last) = qdisc::parse(datagram);
        all.extend(found);
        is_last
    })
    .ok()?;
    qdisc::slowest(&all, index).cloned()
}

/// Returns the interface through which packets reach an address, in this thread's network namespace.
pub(crate) fn interface_to(address: std::net::IpAddr) -> Option<String> {
    let mut found = None;
    ask(ROUTE, &route::request(address), |datagram| {
        found = route::parse(datagram);
        true
    })
    .ok()?;
    let Route { interface } = found?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
    index_to_name(socket.as_fd(), interface).ok()
}

/// Returns the connected TCP sockets of this thread's network namespace.
pub(crate) fn tcp_sockets() -> Vec<TcpSocket> {
    let mut sockets = Vec::new();
    for family in tcp_sockets::FAMILIES {
        let _ = ask(Some(netlink::SOCK_DIAG), &tcp_sockets::request(family), |datagram| {
            let (found, is_last) = tcp_sockets::parse(datagram);
            sockets.extend(found);
            is_last
        });
    }
    sockets
}

/// Returns the pairs of Unix sockets of which neither has a name, in this thread's network namespace. A connection to a
/// server has a name at the other end.
pub(crate) fn unix_pairs() -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::new();
    let _ = ask(Some(netlink::SOCK_DIAG), &unix_sockets::request(), |datagram| {
        let (found, is_last) = unix_sockets::parse(datagram);
        pairs.extend(found);
        is_last
    });
    let all: BTreeSet<_> = pairs.iter().map(|pair| (pair.inode, pair.peer)).collect();
    pairs.retain(|pair| all.contains(&(pair.peer, pair.inode)));
    pairs
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::{interface_to, tcp_sockets, unix_pairs};

    #[test]
    fn loopback_address_is_reached_through_lo() {
        assert_eq!(interface_to(IpAddr::V4(Ipv4Addr::LOCALHOST)).as_deref(), Some("lo"));
    }

    #[test]
    fn tcp_connection_has_its_inode_and_round_trip() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let _accepted = server.accept().unwrap();
        let file = std::fs::File::from(std::os::fd::OwnedFd::from(client));
        let inode = file.metadata().unwrap().ino();
        let found = tcp_sockets().into_iter().find(|socket| u64::from(socket.inode) == inode).unwrap();
        assert_eq!(found.remote, IpAddr::V4(Ipv4Addr::LOCALHOST));
        assert!(found.round_trip_ns.is_some());
    }

    #[test]
    fn both_ends_of_a_socket_pair_are_found() {
        let (one, other) = UnixStream::pair().unwrap();
        let inode = |stream: &UnixStream| {
            let file = std::fs::File::from(std::os::fd::OwnedFd::from(stream.try_clone().unwrap()));
            file.metadata().unwrap().ino()
        };
        let ends = (inode(&one), inode(&other));
        let path = tempfile::tempdir().unwrap();
        let server = std::os::unix::net::UnixListener::bind(path.path().join("server")).unwrap();
        let client = UnixStream::connect(path.path().join("server")).unwrap();
        let _accepted = server.accept().unwrap();
        let pairs = unix_pairs();
        assert!(pairs.iter().all(|pair| u64::from(pair.inode) != inode(&client)));
        for (inode, peer) in [ends, (ends.1, ends.0)] {
            assert!(pairs.iter().any(|pair| (u64::from(pair.inode), u64::from(pair.peer)) == (inode, peer)));
        }
    }
}
