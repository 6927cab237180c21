//! Answer of the kernel to a request for the route to an address: an `RTM_NEWROUTE` message, see rtnetlink(7).

use std::net::IpAddr;

use super::netlink::{attribute, message, messages, u32_at};

// `RTM_NEWROUTE` and `RTM_GETROUTE`.
const NEW_ROUTE: u16 = 24;
const GET_ROUTE: u16 = 26;
/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// Bytes of `struct rtmsg`.
const ROUTE_BYTES: usize = 12;
// `RTA_DST` and `RTA_OIF`.
const DESTINATION: u16 = 1;
const INTERFACE: u16 = 4;
// `AF_INET` and `AF_INET6`.
const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// A route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Index of its interface.
    pub interface: u32,
}

/// Returns the request.
pub fn request(address: IpAddr) -> Vec<u8> {
    let (family, bytes) = match address {
        IpAddr::V4(address) => (IPV4, address.octets().to_vec()),
        IpAddr::V6(address) => (IPV6, address.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_BYTES];
    (body[0], body[1]) = (family, 8 * bytes.len() as u8);
    body.extend((4 + bytes.len() as u16).to_ne_bytes());
    body.extend(DESTINATION.to_ne_bytes());
    body.extend(bytes);
    message(GET_ROUTE, REQUEST, &body)
}

/// Parses the answer; `None` if there is no route.
pub fn parse(datagram: &[u8]) -> Option<Route> {
    let (_, body) = messages(datagram).find(|(kind, _)| *kind == NEW_ROUTE)?;
    Some(Route { interface: u32_at(attribute(body.get(ROUTE_BYTES..)?, INTERFACE)?, 0)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn interface_of_a_route_is_read() {
        let attribute = [8_u16.to_ne_bytes(), INTERFACE.to_ne_bytes()].concat();
        let body = [&[0; ROUTE_BYTES][..], &attribute, &7_u32.to_ne_bytes()].concat();
        assert_eq!(parse(&message(NEW_ROUTE, 0, &body)), Some(Route { interface: 7 }));
        assert_eq!(parse(&message(2, 0, &body)), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
            parse(&message(NEW_ROUTE, 0, &bytes));
        }
    }
}
