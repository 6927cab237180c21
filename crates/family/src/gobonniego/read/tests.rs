use proptest::prelude::*;

use super::*;

fn sample() -> Report {
    let run = RunResult {
        write_megabytes_per_second: Some(472.8),
        read_megabytes_per_second: Some(1025.19),
        iops: Some(23_832.25),
        write_seconds: Some(0.408942474),
        read_seconds: Some(0.064843331),
        io_seconds: Some(0.724610939),
        start_time: Some("2018-04-12T06:46:00.274972832-07:00".into()),
        write_bytes: Some(536_870_912),
        read_bytes: Some(536_870_912),
        io_operations: Some(277_170),
    };
    Report {
        version: Some("1.0.9".into()),
        start_time: Some("2018-04-12T06:46:00.274348275-07:00".into()),
        directory: Some("/mnt/a \"b\"\n".into()),
        disk_space_used_gib: Some(0.5),
        threads: Some(4),
        physical_memory_bytes: Some(17_179_869_184),
        iops_duration_seconds: Some(0.5),
        results: vec![run.clone(), RunResult { iops: Some(1.0), ..run }],
    }
}

fn problems(text: &str) -> Vec<String> {
    read(text).problems.iter().map(Problem::to_string).collect()
}

#[test]
fn json_is_found_compact_pretty_printed_and_amid_text() {
    let json = sample().to_json();
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&json).unwrap()).unwrap();
    for text in [
        json.clone(),
        pretty.clone(),
        format!("\u{feff}{json}"),
        format!("2026/11/21 01:22:19 something\n{json}\nreal\t0m5.483s\n"),
        format!("{{ not JSON\n{pretty}\r\n"),
        json.replace("\"iops\":", "\"iops_p99\":[1,{\"a\":2}],\"iops\":")
            .replace("\"results\"", "\"host\":null,\"results\""),
    ] {
        let reading = read(&text);
        assert_eq!((reading.reports, reading.problems), (vec![sample()], vec![]), "{text}");
    }
    assert_eq!(read(&format!("{json}{pretty}\n{json}")).reports.len(), 3);
    let results = read(&json).results();
    assert_eq!(results.len(), 2);
    assert_eq!((results[0].program.as_str(), results[0].rates[0].per_second), ("GoBonnieGo 1.0.9", 472.8e6));
    assert!(results[1].name.ends_with(", 0.5 GiB, 4 threads, run 2 of 2"), "{}", results[1].name);
}

#[test]
fn broken_json_error_has_position_and_expected_value() {
    let json = sample().to_json();
    let cut = &json[..json.len() - 40];
    assert_eq!(read(cut).reports, []);
    for (text, parts) in [
        (cut.to_owned(), &["line 1, column 7", "is truncated", "copy the whole line"][..]),
        (format!("first\n{cut}"), &["line 2, column 7", "is truncated"]),
        (json.replace("\"iops\":1,", "\"iops\":1"), &["line 1, column", "is invalid", "expected `,` or `}`"]),
        (
            json.replace("\"iops\":1,", "\"iops\":\"fa\\u001bst\","),
            &["line 1, results[1].iops", "fa", "expected a number"],
        ),
        (json.replace("\"iops\":1,", ""), &["results[1].iops", "is missing", "expected a number"]),
        (json.replace("\"iops\":1,", "\"iops\":-1,"), &["results[1].iops", "`-1`"]),
        (json.replace(":277170", ":1.5"), &["results[0].io_operations", "`1.5`", "a whole number"]),
        (json.replace("\"results\":", "\"result\":"), &["line 1, results", "is missing", "list"]),
        (json.replace("\"results\":[", "\"results\":[7,"), &["results[0]", "`7`", "an object"]),
        (
            json.replace("\"version\":\"1.0.9\"", "\"version\":1"),
            &["line 1, version", "`1`", "expected text"],
        ),
    ] {
        let problems = problems(&text);
        let message = problems.first().unwrap_or_else(|| panic!("no problem in {text}"));
        for part in parts {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains('\u{1b}'), "{message}");
    }
    // The other results remain.
    let one_missing = read(&json.replace("\"iops\":1,", ""));
    assert_eq!(one_missing.results()[1].rates.len(), 2);
    assert_eq!(one_missing.problems.len(), 1);
}

#[test]
fn output_of_other_programs_is_ignored() {
    for text in [
        "",
        "{}",
        "{\"schema\": \"skye.run/1\", \"num_readers_and_writers\": 5}",
        "{\"schema\": \"skye.run/1\", \"command\": [\"skye\", \"gobonniego\", \"-json\"]}",
        "testvm,2G,171909,88,868715,74",
        "[{\"write_megabytes_per_second\":5}]",
        "\"write_megabytes_per_second\"",
    ] {
        assert!(read(text).is_empty(), "{text}: {:?}", read(text));
    }
}

#[test]
fn text_lines_are_grouped_into_runs() {
    let text = "Sequential Write MB/s: 1.00\nSequential Read MB/s: 2.00\nIOPS: 3\n\
                Sequential Write MB/s: 4.00\n\
                2026/11/21 01:22:19 gobonniego starting. version: 1.0.10, runs: 2, seconds: 0, threads: 2, disk space to use (MiB): 1024\n\
                2026/11/21 01:22:19 Bonnie working directory: /mnt\n\
                Sequential Read MB/s: 5.00\nIOPS: 6\nSequential Read MB/s: 7.00\nIOPS: many\n";
    let reading = read(text);
    let results = reading.results();
    let summaries: Vec<_> = results
        .iter()
        .map(|run| {
            (
                run.program.as_str(),
                run.name.as_str(),
                run.rates.iter().map(|rate| rate.per_second).collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(
        summaries,
        [
            ("GoBonnieGo", "run 1 of 2", vec![1e6, 2e6, 3.0]),
            ("GoBonnieGo", "run 2 of 2", vec![4e6]),
            ("GoBonnieGo 1.0.10", "/mnt, run 1 of 2", vec![5e6, 6.0]),
            ("GoBonnieGo 1.0.10", "/mnt, run 2 of 2", vec![7e6]),
        ]
    );
    assert_eq!(reading.problems[0].to_string(), "line 10, column 7: has `many`, expected a number");
}

fn any_real() -> impl Strategy<Value = Option<f64>> {
    let finite = any::<f64>().prop_map(|number| Some(number.abs()).filter(|number| number.is_finite()));
    prop_oneof![finite, (0.0..1e7).prop_map(Some)]
}

prop_compose! {
    fn any_result()(
        reals in proptest::array::uniform6(any_real()),
        start_time in any::<Option<String>>(),
        wholes in any::<[Option<u64>; 3]>(),
    ) -> RunResult {
        RunResult {
            write_megabytes_per_second: reals[0],
            read_megabytes_per_second: reals[1],
            iops: reals[2],
            write_seconds: reals[3],
            read_seconds: reals[4],
            io_seconds: reals[5],
            start_time,
            write_bytes: wholes[0],
            read_bytes: wholes[1],
            io_operations: wholes[2],
        }
    }
}

prop_compose! {
    fn any_report()(
        texts in any::<[Option<String>; 2]>(),
        directory in any::<String>(),
        reals in proptest::array::uniform2(any_real()),
        wholes in any::<[Option<u64>; 2]>(),
        results in proptest::collection::vec(any_result(), 0..3),
    ) -> Report {
        let [version, start_time] = texts;
        Report {
            version,
            start_time,
            // This key identifies the report.
            directory: Some(directory),
            disk_space_used_gib: reals[0],
            threads: wholes[0],
            physical_memory_bytes: wholes[1],
            iops_duration_seconds: reals[1],
            results,
        }
    }
}

proptest! {
    #[test]
    fn written_json_reads_back_unchanged(report in any_report()) {
        let json = report.to_json();
        let reading = read(&json);
        prop_assert_eq!(&reading.reports, std::slice::from_ref(&report));
        prop_assert_eq!(reading.reports[0].to_json(), json);
    }

    #[test]
    fn any_text_parses_without_panic(text: String, cut in 0..900usize, at in 0..900usize) {
        let _ = read(&text);
        let json = sample().to_json();
        let head: String = json.chars().take(cut).collect();
        let _ = read(&head).results();
        let changed: String = json.chars().take(at).chain(text.chars()).chain(json.chars().skip(at)).collect();
        let _ = read(&changed).results();
        for problem in read(&changed).problems {
            let problem_text = problem.to_string();
            prop_assert!(!problem_text.contains(char::is_control), "{:?}", problem_text);
        }
    }
}
