//! From a [`File`] to a [`Job`]: defaults, what prompts override, paths, prices, policies.
//!
//! What a prompt says wins over what the job says; of the mappings `workspace`, `env` and `limits`
//! key by key. A prompt's `allowed_tools` stands in the place of the job's; its `denied_tools` are
//! added to the job's, for a deny always wins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::models::Price;
use crate::policy::Policy;

use super::fault::{Fault, quote};
use super::file::{CheckEntry, File, Reader, Settings};
use super::job::{Check, Env, Job, Limits, ModelChoice, Prompt};
use super::locate::Span;
use super::model::{self, Named};
use super::prompt::{Ask, NOWHERE, PromptEntry, find_template, unfilled};
use super::providers::ProviderEntry;
use super::rules::{self, ListedRule};
use super::source::{Overrides, Source, reason};
use super::value::{self, Unfit};
use super::warnings;

/// SPEC, "Job file": `max_turns`.
const MAX_TURNS: u32 = 25;
/// SPEC, "Job file": `timeout`.
const TIMEOUT: Duration = Duration::from_mins(30);
/// A check that takes longer hangs.
const CHECK_TIMEOUT: Duration = Duration::from_mins(10);
/// As for a job file: a longer prompt would not fit a model either.
const MAX_PROMPT_BYTES: usize = 1 << 20;

/// What surrounds a job file.
pub(super) struct Surroundings<'a> {
    /// As it was named.
    pub(super) path: &'a Path,
    /// The directory it lies in, absolute.
    pub(super) dir: PathBuf,
    pub(super) digest: String,
    pub(super) overrides: &'a Overrides,
    pub(super) source: &'a dyn Source,
    /// The job files of the run, which no tool may write.
    pub(super) protected_files: &'a [PathBuf],
}

/// The job; whatever is wrong with it is noted, and then the job is not to be run.
pub(super) fn resolve(reader: &mut Reader<'_>, file: &File, around: &Surroundings<'_>) -> Job {
    let name = match &file.name {
        Some(name) => name.value.clone(),
        None => around.path.file_stem().map_or_else(
            || "job".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        ),
    };
    note_repeated_ids(reader, &file.prompts);
    if file.prompts.is_empty() {
        judge_settings(reader, file, around);
    }
    let resolved: Vec<_> = file
        .prompts
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            let mut merging = Merging {
                reader,
                file,
                entry,
                around,
            };
            merging.prompt(index)
        })
        .collect();
    let whole = resolved.iter().all(Option::is_some);
    let prompts: Vec<Prompt> = resolved.into_iter().flatten().collect();
    // A warning is only of use where it is known what runs.
    if whole {
        warnings::note(&mut reader.faults, file, &prompts);
    }
    Job {
        name,
        description: file.description.clone(),
        file: around.path.to_owned(),
        digest: around.digest.clone(),
        prompts,
        warnings: Vec::new(),
    }
}

/// Without a prompt that could be read, what the job says is judged as if for one that says nothing: a
/// fault in `prompts` must not hide the others.
fn judge_settings(reader: &mut Reader<'_>, file: &File, around: &Surroundings<'_>) {
    let Some(span) = file.span else {
        return;
    };
    let entry = PromptEntry {
        span,
        id: None,
        ask: None,
        settings: Settings::default(),
    };
    let mut merging = Merging {
        reader,
        file,
        entry: &entry,
        around,
    };
    // Nothing is asked, so that there is no prompt to be had.
    merging.prompt(0);
}

fn prompt_id(index: usize, entry: &PromptEntry) -> String {
    match &entry.id {
        Some(id) => id.value.clone(),
        None => format!("prompt-{}", index + 1),
    }
}

fn note_repeated_ids(reader: &mut Reader<'_>, entries: &[PromptEntry]) {
    let mut first: HashMap<String, Span> = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        let span = entry.id.as_ref().map_or(entry.span, |id| id.span);
        let id = prompt_id(index, entry);
        let Some(before) = first.get(&id) else {
            first.insert(id, span);
            continue;
        };
        let message = format!(
            "two prompts have the id {}, the first at {}:{}",
            quote(&id),
            before.at.line,
            before.at.column
        );
        let help = "ids are unique in a job; without one the second prompt is `prompt-2`";
        reader.faults.error(span, message, help);
    }
}

/// One prompt between its own settings and the job's.
struct Merging<'m, 't> {
    reader: &'m mut Reader<'t>,
    file: &'m File,
    entry: &'m PromptEntry,
    around: &'m Surroundings<'m>,
}

impl Merging<'_, '_> {
    /// The prompt's setting, else the job's.
    fn either<T: Clone>(&self, setting: impl Fn(&Settings) -> &Option<T>) -> Option<T> {
        setting(&self.entry.settings)
            .clone()
            .or_else(|| setting(&self.file.settings).clone())
    }

    fn says(&self, key: &str) -> bool {
        self.entry.settings.says(key) || self.file.settings.says(key)
    }

    /// Where faults of the whole job are shown.
    fn job_span(&self) -> Span {
        self.file.span.unwrap_or(NOWHERE)
    }

    /// Everything is looked at before anything is given up, so that all faults are noted.
    fn prompt(&mut self, index: usize) -> Option<Prompt> {
        let text = self.text();
        let model = self.model();
        let max_budget = self
            .around
            .overrides
            .max_budget
            .or_else(|| self.either(|settings| &settings.max_budget));
        if max_budget.is_none() && !self.says("max_budget_usd") {
            self.note_missing_budget(model.as_ref());
        }
        let workspace = self.workspace();
        let defaults = Limits::default();
        let limits = Limits {
            attempts: self.either(|s| &s.attempts).unwrap_or(defaults.attempts),
            idle_timeout: self
                .either(|s| &s.idle_timeout)
                .unwrap_or(defaults.idle_timeout),
            parallel_tools: self
                .either(|s| &s.parallel_tools)
                .unwrap_or(defaults.parallel_tools),
        };
        let workspace = workspace?;
        Some(Prompt {
            id: prompt_id(index, self.entry),
            line: self.entry.span.at.line,
            text: text?,
            model: model?,
            system: self.either(|s| &s.system),
            append_system: self.either(|s| &s.append_system),
            policy: Arc::new(self.policy(workspace.clone())),
            on_denied: self.either(|s| &s.on_denied).unwrap_or_default(),
            max_turns: self.either(|s| &s.max_turns).unwrap_or(MAX_TURNS),
            max_budget,
            timeout: self.either(|s| &s.timeout).unwrap_or(TIMEOUT),
            workspace,
            env: Env {
                pass: self.either(|s| &s.env_pass).unwrap_or_default(),
                set: self.either(|s| &s.env_set).unwrap_or_default(),
            },
            checks: checks(&self.either(|s| &s.checks).unwrap_or_default()),
            limits,
        })
    }

    fn text(&mut self) -> Option<String> {
        let named = match self.entry.ask.as_ref()? {
            Ask::Text(text) => return Some(text.clone()),
            Ask::File(named) => named,
        };
        let path = self.around.dir.join(&named.value);
        let fault = |message: String, help: &str| Fault::error(named.span, message).help(help);
        let read = match self.around.source.read(&path, MAX_PROMPT_BYTES) {
            Ok(bytes) if bytes.len() > MAX_PROMPT_BYTES => Err(fault(
                format!("{} is larger than 1 MiB", quote(&named.value)),
                "a prompt must fit a model",
            )),
            Ok(bytes) => String::from_utf8(bytes).map_err(|_| {
                fault(
                    format!("{} is not UTF-8 text", quote(&named.value)),
                    "save it as UTF-8",
                )
            }),
            Err(error) => Err(fault(
                format!("cannot read {}: {}", quote(&named.value), reason(&error)),
                "the path is relative to the job file",
            )),
        };
        match read {
            Ok(text) => {
                if let Some(Unfit { what, .. }) = value::unfit(&text) {
                    let message = format!("{} {what}", quote(&named.value));
                    let help = "write into it what is asked, as text";
                    self.reader.faults.error(named.span, message, help);
                } else if let Some(template) = find_template(&text) {
                    unfilled(&mut self.reader.faults, named.span, template);
                } else {
                    return Some(text);
                }
            }
            Err(fault) => self.reader.faults.push(fault),
        }
        None
    }

    fn model(&mut self) -> Option<ModelChoice> {
        let source = self.around.source;
        if let Some(directory) = &self.around.overrides.replay {
            let chosen = model::replay(&source.cwd(), directory, self.file.matching, source);
            return self.noted(chosen.map_err(|reason| {
                let shown = quote(&directory.to_string_lossy());
                Fault::error(
                    self.job_span(),
                    format!("--replay: there is no cassette at {shown}: {reason}"),
                )
                .help("the path is relative to the working directory")
            }));
        }
        let chosen = model::choose(&self.named()?, self.file, source);
        self.noted(chosen)
    }

    /// The model as somebody named it; `None` when what is written there is faulty, and noted.
    fn named(&self) -> Option<Named> {
        let source = self.around.source;
        let (text, span, origin, base) = if let Some(text) = &self.around.overrides.model {
            (text.clone(), self.job_span(), Some("--model"), source.cwd())
        } else if let Some(written) = self.either(|settings| &settings.model) {
            (written.value, written.span, None, self.around.dir.clone())
        } else if self.says("model") {
            return None;
        } else {
            let (text, origin) = model::default_name(source);
            (text, self.job_span(), origin, source.cwd())
        };
        Some(Named {
            text,
            span,
            origin,
            base,
        })
    }

    fn noted<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.reader.faults.push(fault)).ok()
    }

    fn note_missing_budget(&mut self, model: Option<&ModelChoice>) {
        let message = match model {
            Some(ModelChoice::Anthropic(facts)) if facts.price != Price::Free => format!(
                "`max_budget_usd` is missing, and model {} costs money",
                quote(&facts.id)
            ),
            // The fault in the name is one fault, and this another.
            None if self.would_cost() => {
                "`max_budget_usd` is missing: only a model that costs nothing needs none".to_owned()
            }
            Some(ModelChoice::Anthropic(_) | ModelChoice::Replay { .. }) | None => return,
        };
        let help = "add `max_budget_usd: 0.50`, a hard cap in US dollars for each prompt, or give --max-budget-usd";
        self.reader.faults.error(self.job_span(), message, help);
    }

    /// Whether a model with a fault in its name is one that costs money, as far as can be told.
    fn would_cost(&self) -> bool {
        let says_free = |entry: &ProviderEntry| entry.price == Some(Price::Free);
        self.around.overrides.replay.is_none()
            && !self.file.providers.iter().any(says_free)
            && self.named().is_some_and(|named| !named.is_replay())
    }

    /// The directory the tools work in, links resolved.
    fn workspace(&mut self) -> Option<PathBuf> {
        let written = self.either(|settings| &settings.workspace);
        let (path, span) = match &written {
            Some(dir) => (self.around.dir.join(&dir.value), dir.span),
            None => (self.around.dir.clone(), self.job_span()),
        };
        let source = self.around.source;
        let problem = match source.canonical(&path) {
            Ok(path) if source.is_dir(&path) => return Some(path),
            Ok(_) => "is no directory".to_owned(),
            Err(error) => format!("cannot be opened: {}", reason(&error)),
        };
        let shown =
            quote(&written.map_or_else(|| path.to_string_lossy().into_owned(), |d| d.value));
        self.reader.faults.error(
            span,
            format!("the workspace {shown} {problem}"),
            "the path is relative to the job file",
        );
        None
    }

    fn policy(&self, workspace: PathBuf) -> Policy {
        let listed = |list: &'_ Option<Vec<ListedRule>>| list.clone().unwrap_or_default();
        let (job, own) = (&self.file.settings, &self.entry.settings);
        rules::policy(
            allow_rules(self.file, self.entry),
            &[&listed(&job.denied_tools), &listed(&own.denied_tools)],
            workspace,
            self.around.source.home(),
            self.around.protected_files.to_vec(),
        )
    }
}

/// The rules that allow for a prompt: its own, else the job's.
pub(super) fn allow_rules<'f>(file: &'f File, entry: &'f PromptEntry) -> &'f [ListedRule] {
    let own = entry.settings.allowed_tools.as_ref();
    own.or(file.settings.allowed_tools.as_ref())
        .map_or(&[], Vec::as_slice)
}

fn checks(entries: &[CheckEntry]) -> Vec<Check> {
    entries
        .iter()
        .zip(1..)
        .map(|(entry, number)| Check {
            id: format!("check-{number}"),
            line: entry.line,
            command: entry.command.clone(),
            timeout: entry.timeout.unwrap_or(CHECK_TIMEOUT),
        })
        .collect()
}
