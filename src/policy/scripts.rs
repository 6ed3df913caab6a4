//! Scripts of sed and awk that stand in a command line: both can write files and run programs.

/// What a word of a `sed` command does beyond editing its input.
pub(super) fn sed_word(words: &[String], at: usize) -> Option<&'static str> {
    let is_script = |script: &str| !is_plain_sed(script);
    let word = words[at].as_str();
    if at == 0 {
        return None;
    }
    let does = "may write files or run programs (only plain sed scripts are understood)";
    if let Some(script) = word
        .strip_prefix("--expression=")
        .or_else(|| word.strip_prefix("-e").filter(|script| !script.is_empty()))
    {
        return is_script(script).then_some(does);
    }
    let after_e = at > 1 && is_e_option(&words[at - 1]);
    let has_e = words[1..]
        .iter()
        .any(|word| is_e_option(word) || word.starts_with("-e"))
        || words[1..].iter().any(|word| word.starts_with("--e"));
    if after_e {
        return is_script(word).then_some(does);
    }
    if word.starts_with('-') {
        // Only what is known to be harmless; clusters of these too.
        let known = matches!(
            word,
            "-" | "--"
                | "--quiet"
                | "--silent"
                | "--regexp-extended"
                | "--posix"
                | "--debug"
                | "--separate"
                | "--unbuffered"
                | "--null-data"
                | "--sandbox"
                | "--expression"
                | "--version"
                | "--help"
        ) || is_plain_cluster(word);
        return (!known).then_some(does);
    }
    let first_operand = words[1..=at]
        .iter()
        .filter(|word| !word.starts_with('-'))
        .count()
        == 1;
    (!has_e && first_operand && is_script(word)).then_some(does)
}

/// `-i`, `-ni`, `-i.bak`, `--in-place=.bak`: the files are changed.
pub(super) fn is_in_place(word: &str) -> bool {
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        return !name.is_empty() && "in-place".starts_with(name);
    }
    word.strip_prefix('-').is_some_and(|letters| {
        letters
            .split_once('i')
            .is_some_and(|(before, _)| before.chars().all(|c| "nErsuz".contains(c)))
    })
}

/// `-e`, `--expression`, or a cluster that ends in `e`: the next word is a script.
fn is_e_option(word: &str) -> bool {
    word == "--expression"
        || word
            .strip_prefix('-')
            .is_some_and(|rest| !rest.starts_with('-') && rest.ends_with('e'))
}

/// `-nE`, `-ne`: an `e` only at the end, for what follows it in a cluster is a script.
fn is_plain_cluster(word: &str) -> bool {
    let letters = word[1..].strip_suffix('e').unwrap_or(&word[1..]);
    letters.chars().all(|c| "nErsuz".contains(c))
}

/// Whether a sed script consists of commands that touch nothing but the stream: no `w`, `W`, `r`, `R`,
/// `e`, no `s///w` or `s///e`, no braces, labels or text.
fn is_plain_sed(script: &str) -> bool {
    let chars: Vec<char> = script.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        if chars[at].is_ascii_whitespace() || chars[at] == ';' {
            at += 1;
            continue;
        }
        match sed_command(&chars, at) {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}

/// The end of one plain command with its addresses.
fn sed_command(chars: &[char], start: usize) -> Option<usize> {
    let mut at = sed_address(chars, start)?;
    if chars.get(at) == Some(&',') {
        at = sed_address(chars, skip_blanks(chars, at + 1))?;
    }
    at = skip_blanks(chars, at);
    while chars.get(at) == Some(&'!') {
        at = skip_blanks(chars, at + 1);
    }
    let end = match chars.get(at)? {
        'p' | 'd' | 'D' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' => at + 1,
        'q' | 'Q' => skip_digits(chars, skip_blanks(chars, at + 1)),
        's' => {
            let delimiter = *chars.get(at + 1)?;
            let middle = delimited(chars, at + 2, delimiter)?;
            let mut end = delimited(chars, middle, delimiter)?;
            while chars
                .get(end)
                .is_some_and(|c| "gpiIm0123456789".contains(*c))
            {
                end += 1;
            }
            end
        }
        'y' => {
            let delimiter = *chars.get(at + 1)?;
            delimited(chars, delimited(chars, at + 2, delimiter)?, delimiter)?
        }
        _ => return None,
    };
    let end = skip_blanks(chars, end);
    matches!(chars.get(end), None | Some(';' | '\n')).then_some(end)
}

/// The end of an address, which may be missing.
fn sed_address(chars: &[char], at: usize) -> Option<usize> {
    match chars.get(at) {
        Some('$') => Some(at + 1),
        Some('+' | '~') => Some(skip_digits(chars, at + 1)),
        Some(c) if c.is_ascii_digit() => {
            let end = skip_digits(chars, at);
            Some(match chars.get(end) {
                Some('~') => skip_digits(chars, end + 1),
                _ => end,
            })
        }
        Some('/') => {
            let end = delimited(chars, at + 1, '/')?;
            Some(match chars.get(end) {
                Some('I') => end + 1,
                _ => end,
            })
        }
        _ => Some(at),
    }
}

/// The place after the next delimiter that is not escaped.
///
/// Within brackets a delimiter may be literal or not, depending on the sed: such text is not plain.
fn delimited(chars: &[char], start: usize, delimiter: char) -> Option<usize> {
    if matches!(delimiter, '\\' | '\n') || delimiter.is_ascii_alphanumeric() {
        return None;
    }
    let mut at = start;
    let mut bracket = false;
    loop {
        match *chars.get(at)? {
            '\n' => return None,
            c if c == delimiter => return (!bracket).then_some(at + 1),
            '\\' if !bracket => at += 2,
            // `[:alpha:]` inside brackets.
            '[' if bracket && matches!(chars.get(at + 1), Some(':' | '.' | '=')) => {
                let kind = *chars.get(at + 1)?;
                at += 2;
                while !(*chars.get(at)? == kind && *chars.get(at + 1)? == ']') {
                    if chars[at] == delimiter || chars[at] == '\n' {
                        return None;
                    }
                    at += 1;
                }
                at += 2;
            }
            '[' if bracket => at += 1,
            '[' => {
                bracket = true;
                at += 1;
                // `[]…]` and `[^]…]`: the first bracket is a character.
                if chars.get(at) == Some(&'^') {
                    at += 1;
                }
                if chars.get(at) == Some(&']') {
                    at += 1;
                }
            }
            ']' => {
                bracket = false;
                at += 1;
            }
            _ => at += 1,
        }
    }
}

fn skip_blanks(chars: &[char], mut at: usize) -> usize {
    while matches!(chars.get(at), Some(' ' | '\t')) {
        at += 1;
    }
    at
}

fn skip_digits(chars: &[char], mut at: usize) -> usize {
    while chars.get(at).is_some_and(char::is_ascii_digit) {
        at += 1;
    }
    at
}

/// What a word of an `awk` command does beyond reading its input.
///
/// Text that could open a file or start a program is found wherever it stands, comparisons with `>`
/// beside a `print` too: an author who means them writes the whole command as a rule.
pub(super) fn awk_word(words: &[String], at: usize) -> Option<&'static str> {
    let word = words[at].as_str();
    if at == 0 {
        return None;
    }
    let runs = word.contains("system")
        || word.contains("getline")
        || word.contains("ARGV")
        || word.contains('@')
        || word.replace("||", "").contains('|');
    let writes = word.contains("print") && word.contains('>');
    // `-v name=value` and `-F sep` are the options that only set something.
    let option = word.starts_with('-')
        && !word.starts_with("-F")
        && !word.starts_with("-v")
        && !matches!(word, "-" | "--");
    if option {
        Some("changes how awk works")
    } else if runs {
        Some("may run other programs")
    } else {
        writes.then_some("may write files")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_sed_scripts_touch_nothing_but_the_stream() {
        for (script, is_plain) in [
            ("10,20p", true),
            ("$p", true),
            ("/foo/,/bar/d", true),
            ("s/a/b/g", true),
            ("s|/a|/b|", true),
            ("s/[0-9]*/x/; 3q", true),
            ("s/a\\/b/c/", true),
            ("s/[[:space:]]*$//", true),
            ("s/[[:alpha:]/]/x/", false),
            ("1!d", true),
            ("/^$/d", true),
            ("1~2p", true),
            ("s/a/b/w out", false),
            ("s/a/b/e", false),
            ("w out", false),
            ("r /etc/passwd", false),
            ("1e touch x", false),
            ("e", false),
            ("/x/w out", false),
            ("{p}", false),
            ("a\\text", false),
            ("s/[/]/x/w out", false),
            ("s/[/g;s/]/w out/", false),
            ("p\nw out", false),
            ("sxaxbxe", false),
        ] {
            assert_eq!(is_plain_sed(script), is_plain, "{script}");
        }
    }

    fn words(command: &[&str]) -> Vec<String> {
        command.iter().map(|word| (*word).to_owned()).collect()
    }

    fn any(command: &[&str], of: fn(&[String], usize) -> Option<&'static str>) -> bool {
        let words = words(command);
        (0..words.len()).any(|at| of(&words, at).is_some())
    }

    #[test]
    fn the_scripts_of_a_sed_command_are_found() {
        for (command, excess) in [
            (vec!["sed", "-n", "1,5p", "a.txt"], false),
            (vec!["sed", "-ne", "1,5p", "w.txt"], false),
            (vec!["sed", "-e", "s/a/b/", "-e", "w x", "a.txt"], true),
            (vec!["sed", "--expression=w x", "a.txt"], true),
            (vec!["sed", "-ew x"], true),
            (vec!["sed", "-nee", "a.txt"], true),
            (vec!["sed", "-i", "s/a/b/"], true),
            (vec!["sed", "-f", "x.sed"], true),
            (vec!["sed", "-n", "w x", "a.txt"], true),
            (vec!["sed", "-E", "s/a/b/", "-n", "w.txt"], false),
            (vec!["sed", "a.txt", "-n", "-e", "p"], false),
        ] {
            assert_eq!(any(&command, sed_word), excess, "{command:?}");
        }
    }

    #[test]
    fn awk_programs_that_open_or_start_something_are_found() {
        for (command, excess) in [
            (vec!["awk", "{print $1}", "a.txt"], false),
            (vec!["awk", "-F:", "$3 > 5 || $4", "a"], false),
            (vec!["awk", "BEGIN{system(\"id\")}"], true),
            (vec!["awk", "{print > \"x\"}"], true),
            (vec!["awk", "{print | \"sh\"}"], true),
            (vec!["awk", "-f", "x.awk"], true),
            (vec!["awk", "BEGIN{getline l < \"x\"}"], true),
        ] {
            assert_eq!(any(&command, awk_word), excess, "{command:?}");
        }
    }
}
