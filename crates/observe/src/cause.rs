//! The cause of a failed call in the words of the system, without the number that the library adds.

use std::io;

/// "No such file or directory", not "No such file or directory (os error 2)".
pub(crate) fn cause(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::cause;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(cause(&std::io::Error::from_raw_os_error(2)), "No such file or directory");
    }
}
