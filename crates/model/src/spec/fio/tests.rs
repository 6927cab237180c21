use proptest::prelude::*;

use super::super::{Defaults, parse, print};
use super::*;

fn spec_of(spec: &str) -> String {
    translated(spec).unwrap().unwrap_or_else(|| panic!("{spec} is ours")).text
}

fn problem(spec: &str) -> String {
    parse(spec, &Defaults::default()).unwrap_err().problem
}

#[test]
fn examples_pass_as_tests_and_as_command_lines() {
    for FioExample { keys, spec: expected, .. } in FIO_EXAMPLES {
        let spec = keys.trim_start_matches("--").replace(" --", ":");
        assert_eq!(spec_of(&spec), *expected, "{keys}");
        let workload = parse(expected, &Defaults::default()).unwrap();
        assert_eq!(parse(&spec, &Defaults::default()).unwrap(), workload, "{keys}");
        assert_eq!(parse(&print(&workload), &Defaults::default()).unwrap(), workload);
        let (time, option) = match keys.contains("number_ios") {
            true => ("", ""),
            false => (" --runtime=60 --time_based", " --time 60"),
        };
        let words = format!("--name=a{time} {keys}");
        let line = command_line(&words.split(' ').map(str::to_owned).collect::<Vec<_>>()).unwrap();
        assert_eq!(line.text, format!("run . --test {expected}{option}"), "{keys}");
    }
}

#[test]
fn words_of_other_programs_are_translated() {
    for (theirs, expected) in [
        ("randread", "read:rnd4k"),
        ("randwrite:bs=8k", "write:rnd8k"),
        ("randrw:iodepth=16", "rw:rnd4k:q16"),
        ("readwrite:bs=64k", "rw:seq64k"),
        ("randread:bs=4k:iodepth=32:numjobs=4", "read:rnd4k:q32t4"),
        ("read:rand4k:qd32", "read:rnd4k:q32"),
        ("read:bs=128k", "read:seq128k"),
        ("fsync:bs=8k", "fsync:rnd8k"),
        ("seqread", "read"),
        ("write:1m:q8", "write:seq1m:q8"),
        ("randread:numjobs=4:buffered", "read:rnd4k:t4:buffered"),
        ("rw:qd4", "rw:q4"),
        ("rw:8k", "rw:rnd8k"),
        ("rw:rnd8k:rwmixread=70", "rw:read=70:rnd8k"),
        ("RandRead:BS=4k:IODepth=8", "read:rnd4k:q8"),
        ("write:1MiB", "write:seq1MiB"),
        ("replay:/Loads/Client.txt:numjobs=2", "replay:/Loads/Client.txt:t2"),
        // The order of the words says nothing.
        ("numjobs=2:rate=1m:bs=4kb:rw=randwrite:direct=1", "write:rnd4k:t2:direct:rate=2m/s"),
        ("rw=randread:random_distribution=zipf:1.2:iodepth=2", "read:rnd4k:q2:buffered:zipf=1.2"),
        ("rw=randread:random_distribution=random:iodepth=2", "read:rnd4k:q2:buffered"),
        ("rw=randread:group_reporting:thread=1", "read:rnd4k:buffered"),
        (
            "rw=randread:rate_iops=100:numjobs=4:rate_process=poisson",
            "read:rnd4k:t4:buffered:rate=400,poisson",
        ),
        ("rw=randread:rate=1m:t4:rate_process=poisson", "read:rnd4k:buffered:rate=4m/s,poisson:t4"),
        ("rw=randread:ioengine=libaio:iodepth=8", "read:rnd4k:q1:buffered"),
        ("rw=randread:ioengine=posixaio:iodepth=8:readonly", "read:rnd4k:q8:buffered"),
        ("rw=randread:verify_fatal=1:startdelay=60", "read:rnd4k:buffered"),
        ("randread:RANDOM_DISTRIBUTION=zipf:1.2:8k", "read:rnd8k:zipf=1.2"),
        ("rw=randread:direct:iodepth=2", "read:rnd4k:q2:direct"),
        ("rw=write:fsync=1:end_fsync=1", "write:seq4k:buffered:sync=each"),
        ("rw=randread:fsync=1:rwmixread=70", "read:rnd4k:buffered"),
        ("rw=trim:direct=1", "discard:seq4k"),
        ("rw=randrw:rwmixwrite=30:direct=0", "rw:rnd4k:buffered:read=70"),
        ("rw=write:sync=1:buffered=0", "write:seq4k:direct:sync=dsync"),
        ("rw=randread:uncached=1", "read:rnd4k:buffered:uncached"),
        ("rw=read:offset=0:nrfiles=1:fadvise_hint=1", "read:seq4k:buffered"),
        ("rw=randwrite:direct=1:atomic=1:bs=16k", "write:rnd16k:direct:atomic"),
        ("rw=randread:ioengine=psync:iodepth=8:direct", "read:rnd4k:q1:direct:engine=sync"),
        ("rw=randread:nrfiles=4:numjobs=2:direct", "read:rnd4k:t2:direct:files=8"),
        ("rw=write:fsync=100:iodepth=4:direct", "write:seq4k:q4:direct:sync=25"),
    ] {
        assert_eq!(spec_of(theirs), expected, "{theirs}");
        parse(expected, &Defaults::default()).unwrap();
    }
}

#[test]
fn our_words_are_not_translated() {
    for spec in [
        "read:rnd4k:q32t4",
        "create:t4:files=1m:size=4k",
        "fsync",
        "write:seq1m:rate=500",
        "stat:chunk=4k",
        "rw",
        "read:direct",
    ] {
        assert_eq!(translated(spec), Ok(None), "{spec}");
    }
}

#[test]
fn key_with_another_meaning_is_refused() {
    for (spec, expected) in [
        ("rw:bs=1m", "`rw` is random here and sequential in fio"),
        ("rw:numjobs=4", "begin with rw=randrw or rw=readwrite"),
        ("rw=randread:runtime=60", "`runtime=60` is for all tests: use `--time SECONDS`"),
        ("read:rnd4k:size=1g", "use `--size SIZE`"),
        ("rw=randread:percentile_list=50:99", "use `--percentiles LIST`"),
        ("rw=randread:size=1g:runtime=60", "of all threads; `runtime=60` is for all tests"),
        ("rw=randread:bssplit=4k/50:8k/50:nice=1", "`bssplit=4k/50:8k/50`"),
        ("rw=randread:bssplit=4k/50", "`--sweep 4k..1m`"),
        ("rw=randtrim:trim_percentage=1", "no word stands for it"),
        ("rw=randread:bs=4k,8k", "reads and writes have one value here"),
        ("rw=randread:bs=4KiB", "use 4k for units of 1024"),
        ("rw=write:4k", "use bs=4k"),
        ("rw=read:rw=write", "rw is there twice"),
        ("rw=rw:rate=1m", "have a rate each"),
        ("randread:rate=1000:iodepth=4", "bytes in fio and operations here"),
        ("rw=randrw:rate=4k", "`rate=4k`: in fio, reads and writes have a rate each"),
        ("rw=write:fsync=2:fdatasync=3", "drop one of them"),
        ("rw=randread:ioengine=rbd", "map the image with `rbd map`"),
        ("rw=randread:ioengine=aio", "use io_uring, also for libaio"),
        ("rw=trimwrite", "use discard or write"),
        ("rw=reed", "use read, write, rw"),
        ("bs=4k:iodepth=8", "no verb; add for example rw=randread"),
        ("write:rw=read", "the test has the verb write"),
        ("rw=randread:percentage_random=30", "use 0 or 100"),
        ("rw=randread:dist=3", "unknown keyword `dist=3`; `skye help spec`"),
        ("rw=randread:rwmixraed=3", "did you mean `rwmixread`?"),
    ] {
        assert!(problem(spec).contains(expected), "{spec}: {}", problem(spec));
    }
}

#[test]
fn command_line_becomes_one_run() {
    let line = |words: &str| command_line(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let whole = line(
        "--name=x --filename=/mnt/a/f --size=1g --rw=randwrite --bs=4k --iodepth 8 --numjobs=2 --direct=1 --runtime 5m \
         --time_based --group_reporting --verify=crc32c --ioengine=libaio",
    );
    let whole = whole.unwrap();
    assert_eq!(whole.text, "run /mnt/a --test write:rnd4k:q8t2:direct:shared --size 1g --time 300 --verify");
    assert!(
        whole.notes.iter().any(|note| note.starts_with("ioengine=libaio: skye has io_uring")),
        "{whole:?}"
    );
    for (words, expected) in [
        // fio's default engine has no depth.
        ("--rw=randread --iodepth=32 --direct=1 --runtime=9", "run . --test read:rnd4k:direct --time 9"),
        // The time ends what has no end of its own.
        ("--rw=read --loops=10000 --runtime=60 --direct=1", "run . --test read:seq4k:direct --time 60"),
        (
            "--rw=write --bs=1m --filename=/d/f --numjobs=4 --size=1g --offset_increment=1g --direct=1",
            "run /d --test write:seq1m:t4:direct:shared:passes=1 --size 4g",
        ),
        (
            "--rw=read --bs=1m --filename=/d/f --numjobs=4 --size=2g --offset_increment=500m --direct=1",
            "run /d --test read:seq1m:t4:direct:shared:passes=1 --size 3548m",
        ),
        (
            "--kb_base=1000 --rw=write --bs=1024KiB --size=1GiB --direct=1",
            "run . --test write:seq1024k:direct:passes=1 --size 1g",
        ),
        (
            "--kb_base=1000 --rw=write --bs=4k --size=1GB",
            "run . --test write:seq4000:buffered:passes=1 --size 1000000000",
        ),
        (
            "--rw=write --bs=1m --size=32g --direct=1",
            "run . --test write:seq1m:direct:passes=1 --size 32g --write-limit 73GB",
        ),
        (
            "--rw=read --runtime=9 --percentile_list=99:50:100",
            "run . --test read:seq4k:buffered --time 9 --percentiles 50,99",
        ),
        ("--rw=randrw --rwmixread=100 --direct=1 --runtime=9", "run . --test read:rnd4k:direct --time 9"),
    ] {
        assert_eq!(line(words).unwrap().text, expected, "{words}");
    }
    let verified = line("--rw=randrw --direct=1 --size=1g --verify=md5").unwrap();
    assert!(verified.notes.iter().any(|note| note.contains("add --test read after it")), "{verified:?}");
    let two = line("--directory=/d --size=1g --numjobs=4 --name=a --rw=read --name=b --rw=write --stonewall")
        .unwrap();
    assert_eq!(
        two.text,
        "run /d --test read:seq4k:t4:buffered:passes=1 --test write:seq4k:t4:buffered:passes=1 --size 4g"
    );
    for (words, expected) in [
        ("--name=a --rw=read --name=b --rw=write", "jobs without stonewall run at once"),
        ("--rw=read --thinktime=5", "`--thinktime=5`: skye does not have it; `rate=N`"),
        (
            "--ioengine=rbd --pool=a --offset=4k --name=a --name=b",
            "`rbd map`, and measure its device; `--pool=a`",
        ),
        ("--filename=/dev/zero --rw=write --size=1g", "use ioengine=null"),
        ("--rw=read --thinktime=5 --bs=4k/50:8k/50 --size=1GiB", "1g for units of 1024"),
        ("--offset=4k --name=a --name=b", "reads a part of a device or a file; jobs without stonewall"),
        ("--rw=read --iodept=5", "did you mean `iodepth`?"),
        ("job.fio", "does not read job files"),
        ("--rw=read --directory=/a --name=a --name=b --stonewall --directory=/b", "one target"),
        ("--rw=read --name=a --size=1g --name=b --size=2g --stonewall", "--size is for all tests"),
        ("--rw=read:-8k", "none is read backwards"),
        ("--rw=read --filename=/a/1:/a/2", "name one directory"),
        ("--rw=read --time_based", "needs a runtime"),
        ("--rw=randread --numjobs=99999 --runtime=9", "the range is 1 to 4096"),
    ] {
        let problem = line(words).unwrap_err();
        assert!(problem.contains(expected), "{words}: {problem}");
    }
}

#[test]
fn each_name_of_a_key_has_one_entry() {
    let names: Vec<_> = FioKey::all_names().collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
        assert!(FioKey::find(&format!("--{name}")).is_some(), "{name}");
    }
}

proptest! {
    #[test]
    fn any_text_is_translated_without_panic(
        text in any::<String>(),
        words in "(mix|rw|rw=rw|randread)?(:[a-z0-9_=]{0,20}){0,4}",
    ) {
        let _ = translated(&text);
        let _ = translated(&words);
        let _ = command_line(&words.split(':').map(|word| format!("--{word}")).collect::<Vec<_>>());
    }
}
