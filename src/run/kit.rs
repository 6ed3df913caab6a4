//! What one conversation works with, set up before it starts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::job::{ModelChoice, OnDenied, Prompt};
use crate::message::{Head, RequestNumber, ToolResult};
use crate::models::{self, Price};
use crate::policy::Policy;
use crate::provider::{self, Cassette, Endpoint, Places, Provider};
use crate::query::Settings;
use crate::sandbox::{Cancel, child_environment};
use crate::tools::{Registry, Session, SessionSpec, Tool, execute};
use crate::transcript::{Event, EventBody, PromptKey, Redactor, Scope, ScopedEvent};
use crate::workspace::Workspace;

use super::authorize::Permitted;
use super::clock::Clock;
use super::prefix::PrefixGate;
use super::system;
use super::turn_room::TurnRoom;

/// Where runs go by default; one of them is the run's own output.
pub const RUNS: &str = "lightsout-runs";

/// The default output limit, in tokens. Source: SPEC 3, `max_output_tokens`.
const MAX_OUTPUT_TOKENS: u64 = 16_000;

/// `max_tokens` is lowered to fit the budget, but not below this. Source: SPEC 5.11.
const MAX_TOKENS_FLOOR: u64 = 3_000;

/// Attempts when the provider is overloaded. Source: SPEC 5.6.
const OVERLOADED_ATTEMPTS: u32 = 3;

/// What all prompts of a run share.
pub struct Shared {
    /// Time and chance.
    pub clock: Clock,
    /// Masks secrets where they enter.
    pub redactor: Arc<Redactor>,
    /// Lets one of several prompts with an equal prefix go first.
    pub gate: Arc<PrefixGate>,
    /// The runner's own environment, of which children get a part.
    pub environment: BTreeMap<OsString, OsString>,
    /// The bash that runs commands and checks, absolute.
    pub bash: PathBuf,
    /// How the Messages API is reached; `None` when no prompt of the run needs it.
    pub endpoint: Option<Endpoint>,
    /// The cassettes of the run by path.
    pub cassettes: BTreeMap<PathBuf, Arc<Cassette>>,
    /// Where `--record` writes cassettes.
    pub record: Option<PathBuf>,
    /// Where the run writes.
    pub output: PathBuf,
    /// The home directory, for normalising what is recorded.
    pub home: Option<PathBuf>,
    /// Whether somebody watches the replies stream, on a terminal; else no piece of text is passed on.
    pub shows_text: bool,
    /// Tools beside the built-in ones, offered whatever the rules say; for tests of what a tool may do
    /// to a run.
    pub more_tools: Vec<Arc<dyn Tool>>,
}

/// What one conversation works with.
pub(super) struct Kit {
    pub(super) clock: Clock,
    pub(super) prompt: Arc<Prompt>,
    pub(super) head: Arc<Head>,
    pub(super) provider: Arc<Provider>,
    pub(super) price: Price,
    /// Whether the price is the job file's, so that it holds whatever model answers.
    pub(super) price_is_given: bool,
    pub(super) max_output_tokens: u64,
    pub(super) policy: Arc<Policy>,
    pub(super) registry: Registry,
    pub(super) session: Session,
    pub(super) child_env: BTreeMap<OsString, OsString>,
    pub(super) redactor: Arc<Redactor>,
    pub(super) gate: Arc<PrefixGate>,
    pub(super) cancel: Cancel,
    room: Mutex<TurnRoom>,
    /// Whoever watches the reply stream, if anybody does.
    pub(super) viewer: Option<Viewer>,
}

/// Where pieces of visible text go while a reply streams: past the journal, dropped when slow.
pub(super) struct Viewer {
    pub(super) key: PromptKey,
    pub(super) events: mpsc::Sender<ScopedEvent>,
}

impl Kit {
    /// Sets up what `prompt` needs; the error says what could not be, and why. `place` is
    /// `JOB/PROMPT`, `directory` where the prompt's files go.
    pub(super) fn set_up(
        shared: &Shared,
        prompt: &Arc<Prompt>,
        place: &str,
        directory: &Path,
        viewer: Viewer,
    ) -> Result<Self, String> {
        let facts = facts(shared, prompt)?;
        let workspace = Workspace::open(&prompt.workspace).map_err(|error| {
            format!(
                "opening the workspace {}: {error}",
                prompt.workspace.display()
            )
        })?;
        let cancel =
            Cancel::new().map_err(|error| format!("making a pipe to cancel by: {error}"))?;
        let child_env = child_environment(&shared.environment, &prompt.env);
        let results = directory.join("tool-results");
        let policy = prompt
            .policy
            .with_readable([results.clone()])
            .with_sealed(sealed(shared, prompt));
        let policy = Arc::new(policy);
        let mut registry = Registry::built_in(|name| policy.offers(name));
        for tool in &shared.more_tools {
            registry.add(Arc::clone(tool));
        }
        let head = Arc::new(Head {
            model: facts.id,
            system: system::text(prompt),
            tools: registry.specs(),
        });
        let session = Session::new(SessionSpec {
            workspace,
            environment: child_env.clone(),
            bash: shared.bash.clone(),
            results,
            hidden: vec![shared.output.clone()],
        });
        Ok(Self {
            clock: shared.clock.clone(),
            prompt: Arc::clone(prompt),
            head,
            provider: Arc::new(open_provider(shared, prompt, place)?),
            price: facts.price,
            price_is_given: facts.price_is_given,
            max_output_tokens: facts
                .max_output
                .unwrap_or(MAX_OUTPUT_TOKENS)
                .min(MAX_OUTPUT_TOKENS),
            policy,
            registry,
            session,
            child_env,
            redactor: Arc::clone(&shared.redactor),
            gate: Arc::clone(&shared.gate),
            cancel,
            room: Mutex::new(TurnRoom::new()),
            viewer: shared.shows_text.then_some(viewer),
        })
    }

    /// Passes a piece of visible text on, if somebody watches.
    pub(super) fn show(&self, text: &str) {
        let Some(Viewer { key, events }) = &self.viewer else {
            return;
        };
        let event = Event {
            id: self.clock.event_id(),
            at: self.clock.utc(),
            elapsed: self.clock.now(),
            body: EventBody::TextDelta {
                text: text.to_owned(),
            },
        };
        // A full channel loses a piece of what is shown, never of what is recorded.
        let _ = events.try_send(ScopedEvent {
            scope: Scope::Prompt(*key),
            event: Arc::new(event),
        });
    }

    /// What the machine is told.
    pub(super) fn settings(&self, seed: u64) -> Settings {
        settings(
            &self.prompt,
            Arc::clone(&self.head),
            self.max_output_tokens,
            seed,
        )
    }

    /// A reply with this many calls has come.
    pub(super) fn begin_turn(&self, request: RequestNumber, calls: usize) {
        self.room().begin(request, calls);
    }

    fn room(&self) -> MutexGuard<'_, TurnRoom> {
        // What is locked is arithmetic: never half done.
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a permitted call on this thread; its result is masked before anybody sees it.
    pub(super) fn run_tool(&self, request: RequestNumber, permitted: &Permitted) -> ToolResult {
        let redact = |text: String| match self.redactor.redact(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(masked) => masked,
        };
        let Permitted {
            tool,
            permit,
            input,
            ..
        } = permitted;
        let most = |chars| self.room().take(request, chars, tool.max_result_chars());
        let mut result = execute(
            &**tool,
            permit,
            input,
            &self.session,
            &self.cancel,
            &redact,
            &most,
        );
        self.redactor.redact_value(&mut result.structured);
        result
    }
}

/// What no rule opens for writing, for the record of a run must not be the model's: the output directory
/// with those of other runs beside it, and cassettes.
fn sealed(shared: &Shared, prompt: &Prompt) -> Vec<PathBuf> {
    let other_runs = shared
        .output
        .parent()
        .filter(|parent| parent.ends_with(RUNS));
    let cassette = match &prompt.model {
        ModelChoice::Replay { path, .. } => Some(path.as_path()),
        ModelChoice::Anthropic(_) => None,
    };
    let places = [
        Some(shared.output.as_path()),
        other_runs,
        cassette,
        shared.record.as_deref(),
    ];
    let places = places.into_iter().flatten();
    places
        .map(|place| place.canonicalize().unwrap_or_else(|_| place.to_owned()))
        .collect()
}

/// What the machine of a conversation that cannot be set up is told: it sends nothing.
pub(super) fn settings_without_kit(prompt: &Prompt) -> Settings {
    let head = Head {
        model: String::new(),
        system: String::new(),
        tools: Vec::new(),
    };
    settings(prompt, Arc::new(head), MAX_OUTPUT_TOKENS, 0)
}

fn settings(prompt: &Prompt, head: Arc<Head>, max_output_tokens: u64, seed: u64) -> Settings {
    Settings {
        head,
        max_turns: prompt.max_turns,
        max_output_tokens,
        max_tokens_floor: MAX_TOKENS_FLOOR.min(max_output_tokens),
        timeout: prompt.timeout,
        attempts: prompt.limits.attempts,
        overloaded_attempts: OVERLOADED_ATTEMPTS,
        parallel_tools: prompt.limits.parallel_tools,
        stop_on_denied: prompt.on_denied == OnDenied::Stop,
        fail_on_denied: prompt.on_denied == OnDenied::Fail,
        has_checks: !prompt.checks.is_empty(),
        seed,
    }
}

/// What is known of the model that will answer.
struct Facts {
    id: String,
    price: Price,
    price_is_given: bool,
    max_output: Option<u64>,
}

fn facts(shared: &Shared, prompt: &Prompt) -> Result<Facts, String> {
    match &prompt.model {
        ModelChoice::Anthropic(facts) => Ok(Facts {
            id: facts.id.clone(),
            price_is_given: models::find(&facts.id).and_then(|known| known.price)
                != Some(facts.price),
            price: facts.price,
            max_output: facts.max_output,
        }),
        // A replay costs nothing; where the cassette names its model, the report shows what the recorded
        // replies cost, and the same budget stops at the same place.
        ModelChoice::Replay { path, .. } => {
            let cassette = cassette(shared, path)?;
            let known = cassette.model().and_then(models::nearest);
            Ok(Facts {
                id: cassette.model().unwrap_or("replay").to_owned(),
                price: known.and_then(|known| known.price).unwrap_or(Price::Free),
                price_is_given: false,
                max_output: known.and_then(|known| known.max_output),
            })
        }
    }
}

fn cassette<'a>(shared: &'a Shared, path: &Path) -> Result<&'a Arc<Cassette>, String> {
    shared
        .cassettes
        .get(path)
        .ok_or_else(|| format!("the cassette {} was not opened", path.display()))
}

fn open_provider(shared: &Shared, prompt: &Prompt, place: &str) -> Result<Provider, String> {
    let places = Places {
        workspace: prompt.workspace.clone(),
        home: shared.home.clone(),
    };
    let settings = provider::Settings {
        idle_timeout: prompt.limits.idle_timeout,
        clock: shared.clock.for_provider(),
    };
    let provider = match &prompt.model {
        ModelChoice::Anthropic(_) => {
            let endpoint = shared.endpoint.as_ref().ok_or("no endpoint was set up")?;
            Provider::anthropic(endpoint, settings).map_err(|error| error.to_string())?
        }
        ModelChoice::Replay { path, matching } => {
            let cassette = cassette(shared, path)?;
            Provider::replay(cassette, place, *matching, &places, settings)
                .map_err(|error| error.to_string())?
        }
    };
    match &shared.record {
        Some(directory) => {
            let redactor = Arc::clone(&shared.redactor);
            let mask = Arc::new(move |text: &str| redactor.redact(text).into_owned());
            provider
                .recording(directory, place, &places, mask)
                .map_err(|error| error.to_string())
        }
        None => Ok(provider),
    }
}
