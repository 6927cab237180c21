//! The C library that this program uses. Bytes through its streams, copies and threads depend on it.

/// Returns name and version of the C library, and whether it is linked statically: "glibc 2.36", "static musl".
pub fn name() -> String {
    let library = library();
    if cfg!(target_feature = "crt-static") { format!("static {library}") } else { library }
}

#[cfg(target_env = "gnu")]
fn library() -> String {
    // SAFETY: the function takes nothing, and returns a constant text that ends with a zero byte.
    let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc {}", version.to_string_lossy())
}

/// No other library of Linux says its version.
#[cfg(not(target_env = "gnu"))]
fn library() -> String {
    if cfg!(target_env = "musl") { "musl".into() } else { "unknown".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_agrees_with_library_of_process() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let is_mapped = maps.lines().any(|line| line.ends_with("/libc.so.6"));
        let name = name();
        assert_eq!(name.starts_with("glibc 2."), is_mapped, "{name}");
    }
}
