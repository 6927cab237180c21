//! Units of numbers, from the words of their keys.

/// Words of a key and the unit that they mean; the first that a key has counts.
const UNITS: &[(&str, &str)] = &[
    ("bytes_per_second", "bytes/s"),
    ("bits_per_second", "bits/s"),
    ("gib_per_second", "GiB/s"),
    ("per_second", "1/s"),
    ("ns_per_op", "ns"),
    ("per_app_byte", ""),
    ("kiops", "1000/s"),
    ("bytes", "bytes"),
    ("percent", "%"),
    ("share", "share"),
    ("half_width", "share"),
    ("celsius", "°C"),
    ("ns", "ns"),
];

/// Returns the unit of the number at a path such as `phases[].latency_ns.p99`; empty for counts and plain numbers. A number
/// in `latency_ns` is in nanoseconds, although its key has no unit.
pub fn unit(path: &str) -> &'static str {
    let of = |key: &str| {
        let key = format!("_{}_", key.trim_end_matches("[]"));
        UNITS.iter().find(|(words, _)| key.contains(&format!("_{words}_"))).map(|(_, unit)| *unit)
    };
    let mut keys = path.rsplit('.');
    let own = keys.next();
    let is_latency = own != Some("count") && keys.any(|key| key.trim_end_matches("[]").ends_with("_ns"));
    own.and_then(of).unwrap_or(if is_latency { "ns" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_from_words_of_keys() {
        let of =
            ["a.latency_ns.p99", "a.app_bytes_read", "a.ci95_low_ops_per_second", "threads", "x[].busy_ns[]"];
        assert_eq!(of.map(unit), ["ns", "bytes", "1/s", "", "ns"]);
    }
}
