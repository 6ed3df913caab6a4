//! From the tree to a [`File`]: what was written, each value of its type, nothing merged yet.

use std::sync::Arc;
use std::time::Duration;

use crate::models::Usd;

use super::env;
use super::fault::{Faults, describe, quote};
use super::job::{Matching, OnDenied};
use super::keys::{self, JOB_ONLY, Known, PROMPT_ONLY, SHARED};
use super::locate::{Span, Text};
use super::node::{Content, Entry, Node};
use super::prompt::{self, PromptEntry};
use super::providers::{self, ProviderEntry};
use super::rules::{self, ListedRule};
use super::settings;
use super::value::{self, At};

/// What reading a file needs everywhere.
pub(super) struct Reader<'t> {
    pub(super) text: &'t Text<'t>,
    /// The file as it was named, for the places of rules.
    pub(super) name: Arc<str>,
    pub(super) faults: Faults,
}

/// A job file as written.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) name: Option<At<String>>,
    pub(super) description: Option<String>,
    pub(super) settings: Settings,
    pub(super) prompts: Vec<PromptEntry>,
    pub(super) providers: Vec<ProviderEntry>,
    pub(super) matching: Option<Matching>,
    /// Where faults of the whole job are shown: the key `prompts`, else the first; `None` when the file
    /// is no mapping, and there is nothing to judge.
    pub(super) span: Option<Span>,
}

/// The keys that a job and a prompt share. What a prompt says wins; of a mapping, key by key.
#[derive(Debug, Default)]
pub(super) struct Settings {
    /// The keys that are written, even where the value is faulty or the name mistyped.
    pub(super) written: Vec<String>,
    pub(super) model: Option<At<String>>,
    pub(super) system: Option<String>,
    pub(super) append_system: Option<String>,
    pub(super) allowed_tools: Option<Vec<ListedRule>>,
    pub(super) denied_tools: Option<Vec<ListedRule>>,
    pub(super) on_denied: Option<OnDenied>,
    pub(super) max_turns: Option<u32>,
    pub(super) max_budget: Option<Usd>,
    pub(super) timeout: Option<Duration>,
    pub(super) workspace: Option<At<String>>,
    pub(super) env_pass: Option<Vec<String>>,
    pub(super) env_set: Option<Vec<(String, String)>>,
    /// `sandbox: {mode: off}` is written: the author knows that commands run free.
    pub(super) runs_free: Option<bool>,
    pub(super) checks: Option<Vec<CheckEntry>>,
    pub(super) attempts: Option<u32>,
    pub(super) idle_timeout: Option<Duration>,
    pub(super) parallel_tools: Option<usize>,
}

impl Settings {
    /// Whether a key is written, faulty and mistyped or not.
    pub(super) fn says(&self, key: &str) -> bool {
        self.written.iter().any(|written| written == key)
    }
}

/// A check as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckEntry {
    pub(super) line: u32,
    pub(super) command: String,
    pub(super) timeout: Option<Duration>,
}

/// Reads the root of a job file.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node) -> File {
    let mut file = File::default();
    let Content::Map(entries) = &root.content else {
        reader.faults.error(
            root.span,
            format!("a job file must be a mapping, found {}", describe(root)),
            "write `prompts:` and other keys, each on a line of its own",
        );
        return file;
    };
    file.span = Some(entries.first().map_or(root.span, |entry| entry.key.span));
    let mut has_prompts = false;
    for entry in entries {
        // Who wrote `prompt` is told what is meant.
        has_prompts |= matches!(entry.key.text.as_str(), "prompts" | "prompt");
        if entry.key.text == "prompts" {
            file.span = Some(entry.key.span);
        }
        if !job_key(reader, &mut file, entry) && !shared_key(reader, &mut file.settings, entry) {
            let meant = unknown_job_key(&mut reader.faults, entry);
            has_prompts |= meant == Some("prompts");
            file.settings.written.extend(meant.map(str::to_owned));
        }
    }
    if !has_prompts {
        reader.faults.error(
            root.span,
            "`prompts` is missing",
            "add `prompts:` and a list of what to ask",
        );
    }
    file
}

/// Reads a key of the job alone; `false` when it is none.
fn job_key(reader: &mut Reader<'_>, file: &mut File, entry: &Entry) -> bool {
    let (key, node) = (entry.key.text.as_str(), &entry.value);
    if !JOB_ONLY.contains(&key) {
        return false;
    }
    let faults = &mut reader.faults;
    match key {
        "version" => {
            if let Some(version) = value::whole(
                faults,
                key,
                node,
                (0, u64::MAX),
                "this program reads version 1",
            ) && version != 1
            {
                faults.wrong(key, "1", node, "this program reads version 1");
            }
        }
        "name" => file.name = value::shown_text(faults, key, node),
        "description" => file.description = value::shown_text(faults, key, node).map(|at| at.value),
        "prompts" => file.prompts = prompt::read_list(reader, node),
        "providers" => file.providers = providers::read(faults, node),
        "replay" => file.matching = replay(faults, node),
        _ => return keys::unbuilt(faults, entry),
    }
    true
}

/// Reads a key that job and prompt share; `false` when it is none.
pub(super) fn shared_key(reader: &mut Reader<'_>, settings: &mut Settings, entry: &Entry) -> bool {
    let (key, node) = (entry.key.text.as_str(), &entry.value);
    if !SHARED.contains(&key) {
        return false;
    }
    settings.written.push(key.to_owned());
    let faults = &mut reader.faults;
    match key {
        "model" => settings.model = value::text(faults, key, node),
        "system" => settings.system = prompt::filled_text(reader, key, node),
        "append_system" => settings.append_system = prompt::filled_text(reader, key, node),
        "allowed_tools" => settings.allowed_tools = rules::read(reader, key, node, true),
        "denied_tools" => settings.denied_tools = rules::read(reader, key, node, false),
        "on_denied" => {
            let choices = [
                ("fail", OnDenied::Fail),
                ("warn", OnDenied::Warn),
                ("stop", OnDenied::Stop),
            ];
            settings.on_denied = value::choice(faults, key, node, &choices);
        }
        "completion" => settings::completion(faults, node),
        "max_turns" => {
            let help = "a turn is one model reply and its tool calls; without the key it is 25";
            let turns = value::whole(faults, key, node, (1, u32::MAX.into()), help);
            settings.max_turns = turns.and_then(|turns| u32::try_from(turns).ok());
        }
        "max_budget_usd" => settings.max_budget = value::budget(faults, key, node),
        "timeout" => settings.timeout = value::duration(faults, key, node),
        "workspace" => settings::workspace(faults, settings, node),
        "env" => env::read(faults, settings, node),
        "sandbox" => settings::sandbox(faults, settings, node),
        "limits" => settings::limits(faults, settings, node),
        "checks" => settings.checks = settings::checks(reader, node),
        "on_check_failure" => settings::on_check_failure(faults, node),
        _ => return keys::unbuilt(faults, entry),
    }
    true
}

fn replay(faults: &mut Faults, node: &Node) -> Option<Matching> {
    let help = "write `replay: {match: strict}` or `{match: order}`";
    let mut matching = None;
    for entry in value::map(faults, "replay", node, help)? {
        if entry.key.text == "match" {
            let choices = [("strict", Matching::Strict), ("order", Matching::Order)];
            matching = value::choice(faults, "replay.match", &entry.value, &choices);
        } else {
            keys::unknown_key(faults, entry, "in `replay`", Known::all(&["match"]));
        }
    }
    matching
}

/// Notes a key that a job does not have, and gives the name that was probably meant.
fn unknown_job_key(faults: &mut Faults, entry: &Entry) -> Option<&'static str> {
    let key = entry.key.text.as_str();
    if PROMPT_ONLY.contains(&key) {
        let help = if key == "prompt" {
            "did you mean `prompts`, a list?".to_owned()
        } else {
            format!("write it inside the prompt: `prompts: [{{prompt: …, {key}: …}}]`")
        };
        faults.error(
            entry.key.span,
            format!("{} is a key of a prompt, not of the job", quote(key)),
            help,
        );
        return None;
    }
    let known = [JOB_ONLY, SHARED].concat();
    keys::unknown_key(faults, entry, "in the job file", Known::all(&known))
}
