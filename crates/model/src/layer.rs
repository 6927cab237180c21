//! Layers under a test: a graph from the mounted file system or the device down to the last layer that this machine shows.

use serde::{Deserialize, Serialize};

/// A layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Layer {
    /// Its kind.
    pub kind: LayerKind,
    /// Its name: "ext4", "loop0", "sshfs". Several file systems or programs may have the same.
    pub name: String,
    /// The kernel's number of a FUSE connection, of a mount of a network file system, or of a process; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Shortest round trip that TCP measured to the servers behind a network interface, before the tests; absent where there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ns: Option<u64>,
    /// Places of the layers directly below in the list of all layers, each after this one.
    pub below: Vec<u32>,
    /// Reason why lower layers are missing; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

impl Layer {
    /// Reason of the last layer on this machine.
    pub const ON_SERVER: &str = "its storage is on a server";

    /// Returns true if the layers below it are on a server.
    pub fn is_on_server(&self) -> bool {
        self.hidden.as_deref() == Some(Self::ON_SERVER)
    }

    /// A layer without anything below it.
    pub fn new(kind: LayerKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), number: None, round_trip_ns: None, below: Vec::new(), hidden: None }
    }
}

macro_rules! layers {
    ($($(#[$about:meta])* $kind:ident $word:literal $preposition:literal,
        counts $counts:literal, window $window:literal, early [$($early:ident),*];)+) => {
        /// Kind of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum LayerKind { $($(#[$about])* $kind,)+ }

        impl LayerKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns its properties.
            pub fn properties(self) -> LayerProperties {
                match self {
                    $(Self::$kind => LayerProperties {
                        word: $word,
                        preposition: $preposition,
                        counts: $counts,
                        window: $window,
                        early: &[$(Early::$early),*],
                    }),+
                }
            }
        }
    };
}

/// Properties of all layers of a kind.
#[derive(Debug, Clone, Copy)]
pub struct LayerProperties {
    /// The kind, in words.
    pub word: &'static str,
    /// Preposition between the layer above and this one.
    pub preposition: &'static str,
    /// Counts that skye reads there; empty if there are none.
    pub counts: &'static str,
    /// Its [`Flow::window`](crate::run::Flow), in words; empty if it has none.
    pub window: &'static str,
    /// Operations that it may answer before the layer below does.
    pub early: &'static [Early],
}

/// Direction of operations that a layer may answer early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Early {
    /// Reads: it has the data, or has read ahead.
    Reads,
    /// Writes: it passes them on later.
    Writes,
}

impl Early {
    /// The direction in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
        }
    }
}

layers! {
    /// Code of a file system on devices.
    FileSystem "file system" "on", counts "", window "", early [];
    /// Directories of other file systems, one over the other.
    Overlay "overlay" "on", counts "", window "", early [];
    /// Pages of the file below, which answer for it.
    PageCache "page cache of an image" "over the", counts "", window "", early [Reads, Writes];
    /// A block device.
    Device "device" "on", counts "requests, bytes, times", window "places of its queues", early [];
    /// The kernel's side of a file system in user space.
    Fuse "FUSE" "on", counts "requests in flight", window "`max_background`", early [];
    /// The program that serves a file system in user space, or one that works for it.
    Daemon "program" "by", counts "CPU time", window "threads", early [Reads, Writes];
    /// Memory of this machine.
    Memory "memory" "in", counts "", window "", early [];
    /// A client of a network file system.
    Remote "NFS, SMB" "on", counts "NFS: requests, bytes, times", window "NFS: slots", early [Writes];
    /// A network interface, on the route to a server.
    Line "network interface" "over", counts "bytes", window "", early [];
}
