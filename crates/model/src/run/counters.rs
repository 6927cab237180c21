//! Counters of the kernel, each declared once: as a field of an interval's frame, and as a column of the document.

use serde::{Deserialize, Serialize};

use super::columns::{Column, columns};

/// Declares a group of counters: its frame, the columns of many frames, and what is done to each counter.
macro_rules! counters {
    ($(
        $(#[$meta:meta])*
        $row:ident in $columns:ident $([$(#[$name_meta:meta])* $name:ident: $name_type:ty])? {
            $($(#[$field_meta:meta])* $field:ident,)+
        }
    )+) => { $(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub struct $row { $($(#[$name_meta])* pub $name: $name_type,)? $($(#[$field_meta])* pub $field: u64,)+ }
        columns! {
            $(#[$meta])*
            struct $columns of $row {
                $($(#[$name_meta])* $name: $name_type,)?
                $($(#[$field_meta])* $field: u64,)+
            }
        }

        impl $row {
            /// Applies `of` to each counter and the same one of `other`.
            pub fn each(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
                Self { $($name: self.$name.clone(),)? $($field: of(self.$field, other.$field),)+ }
            }
        }
    )+ };
}

counters! {
    /// Counters of one device.
    DeviceFrame in DeviceColumns [
        /// Its name; in a column, empty for intervals that lack the device.
        name: String
    ] {
        /// Read requests completed.
        reads,
        /// Bytes read.
        read_bytes,
        /// Write requests completed.
        writes,
        /// Bytes written.
        written_bytes,
        /// Flush requests completed; 0 before Linux 5.5 and on devices that do not count them.
        flushes,
        /// Sum of the times for which requests were in flight; divided by the length, it is the mean queue depth.
        in_flight_ns,
        /// Time in which the device was not idle.
        busy_ns,
    }

    /// CPU time by kind, summed over all CPUs.
    CpuTimes in CpuColumns {
        /// In programs.
        user_ns,
        /// In the kernel, interrupts included.
        kernel_ns,
        /// Idle, waiting for I/O or not.
        idle_ns,
        /// Wanted but taken by the hypervisor.
        steal_ns,
    }

    /// Scheduling of the worker threads, summed over them.
    ThreadTimes in WorkerColumns {
        /// On a CPU.
        cpu_ns,
        /// Waiting for a CPU.
        run_queue_ns,
    }

    /// `/proc/self/io`.
    OwnIo in OwnIoColumns {
        /// Bytes that read calls returned.
        read_call_bytes,
        /// Bytes that write calls took.
        write_call_bytes,
        /// Read calls.
        read_calls,
        /// Write calls.
        write_calls,
        /// Bytes that the block layer fetched for us.
        device_read_bytes,
        /// Bytes that we made dirty or wrote directly.
        device_written_bytes,
    }
}
