use proptest::prelude::*;

use super::*;

fn operations(load: &Load) -> Vec<Operation> {
    load.calls.iter().map(|call| call.operation).collect()
}

fn part(slot: u32, at: u64, bytes: u32) -> Part {
    Part { slot, at: PartOffset::Fixed(at), bytes, moved: bytes }
}

#[test]
fn every_operation_becomes_a_call() {
    let load = Load::parse(
        r#"# a comment

Deltree "\clients\client1" NT_STATUS_OK
Mkdir "\clients" NT_STATUS_OK
NTCreateX "\clients\client1" 0x1 0x2 16385 NT_STATUS_OK
Close 16385 NT_STATUS_OK
NTCreateX "\clients\client1\a b.txt" 0x40 0x1 9 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX "\clients\client1\a b.txt" 0x40 0x2 9 NT_STATUS_OK
NTCreateX "/clients/client1/c" 0 5 10 0x00000000
WriteX 9 100 50 50 NT_STATUS_OK
ReadX 9 0 200 150 NT_STATUS_OK
Flush 9 NT_STATUS_OK
LockX 10 2147483538 1 NT_STATUS_OK
UnlockX 10 2147483538 1 NT_STATUS_OK
QUERY_FILE_INFORMATION 10 258 NT_STATUS_OK
SET_FILE_INFORMATION 10 1004 NT_STATUS_OK
query_fs_information 1 NT_STATUS_OK
QUERY_PATH_INFORMATION "\clients\client1\d" 1004 NT_STATUS_OBJECT_PATH_NOT_FOUND
FIND_FIRST "\clients\client1\*" 260 1366 2 NT_STATUS_OK
FIND_FIRST "\clients\client1\c" 260 1366 1 NT_STATUS_OK
Close 9 NT_STATUS_OK
Rename "\clients\client1\c" "\clients\client1\e" NT_STATUS_OK
Unlink "\clients\client1\e" NT_STATUS_OK
Rmdir "\clients" NT_STATUS_DIRECTORY_NOT_EMPTY
"#,
    )
    .unwrap();
    let file = |path, slot, creates_file, truncates_file| Operation::Open {
        path,
        slot,
        creates_file,
        truncates_file,
        is_directory: false,
    };
    assert_eq!(
        operations(&load),
        [
            Operation::Deltree(2),
            Operation::Mkdir(1),
            Operation::Open {
                path: 2,
                slot: Some(0),
                creates_file: false,
                truncates_file: false,
                is_directory: true
            },
            Operation::Close(0),
            file(3, None, false, false),
            file(3, Some(0), true, false),
            file(4, Some(1), true, true),
            Operation::Write(part(0, 100, 50)),
            Operation::Read(Part { moved: 150, ..part(0, 0, 200) }),
            Operation::Flush(0),
            Operation::Lock(Part { moved: 0, ..part(1, 2_147_483_538, 1) }),
            Operation::Unlock(Part { moved: 0, ..part(1, 2_147_483_538, 1) }),
            Operation::QueryFile(1),
            Operation::SetFile { slot: 1, path: 4 },
            Operation::QueryFs,
            Operation::QueryPath(5),
            Operation::Find { path: 6, entries: Some(1366) },
            Operation::Find { path: 4, entries: None },
            Operation::Close(0),
            Operation::Rename { from: 4, to: 7 },
            Operation::Unlink(7),
            Operation::Rmdir(1),
        ]
    );
    // All steps are used. Lines that direct others make no calls.
    let steps: std::collections::HashSet<_> = load.calls.iter().map(|call| call.operation.step()).collect();
    assert_eq!(steps.len(), Operation::STEPS.len());
    assert_eq!((load.lines, load.operations, load.handles, load.line_of[0]), (24, 22, 2, 3));
    assert_eq!((load.written_bytes, load.tree_bytes), (50, 150));
    assert_eq!((load.read_part_bytes, load.written_part_bytes), (200, 50));
    assert_eq!((load.files, load.dirs, load.levels), (5, 2, 2));
    let node = |parent, is_directory, number| Node { parent, is_directory, number };
    assert_eq!(load.nodes[..4], [node(0, true, 0), node(0, true, 0), node(1, true, 1), node(2, false, 0)]);
    let expected: Vec<_> = load.calls[3..6].iter().map(|call| call.expected).collect();
    assert_eq!(expected, [Expected::Success, Expected::Failure, Expected::Success]);
    assert!(load.syncs() && load.left_out.is_empty() && load.due_ns.is_empty());
}

#[test]
fn file_keeps_its_number_when_its_directory_is_renamed() {
    let load = Load::parse(
        r#"Mkdir "\a" NT_STATUS_OK
NTCreateX "\a\x" 0 2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
Rename "\a" "\b" NT_STATUS_OK
QUERY_PATH_INFORMATION "\b\x" 1 NT_STATUS_OK
Rename "\b" "\c" NT_STATUS_OK
Rename "\d" "\c" NT_STATUS_OBJECT_NAME_NOT_FOUND"#,
    )
    .unwrap();
    let kinds: Vec<_> = load.nodes[1..].iter().map(|node| (node.is_directory, node.number)).collect();
    // Both `x` have one name on disk, so the second is found where the directory goes.
    assert_eq!(kinds, [(true, 0), (false, 0), (true, 1), (false, 0), (true, 2), (true, 3)]);
}

#[test]
fn renamed_directory_moves_its_subdirectory_levels() {
    let levels = |lines: &[&str]| {
        let text: Vec<_> = lines.iter().map(|line| format!("{line} NT_STATUS_OK")).collect();
        Load::parse(&text.join("\n").replace('/', "\\")).map(|load| load.levels)
    };
    let three = ["Mkdir /a", "Mkdir /a/b", "Mkdir /a/b/c", "Mkdir /x", "Mkdir /x/y"];
    let then = |renames: &[&'static str]| levels(&[&three[..], renames].concat());
    assert_eq!(then(&[]), Ok(3));
    assert_eq!(then(&["Rename /a /x/y/z"]), Ok(5));
    assert_eq!(then(&["Rename /a/b/c/f /x/y/f"]), Ok(3), "a file takes nothing along");
    // The directory is moved as a whole, or its contents are, whatever the order of the lines.
    assert_eq!(then(&["Rename /a /e", "Rename /e/b /x/y/z", "Rmdir /e/b"]), Ok(4));
    assert_eq!(then(&["Rename /e/b /x/y/z", "Rename /a /d", "Rename /d /e", "Rmdir /e/b"]), Ok(4));
    // Directories that are renamed in turns do not grow, and none moves into itself.
    assert_eq!(then(&["Rename /a /t", "Rename /x /a", "Rename /t /x"]), Ok(3));
    assert_eq!(then(&["Rename /a /a/b/d"]), Ok(3));
    // These lie one in the other, and more so in each pass.
    let problem = then(&["Rename /a /x/y/z", "Rename /x /a"]).unwrap_err();
    assert!(
        problem.starts_with("line 6: renames can nest directories") && problem.contains("`z`"),
        "{problem}"
    );
    let deep = format!("Rename /a {}", "/d".repeat(14));
    assert_eq!(levels(&["Mkdir /a", "Mkdir /a/b", "Mkdir /a/b/c", &deep]), Ok(16));
    let problem = levels(&["Mkdir /a/b/c", &format!("{deep}/d")]).unwrap_err();
    assert!(problem.starts_with("line 2: renames can nest"), "{problem}");
}

#[test]
fn version_5_control_lines_are_parsed() {
    let load = Load::parse(
        "NTCreateX \"\\f\" 0 2 1 SUCCESS\n\
         LOOP 3\nREPEAT 4\nWriteX 1 +10 10 10 NT_STATUS_OK\nReadX 1 *%1024/16+5 1 1 *\nSLEEP 20\nENDLOOP\n\
         LOOP 9\nSLEEP 5\nSETSP 0\nSLEEP 1\nENDLOOP\nLOOP 9\nENDLOOP\n\
         RANDOMSTRING 0 \"x[abc]\"\nSETSP 1\nSETSP 2\nGETATTR3 \"/f\" 0x00000000\n\
         0.25 ReadX 1 +child 1 1 NT_STATUS_OK\n1.5 Flush 1 NT_STATUS_OK\n",
    )
    .unwrap();
    let found = |slot, at, bytes| Part { at: PartOffset::Found(at), ..part(slot, 0, bytes) };
    assert_eq!(
        operations(&load)[1..],
        [
            Operation::Repeat(4),
            Operation::Write(found(0, 0, 10)),
            Operation::Read(found(0, 1, 1)),
            Operation::Sleep(20_000),
            Operation::EndLoop { start: 1, turns: 3 },
            Operation::Sleep(54_000),
            Operation::Read(found(0, 2, 1)),
            Operation::Flush(0),
        ]
    );
    let drawn = [Change::Modulo(1024), Change::Multiple(16), Change::Plus(5)];
    let offsets = [Offset::RelativeBytes(10), Offset::Random(drawn.into()), Offset::RelativeByClientNumber];
    assert_eq!(load.offsets[..], offsets);
    assert_eq!((load.operations, load.written_bytes, load.tree_bytes), (1 + 3 * 5 + 2, 120, 120));
    assert_eq!(load.due_ns[load.due_ns.len() - 2..], [250_000_000, 1_500_000_000]);
    assert_eq!(
        load.left_out_note("my.txt").unwrap(),
        "my.txt: skipped unknown operations: SETSP (3 lines, the first is 10), RANDOMSTRING (line 15), GETATTR3 \
         (line 18)"
    );
}

#[test]
fn tree_size_is_the_peak_total_of_its_files() {
    let load = Load::parse(
        r#"NTCreateX "\d\a" 0 2 1 NT_STATUS_OK
WriteX 1 1000 24 24 NT_STATUS_OK
WriteX 1 0 500 500 NT_STATUS_OK
NTCreateX "\d\b" 0 2 2 NT_STATUS_OK
WriteX 2 0 1000 1000 NT_STATUS_OK
Rename "\d\b" "\d\a" NT_STATUS_OK
WriteX 2 0 100 100 NT_STATUS_OK
Deltree "\d" NT_STATUS_OK
NTCreateX "\c" 0 5 3 NT_STATUS_OK
WriteX 3 0 2000 2000 NT_STATUS_OK"#,
    )
    .unwrap();
    assert_eq!(load.tree_bytes, 2024);
    assert_eq!(load.written_bytes, 24 + 500 + 1000 + 100 + 2000);
}

#[test]
fn broken_lines_are_refused_with_their_number() {
    let deep = format!("Mkdir \"{}\" NT_STATUS_OK", "\\d".repeat(17));
    let named = "NTCreateX \"\\f\" 0 2 1 NT_STATUS_OK\n";
    for (line, problem) in [
        ("Close 1", "`1` is not a status"),
        ("Flush", "`Flush` is not an operation with a status"),
        ("Close 7 NT_STATUS_OK", "handle 7 is not open here"),
        ("Close x NT_STATUS_OK", "the handle is `x`, which is not a whole number"),
        ("Unlink NT_STATUS_OK", "the path is missing"),
        ("Unlink name NT_STATUS_OK", "`name` is not a path"),
        ("Unlink \"\\a NT_STATUS_OK", "a quotation mark is not closed"),
        ("Unlink \"\\..\\a\" NT_STATUS_OK", "is outside the client's directory"),
        (&deep, "has more than 16 levels"),
        ("ReadX 1 0 99999999 0 NT_STATUS_OK", "at most 16 MiB"),
        ("ReadX 1 0 9 10 NT_STATUS_OK", "10 of 9 bytes"),
        ("ReadX 1 *%0 9 9 NT_STATUS_OK", "`*%0` is not an offset"),
        ("ReadX 1 0 * 9 NT_STATUS_OK", "the length is `*`"),
        ("ENDLOOP", "there is no LOOP before it"),
        ("LOOP 0", "LOOP 0 is out of range"),
        ("LOOP", "use LOOP N"),
        ("LOOP 2", "this loop has no ENDLOOP"),
        ("LOOP 2\nLOOP 2", "it is inside the loop"),
        ("LOOP 2\nClose 1 NT_STATUS_OK\nENDLOOP", "changes the set of open handles"),
        ("REPEAT 2\nClose 1 NT_STATUS_OK", "opened or closed 2 times"),
        ("SLEEP 99999999999999999999", "use SLEEP N"),
        ("LOOP 99\nSLEEP 9999999999999999\nENDLOOP", "the wait is too long"),
        ("1e99 Flush 1 NT_STATUS_OK", "`1e99` is not a time in seconds"),
        ("SMBopen x NT_STATUS_OK", "dbench 1"),
        ("Mkdir \"\\f\" NT_STATUS_OK", "`f` is a directory in line 2 and a file in line 1"),
        ("Unlink \"\\f\\g\" NT_STATUS_OK", "`f` is a directory in line 2 and a file in line 1"),
    ] {
        let found = Load::parse(&format!("{named}{line}")).unwrap_err();
        let at = 1 + line.lines().count();
        assert!(found.contains(problem), "{line}: {found}");
        let numbers = [format!("line {at}: "), "line 2: ".to_owned()];
        assert!(numbers.iter().any(|number| found.starts_with(number)), "{line}: {found}");
    }
    assert_eq!(Load::parse("\n# nothing\n").unwrap_err(), "it has no operation; use a load file of dbench 4");
    let of_nfs = Load::parse("GETATTR3 \"/f\" 0x00000000\nREAD3 \"/f\" 0 1 SUCCESS").unwrap_err();
    assert_eq!(of_nfs, "it has only unknown operations: GETATTR3, READ3");
    let full: String =
        (0..=HANDLES_MAX).map(|handle| format!("NTCreateX \"\\f\" 0 2 {handle} NT_STATUS_OK\n")).collect();
    assert_eq!(Load::parse(&full).unwrap_err(), "line 1025: more than 1024 handles are open");
}

#[test]
fn checksum_matches_published_value_and_differs_by_text() {
    // The published value for this text.
    assert_eq!(digest("foobar"), 0x8594_4171_f739_67e8);
    assert_ne!(digest("a b"), digest("b a"));
}

proptest! {
    #[test]
    fn any_text_parses_without_panic(text in "\\PC{0,200}") {
        let _ = Load::parse(&text);
    }

    #[test]
    fn lines_of_known_words_parse_without_panic(
        lines in prop::collection::vec(prop::collection::vec(word(), 0..7), 0..40)
    ) {
        let text: Vec<_> = lines.iter().map(|words| words.join(" ")).collect();
        if let Ok(load) = Load::parse(&text.join("\n")) {
            prop_assert_eq!(load.calls.len(), load.line_of.len());
            let nodes = load.nodes.len() as u32;
            prop_assert!((1..nodes).all(|node| load.nodes[node as usize].parent < node));
        }
    }
}

fn word() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "LOOP",
        "ENDLOOP",
        "REPEAT",
        "SLEEP",
        "SETSP",
        "#",
        "NT_STATUS_OK",
        "NT_STATUS_OK",
        "0x0",
        "0xg",
        "*",
        "\"\\a\"",
        "\"\\a\\b\"",
        "\"\\b\\a\\\"",
        "\"/*\"",
        "\"",
        "0",
        "1",
        "2",
        "0x40",
        "07",
        "09",
        "+1",
        "+child",
        "*%3/2",
        "*%",
        "18446744073709551615",
        "0.5",
        "-1",
        "é",
    ];
    let all: Vec<String> = Operation::STEPS.iter().chain(WORDS).map(|word| (*word).to_owned()).collect();
    prop::sample::select(all)
}
