//! `/proc/PID/net/tcp` and `tcp6`: the TCP sockets of a network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A connected socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its inode.
    pub inode: u64,
    /// Address of the other end.
    pub remote: IpAddr,
}

/// `TCP_ESTABLISHED`.
const ESTABLISHED: &str = "01";

/// Returns the connected sockets; lines of another form are left out.
pub fn connected(text: &str) -> impl Iterator<Item = TcpSocket> {
    text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let remote = address(fields.nth(2)?.split_once(':')?.0)?;
        fields.next().filter(|state| *state == ESTABLISHED)?;
        Some(TcpSocket { remote, inode: fields.nth(5)?.parse().ok()? })
    })
}

/// Reads an address in words of 32 bits, each in the byte order of this machine.
fn address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words: [[u8; 4]; 4] = [word(0)?, word(1)?, word(2)?, word(3)?];
            let octets: [u8; 16] = words.concat().try_into().ok()?;
            Some(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn connected_sockets_of_both_families_are_read() {
        let text = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100000A:9C40 0200000A:0016 01 00000000:00000000 02:0009 00000000     0        0 12 2 0 20 4 30 10 -1
   2: 0000000000000000FFFF00000100007F:0016 0000000000000000FFFF00000100007F:9C40 01 0:0 0:0 0 0 0 13
";
        let found: Vec<_> = connected(text).map(|socket| (socket.inode, socket.remote.to_string())).collect();
        assert_eq!(found, [(12, "10.0.0.2".to_owned()), (13, "127.0.0.1".to_owned())]);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n){0,200}") {
            connected(&text).count();
        }

        #[test]
        fn any_addresses_parse_without_panic(text in "( ?[0-9A-F]{0,33}:?){0,12}") {
            connected(&text).count();
        }
    }
}
