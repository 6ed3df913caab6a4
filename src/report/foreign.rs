//! Text that somebody else wrote (the model, a tool, a server), made harmless for every format.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

/// `text` without terminal control sequences, with lone carriage returns as newlines, and with every
/// character that XML 1.0 or a terminal would choke on, or that reorders text, as U+FFFD.
///
/// Of control characters only newline and tab are left. Source: XML 1.0, production `Char`;
/// ECMA-48 for the sequences.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_control_sequence(&mut chars),
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    plain.push('\n');
                }
            }
            c if is_unprintable(c) => plain.push('\u{fffd}'),
            c => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

fn is_unprintable(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || reorders(c)
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Embeddings, overrides and isolates, which show the text around them in another order than it has: a
/// denied command could read as a harmless one. The marks that right-to-left scripts need stay.
fn reorders(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_control_sequence(chars);
        }
        // Strings for the terminal: OSC, DCS, SOS, PM, APC; ended by BEL or ST.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_terminal_string(chars);
        }
        Some(' '..='/') => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
        Some('0'..='~') => {
            chars.next();
        }
        _ => {}
    }
}

fn skip_control_sequence(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// An unfinished one ends with its line, so that it does not swallow everything behind it.
fn skip_terminal_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if_eq(&'\\');
                return;
            }
            _ => {}
        }
    }
}

/// `text` on one line of at most `longest` characters: every line break or tab, and the blanks around
/// it, become one blank.
pub(super) fn one_line(text: &str, longest: usize) -> String {
    let is_break = |c: char| c.is_whitespace() && c != ' ';
    let pieces: Vec<&str> = text
        .split(is_break)
        .map(str::trim)
        .filter(|piece| !piece.is_empty())
        .collect();
    let line = pieces.join(" ");
    match line.char_indices().nth(longest) {
        None => line,
        Some(_) => line.chars().take(longest - 1).chain(['…']).collect(),
    }
}

/// The first line of `text` that is not blank, without the blanks around it; empty when there is none.
pub(super) fn first_line(text: &str) -> &str {
    let is_line_end = ['\n', '\u{2028}', '\u{2029}'];
    let mut lines = text.split(is_line_end).map(str::trim);
    lines.find(|line| !line.is_empty()).unwrap_or_default()
}

/// `text`, or its beginning and its end with a note between, at most about `most_bytes`.
pub(super) fn head_and_tail(text: &str, most_bytes: usize) -> Cow<'_, str> {
    if text.len() <= most_bytes {
        return Cow::Borrowed(text);
    }
    let half = most_bytes / 2;
    let head = &text[..text.floor_char_boundary(half)];
    let tail = &text[text.ceil_char_boundary(text.len() - half)..];
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!(
        "{head}\n[... {left_out} bytes left out ...]\n{tail}"
    ))
}

/// The last lines of `text`, at most `most_bytes`.
pub(super) fn tail(text: &str, most_bytes: usize) -> &str {
    if text.len() <= most_bytes {
        return text;
    }
    let tail = &text[text.ceil_char_boundary(text.len() - most_bytes)..];
    // Whole lines where there are some.
    tail.split_once('\n').map_or(tail, |(_, lines)| lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_sequences_go_and_ordinary_unicode_stays() {
        for (text, right) in [
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2K\r 10%\r 50%\r100%\r\n", "\n 10%\n 50%\n100%\n"),
            ("\u{1b}]0;title\u{7}x", "x"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]open\nnext", "\nnext"),
            ("\u{1b}(Bx\u{1b}=y\u{9b}1mz\u{1b}", "xyz"),
            ("a\0b\u{8}c\u{7f}", "a\u{fffd}b\u{fffd}c\u{fffd}"),
            ("\u{fffe}\u{ffff}\u{fffd}", "\u{fffd}\u{fffd}\u{fffd}"),
            ("🚀 中文 größe\t\n", "🚀 中文 größe\t\n"),
        ] {
            assert_eq!(plain(text), right, "{text:?}");
        }
    }

    #[test]
    fn what_reorders_text_is_shown_as_what_it_is_and_marks_stay() {
        assert_eq!(
            plain("rm \u{202e}txt.a\u{202c} \u{2066}x\u{2069}"),
            "rm \u{fffd}txt.a\u{fffd} \u{fffd}x\u{fffd}"
        );
        assert_eq!(plain("שלום\u{200f}!"), "שלום\u{200f}!");
    }

    #[test]
    fn one_line_is_one_line_and_not_too_long() {
        assert_eq!(one_line(" a\n\tb\u{2028}c ", 10), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("a  b\n", 6), "a  b");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("\n", 6), "");
    }

    #[test]
    fn the_first_line_is_the_first_with_something_in_it() {
        for (text, right) in [
            ("one", "one"),
            ("\n \n one \ntwo\n", "one"),
            ("one\u{2028}two", "one"),
            ("one\ttwo\nthree", "one\ttwo"),
            (" \n\n", ""),
        ] {
            assert_eq!(first_line(text), right, "{text:?}");
        }
    }

    #[test]
    fn long_text_keeps_both_ends_on_character_boundaries() {
        assert_eq!(head_and_tail("äöü", 6), "äöü");
        assert_eq!(
            head_and_tail("äöüäöü", 6),
            "ä\n[... 8 bytes left out ...]\nü"
        );
        assert_eq!(tail("one\ntwo\nthree", 8), "three");
        assert_eq!(tail("ääää", 3), "ä");
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left(text in any::<String>(), longest in 1usize..50) {
            prop_assert!(!plain(&text).contains(is_unprintable));
            prop_assert!(one_line(&text, longest).chars().count() <= longest);
        }
    }
}
