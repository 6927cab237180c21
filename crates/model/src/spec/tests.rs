//! Tests of how specs are understood, and of why they are refused.

use super::*;
use proptest::prelude::*;

fn ok(spec: &str) -> Workload {
    parse(spec, &Defaults::default()).unwrap()
}

fn problem(spec: &str) -> String {
    parse(spec, &Defaults::default()).unwrap_err().problem
}

#[test]
fn defaults_follow_the_verb() {
    let read = ok("read");
    let data = read.data().unwrap();
    assert_eq!((data.access, data.block_bytes, data.direct), (Access::Sequential, 1 << 20, true));
    assert_eq!((read.iodepth, read.threads), (1, 1));
    assert!(!ok("rewrite").data().unwrap().direct);
    assert_eq!(ok("fsync").data().unwrap().block_bytes, 4096);
    assert_eq!(ok("create").files().unwrap().files, 65_536);
}

#[test]
fn labels_read_like_the_tables_of_the_field() {
    assert_eq!(ok("read:rnd4k:q32t4").label(), "4K rnd q32t4");
    assert_eq!(ok("write:buffered").label(), "1M q1 buffered");
    assert_eq!(ok("rewrite:seq128k").label(), "128K q1");
    assert_eq!(ok("stat:t4:missing").label(), "t4 missing");
    for (spec, label) in [
        ("read:rnd4k:rate=500", "4K rnd q1 @500/s"),
        ("read:rnd4k:q4:rate=500,poisson", "4K rnd q4 @500/s poisson"),
        ("read:rnd4k:rate=50%", "4K rnd q1 @50%"),
        ("write:compress=50:dedupe=20", "1M q1 compress=50 dedupe=20"),
        ("read:rnd4k:iopoll:sqpoll", "4K rnd q1 iopoll sqpoll"),
        ("rewrite:reread:direct", "1M q1 direct reread"),
        ("putc-write:fresh", "t1 fresh"),
        ("read:rnd4k:engine=null", "4K rnd q1 engine=null"),
        ("read:rnd4k:engine=nop", "4K rnd q1 engine=nop"),
        ("read:rnd4k:engine=uring", "4K rnd q1"),
        ("byte-read:t2", "t2"),
        ("byte-write:buffered:sync=none", "t1 sync=none"),
        ("putc-write:unlocked:stdio_buffer=4k", "t1 unlocked stdio_buffer=4K"),
        ("getc-read:threaded", "t1 threaded"),
        ("stat:t2:order=dir", "t2 dir"),
        ("create:names=letters-first:kind=symlink", "t1 letters-first symlink"),
        ("stat:size=0..64k:contents:chunk=8k:names=plain", "t1 64K contents chunk=8K"),
    ] {
        assert_eq!(ok(spec).label(), label, "{spec}");
    }
}

#[test]
fn bytes_have_no_blocks() {
    let defaults = Defaults { direct: Some(true), engine: Some(EngineWord::Uring), ..Defaults::default() };
    for verb in DataVerb::ALL.iter().filter(|verb| verb.is_bytes()) {
        let workload = parse(verb.word(), &defaults).unwrap();
        let data = workload.data().unwrap();
        assert_eq!((data.access, data.block_bytes, data.direct), (Access::Sequential, 1, false));
        assert_eq!((data.engine, data.reads()), (None, !data.writes()), "{verb}");
        assert_eq!(print(&workload), verb.word());
    }
    assert_eq!(
        problem("byte-write:q4"),
        "byte-write works byte by byte: it has no depth; write t4 for several at once"
    );
    assert_eq!(
        problem("getc-read:rnd4k"),
        "`rnd4k`: getc-read works byte by byte: it has no pattern; write read:rnd4k for blocks"
    );
    for word in ["direct", "engine=sync", "iopoll", "sqpoll", "compress=1", "dedupe=1"] {
        let problem = problem(&format!("byte-write:{word}"));
        assert!(problem.starts_with(&format!("`{word}` has no meaning for byte-write")), "{problem}");
    }
    assert!(problem("byte-read:rate=5").contains("it takes tN sync shared files passes ops bytes"));
    assert!(problem("getc-read:sync=end").contains("has no meaning"));
    assert_eq!(
        problem("read:unlocked"),
        "`unlocked` has no meaning for read; putc-write and getc-read take it"
    );
    assert_eq!(problem("putc-write:stdio_buffer=0"), "`stdio_buffer=0`: 1 byte to 64m");
}

#[test]
fn rings_that_poll_need_a_ring() {
    assert!(ok("read:rnd4k:iopoll").data().unwrap().iopoll);
    assert!(ok("read:buffered:sqpoll:engine=uring").data().unwrap().sqpoll);
    assert_eq!(
        problem("read:sqpoll:engine=sync"),
        "sqpoll is a way of io_uring, which engine=sync is not; write engine=uring or leave sqpoll away"
    );
    assert!(problem("read:iopoll:engine=uring:buffered").contains("write direct"));
    assert!(problem("read:sqpoll:buffered").contains("add engine=uring or direct"));
    assert!(problem("fsync:iopoll").contains("leave iopoll away"));
    assert_eq!(problem("read:engine=aio"), "`engine=aio`: write engine=sync|uring|null|nop");
    let null = Defaults { engine: Some(EngineWord::Null), ..Defaults::default() };
    assert_eq!(print(&parse("read", &null).unwrap()), "read:seq1m:engine=null");
    assert_eq!(print(&parse("read:engine=sync", &null).unwrap()), "read:seq1m:engine=sync");
}

#[test]
fn rates_are_plain_or_shares() {
    let arrival = |spec: &str| ok(spec).data().unwrap().arrival;
    let open = |rate, poisson| Arrival::Open { rate, poisson };
    assert_eq!(arrival("read:rate=500"), open(OpenRate::PerSecond(500), false));
    assert_eq!(arrival("read:rate=10%,poisson"), open(OpenRate::Percent(10), true));
    assert!(problem("read:rate=0").contains("write rate=500"));
    assert!(problem("read:rate=0%").contains("write rate=500"));
    assert!(problem("read:rate=120%").contains("1% to 100%"));
    for rate in ["1k", "+5", "5.0", "", "-1", "%"] {
        assert!(problem(&format!("read:rate={rate}")).contains("such as 500"), "{rate}");
    }
    assert_eq!(problem("read:rate=5,bursts"), "`rate=5,bursts`: write rate=5 or rate=5,poisson");
}

#[test]
fn fresh_files_are_written_once() {
    let fresh = ok("write:seq8k:buffered:fresh");
    let data = fresh.data().unwrap();
    assert_eq!((data.fresh, data.passes), (true, Some(1)));
    assert_eq!(print(&fresh), "write:seq8k:buffered:fresh");
    assert_eq!(ok("write:seq8k:buffered:fresh:passes=1"), fresh);
    assert_eq!(fresh.label(), "8K q1 buffered fresh");
    assert_eq!(
        problem("write:rnd8k:fresh"),
        "fresh writes new files from their beginning to their end; write seq8k for rnd8k, or leave fresh away"
    );
    for verb in ["read", "rw", "rewrite", "fsync", "byte-read", "getc-read"] {
        assert_eq!(
            problem(&format!("{verb}:fresh")),
            format!(
                "`fresh` has no meaning for {verb}: only tests that write and nothing else make their files; put \
                 write:fresh before it"
            )
        );
    }
    for verb in ["byte-write", "putc-write"] {
        let bytes = ok(&format!("{verb}:fresh:files=2"));
        let data = bytes.data().unwrap();
        assert_eq!(
            (data.fresh, data.passes, print(&bytes)),
            (true, Some(1), format!("{verb}:files=2:fresh"))
        );
    }
    assert!(problem("byte-write:fresh:bytes=3m").contains("bytes=3m is another end"));
    for count in ["passes=2", "ops=10", "bytes=4m"] {
        let key = count.split('=').next().unwrap();
        assert_eq!(
            problem(&format!("write:fresh:{count}")),
            format!(
                "fresh ends when its files are full, and {count} is another end; leave {key} away, and ask for files \
                 of another --size"
            )
        );
    }
    assert_eq!(
        problem("write:fresh:engine=null"),
        "fresh makes files, which engine=null does not touch; leave one of them away"
    );
    assert_eq!(problem("write:fresh=1"), "`fresh=1`: `fresh` takes no value");
    assert_eq!(problem("create:fresh"), "`fresh` has no meaning for create");
}

#[test]
fn what_was_rewritten_may_be_read_again() {
    let workload = ok("rewrite:seq1m:reread");
    assert!(workload.data().unwrap().reread);
    assert_eq!(print(&workload), "rewrite:seq1m:reread");
    for verb in ["read", "write", "rw", "fsync", "byte-read", "putc-write"] {
        assert_eq!(
            problem(&format!("{verb}:reread")),
            format!("`reread` has no meaning for {verb}; write rewrite:reread")
        );
    }
    assert_eq!(problem("rewrite:reread=2"), "`reread=2`: `reread` takes no value");
    assert_eq!(
        problem("rewrite:sync=each:reread"),
        "reread reads what was just written, before it is durable; write sync=none|close|end, or leave reread away"
    );
}

#[test]
fn files_are_one_for_each_thread_unless_asked_otherwise() {
    for (spec, printed, label) in [
        ("rw:rnd8k:t10:files=2", "rw:rnd8k:t10:files=2", "8K rnd q1t10 files=2"),
        ("read:t2:files=5", "read:seq1m:t2:files=5", "1M q1t2 files=5"),
        ("read:t4:files=4", "read:seq1m:t4", "1M q1t4"),
        ("read:files=1", "read:seq1m", "1M q1"),
        ("read:t4:files=1", "read:seq1m:t4:shared", "1M q1t4 shared"),
        ("read:t4:shared:files=1", "read:seq1m:t4:shared", "1M q1t4 shared"),
        // Depth may become threads, each with a file of its own.
        ("read:q8t2:files=2", "read:seq1m:q8t2:files=2", "1M q8t2 files=2"),
        ("read:q8:files=1", "read:seq1m:q8:shared", "1M q8 shared"),
        ("byte-read:t4:files=1", "byte-read:t4:shared", "t4 shared"),
        ("byte-write:t4:files=2", "byte-write:t4:files=2", "t4 files=2"),
    ] {
        let workload = ok(spec);
        assert_eq!((print(&workload), workload.label()), (printed.into(), label.into()), "{spec}");
    }
    assert_eq!(
        problem("read:t4:shared:files=2"),
        "shared is one file for all threads; leave shared or files=2 away"
    );
    assert_eq!(problem("read:files=0"), "`files=0`: 1 to 4096 can be asked for");
}

#[test]
fn mistakes_name_the_nearest_word() {
    assert_eq!(problem("reed"), "unknown verb `reed`, did you mean `read`?");
    assert_eq!(problem("read:bufered"), "unknown word `bufered`, did you mean `buffered`?");
    assert_eq!(problem("read:ops"), "`ops`: write ops=N");
    assert_eq!(problem("read:shared=1"), "`shared=1`: `shared` takes no value");
    assert_eq!(problem("read:read=20"), "`read=20` has no meaning for read");
    assert_eq!(problem("create:q4"), "file operations have no depth; write t4 for as many at once");
    assert_eq!(problem("write:sync=now"), "`sync=now`: write sync=none|close|end|each");
    assert_eq!(problem("create:files=2:t4"), "2 files are too few for 4 threads; write files=4 or more");
    assert_eq!(problem("read:q0"), "`q0`: 1 to 4096 can be asked for");
    assert!(problem("read:rnd0").contains("1 byte to 1g"));
    assert!(problem("zzz").starts_with("unknown verb `zzz`; verbs are read write"));
}

#[test]
fn directories_are_followed_where_there_is_something_to_follow() {
    for verb in ["stat", "open", "unlink"] {
        assert_eq!(ok(&format!("{verb}:order=dir:t2:dirs=3")).files().unwrap().order, Order::Directory);
    }
    for verb in ["create", "readdir", "rename", "link", "symlink", "mkdir", "rmdir"] {
        assert_eq!(
            problem(&format!("{verb}:order=dir")),
            format!(
                "`order=dir`: only stat, open and unlink follow a directory; write order=seq|rnd for {verb}"
            )
        );
    }
    assert!(problem("stat:order=dir:missing").contains("leave missing away"));
    assert!(problem("stat:order=dir:t2:shared").contains("leave shared away"));
    assert_eq!(problem("stat:order=name"), "`order=name`: write order=seq|rnd|dir");
}

#[test]
fn links_have_names_and_nothing_else() {
    let work = ok("create:kind=hardlink:names=number-first");
    let work = work.files().unwrap();
    assert_eq!((work.kind, work.naming), (FileKind::Hardlink, Naming::NumberFirst));
    assert_eq!(print(&ok("stat:kind=file:names=plain")), "stat");
    for verb in ["readdir", "rename", "link", "symlink", "mkdir", "rmdir"] {
        let problem = problem(&format!("{verb}:kind=symlink"));
        assert!(problem.ends_with("create, stat, open and unlink take it"), "{problem}");
    }
    assert_eq!(
        problem("create:kind=symlink:size=1..4k"),
        "links have no bytes of their own; leave size away, or write kind=file in place of kind=symlink"
    );
    assert!(problem("stat:kind=hardlink:missing").contains("leave missing or kind=hardlink away"));
    assert!(problem("create:kind=hardlink:order=rnd").contains("write order=seq"));
    assert_eq!(ok("unlink:kind=hardlink:order=rnd").files().unwrap().order, Order::Random);
    assert_eq!(problem("create:kind=pipe"), "`kind=pipe`: write kind=file|hardlink|symlink");
    assert_eq!(problem("stat:names=odd"), "`names=odd`: write names=plain|number-first|letters-first");
}

#[test]
fn chunks_are_of_what_is_written_or_read() {
    assert_eq!(ok("create:size=1m:chunk=8k").files().unwrap().chunk_bytes, 8192);
    assert!(ok("stat:contents").files().unwrap().contents);
    assert_eq!(print(&ok("stat:contents:size=4k:chunk=1m")), "stat:size=4k:contents");
    for (spec, told) in [
        ("create:chunk=8k", "`chunk=8k`: the files are empty; add size=SIZE or leave chunk away"),
        ("stat:contents:chunk=8k", "`chunk=8k`: the files are empty; add size=SIZE or leave chunk away"),
        (
            "stat:size=4k:chunk=8k",
            "`chunk=8k`: stat reads nothing by itself; add contents or leave chunk away",
        ),
        (
            "unlink:size=4k:chunk=8k",
            "`chunk=8k` has no meaning for unlink; create:size=SIZE and stat:contents:size=SIZE take it",
        ),
        ("create:size=4k:chunk=255", "`chunk=255`: 256 to 1m can be asked for"),
        ("create:size=4k:chunk=2m", "`chunk=2m`: 256 to 1m can be asked for"),
        ("open:contents", "`contents` has no meaning for open; write stat:contents"),
        ("stat:contents=yes", "`contents=yes`: `contents` takes no value"),
        ("stat:missing:contents", "what does not exist has no contents; leave missing or contents away"),
    ] {
        assert_eq!(problem(spec), told, "{spec}");
    }
}

fn any_arrival() -> impl Strategy<Value = Arrival> {
    let rate =
        prop_oneof![(1..=RATE_MAX).prop_map(OpenRate::PerSecond), (1u8..=100).prop_map(OpenRate::Percent)];
    prop_oneof![
        Just(Arrival::Closed),
        (rate, any::<bool>()).prop_map(|(rate, poisson)| Arrival::Open { rate, poisson }),
    ]
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let limit = || proptest::option::of(1u64..1 << 40);
    let data = (
        proptest::sample::select(DataVerb::ALL),
        proptest::sample::select(Access::ALL),
        1u64..=BLOCK_BYTES_MAX,
        (any::<(bool, bool, bool)>(), proptest::option::of(2u32..=CONCURRENCY_MAX)),
        (0u8..=100, 0u8..=100, 0u8..=100),
        proptest::sample::select(SyncMode::ALL),
        (limit(), limit(), 1u64..1 << 40, any::<bool>()),
        any_arrival(),
        (proptest::option::of(proptest::sample::select(EngineWord::ALL)), any::<(bool, bool)>()),
        (any::<bool>(), proptest::option::of(1u64..=STDIO_BUFFER_BYTES_MAX)),
    )
        .prop_map(|(verb, access, block_bytes, files, percents, sync, limits, arrival, ring, stdio)| {
            let ((direct, shared, fresh), files) = files;
            let (read, compress_percent, dedupe_percent) = percents;
            let sync = match sync {
                _ if !verb.writes() => SyncMode::End,
                SyncMode::Each if verb.is_bytes() => SyncMode::End,
                sync => sync,
            };
            let data = DataWork {
                verb,
                access,
                block_bytes,
                direct,
                read_percent: if verb == DataVerb::Rw { read } else { 50 },
                update: verb == DataVerb::Rw && read % 2 == 1,
                reread: verb == DataVerb::Rewrite && read % 2 == 1 && sync != SyncMode::Each,
                sync,
                shared,
                files: files.filter(|_| !shared),
                fresh: false,
                arrival,
                compress_percent,
                dedupe_percent,
                engine: ring.0,
                iopoll: false,
                sqpoll: false,
                unlocked: verb.is_stdio() && stdio.0,
                threaded: verb.is_stdio() && read % 3 == 1,
                stdio_buffer_bytes: stdio.1.filter(|_| verb.is_stdio()),
                passes: limits.0,
                ops: limits.1,
                bytes: limits.3.then_some(limits.2),
            };
            let in_ring = match data.engine {
                None => data.direct,
                Some(engine) => engine == EngineWord::Uring,
            };
            let makes_files = !matches!(data.engine, Some(EngineWord::Null | EngineWord::Nop));
            let is_in_order = access == Access::Sequential || verb.is_bytes();
            let fresh = fresh && verb.can_make_files() && is_in_order && (makes_files || verb.is_bytes());
            let data = DataWork {
                bytes: data.bytes.filter(|_| !fresh),
                passes: if fresh { Some(1) } else { data.passes },
                ops: data.ops.filter(|_| !fresh),
                fresh,
                ..data
            };
            let syncs_each = verb == DataVerb::Fsync || sync == SyncMode::Each;
            Work::Data(if verb.is_bytes() {
                DataWork {
                    access: Access::Sequential,
                    block_bytes: 1,
                    direct: false,
                    arrival: Arrival::Closed,
                    compress_percent: 0,
                    dedupe_percent: 0,
                    engine: None,
                    ..data
                }
            } else {
                DataWork {
                    iopoll: ring.1.0 && in_ring && data.direct && !syncs_each,
                    sqpoll: ring.1.1 && in_ring,
                    // Less than one block is refused.
                    bytes: data.bytes.map(|bytes| bytes.max(block_bytes)),
                    ..data
                }
            })
        });
    let files = (
        proptest::sample::select(FileVerb::ALL),
        4096u64..=FILES_MAX,
        (0u64..=1 << 20, 0u64..=1 << 20),
        (1u64..=DIRS_MAX, 1u32..=LEVELS_MAX),
        proptest::sample::select(Order::ALL),
        any::<(bool, bool, bool)>(),
        proptest::sample::select(SyncMode::ALL),
        (proptest::sample::select(Naming::ALL), proptest::sample::select(FileKind::ALL)),
        (any::<bool>(), CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX),
    )
        .prop_map(
            |(verb, files, (a, b), (dirs, levels), order, (shared, cold, missing), sync, names, chunk)| {
                let is_looked_for = matches!(verb, FileVerb::Stat | FileVerb::Open | FileVerb::Unlink);
                let missing = missing && is_looked_for;
                let (naming, kind) = names;
                let takes_kind = (is_looked_for || verb == FileVerb::Create) && !missing;
                let kind = if takes_kind { kind } else { FileKind::File };
                let (a, b) = if kind == FileKind::File { (a, b) } else { (0, 0) };
                let order = match order {
                    Order::Directory if !is_looked_for || missing || shared => Order::Sequential,
                    Order::Random if verb == FileVerb::Create && kind != FileKind::File => Order::Sequential,
                    order => order,
                };
                let contents = chunk.0 && verb == FileVerb::Stat && !missing;
                let moves_bytes = a.max(b) > 0 && (contents || verb == FileVerb::Create);
                Work::Files(FilesWork {
                    size_min_bytes: a.min(b),
                    size_max_bytes: a.max(b),
                    dirs,
                    levels,
                    order,
                    shared,
                    cold,
                    missing,
                    passes: (files % 3 == 0).then_some(files),
                    sync,
                    naming,
                    kind,
                    contents,
                    chunk_bytes: if moves_bytes { chunk.1 } else { CHUNK_BYTES_MAX },
                    ..FilesWork::new(verb, files)
                })
            },
        );
    (prop_oneof![data, files], 1u32..=64, 1u32..=64).prop_map(|(work, iodepth, threads)| {
        let in_blocks = matches!(&work, Work::Data(data) if !data.verb.is_bytes());
        let iodepth = if in_blocks { iodepth } else { 1 };
        Workload { threads, iodepth, work }.with_usual_files()
    })
}

proptest! {
    #[test]
    fn printing_reads_back(workload in any_workload()) {
        let text = print(&workload);
        prop_assert_eq!(parse(&text, &Defaults::default()), Ok(workload), "{}", text);
    }

    #[test]
    fn parsing_never_panics(text in "[a-z]{0,8}(:[a-z0-9=.]{0,12}){0,4}") {
        let _ = parse(&text, &Defaults::default());
    }
}
