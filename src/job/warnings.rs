//! What holds and is most likely not meant: said once a job, and only of a job that could run.

use super::fault::{Fault, Faults, quote};
use super::file::File;
use super::job::{ModelChoice, Prompt};
use super::model;
use super::prompt::PromptEntry;
use super::resolve::allow_rules;

/// So many prompts are named in one warning.
const MOST_NAMED: usize = 20;

/// Notes the warnings of a job; `prompts` are those of `file`, in order.
pub(super) fn note(faults: &mut Faults, file: &File, prompts: &[Prompt]) {
    free_commands(faults, file, prompts);
    missing_checks(faults, file, prompts);
    idle_providers(faults, file, prompts);
}

/// Once a job: at its first rule that lets commands run free without a word that this is meant.
fn free_commands(faults: &mut Faults, file: &File, prompts: &[Prompt]) {
    let rule = file
        .prompts
        .iter()
        .zip(prompts)
        .find_map(|(entry, prompt)| {
            let runs_free = entry.settings.runs_free.or(file.settings.runs_free);
            if runs_free == Some(true) || !prompt.policy.offers("Bash") {
                return None;
            }
            allow_rules(file, entry).iter().find(|rule| rule.is_bash)
        });
    if let Some(rule) = rule {
        faults.push(
            Fault::warning(rule.span, "Bash runs without a sandbox: this version has none").help(
                "run it in a container, and write `sandbox: {mode: off}` to say that commands may run free",
            ),
        );
    }
}

/// Once a job: at its first prompt that changes things and is believed on its word, naming them all.
fn missing_checks(faults: &mut Faults, file: &File, prompts: &[Prompt]) {
    let unchecked: Vec<_> = file
        .prompts
        .iter()
        .zip(prompts)
        .filter(|(entry, prompt)| prompt.checks.is_empty() && may_change(file, entry, prompt))
        .collect();
    let Some((first, _)) = unchecked.first() else {
        return;
    };
    let mut names: Vec<String> = unchecked
        .iter()
        .take(MOST_NAMED)
        .map(|(_, prompt)| quote(&prompt.id))
        .collect();
    if let Some(more) = unchecked.len().checked_sub(MOST_NAMED).filter(|n| *n > 0) {
        names.push(format!("and {more} more"));
    }
    let (noun, pronoun) = if unchecked.len() == 1 {
        ("prompt", "it")
    } else {
        ("prompts", "they")
    };
    let names = names.join(", ");
    let message = format!(
        "{noun} {names} may write or run commands, and no check looks at what {pronoun} did"
    );
    let help = "add `checks: [{command: \"make test\"}]`: else whatever it says at the end passes";
    faults.push(Fault::warning(first.span, message).help(help));
}

/// Whether a rule that holds for a prompt allows more than to read.
fn may_change(file: &File, entry: &PromptEntry, prompt: &Prompt) -> bool {
    allow_rules(file, entry)
        .iter()
        .any(|listed| listed.may_change && prompt.policy.offers(listed.rule.tool().as_str()))
}

/// An entry that holds for no prompt is most likely mistyped.
fn idle_providers(faults: &mut Faults, file: &File, prompts: &[Prompt]) {
    for entry in &file.providers {
        let is_used = prompts.iter().any(|prompt| match &prompt.model {
            ModelChoice::Anthropic(facts) => {
                model::entries_for(&facts.id, &file.providers).any(|used| used == entry)
            }
            // Which model is replayed is the cassette's to say.
            ModelChoice::Replay { .. } => true,
        });
        if !is_used {
            faults.push(
                Fault::warning(
                    entry.span,
                    format!("{} is the model of no prompt", quote(&entry.name)),
                )
                .help("name a model, such as `anthropic/claude-sonnet-5-5`, or a provider, such as `anthropic`"),
            );
        }
    }
}
