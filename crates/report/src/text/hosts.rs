//! The clients of a run, one by one.

use model::numbers::{amount, latency, rank};
use model::run::{ClientShare, PhaseRecord};
use model::workload::Access;

use super::style::Style;
use super::wrap::hanging;
use crate::printable;

/// Most lines of clients in all tests.
const LINES_MAX: usize = 20;
/// Columns of a client's name, its rate and its latency.
const NAME_WIDTH: usize = 16;
const RATE_WIDTH: usize = 12;
const LATENCY_WIDTH: usize = 9;

/// Lists the rate, the p99 and the limiter of each client, by tests; empty in a run without clients. Of many clients, each
/// test lists its slowest.
pub(super) fn each(phases: &[PhaseRecord], style: &Style) -> String {
    let tests: Vec<_> = phases.iter().filter(|phase| !phase.hosts.is_empty()).collect();
    let has_all = tests.iter().map(|phase| phase.hosts.len()).sum::<usize>() <= LINES_MAX;
    let clients_max = if has_all { LINES_MAX } else { (LINES_MAX / tests.len()).max(1) };
    let mut blocks: Vec<_> =
        tests.iter().take(LINES_MAX).map(|phase| row_lines(phase, clients_max)).collect();
    if !has_all {
        blocks.push(hanging("  ", wording::SLOWEST_CLIENTS, style));
    }
    style.finish(blocks.join("\n"))
}

fn row_lines(phase: &PhaseRecord, clients_max: usize) -> String {
    let by_bytes = phase.workload.pattern == Some(Access::Sequential);
    let mut shares: Vec<_> = phase.hosts.iter().collect();
    if shares.len() > clients_max {
        // A client without a rate is the slowest.
        let rate = |share: &&ClientShare| share.rate.ops_per_second.unwrap_or(0.0);
        shares.sort_by_cached_key(|share| rank(rate(share)));
        shares.truncate(clients_max);
    }
    let mut lines = vec![format!("  {} {}", phase.name, printable(&phase.label))];
    lines.extend(shares.into_iter().map(|share| client_line(share, by_bytes)));
    lines.join("\n")
}

fn client_line(share: &ClientShare, by_bytes: bool) -> String {
    let megabytes =
        || share.rate.bytes_per_second.and_then(|rate| Some(format!("{} MB/s", amount(rate / 1e6)?)));
    let ops = || share.rate.ops_per_second.and_then(|rate| Some(format!("{}/s", amount(rate)?)));
    let rate = if by_bytes { megabytes() } else { ops() };
    let p99 = share.latency_ns.as_ref().and_then(|of| of.p99).map(latency);
    let limiter = share.judged.verdict.as_ref().and_then(|verdict| verdict.limiter);
    format!(
        "    {:<NAME_WIDTH$}{:>RATE_WIDTH$}  p99 {:>LATENCY_WIDTH$}  {}",
        printable(&share.name),
        rate.unwrap_or_else(|| "–".into()),
        p99.unwrap_or_else(|| "–".into()),
        limiter.map_or("not known", |limiter| limiter.title()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn each_client_has_a_line() {
        let mut sum = sample::phase("read:rnd4k:q32");
        sum.hosts = vec![sample::client("ada", &sum), sample::client("b\u{1b}b", &sum)];
        sum.hosts[1].rate.ops_per_second = None;
        sum.hosts[1].judged.verdict = None;
        insta::assert_snapshot!(sample::plain(&each(&[sample::phase("read"), sum], &sample::WIDE)));
    }

    fn test_of(clients: usize) -> PhaseRecord {
        let mut sum = sample::phase("read:rnd4k:q32");
        for number in 0..clients {
            let mut share = sample::client(&format!("n{number:02}"), &sum);
            share.rate.ops_per_second = (number != 7).then_some(1000.0 - number as f64);
            sum.hosts.push(share);
        }
        sum
    }

    #[test]
    fn slowest_of_many_clients_have_lines() {
        insta::assert_snapshot!(sample::plain(&each(&[test_of(12), test_of(3), test_of(12)], &sample::WIDE)));
    }

    #[test]
    fn client_lines_never_exceed_their_maximum() {
        for (tests, clients, lines_expected) in
            [(1, 20, 20), (1, 21, 20), (3, 100, 18), (20, 2, 20), (40, 1, 20)]
        {
            let text = sample::plain(&each(&vec![test_of(clients); tests], &sample::WIDE));
            assert_eq!(text.lines().filter(|line| line.contains("p99")).count(), lines_expected, "{text}");
            assert_eq!(text.contains("--json"), tests * clients > 20, "{text}");
        }
    }
}
