//! `/proc/self/mountstats`: NFS counters of each mount.

use model::run::Flow;

use super::mountinfo::unescape;
use super::number::first_number;

/// Counters of one NFS mount.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NfsMount {
    /// Requests since it was mounted, and the time of each from its sending to its reply. The bytes are those of the files.
    pub flow: Flow,
    /// The protocol of each connection to the server: "tcp", "rdma".
    pub connections: Vec<String>,
    /// True if requests go through the slots of a session, as since version 4.1.
    pub has_session: bool,
}

const NS_PER_MS: u64 = 1_000_000;
// Positions among the numbers of an operation: requests, and the time from request to reply. Old kernels lack the last of
// these numbers.
const REQUESTS: usize = 0;
const ROUND_TRIP_MS: usize = 6;
// Positions among the counts of bytes: those that the server read and wrote.
const SERVER_READ_BYTES: usize = 4;
const SERVER_WRITTEN_BYTES: usize = 5;

/// Reads the section of the NFS mounted there, the upper one if two are at the same place. Absent if the
/// mount is no NFS.
pub fn nfs(text: &str, mount_point: &str) -> Option<NfsMount> {
    let is_section = |line: &str| line.starts_with("device ");
    let is_meant = |line: &str| {
        let place = line.split_once(" mounted on ").and_then(|(_, rest)| rest.split_once(" with fstype "));
        place.is_some_and(|(place, kind)| unescape(place) == mount_point && kind.starts_with("nfs"))
    };
    let start = text.lines().enumerate().filter(|(_, line)| is_section(line) && is_meant(line)).last()?.0;
    let mut mount = NfsMount::default();
    let mut in_operations = false;
    for line in text.lines().skip(start + 1).take_while(|line| !is_section(line)) {
        let Some((key, values)) = line.trim().split_once(':') else {
            in_operations |= line.trim() == "per-op statistics";
            continue;
        };
        let number = |at: usize| {
            let field = values.split_whitespace().nth(at);
            field.and_then(|field| first_number(field.as_bytes())).unwrap_or(0)
        };
        let flow = &mut mount.flow;
        match key {
            _ if in_operations => {
                let (count, time_ns) = match key {
                    "READ" | "READ_PLUS" => (&mut flow.reads, &mut flow.read_ns),
                    "WRITE" => (&mut flow.writes, &mut flow.write_ns),
                    _ => (&mut flow.others, &mut flow.other_ns),
                };
                *count = count.saturating_add(number(REQUESTS));
                *time_ns = time_ns.saturating_add(number(ROUND_TRIP_MS).saturating_mul(NS_PER_MS));
            }
            "bytes" => {
                flow.read_bytes = number(SERVER_READ_BYTES);
                flow.written_bytes = number(SERVER_WRITTEN_BYTES);
            }
            "xprt" => mount.connections.extend(values.split_whitespace().next().map(str::to_owned)),
            "nfsv4" => mount.has_session = values.split(',').any(|word| word.trim() == "sessions"),
            _ => (),
        }
    }
    Some(mount)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Flow, NS_PER_MS, NfsMount, nfs};

    const TEXT: &str = "\
device /dev/sda1 mounted on / with fstype ext4
device filer:/export/data mounted on /net/with\\040blank with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,nconnect=2,sec=sys
\tage:\t8234
\timpl_id:\tname='',domain='',date='0,0'
\tcaps:\tcaps=0x3fffbfff,wtmult=512,dtsize=1048576,bsize=0,namlen=255
\tnfsv4:\tbm0=0xfdffbfff,bm1=0x40f9be3e,bm2=0x60803,acl=0x3,sessions,pnfs=not configured,lease_time=90
\tsec:\tflavor=1,pseudoflavor=1
\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27
\tbytes:\t4096 8192 0 0 4096 8192 1 2
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 876 0 1 0 11 1234 1234 0 5678 0 2 100 200
\txprt:\ttcp 877 0 1 0 11 1234 1234 0 5678 0 2 100 200
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1000 1000 0 200000 1048576000 17 2500 2600 0
\t       WRITE: 10 10 0 10485760 1200 3 40 44
device filer:/old mounted on /net/old with fstype nfs statvers=1.1
\txprt:\tudp 0 0 5 5 0 5 0
\tper-op statistics
\t        READ: 1 1 0 1 1 1 7 8 0
";

    #[test]
    fn nfs_mount_is_found_by_mount_point() {
        let flow = Flow {
            reads: 1000,
            read_bytes: 4096,
            read_ns: 2_500 * NS_PER_MS,
            writes: 10,
            written_bytes: 8192,
            write_ns: 40 * NS_PER_MS,
            others: 1,
            ..Flow::default()
        };
        let expected = NfsMount { flow, connections: vec!["tcp".into(), "tcp".into()], has_session: true };
        assert_eq!(nfs(TEXT, "/net/with blank"), Some(expected));
        let flow = Flow { reads: 1, read_ns: 7 * NS_PER_MS, ..Flow::default() };
        let old = NfsMount { flow, connections: vec!["udp".into()], has_session: false };
        assert_eq!(nfs(TEXT, "/net/old"), Some(old));
        assert_eq!(nfs(TEXT, "/"), None);
        assert_eq!(nfs(TEXT, "/net"), None);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "(\\PC|\n){0,200}") {
            nfs(&format!("device a mounted on /b with fstype nfs\n{text}"), "/b");
            nfs(&text, "/");
        }

        #[test]
        fn any_numbers_parse_without_panic(text in "(\t?(xprt|per-op statistics|READ|nfsv4|device):?[0-9 :\n]{0,60}){0,6}") {
            nfs(&format!("device a mounted on /b with fstype nfs\n{text}"), "/b");
        }
    }
}
