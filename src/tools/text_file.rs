//! Text files as they are on disk: bytes, line ends, encodings.

use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

use similar::TextDiff;

/// The largest file that is held in memory, and so the largest that can be edited.
pub(super) const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// UTF-8's byte order mark.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How much of a diff is shown, in bytes: the model knows what it wrote.
const MAX_DIFF_BYTES: usize = 8_000;

/// A diff that takes longer is made coarser.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// How the lines of a file end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineEnds {
    /// All with LF, or there is only one line.
    Lf,
    /// All with CR LF.
    Crlf,
    /// Some so, some so.
    Mixed,
}

impl LineEnds {
    pub(super) fn of(content: &[u8]) -> Self {
        let mut lines = 0;
        let mut crlf = 0;
        for (index, _) in content
            .iter()
            .enumerate()
            .filter(|(_, byte)| **byte == b'\n')
        {
            lines += 1;
            if index > 0 && content[index - 1] == b'\r' {
                crlf += 1;
            }
        }
        match crlf {
            0 => Self::Lf,
            crlf if crlf == lines => Self::Crlf,
            _ => Self::Mixed,
        }
    }
}

/// `text` with every line end as CR LF.
pub(super) fn to_crlf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// Whether the content begins as UTF-16 does.
pub(super) fn is_utf16(content: &[u8]) -> bool {
    content.starts_with(b"\xFF\xFE") || content.starts_with(b"\xFE\xFF")
}

/// Whether the content is no text: as Git does, by a zero byte near its start.
pub(super) fn is_binary(content: &[u8]) -> bool {
    content[..content.len().min(8000)].contains(&0)
}

/// The whole content of an open file; an error when it is over [`MAX_BYTES`].
pub(super) fn read_whole(file: File, size: u64) -> io::Result<Vec<u8>> {
    let mut content = Vec::with_capacity(usize::try_from(size.min(MAX_BYTES)).unwrap_or(0) + 1);
    // The size may have changed since it was asked for.
    file.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(content)
}

/// Lines of `content`; a last one without line end counts.
pub(super) fn count_lines(content: &[u8]) -> u64 {
    #[expect(
        clippy::naive_bytecount,
        reason = "the compiler makes vector code of it, which is fast enough without one more crate"
    )]
    let ends = content.iter().filter(|byte| **byte == b'\n').count() as u64;
    let is_open = content.last().is_some_and(|byte| *byte != b'\n');
    ends + u64::from(is_open)
}

/// What changed, as a unified diff without its header.
pub(super) fn diff(old: &[u8], new: &[u8]) -> String {
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(&*old, &*new);
    let mut text = diff.unified_diff().context_radius(3).to_string();
    if text.len() > MAX_DIFF_BYTES {
        text.truncate(text.floor_char_boundary(MAX_DIFF_BYTES));
        text.push_str("\n[… the rest of the diff is left out …]");
    }
    text.replace('\r', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_are_told_apart() {
        for (content, expected) in [
            ("", LineEnds::Lf),
            ("a\nb", LineEnds::Lf),
            ("\n\r\n", LineEnds::Mixed),
            ("a\r\nb\r\n", LineEnds::Crlf),
            ("a\rb", LineEnds::Lf),
        ] {
            assert_eq!(LineEnds::of(content.as_bytes()), expected, "{content:?}");
        }
        assert_eq!(to_crlf("a\nb\r\n"), "a\r\nb\r\n");
    }

    #[test]
    fn a_line_without_end_is_a_line() {
        for (content, lines) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(count_lines(content.as_bytes()), lines, "{content:?}");
        }
    }
}
