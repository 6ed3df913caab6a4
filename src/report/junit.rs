//! `junit.xml`: one testsuite a job, one testcase a prompt and one a check.
//!
//! The skeleton is the junit-report crate's; what it lacks (totals, `skipped`, properties, lines, whole
//! milliseconds) is put in by [`rewrite`]. Valid against the schema of Jenkins' xunit plugin
//! (`junit-10.xsd`) apart from `file` and `line` of a case, which other readers want. That schema knows
//! no properties of a case, so those of a prompt stand with its suite as `ID.NAME`.

mod rewrite;

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context;
use junit_report::{Report, TestCase, TestResult, TestSuite};
use time::OffsetDateTime;

use crate::models::Usd;
use crate::query::Denial;
use crate::stop::Outcome;

use super::foreign::{head_and_tail, one_line, tail};
use super::record::{CheckRecord, JobRecord, PromptRecord, RunRecord};
use rewrite::{CaseExtras, SuiteExtras, rewrite};

/// Azure takes `classname.name` up to 512 characters.
const LONGEST_NAME: usize = 200;
/// Readers show one line; dorny/test-reporter takes 255 characters.
const LONGEST_MESSAGE: usize = 255;
/// Readers hold the whole file in memory and show the ends; the transcript has the rest.
const MOST_TEXT: usize = 64 * 1024;
/// End of a failed check's output.
const MOST_CHECK_OUTPUT: usize = 16 * 1024;

/// `junit.xml` as text.
pub fn junit(record: &RunRecord) -> anyhow::Result<String> {
    let mut report = Report::new();
    let mut extras = Vec::new();
    let mut suite_names = HashSet::new();
    for job in &record.jobs {
        let name = unique(&mut suite_names, attribute(&job.name, "job"));
        let (suite, suite_extras) = suite(record, job, &name);
        report.add_testsuite(suite);
        extras.push(suite_extras);
    }
    let mut raw = Vec::new();
    report
        .write_xml(&mut raw)
        .context("writing the JUnit skeleton")?;
    let raw = String::from_utf8(raw).context("reading the JUnit skeleton")?;
    rewrite(&raw, &extras).context("completing the JUnit skeleton")
}

fn suite(record: &RunRecord, job: &JobRecord, name: &str) -> (TestSuite, SuiteExtras) {
    let mut suite = TestSuite::new(name);
    let started = job.prompts.iter().filter_map(|prompt| prompt.started_at);
    let started = started.min().unwrap_or(record.started_at);
    suite.set_timestamp(whole_second(started));
    name.clone_into(&mut suite.package);
    suite.hostname = attribute(&record.hostname, "localhost");
    let file = attribute(&job.file, "job");
    let mut properties = vec![
        ("run_id".to_owned(), record.run_id.to_string()),
        ("version".to_owned(), record.version.clone()),
        ("job_digest".to_owned(), job.digest.clone()),
    ];
    let costs: Option<Usd> = job.prompts.iter().map(|prompt| prompt.cost).sum();
    if let Some(cost) = costs {
        properties.push(("cost_usd".to_owned(), cost.as_f64().to_string()));
    }
    let mut models: Vec<&str> = job.prompts.iter().map(|prompt| &*prompt.model).collect();
    models.sort_unstable();
    models.dedup();
    properties.push(("model".to_owned(), models.join(", ")));

    let mut names = HashSet::new();
    let mut cases = Vec::new();
    for prompt in &job.prompts {
        let id = unique(&mut names, attribute(&prompt.id, "prompt"));
        properties.extend(prompt_properties(&id, prompt));
        cases.push(case_extras(prompt.line, case_time(prompt)));
        suite.add_testcase(placed(prompt_case(&id, prompt), name, &file));
        for check in &prompt.checks {
            let id = unique(
                &mut names,
                attribute(&format!("{id}/{}", check.id), "check"),
            );
            cases.push(case_extras(check.line, check.duration));
            suite.add_testcase(placed(check_case(&id, check), name, &file));
        }
    }
    for (_, value) in &mut properties {
        *value = attribute(value, "");
    }
    let extras = SuiteExtras {
        skipped: suite.skipped(),
        failures: suite.failures(),
        errors: suite.errors(),
        timestamp: timestamp(started),
        file,
        properties,
        cases,
    };
    (suite, extras)
}

fn prompt_case(id: &str, prompt: &PromptRecord) -> TestCase {
    let (type_, message) = (
        prompt.reason.clone(),
        attribute(&prompt.message, &prompt.reason),
    );
    let cause = Some(element(&with_first_line(&message, &prompt.message)));
    // The crate's own durations would go into its sums; whole milliseconds are written afterwards.
    let mut case = TestCase::success(id, junit_report::Duration::ZERO);
    case.result = match prompt.outcome {
        Outcome::Passed => TestResult::Success,
        Outcome::Failed => TestResult::Failure {
            type_,
            message,
            cause,
        },
        Outcome::Errored => TestResult::Error {
            type_,
            message,
            cause,
        },
        Outcome::Skipped => TestResult::SkippedWithCause {
            type_,
            message,
            cause,
        },
    };
    if !prompt.result.trim().is_empty() {
        case.set_system_out(&element(&prompt.result));
    }
    let notes = notes(prompt);
    if !notes.is_empty() {
        case.set_system_err(&element(&notes));
    }
    case
}

fn check_case(id: &str, check: &CheckRecord) -> TestCase {
    let mut case = TestCase::success(id, junit_report::Duration::ZERO);
    if !check.passed {
        let message = attribute(&check.message, "the check failed");
        let output = tail(&check.output, MOST_CHECK_OUTPUT);
        let text = format!("{}\n$ {}\n{output}", check.message, check.command);
        case.result = TestResult::Failure {
            type_: "check_failed".to_owned(),
            cause: Some(element(&with_first_line(&message, &text))),
            message,
        };
    }
    case
}

fn placed(mut case: TestCase, suite: &str, file: &str) -> TestCase {
    case.set_classname(suite);
    case.set_filepath(file);
    case
}

fn case_extras(line: u32, time: Duration) -> CaseExtras {
    CaseExtras {
        line,
        time: whole_millis(time),
    }
}

/// A prompt's checks are cases of their own: counted once, so that the sums agree.
fn case_time(prompt: &PromptRecord) -> Duration {
    let checks = prompt.checks.iter().map(|check| check.duration).sum();
    prompt.duration.saturating_sub(checks)
}

fn prompt_properties(id: &str, prompt: &PromptRecord) -> Vec<(String, String)> {
    let usage = prompt.usage;
    let mut properties = vec![
        ("stop_reason", prompt.stop_reason.name().to_owned()),
        ("turns", prompt.num_turns.to_string()),
        ("requests", prompt.requests.to_string()),
        ("model", prompt.model.clone()),
        ("input_tokens", usage.input_tokens.to_string()),
        ("output_tokens", usage.output_tokens.to_string()),
        (
            "cache_creation_input_tokens",
            usage.cache_creation_input_tokens.to_string(),
        ),
        (
            "cache_read_input_tokens",
            usage.cache_read_input_tokens.to_string(),
        ),
        ("sandbox", prompt.sandbox.clone()),
    ];
    if let Some(cost) = prompt.cost {
        properties.push(("cost_usd", cost.as_f64().to_string()));
    }
    if prompt.unsettled > Usd::ZERO {
        let unsettled = prompt.unsettled.as_f64().to_string();
        properties.push(("cost_unsettled_usd", unsettled));
    }
    if let Some(transcript) = &prompt.transcript {
        properties.push(("transcript", transcript.clone()));
    }
    let named = properties.into_iter();
    named
        .map(|(name, value)| (format!("{id}.{name}"), value))
        .collect()
}

/// Warnings and denials, a line each.
fn notes(prompt: &PromptRecord) -> String {
    let warnings = prompt
        .warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"));
    warnings
        .chain(prompt.denials.iter().map(denial_line))
        .collect()
}

fn denial_line(denial: &Denial) -> String {
    let hint = denial.would_allow.as_ref();
    let hint = hint.map_or_else(String::new, |rule| format!(" (would be allowed by {rule})"));
    let input = one_line(&denial.tool_input.to_string(), LONGEST_MESSAGE);
    format!(
        "denied: {} {input}: {}{hint}\n",
        denial.tool_name, denial.reason
    )
}

/// GitLab reads the text and not the attribute, so the text begins with the message.
fn with_first_line(message: &str, text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    if first.trim() != message {
        format!("{message}\n{text}")
    } else if rest.is_empty() {
        message.to_owned()
    } else {
        format!("{message}\n{rest}")
    }
}

/// Text for an attribute: one line, or `otherwise` when nothing is left.
fn attribute(text: &str, otherwise: &str) -> String {
    let line = one_line(text, LONGEST_MESSAGE);
    if line.is_empty() {
        otherwise.to_owned()
    } else {
        break_markers(&line)
    }
}

/// Text for an element, which the crate writes into a CDATA section as it is.
fn element(text: &str) -> String {
    break_markers(&head_and_tail(text, MOST_TEXT)).replace("]]>", "]]]]><![CDATA[>")
}

/// `[[ATTACHMENT|path]]` makes a reader publish any file of its machine; a zero-width space between
/// the brackets makes it text. Source: Jenkins' JUnit Attachments plugin, GitLab, Azure Pipelines.
fn break_markers(text: &str) -> String {
    text.replace("[[", "[\u{200b}[")
}

/// Readers keep the first of two cases of one name, so the second gets another.
fn unique(taken: &mut HashSet<String>, name: String) -> String {
    let name = one_line(&name, LONGEST_NAME);
    let mut unique = name.clone();
    let mut count = 1;
    while !taken.insert(unique.clone()) {
        count += 1;
        unique = format!("{name} ({count})");
    }
    unique
}

fn whole_second(at: OffsetDateTime) -> OffsetDateTime {
    at.to_offset(time::UtcOffset::UTC)
        .replace_nanosecond(0)
        .unwrap_or(at)
}

/// UTC, whole seconds, no zone: strict schemas forbid the zone, Azure assumes UTC.
fn timestamp(at: OffsetDateTime) -> String {
    const FORMAT: &[time::format_description::BorrowedFormatItem<'_>] =
        time::macros::format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]");
    at.to_offset(time::UtcOffset::UTC)
        .format(FORMAT)
        .expect("every date has these parts")
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}
