//! `/proc/self/net/dev`: traffic of each network interface.

use super::number::numbers;

/// Counters of one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface<'a> {
    /// Its name; names that are not UTF-8 are left out.
    pub name: &'a str,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Reads all lines that have a name before a colon and then at least nine numbers.
pub fn interfaces(bytes: &[u8]) -> impl Iterator<Item = Interface<'_>> {
    bytes.split(|byte| *byte == b'\n').filter_map(interface)
}

fn interface(line: &[u8]) -> Option<Interface<'_>> {
    // Numbers may follow the colon without a blank, and the name of an alias has a colon itself.
    let colon = line.iter().rposition(|byte| *byte == b':')?;
    let name = std::str::from_utf8(line[..colon].trim_ascii()).ok().filter(|name| !name.is_empty())?;
    let mut fields = numbers(&line[colon + 1..]);
    let received_bytes = fields.next()?;
    // Seven more receive counters lie between the two.
    Some(Interface { name, received_bytes, sent_bytes: fields.nth(7)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Interface, interfaces};

    #[test]
    fn real_net_dev_parses() {
        let text = b"\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:   12824     117    0    0    0     0          0         0    12824     117    0    0    0     0       0          0
  eth0:146897465    7197    0    0    0     0          0         0   461400    4419    0    0    0     0       0          0
eth0:1:       5       1    0    0    0     0          0         0        6       1    0    0    0     0       0          0
  bad0:       5       1    0    0    0     0          0         0
";
        let found: Vec<_> = interfaces(text).collect();
        let interface = |name, received_bytes, sent_bytes| Interface { name, received_bytes, sent_bytes };
        let expected = [
            interface("lo", 12_824, 12_824),
            interface("eth0", 146_897_465, 461_400),
            interface("eth0:1", 5, 6),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            interfaces(&bytes).count();
        }

        #[test]
        fn any_line_parses_without_panic(text in "[a-z0-9: \n]{0,200}") {
            interfaces(text.as_bytes()).count();
        }
    }
}
