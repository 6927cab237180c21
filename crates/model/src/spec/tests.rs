//! Tests of how specs are understood, and of why they are refused.

use super::*;
use crate::workload::{Arrival, Naming, OpenRate};
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
fn sizes_in_specs_accept_all_suffixes() {
    for (theirs, ours) in [
        ("read:rnd4KiB", "read:rnd4k"),
        ("read:RND4K", "read:rnd4k"),
        ("read:seq1MiB:zones=256MiB", "read:seq1m:zones=256m"),
        ("read:rnd4kB:buffered", "read:rnd4000:buffered"),
        ("write:seq1MB:bytes=2MB", "write:seq1000000:bytes=2MB"),
        ("read:seq4Ki:range=1MiB..3GiB", "read:seq4k:range=1m..3g"),
        ("create:size=4KiB..64KiB:chunk=8KiB:files=1Ki", "create:size=4k..64k:chunk=8k:files=1k"),
    ] {
        assert_eq!(ok(theirs), ok(ours), "{theirs}");
    }
}

#[test]
fn labels_show_block_size_pattern_depth_and_options() {
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
        ("putc-write:unlocked:stdio_buffer=4k", "t1 unlocked stdio_buffer=4k"),
        ("getc-read:threaded", "t1 threaded"),
        ("stat:t2:order=dir", "t2 dir"),
        ("create:names=letters-first:kind=symlink", "t1 letters-first symlink"),
        ("stat:size=0..64k:contents:chunk=8k:names=plain", "t1 64K contents chunk=8k"),
    ] {
        assert_eq!(ok(spec).label(), label, "{spec}");
    }
}

#[test]
fn zones_are_read_once_in_sequence() {
    for spec in [
        "read:seq1m:zones=200",
        "read:seq64k:buffered:range=1m..3g:zones=2m:every=3",
        "read:rnd4k:range=0..1t",
    ] {
        assert_eq!(print(&ok(spec)), spec);
    }
    assert_eq!(ok("read:zones=200").label(), "1M q1 zones=200");
    assert_eq!(ok("read:zones=5").data().unwrap().passes, Some(1));
    for (spec, expected) in [
        ("read:rnd4k:zones=5", "zones are read sequentially; use seq4k instead of rnd4k"),
        ("read:q2:zones=5", "drop depth, threads and rate"),
        ("read:zones=5:rate=9", "drop depth, threads and rate"),
        ("read:zones=5:ops=9", "zones end after one pass, so ops=9 has no effect; drop ops"),
        ("read:zones=0", "`zones=0`: the range is 1 to 1048576 zones"),
        ("read:zones=1025b", "`zones=1025b`"),
        ("read:zones=64k", "zones=64k: use a multiple of the block size 1m"),
        ("read:every=2", "every=2 requires zones; add for example zones=256m"),
        ("read:range=5", "use range=FROM..TO, for example range=10g..20g"),
        ("read:range=5g..5g", "the end must be after the start"),
        ("write:zones=5", "`zones=5` does not apply to write; use read:zones"),
        ("byte-read:range=0..1", "does not apply to byte-read; use read:range"),
    ] {
        assert!(problem(spec).contains(expected), "{spec}: {}", problem(spec));
    }
}

#[test]
fn skewed_orders_are_random_and_have_no_passes() {
    for spec in [
        "read:rnd4k:zipf=0.99",
        "rw:rnd8k:q32t4:zipf=1:read=70",
        "write:rnd16k:q4:hot=90/10",
        "fsync:rnd4k:zipf=10",
        "read:rnd4k:zipf=0.001:ops=100",
    ] {
        assert_eq!(print(&ok(spec)), spec);
    }
    assert_eq!(print(&ok("read:rnd4k:zipf=1.20")), "read:rnd4k:zipf=1.2");
    assert_eq!(ok("read:rnd4k:q8:zipf=0.9").label(), "4K rnd q8 zipf=0.9");
    assert_eq!(ok("rw:hot=80/20").label(), "4K rnd q1 hot=80/20");
    for (spec, expected) in [
        ("read:zipf=1", "zipf is a random distribution; use rnd1m instead of seq1m, or drop zipf"),
        ("read:rnd4k:zipf=1:hot=90/10", "zipf and hot are different distributions"),
        ("read:rnd4k:hot=90/10:passes=2", "so it has no passes; drop passes=2, or use ops=N"),
        ("read:rnd4k:zipf=0", "`zipf=0`: the range is 0.001 to 10"),
        ("read:rnd4k:zipf=10.001", "the range is 0.001 to 10"),
        ("read:rnd4k:zipf=99999999", "the range is 0.001 to 10"),
        ("read:rnd4k:zipf=0.9999", "a number with up to three decimals, for example zipf=0.99"),
        ("read:rnd4k:zipf=-1", "a number with up to three decimals"),
        ("read:rnd4k:zipf", "`zipf`: use zipf=THETA"),
        ("read:rnd4k:hot=90", "use hot=A/B with percentages from 1 to 100, for example hot=90/10"),
        ("read:rnd4k:hot=0/10", "percentages from 1 to 100"),
        ("read:rnd4k:hot=10/90", "is not a hot set; use a larger first number"),
        ("byte-read:zipf=1", "`zipf=1` does not apply to byte-read"),
    ] {
        assert!(problem(spec).contains(expected), "{spec}: {}", problem(spec));
    }
}

#[test]
fn discards_move_no_bytes_and_have_one_pass() {
    for spec in ["discard:seq1m", "discard:rnd64k:t4:sync=each", "discard:seq4k:engine=uring:ops=9"] {
        assert_eq!(print(&ok(spec)), spec);
    }
    let flags = Defaults { direct: Some(false), ..Defaults::default() };
    assert_eq!(parse("discard", &flags), parse("discard", &Defaults::default()));
    for (spec, expected) in [
        ("discard:rnd5k", "discard works on whole file system blocks; use rnd8k"),
        ("discard:passes=2", "a second pass has nothing to discard; drop passes=2"),
        ("discard:buffered", "`buffered` does not apply to discard"),
        ("discard:direct", "`direct` does not apply to discard"),
        ("discard:rnd4k:zipf=1", "`zipf=1` does not apply to discard"),
        ("discard:iopoll", "`iopoll` does not apply to discard"),
    ] {
        assert!(problem(spec).contains(expected), "{spec}: {}", problem(spec));
    }
}

#[test]
fn byte_tests_refuse_block_options() {
    let defaults =
        Defaults { direct: Some(true), engine: Some(RequestedEngine::Uring), ..Defaults::default() };
    for verb in DataVerb::ALL.iter().filter(|verb| verb.is_bytes()) {
        let workload = parse(verb.word(), &defaults).unwrap();
        let data = workload.data().unwrap();
        assert_eq!((data.access, data.block_bytes, data.direct), (Access::Sequential, 1, false));
        assert_eq!((data.engine, data.reads()), (None, !data.writes()), "{verb}");
        assert_eq!(print(&workload), verb.word());
    }
    assert_eq!(
        problem("byte-write:q4"),
        "byte-write works byte by byte and has no depth; use t4 for several at once"
    );
    assert_eq!(
        problem("getc-read:rnd4k"),
        "`rnd4k`: getc-read works byte by byte and has no pattern; use read:rnd4k for blocks"
    );
    for word in ["direct", "engine=sync", "iopoll", "sqpoll", "compress=1", "dedupe=1"] {
        let problem = problem(&format!("byte-write:{word}"));
        assert!(problem.starts_with(&format!("`{word}` does not apply to byte-write")), "{problem}");
    }
    assert!(problem("byte-read:rate=5").ends_with("use tN buffered shared files passes ops bytes"));
    assert!(
        problem("byte-write:rate=5").ends_with("use tN buffered sync shared files fresh passes ops bytes")
    );
    assert!(problem("getc-read:rate=5").contains("shared files unlocked threaded stdio_buffer passes"));
    assert!(problem("getc-read:sync=end").contains("does not apply"));
    assert_eq!(
        problem("read:unlocked"),
        "`unlocked` does not apply to read; use it with putc-write and getc-read"
    );
    assert_eq!(problem("putc-write:stdio_buffer=0"), "`stdio_buffer=0`: the range is 1 byte to 64m");
}

#[test]
fn polling_without_io_uring_is_refused() {
    assert!(ok("read:rnd4k:iopoll").data().unwrap().iopoll);
    assert!(ok("read:buffered:sqpoll:engine=uring").data().unwrap().sqpoll);
    assert_eq!(
        problem("read:sqpoll:engine=sync"),
        "sqpoll is for io_uring, not for engine=sync; use engine=uring, or drop sqpoll"
    );
    assert!(problem("read:iopoll:engine=uring:buffered").contains("use direct"));
    assert!(problem("read:sqpoll:buffered").contains("add engine=uring or direct"));
    assert!(problem("read:uncached:iopoll").contains("use direct"));
    assert!(problem("read:direct:uncached").contains("drop direct or uncached"));
    assert!(problem("write:atomic:buffered").contains("drop atomic"));
    assert!(problem("rewrite:sync=dsync").contains("use sync=each with rewrite"));
    assert!(problem("fsync:iopoll").contains("drop iopoll"));
    assert_eq!(problem("read:engine=aio"), format!("`engine=aio`: use engine={}", RequestedEngine::FORM));
    let null = Defaults { engine: Some(RequestedEngine::Null), ..Defaults::default() };
    assert_eq!(print(&parse("read", &null).unwrap()), "read:seq1m:engine=null");
    assert_eq!(print(&parse("read:engine=sync", &null).unwrap()), "read:seq1m:engine=sync");
}

#[test]
fn open_loop_rate_is_a_number_or_a_percentage() {
    let arrival = |spec: &str| ok(spec).data().unwrap().arrival;
    let open = |rate, is_poisson| Arrival::Open { rate, is_poisson };
    assert_eq!(arrival("read:rate=500"), open(OpenRate::PerSecond(500), false));
    assert_eq!(arrival("read:rate=10%,poisson"), open(OpenRate::Percent(10), true));
    assert!(problem("read:rate=0").contains("use rate=500"));
    assert!(problem("read:rate=0%").contains("use rate=500"));
    assert!(problem("read:rate=120%").contains("1% to 100%"));
    for rate in ["1k", "+5", "5.0", "", "-1", "%"] {
        assert!(problem(&format!("read:rate={rate}")).contains("such as 500"), "{rate}");
    }
    assert_eq!(problem("read:rate=5,bursts"), "`rate=5,bursts`: use rate=5 or rate=5,poisson");
}

#[test]
fn interleaved_requires_a_shared_file() {
    let turns = ok("write:seq47008:buffered:shared:interleaved:fresh");
    assert!(turns.data().unwrap().interleaved);
    assert_eq!(print(&turns), "write:seq47008:buffered:shared:interleaved:fresh");
    assert_eq!(problem("read:interleaved"), "interleaved is an order of blocks in one file; add shared");
    assert_eq!(
        problem("read:seq4k:shared:interleaved:range=1m..2m"),
        "interleaved does not support range; drop range or interleaved"
    );
}

#[test]
fn read_file_without_data_is_refused() {
    assert_eq!(print(&ok("read-file:size=3901:shared")), "read-file:size=3901:shared");
    assert_eq!(problem("read-file"), "read-file needs files with data; use for example read-file:size=4k");
    assert!(problem("read-file:size=4k:missing").starts_with("`missing` does not apply to read-file"));
}

#[test]
fn replay_spec_needs_and_shows_its_load_file() {
    let replay = ok("replay:loads/client.txt:t8:no-resolve:passes=2");
    let files = replay.files().unwrap();
    assert_eq!((files.load_file.name.as_str(), files.no_resolve), ("loads/client.txt", true));
    assert!(files.load().is_none() && replay.is_continuous());
    assert_eq!(replay.label(), "client.txt t8 no-resolve");
    assert_eq!(print(&replay), "replay:loads/client.txt:t8:passes=2:no-resolve");
    assert_eq!(print(&replay.with_threads(2)), "replay:loads/client.txt:t2:passes=2:no-resolve");
    assert_eq!(problem("replay"), "replay needs a load file of dbench; use replay:FILE");
    assert_eq!(
        problem("replay:a.txt:files=10"),
        "`files=10` does not apply to replay, which has its own files and calls"
    );
    assert!(problem("replay:a.txt:b.txt").starts_with("unknown keyword `b.txt`"));
    assert!(problem("create:no-resolve").starts_with("`no-resolve` does not apply to create"));
}

#[test]
fn mix_spec_has_a_name_and_default_file_count() {
    let mail = ok("mix:mail:t16");
    let files = mail.files().unwrap();
    assert_eq!((files.mix.to_string().as_str(), files.files), ("mail", 16_000));
    assert_eq!(mail.label(), "mail t16");
    assert_eq!(print(&mail), "mix:mail:t16");
    assert_eq!(print(&mail.with_threads(2)), "mix:mail:t2");
    assert_eq!(print(&ok("mix:mail:files=64k")), "mix:mail:files=64k");
    assert_eq!(print(&ok("mix:web:t4:files=100").with_threads(8)), "mix:web:t8:files=100");
    assert_eq!(
        (ok("mix:home").files().unwrap().dirs, ok("mix:web:files=60").files().unwrap().files),
        (250, 60)
    );
    let names = "mail web home build database photos";
    assert_eq!(problem("mix"), format!("the mix has no name; use mix:NAME, with NAME one of {names}"));
    assert_eq!(problem("mix:male"), format!("`mix:male`: use {names}, or a file such as mix:mine.toml"));
    assert_eq!(problem("mix:mail:t4:files=8"), "mix:mail needs at least 12 files for 4 threads");
    assert_eq!(
        problem("mix:mail:size=4k"),
        "`size=4k` does not apply to mix, which has its own files and calls"
    );
    assert!(problem("mix:mail:mix=web").starts_with("unknown keyword `mix=web`"));
    let paced = ok("mix:mail:t4:rate=500,poisson:shared");
    assert_eq!(print(&paced), "mix:mail:t4:shared:rate=500,poisson");
    assert_eq!(paced.label(), "mail t4 shared @500/s poisson");
    assert_eq!(problem("create:rate=500"), "`rate=500` does not apply to create; use it with a mix");
}

#[test]
fn mix_from_a_file_has_its_parsed_population() {
    const TEXT: &str = "[population]\nfiles = 30\ndirs = 5\nsizes = { median = '4k', p90 = '8k', max = '1m' }\n\
                        [[flow]]\nname = 'f'\nweight = 1\ndo = ['create', 'delete']\n";
    let texts = [("a/mine.toml".to_owned(), TEXT.to_owned())].into();
    let mixes = crate::mix::parse_all(&texts).unwrap();
    let defaults = Defaults { mixes: &mixes, ..Defaults::default() };
    let mine = parse("mix:a/mine.toml:t2", &defaults).unwrap();
    let files = mine.files().unwrap();
    assert_eq!((files.files, files.dirs, mine.label().as_str()), (60, 5, "mine t2"));
    assert_eq!(files.mix().unwrap().population.files, 30);
    // Another run of the file may find another text: the spec has the number.
    assert_eq!(print(&mine), "mix:a/mine.toml:t2:files=60");
    assert_eq!(print(&mine.with_threads(4)), "mix:a/mine.toml:t4:files=120");
    let short = parse("mix:a/mine.toml:files=3:t2", &defaults).unwrap_err();
    assert_eq!(short.problem, "mix:a/mine.toml needs at least 6 files for 2 threads");
    // In a document, only the name is known.
    let named = ok("mix:a/mine.toml:t2:files=65536");
    assert_eq!(
        (named.files().unwrap().mix(), print(&named).as_str()),
        (None, "mix:a/mine.toml:t2:files=64k")
    );
    assert_eq!(crate::mix::file_of("mix: a/mine.toml :t2"), Some("a/mine.toml"));
    assert_eq!((crate::mix::file_of("mix:mail"), crate::mix::file_of("create:a.toml")), (None, None));
    let broken = [("b.toml".to_owned(), TEXT.replace("weight", "wieght"))].into();
    assert_eq!(
        crate::mix::parse_all(&broken).unwrap_err(),
        "b.toml: line 7: unknown keyword `wieght`, did you mean `weight`?"
    );
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
        "fresh writes new files sequentially; use seq8k instead of rnd8k, or drop fresh"
    );
    for verb in ["read", "rw", "rewrite", "fsync", "byte-read", "getc-read"] {
        assert_eq!(
            problem(&format!("{verb}:fresh")),
            format!(
                "`fresh` does not apply to {verb}: only pure write tests create their files; add write:fresh before it"
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
    assert!(problem("byte-write:fresh:bytes=3m").contains("bytes=3m has no effect"));
    for count in ["passes=2", "ops=10", "bytes=4m"] {
        let key = count.split('=').next().unwrap();
        assert_eq!(
            problem(&format!("write:fresh:{count}")),
            format!(
                "fresh ends when its files are full, so {count} has no effect; drop {key}, and use --size"
            )
        );
    }
    assert_eq!(
        problem("write:fresh:engine=null"),
        "fresh creates files, and engine=null uses none; drop one of them"
    );
    assert_eq!(problem("write:fresh=1"), "`fresh=1`: `fresh` takes no value");
    assert_eq!(problem("create:fresh"), "`fresh` does not apply to create");
}

#[test]
fn reread_option_is_valid_only_for_rewrite() {
    let workload = ok("rewrite:seq1m:reread");
    assert!(workload.data().unwrap().reread);
    assert_eq!(print(&workload), "rewrite:seq1m:reread");
    for verb in ["read", "write", "rw", "fsync", "byte-read", "putc-write"] {
        assert_eq!(
            problem(&format!("{verb}:reread")),
            format!("`reread` does not apply to {verb}; use rewrite:reread")
        );
    }
    assert_eq!(problem("rewrite:reread=2"), "`reread=2`: `reread` takes no value");
    assert_eq!(
        problem("rewrite:sync=each:reread"),
        "reread reads each block before it is durable; use sync=none|close|end, or drop reread"
    );
}

#[test]
fn file_count_defaults_to_one_per_thread() {
    for (spec, printed, label) in [
        ("rw:rnd8k:t10:files=2", "rw:rnd8k:t10:files=2", "8K rnd q1t10 files=2"),
        ("read:t2:files=5", "read:seq1m:t2:files=5", "1M q1t2 files=5"),
        ("read:t4:files=4", "read:seq1m:t4", "1M q1t4"),
        ("read:files=1", "read:seq1m", "1M q1"),
        ("read:t4:files=1", "read:seq1m:t4:shared", "1M q1t4 shared"),
        ("read:t4:shared:files=1", "read:seq1m:t4:shared", "1M q1t4 shared"),
        // Depth may become threads, each with its own file.
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
        "shared is one file for all threads; drop shared or files=2"
    );
    assert_eq!(problem("read:files=0"), "`files=0`: the range is 1 to 4096");
}

#[test]
fn spec_error_suggests_the_nearest_keyword() {
    assert_eq!(problem("reed"), "unknown verb `reed`, did you mean `read`?");
    assert_eq!(problem("read:bufered"), "unknown keyword `bufered`, did you mean `buffered`?");
    assert_eq!(problem("read:ops"), "`ops`: use ops=N");
    assert_eq!(problem("read:shared=1"), "`shared=1`: `shared` takes no value");
    assert_eq!(problem("read:read=20"), "`read=20` does not apply to read");
    assert_eq!(problem("create:q4"), "file operations have no depth; use t4 for several at once");
    assert_eq!(problem("write:sync=now"), "`sync=now`: use sync=none|close|end|each|dsync|N");
    // A refusal names only what the verb takes.
    assert_eq!(problem("byte-write:sync=now"), "`sync=now`: use sync=none|close|end");
    assert_eq!(problem("byte-write:sync"), "`sync`: use sync=none|close|end");
    assert_eq!(problem("create:sync=now"), "`sync=now`: use sync=none|end|each");
    assert_eq!(problem("create:order=name"), "`order=name`: use order=seq|rnd");
    assert_eq!(problem("create:files=2:t4"), "2 files are too few for 4 threads; use files=4 or more");
    assert_eq!(problem("read:q0"), "`q0`: the range is 1 to 4096");
    assert!(problem("read:rnd0").contains("1 byte to 1g"));
    assert!(problem("zzz").starts_with("unknown verb `zzz`; use read write"));
}

#[test]
fn directory_order_is_refused_for_unsupported_verbs() {
    for verb in ["stat", "open", "unlink", "append", "xattr-set", "xattr-get"] {
        assert_eq!(ok(&format!("{verb}:order=dir:t2:dirs=3")).files().unwrap().order, Order::Directory);
    }
    for verb in ["create", "readdir", "rename", "link", "symlink", "mkdir", "rmdir"] {
        let problem = problem(&format!("{verb}:order=dir"));
        assert!(
            problem.starts_with("`order=dir`: only stat, open, read-file, unlink, append, "),
            "{problem}"
        );
        assert!(problem.ends_with(&format!(" support it; use order=seq|rnd for {verb}")), "{problem}");
    }
    assert!(problem("stat:order=dir:missing").contains("drop missing"));
    assert!(problem("stat:order=dir:t2:shared").contains("drop shared"));
    assert_eq!(problem("stat:order=name"), "`order=name`: use order=seq|rnd|dir");
}

#[test]
fn tree_option_sets_dirs_and_levels() {
    for (spec, dirs, levels, printed) in [
        ("walk:tree=10x3", 1000, 3, "walk:tree=10x3"),
        ("create:dirs=1000:levels=3", 1000, 3, "create:tree=10x3"),
        ("stat:tree=7x1", 7, 1, "stat:dirs=7"),
        ("stat:dirs=7:levels=2", 7, 2, "stat:dirs=7:levels=2"),
        ("stat:levels=3", 1, 3, "stat:levels=3"),
        ("remove:tree=2x16", 1 << 16, 16, "remove:tree=2x16"),
        ("unlink:tree=2x2:dirs=3", 3, 2, "unlink:dirs=3:levels=2"),
    ] {
        let work = ok(spec);
        let files = work.files().unwrap();
        assert_eq!((files.dirs, files.levels), (dirs, levels), "{spec}");
        assert_eq!(print(&work), printed);
        assert_eq!(ok(printed), work);
    }
    for value in ["", "10", "10x", "x3", "1x3", "0x2", "10x0", "2x17", "10X3", "10x3x2", "-2x3", "1kx1"] {
        let message = problem(&format!("walk:tree={value}"));
        assert!(
            message.starts_with(&format!("`tree={value}`: use WIDTHxDEPTH, such as tree=10x3, with 2")),
            "{message}"
        );
    }
    for value in ["300x4", "65537x1", "4294967296x2", "18446744073709551615x16"] {
        let message = problem(&format!("walk:tree={value}"));
        assert!(
            message.ends_with("more than 65536 directories; use a narrower or flatter tree"),
            "{message}"
        );
    }
    assert!(problem("walk:tree").ends_with("use tree=WIDTHxDEPTH"));
    assert!(problem("mix:mail:tree=2x2").contains("does not apply to mix"));
}

#[test]
fn content_verbs_refuse_missing_or_unsupported_options() {
    let chunk_bytes = |spec| ok(spec).files().unwrap().chunk_bytes;
    assert_eq!((chunk_bytes("append"), chunk_bytes("copy:size=1m")), (4 << 10, 1 << 20));
    assert_eq!(print(&ok("append:chunk=1m")), "append:chunk=1m");
    assert_eq!(print(&ok("append:chunk=4k:size=1m")), "append:size=1m");
    assert_eq!(print(&ok("copy:size=4k:by=read-write")), "copy:size=4k");
    assert_eq!(ok("copy:size=4k:by=reflink").label(), "t1 4K reflink");
    assert_eq!(ok("readlink").files().unwrap().kind, FileKind::Symlink);
    assert_eq!(print(&ok("readlink")), "readlink");
    for (spec, message) in [
        ("truncate", "truncate needs files with data; use for example truncate:size=64k"),
        ("copy", "copy needs files with data; use for example copy:size=64k"),
        (
            "copy:size=4k:by=reflink:chunk=1k",
            "`chunk=1k`: a reflink is one call per file; drop chunk, or use by=read-write or by=copy-range",
        ),
        ("copy:size=4k:by=cp", "`by=cp`: use by=read-write|copy-range|reflink"),
        ("stat:by=reflink", "`by=reflink` does not apply to stat; use it with copy"),
        ("readlink:size=4k", "readlink reads links, which have no data; drop size"),
        ("readlink:files=7:t4", "the first file of each thread is not a link; use files=8 or more"),
        (
            "readlink:kind=file",
            "`kind=file` does not apply to readlink; use it with create, stat, open and unlink",
        ),
        ("walk:order=rnd", "`order=rnd` does not apply to walk"),
        ("remove:order=dir", "`order=dir` does not apply to remove"),
        ("remove:shared", "`shared` does not apply to remove: each thread has its own tree"),
        ("walk:missing", "`missing` does not apply to walk"),
        ("xattr-get:contents", "`contents` does not apply to xattr-get; use stat:contents"),
    ] {
        assert_eq!(problem(spec), message, "{spec}");
    }
}

#[test]
fn link_kinds_refuse_file_data_options() {
    let work = ok("create:kind=hardlink:names=number-first");
    let work = work.files().unwrap();
    assert_eq!((work.kind, work.naming), (FileKind::Hardlink, Naming::NumberFirst));
    assert_eq!(print(&ok("stat:kind=file:names=plain")), "stat");
    for verb in ["readdir", "rename", "link", "symlink", "mkdir", "rmdir"] {
        let problem = problem(&format!("{verb}:kind=symlink"));
        assert!(problem.ends_with("use it with create, stat, open and unlink"), "{problem}");
    }
    assert_eq!(
        problem("create:kind=symlink:size=1..4k"),
        "links have no data; drop size, or use kind=file instead of kind=symlink"
    );
    assert!(problem("stat:kind=hardlink:missing").contains("drop missing or kind=hardlink"));
    assert!(problem("create:kind=hardlink:order=rnd").contains("use order=seq"));
    assert_eq!(ok("unlink:kind=hardlink:order=rnd").files().unwrap().order, Order::Random);
    assert_eq!(problem("create:kind=pipe"), "`kind=pipe`: use kind=file|hardlink|symlink");
    assert_eq!(problem("stat:names=odd"), "`names=odd`: use names=plain|number-first|letters-first");
}

#[test]
fn chunk_without_data_transfer_is_refused() {
    assert_eq!(ok("create:size=1m:chunk=8k").files().unwrap().chunk_bytes, 8192);
    assert!(ok("stat:contents").files().unwrap().contents);
    assert_eq!(print(&ok("stat:contents:size=4k:chunk=1m")), "stat:size=4k:contents");
    for (spec, message) in [
        ("create:chunk=8k", "`chunk=8k`: the files are empty; add size=SIZE, or drop chunk"),
        ("stat:contents:chunk=8k", "`chunk=8k`: the files are empty; add size=SIZE, or drop chunk"),
        ("stat:size=4k:chunk=8k", "`chunk=8k`: stat reads no data; add contents, or drop chunk"),
        (
            "unlink:size=4k:chunk=8k",
            "`chunk=8k` does not apply to unlink; use it with append, or with size=SIZE and create, read-file, copy \
             or stat:contents",
        ),
        ("create:size=4k:chunk=255", "`chunk=255`: the range is 256 to 1m"),
        ("create:size=4k:chunk=2m", "`chunk=2m`: the range is 256 to 1m"),
        ("open:contents", "`contents` does not apply to open; use stat:contents"),
        ("stat:contents=yes", "`contents=yes`: `contents` takes no value"),
        ("stat:missing:contents", "a missing file has no contents; drop missing or contents"),
    ] {
        assert_eq!(problem(spec), message, "{spec}");
    }
}

/// Returns values of a form, as the tables of keys have them.
fn any_value(form: &'static str) -> BoxedStrategy<String> {
    let size = || prop_oneof![256u64..=1 << 20, (1u64..=1 << 10).prop_map(|kib| kib << 10)];
    match form {
        "" => Just(String::new()).boxed(),
        "N" => (1u64..=64).prop_map(|number| number.to_string()).boxed(),
        "PERCENT" => (0u64..=100).prop_map(|percent| percent.to_string()).boxed(),
        "SIZE" => size().prop_map(|bytes| bytes.to_string()).boxed(),
        "SIZE|MIN..MAX" => prop_oneof![
            size().prop_map(|bytes| bytes.to_string()),
            (size(), size()).prop_map(|(a, b)| format!("{}..{}", a.min(b), a.max(b))),
        ]
        .boxed(),
        "none|close|end|each|N" => prop_oneof![
            proptest::sample::select(vec!["none", "close", "end", "each"]).prop_map(str::to_owned),
            (1u32..=100).prop_map(|writes| writes.to_string()),
        ]
        .boxed(),
        "N|SIZE/s|P%[,poisson]" => prop_oneof![
            any_value("N|P%[,poisson]"),
            (1u64..=100, any::<bool>()).prop_map(|(mib, is_poisson)| format!(
                "{mib}m/s{}",
                if is_poisson { ",poisson" } else { "" }
            )),
        ]
        .boxed(),
        "N|P%[,poisson]" => (1u64..=100, any::<(bool, bool)>())
            .prop_map(|(rate, (is_share, is_poisson))| {
                let share = if is_share { "%" } else { "" };
                format!("{rate}{share}{}", if is_poisson { ",poisson" } else { "" })
            })
            .boxed(),
        "WIDTHxDEPTH" => (2u64..=20, 1u32..=4).prop_map(|(width, depth)| format!("{width}x{depth}")).boxed(),
        "THETA" => (1u32..=10_000).prop_map(|theta| format!("{}", f64::from(theta) / 1000.0)).boxed(),
        "A/B" => (1u8..=100, 1u8..=100).prop_map(|(a, b)| format!("{a}/{b}")).boxed(),
        words => {
            proptest::sample::select(words.split('|').collect::<Vec<_>>()).prop_map(str::to_owned).boxed()
        }
    }
}

/// Returns keys with values, among those that a verb takes.
fn any_keys<W>(work: &W, keys: &'static [Key<W>]) -> BoxedStrategy<Vec<String>> {
    let taken: Vec<_> = keys.iter().filter(|key| key.accepts(work)).map(|key| (key.name, key.form)).collect();
    let word = proptest::sample::select(taken).prop_flat_map(|(name, form)| {
        let equals = if form.is_empty() { "" } else { "=" };
        any_value(form).prop_map(move |value| format!("{name}{equals}{value}"))
    });
    proptest::collection::vec(word, 0..5).boxed()
}

/// Returns specs of every verb with up to four keys; some are refused.
fn any_spec() -> impl Strategy<Value = String> {
    let data =
        (proptest::sample::select(DataVerb::ALL), proptest::sample::select(Access::ALL), 1u64..=1 << 20)
            .prop_flat_map(|(verb, access, block_bytes)| {
                let pattern = format!("{access}{block_bytes}");
                let head = vec![Some(verb.word().to_owned()), Some(pattern).filter(|_| !verb.is_bytes())];
                (Just(head), any_keys(&DataWork::new(verb), DATA_KEYS))
            });
    let files = proptest::sample::select(FileVerb::ALL).prop_flat_map(|verb| {
        let file = (verb == FileVerb::Replay).then(|| "load.txt".to_owned());
        (Just(vec![Some(verb.word().to_owned()), file]), any_keys(&FilesWork::new(verb, 64), FILE_KEYS))
    });
    let concurrency = proptest::option::of((1u32..=64, 1u32..=64).prop_map(|(q, t)| format!("q{q}t{t}")));
    (prop_oneof![data, files], concurrency).prop_map(|((head, keys), concurrency)| {
        let words = head.into_iter().flatten().chain(concurrency).chain(keys);
        words.collect::<Vec<_>>().join(":")
    })
}

fn any_workload() -> impl Strategy<Value = Workload> {
    any_spec().prop_filter_map("refused", |spec| parse(&spec, &Defaults::default()).ok())
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
