//! Impossible requests are refused before anything is written: exit code 2, with the path, the cause and what to do.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::fuse::{Faults, Fuse};
use crate::support::mounts::{LoopFs, Tmpfs};
use crate::support::program::{Output, assert_nothing_left, document, open_to_all, phases, skye};
use crate::support::scratch;

/// Runs in a directory with these words, adds the words that they lack, and expects a refusal.
#[track_caller]
fn refused(directory: &Path, words: &str, message: &[&str]) -> Output {
    let mut program = skye().arg("run").arg(directory).words(words);
    for (option, value) in [("--test", "read:rnd4k"), ("--size", "1m"), ("--time", "0.1")] {
        let is_reported = words.contains(option) || (option == "--test" && words.contains("--preset"));
        if !is_reported {
            program = program.arg(option).arg(value);
        }
    }
    program.run().exits(2).did_not_panic().stderr_contains(message).has_no_result()
}

#[test]
fn missing_directory_is_refused() {
    let home = scratch(0);
    let missing = home.path().join("missing");
    refused(&missing, "", &[missing.to_str().unwrap(), "No such file or directory"]);
    assert!(!missing.exists());
}

#[test]
fn target_that_is_not_a_directory_is_refused() {
    let home = scratch(0);
    let file = home.path().join("file");
    fs::write(&file, "precious").unwrap();
    refused(&file, "", &[file.to_str().unwrap(), "directory"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    refused(Path::new("/dev/null"), "", &["/dev/null", "directory"]);
}

#[test]
fn read_only_file_system_is_refused() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", None);
    crate::support::mounts::run(
        std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(tmpfs.path()),
    );
    refused(
        tmpfs.path(),
        "--size 1m --allow low-space",
        &[tmpfs.path().to_str().unwrap(), "read-only", "choose a directory"],
    );
}

#[test]
fn directory_without_write_permission_is_refused() {
    xtask::require!(root, user);
    let home = scratch(0);
    open_to_all(home.path());
    let ran = skye().arg("run").arg(home.path()).words("--test read:rnd4k --size 1m --time 0.1");
    let ran = ran.by_other_user().run().did_not_panic();
    ran.stderr_contains(&[home.path().to_str().unwrap(), "Permission denied", "choose a directory"]).exits(2);
    assert_nothing_left(home.path());
}

#[test]
fn too_little_space_is_refused() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", None);
    let path = tmpfs.path().to_str().unwrap();
    refused(tmpfs.path(), "--size 64m --allow low-space", &[path, "64 MiB", "free", "smaller --size"]);
    // The data would fit, but less than the reserve would stay free.
    refused(tmpfs.path(), "--size 13m", &[path, "less a reserve of 4 MiB", "--allow low-space"]);
    refused(
        tmpfs.path(),
        "--test create:size=1m:files=64 --size 1m --allow low-space",
        &[path, "free", "smaller"],
    );
    assert_nothing_left(tmpfs.path());
}

#[test]
fn unsupported_flag_of_calls_is_named_before_layout() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", None);
    let run = |test: &str| {
        let program =
            skye().arg("run").arg(tmpfs.path()).words("--size 1m --time 0.1 --allow low-space --test");
        program.arg(test).run().did_not_panic().exits(1)
    };
    run("write:seq64k:uncached").stderr_contains(&["RWF_DONTCACHE needs Linux 6.14", "drop uncached"]);
    run("write:rnd4k:atomic").stderr_contains(&["RWF_ATOMIC needs Linux 6.11", "drop atomic"]);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn too_few_inodes_are_refused() {
    xtask::require!(root, tmpfs);
    let tmpfs = Tmpfs::new("16m", Some(100));
    let message = [tmpfs.path().to_str().unwrap(), "inodes", "use a smaller --files"];
    refused(tmpfs.path(), "--test create:files=1000 --size 1m --allow low-space", &message);
    assert_nothing_left(tmpfs.path());
}

#[test]
fn invalid_option_values_are_refused() {
    let home = scratch(0);
    for (words, message) in [
        ("--size 0", "--size"),
        ("--size=-5", "-5"),
        ("--size 16q", "16q"),
        ("--size 99999999999t", "99999999999t"),
        ("--size 9999999t", "free"),
        ("--size 5000%", "5000%"),
        ("--size 1000", "--size 4k"),
        ("--time 0", "--time"),
        ("--time=-1", "-1"),
        ("--time forever", "forever"),
        ("--repeat 0", "repeat"),
        ("--repeat 1001", "use --repeat 1 to 1000"),
        ("--files 0", "--files"),
        ("--test write --write-limit 1k", "write-limit"),
        ("--test create --files 1000000000000", "976562500k files are more than 4g"),
        ("--test write:bytes=1000", "bytes=1m or more"),
        ("--json - --csv -", "more than one format"),
        ("--json - --html -", "more than one format"),
        ("--test write:seq0", "seq0"),
        ("--test write:seq99999t", "seq99999t"),
        ("--test read:q0", "q0"),
        ("--test read:t999999999", "t999999999"),
        ("--test create:files=99999999999999999999", "files"),
    ] {
        refused(home.path(), words, &[message]);
    }
    assert_nothing_left(home.path());
}

#[test]
fn mistyped_words_suggest_the_nearest() {
    let home = scratch(0);
    refused(home.path(), "--test raed:rnd4k", &["raed", "`read`"]);
    refused(home.path(), "--test create:flies=5", &["flies", "`files`"]);
    refused(home.path(), "--preset standart", &["standart", "standard"]);
    refused(home.path(), "--sise 1m", &["--sise", "--size"]);
    refused(home.path(), "--allow lowspace", &["lowspace", "low-space"]);
}

#[test]
fn preset_error_names_line_and_nearest_word() {
    let home = scratch(0);
    let preset = home.path().join("mine.toml");
    let path = preset.to_str().unwrap();
    for (text, message) in [
        ("tests = [\"read:rnd4k\"]\nsize = \"1m\"\nrepaet = 2\n", &["line 3", "repaet", "`repeat`"][..]),
        ("tests = [\"raed:rnd4k\"]\n", &["raed", "`read`"]),
        ("tests = [\"read:rnd4k\"\nsize = 5\n", &["line"]),
        ("\nsize = \"4q\"\n", &["line 2", "4q"]),
    ] {
        fs::write(&preset, text).unwrap();
        let ran = skye().arg("run").arg(home.path()).words("--preset").arg(&preset).run();
        ran.exits(2).did_not_panic().stderr_contains(&[path]).stderr_contains(message);
    }
    fs::remove_file(&preset).unwrap();
    let ran = skye().arg("run").arg(home.path()).words("--preset").arg(&preset).run();
    ran.exits(2).did_not_panic().stderr_contains(&[path, "No such file or directory"]);
    assert_nothing_left(home.path());
}

#[test]
fn unaligned_direct_io_block_size_is_refused() {
    xtask::require!(root, loop, ext4);
    let ext4 = LoopFs::new("ext4", 64, &[], "");
    for (test, message) in [
        (
            "read:rnd1000",
            [
                "read:rnd1000",
                "1kB is 1000 bytes",
                "multiples of 512",
                "use rnd1k (1024 bytes), or add :buffered",
            ],
        ),
        ("read:rnd4kB", ["read:rnd4000", "4kB is 4000 bytes", "multiples of 512", "use rnd4k (4096 bytes)"]),
        ("read:rnd700", ["read:rnd700", "the block size is 700 bytes", "multiples of 512", "use rnd1k"]),
    ] {
        let words = format!("--size 8m --allow low-space --test {test}");
        refused(ext4.path(), &words, &message).stderr_contains(&[ext4.path().to_str().unwrap()]);
    }
    // The remedy works.
    let ran =
        skye().arg("run").arg(ext4.path()).words("--test read:rnd1000:buffered --size 8000k --time 0.1");
    ran.words("--allow low-space,busy").run().exits(0);
    assert_nothing_left(ext4.path());
}

#[test]
fn refused_direct_io_marks_buffered_rows() {
    xtask::require!(root, fuse);
    let at_open = Faults { refuse_direct: true, ..Faults::default() };
    for faults in [at_open, Faults { refuse_direct_writes: true, ..Faults::default() }] {
        let fuse = Fuse::new(faults);
        let ran = skye();
        let json = ran.home().join("run.json");
        let ran = ran.arg("run").arg(fuse.path()).arg("--json").arg(&json).words("--size 4m --time 0.2");
        let ran =
            ran.words("--test write:rnd4k:q4 --test write:seq64k:buffered --test create:files=50").run();
        let ran = ran.did_not_panic().exits(0).output_contains(&["refuses O_DIRECT", "--buffered"]);
        let run = document(&json);
        assert_eq!(phases(&run), [("write", "done"), ("write", "done"), ("create", "done")], "{ran}");
        let verdict = |index: usize| &run["phases"][index]["verdict"]["trust_reasons"][0];
        assert_eq!(verdict(0), "o_direct_ineffective", "{ran}");
        assert_ne!(verdict(1), "o_direct_ineffective", "{ran}");
        assert_nothing_left(fuse.path());
    }
}

#[test]
fn unwritable_output_is_refused_before_measuring() {
    let home = scratch(0);
    let nowhere = home.path().join("missing/run.json");
    for option in ["--json", "--csv"] {
        let ran = skye().arg("run").arg(home.path()).words("--test read:rnd4k --size 1m --time 0.1");
        let ran = ran.arg(option).arg(&nowhere).run().exits(2).did_not_panic();
        ran.stderr_contains(&[nowhere.to_str().unwrap(), "No such file or directory"]).has_no_result();
    }
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    assert_nothing_left(home.path());
}

#[test]
fn oversized_or_endless_input_file_is_refused() {
    let home = scratch(0);
    let sparse = home.path().join("sparse.toml");
    fs::File::create(&sparse).unwrap().set_len(3 << 30).unwrap();
    let pipe = home.path().join("pipe.toml");
    crate::support::mounts::run(std::process::Command::new("mkfifo").arg(&pipe));
    let cases = [
        (sparse.as_path(), "has more than"),
        (&pipe, "a device or a pipe"),
        (Path::new("/dev/zero"), "a device or a pipe"),
    ];
    for (file, why) in cases {
        let path = file.to_str().unwrap();
        // The limit is much less than the size of the file.
        let limited = || skye().within("-v 1000000");
        let runs = [
            limited().arg("report").arg(file),
            limited().arg("compare").arg(file).arg(file),
            limited().arg("run").arg(home.path()).arg("--preset").arg(file),
            limited().arg("run").arg(format!("sim:{path}")),
        ];
        for run in runs {
            run.run().did_not_panic().exits(2).stderr_contains(&[path, why]);
        }
        limited().arg("bon_csv2html").arg(file).run().did_not_panic().exits(1).stderr_contains(&[path, why]);
    }
}

#[test]
fn out_of_range_device_values_are_refused() {
    let home = scratch(0);
    let file = home.path().join("device.toml");
    for (text, message) in [
        ("latency = { mean_us = 0 }", "use 0.1 µs or more"),
        ("latency = { mean_us = 1e-30 }", "use 0.1 µs or more"),
        ("latency = { mean_us = 100 }\nsize = \"1\"", "the minimum is 1m"),
        ("latency = { mean_us = 100 }\ncpu_ns_per_op = 9223372036854775807", "a second of CPU time"),
        (
            "latency = { mean_us = 100 }\n[cache]\nbytes = \"1m\"\nlatency_us = 0\ndrain_bytes_per_second = 1",
            "0.1",
        ),
    ] {
        fs::write(&file, text).unwrap();
        let ran = skye().arg("run").arg(format!("sim:{}", file.display())).words("--test read:rnd4k").run();
        ran.did_not_panic().exits(2).stderr_contains(&[file.to_str().unwrap(), message]);
    }
    refused(home.path(), "--write-limit 18446744073709551615", &["too large to have an effect"]);
    assert_nothing_left(home.path());
}

#[test]
fn non_utf8_directory_name_is_refused() {
    let home = scratch(0);
    let named = home.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    // The name that results if bytes that are no UTF-8 are replaced.
    let other = home.path().join("\u{fffd}");
    [&named, &other].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let ran = skye().arg("run").arg(&named).words("--size 1m --time 0.1 --test read:rnd4k").run();
    ran.exits(2).output_contains(&["not UTF-8"]).has_no_result();
    assert_nothing_left(&named);
    assert_nothing_left(&other);
}
