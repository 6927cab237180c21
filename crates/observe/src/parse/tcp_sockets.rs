//! Answer of the kernel to a request for TCP sockets: `struct inet_diag_msg` with `struct tcp_info`, see sock_diag(7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netlink::{attribute, entries, message, u32_at};

/// `SOCK_DIAG_BY_FAMILY`, of the request and of the answers.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const FLAGS: u16 = 0x301;
// `AF_INET` and `AF_INET6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// Both families of addresses.
pub const FAMILIES: [u8; 2] = [IPV4, IPV6];
/// `IPPROTO_TCP`.
const TCP: u8 = 6;
/// `TCP_ESTABLISHED`, as a bit.
const ESTABLISHED: u32 = 1 << 1;
/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
const INFO: u16 = 2;
/// Bytes of `struct inet_diag_sockid`: ports, addresses, interface and cookie of a socket.
const SOCKET_ID_BYTES: usize = 48;
/// Bytes of `struct inet_diag_msg`.
const SOCKET_BYTES: usize = 72;
/// Place of the address of the other end in it.
const REMOTE: usize = 24;
/// Place of the inode in it.
const INODE: usize = 68;
/// Place of `tcpi_min_rtt` in `struct tcp_info`.
const MIN_RTT: usize = 148;

/// A connected socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its inode; zero for a socket of the kernel.
    pub inode: u32,
    /// Address of the other end.
    pub remote: IpAddr,
    /// Shortest round trip of the last minutes; `None` if none was measured.
    pub round_trip_ns: Option<u64>,
}

/// Returns the request for the connected sockets of one family: `struct inet_diag_req_v2`.
pub fn request(family: u8) -> Vec<u8> {
    let show = 1 << (INFO - 1);
    let mut body = [&[family, TCP, show, 0][..], &ESTABLISHED.to_ne_bytes()].concat();
    body.resize(body.len() + SOCKET_ID_BYTES, 0);
    message(BY_FAMILY, FLAGS, &body)
}

/// Parses the sockets in one datagram; the flag is true for the last datagram.
pub fn parse(datagram: &[u8]) -> (Vec<TcpSocket>, bool) {
    entries(datagram, BY_FAMILY, socket)
}

fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (fixed, attributes) = body.split_at_checked(SOCKET_BYTES)?;
    let address: [u8; 16] = *fixed[REMOTE..].first_chunk()?;
    let remote = match (fixed[0], address) {
        (IPV4, [a, b, c, d, ..]) => Ipv4Addr::new(a, b, c, d).into(),
        (IPV6, octets) => IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(),
        _ => return None,
    };
    // The kernel has all bits set until it has measured one.
    let round_trip_us = attribute(attributes, INFO).and_then(|info| u32_at(info, MIN_RTT));
    let round_trip_us = round_trip_us.filter(|time_us| ![0, u32::MAX].contains(time_us));
    let round_trip_ns = round_trip_us.map(|time_us| u64::from(time_us) * 1000);
    Some(TcpSocket { inode: u32_at(fixed, INODE)?, remote, round_trip_ns })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message_of(family: u8, remote: &[u8], min_rtt_us: u32) -> Vec<u8> {
        let mut fixed = [0; SOCKET_BYTES];
        fixed[0] = family;
        fixed[REMOTE..REMOTE + remote.len()].copy_from_slice(remote);
        fixed[INODE..].copy_from_slice(&12_u32.to_ne_bytes());
        let mut info = vec![0; MIN_RTT];
        info.extend(min_rtt_us.to_ne_bytes());
        let length = 4 + info.len() as u16;
        let body = [&fixed[..], &length.to_ne_bytes(), &INFO.to_ne_bytes(), &info].concat();
        message(BY_FAMILY, 0, &body)
    }

    #[test]
    fn connected_sockets_of_both_families_are_read() {
        let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets();
        let datagram = [message_of(IPV4, &[10, 0, 0, 2], 20_100), message_of(IPV6, &mapped, u32::MAX)];
        let socket = |remote: [u8; 4], round_trip_ns| TcpSocket {
            inode: 12,
            remote: Ipv4Addr::from(remote).into(),
            round_trip_ns,
        };
        let expected = vec![socket([10, 0, 0, 2], Some(20_100_000)), socket([127, 0, 0, 1], None)];
        assert_eq!(parse(&datagram.concat()), (expected, false));
        assert_eq!(parse(&message_of(1, &[], 1)).0, []);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
            parse(&message(BY_FAMILY, 0, &bytes));
        }
    }
}
