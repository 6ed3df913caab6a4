//! Running a permitted call and making of its output what the model reads.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use serde_json::Value;

use crate::message::{ResultContent, ToolResult};
use crate::policy::Permit;
use crate::sandbox::Cancel;

use super::{Output, Session, Tool};

/// What is shown of the end of a result that is too large, in characters: errors stand there.
const TAIL_CHARS: usize = 2_000;

/// What is left for saying what was left out.
const NOTE_CHARS: usize = 500;

/// What the model reads where a tool had nothing to say; the API refuses blank text.
const NO_OUTPUT: &str = "(no output)";

/// Files tried for a result that is too large; calls of a conversation have different ids.
const FILE_NAMES: usize = 100;

/// Runs a call that was permitted. Blocking.
///
/// `input` is what [`super::Registry::check`] made of the arguments. `redact` masks secrets in what the
/// tool said, before any of it is kept; `most_chars` says how many characters may be shown of a result
/// of so many.
pub fn execute(
    tool: &dyn Tool,
    permit: &Permit,
    input: &Value,
    session: &Session,
    cancel: &Cancel,
    redact: &dyn Fn(String) -> String,
    most_chars: &dyn Fn(usize) -> usize,
) -> ToolResult {
    let id = &permit.call().tool_use.id;
    let output = if cancel.is_set() {
        Output::error("not run: the run was ended before it could start")
    } else {
        tool.run(permit, input, session, cancel)
    };
    let Output {
        content,
        is_error,
        structured,
    } = output;
    let content = content
        .into_iter()
        .map(|part| match part {
            ResultContent::Text(text) => ResultContent::Text(redact(text)),
            image @ ResultContent::Image { .. } => image,
        })
        .collect();
    let mut result = ToolResult {
        tool_use_id: id.clone(),
        content,
        is_error,
        structured,
    };
    mark_empty(&mut result);
    let most_chars = most_chars(result.text_chars());
    shorten(&mut result, most_chars, session);
    result
}

fn mark_empty(result: &mut ToolResult) {
    let is_blank = result.content.iter().all(|part| match part {
        ResultContent::Text(text) => text.trim().is_empty(),
        ResultContent::Image { .. } => false,
    });
    if is_blank {
        result.content = vec![ResultContent::Text(NO_OUTPUT.into())];
    }
}

/// Saves each text of more than `max_chars` characters whole below the session's directory for results,
/// and leaves of it the beginning, the end, its size and the file's path.
fn shorten(result: &mut ToolResult, max_chars: usize, session: &Session) {
    let id = result.tool_use_id.clone();
    // Bash keeps only so much of an output.
    let lost = result.structured["output_bytes_left_out"]
        .as_u64()
        .filter(|bytes| *bytes > 0);
    for part in &mut result.content {
        let ResultContent::Text(text) = part else {
            continue;
        };
        // Bytes are counted faster than characters, and there are never fewer.
        if text.len() <= max_chars || text.chars().count() <= max_chars {
            continue;
        }
        let saved = match save(session, &id, text) {
            Ok(path) => match lost {
                None => format!("all of it is in {}", path.display()),
                Some(bytes) => format!(
                    "that is without {bytes} bytes of the output, which were not kept; the rest is in {}",
                    path.display()
                ),
            },
            Err(error) => format!("it could not be saved: {error}"),
        };
        *text = beginning_and_end(text, max_chars, &saved);
    }
}

fn beginning_and_end(text: &str, max_chars: usize, saved: &str) -> String {
    let tail_chars = TAIL_CHARS.min(max_chars / 2);
    let head_chars = max_chars.saturating_sub(tail_chars + NOTE_CHARS);
    let chars = text.chars().count();
    let head_end = byte_of_char(text, head_chars);
    let tail_start = byte_of_char(text, chars - tail_chars);
    format!(
        "{}\n\n[… {} of {chars} characters ({} bytes) left out; {saved} …]\n\n{}",
        &text[..head_end],
        chars - head_chars - tail_chars,
        text.len(),
        &text[tail_start..]
    )
}

fn byte_of_char(text: &str, index: usize) -> usize {
    text.char_indices()
        .nth(index)
        .map_or(text.len(), |(byte, _)| byte)
}

fn save(session: &Session, id: &str, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(session.results())?;
    // The id is the provider's: it must not choose the directory.
    let name: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .take(100)
        .collect();
    for number in 0..FILE_NAMES {
        let suffix = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
        let path = session.results().join(format!("{name}{suffix}.txt"));
        match fs::File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::super::session::testing::Bench;
    use super::*;

    fn shortened(bench: &Bench, id: &str, text: String, max_chars: usize) -> String {
        let mut result = ToolResult::text(id, text, false);
        shorten(&mut result, max_chars, &bench.session);
        match result.content.remove(0) {
            ResultContent::Text(text) => text,
            image @ ResultContent::Image { .. } => panic!("{image:?}"),
        }
    }

    #[test]
    fn a_result_at_the_limit_stays_whole() {
        let bench = Bench::new();
        let text = "ä".repeat(3_000);
        assert_eq!(shortened(&bench, "t", text.clone(), 3_000), text);
    }

    #[test]
    fn g42_a_larger_one_is_saved_whole_and_cut_between_characters() {
        let bench = Bench::new();
        let text = format!("{}END", "🚀".repeat(50_000));
        let shown = shortened(&bench, "../toolu/1", text.clone(), 30_000);
        let path = bench.outside().join("results/___toolu_1.txt");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(
            shown,
            format!(
                "{}\n\n[… 20503 of 50003 characters (200003 bytes) left out; all of it is in {} …]\n\n{}END",
                "🚀".repeat(27_500),
                path.display(),
                "🚀".repeat(1_997)
            )
        );
        assert!(shown.chars().count() <= 30_000);
        let again = shortened(&bench, "../toolu/1", text, 30_000);
        assert!(again.contains("___toolu_1-1.txt"), "{again}");
    }

    #[test]
    fn nothing_starts_once_the_run_was_ended() {
        let bench = Bench::new();
        bench.cancel.set();
        let input = serde_json::json!({"file_path": "f", "content": "x"});
        let expected = "not run: the run was ended before it could start";
        assert_eq!(bench.call("Write", input), (expected.into(), true));
        assert!(!bench.root.join("f").exists());
    }

    #[test]
    fn secrets_are_masked_before_anything_is_saved() {
        let bench = Bench::new();
        let input = serde_json::json!({"command": "yes tok-123 | head -n 10000"});
        let permit = bench.permit(&crate::tools::Bash, &input);
        let redact = |text: String| text.replace("tok-123", "***");
        let (session, cancel) = (&bench.session, &bench.cancel);
        let result = execute(
            &crate::tools::Bash,
            &permit,
            &input,
            session,
            cancel,
            &redact,
            &|_| 10_000,
        );
        let saved = fs::read_to_string(bench.outside().join("results/toolu_1.txt")).unwrap();
        assert!(saved.starts_with("***\n") && !saved.contains("tok-123"));
        assert!(!format!("{:?}", result.content).contains("tok-123"));
    }

    #[test]
    fn g30_nothing_to_say_is_said() {
        for content in [vec![], vec![ResultContent::Text(" \n".into())]] {
            let mut result = ToolResult::text("t", "", false);
            result.content = content;
            mark_empty(&mut result);
            assert_eq!(result, ToolResult::text("t", NO_OUTPUT, false));
        }
    }
}
