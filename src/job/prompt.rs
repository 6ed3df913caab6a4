//! The entries of `prompts`, and texts in which templates would be filled.

use super::fault::{Faults, quote};
use super::file::{Reader, Settings, shared_key};
use super::keys::{self, JOB_ONLY, Known, PROMPT_ONLY, SHARED};
use super::locate::{Position, Span, Text};
use super::node::{Content, Entry, Node};
use super::value::{self, At};

/// The longest id; it becomes a directory's name.
const MAX_ID: usize = 64;

/// A prompt as written.
#[derive(Debug)]
pub(super) struct PromptEntry {
    /// Where it begins.
    pub(super) span: Span,
    pub(super) id: Option<At<String>>,
    /// `None` when what was written is faulty.
    pub(super) ask: Option<Ask>,
    pub(super) settings: Settings,
}

/// What is asked, or the file that says it.
#[derive(Debug)]
pub(super) enum Ask {
    Text(String),
    File(At<String>),
}

/// The list `prompts`.
pub(super) fn read_list(reader: &mut Reader<'_>, node: &Node) -> Vec<PromptEntry> {
    let help = "write each prompt on a line of its own behind `- `";
    let Some(nodes) = value::list(&mut reader.faults, "prompts", node, help) else {
        return Vec::new();
    };
    if nodes.is_empty() {
        reader.faults.error(node.span, "`prompts` is empty", help);
    }
    nodes.iter().map(|node| read(reader, node)).collect()
}

fn read(reader: &mut Reader<'_>, node: &Node) -> PromptEntry {
    let mut prompt = PromptEntry {
        span: node.span,
        id: None,
        ask: None,
        settings: Settings::default(),
    };
    match &node.content {
        Content::Scalar(_) => prompt.ask = filled_text(reader, "prompt", node).map(Ask::Text),
        Content::Map(entries) => read_object(reader, &mut prompt, entries),
        Content::List(_) => {
            let help = "write the text, or `prompt: …` and other keys";
            reader
                .faults
                .wrong("prompts", "a list of texts and mappings", node, help);
        }
    }
    prompt
}

fn read_object(reader: &mut Reader<'_>, prompt: &mut PromptEntry, entries: &[Entry]) {
    if is_sentence(entries) {
        reader.faults.error(
            prompt.span,
            "a prompt must be text or a mapping with `prompt` in it",
            "a text with a colon in it must stand in quotes, or behind `|` on the lines below",
        );
        return;
    }
    let asks = |key: &str| matches!(key, "prompt" | "prompt_file");
    let mut asking = entries.iter().filter(|entry| asks(&entry.key.text));
    let first = asking.next();
    if let (Some(first), Some(second)) = (first, asking.next())
        && first.key.text != second.key.text
    {
        reader.faults.error(
            second.key.span,
            "both `prompt` and `prompt_file` are written",
            "keep one of them",
        );
    }
    let mut is_asked = first.is_some();
    for entry in entries {
        let (key, node) = (entry.key.text.as_str(), &entry.value);
        match key {
            "id" => prompt.id = id(&mut reader.faults, node),
            "prompt" => prompt.ask = filled_text(reader, key, node).map(Ask::Text),
            "prompt_file" => {
                prompt.ask = value::text(&mut reader.faults, key, node).map(Ask::File);
            }
            _ if PROMPT_ONLY.contains(&key) => {
                keys::unbuilt(&mut reader.faults, entry);
            }
            _ if shared_key(reader, &mut prompt.settings, entry) => {}
            _ => {
                let meant = unknown_key(&mut reader.faults, entry);
                is_asked |= meant.is_some_and(asks);
                prompt.settings.written.extend(meant.map(str::to_owned));
            }
        }
    }
    if !is_asked {
        reader.faults.error(
            prompt.span,
            "a prompt without `prompt` or `prompt_file`",
            "add `prompt: …` or `prompt_file: PATH`",
        );
    }
}

/// `- Summarise: what changed` is a mapping to YAML.
fn is_sentence(entries: &[Entry]) -> bool {
    let known = || PROMPT_ONLY.iter().chain(SHARED).chain(JOB_ONLY).copied();
    let [only] = entries else {
        return false;
    };
    let written = only.key.text.as_str();
    keys::meant(written, &known().collect::<Vec<_>>()).is_none()
}

/// Notes a key that a prompt does not have, and gives the name that was probably meant.
fn unknown_key(faults: &mut Faults, entry: &Entry) -> Option<&'static str> {
    let key = entry.key.text.as_str();
    if JOB_ONLY.contains(&key) && key != "name" {
        faults.error(
            entry.key.span,
            format!("{} is a key of the job, not of a prompt", quote(key)),
            "write it at the top of the file",
        );
        return None;
    }
    let known = [PROMPT_ONLY, SHARED].concat();
    keys::unknown_key(faults, entry, "in a prompt", Known::all(&known))
}

fn id(faults: &mut Faults, node: &Node) -> Option<At<String>> {
    let help = "1 to 64 letters, digits, `.`, `_` and `-`: it names a directory and a test case";
    // A number is a fine id, written as it is.
    let text = match &node.content {
        Content::Scalar(scalar) if scalar.text.bytes().all(|b| b.is_ascii_digit()) => {
            Some(scalar.text.clone()).filter(|digits| !digits.is_empty())
        }
        Content::Scalar(_) | Content::List(_) | Content::Map(_) => None,
    };
    let id = match text {
        Some(value) => At {
            value,
            span: node.span,
        },
        None => value::text(faults, "id", node)?,
    };
    let is_fit = id.value.len() <= MAX_ID
        && id
            .value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && !matches!(id.value.as_str(), "." | "..");
    if !is_fit {
        faults.wrong("id", "a name fit for a file", node, help);
        return None;
    }
    Some(id)
}

/// A text in which `{{ inputs.x }}` and the like would be filled; they are not built, and sending
/// them as they are would ask the model something else.
pub(super) fn filled_text(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    let text = value::text(&mut reader.faults, key, node)?;
    if let Some(template) = find_template(&text.value) {
        let span = place(reader.text, text.span, template);
        unfilled(&mut reader.faults, span, template);
        return None;
    }
    Some(text.value)
}

/// Notes a template.
pub(super) fn unfilled(faults: &mut Faults, span: Span, template: &str) {
    faults.error(
        span,
        format!("templates are not supported yet: {}", quote(template)),
        "write the value itself, or generate the job file",
    );
}

/// Where a template stands in the file: the text may begin lines before it.
fn place(text: &Text<'_>, value: Span, template: &str) -> Span {
    text.find(template, value.at).unwrap_or(value)
}

/// The first `{{ inputs.…}}`, `{{ matrix.…}}` or `{{ env.…}}`; other braces are text.
pub(super) fn find_template(text: &str) -> Option<&str> {
    text.match_indices("{{").find_map(|(start, _)| {
        let inner = &text[start + 2..];
        let name = inner.trim_start();
        let is_ours = ["inputs.", "matrix.", "env."]
            .iter()
            .any(|prefix| name.starts_with(prefix));
        let end = inner.find("}}").filter(|_| is_ours)?;
        // On one line: what is cut by a line end is found in the file no more.
        let whole = &text[start..start + 2 + end + 2];
        whole.lines().next()
    })
}

/// The place of a job's prompt without any.
pub(super) const NOWHERE: Span = Span {
    at: Position::START,
    width: 1,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_templates_are_templates() {
        for (text, template) in [
            ("Look at {{ inputs.title }}.", Some("{{ inputs.title }}")),
            ("{{env.HOME}}", Some("{{env.HOME}}")),
            ("{{ {{ matrix.os }}", Some("{{ matrix.os }}")),
            ("{{ github.sha }}", None),
            ("{{ inputs.title", None),
            ("fn main() {{ env }}", None),
            ("a { b }", None),
            ("", None),
        ] {
            assert_eq!(find_template(text), template, "{text}");
        }
    }
}
