//! Words on the screen beside limiters and remarks, and the field's words for them, with the meaning of each.

/// Each word, and its meaning.
pub const GLOSSARY: &[(&str, &str)] = &[
    ("MB/s", "Millions of bytes per second, reads and writes together."),
    ("IOPS", "Operations on data per second."),
    ("ops/s", "Operations on files per second."),
    (
        "±",
        "Nine of ten repeats in the next minutes are this close to the rate. Where the run says so, it is half of the \
         95 % interval of this run alone. The remark one_run has the range of another run, if the store has enough.",
    ),
    ("p50", "The median latency: half of the operations took no longer."),
    ("p99", "The latency that 99 % of the operations did not exceed."),
    ("p99.9", "The latency that 99.9 % of the operations did not exceed. `skye why` and documents have it."),
    (
        "limited by",
        "The limiter of the rate, by the evidence of this run. `skye explain` lists all limiters, and `skye \
         why` shows the evidence.",
    ),
    (
        "(likely)",
        "Two kinds of evidence agree on a limiter, or an experiment is missing. Without it, three agree.",
    ),
    (
        "!",
        "The row does not have the requested number: it failed, ended early, is wrong, or was not served by the target.",
    ),
    (
        "?",
        "The number may be off by more than its ±. A repeat differed, other programs disturbed the test, the rate \
         changed, or a lower cache served it.",
    ),
    ("·", "A remark: worth knowing, and no reason to doubt the number."),
    (
        "~",
        "Undecided: these runs are too few to show a change, or its absence. `~ same`: any change is below --effect.",
    ),
    (
        "p",
        "The chance of a difference at least this large between equal sides: an exact permutation test of the runs.",
    ),
    (
        "from memory",
        "Names and attributes came from the kernel's caches, which this test measures by default.",
    ),
    (
        "noise",
        "Shares of CPU time and I/O of other programs while tests ran: low below 2 %, high at 10 % or more.",
    ),
    ("tool", "Costs of skye itself: CPU time of each operation, of sampling, and of a clock read."),
    ("q32t4", "32 operations in flight in each of 4 threads. Without t, there is one thread."),
    ("rnd", "Blocks in random order. Without it, they are sequential."),
    ("latency", LATENCY),
    ("lat", LATENCY),
    ("clat", LATENCY),
    ("slat", LATENCY),
    ("trim", "A block is given back to the device: the verb `discard`."),
    (
        "steady",
        "The part of a test in which the rate no longer changes; skye finds it itself. The rate of reads and direct \
         writes is that of this part.",
    ),
];

const LATENCY: &str = "The time of an operation from its start to its end, fio's lat; at a given rate, from when it was \
                       due. skye does not split it into slat and clat.";

/// Returns a word with its meaning.
pub fn meaning(word: &str) -> Option<(&'static str, &'static str)> {
    let word = word.trim().to_lowercase();
    let is_meant =
        |name: &str| name.to_lowercase() == word || name.trim_matches(['(', ')']).to_lowercase() == word;
    GLOSSARY.iter().find(|(name, _)| is_meant(name)).copied()
}
