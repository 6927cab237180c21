//! Engines: the ways in which operations are issued.

use super::spec_words;

/// Declares the engines with their properties. A test may request those of the first part by their words.
macro_rules! engines {
    (
        properties { $($(#[$property_meta:meta])* $property:ident,)+ }
        requested { $($(#[doc = $help:tt])+ $engine:ident = $word:literal { $($has:ident),* },)+ }
        others { $($(#[doc = $other_help:tt])+ $other:ident = $other_word:literal { $($other_has:ident),* },)+ }
    ) => {
        spec_words! {
            /// Engines that a test may request with `engine=`.
            RequestedEngine { $($(#[doc = $help])+ $engine = $word,)+ }
        }

        spec_words! {
            /// Engine that issues the operations of a phase, as it was decided.
            Engine {
                $($(#[doc = $help])+ $engine = $word,)+
                $($(#[doc = $other_help])+ $other = $other_word,)+
            }
        }

        struct Properties { $($property: bool,)+ }

        impl Properties {
            const NONE: Self = Self { $($property: false,)+ };
        }

        impl Engine {
            const fn properties(self) -> Properties {
                match self {
                    $(Self::$engine => Properties { $($has: true,)* ..Properties::NONE },)+
                    $(Self::$other => Properties { $($other_has: true,)* ..Properties::NONE },)+
                }
            }

            $($(#[$property_meta])* pub const fn $property(self) -> bool { self.properties().$property })+
        }

        impl RequestedEngine {
            $($(#[$property_meta])* pub fn $property(self) -> bool { Engine::from(self).$property() })+
        }

        impl From<RequestedEngine> for Engine {
            fn from(requested: RequestedEngine) -> Self {
                match requested { $(RequestedEngine::$engine => Self::$engine,)+ }
            }
        }
    };
}

engines! {
    properties {
        /// Returns true if its operations reach something that has a speed.
        does_io,
        /// Returns true if it works on files of the data set.
        needs_files,
        /// Returns true if it makes an io_uring in each thread.
        has_ring,
        /// Returns true if a thread keeps several operations in flight. Otherwise, depth is made of threads.
        has_depth,
        /// Returns true if its calls take flags.
        takes_flags,
        /// Returns true if it maps the files, and so goes through the page cache.
        maps_files,
        /// Returns true if the plan may choose it for a test that requests no engine.
        is_automatic,
        /// Returns true if its time is simulated, and passes without real time.
        has_virtual_clock,
    }
    requested {
        /// Plain system calls; threads provide the depth.
        Sync = "sync" { does_io, needs_files, takes_flags, is_automatic },
        /// Requests in an io_uring.
        Uring = "uring" { does_io, needs_files, has_ring, has_depth, takes_flags, is_automatic },
        /// Copies from and to a mapping of the files, through the page cache; threads provide the depth.
        Mmap = "mmap" { does_io, needs_files, maps_files },
        /// The full loop without I/O: the cost of skye itself.
        Null = "null" { has_depth },
        /// io_uring requests that do nothing: the cost of the ring.
        Nop = "nop" { has_ring, has_depth },
    }
    others {
        /// Calls of the C library, which buffers.
        Stdio = "stdio" { does_io, needs_files, is_automatic },
        /// A simulated device with a simulated clock.
        Sim = "sim" { does_io, has_depth, is_automatic, has_virtual_clock },
    }
}
