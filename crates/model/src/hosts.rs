//! Lists of hosts as the user writes them: `ada,bob:/mnt/b,user@host*2,node[01-04]`, `local*8`.
//!
//! Ranges are written as Slurm and ClusterShell write them: `node[01-04,7]`, with leading zeros kept. Names become words
//! of a command line, so they hold letters, digits and a few signs, and never begin with a hyphen. A directory may have
//! quotes, within which no sign has a meaning: `local:"/mnt/a,b"`.

use std::fmt;

/// Most clients of a run.
pub const CLIENTS_MAX: usize = 3844;
/// Name of this machine, where no other program starts the client.
pub const LOCAL: &str = "local";

/// One client: a process on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSpec {
    /// User and host as the launcher takes them: "ada", "root@bob".
    pub host: String,
    /// Directory there; `None` for that of the command line.
    pub directory: Option<String>,
    /// Number of the process on this host, from 1; `None` if it is the only one.
    pub process: Option<u32>,
}

impl ClientSpec {
    /// Returns true if the client runs on this machine.
    pub fn is_local(&self) -> bool {
        self.host == LOCAL
    }
}

impl fmt::Display for ClientSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        match self.process {
            Some(process) => write!(f, "#{process}"),
            None => Ok(()),
        }
    }
}

/// Reads a list of hosts, and returns its clients in their order.
///
/// # Errors
/// One sentence with the word that cannot be understood.
pub fn parse(text: &str) -> Result<Vec<ClientSpec>, String> {
    let mut clients = Vec::new();
    for word in words(text)? {
        clients.extend(parse_entry(word)?);
        if clients.len() > CLIENTS_MAX {
            break;
        }
    }
    check_and_number(clients)
}

/// Reads a file of hosts: a list on each line, and comments behind `#`.
///
/// # Errors
/// As [`parse`], with the number of the line.
pub fn parse_file(text: &str) -> Result<Vec<ClientSpec>, String> {
    let mut clients = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut quotes = Quotes::default();
        let comment = line.char_indices().find(|(_, letter)| !quotes.take(*letter) && *letter == '#');
        let line = line[..comment.map_or(line.len(), |(at, _)| at)].trim();
        if !line.is_empty() {
            clients.extend(parse(line).map_err(|problem| format!("line {}: {problem}", index + 1))?);
        }
        if clients.len() > CLIENTS_MAX {
            break;
        }
    }
    check_and_number(clients)
}

/// Refuses lists that are empty or too long, and numbers the processes of each host that has several.
fn check_and_number(mut clients: Vec<ClientSpec>) -> Result<Vec<ClientSpec>, String> {
    match clients.len() {
        0 => return Err("it contains no host".into()),
        1..=CLIENTS_MAX => {}
        _ => return Err(format!("it has more than {CLIENTS_MAX} clients")),
    }
    number(&mut clients);
    Ok(clients)
}

/// Returns the clients of a job, each with the machine that it runs on.
pub fn from_machines(machines: Vec<String>) -> Vec<ClientSpec> {
    let client = |host| ClientSpec { host, directory: None, process: None };
    let mut clients: Vec<_> = machines.into_iter().map(client).collect();
    number(&mut clients);
    clients
}

/// Numbers the processes of each host that has several.
fn number(clients: &mut [ClientSpec]) {
    let mut counts = std::collections::HashMap::<String, (u32, u32)>::new();
    for client in clients.iter() {
        counts.entry(client.host.clone()).or_default().0 += 1;
    }
    for client in clients {
        let Some((all, seen)) = counts.get_mut(&client.host) else { continue };
        *seen += 1;
        client.process = (*all > 1).then_some(*seen);
    }
}

/// Quotes around directories: they begin right behind a colon.
#[derive(Default)]
struct Quotes {
    is_open: bool,
    before: Option<char>,
}

impl Quotes {
    /// Takes the next sign. Returns true for one between quotes.
    fn take(&mut self, letter: char) -> bool {
        let was_open = self.is_open;
        let begins = self.before == Some(':') && !was_open;
        if letter == '"' && (was_open || begins) {
            self.is_open = !was_open;
        }
        self.before = Some(letter);
        was_open
    }
}

/// Returns the directories that a list without quotes cuts at a comma: as it is read, and as it may be meant.
pub fn split_directories(text: &str) -> Vec<(String, String)> {
    let words = words(text).unwrap_or_default();
    let directory = |word: &str| Some(word[colon(word)? + 1..].to_owned());
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let Some(read) = directory(word).filter(|read| read.starts_with('/')) else { continue };
        let mut meant = read.clone();
        for next in words[at + 1..].iter().take_while(|next| colon(next).is_none()) {
            meant = format!("{meant},{next}");
            found.push((read.clone(), meant.clone()));
        }
    }
    found
}

/// Splits a list at its commas, except those in brackets or quotes.
fn words(text: &str) -> Result<Vec<&str>, String> {
    let (mut words, mut start, mut is_inside) = (Vec::new(), 0, false);
    let mut quotes = Quotes::default();
    for (at, letter) in text.char_indices() {
        match letter {
            _ if quotes.take(letter) => {}
            '[' if is_inside => return Err(format!("`{text}` has nested brackets")),
            '[' => is_inside = true,
            ']' if !is_inside => return Err(format!("`{text}` has an unmatched closing bracket")),
            ']' => is_inside = false,
            ',' if !is_inside => {
                words.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(format!("`{text}` has an unclosed bracket"));
    }
    if quotes.is_open {
        return Err(format!("`{text}` has an unclosed quote"));
    }
    words.push(text[start..].trim());
    match words.iter().find(|word| word.is_empty()) {
        Some(_) => Err(format!("`{text}` has an empty entry")),
        None => Ok(words),
    }
}

/// Reads `[user@]host[*N][:DIR]`, where the host may have ranges in brackets.
fn parse_entry(word: &str) -> Result<Vec<ClientSpec>, String> {
    let (name, directory) = match colon(word) {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let directory = match directory.map(unquoted) {
        Some(path) if !path.starts_with('/') || path.chars().any(char::is_control) => {
            return Err(format!("`{word}` has no absolute path; use for example {name}:/mnt"));
        }
        path => path.map(str::to_owned),
    };
    let (name, times) = match name.split_once('*') {
        Some((name, times)) => (name, times.parse().ok().filter(|times| (1..=CLIENTS_MAX).contains(times))),
        None => (name, Some(1)),
    };
    let Some(times) = times else {
        return Err(format!("`{word}` needs a number from 1 to {CLIENTS_MAX} after the `*`"));
    };
    let hosts = expand(name, word)?;
    if hosts.len().saturating_mul(times) > CLIENTS_MAX {
        return Err(format!("`{word}` is more than {CLIENTS_MAX} clients"));
    }
    for host in &hosts {
        check(host, word)?;
    }
    let all = hosts.into_iter().flat_map(|host| std::iter::repeat_n(host, times));
    Ok(all.map(|host| ClientSpec { host, directory: directory.clone(), process: None }).collect())
}

/// Returns a directory without the quotes around it.
fn unquoted(path: &str) -> &str {
    path.strip_prefix('"').and_then(|path| path.strip_suffix('"')).unwrap_or(path)
}

/// Returns the place of the colon before the directory: those of an address in brackets do not count.
fn colon(word: &str) -> Option<usize> {
    let from = word.find(']').filter(|_| is_address(word)).unwrap_or(0);
    word[from..].find(':').map(|at| from + at)
}

/// Returns true for `[2001:db8::1]` with a user before it or not.
fn is_address(word: &str) -> bool {
    let host = word.split_once('@').map_or(word, |(_, host)| host);
    host.strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .is_some_and(|(inside, _)| inside.contains(':'))
}

/// Returns every name of the ranges in brackets.
fn expand(name: &str, word: &str) -> Result<Vec<String>, String> {
    if is_address(name) {
        return Ok(vec![name.replace(['[', ']'], "")]);
    }
    let Some((before, rest)) = name.split_once('[') else { return Ok(vec![name.to_owned()]) };
    let Some((inside, after)) = rest.split_once(']') else {
        return Err(format!("`{word}` has an unclosed bracket"));
    };
    let behind = expand(after, word)?;
    let mut names = Vec::new();
    for part in inside.split(',') {
        let problem = || format!("`{part}` in `{word}` is not a range of numbers such as 01-04");
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let is_number =
            |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return Err(problem());
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| problem());
        let (from, to) = (number(first)?, number(last)?);
        let count = (u64::from(to) + 1).saturating_sub(from.into());
        if count == 0 || count.saturating_mul(behind.len() as u64) + names.len() as u64 > CLIENTS_MAX as u64 {
            return Err(match count {
                0 => format!("`{part}` in `{word}` ends before it starts"),
                _ => format!("`{word}` is more than {CLIENTS_MAX} clients"),
            });
        }
        let width = first.len();
        let numbers = (from..=to).map(|number| format!("{before}{number:0width$}"));
        names.extend(numbers.flat_map(|name| behind.iter().map(move |end| format!("{name}{end}"))));
    }
    Ok(names)
}

/// Refuses names that a launcher could take for something else.
fn check(host: &str, word: &str) -> Result<(), String> {
    let parts: Vec<_> = host.split('@').collect();
    let is_safe = |part: &&str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "._-:%".contains(letter);
        !part.is_empty() && !part.starts_with('-') && part.chars().all(letters)
    };
    match parts.len() <= 2 && parts.iter().all(is_safe) {
        true => Ok(()),
        false => Err(format!(
            "`{word}` is not a host such as ada, root@bob:/mnt or node[01-04]; a directory with a comma needs \
             quotes: local:\"/mnt/a,b\""
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        let client = |client: &ClientSpec| match &client.directory {
            Some(directory) => format!("{client}:{directory}"),
            None => client.to_string(),
        };
        parse(text).unwrap().iter().map(client).collect()
    }

    #[test]
    fn cluster_style_host_lists_are_expanded() {
        assert_eq!(names("ada,bob:/mnt/b"), ["ada", "bob:/mnt/b"]);
        assert_eq!(names("root@ada*2"), ["root@ada#1", "root@ada#2"]);
        assert_eq!(names("node[01-03,7]"), ["node01", "node02", "node03", "node7"]);
        assert_eq!(names("r[1-2]n[08-09]:/x"), ["r1n08:/x", "r1n09:/x", "r2n08:/x", "r2n09:/x"]);
        assert_eq!(names("local*2,ada,local:/y"), ["local#1", "local#2", "ada", "local#3:/y"]);
        assert_eq!(names("[2001:db8::1]:/x,eve@[::1]"), ["2001:db8::1:/x", "eve@::1"]);
        assert_eq!(names("ada*2:/a:b"), ["ada#1:/a:b", "ada#2:/a:b"]);
        assert_eq!(
            names(r#"local:"/mnt/a,b",ada:/x"y,bob*2:"/[#""#),
            ["local:/mnt/a,b", "ada:/x\"y", "bob#1:/[#", "bob#2:/[#"]
        );
        assert_eq!(parse_file("ada:\"/a#b\" # one\n").unwrap()[0].directory.as_deref(), Some("/a#b"));
        let file = "# clients\nada, bob  # two\n\nnode[1-2]:/mnt\nada\n";
        let all: Vec<_> = parse_file(file).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(all, ["ada#1", "bob", "node1", "node2", "ada#2"]);
    }

    #[test]
    fn invalid_host_entries_are_refused() {
        for (text, problem) in [
            ("", "has an empty entry"),
            ("ada,,bob", "has an empty entry"),
            ("-oProxyCommand=x", "is not a host"),
            ("a@-b", "is not a host"),
            ("a b", "is not a host"),
            ("a;b", "is not a host"),
            ("$(x)", "is not a host"),
            ("a@b@c", "is not a host"),
            ("ada:mnt", "absolute path"),
            ("ada:", "absolute path"),
            ("ada:\"/a,b", "an unclosed quote"),
            ("ada:\"/a\"b,bob", "absolute path"),
            ("ada:/a,b/c", "a directory with a comma needs quotes: local:\"/mnt/a,b\""),
            ("ada:/a\nb", "absolute path"),
            ("ada*0", "after the `*`"),
            ("ada*x", "after the `*`"),
            ("ada*99999", "after the `*`"),
            ("n[1-", "has an unclosed bracket"),
            ("n1]", "unmatched closing bracket"),
            ("n[[1]]", "nested brackets"),
            ("n[a-b]", "is not a range"),
            ("n[3-1]", "ends before it starts"),
            ("n[1-999999]", "more than"),
            ("n[1-99]m[1-99]", "more than"),
            ("n[1-99]*99", "more than"),
            ("local*3844,ada", "it has more than 3844 clients"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(problem), "{text}: {refused}");
        }
        assert_eq!(parse_file("# none\n").unwrap_err(), "it contains no host");
        assert!(parse_file("ada\nbob*\n").unwrap_err().starts_with("line 2: "));
    }

    #[test]
    fn unquoted_comma_in_a_directory_is_detected() {
        let pair = |read: &str, meant: &str| (read.to_owned(), meant.to_owned());
        let found = split_directories("local:/mnt/a,b,c,ada:/x");
        assert_eq!(found, [pair("/mnt/a", "/mnt/a,b"), pair("/mnt/a", "/mnt/a,b,c")]);
        assert_eq!(split_directories("ada,local:\"/mnt/a,b\""), []);
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "[a-z0-9@:/*,\"\\[\\]# -]{0,40}|\\PC{0,40}") {
            let _ = split_directories(&text);
            for clients in [parse(&text), parse_file(&text)].into_iter().flatten() {
                prop_assert!((1..=CLIENTS_MAX).contains(&clients.len()));
                prop_assert!(clients.iter().all(|client| !client.host.starts_with('-')));
            }
        }
    }
}
