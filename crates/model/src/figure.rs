//! Figures: values that have a kind, which can be shown, compared and put into a sentence. Macros here declare enums of
//! kinds with figures.

use serde::{Deserialize, Serialize};

use crate::Experiment;
use crate::document::{document, words};
use crate::run::{Helper, Mode, UpkeepRecord};

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
    /// Upkeep of arrays and file systems.
    Upkeep(&'a [UpkeepRecord]),
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
        /// On a CPU that the hypervisor gave to others.
        Steal,
    }
}

words! {
    /// The thing that a sleeping thread waits for.
    #[derive(Default, Hash, PartialOrd, Ord)]
    pub enum WaitClass {
        /// The device's answer to a read or a write.
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
        /// A place in a queue.
        Queue,
        /// Its turn under writeback throttling, io.cost or io.latency.
        Paced,
        /// A server's answer.
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

macro_rules! figures {
    ($($(#[$meta:meta])* $name:ident($type:ty) |$value:ident| $figure:expr;)+) => { $(
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub struct $name(pub $type);

        impl $name {
            pub(crate) fn figure(&self) -> Figure<'_> {
                let $value = &self.0;
                $figure
            }
        }
    )+ };
}

/// A number as documents have it. An absent figure is not the same as null: it means that the kind is from another
/// version.
#[derive(Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
enum Stored {
    Number(f64),
    Null(()),
}

/// Figures that may not be finite. JSON has no such numbers, so they are stored as null.
macro_rules! measures {
    ($($(#[$meta:meta])* $name:ident,)+) => { $(
        figures! {
            $(#[$meta])*
            #[serde(from = "Stored", into = "Option<f64>")]
            $name(f64) |value| Figure::$name(*value);
        }

        impl From<Stored> for $name {
            fn from(stored: Stored) -> Self {
                match stored {
                    Stored::Number(number) => Self(number),
                    Stored::Null(()) => Self(f64::NAN),
                }
            }
        }

        impl From<Option<f64>> for $name {
            fn from(value: Option<f64>) -> Self {
                Self(value.unwrap_or(f64::NAN))
            }
        }

        impl From<$name> for Option<f64> {
            fn from(figure: $name) -> Self {
                Some(figure.0).filter(|value| value.is_finite())
            }
        }
    )+ };
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
    Count(u64) |count| Figure::Count(*count);
    /// Latency in nanoseconds.
    LatencyNs(u64) |ns| Figure::LatencyNs(*ns);
    /// Amount of data in bytes.
    Bytes(u64) |bytes| Figure::Bytes(*bytes);
    /// Amount of memory in bytes.
    MemoryBytes(u64) |bytes| Figure::MemoryBytes(*bytes);
    /// Name of a device, a file system, an option, a path.
    Name(String) |name| Figure::Name(name);
    /// Peaks of the latencies, the fastest first.
    Modes(Vec<Mode>) |modes| Figure::Modes(modes);
    /// Upkeep of arrays and file systems.
    Upkeep(Vec<UpkeepRecord>) |work| Figure::Upkeep(work);
    /// Shares of the threads' time, the largest first.
    Time(Vec<TimeShare>) |parts| Figure::Time(parts);
    /// Class of the wait of a sleeping thread.
    Wait(WaitClass) |class| Figure::Wait(*class);
    /// An experiment.
    Tried(Experiment) |experiment| Figure::Tried(*experiment);
    /// A change of the load: "q1t4".
    Change(String) |change| Figure::Change(change);
    /// Processes and threads of the kernel, the busiest first.
    Helpers(Vec<Helper>) |helpers| Figure::Helpers(helpers);
}

impl<T: Into<String>> From<T> for Name {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl Figure<'_> {
    /// Returns true if the figure names a thing, rather than an amount. Two names that differ belong to different
    /// things.
    pub fn is_name(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::Modes(_)
                | Self::Upkeep(_)
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

/// Declares kinds with figures in the form that documents have: tagged with the kind, one key per figure.
macro_rules! kinds {
    ($(#[$enum_meta:meta])* $name:ident { $($(#[$meta:meta])* $kind:ident { $($figure:ident: $type:ty),* })+ }) => {
        $(#[$enum_meta])*
        #[allow(missing_docs, reason = "the name of a figure and its type say what it is, and in which unit")]
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum $name {
            $($(#[$meta])* $kind { $($figure: $type),* },)+
            /// A kind from another version; only its words are known.
            #[default]
            #[serde(other)]
            InWords,
        }

        impl $name {
            /// Returns one of each kind, with default figures, for tests of the sentences.
            pub fn of_each_kind() -> Vec<Self> {
                vec![$(Self::$kind { $($figure: Default::default()),* },)+]
            }
        }

        impl $crate::figure::Figures for $name {
            fn figures(&self) -> Vec<(&'static str, $crate::figure::Figure<'_>)> {
                match self {
                    $(Self::$kind { $($figure),* } => vec![$((stringify!($figure), $figure.figure())),*],)+
                    Self::InWords => Vec::new(),
                }
            }
        }
    };
}

pub(crate) use kinds;

/// A kind that this version knows, or anything else.
#[derive(Deserialize)]
#[serde(untagged)]
enum Known<T> {
    This(T),
    Other(serde::de::IgnoredAny),
}

impl<T: Default> Known<T> {
    fn or_in_words(self) -> T {
        match self {
            Self::This(kind) => kind,
            Self::Other(_) => T::default(),
        }
    }
}

/// Reads a kind with figures. A kind that this version does not know, or that has other figures, becomes `InWords`.
pub(crate) fn known<'de, T: Deserialize<'de> + Default, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Known::deserialize(deserializer).map(Known::or_in_words)
}

/// Reads several kinds with figures, as [`known`] reads one.
pub(crate) fn all_known<'de, T: Deserialize<'de> + Default, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Known<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(Known::or_in_words).collect())
}
