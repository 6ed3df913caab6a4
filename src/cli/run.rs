//! `lightsout run`: job files in, reports and an exit code out.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime::Runtime;

use crate::job::{self, Job, ModelChoice, Overrides};
use crate::provider::Cassette;
use crate::report::{self, Reports, RunRecord, Verbosity};
use crate::run::{self, Clock, EndingSignal, Plan, PlannedJob, PrefixGate, Selection, Shared};
use crate::sandbox::find_bash;
use crate::stop::exit;
use crate::transcript::Redactor;

use super::arguments::{Format, RunArguments};
use super::disk::Disk;
use super::environment::{Access, Environment};
use super::watch::Watch;
use super::{output, terminal, validate};

/// The first signal, when one came.
type Signals = tokio::sync::watch::Receiver<Option<EndingSignal>>;

/// Events that may wait for the watchers before the conversations wait for them.
const EVENT_BUFFER: usize = 1024;

/// How long a slow terminal may hold up the end after a signal.
const AFTER_SIGNAL: Duration = Duration::from_millis(500);

/// How long what still blocks may hold up the end of the process.
const SHUTDOWN: Duration = Duration::from_millis(200);

pub(super) fn run(arguments: &RunArguments, environment: &Environment) -> anyhow::Result<u8> {
    // Its environment and memory hold the keys, and what it starts runs as the same user: to that user
    // /proc shows them only of processes that are dumpable. A program that is started is that again.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .context("hiding the runner's environment from what it starts")?;
    let clock = Clock::start();
    let runtime = runtime(arguments.concurrency)?;
    let signal = {
        // Before anything is made, so that whatever is made has an orderly end.
        let _context = runtime.enter();
        run::listen().context("listening for signals")?
    };
    let disk = Disk::new(environment)?;
    let overrides = Overrides {
        max_budget: arguments.max_budget_usd,
        replay: arguments.replay.clone(),
        ..Overrides::default()
    };
    let jobs = match job::load_all(&arguments.jobs, &overrides, &disk) {
        Ok(jobs) => jobs,
        Err(diagnostics) => {
            validate::print(&diagnostics, &environment.redactor());
            return Ok(exit::USAGE);
        }
    };
    let selection = Selection::new(&arguments.only, &arguments.skip)?;
    if let Some(nothing) = what_is_not_there(&jobs, &selection) {
        terminal::error(&nothing);
        return Ok(exit::NOTHING_SELECTED);
    }
    let jobs = select(jobs, &selection);
    let plan = plan(arguments, environment, clock, jobs)?;
    execute(runtime, signal, plan, arguments, environment.is_ci())
}

/// What to say when a filter leaves nothing, or one of `--only` names nothing: a run without a prompt
/// that was asked for must not look like one that passed.
fn what_is_not_there(jobs: &[Job], selection: &Selection) -> Option<String> {
    let prompts: Vec<(&str, &str)> = jobs
        .iter()
        .flat_map(|job| {
            job.prompts
                .iter()
                .map(|prompt| (job.name.as_str(), prompt.id.as_str()))
        })
        .collect();
    let unmatched = selection.unmatched(&prompts);
    let cause = if !unmatched.is_empty() {
        format!(
            "no prompt is named by --only {}",
            unmatched.join(", --only ")
        )
    } else if prompts
        .iter()
        .any(|(job, prompt)| selection.selects(job, prompt))
    {
        return None;
    } else {
        "--only and --skip leave no prompt to run".to_owned()
    };
    let names: Vec<String> = prompts
        .iter()
        .map(|(job, prompt)| format!("{job}/{prompt}"))
        .collect();
    Some(format!(
        "error: {cause}; the prompts are {}",
        names.join(", ")
    ))
}

fn verbosity(arguments: &RunArguments) -> Verbosity {
    match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    }
}

/// The jobs with their selected prompts; a job without one is left out.
fn select(jobs: Vec<Job>, selection: &Selection) -> Vec<PlannedJob> {
    let select = |mut job: Job| {
        let prompts = std::mem::take(&mut job.prompts);
        let selected = prompts
            .into_iter()
            .filter(|prompt| selection.selects(&job.name, &prompt.id));
        let prompts = selected.map(Arc::new).collect();
        PlannedJob { job, prompts }
    };
    jobs.into_iter()
        .map(select)
        .filter(|planned| !planned.prompts.is_empty())
        .collect()
}

/// Everything that can be found wrong before anything is sent is found here.
fn plan(
    arguments: &RunArguments,
    environment: &Environment,
    clock: Clock,
    jobs: Vec<PlannedJob>,
) -> anyhow::Result<Plan> {
    let models = || {
        jobs.iter()
            .flat_map(|planned| &planned.prompts)
            .map(|prompt| &prompt.model)
    };
    let needs_key = models().any(|model| matches!(model, ModelChoice::Anthropic(_)));
    let access = needs_key.then(|| environment.access()).transpose()?;
    let cassettes = open_cassettes(models())?;
    let run_id = clock.time_ordered_id();
    let output = output::create(arguments.output.as_deref(), run_id)?;
    let (endpoint, api_key_source) = access.map_or(
        (None, "none"),
        |Access {
             endpoint,
             key_source,
         }| (Some(endpoint), key_source),
    );
    Ok(Plan {
        run_id,
        jobs,
        concurrency: usize::from(arguments.concurrency),
        hostname: rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
        api_key_source,
        shared: Shared {
            clock,
            redactor: Arc::new(environment.redactor()),
            gate: Arc::new(PrefixGate::default()),
            environment: environment.variables().clone(),
            bash: find_bash(environment.variables()),
            endpoint,
            cassettes,
            record: arguments.record.clone(),
            output,
            home: environment.get("HOME").map(PathBuf::from),
            shows_text: false,
            more_tools: Vec::new(),
        },
    })
}

fn open_cassettes<'a>(
    models: impl Iterator<Item = &'a ModelChoice>,
) -> anyhow::Result<BTreeMap<PathBuf, Arc<Cassette>>> {
    let mut cassettes = BTreeMap::new();
    for model in models {
        if let ModelChoice::Replay { path, .. } = model
            && !cassettes.contains_key(path)
        {
            cassettes.insert(path.clone(), Arc::new(Cassette::open(path)?));
        }
    }
    Ok(cassettes)
}

/// One thread to conduct and one to spare: what blocks has threads of its own.
fn runtime(concurrency: u16) -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        // A prompt holds one for its request and up to ten for its tools.
        .max_blocking_threads(usize::from(concurrency) * 12 + 32)
        .thread_stack_size(512 * 1024)
        .enable_time()
        .enable_io()
        .build()
        .context("starting the runtime")
}

fn execute(
    runtime: Runtime,
    mut signal: Signals,
    mut plan: Plan,
    arguments: &RunArguments,
    is_ci: bool,
) -> anyhow::Result<u8> {
    let verbosity = verbosity(arguments);
    let directory = plan.shared.output.clone();
    let redactor = Arc::clone(&plan.shared.redactor);
    let clock = plan.shared.clock.clone();
    let (watch, shown) =
        Watch::start(clock, verbosity, &redactor, is_ci).context("starting the display")?;
    plan.shared.shows_text = watch.shows_text();
    let (exit_code, recorder) = runtime.block_on(async {
        let (events, received) = tokio::sync::mpsc::channel(EVENT_BUFFER);
        let watching = tokio::spawn(watch.until_the_end(received));
        let exit_code = run::execute(plan, events, signal.clone()).await;
        let recorder = watching.await.context("folding the run's events")?;
        anyhow::Ok((exit_code, recorder))
    })?;
    let record = recorder.record().context("the run has no first event")?;
    let reports = write_reports(&record, &directory);
    // The reports are safe: now there is time for a slow terminal, until a signal says otherwise.
    let display = runtime.block_on(async {
        tokio::select! {
            display = shown.all() => display,
            () = lost_patience(&mut signal) => None,
        }
    });
    // Nobody listens to signals from here on, so the next one ends the process at once.
    drop(signal);
    // The closing line comes last, though results go to another stream: on a terminal and in a CI log
    // both stand together, and final texts of many lines would push away what a person looks for.
    let is_delivered = print_results(&record, arguments.format, verbosity, &redactor);
    if let Some(line) = display.and_then(|display| display.closing_line(reports)) {
        terminal::error(&line);
    }
    runtime.shutdown_timeout(SHUTDOWN);
    let is_whole = is_delivered && matches!(reports, Reports::Written);
    Ok(match (exit_code, is_whole) {
        (exit::PASSED, false) => exit::ERRORED,
        (code, _) => code,
    })
}

/// Some time after a signal, for ever without one.
async fn lost_patience(signal: &mut Signals) {
    if signal.wait_for(Option::is_some).await.is_err() {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(AFTER_SIGNAL).await;
}

/// Writes all reports, one after another whatever becomes of each.
fn write_reports(record: &RunRecord, directory: &std::path::Path) -> Reports {
    let mut reports = Reports::Written;
    if let Err(errors) = report::write_all(record, directory) {
        reports = Reports::Incomplete;
        for error in errors {
            terminal::error(&format!("error: {error:#}"));
        }
    }
    if let Err(error) = output::link_latest(directory) {
        terminal::error(&format!(
            "warning: cannot point lightsout-runs/latest at this run: {error}"
        ));
    }
    reports
}

/// Prints the results; false when they could not be delivered. A reader that has gone away wants no more.
fn print_results(
    record: &RunRecord,
    format: Format,
    verbosity: Verbosity,
    redactor: &Redactor,
) -> bool {
    let is_quiet = verbosity == Verbosity::Quiet && record.exit_code == exit::PASSED;
    let text = match format {
        Format::Json => redactor.redact_json(&report::run_json(record)).into_owned(),
        Format::Text if is_quiet => return true,
        Format::Text => redactor.redact(&report::text(record)).into_owned(),
    };
    match terminal::result(&text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            terminal::error(&format!(
                "error: writing the results to standard output: {error}"
            ));
            false
        }
        _ => true,
    }
}
