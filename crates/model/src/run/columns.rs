//! Intervals, rounds and zones in documents: one array for each counter, instead of one object for each interval.
//!
//! Objects would repeat each name a thousand times.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counters::{CpuColumns, DeviceColumns, OwnIoColumns, WorkerColumns};
use super::{CpuTimes, DeviceFrame, OwnIo, ThreadTimes};

/// One round of a test on files.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRecord {
    /// Operations.
    pub ops: u64,
    /// Measured time.
    pub elapsed_ns: u64,
    /// Time from the agreed start to that of the first worker; 0 without clients.
    pub start_delay_ns: u64,
}

impl RoundRecord {
    /// Returns a round that started at its agreed time.
    pub fn on_time(ops: u64, elapsed_ns: u64) -> Self {
        Self { ops, elapsed_ns, start_delay_ns: 0 }
    }
}

/// One zone: a part of the data that was read from front to back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ZoneRecord {
    /// Offset of its first byte.
    pub start_bytes: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Time from the end of the zone before it, or from the start of the test, to the end of its last call.
    pub elapsed_ns: u64,
}

/// One piece of a phase's time axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Start, from the start of the phase.
    pub start_ns: u64,
    /// Length of the piece.
    pub length_ns: u64,
    /// Operations that ended in it.
    pub ops: u64,
    /// Bytes of these operations.
    pub bytes: u64,
    /// Their latencies: pairs of the upper end of a bucket in nanoseconds, and the count in it.
    pub histogram: Vec<(u64, u64)>,
    /// Work of the machine in the same time; null where no sample fell into it.
    pub frame: Option<Frame>,
}

/// Work of the machine in one interval: differences of the kernel's counters.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    /// Devices of the stack, in its order.
    pub devices: Vec<DeviceFrame>,
    /// The whole machine's CPU time.
    pub cpu: CpuTimes,
    /// Our worker threads' time, summed.
    pub workers: ThreadTimes,
    /// I/O that the kernel accounted to this process.
    pub own_io: OwnIo,
    /// Dirty pages of the machine at the end of the interval.
    pub dirty_bytes: u64,
    /// Pages under writeback at the end of the interval.
    pub writeback_bytes: u64,
    /// Bytes that became dirty in the machine's page cache, to be written; null in documents of older versions.
    pub dirtied_bytes: Option<u64>,
}

/// Values of one counter, one for each interval; a single value where all are equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum Column<T> {
    /// One value for each interval.
    Each(Vec<T>),
    /// The same value for all intervals.
    Same(T),
}

impl<T: Clone + PartialEq> Column<T> {
    pub(super) fn new(values: impl Iterator<Item = T>) -> Self {
        let values: Vec<T> = values.collect();
        match values.split_first() {
            Some((first, rest)) if rest.iter().all(|value| value == first) => Self::Same(first.clone()),
            _ => Self::Each(values),
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<T> {
        match self {
            Self::Each(values) => values.get(index).cloned(),
            Self::Same(value) => Some(value.clone()),
        }
    }
}

/// Value of a counter.
pub(super) trait CounterValue: Sized {
    /// Returns the value for a number of the document.
    fn from_number(_: u64) -> Option<Self> {
        None
    }

    /// Returns the value for a text of the document.
    fn from_text(_: &str) -> Option<Self> {
        None
    }

    /// Returns the value for null.
    fn from_null() -> Option<Self> {
        None
    }
}

impl CounterValue for u64 {
    fn from_number(number: u64) -> Option<Self> {
        Some(number)
    }
}

impl CounterValue for Option<u64> {
    fn from_number(number: u64) -> Option<Self> {
        Some(Some(number))
    }

    fn from_null() -> Option<Self> {
        Some(None)
    }
}

impl CounterValue for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl<'de, T: CounterValue + Deserialize<'de>> Deserialize<'de> for Column<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ColumnVisitor(PhantomData))
    }
}

struct ColumnVisitor<T>(PhantomData<T>);

fn same<T, E: Error>(value: Option<T>) -> Result<Column<T>, E> {
    value.map(Column::Same).ok_or_else(|| E::custom("a column has a value of another type"))
}

impl<'de, T: CounterValue + Deserialize<'de>> Visitor<'de> for ColumnVisitor<T> {
    type Value = Column<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value, or a list of values")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(sequence)).map(Column::Each)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        same(T::from_number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        same(T::from_text(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        same(T::from_null())
    }
}

macro_rules! columns {
    ($($(#[$meta:meta])* struct $columns:ident of $row:ident $([$count:ident])? {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)+
    })+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        pub(super) struct $columns {
            $(
                /// Number of rows: each column has this many values, or one for all.
                $count: usize,
            )?
            $($(#[$field_meta])* $field: Column<$type>,)+
        }

        impl $columns {
            pub(super) fn new(rows: &[&$row]) -> Self {
                Self {
                    $($count: rows.len(),)?
                    $($field: Column::new(rows.iter().map(|row| row.$field.clone())),)+
                }
            }

            pub(super) fn row(&self, index: usize) -> Option<$row> {
                Some($row { $($field: self.$field.get(index)?,)+ })
            }
        }
    )+ };
}
pub(super) use columns;

columns! {
    /// Rounds of a test on files.
    struct Rounds of RoundRecord [count] {
        /// Operations.
        ops: u64,
        /// Measured time.
        elapsed_ns: u64,
        /// Time from the agreed start to that of the first worker; 0 without clients.
        start_delay_ns: u64,
    }

    /// Zones of a test.
    struct Zones of ZoneRecord [count] {
        /// Offset of the first byte.
        start_bytes: u64,
        /// Bytes read.
        bytes: u64,
        /// Time from the end of the zone before.
        elapsed_ns: u64,
    }
}

/// Frames of intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FrameColumns {
    /// Indices of the intervals into which no sample fell; the columns have no values for them.
    missing: Vec<usize>,
    /// Devices of the stack, in its order.
    devices: Vec<DeviceColumns>,
    /// CPU time of the whole machine.
    cpu: CpuColumns,
    /// Time of the worker threads.
    workers: WorkerColumns,
    /// I/O that the kernel accounted to this process.
    own_io: OwnIoColumns,
    /// Dirty pages of the machine at the end of the interval.
    dirty_bytes: Column<u64>,
    /// Pages under writeback at the end of the interval.
    writeback_bytes: Column<u64>,
    /// Bytes that became dirty in the machine's page cache; null where that is not known.
    dirtied_bytes: Column<Option<u64>>,
}

impl FrameColumns {
    fn new(intervals: &[Interval]) -> Option<Self> {
        let frames: Vec<&Frame> = intervals.iter().filter_map(|interval| interval.frame.as_ref()).collect();
        let most = frames.iter().map(|frame| frame.devices.len()).max()?;
        let absent = DeviceFrame::default();
        let device = |at: usize| {
            let rows: Vec<_> = frames.iter().map(|frame| frame.devices.get(at).unwrap_or(&absent)).collect();
            DeviceColumns::new(&rows)
        };
        let without = intervals.iter().enumerate().filter(|(_, interval)| interval.frame.is_none());
        Some(Self {
            missing: without.map(|(index, _)| index).collect(),
            devices: (0..most).map(device).collect(),
            cpu: CpuColumns::new(&frames.iter().map(|frame| &frame.cpu).collect::<Vec<_>>()),
            workers: WorkerColumns::new(&frames.iter().map(|frame| &frame.workers).collect::<Vec<_>>()),
            own_io: OwnIoColumns::new(&frames.iter().map(|frame| &frame.own_io).collect::<Vec<_>>()),
            dirty_bytes: Column::new(frames.iter().map(|frame| frame.dirty_bytes)),
            writeback_bytes: Column::new(frames.iter().map(|frame| frame.writeback_bytes)),
            dirtied_bytes: Column::new(frames.iter().map(|frame| frame.dirtied_bytes)),
        })
    }

    fn row(&self, index: usize) -> Option<Frame> {
        let devices: Option<Vec<_>> = self.devices.iter().map(|device| device.row(index)).collect();
        Some(Frame {
            devices: devices?.into_iter().filter(|device| !device.name.is_empty()).collect(),
            cpu: self.cpu.row(index)?,
            workers: self.workers.row(index)?,
            own_io: self.own_io.row(index)?,
            dirty_bytes: self.dirty_bytes.get(index)?,
            writeback_bytes: self.writeback_bytes.get(index)?,
            dirtied_bytes: self.dirtied_bytes.get(index)?,
        })
    }
}

/// Latencies of intervals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct LatencyColumns {
    /// Upper ends of the buckets, in nanoseconds, ascending.
    upper_ns: Vec<u64>,
    /// One row for each interval: the index of its first bucket that holds an operation, then counts. The counts are
    /// those of all buckets from there to the last one that holds any. Empty where no operation was timed.
    counts: Vec<Vec<u64>>,
}

impl LatencyColumns {
    fn new(intervals: &[Interval]) -> Option<Self> {
        let mut upper_ns: Vec<u64> = intervals
            .iter()
            .flat_map(|interval| &interval.histogram)
            .map(|(upper_ns, _)| *upper_ns)
            .collect();
        upper_ns.sort_unstable();
        upper_ns.dedup();
        let counts = |interval: &Interval| {
            let mut row: Vec<u64> = Vec::new();
            let mut buckets = interval.histogram.clone();
            buckets.sort_unstable();
            for (end, count) in buckets.into_iter().filter(|(_, count)| *count > 0) {
                let bucket = upper_ns.partition_point(|upper_ns| *upper_ns < end);
                let first = *row.first().unwrap_or(&(bucket as u64)) as usize;
                row.resize(row.len().max(bucket - first + 2), 0);
                row[0] = first as u64;
                row[bucket - first + 1] += count;
            }
            row
        };
        (!upper_ns.is_empty())
            .then(|| Self { counts: intervals.iter().map(counts).collect(), upper_ns: upper_ns.clone() })
    }

    fn row(&self, index: usize) -> Option<Vec<(u64, u64)>> {
        let Some((first, counts)) = self.counts.get(index)?.split_first() else { return Some(Vec::new()) };
        let ends = self.upper_ns.get(usize::try_from(*first).ok()?..)?;
        let buckets = ends.iter().copied().zip(counts.iter().copied());
        (counts.len() <= ends.len()).then(|| buckets.filter(|(_, count)| *count > 0).collect())
    }
}

/// Intervals of a phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Intervals {
    /// Number of rows: each column has this many values, or one for all.
    count: usize,
    /// Start, from the start of the phase.
    start_ns: Column<u64>,
    /// Length of the interval.
    length_ns: Column<u64>,
    /// Operations that ended in it.
    ops: Column<u64>,
    /// Bytes of these operations.
    bytes: Column<u64>,
    /// Their latencies; null where none were timed.
    latency: Option<LatencyColumns>,
    /// Activity of the machine in the same time; null where no interval has a sample.
    frame: Option<FrameColumns>,
}

impl Intervals {
    fn new(intervals: &[Interval]) -> Self {
        Self {
            count: intervals.len(),
            start_ns: Column::new(intervals.iter().map(|interval| interval.start_ns)),
            length_ns: Column::new(intervals.iter().map(|interval| interval.length_ns)),
            ops: Column::new(intervals.iter().map(|interval| interval.ops)),
            bytes: Column::new(intervals.iter().map(|interval| interval.bytes)),
            latency: LatencyColumns::new(intervals),
            frame: FrameColumns::new(intervals),
        }
    }
}

/// More rows than any version keeps. Above it, the count of a damaged document must not take memory.
const ROWS_MAX: usize = 1 << 20;

/// Rows that a document has as columns.
pub(super) trait Tabular: Sized {
    type Columns: Serialize + for<'de> Deserialize<'de>;

    fn columns(rows: &[Self]) -> Self::Columns;

    /// Returns the rows; `None` if a column has too few values.
    fn rows(columns: &Self::Columns) -> Option<Vec<Self>>;
}

impl Tabular for Interval {
    type Columns = Intervals;

    fn columns(rows: &[Self]) -> Intervals {
        Intervals::new(rows)
    }

    fn rows(columns: &Intervals) -> Option<Vec<Self>> {
        let mut with_frame = 0;
        rows(columns.count, |index| {
            let frame = match &columns.frame {
                Some(frame) if frame.missing.binary_search(&index).is_err() => {
                    with_frame += 1;
                    Some(frame.row(with_frame - 1)?)
                }
                _ => None,
            };
            let latency = columns.latency.as_ref();
            Some(Self {
                start_ns: columns.start_ns.get(index)?,
                length_ns: columns.length_ns.get(index)?,
                ops: columns.ops.get(index)?,
                bytes: columns.bytes.get(index)?,
                histogram: latency.map_or(Some(Vec::new()), |latency| latency.row(index))?,
                frame,
            })
        })
    }
}

impl Tabular for RoundRecord {
    type Columns = Rounds;

    fn columns(rows: &[Self]) -> Rounds {
        Rounds::new(&rows.iter().collect::<Vec<_>>())
    }

    fn rows(columns: &Rounds) -> Option<Vec<Self>> {
        rows(columns.count, |index| columns.row(index))
    }
}

impl Tabular for ZoneRecord {
    type Columns = Zones;

    fn columns(rows: &[Self]) -> Zones {
        Zones::new(&rows.iter().collect::<Vec<_>>())
    }

    fn rows(columns: &Zones) -> Option<Vec<Self>> {
        rows(columns.count, |index| columns.row(index))
    }
}

fn rows<T>(count: usize, row: impl FnMut(usize) -> Option<T>) -> Option<Vec<T>> {
    (count <= ROWS_MAX).then(|| (0..count).map(row).collect())?
}

/// Rows that were read from columns.
pub(super) struct Rows<T>(Vec<T>);

impl<T> From<Rows<T>> for Vec<T> {
    fn from(rows: Rows<T>) -> Self {
        rows.0
    }
}

impl<'de, T: Tabular> Deserialize<'de> for Rows<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let rows = T::rows(&T::Columns::deserialize(deserializer)?);
        rows.map(Self).ok_or_else(|| D::Error::custom("a column has fewer values than there are rows"))
    }
}

/// Writes rows as columns.
pub(super) fn write<T: Tabular, S: Serializer>(rows: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    T::columns(rows).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn frame(devices: usize) -> Frame {
        let device = |number: usize| DeviceFrame {
            name: format!("sd{number}"),
            reads: 7 + number as u64,
            read_bytes: 4096,
            writes: 0,
            written_bytes: 0,
            flushes: 0,
            in_flight_ns: 5,
            busy_ns: 3,
        };
        Frame {
            devices: (0..devices).map(device).collect(),
            cpu: CpuTimes { user_ns: 1, kernel_ns: 2, idle_ns: 3, steal_ns: 0 },
            workers: ThreadTimes { cpu_ns: 4, run_queue_ns: 0 },
            own_io: OwnIo::default(),
            dirty_bytes: 0,
            writeback_bytes: 9,
            dirtied_bytes: (devices > 1).then_some(8),
        }
    }

    crate::document::pieces! {
        pub struct Document {
            #[serde(serialize_with = "write")]
            #[cfg_attr(test, schemars(with = "Intervals"))]
            pub intervals: Vec<Interval> [needed as Rows<Interval>],
            #[serde(serialize_with = "write")]
            #[cfg_attr(test, schemars(with = "Rounds"))]
            pub rounds: Vec<RoundRecord> [needed as Rows<RoundRecord>],
        }
    }
    crate::document::read_as_pieces!(Document);

    fn document() -> Document {
        let interval = |at: u64, histogram: &[(u64, u64)], frame: Option<Frame>| Interval {
            start_ns: at * 100,
            length_ns: 100,
            ops: 3,
            bytes: at,
            histogram: histogram.to_vec(),
            frame,
        };
        let intervals = vec![
            interval(0, &[(10, 1), (30, 2)], Some(frame(2))),
            interval(1, &[], None),
            interval(2, &[(20, 3)], Some(frame(1))),
        ];
        let rounds = vec![RoundRecord::on_time(5, 1), RoundRecord::on_time(5, 2)];
        Document { intervals, rounds }
    }

    #[test]
    fn written_columns_read_back_unchanged() {
        let empty = Document { intervals: Vec::new(), rounds: Vec::new() };
        for document in [document(), empty] {
            let text = serde_json::to_string(&document).unwrap();
            assert_eq!(serde_json::from_str::<Document>(&text).unwrap(), document);
        }
        let written = serde_json::to_value(document()).unwrap();
        assert_eq!(
            written["rounds"],
            json!({"count": 2, "ops": 5, "elapsed_ns": [1, 2], "start_delay_ns": 0})
        );
        let latency = &written["intervals"]["latency"];
        assert_eq!(*latency, json!({"upper_ns": [10, 20, 30], "counts": [[0, 1, 0, 2], [], [1, 3]]}));
        assert_eq!(written["intervals"]["frame"]["missing"], json!([1]));
        assert_eq!(written["intervals"]["frame"]["devices"][1]["name"], json!(["sd1", ""]));
    }

    #[test]
    fn damaged_columns_are_errors() {
        let written = serde_json::to_value(document()).unwrap();
        let damaged = |path: &str, value: serde_json::Value| {
            let mut document = written.clone();
            *document.pointer_mut(path).unwrap() = value;
            serde_json::from_value::<Document>(document).unwrap_err().to_string()
        };
        for (path, value) in [
            ("/intervals/count", json!(4)),
            ("/intervals/count", json!(u64::MAX)),
            ("/intervals/bytes", json!([0, 1])),
            ("/intervals/latency/counts", json!([[0, 1, 0, 2], [], [u64::MAX, 3]])),
            ("/intervals/latency/upper_ns", json!([10, 20])),
            ("/rounds/elapsed_ns", json!([1])),
        ] {
            let error = damaged(path, value);
            assert!(error.contains("fewer values"), "{path}: {error}");
        }
    }
}
