//! Translation of tests in the words of fio and other programs.

/// Returns the test in our words if it has words of other programs: `randread:bs=4k:iodepth=32` is `read:rnd4k:q32`.
pub fn translated(spec: &str) -> Option<String> {
    let mut words = spec.split(':');
    let verb = words.next()?.to_lowercase();
    let (ours, is_random) = match verb.as_str() {
        "randread" => ("read", true),
        "randwrite" => ("write", true),
        "randrw" => ("rw", true),
        "seqread" => ("read", false),
        "seqwrite" | "seqrewrite" => ("write", false),
        known => (known, known == "rw"),
    };
    let mut is_foreign = ours != verb;
    let (mut random, mut block, mut depth, mut threads) = (is_random, None, None, None);
    let mut rest = Vec::new();
    // The word after these verbs is a name, whatever its form.
    let name = matches!(ours, "mix" | "replay").then(|| words.next()).flatten();
    for word in words {
        // Sizes and names of files keep their case, in which `kB` is not `KiB`.
        let after = |prefix: &&str| {
            let (start, rest) = word.split_at_checked(prefix.len())?;
            start.eq_ignore_ascii_case(prefix).then_some(rest)
        };
        let number = |prefixes: &[&str]| {
            let digits = prefixes.iter().find_map(after)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then_some(digits).filter(|text| !text.is_empty())
        };
        if let Some(size) = after(&"rand").filter(|size| is_size(size)) {
            (random, block) = (true, Some(size));
        } else if let Some(size) = ["bs=", "blocksize="].iter().find_map(after) {
            block = Some(size);
        } else if let Some(size) = is_size(word).then_some(word) {
            block = Some(size);
        } else if let Some(number) = number(&["iodepth=", "qd=", "qd"]) {
            depth = Some(number);
        } else if let Some(number) = number(&["numjobs=", "jobs="]) {
            threads = Some(number);
        } else {
            rest.push(word);
            continue;
        }
        is_foreign = true;
    }
    if !is_foreign {
        return None;
    }
    let mut translated: Vec<_> = [Some(ours), name].into_iter().flatten().map(str::to_owned).collect();
    if random || block.is_some() {
        let (access, size) = if random { ("rnd", "4k") } else { ("seq", "1m") };
        translated.push(format!("{access}{}", block.unwrap_or(size)));
    }
    if depth.is_some() || threads.is_some() {
        let part =
            |letter: &str, number: Option<&str>| number.map_or(String::new(), |n| format!("{letter}{n}"));
        translated.push(format!("{}{}", part("q", depth), part("t", threads)));
    }
    translated.extend(rest.into_iter().map(str::to_owned));
    Some(translated.join(":"))
}

/// Returns true for the size of a block, such as "4k".
fn is_size(word: &str) -> bool {
    let digits = word.trim_end_matches(|letter: char| "kmgib".contains(letter.to_ascii_lowercase()));
    digits.len() < word.len() && !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Defaults, parse};
    use super::translated;

    #[test]
    fn fio_style_specs_are_translated() {
        for (theirs, ours) in [
            ("randread", "read:rnd4k"),
            ("randwrite:bs=8k", "write:rnd8k"),
            ("randrw:iodepth=16", "rw:rnd4k:q16"),
            ("randread:bs=4k:iodepth=32:numjobs=4", "read:rnd4k:q32t4"),
            ("read:rand4k:qd32", "read:rnd4k:q32"),
            ("read:bs=128k", "read:seq128k"),
            ("seqread", "read"),
            ("write:1m:q8", "write:seq1m:q8"),
            ("randread:numjobs=4:buffered", "read:rnd4k:t4:buffered"),
            ("rw:qd4", "rw:rnd4k:q4"),
            ("RandRead:BS=4KiB:IODepth=8", "read:rnd4KiB:q8"),
            ("write:1MiB", "write:seq1MiB"),
            ("replay:/Loads/Client.txt:numjobs=2", "replay:/Loads/Client.txt:t2"),
        ] {
            assert_eq!(translated(theirs).as_deref(), Some(ours), "{theirs}");
            parse(ours, &Defaults::default()).unwrap();
        }
    }

    #[test]
    fn native_specs_are_not_translated() {
        for spec in
            ["read:rnd4k:q32t4", "create:t4:files=1m", "fsync", "write:seq1m:rate=500", "stat:chunk=4k"]
        {
            assert_eq!(translated(spec), None, "{spec}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in any::<String>(), words in "[a-z0-9=:]{0,40}") {
            let _ = translated(&text);
            let _ = translated(&words);
        }
    }
}
