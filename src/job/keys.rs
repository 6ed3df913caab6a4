//! The keys of the format that are known and not built yet, and words for keys that do not exist.

use super::fault::{Fault, Faults, nearest, quote};
use super::node::{Content, Entry};
use super::value;

/// Keys of the job alone.
pub(super) const JOB_ONLY: &[&str] = &[
    "version",
    "name",
    "description",
    "prompts",
    "job_budget_usd",
    "inputs",
    "providers",
    "replay",
];

/// Keys of a prompt alone.
pub(super) const PROMPT_ONLY: &[&str] = &[
    "id",
    "prompt",
    "prompt_file",
    "continues",
    "matrix",
    "output_schema",
];

/// Keys of the job that a prompt may have too, overriding. `checks` and `on_check_failure` are the
/// prompt's in the first place; in the job they hold for every prompt without its own.
pub(super) const SHARED: &[&str] = &[
    "model",
    "fallback_model",
    "system",
    "append_system",
    "memory",
    "allowed_tools",
    "denied_tools",
    "on_denied",
    "completion",
    "max_turns",
    "max_budget_usd",
    "max_output_tokens",
    "timeout",
    "wind_down",
    "thinking",
    "effort",
    "workspace",
    "env",
    "sandbox",
    "hooks",
    "hook_failure",
    "hooks_may_allow",
    "mcp_servers",
    "settings",
    "redact",
    "also_accept",
    "retries",
    "repeat",
    "unattended_retry",
    "limits",
    "checks",
    "on_check_failure",
];

/// The value of an unbuilt key that asks for nothing and is therefore taken.
#[derive(Clone, Copy, Debug)]
enum Nothing {
    /// There is none: whatever is written asks for something.
    Never,
    List,
    Map,
    False,
    Zero,
    Word(&'static str),
}

/// Known keys whose features are not built: what they may say all the same, and what to do instead.
const UNBUILT: &[(&str, Nothing, &str)] = &[
    (
        "fallback_model",
        Nothing::Never,
        "leave it out: a prompt whose model fails for good ends as `model_error`",
    ),
    (
        "memory",
        Nothing::List,
        "put what the model must know into `append_system`, or allow it to Read the files",
    ),
    (
        "job_budget_usd",
        Nothing::Never,
        "cap each prompt by `max_budget_usd`: the job takes at most their sum",
    ),
    (
        "max_output_tokens",
        Nothing::Never,
        "leave it out: a reply may have 16000 tokens, or as many as the model gives",
    ),
    (
        "wind_down",
        Nothing::False,
        "leave it out: at a limit the prompt ends without a last request",
    ),
    (
        "thinking",
        Nothing::Never,
        "leave it out: the model's own default holds",
    ),
    (
        "effort",
        Nothing::Never,
        "leave it out: the model's own default holds",
    ),
    (
        "hooks",
        Nothing::Map,
        "forbid by `denied_tools` and verify by `checks`",
    ),
    (
        "hook_failure",
        Nothing::Word("deny"),
        "leave it out: there are no hooks that could fail",
    ),
    (
        "hooks_may_allow",
        Nothing::False,
        "leave it out: only `allowed_tools` allow",
    ),
    (
        "mcp_servers",
        Nothing::Map,
        "leave it out: the built-in tools are those there are",
    ),
    (
        "settings",
        Nothing::Never,
        "write its permissions here, as `allowed_tools` and `denied_tools`",
    ),
    (
        "inputs",
        Nothing::Map,
        "write the values into the prompt, or generate the job file",
    ),
    (
        "redact",
        Nothing::List,
        "leave it out: provider keys and the values of secret-looking variables are masked anyway",
    ),
    (
        "also_accept",
        Nothing::List,
        "leave it out: only `completed` passes",
    ),
    (
        "retries",
        Nothing::Zero,
        "leave it out: a failed prompt stays failed; requests are retried by `limits.attempts`",
    ),
    (
        "repeat",
        Nothing::Never,
        "leave it out: each prompt runs once",
    ),
    (
        "unattended_retry",
        Nothing::False,
        "leave it out: requests are retried up to `limits.attempts` times",
    ),
    (
        "continues",
        Nothing::Never,
        "put both steps into one prompt",
    ),
    ("matrix", Nothing::Map, "write one prompt for each value"),
    (
        "output_schema",
        Nothing::Never,
        "ask for the shape in the prompt and verify it by a check",
    ),
];

/// Names that people bring along from elsewhere, too far from ours to be found by their letters.
const ELSEWHERE: &[(&str, &str)] = &[
    ("allow", "allowed_tools"),
    ("tools", "allowed_tools"),
    ("permissions", "allowed_tools"),
    ("deny", "denied_tools"),
    ("disallow", "denied_tools"),
    ("disallowed_tools", "denied_tools"),
    ("disallowedTools", "denied_tools"),
    ("budget", "max_budget_usd"),
    ("max_budget", "max_budget_usd"),
    ("turns", "max_turns"),
    ("cwd", "workspace"),
    ("working_directory", "workspace"),
    ("system_prompt", "system"),
    ("append_system_prompt", "append_system"),
    ("environment", "env"),
    ("secrets", "env"),
    ("tasks", "prompts"),
    ("steps", "prompts"),
    ("text", "prompt"),
    ("name", "id"),
    ("file", "prompt_file"),
    ("schema", "output_schema"),
    ("tests", "checks"),
    ("cmd", "command"),
    ("run", "command"),
    ("shell", "command"),
];

/// So many names are told at once when none of them is near.
const FEW: usize = 8;

/// The keys that a mapping may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'k> {
    pub(super) built: &'k [&'static str],
    /// Known, and not built: named only to who means one of them.
    pub(super) later: &'k [&'static str],
}

impl<'k> Known<'k> {
    /// Without any that come later.
    pub(super) fn all(built: &'k [&'static str]) -> Self {
        Self { built, later: &[] }
    }
}

/// Notes a key that the mapping does not have, and gives the name that was probably meant: that name is
/// then not missing as well.
pub(super) fn unknown_key(
    faults: &mut Faults,
    entry: &Entry,
    within: &str,
    known: Known<'_>,
) -> Option<&'static str> {
    let written = entry.key.text.as_str();
    let message = format!("unknown key {} {within}", quote(written));
    if faults.is_hopeless() {
        faults.push(Fault::error(entry.key.span, message));
        return None;
    }
    let Known { built, later } = known;
    let meant = meant(written, &[built, later].concat());
    let help = match meant {
        Some(near) if later.contains(&near) || find_unbuilt(near).is_some() => {
            format!("did you mean `{near}`? it is not supported yet")
        }
        Some(near) => format!("did you mean `{near}`?"),
        None if built.len() <= FEW => format!("known here: {}", built.join(", ")),
        None => "no key has a name like it".to_owned(),
    };
    faults.error(entry.key.span, message, help);
    meant
}

/// The known name that was probably meant by an unknown one.
pub(super) fn meant(written: &str, known: &[&'static str]) -> Option<&'static str> {
    ELSEWHERE
        .iter()
        .filter(|(name, _)| *name == written)
        .find_map(|(_, ours)| known.iter().find(|name| *name == ours))
        .copied()
        .or_else(|| nearest(written, known.iter().copied()))
}

fn find_unbuilt(key: &str) -> Option<&'static (&'static str, Nothing, &'static str)> {
    UNBUILT.iter().find(|(name, ..)| *name == key)
}

/// Deals with a key that is known and not built; `false` when it is not such a key.
pub(super) fn unbuilt(faults: &mut Faults, entry: &Entry) -> bool {
    let key = entry.key.text.as_str();
    let Some((_, nothing, help)) = find_unbuilt(key) else {
        return false;
    };
    let node = &entry.value;
    let asks_for_nothing = match nothing {
        Nothing::Never => Some(false),
        Nothing::List => value::list(faults, key, node, help).map(<[_]>::is_empty),
        Nothing::Map => value::map(faults, key, node, help).map(<[_]>::is_empty),
        Nothing::False => value::boolean(faults, key, node).map(|asks| !asks),
        Nothing::Zero => value::whole(faults, key, node, (0, 1000), help).map(|n| n == 0),
        Nothing::Word(word) => {
            Some(matches!(&node.content, Content::Scalar(scalar) if scalar.text == *word))
        }
    };
    if asks_for_nothing == Some(false) {
        value::unsupported(faults, entry.key.span, key, help);
    }
    true
}
