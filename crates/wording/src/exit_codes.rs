//! Exit codes of the program, each with its one meaning.

macro_rules! exit_codes {
    ($($name:ident $code:literal $meaning:literal)+) => {
        $(#[doc = $meaning] pub const $name: u8 = $code;)+

        /// Returns each code with its meaning, in Markdown. The last one stands for all signals.
        pub fn all() -> impl Iterator<Item = (String, &'static str)> {
            [$(($name.to_string(), $meaning),)+ ("128 + N".to_owned(), SIGNAL)].into_iter()
        }
    };
}

exit_codes! {
    DONE 0 "done; also if the reader of the output exited, which ends and saves the run"
    FAILED 1 "a test failed or was skipped, a client was lost, the data was not laid out, a file was not removed or saved; the other results are kept"
    REFUSED 2 "refused before any write: command line, preset, plan, directory, name of a run; also a `skye compare` that lacks a run"
    DAMAGED 3 "data read differs from data written; the other results are kept"
    BEYOND 4 "`skye compare` or `skye ab`: a change exceeded `--fail-on`"
    INVALID 5 "with `--strict`, a row is invalid, and nothing failed; `skye doctor`: the machine is unfit, or a run would be refused; `skye selftest`: a wrong or missing limiter"
    UNDECIDED 6 "`skye compare` or `skye ab` cannot decide `--fail-on`; `--undecided pass` makes it 0, `--undecided fail` 4"
}

/// Meaning of the codes above 128.
const SIGNAL: &str = "ended by signal N (HUP 129, INT 130, TERM 143); results are saved and files removed. A second signal skips the saving, never the removal";
