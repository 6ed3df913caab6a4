//! Bytes into server-sent events: a push decoder, no I/O.
//!
//! Lines end in LF, CRLF or CR and may be cut anywhere; a leading byte-order mark, comments and fields
//! other than `data` are dropped, and so is a last event without its blank line. The event's name is
//! not kept, for the data says what it is. Source: WHATWG HTML, "Server-sent events".

/// No line and no event is longer; server tools and redacted thinking arrive whole.
const LIMIT: usize = 32 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line or an event is longer than 32 MiB.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The state between two pieces of a stream.
#[derive(Default)]
pub(super) struct Decoder {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// The data lines of the event so far, joined by newlines.
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a CR: a LF that follows belongs to it.
    after_cr: bool,
    /// The first line has been taken.
    begun: bool,
}

impl Decoder {
    /// Takes the next piece and calls `on_event` with the data of each event that is whole.
    /// After an error the decoder is of no more use.
    pub(super) fn feed<E: From<TooLong>>(
        &mut self,
        mut bytes: &[u8],
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) else {
                return Ok(append(&mut self.line, bytes)?);
            };
            self.after_cr = bytes[end] == b'\r';
            let line = &bytes[..end];
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                self.take_line(line, on_event)?;
            } else {
                append(&mut self.line, line)?;
                let mut whole = std::mem::take(&mut self.line);
                self.take_line(&whole, on_event)?;
                whole.clear();
                self.line = whole;
            }
        }
        Ok(())
    }

    fn take_line<E: From<TooLong>>(
        &mut self,
        mut line: &[u8],
        on_event: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            let has_data = std::mem::take(&mut self.has_data);
            if has_data && !self.data.is_empty() {
                on_event(&self.data)?;
            }
            self.data.clear();
            return Ok(());
        }
        let value = match line.strip_prefix(b"data") {
            Some([]) => &[],
            Some([b':', b' ', value @ ..] | [b':', value @ ..]) => value,
            _ => return Ok(()),
        };
        if std::mem::replace(&mut self.has_data, true) {
            append(&mut self.data, b"\n")?;
        }
        Ok(append(&mut self.data, value)?)
    }
}

fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), TooLong> {
    if buffer.len() + bytes.len() > LIMIT {
        return Err(TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut events = Vec::new();
        for piece in pieces {
            let result: Result<(), TooLong> = decoder.feed(piece, &mut |data: &[u8]| {
                events.push(String::from_utf8_lossy(data).into_owned());
                Ok(())
            });
            result.unwrap();
        }
        events
    }

    #[test]
    fn every_framing_is_understood() {
        for (stream, expected) in [
            ("data: a\n\ndata: b\n\n", vec!["a", "b"]),
            ("data: a\r\n\r\ndata: b\r\n\r\n", vec!["a", "b"]),
            ("data: a\r\rdata: b\r\r", vec!["a", "b"]),
            ("\u{feff}data: a\n\n", vec!["a"]),
            ("\u{feff}\n: comment\ndata:a\n\n", vec!["a"]),
            ("data: a\ndata:  b\ndata\ndata: c\n\n", vec!["a\n b\n\nc"]),
            (
                "event: x\nid: 1\nretry: 2\nnonsense\ndata: a\n\n",
                vec!["a"],
            ),
            ("datax: a\n\ndata a\n\n: data: a\n\n", vec![]),
            ("data\n\ndata:\n\n\n\n", vec![]),
            ("data: a\n\ndata: unfinished\n", vec!["a"]),
            ("data: größe\u{2028} 🚀\n\n", vec!["größe\u{2028} 🚀"]),
        ] {
            assert_eq!(events([stream.as_bytes()]), expected, "{stream:?}");
            for cut in 0..=stream.len() {
                let (head, tail) = stream.as_bytes().split_at(cut);
                assert_eq!(events([head, tail]), expected, "{stream:?} cut at {cut}");
            }
            assert_eq!(events(stream.as_bytes().chunks(1)), expected, "{stream:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_memory_is() {
        let mut decoder = Decoder::default();
        let piece = vec![b'x'; 1024 * 1024];
        let mut result: Result<(), TooLong> = Ok(());
        for _ in 0..40 {
            result = result.and_then(|()| decoder.feed(&piece, &mut |_| Ok(())));
        }
        assert_eq!(result, Err(TooLong));
    }

    proptest! {
        #[test]
        fn the_cutting_makes_no_difference(
            stream in proptest::collection::vec(
                prop_oneof![
                    Just(b"data: x".to_vec()), Just(b"\n".to_vec()), Just(b"\r".to_vec()),
                    Just(b"\r\n".to_vec()), Just(b":c".to_vec()), Just(b"\xEF\xBB\xBF".to_vec()),
                    proptest::collection::vec(any::<u8>(), 0..4),
                ],
                0..40,
            ),
            sizes in proptest::collection::vec(1_usize..5, 1..8),
        ) {
            let stream = stream.concat();
            let mut rest = stream.as_slice();
            let mut pieces = Vec::new();
            for size in sizes.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at((*size).min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(events(pieces), events([stream.as_slice()]));
        }
    }
}
