//! Answers of the kernel to a request for the queueing disciplines of all interfaces: `RTM_NEWQDISC` messages, see
//! rtnetlink(7), `linux/netlink.h` and `linux/pkt_sched.h`.

use std::iter;

use super::netlink::{attribute, entries, message, u32_at, u64_at};

// `RTM_NEWQDISC` and `RTM_GETQDISC`.
const NEW_QDISC: u16 = 36;
const GET_QDISC: u16 = 38;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const FLAGS: u16 = 0x301;
/// Bytes of `struct tcmsg`.
const TC_BYTES: usize = 20;
/// Bytes of `struct tc_netem_qopt`; netem's attributes follow it.
const NETEM_BYTES: usize = 24;
// `TCA_KIND` and `TCA_OPTIONS`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `TC_H_ROOT`.
const ROOT: u32 = u32::MAX;
/// `TC_H_MAJ_MASK`: the half of a parent's handle with the discipline; the other half is a class of it.
const MAJOR: u32 = 0xffff_0000;
/// Largest number of stacked disciplines that is followed.
const STACKED_MAX: usize = 8;

/// A queueing discipline of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// Index of the interface.
    pub interface: u32,
    handle: u32,
    parent: u32,
    /// Kind, such as "tbf".
    pub kind: String,
    /// Bytes per second that it lets pass; `None` if it has no limit, or for a kind that is unknown here.
    pub bytes_per_second: Option<u64>,
}

/// Returns the request for all disciplines of all interfaces.
pub fn request() -> Vec<u8> {
    message(GET_QDISC, FLAGS, &[0; TC_BYTES])
}

/// Parses the disciplines in one datagram; the flag is true for the last datagram.
pub fn parse(datagram: &[u8]) -> (Vec<Qdisc>, bool) {
    entries(datagram, NEW_QDISC, qdisc)
}

/// Returns the slowest discipline that every packet of an interface passes. Every packet passes the root, and
/// each discipline that alone lies below another.
pub fn slowest(all: &[Qdisc], interface: u32) -> Option<&Qdisc> {
    let of_it: Vec<_> = all.iter().filter(|qdisc| qdisc.interface == interface).collect();
    let below = |upper: &Qdisc| {
        // A discipline with classes sends each packet to one of several.
        let is_whole = ["tbf", "netem"].contains(&upper.kind.as_str());
        let is_child = |qdisc: &&&Qdisc| is_whole && qdisc.parent & MAJOR == upper.handle;
        of_it.iter().find(is_child).copied()
    };
    let root = of_it.iter().find(|qdisc| qdisc.parent == ROOT).copied();
    let chain = iter::successors(root, |upper| below(upper)).take(STACKED_MAX);
    chain.filter(|qdisc| qdisc.bytes_per_second.is_some()).min_by_key(|qdisc| qdisc.bytes_per_second)
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let (fixed, rest) = body.split_at_checked(TC_BYTES)?;
    let kind = attribute(rest, KIND)?;
    let kind = std::str::from_utf8(kind.strip_suffix(&[0]).unwrap_or(kind)).ok()?;
    Some(Qdisc {
        interface: u32_at(fixed, 4)?,
        handle: u32_at(fixed, 8)?,
        parent: u32_at(fixed, 12)?,
        kind: kind.to_owned(),
        bytes_per_second: attribute(rest, OPTIONS).and_then(|options| rate(kind, options)),
    })
}

/// Reads a rate. A rate of more than 32 bits has a separate attribute; the other attribute is then all ones.
fn rate(kind: &str, options: &[u8]) -> Option<u64> {
    let wide = |bytes, kind| attribute(bytes, kind).and_then(|value| u64_at(value, 0));
    let narrow = |bytes, kind, at| attribute(bytes, kind).and_then(|value| u32_at(value, at)).map(u64::from);
    let found = match kind {
        // `TCA_TBF_RATE64`; `TCA_TBF_PARMS`, whose `struct tc_ratespec` ends in the rate.
        "tbf" => wide(options, 4).or_else(|| narrow(options, 1, 8)),
        // `TCA_NETEM_RATE64`; `TCA_NETEM_RATE`, which begins with the rate.
        "netem" => {
            let options = options.get(NETEM_BYTES..)?;
            wide(options, 8).or_else(|| narrow(options, 6, 0))
        }
        // `TCA_CAKE_BASE_RATE64`.
        "cake" => wide(options, 2),
        _ => None,
    };
    found.filter(|rate| *rate > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parse::netlink::LAST;

    fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len() + 4).unwrap();
        padded([&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat())
    }

    fn qdisc_of(interface: u32, handle: u32, parent: u32, kind: &str, options: &[u8]) -> Vec<u8> {
        let numbers = [0, interface, handle, parent, 0].map(u32::to_ne_bytes).concat();
        let name = [kind.as_bytes(), &[0]].concat();
        message(NEW_QDISC, 0, &[numbers, attribute_of(KIND, &name), attribute_of(OPTIONS, options)].concat())
    }

    fn tbf(rate: u32) -> Vec<u8> {
        attribute_of(1, &[&[0; 8][..], &rate.to_ne_bytes(), &[0; 24]].concat())
    }

    #[test]
    fn rates_of_each_kind_are_read() {
        let wide = [tbf(u32::MAX), attribute_of(4, &5_000_000_000_u64.to_ne_bytes())].concat();
        let netem = [&[0; NETEM_BYTES][..], &attribute_of(6, &[&7_u32.to_ne_bytes()[..], &[0; 12]].concat())]
            .concat();
        let datagram = [
            qdisc_of(1, 0, ROOT, "noqueue", &[]),
            qdisc_of(2, 0x1_0000, ROOT, "tbf", &tbf(50_000_000)),
            qdisc_of(3, 0x1_0000, ROOT, "tbf", &wide),
            qdisc_of(4, 0x1_0000, ROOT, "netem", &netem),
            qdisc_of(5, 0x1_0000, ROOT, "cake", &attribute_of(2, &9_u64.to_ne_bytes())),
            qdisc_of(6, 0x1_0000, ROOT, "cake", &attribute_of(2, &0_u64.to_ne_bytes())),
            message(LAST[1], 0, &[0; 4]),
        ]
        .concat();
        let (all, is_last) = parse(&datagram);
        assert!(is_last);
        let rates: Vec<_> = all.iter().map(|qdisc| qdisc.bytes_per_second).collect();
        let known = [Some(50_000_000), Some(5_000_000_000), Some(7), Some(9)];
        assert_eq!(rates, [&[None][..], &known, &[None]].concat());
        assert_eq!(slowest(&all, 2).unwrap().kind, "tbf");
        assert_eq!(slowest(&all, 1), None);
        assert_eq!(slowest(&all, 9), None);
    }

    #[test]
    fn qdisc_rate_counts_unless_only_for_class() {
        let delay = [0; NETEM_BYTES];
        let (below, _) = parse(
            &[
                qdisc_of(2, 0x1_0000, ROOT, "netem", &delay),
                qdisc_of(2, 0xa_0000, 0x1_0001, "tbf", &tbf(100)),
                qdisc_of(3, 0x1_0000, ROOT, "prio", &[]),
                qdisc_of(3, 0xa_0000, 0x1_0001, "tbf", &tbf(100)),
            ]
            .concat(),
        );
        assert_eq!(slowest(&below, 2).unwrap().bytes_per_second, Some(100));
        assert_eq!(slowest(&below, 3), None);
    }

    proptest! {
        #[test]
        fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), kind in 0u16..10) {
            let (all, _) = parse(&bytes);
            let _ = slowest(&all, 1);
            let (all, _) = parse(&qdisc_of(1, 0, ROOT, ["tbf", "netem", "cake"][usize::from(kind % 3)], &bytes));
            let _ = slowest(&all, 1);
            let _ = parse(&message(kind, 0, &bytes));
        }
    }
}
