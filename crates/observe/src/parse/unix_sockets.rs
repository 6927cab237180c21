//! Answer of the kernel to a request for all Unix sockets: `struct unix_diag_msg`, see sock_diag(7).

use super::netlink::{attribute, entries, message, u32_at};

/// `SOCK_DIAG_BY_FAMILY`, of the request and of the answers.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const FLAGS: u16 = 0x301;
/// `AF_UNIX`.
const UNIX: u8 = 1;
/// `UDIAG_SHOW_NAME | UDIAG_SHOW_PEER`.
const SHOW: u32 = 5;
/// Bytes of `struct unix_diag_msg`.
const SOCKET_BYTES: usize = 16;
// `UNIX_DIAG_NAME` and `UNIX_DIAG_PEER`.
const NAME: u16 = 0;
const PEER: u16 = 2;

/// A socket without a name, and the one that it is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Inode of the socket.
    pub inode: u32,
    /// Inode of the other.
    pub peer: u32,
}

/// Returns the request: `struct unix_diag_req` for sockets in all states.
pub fn request() -> Vec<u8> {
    let [states, inode, show, cookie] = [u32::MAX, 0, SHOW, u32::MAX].map(u32::to_ne_bytes);
    message(BY_FAMILY, FLAGS, &[[UNIX, 0, 0, 0], states, inode, show, cookie, cookie].concat())
}

/// Parses the sockets in one datagram; the flag is true for the last datagram.
pub fn parse(datagram: &[u8]) -> (Vec<Pair>, bool) {
    entries(datagram, BY_FAMILY, pair)
}

fn pair(body: &[u8]) -> Option<Pair> {
    let (fixed, attributes) = body.split_at_checked(SOCKET_BYTES)?;
    let peer = u32_at(attribute(attributes, PEER)?, 0)?;
    attribute(attributes, NAME).is_none().then_some(Pair { inode: u32_at(fixed, 4)?, peer })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::netlink::LAST;

    #[test]
    fn named_sockets_are_left_out() {
        let attribute = |kind: u16, value: u32| {
            [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value.to_ne_bytes()].concat()
        };
        let socket = |inode: u32, attributes: &[Vec<u8>]| {
            let fixed = [0, inode, 0, 0].map(u32::to_ne_bytes).concat();
            message(BY_FAMILY, 0, &[fixed, attributes.concat()].concat())
        };
        let datagram = [
            socket(5, &[attribute(PEER, 6)]),
            socket(7, &[attribute(NAME, 1), attribute(PEER, 8)]),
            socket(9, &[]),
        ];
        assert_eq!(parse(&datagram.concat()), (vec![Pair { inode: 5, peer: 6 }], false));
        assert_eq!(parse(&message(LAST[1], 0, &[0; 4])), (Vec::new(), true));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse(&bytes);
            parse(&message(BY_FAMILY, 0, &bytes));
        }
    }
}
