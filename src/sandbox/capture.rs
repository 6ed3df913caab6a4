//! The beginning and the end of an output of any length.

use std::collections::VecDeque;

/// How much of an output is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputCap {
    /// From its beginning.
    pub head: usize,
    /// From its end, where it is longer than that.
    pub tail: usize,
}

/// What was kept of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// The beginning; all of it when `tail` is empty.
    pub head: Vec<u8>,
    /// The end, as far as it is not in `head`.
    pub tail: Vec<u8>,
    /// Bytes there were in all.
    pub total: u64,
}

impl Captured {
    /// Bytes between `head` and `tail` that were not kept.
    pub fn left_out(&self) -> u64 {
        self.total - self.head.len() as u64 - self.tail.len() as u64
    }

    /// All that was kept as text: what is no UTF-8 is replaced, but no character is cut where bytes were
    /// left out.
    pub fn text(&self) -> String {
        let left_out = self.left_out();
        if left_out == 0 {
            let whole = [self.head.as_slice(), &self.tail].concat();
            return String::from_utf8(whole)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        }
        let head = without_half_char(&self.head);
        let is_continuation = |byte: &&u8| **byte & 0xC0 == 0x80;
        let skipped = self.tail.iter().take(3).take_while(is_continuation).count();
        format!(
            "{}\n\n[… {left_out} bytes left out …]\n\n{}",
            String::from_utf8_lossy(head),
            String::from_utf8_lossy(&self.tail[skipped..])
        )
    }
}

/// Takes an output piece by piece and never holds more than its cap and one piece.
#[derive(Debug)]
pub(super) struct Capture {
    cap: OutputCap,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl Capture {
    pub(super) fn new(cap: OutputCap) -> Self {
        Self {
            cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            total: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.total += piece.len() as u64;
        let room = self.cap.head - self.head.len();
        let (head, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.cap.tail)..];
        let too_many = (self.tail.len() + rest.len()).saturating_sub(self.cap.tail);
        self.tail.drain(..too_many);
        self.tail.extend(rest);
    }

    pub(super) fn finish(self) -> Captured {
        Captured {
            head: self.head,
            tail: self.tail.into(),
            total: self.total,
        }
    }
}

/// `bytes` without the beginning of a character at its end.
fn without_half_char(bytes: &[u8]) -> &[u8] {
    let start = bytes.len().saturating_sub(3);
    for (index, &byte) in bytes.iter().enumerate().skip(start) {
        let length = match byte {
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF7 => 4,
            _ => 1,
        };
        if index + length > bytes.len() {
            return &bytes[..index];
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn head_and_tail_are_those_of_the_whole_however_it_was_cut(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..12),
            head in 0_usize..12,
            tail in 0_usize..12,
        ) {
            let whole = pieces.concat();
            let mut capture = Capture::new(OutputCap { head, tail });
            for piece in &pieces {
                capture.push(piece);
            }
            let end_of_head = head.min(whole.len());
            let start_of_tail = whole.len().saturating_sub(tail).max(end_of_head);
            let captured = capture.finish();
            prop_assert_eq!(captured.left_out(), (start_of_tail - end_of_head) as u64);
            prop_assert_eq!(captured, Captured {
                head: whole[..end_of_head].to_vec(),
                tail: whole[start_of_tail..].to_vec(),
                total: whole.len() as u64,
            });
        }
    }

    #[test]
    fn no_character_is_cut_where_bytes_were_left_out() {
        let rockets = "🚀🚀".as_bytes();
        for cut in 0..4 {
            let output = Captured {
                head: rockets[..4 + cut].to_vec(),
                tail: rockets[4 - cut..].to_vec(),
                total: 100,
            };
            let left_out = 100 - 8 - 2 * cut;
            let expected = format!("🚀\n\n[… {left_out} bytes left out …]\n\n🚀");
            assert_eq!(output.text(), expected, "{cut}");
        }
    }
}
