//! `env`: what the programs that the runner starts see beside a few harmless variables.

use super::fault::{Fault, Faults, quote};
use super::file::Settings;
use super::keys::{self, Known};
use super::locate::Span;
use super::node::Node;
use super::value;

/// What a variable does to programs that see it, by its name or, with `*`, by how its name begins.
///
/// Sources: SPEC, "Providers"; bash(1), "INVOCATION"; ld.so(8), "ENVIRONMENT"; git(1), "Environment
/// Variables", and git-config(1).
const EFFECTS: &[(&str, &str)] = &[
    (
        "ANTHROPIC_API_KEY",
        "the model's commands will see the provider's key",
    ),
    (
        "ANTHROPIC_AUTH_TOKEN",
        "the model's commands will see the provider's key",
    ),
    (
        "BASH_ENV",
        "bash runs the file it names before every command, whatever the rules say",
    ),
    (
        "ENV",
        "some shells run the file it names before every command, whatever the rules say",
    ),
    (
        "LD_*",
        "it can put other code into every program that is started",
    ),
    ("GIT_CONFIG*", GIT_RUNS),
    ("GIT_SSH*", GIT_RUNS),
    ("GIT_ASKPASS", GIT_RUNS),
    ("GIT_EXEC_PATH", GIT_RUNS),
    ("GIT_EXTERNAL_DIFF", GIT_RUNS),
    ("GIT_PROXY_COMMAND", GIT_RUNS),
    ("GIT_TEMPLATE_DIR", GIT_RUNS),
    (
        "GIT_DIR",
        "git takes settings, and with them programs to run, from the directory it names",
    ),
];

const GIT_RUNS: &str = "git can be made to run any program by it, whatever the rules say";

/// `{pass: [NAME], set: {NAME: VALUE}}`.
pub(super) fn read(faults: &mut Faults, settings: &mut Settings, node: &Node) {
    let help = "write `env: {pass: [NAME], set: {NAME: value}}`";
    for entry in value::map(faults, "env", node, help).unwrap_or_default() {
        match entry.key.text.as_str() {
            "pass" => settings.env_pass = env_pass(faults, &entry.value),
            "set" => settings.env_set = env_set(faults, &entry.value),
            _ => {
                keys::unknown_key(faults, entry, "in `env`", Known::all(&["pass", "set"]));
            }
        }
    }
}

fn env_pass(faults: &mut Faults, node: &Node) -> Option<Vec<String>> {
    let help = "a list of names of environment variables";
    let mut names = Vec::new();
    for node in value::list(faults, "env.pass", node, help)? {
        let Some(name) = value::text(faults, "env.pass", node) else {
            continue;
        };
        if is_env_name(&name.value) {
            warn_of_effect(faults, "env.pass", node.span, &name.value);
            names.push(name.value);
        } else {
            no_env_name(faults, node.span, &name.value);
        }
    }
    Some(names)
}

fn env_set(faults: &mut Faults, node: &Node) -> Option<Vec<(String, String)>> {
    let help = "names of environment variables and their values";
    let mut set = Vec::new();
    for entry in value::map(faults, "env.set", node, help)? {
        let name = &entry.key.text;
        if !is_env_name(name) {
            no_env_name(faults, entry.key.span, name);
            continue;
        }
        warn_of_effect(faults, "env.set", entry.key.span, name);
        let Some(value) = value::env_value(faults, &format!("env.set.{name}"), &entry.value) else {
            continue;
        };
        if name == "PATH" {
            check_path(faults, entry.value.span, &value);
        }
        set.push((name.clone(), value));
    }
    Some(set)
}

fn no_env_name(faults: &mut Faults, span: Span, name: &str) {
    faults.error(
        span,
        format!("{} is no name of an environment variable", quote(name)),
        "a name has letters, digits and `_`, and no digit in front",
    );
}

fn is_env_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

/// Warns of a variable that gives a secret away or changes what programs do.
fn warn_of_effect(faults: &mut Faults, key: &str, span: Span, name: &str) {
    let is_meant = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    };
    if let Some((_, effect)) = EFFECTS.iter().find(|(pattern, _)| is_meant(pattern)) {
        faults.push(
            Fault::warning(span, format!("`{key}` names {name}: {effect}"))
                .help("leave it out unless this is what you want"),
        );
    }
}

/// Programs are looked for in the working directory where an entry is empty or relative: one that was
/// planted in the workspace would run in the place of one that a rule allows.
fn check_path(faults: &mut Faults, span: Span, path: &str) {
    let Some(entry) = path.split(':').find(|entry| !entry.starts_with('/')) else {
        return;
    };
    let what = if entry.is_empty() {
        "an empty entry".to_owned()
    } else {
        format!("the relative entry {}", quote(entry))
    };
    faults.error(
        span,
        format!("`env.set.PATH` has {what}: programs planted in the workspace would run"),
        "write directories that begin with `/`; nothing is filled in here, neither `$PATH` nor `~`",
    );
}
