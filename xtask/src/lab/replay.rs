//! A log of dm-log-writes: all writes of a disk with its flushes. Up to each flush, they make a disk as a power cut may
//! leave it. The format is that of the kernel's drivers/md/dm-log-writes.c.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bits of the flags of an entry.
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// Bytes of the fixed part of an entry; the text of a mark follows.
const ENTRY_BYTES: usize = 32;

/// One entry: a write, a discard or a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    offset_bytes: u64,
    size_bytes: u64,
    flags: u64,
    /// Text of a mark.
    mark: Vec<u8>,
    /// Place of the data in the log.
    data_at_bytes: u64,
}

impl Entry {
    fn has_data(&self) -> bool {
        self.flags & (DISCARD | MARK) == 0
    }
}

/// A log on a disk.
#[derive(Debug)]
pub struct Log {
    file: File,
    entries: Vec<Entry>,
}

impl Log {
    /// Reads the entries of a log.
    ///
    /// # Errors
    /// The file cannot be read, or has no log.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        let mut head = [0; ENTRY_BYTES];
        file.read_exact_at(&mut head, 0)?;
        ensure!(
            word(&head, 0) == MAGIC && word(&head, 1) == VERSION,
            "{} has no log of writes",
            path.display()
        );
        let (count, sector_bytes) = (word(&head, 2), word(&head, 3) & 0xffff_ffff);
        let mut entries = Vec::new();
        let mut at = sector_bytes;
        for _ in 0..count {
            file.read_exact_at(&mut head, at)?;
            let [sector, sectors, flags, mark_bytes] = [0, 1, 2, 3].map(|number| word(&head, number));
            let mut mark = vec![0; usize::try_from(mark_bytes.min(sector_bytes))?];
            file.read_exact_at(&mut mark, at + ENTRY_BYTES as u64)?;
            let entry = Entry {
                offset_bytes: sector * sector_bytes,
                size_bytes: sectors * sector_bytes,
                flags,
                mark,
                data_at_bytes: at + sector_bytes,
            };
            at += sector_bytes + if entry.flags & DISCARD == 0 { entry.size_bytes } else { 0 };
            entries.push(entry);
        }
        Ok(Self { file, entries })
    }

    /// Returns up to `count` numbers of entries behind the mark, evenly spread. A disk may end with each of them.
    pub fn points(&self, mark: &str, count: usize) -> Vec<usize> {
        let begin =
            self.entries.iter().position(|entry| entry.mark.starts_with(mark.as_bytes())).unwrap_or(0);
        let is_point = |number: &usize| self.entries[*number].flags & (FLUSH | FUA) != 0;
        let all: Vec<_> = (begin..self.entries.len()).filter(is_point).collect();
        let count = count.min(all.len());
        (1..=count).map(|number| all[all.len() * number / count - 1]).collect()
    }

    /// Applies the entries `from..=to` to the image of a disk.
    ///
    /// # Errors
    /// The log cannot be read, or the image cannot be written.
    pub fn apply(&self, image: &File, from: usize, to: usize) -> Result<()> {
        for entry in self.entries.iter().take(to + 1).skip(from) {
            let mut data =
                vec![0; if entry.flags & MARK == 0 { usize::try_from(entry.size_bytes)? } else { 0 }];
            if entry.has_data() {
                self.file.read_exact_at(&mut data, entry.data_at_bytes)?;
            }
            // Discarded blocks read as zeros.
            image.write_all_at(&data, entry.offset_bytes)?;
        }
        Ok(())
    }
}

/// Reads the `number`th word of eight bytes.
fn word(bytes: &[u8; ENTRY_BYTES], number: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[8 * number..8 * number + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_replayed_up_to_a_flush() {
        let mut log = Vec::new();
        let mut put = |words: [u64; 4], rest: &[u8]| {
            let mut sector: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            sector.extend(rest);
            sector.resize(512, 0);
            log.extend(sector);
        };
        put([MAGIC, VERSION, 4, 512], &[]);
        put([0, 0, MARK, 5], b"begin");
        put([1, 1, 0, 0], &[]);
        put([u64::MAX; 4], &[0xff; 480]);
        put([1, 1, FLUSH | DISCARD, 0], &[]);
        put([0, 1, FUA, 0], &[]);
        put([0x0101_0101_0101_0101; 4], &[1; 480]);
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("log"), log).unwrap();
        let log = Log::open(&home.path().join("log")).unwrap();
        assert_eq!(log.points("begin", 9), [2, 3]);
        assert_eq!(log.points("begin", 1), [3]);
        let image = File::create_new(home.path().join("image")).unwrap();
        let read = || std::fs::read(home.path().join("image")).unwrap();
        log.apply(&image, 0, 1).unwrap();
        assert_eq!(read(), [vec![0; 512], vec![0xff; 512]].concat());
        log.apply(&image, 2, 3).unwrap();
        assert_eq!(read(), [vec![1; 512], vec![0; 512]].concat());
        assert!(Log::open(&home.path().join("image")).is_err());
    }
}
