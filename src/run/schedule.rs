//! Many prompts: order, concurrency, leases; what happens when a signal ends the run.

use std::future::{Future as _, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::job::{Job, ModelChoice, Prompt, digest};
use crate::models::Usd;
use crate::stop::{Outcome, Stop, StopReason, exit};
use crate::transcript::{
    Event, EventBody, Init, JobStarted, Journal, PromptKey, PromptPlanned, PromptResult,
    RunStarted, Scope, ScopedEvent, path_name,
};
use crate::workspace::{LeaseKind, Leases};

use super::hands::panic_text;
use super::kit::{Kit, Shared, Viewer, settings_without_kit};
use super::prompt::{Conversation, ConversationEnd};
use super::signal::{EndingSignal, first};

/// How long a run that was ended by a signal waits for its prompts: with the reports, all is done
/// within five seconds. Source: SPEC 12.
const AFTER_SIGNAL: Duration = Duration::from_secs(4);

/// What is to be run.
pub struct Plan {
    /// UUID version 7.
    pub run_id: Uuid,
    /// The jobs, each with the prompts that were selected.
    pub jobs: Vec<PlannedJob>,
    /// How many prompts run side by side.
    pub concurrency: usize,
    /// The machine's name, for reports.
    pub hostname: String,
    /// Where the provider's key comes from, for the record.
    pub api_key_source: &'static str,
    /// What all prompts share.
    pub shared: Shared,
}

/// One job of a plan.
pub struct PlannedJob {
    /// The job.
    pub job: Job,
    /// Its selected prompts, in order.
    pub prompts: Vec<Arc<Prompt>>,
}

/// One prompt on its way.
struct Errand {
    key: PromptKey,
    prompt: Arc<Prompt>,
    /// `JOB/PROMPT` as directories.
    place: String,
}

/// Runs the plan and returns the exit code. Every prompt gets its `Result` event, whatever happens.
pub async fn execute(
    plan: Plan,
    events: mpsc::Sender<ScopedEvent>,
    signal: watch::Receiver<Option<EndingSignal>>,
) -> u8 {
    let errands = errands(&plan);
    let run = Arc::new(Run {
        slots: Semaphore::new(plan.concurrency.max(1)),
        leases: Leases::default(),
        events,
        signal,
        plan,
    });
    run.say(Scope::Run, EventBody::RunStarted(run.started(&errands)))
        .await;
    run.say_warnings().await;
    let mut outcomes = Vec::with_capacity(errands.len());
    let mut tasks = JoinSet::new();
    let mut keys = std::collections::HashMap::new();
    for errand in errands {
        let (key, run) = (errand.key, Arc::clone(&run));
        let (queued, in_line) = oneshot::channel();
        let handle = tasks.spawn(async move { run.one(errand, queued).await });
        keys.insert(handle.id(), key);
        // Tasks begin in any order, prompts in that of the files: the next stands in line behind this one.
        let _ = in_line.await;
    }
    let mut signal = run.signal.clone();
    let overdue = async {
        first(&mut signal).await;
        tokio::time::sleep(AFTER_SIGNAL).await;
    };
    tokio::pin!(overdue);
    loop {
        let joined = tokio::select! {
            joined = tasks.join_next_with_id() => joined,
            () = &mut overdue => break,
        };
        match joined {
            None => break,
            Some(Ok((id, outcome))) => {
                keys.remove(&id);
                outcomes.push(outcome);
            }
            Some(Err(panic)) => {
                let key = keys.remove(&panic.id());
                let message = format!("internal fault: {}", panic_text(panic));
                if let Some(key) = key {
                    run.end_without_conversation(key, Stop::new(StopReason::ModelError, message))
                        .await;
                }
                outcomes.push(Outcome::Errored);
            }
        }
    }
    for key in keys.into_values() {
        let stop = Stop::new(StopReason::Aborted, "did not end in time after the signal");
        run.end_without_conversation(key, stop).await;
        outcomes.push(Outcome::Errored);
    }
    let signal = *run.signal.borrow();
    let exit_code = signal.map_or_else(|| exit::code(outcomes), |signal| signal.exit_code);
    let signal = signal.map(|signal| signal.name);
    run.say(Scope::Run, EventBody::RunEnded { exit_code, signal })
        .await;
    exit_code
}

/// The selected prompts in order, each with its directory.
fn errands(plan: &Plan) -> Vec<Errand> {
    let mut errands = Vec::new();
    for (job, planned) in plan.jobs.iter().enumerate() {
        for (prompt, selected) in planned.prompts.iter().enumerate() {
            errands.push(Errand {
                key: PromptKey { job, prompt },
                prompt: Arc::clone(selected),
                place: format!(
                    "{}/{}",
                    path_name(&planned.job.name),
                    path_name(&selected.id)
                ),
            });
        }
    }
    errands
}

struct Run {
    plan: Plan,
    slots: Semaphore,
    leases: Leases,
    events: mpsc::Sender<ScopedEvent>,
    signal: watch::Receiver<Option<EndingSignal>>,
}

impl Run {
    fn started(&self, errands: &[Errand]) -> RunStarted {
        let plan = &self.plan;
        let jobs = plan
            .jobs
            .iter()
            .enumerate()
            .map(|(index, planned)| JobStarted {
                name: planned.job.name.clone(),
                file: planned.job.file.display().to_string(),
                digest: planned.job.digest.clone(),
                prompts: errands
                    .iter()
                    .filter(|errand| errand.key.job == index)
                    .map(|errand| PromptPlanned {
                        id: errand.prompt.id.clone(),
                        line: errand.prompt.line,
                        model: model_name(&errand.prompt),
                        max_turns: errand.prompt.max_turns,
                        max_budget: errand.prompt.max_budget,
                        transcript: format!("{}/transcript.jsonl", errand.place),
                    })
                    .collect(),
            });
        RunStarted {
            run_id: plan.run_id,
            version: env!("CARGO_PKG_VERSION"),
            output: plan.shared.output.clone(),
            hostname: plan.hostname.clone(),
            jobs: jobs.collect(),
            concurrency: plan.concurrency,
        }
    }

    /// What validation found in the job files: a line each, since `validate` shows it whole.
    async fn say_warnings(&self) {
        for warning in self.plan.jobs.iter().flat_map(|job| &job.job.warnings) {
            let message = warning.headline();
            self.say(Scope::Run, EventBody::Warning { message }).await;
        }
    }

    /// One prompt, from waiting for its turn to its result. Drops `queued` once it stands in line.
    async fn one(&self, errand: Errand, queued: oneshot::Sender<()>) -> Outcome {
        let mut signal = self.signal.clone();
        let may_start = async {
            // The workspace first, then a slot: whoever holds a slot is working, not waiting.
            let lease = self
                .leases
                .acquire(&errand.prompt.workspace, lease_kind(&errand.prompt))
                .await;
            let slot = self.slots.acquire().await;
            (lease, slot)
        };
        tokio::pin!(may_start);
        // The first poll takes a place in the queues.
        let at_once = poll_fn(|context| Poll::Ready(may_start.as_mut().poll(context))).await;
        drop(queued);
        let may_start = async {
            match at_once {
                Poll::Ready(held) => held,
                Poll::Pending => may_start.await,
            }
        };
        let _held = tokio::select! {
            biased;
            ended = first(&mut signal) => {
                let name = ended.name;
                let stop = Stop::new(StopReason::NotRun, format!("the run was ended by {name} before this prompt started"));
                self.end_without_conversation(errand.key, stop).await;
                return Outcome::Skipped;
            }
            held = may_start => held,
        };
        self.converse(&errand).await
    }

    async fn converse(&self, errand: &Errand) -> Outcome {
        let shared = &self.plan.shared;
        let clock = shared.clock.clone();
        let session_id = clock.time_ordered_id();
        let directory = shared.output.join(&errand.place);
        let journal = Journal::create(
            &directory,
            errand.key,
            session_id,
            Arc::clone(&shared.redactor),
            self.events.clone(),
        );
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) => {
                let message = format!(
                    "cannot write a transcript in {}: {error}",
                    directory.display()
                );
                let stop = Stop::new(StopReason::RecordFailed, message);
                self.end_without_conversation(errand.key, stop).await;
                return Outcome::Errored;
            }
        };
        let conversation = Conversation::new(clock, journal);
        let viewer = Viewer {
            key: errand.key,
            events: self.events.clone(),
        };
        let kit = match Kit::set_up(shared, &errand.prompt, &errand.place, &directory, viewer) {
            Ok(kit) => Arc::new(kit),
            Err(message) => {
                let settings = settings_without_kit(&errand.prompt);
                let ended = conversation.fail_set_up(settings, message).await;
                return self.note_end(errand.key, ended).await;
            }
        };
        let init = Init {
            session_id,
            cwd: errand.prompt.workspace.clone(),
            head: Arc::clone(&kit.head),
            model: model_name(&errand.prompt),
            api_key_source: match errand.prompt.model {
                ModelChoice::Anthropic(_) => self.plan.api_key_source,
                ModelChoice::Replay { .. } => "none",
            },
            sandbox: "none",
            policy_digest: digest(kit.policy.digest_text().as_bytes()),
            version: env!("CARGO_PKG_VERSION"),
        };
        let seed = session_id.as_u64_pair().1;
        let ended = conversation.run(kit, init, seed, self.signal.clone()).await;
        self.note_end(errand.key, ended).await
    }

    async fn note_end(&self, key: PromptKey, ended: ConversationEnd) -> Outcome {
        let outcome = ended.result.stop.outcome();
        if ended.is_corrected {
            self.say(Scope::Prompt(key), EventBody::Result(ended.result))
                .await;
        }
        outcome
    }

    /// The result of a prompt that had no conversation, or whose conversation cannot speak any more.
    async fn end_without_conversation(&self, key: PromptKey, stop: Stop) {
        let result = PromptResult {
            stop,
            text: String::new(),
            num_turns: 0,
            requests: 0,
            cost: Some(Usd::ZERO),
            unsettled: Usd::ZERO,
            usage: crate::message::Usage::default(),
            api_stop_reason: None,
            duration: Duration::ZERO,
            duration_api: Duration::ZERO,
            denials: Vec::new(),
        };
        self.say(Scope::Prompt(key), EventBody::Result(result))
            .await;
    }

    async fn say(&self, scope: Scope, body: EventBody) {
        let clock = &self.plan.shared.clock;
        let event = Event {
            id: clock.event_id(),
            at: clock.utc(),
            elapsed: clock.now(),
            body,
        };
        // Nobody watching is no fault of the run.
        let _ = self
            .events
            .send(ScopedEvent {
                scope,
                event: Arc::new(event),
            })
            .await;
    }
}

/// Whoever may change something, by a tool or by a check, works alone.
fn lease_kind(prompt: &Prompt) -> LeaseKind {
    if prompt.policy.may_write() || !prompt.checks.is_empty() {
        LeaseKind::Exclusive
    } else {
        LeaseKind::Shared
    }
}

/// A model as reports name it.
fn model_name(prompt: &Prompt) -> String {
    match &prompt.model {
        ModelChoice::Anthropic(facts) => format!("anthropic/{}", facts.id),
        ModelChoice::Replay { path, .. } => {
            // Where the cassette lies is nobody's business, and differs from machine to machine.
            let name = path.file_name().unwrap_or(path.as_os_str());
            format!("replay/{}", name.display())
        }
    }
}
