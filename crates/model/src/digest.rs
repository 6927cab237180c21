//! Check sum of texts, to tell two of one name apart.

/// Returns the check sum of a text (Fowler, Noll and Vo, FNV-1a with 64 bits).
pub(crate) fn digest(text: &str) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}
