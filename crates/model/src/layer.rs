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
    /// The kernel's number of a FUSE connection or of a process; absent for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Places of the layers directly below in the list of all layers, each after this one.
    pub below: Vec<u32>,
    /// Reason why lower layers are missing; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

impl Layer {
    /// A layer without anything below it.
    pub fn new(kind: LayerKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), number: None, below: Vec::new(), hidden: None }
    }
}

macro_rules! layers {
    ($($(#[$about:meta])* $kind:ident $preposition:literal;)+) => {
        /// Kind of a layer.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum LayerKind { $($(#[$about])* $kind,)+ }

        impl LayerKind {
            /// Returns the preposition between the layer above and this one.
            pub fn preposition(self) -> &'static str {
                match self { $(Self::$kind => $preposition),+ }
            }
        }
    };
}

layers! {
    /// Code of a file system on devices.
    FileSystem "on";
    /// Directories of other file systems, one over the other.
    Overlay "on";
    /// Pages of the file below, which answer for it.
    PageCache "over the";
    /// A block device.
    Device "on";
    /// The kernel's side of a file system in user space.
    Fuse "on";
    /// The program that serves a file system in user space.
    Daemon "by";
    /// Memory of this machine.
    Memory "in";
    /// A client of a network file system.
    Remote "on";
}
