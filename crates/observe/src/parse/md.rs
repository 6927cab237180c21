//! Files of a software array (`md/` in the directory of its device).

/// Returns the finished share of the array's current work, from `sync_completed` ("1953120 / 3906242").
/// Absent for "none".
pub fn progress(text: &str) -> Option<f64> {
    let (done, all) = text.split_once('/')?;
    let (done, all): (u64, u64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
    (all > 0 && done <= all).then(|| done as f64 / all as f64)
}

/// Returns the current work of an array from `sync_action`; absent if it does none.
pub fn action(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|action| !matches!(*action, "" | "idle" | "frozen"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{action, progress};

    #[test]
    fn real_md_progress_and_action_parse() {
        assert_eq!(progress("1000 / 4000\n"), Some(0.25));
        for nothing in ["none", "delayed", "5 / 0", "5 / 4", ""] {
            assert_eq!(progress(nothing), None, "{nothing}");
        }
        assert_eq!(action("recover\n"), Some("recover"));
        for nothing in ["idle\n", "frozen", ""] {
            assert_eq!(action(nothing), None, "{nothing}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_without_panic(text in "\\PC{0,30}|[0-9 /]{0,50}") {
            progress(&text);
            action(&text);
        }
    }
}
