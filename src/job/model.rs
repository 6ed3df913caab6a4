//! Who answers: from `model`, the environment and the command line to a choice with limits and price.

use std::path::{Path, PathBuf};

use crate::models;

use super::fault::{Fault, nearest, quote};
use super::file::File;
use super::job::{Matching, ModelChoice, ModelFacts};
use super::locate::Span;
use super::providers::ProviderEntry;
use super::source::{Source, reason};

/// Without a word from anybody.
const DEFAULT: &str = "anthropic/claude-sonnet-5-5";

/// A model as somebody named it.
pub(super) struct Named {
    pub(super) text: String,
    /// Where to show a fault.
    pub(super) span: Span,
    /// Where it was named, when that was not the file; in front of the message.
    pub(super) origin: Option<&'static str>,
    /// What a relative `replay/PATH` is relative to.
    pub(super) base: PathBuf,
}

impl Named {
    /// Whether a cassette is to answer, whether or not it is there.
    pub(super) fn is_replay(&self) -> bool {
        self.text.trim_start().starts_with("replay/")
    }
}

/// Who names the model when neither command line nor file does.
pub(super) fn default_name(source: &dyn Source) -> (String, Option<&'static str>) {
    match source.env("LIGHTSOUT_MODEL") {
        Some(name) if !name.trim().is_empty() => (name, Some("LIGHTSOUT_MODEL")),
        _ => (DEFAULT.to_owned(), None),
    }
}

/// The choice, or the fault in the name.
pub(super) fn choose(
    named: &Named,
    file: &File,
    source: &dyn Source,
) -> Result<ModelChoice, Fault> {
    let fault = |message: String, help: &str| {
        let message = match named.origin {
            Some(origin) => format!("{origin}: {message}"),
            None => message,
        };
        Err(Fault::error(named.span, message).help(help))
    };
    let text = named.text.trim();
    let (provider, name) = match text.split_once('/') {
        Some((provider, name)) => (provider, name),
        None if text.starts_with("claude-") => ("anthropic", text),
        None => {
            let help = match near_model(text) {
                Some(near) => format!("did you mean `anthropic/{near}`?"),
                None => format!("write `anthropic/MODEL` or `replay/PATH`; {}", families()),
            };
            return fault(format!("model {} names no provider", quote(text)), &help);
        }
    };
    match provider {
        "replay" => replay(&named.base, Path::new(name), file.matching, source).or_else(|reason| {
            fault(
                format!("there is no cassette at {}: {reason}", quote(name)),
                match named.origin {
                    Some(_) => "the path is relative to the working directory; `--record DIR` writes a cassette",
                    None => "the path is relative to the job file; `--record DIR` writes a cassette",
                },
            )
        }),
        "anthropic" if name.is_empty() => fault(
            "`anthropic/` names no model".to_owned(),
            &format!("write `anthropic/MODEL`; {}", families()),
        ),
        "anthropic" => match facts(name, &file.providers) {
            Ok(facts) => Ok(ModelChoice::Anthropic(facts)),
            Err(Unpriced { message, help }) => fault(message, &help),
        },
        "openai" => fault(
            "`openai/…` models are not supported yet".to_owned(),
            "this version talks to `anthropic/MODEL` and `replay/PATH`",
        ),
        _ => {
            let known = ["anthropic", "openai", "replay"];
            let help = match nearest(provider, known) {
                Some(near) => format!("did you mean `{near}/{name}`?"),
                None => "write `anthropic/MODEL` or `replay/PATH`".to_owned(),
            };
            fault(format!("unknown provider {}", quote(provider)), &help)
        }
    }
}

/// What the ids of the compiled-in list begin with, and people leave out.
const MAKER: &str = "claude-";

/// The known model that was probably meant; `sonnet-5-5` and `sonnet` mean one too.
fn near_model(written: &str) -> Option<&'static str> {
    let short = |id: &'static str| id.strip_prefix(MAKER);
    // What all ids share is no likeness: `claude-gpt-5` is not near `claude-opus-5`.
    let wanted = written.strip_prefix(MAKER).unwrap_or(written);
    let near = nearest(wanted, models::known_ids().filter_map(short));
    models::known_ids()
        .find(|id| near.is_some() && short(id) == near)
        .or_else(|| models::known_ids().find(|id| short(family(id)) == Some(wanted)))
        .or_else(|| nearest(written, models::known_ids()).filter(|_| wanted == written))
}

/// An id without its version.
fn family(id: &'static str) -> &'static str {
    let version = id.find(|c: char| c.is_ascii_digit());
    version.map_or(id, |at| id[..at].trim_end_matches('-'))
}

/// The known models in few words.
fn families() -> String {
    let mut families: Vec<&str> = models::known_ids().map(family).collect();
    families.sort_unstable();
    families.dedup();
    format!("the known families are {}", families.join(", "))
}

/// The cassette at a path, relative to `base`, or why there is none.
pub(super) fn replay(
    base: &Path,
    path: &Path,
    matching: Option<Matching>,
    source: &dyn Source,
) -> Result<ModelChoice, String> {
    if path.as_os_str().is_empty() {
        return Err("the path is empty".to_owned());
    }
    let path = base.join(path);
    let path = source.canonical(&path).map_err(|error| reason(&error))?;
    if !source.is_file(&path) && !source.is_dir(&path) {
        return Err("neither a file nor a directory".to_owned());
    }
    Ok(ModelChoice::Replay {
        path,
        matching: matching.unwrap_or_default(),
    })
}

/// Why a model cannot be budgeted.
struct Unpriced {
    message: String,
    help: String,
}

/// What is known of an Anthropic model: what the file says of the model, else of the provider, else
/// the compiled-in list.
fn facts(id: &str, providers: &[ProviderEntry]) -> Result<ModelFacts, Unpriced> {
    let known = models::nearest(id);
    let said: Vec<_> = entries_for(id, providers).collect();
    let price = said
        .iter()
        .find_map(|entry| entry.price)
        .or_else(|| known.and_then(|model| model.price));
    let Some(price) = price else {
        let give_one = format!(
            "say what it costs: `providers: {{{id}: {{price: {{input: …, output: …}}}}}}`, in US dollars per million tokens"
        );
        return Err(if known.is_some() {
            Unpriced {
                message: format!("no price is known for model {}", quote(id)),
                help: give_one,
            }
        } else {
            Unpriced {
                message: format!("unknown model {}", quote(id)),
                help: match near_model(id) {
                    Some(near) => format!("did you mean `{near}`? else {give_one}"),
                    None => format!("{}; of another model {give_one}", families()),
                },
            }
        });
    };
    Ok(ModelFacts {
        id: id.to_owned(),
        context_window: said
            .iter()
            .find_map(|entry| entry.context_window)
            .or_else(|| known.and_then(|model| model.context_window)),
        max_output: said
            .iter()
            .find_map(|entry| entry.max_output)
            .or_else(|| known.and_then(|model| model.max_output)),
        price,
    })
}

/// The entries that hold for an Anthropic model, the nearest first.
pub(super) fn entries_for<'p>(
    id: &str,
    providers: &'p [ProviderEntry],
) -> impl Iterator<Item = &'p ProviderEntry> {
    let names = [
        format!("anthropic/{id}"),
        id.to_owned(),
        "anthropic".to_owned(),
    ];
    names
        .into_iter()
        .filter_map(|name| providers.iter().find(|entry| entry.name == name))
}
