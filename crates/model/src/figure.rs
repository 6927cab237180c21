//! Figures: values that have a kind, which can be shown, compared and put into a sentence. Macros here declare enums of
//! kinds with figures.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Experiment;
use crate::document::{document, words};
use crate::run::{Helper, MaintenanceRecord, Mode};

/// Longest latency that is counted, 39 hours: the end of a histogram's last bucket. Longer ones count as this.
pub const LATENCY_MAX_NS: u64 = (1 << 47) - 1;

/// A value of a kind that can be shown and compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Figure<'a> {
    /// Share of a whole, 0 to 1.
    Share(f64),
    /// Ratio of two amounts, shown with three decimals near 1.
    Ratio(f64),
    /// Mean of a number of things.
    Mean(f64),
    /// Number of things.
    Count(u64),
    /// Latency.
    LatencyNs(u64),
    /// Length of time.
    Seconds(f64),
    /// Amount of data, shown in powers of 1000.
    Bytes(u64),
    /// Amount of memory, shown in powers of 1024.
    MemoryBytes(u64),
    /// Operations per second.
    OpsPerSecond(f64),
    /// Bytes per second.
    BytesPerSecond(f64),
    /// Temperature.
    Celsius(f64),
    /// Name of a device, a file system or a path. It is escaped before it is shown.
    Name(&'a str),
    /// Peaks of the latencies.
    Modes(&'a [Mode]),
    /// Maintenance of arrays and file systems.
    Maintenance(&'a [MaintenanceRecord]),
    /// Shares of the threads' time.
    Time(&'a [TimeShare]),
    /// Processes and threads of the kernel, with the CPU time that they took.
    Helpers(&'a [Helper]),
    /// Class of the wait of a sleeping thread.
    Wait(WaitClass),
    /// An experiment.
    Tried(Experiment),
    /// A change of the load, in the words of reports: "q1t4". Rows that differ only in the change share one sentence.
    Change(&'a str),
}

words! {
    /// A way in which a thread spends its time.
    pub enum TimePart {
        /// Asleep.
        Blocked,
        /// On a CPU, in the kernel.
        Kernel,
        /// On a CPU, in its own code.
        User,
        /// Ready, and without a CPU.
        RunQueue,
        /// Held back by a cgroup's quota.
        Quota,
        /// On a CPU that the hypervisor gave to other guests.
        Steal,
    }
}

words! {
    /// The reason for which a thread sleeps.
    #[derive(Default, Hash, PartialOrd, Ord)]
    pub enum WaitClass {
        /// The device's completion of a read or a write.
        #[default]
        Device,
        /// A page that is being read or written back.
        Page,
        /// A commit of the journal or log, or a flush.
        Sync,
        /// A lock that another thread holds.
        Lock,
        /// Fewer dirty pages.
        Dirty,
        /// Free memory.
        Reclaim,
        /// A queue slot.
        Queue,
        /// Its turn under writeback throttling, io.cost or io.latency.
        Paced,
        /// A server's reply.
        Remote,
        /// A completion of a ring, whatever the ring itself waits for.
        Ring,
        /// A point in time.
        Time,
    }
}

impl WaitClass {
    /// Returns the word that documents use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Page => "page",
            Self::Sync => "sync",
            Self::Lock => "lock",
            Self::Dirty => "dirty",
            Self::Reclaim => "reclaim",
            Self::Queue => "queue",
            Self::Paced => "paced",
            Self::Remote => "remote",
            Self::Ring => "ring",
            Self::Time => "time",
        }
    }
}

document! {
    /// One part of the threads' time.
    pub struct TimeShare {
        /// The part.
        pub part: TimePart,
        /// Its share, 0 to 1.
        pub share: f64,
    }
}

/// Type of a figure in a kind.
pub(crate) trait FigureType: Sized {
    /// Returns the figure.
    fn figure(&self) -> Figure<'_>;

    /// Reads what a document has for it; `None` for a value of another type.
    fn read(value: Value) -> Option<Self>;
}

macro_rules! figures {
    ($($(#[$meta:meta])* $name:ident($type:ty) |$value:ident| $figure:expr, |$read:ident| $reader:expr;)+) => { $(
        #[derive(Debug, Clone, Default, PartialEq)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub struct $name(pub $type);

        impl FigureType for $name {
            fn figure(&self) -> Figure<'_> {
                let $value = &self.0;
                $figure
            }

            fn read($read: Value) -> Option<Self> {
                $reader.map(Self)
            }
        }
    )+ };
}

/// A number as documents have it. An absent figure is not the same as null: it means that the kind is from another
/// version.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum NumberOrNull {
    Number(f64),
    Null(()),
}

/// Figures that may not be finite. JSON has no such numbers, so they are stored as null.
macro_rules! measures {
    ($($(#[$meta:meta])* $name:ident,)+) => {
        $(impl From<Option<f64>> for $name {
            fn from(value: Option<f64>) -> Self {
                Self(value.unwrap_or(f64::NAN))
            }
        })+

        figures! { $(
            $(#[$meta])*
            #[cfg_attr(test, schemars(with = "NumberOrNull"))]
            $name(f64) |value| Figure::$name(*value), |value| match value {
                Value::Null => Some(f64::NAN),
                value => value.as_f64(),
            };
        )+ }
    };
}

measures! {
    /// Share of a whole, 0 to 1.
    Share,
    /// Ratio of two amounts.
    Ratio,
    /// Mean of a number of things.
    Mean,
    /// Length of time in seconds.
    Seconds,
    /// Operations per second.
    OpsPerSecond,
    /// Bytes per second.
    BytesPerSecond,
    /// Temperature in degrees Celsius.
    Celsius,
}

figures! {
    /// Number of things.
    Count(u64) |count| Figure::Count(*count), |value| value.as_u64();
    /// Latency in nanoseconds.
    LatencyNs(u64) |ns| Figure::LatencyNs(*ns), |value| value.as_u64();
    /// Amount of data in bytes.
    Bytes(u64) |bytes| Figure::Bytes(*bytes), |value| value.as_u64();
    /// Amount of memory in bytes.
    MemoryBytes(u64) |bytes| Figure::MemoryBytes(*bytes), |value| value.as_u64();
    /// Name of a device, a file system, an option, a path.
    Name(String) |name| Figure::Name(name), |value| text(value);
    /// Peaks of the latencies, the fastest first.
    Modes(Vec<Mode>) |modes| Figure::Modes(modes), |value| serde_json::from_value(value).ok();
    /// Maintenance of arrays and file systems.
    Maintenance(Vec<MaintenanceRecord>) |work| Figure::Maintenance(work), |value| serde_json::from_value(value).ok();
    /// Shares of the threads' time, the largest first.
    Time(Vec<TimeShare>) |parts| Figure::Time(parts), |value| serde_json::from_value(value).ok();
    /// Class of the wait of a sleeping thread.
    Wait(WaitClass) |class| Figure::Wait(*class), |value| serde_json::from_value(value).ok();
    /// An experiment.
    Tried(Experiment) |experiment| Figure::Tried(*experiment), |value| serde_json::from_value(value).ok();
    /// A change of the load: "q1t4".
    Change(String) |change| Figure::Change(change), |value| text(value);
    /// Processes and threads of the kernel, the busiest first.
    Helpers(Vec<Helper>) |helpers| Figure::Helpers(helpers), |value| serde_json::from_value(value).ok();
}

/// Returns the text of a value; `None` for a value of another type.
fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

impl<T: Into<String>> From<T> for Name {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl Figure<'_> {
    /// Returns true if the figure is a name, rather than an amount. Two different names belong to different things.
    pub fn is_name(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::Modes(_)
                | Self::Maintenance(_)
                | Self::Time(_)
                | Self::Helpers(_)
                | Self::Wait(_)
                | Self::Tried(_)
        )
    }
}

/// Threshold of a rule: its name in explanations, and its value.
pub type Threshold = (&'static str, Figure<'static>);

/// Kinds with figures: findings, advice, observations.
pub trait Figures {
    /// Returns the figures of this kind, by name.
    fn figures(&self) -> Vec<(&'static str, Figure<'_>)>;
}

impl Serialize for Figure<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Share(number)
            | Self::Ratio(number)
            | Self::Mean(number)
            | Self::Seconds(number)
            | Self::OpsPerSecond(number)
            | Self::BytesPerSecond(number)
            | Self::Celsius(number) => Some(number).filter(|number| number.is_finite()).serialize(serializer),
            Self::Count(number)
            | Self::LatencyNs(number)
            | Self::Bytes(number)
            | Self::MemoryBytes(number) => serializer.serialize_u64(*number),
            Self::Name(text) | Self::Change(text) => serializer.serialize_str(text),
            Self::Modes(modes) => modes.serialize(serializer),
            Self::Maintenance(work) => work.serialize(serializer),
            Self::Time(parts) => parts.serialize(serializer),
            Self::Helpers(helpers) => helpers.serialize(serializer),
            Self::Wait(class) => class.serialize(serializer),
            Self::Tried(experiment) => experiment.serialize(serializer),
        }
    }
}

/// Key of a kind's name in documents.
const KIND: &str = "kind";

/// Writes a kind and its figures as one object. One piece of code writes all kinds.
pub(crate) fn write<S: Serializer>(
    kind: &str,
    figures: &[(&'static str, Figure<'_>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1 + figures.len()))?;
    map.serialize_entry(KIND, &snake_case(kind).collect::<String>())?;
    for (name, figure) in figures {
        map.serialize_entry(name, figure)?;
    }
    map.end()
}

/// Returns the word of documents for a kind, letter by letter: "foreign_io" for `ForeignIo`.
fn snake_case(kind: &str) -> impl Iterator<Item = char> {
    kind.char_indices().flat_map(|(at, letter)| {
        let starts_word = at > 0 && letter.is_ascii_uppercase();
        starts_word.then_some('_').into_iter().chain([letter.to_ascii_lowercase()])
    })
}

/// An object of a document that should be a kind.
pub(crate) struct KindObject {
    kind: String,
    figures: Map<String, Value>,
}

impl KindObject {
    /// Returns the object of a value; `None` for a value that is no kind.
    pub(crate) fn from_value(value: Value) -> Option<Self> {
        let Value::Object(mut figures) = value else { return None };
        let kind = text(figures.remove(KIND)?)?;
        Some(Self { kind, figures })
    }

    /// Returns true if it is this kind.
    pub(crate) fn is(&self, kind: &str) -> bool {
        snake_case(kind).eq(self.kind.chars())
    }

    /// Takes a figure out of it; `None` if it has none of that name and type.
    pub(crate) fn take<T: FigureType>(&mut self, name: &str) -> Option<T> {
        T::read(self.figures.remove(name)?)
    }
}

/// Declares kinds with figures in the form that documents have: tagged with the kind, one key per figure.
macro_rules! kinds {
    ($(#[$enum_meta:meta])* $name:ident { $($(#[$meta:meta])* $kind:ident { $($figure:ident: $type:ty),* })+ }) => {
        $(#[$enum_meta])*
        #[allow(missing_docs, reason = "the name of a figure and its type say what it is, and in which unit")]
        #[derive(Debug, Clone, Default, PartialEq)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[cfg_attr(test, schemars(tag = "kind", rename_all = "snake_case"))]
        pub enum $name {
            $($(#[$meta])* $kind { $($figure: $type),* },)+
            /// A kind from another version; only its words are known.
            #[default]
            Unknown,
        }

        impl $name {
            /// Returns one of each kind, with default figures, for tests of the sentences.
            pub fn all_kinds() -> Vec<Self> {
                vec![$(Self::$kind { $($figure: Default::default()),* },)+]
            }

            /// Returns the kind of an object; `None` for a kind that this version does not know, or that has other figures.
            fn from_object(object: &mut $crate::figure::KindObject) -> Option<Self> {
                $(if object.is(stringify!($kind)) {
                    return Some(Self::$kind { $($figure: object.take(stringify!($figure))?),* });
                })+
                None
            }
        }

        impl $crate::figure::Figures for $name {
            fn figures(&self) -> Vec<(&'static str, $crate::figure::Figure<'_>)> {
                use $crate::figure::FigureType;
                match self {
                    $(Self::$kind { $($figure),* } => vec![$((stringify!($figure), $figure.figure())),*],)+
                    Self::Unknown => Vec::new(),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let kind = match self {
                    $(Self::$kind { .. } => stringify!($kind),)+
                    Self::Unknown => "InWords",
                };
                $crate::figure::write(kind, &$crate::figure::Figures::figures(self), serializer)
            }
        }

        /// Another kind than this version knows, or one with other figures, becomes `Unknown`.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let object = $crate::figure::KindObject::from_value(serde::Deserialize::deserialize(deserializer)?);
                Ok(object.and_then(|mut object| Self::from_object(&mut object)).unwrap_or_default())
            }
        }
    };
}

pub(crate) use kinds;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::observation::Observation;

    use super::*;

    #[test]
    fn every_observation_kind_round_trips_through_json() {
        for kind in Observation::all_kinds() {
            let object = serde_json::to_value(&kind).unwrap();
            let figures = kind.figures().into_iter().map(|(name, _)| name);
            assert!(figures.chain([KIND]).all(|name| object.get(name).is_some()), "{object}");
            assert_eq!(serde_json::from_value::<Observation>(object).unwrap(), kind);
        }
    }

    #[test]
    fn unknown_kind_or_figure_reads_as_unknown() {
        let read = |value: Value| serde_json::from_value::<Observation>(value).unwrap();
        let known = json!({"kind": "cpus_used", "used": 1.5, "cpus": 4, "new": [1]});
        assert_eq!(read(known.clone()), Observation::CpusUsed { used: Mean(1.5), cpus: Count(4) });
        for (key, other) in [("kind", json!("moon")), ("kind", json!("CpusUsed")), ("cpus", json!("4"))] {
            let mut changed = known.clone();
            changed[key] = other;
            assert_eq!(read(changed), Observation::Unknown);
        }
        for other in [json!(3), json!({"kind": "cpus_used", "used": 1.5}), json!({"kind": "unknown"})] {
            assert_eq!(read(other), Observation::Unknown);
        }
    }

    #[test]
    fn infinite_figure_is_null() {
        let used = Observation::CpusUsed { used: Mean(f64::NAN), cpus: Count(4) };
        let object = serde_json::to_value(&used).unwrap();
        assert_eq!(object, json!({"kind": "cpus_used", "used": null, "cpus": 4}));
        let read = serde_json::from_value::<Observation>(object).unwrap();
        assert!(matches!(read, Observation::CpusUsed { used: Mean(used), .. } if used.is_nan()));
    }
}
