//! Difference between two monotonic clocks, from round trips of a question and its answer.
//!
//! A question leaves at `sent`, the other clock shows `there`, and the answer is back at `back`. The difference then
//! lies between `there - back` and `there - sent`. The round trips with the shortest time say most (Cristian, 1989), and
//! the difference lies where all of them agree (Marzullo, 1984).

use model::run::ClockRecord;

/// Round trips of a measurement.
pub const ROUND_TRIPS: u32 = 32;
/// Round trips of a measurement between tests.
pub const ROUND_TRIPS_BETWEEN_TESTS: u32 = 8;
/// One in this many round trips is used: those with the shortest time.
const SHORTEST_ONE_IN: usize = 4;

/// One question and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Time at which the question left, on the own clock.
    pub sent_ns: u64,
    /// Time of the answer, on the other clock.
    pub remote_ns: u64,
    /// Time at which the answer was back, on the own clock.
    pub received_ns: u64,
}

impl RoundTrip {
    fn length_ns(&self) -> u64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }

    /// Returns the least and the largest difference that it allows.
    fn ends(&self) -> (i64, i64) {
        let less = |own_ns: u64| (i128::from(self.remote_ns) - i128::from(own_ns)) as i64;
        (less(self.received_ns), less(self.sent_ns))
    }
}

/// Returns the other clock less the own one; `None` without round trips.
pub fn offset(round_trips: &[RoundTrip]) -> Option<ClockRecord> {
    let mut round_trips = round_trips.to_vec();
    round_trips.sort_by_cached_key(RoundTrip::length_ns);
    let round_trip_ns = round_trips.first()?.length_ns();
    round_trips.truncate(round_trips.len().div_ceil(SHORTEST_ONE_IN));
    let (mut low, mut high) = round_trips.first()?.ends();
    for trip in &round_trips[1..] {
        let (least, largest) = trip.ends();
        // A clock that ran at another rate meanwhile leaves nothing in common. Then the shortest alone counts.
        if low.max(least) <= high.min(largest) {
            (low, high) = (low.max(least), high.min(largest));
        }
    }
    let offset_ns = low.midpoint(high);
    Some(ClockRecord { offset_ns, bound_ns: high.abs_diff(low).div_ceil(2), round_trip_ns, drift_ns: None })
}

/// Returns an instant of the own clock on the other one.
pub fn to_remote_ns(own_ns: u64, clock: &ClockRecord) -> u64 {
    own_ns.saturating_add_signed(clock.offset_ns)
}

/// Returns an instant of the other clock on the own one.
pub fn to_own_ns(remote_ns: u64, clock: &ClockRecord) -> u64 {
    (i128::from(remote_ns) - i128::from(clock.offset_ns)).clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trip(sent_ns: u64, offset_ns: i64, there_after_ns: u64, back_after_ns: u64) -> RoundTrip {
        RoundTrip {
            sent_ns,
            remote_ns: (sent_ns + there_after_ns).saturating_add_signed(offset_ns),
            received_ns: sent_ns + there_after_ns + back_after_ns,
        }
    }

    #[test]
    fn symmetric_round_trips_give_exact_offset() {
        let round_trips: Vec<_> =
            (1..=32).map(|n| trip(n * 1_000_000, 7_000_000_000, 50_000, 50_000)).collect();
        let found = offset(&round_trips).unwrap();
        assert_eq!((found.offset_ns, found.bound_ns, found.round_trip_ns), (7_000_000_000, 50_000, 100_000));
        assert_eq!(to_remote_ns(1_000, &found), 7_000_001_000);
        assert_eq!(to_own_ns(7_000_001_000, &found), 1_000);
        assert_eq!(to_own_ns(5, &found), 0, "before the own clock began");
    }

    #[test]
    fn asymmetric_delay_stays_within_bound() {
        // The way there takes 1 ms and the way back 100 us: the middle is wrong, and the bound says so.
        let round_trips: Vec<_> =
            (1..=32).map(|n| trip(n * 10_000_000, -3_000, 1_000_000, 100_000)).collect();
        let found = offset(&round_trips).unwrap();
        assert_eq!((found.offset_ns, found.bound_ns), (-3_000 + 450_000, 550_000));
    }

    #[test]
    fn oppositely_asymmetric_round_trips_narrow_the_bound() {
        let round_trips = [trip(1_000_000, 500, 10_000, 90_000), trip(2_000_000, 500, 90_000, 10_000)];
        let all: Vec<_> = round_trips.iter().cycle().take(8).copied().collect();
        let found = offset(&all).unwrap();
        assert_eq!((found.offset_ns, found.bound_ns), (500, 10_000));
    }

    #[test]
    fn contradictory_round_trips_fall_back_to_the_shortest() {
        let round_trips = [trip(0, 0, 1_000, 1_000), trip(10_000, 50_000, 1_100, 1_100)];
        let all: Vec<_> = round_trips.iter().cycle().take(8).copied().collect();
        assert_eq!(offset(&all).unwrap().offset_ns, 0);
        assert_eq!(offset(&[]), None);
    }

    /// Clients of a large fleet, each with its own clock and delays, of which some answers are late.
    #[test]
    fn thousand_clients_start_within_half_round_trip() {
        const CLIENTS: u32 = 1000;
        let (instant_ns, mut random) = (60_000_000_000, fastrand::Rng::with_seed(1));
        let mut begins = Vec::new();
        for _ in 0..CLIENTS {
            let offset_ns = random.i64(-10_000_000_000..10_000_000_000);
            let ways = [(); 2].map(|()| random.u64(20_000..2_000_000));
            let mut late = |way_ns: u64| match random.u32(..4) {
                0 => way_ns + random.u64(..5_000_000),
                _ => way_ns + random.u64(..way_ns / 20),
            };
            let round_trips: Vec<_> = (1..=u64::from(ROUND_TRIPS))
                .map(|number| {
                    trip(20_000_000_000 + number * 20_000_000, offset_ns, late(ways[0]), late(ways[1]))
                })
                .collect();
            let found = offset(&round_trips).unwrap();
            // It begins when its own clock shows what it was told.
            let begins_ns = to_remote_ns(instant_ns, &found).saturating_add_signed(-offset_ns);
            let off_ns = begins_ns.abs_diff(instant_ns);
            assert!(
                off_ns <= found.bound_ns && off_ns <= found.round_trip_ns / 2,
                "{off_ns} ns off: {found:?}"
            );
            begins.push(begins_ns);
        }
        let skew_ns = begins.iter().max().unwrap() - begins.iter().min().unwrap();
        assert!(skew_ns < 2_000_000, "{skew_ns} ns, and half of the longest round trip is 2 ms");
    }

    proptest! {
        #[test]
        fn clock_offset_is_within_its_bound(
            offset_ns in -10_000_000_000i64..10_000_000_000,
            ways in proptest::collection::vec((1_000u64..5_000_000, 1_000u64..5_000_000), 1..40),
        ) {
            let mut at_ns = 20_000_000_000;
            let round_trips: Vec<_> = ways.iter().map(|(there, back)| {
                at_ns += there + back + 1_000;
                trip(at_ns, offset_ns, *there, *back)
            }).collect();
            let found = offset(&round_trips).unwrap();
            prop_assert!(found.offset_ns.abs_diff(offset_ns) <= found.bound_ns, "{found:?}");
            prop_assert!(found.bound_ns <= found.round_trip_ns.div_ceil(2), "{found:?}");
        }

        #[test]
        fn any_round_trips_give_offset_without_panic(round_trips in proptest::collection::vec(any::<(u64, u64, u64)>(), 0..9)) {
            let round_trips: Vec<_> = round_trips
                .into_iter()
                .map(|(sent_ns, remote_ns, received_ns)| RoundTrip { sent_ns, remote_ns, received_ns })
                .collect();
            if let Some(found) = offset(&round_trips) {
                let _ = (to_remote_ns(u64::MAX, &found), to_own_ns(u64::MAX, &found), to_own_ns(0, &found));
            }
        }
    }
}
