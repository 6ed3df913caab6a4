//! `junit.xml`: one testsuite a job, one testcase a prompt and one a check.
//!
//! The skeleton is the junit-report crate's; what it lacks (totals, `skipped`, properties, lines, whole
//! milliseconds) is put in by [`rewrite()`]. Valid against the schema of Jenkins' xunit plugin
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

use super::foreign::{first_line, head_and_tail, one_line, plain, tail};
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
        let name = unique(&mut suite_names, &attribute(&job.name, "job"));
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
    suite.set_timestamp(started);
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
    if !models.is_empty() {
        properties.push(("model".to_owned(), models.join(", ")));
    }

    let mut names = HashSet::new();
    let mut cases = Vec::new();
    for prompt in &job.prompts {
        let id = unique(&mut names, &attribute(&prompt.id, "prompt"));
        properties.extend(prompt_properties(&id, prompt));
        cases.push(case_extras(prompt.line, case_time(prompt)));
        suite.add_testcase(placed(prompt_case(&id, prompt), name, &file));
        for check in &prompt.checks {
            let id = unique(
                &mut names,
                &attribute(&format!("{id}/{}", check.id), "check"),
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
    let text = said(&prompt.message, &prompt.reason);
    let (type_, message) = (prompt.reason.clone(), message(text));
    let trace = Some(element(text));
    // The crate's own durations would go into its sums; whole milliseconds are written afterwards.
    let mut case = TestCase::success(id, junit_report::Duration::ZERO);
    case.result = match prompt.outcome {
        Outcome::Passed => TestResult::Success,
        Outcome::Failed => TestResult::Failure {
            type_,
            message,
            cause: trace,
        },
        Outcome::Errored => TestResult::Error {
            type_,
            message,
            cause: trace,
        },
        Outcome::Skipped => TestResult::SkippedWithCause {
            type_,
            message,
            cause: trace,
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
        let text = said(&check.message, "the check failed");
        let output = tail(&check.output, MOST_CHECK_OUTPUT);
        case.result = TestResult::Failure {
            type_: "check_failed".to_owned(),
            message: message(text),
            cause: Some(element(&format!("{text}\n$ {}\n{output}", check.command))),
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

/// `text` from its first line on, or `otherwise` when there is none.
fn said<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    let text = text.trim();
    if text.is_empty() { otherwise } else { text }
}

/// The `message` of a result: the first line of its text. Some readers show only the one, some only
/// the other.
fn message(text: &str) -> String {
    attribute(first_line(text), "see the text")
}

/// Text for an attribute: one line, or `otherwise` when nothing is left.
fn attribute(text: &str, otherwise: &str) -> String {
    let line = one_line(&plain(text), LONGEST_MESSAGE);
    if line.is_empty() {
        otherwise.to_owned()
    } else {
        break_markers(&line)
    }
}

/// Text for an element, which the crate writes into a CDATA section as it is.
fn element(text: &str) -> String {
    break_markers(&head_and_tail(&plain(text), MOST_TEXT)).replace("]]>", "]]]]><![CDATA[>")
}

/// `[[ATTACHMENT|path]]` makes a reader publish any file of its machine; a zero-width space between
/// the brackets makes it text. Source: Jenkins' JUnit Attachments plugin, GitLab, Azure Pipelines.
fn break_markers(text: &str) -> String {
    text.replace("[[", "[\u{200b}[")
}

/// Readers keep the first of two cases of one name, so the second gets another.
fn unique(taken: &mut HashSet<String>, name: &str) -> String {
    let name = one_line(name, LONGEST_NAME);
    let mut unique = name.clone();
    let mut count = 1;
    while !taken.insert(unique.clone()) {
        count += 1;
        unique = format!("{name} ({count})");
    }
    unique
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::super::sample::{Sample, mixed, redactor};
    use super::*;
    use crate::stop::{Stop, StopReason};
    use crate::transcript::EventBody;

    /// All texts and attribute values of a document, which must be well-formed and of legal characters.
    fn read(xml: &str) -> Vec<String> {
        let is_legal = |c: char| matches!(c, '\t' | '\n' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        assert!(xml.chars().all(is_legal));
        let mut reader = Reader::from_str(xml);
        reader.config_mut().check_end_names = true;
        let mut texts = Vec::new();
        loop {
            match reader.read_event().unwrap() {
                Event::Start(start) | Event::Empty(start) => {
                    for attribute in start.attributes() {
                        let attribute = attribute.unwrap();
                        let value = std::str::from_utf8(&attribute.value).unwrap();
                        texts.push(quick_xml::escape::unescape(value).unwrap().into_owned());
                    }
                }
                Event::CData(text) => texts.push(text.decode().unwrap().into_owned()),
                Event::Eof => return texts,
                Event::End(_)
                | Event::Text(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_)
                | Event::GeneralRef(_) => {}
            }
        }
    }

    #[test]
    fn one_prompt_of_each_outcome() {
        insta::assert_snapshot!(junit(&mixed().record()).unwrap(), @r###"
<?xml version="1.0" encoding="utf-8"?>
<testsuites name="lightsout" tests="6" failures="2" errors="1" time="16.800">
<testsuite id="0" name="nightly" package="nightly" tests="5" errors="0" failures="2" hostname="runner-7" skipped="1" timestamp="2026-11-30T03:00:00" time="12.600" file="jobs/nightly.yaml">
<properties>
<property name="run_id" value="00000000-0000-0000-0000-000000000001"/>
<property name="version" value="0.1.0"/>
<property name="job_digest" value="sha256:1234"/>
<property name="cost_usd" value="0.126"/>
<property name="model" value="anthropic/claude-x"/>
<property name="summary.stop_reason" value="completed"/>
<property name="summary.turns" value="2"/>
<property name="summary.requests" value="3"/>
<property name="summary.model" value="anthropic/claude-x"/>
<property name="summary.input_tokens" value="1000"/>
<property name="summary.output_tokens" value="200"/>
<property name="summary.cache_creation_input_tokens" value="0"/>
<property name="summary.cache_read_input_tokens" value="0"/>
<property name="summary.sandbox" value="none"/>
<property name="summary.cost_usd" value="0.042"/>
<property name="summary.transcript" value="nightly/summary/transcript.jsonl"/>
<property name="fix.stop_reason" value="completed"/>
<property name="fix.turns" value="2"/>
<property name="fix.requests" value="3"/>
<property name="fix.model" value="anthropic/claude-x"/>
<property name="fix.input_tokens" value="1000"/>
<property name="fix.output_tokens" value="200"/>
<property name="fix.cache_creation_input_tokens" value="0"/>
<property name="fix.cache_read_input_tokens" value="0"/>
<property name="fix.sandbox" value="none"/>
<property name="fix.cost_usd" value="0.042"/>
<property name="fix.transcript" value="nightly/fix/transcript.jsonl"/>
<property name="rest.stop_reason" value="not_run"/>
<property name="rest.turns" value="2"/>
<property name="rest.requests" value="3"/>
<property name="rest.model" value="anthropic/claude-x"/>
<property name="rest.input_tokens" value="1000"/>
<property name="rest.output_tokens" value="200"/>
<property name="rest.cache_creation_input_tokens" value="0"/>
<property name="rest.cache_read_input_tokens" value="0"/>
<property name="rest.sandbox" value="none"/>
<property name="rest.cost_usd" value="0.042"/>
</properties>
<testcase name="summary" classname="nightly" file="jobs/nightly.yaml" line="10" time="4.200">
<system-out><![CDATA[Nothing broke.
All is well.]]></system-out>
</testcase>
<testcase name="fix" classname="nightly" file="jobs/nightly.yaml" line="11" time="3.700">
<failure type="checks_failed" message="check-2: exit status 101"><![CDATA[check-2: exit status 101
see its output]]></failure>
<system-out><![CDATA[I fixed it.]]></system-out>
<system-err><![CDATA[denied: Bash {"command":"rm -rf x"}: no rule allows it (would be allowed by Bash(rm -rf x))
]]></system-err>
</testcase>
<testcase name="fix/check-1" classname="nightly" file="jobs/nightly.yaml" line="21" time="0.250"/>
<testcase name="fix/check-2" classname="nightly" file="jobs/nightly.yaml" line="22" time="0.250">
<failure type="check_failed" message="exit status 101"><![CDATA[exit status 101
$ cargo test
running 1 test
test a ... FAILED
]]></failure>
</testcase>
<testcase name="rest" classname="nightly" file="jobs/nightly.yaml" line="12" time="4.200">
<skipped type="not_run" message="the provider refuses all requests"><![CDATA[the provider refuses all requests]]></skipped>
</testcase>
</testsuite>
<testsuite id="1" name="gate" package="gate" tests="1" errors="1" failures="0" hostname="runner-7" skipped="0" timestamp="2026-11-30T03:00:01" time="4.200" file="jobs/gate.yaml">
<properties>
<property name="run_id" value="00000000-0000-0000-0000-000000000001"/>
<property name="version" value="0.1.0"/>
<property name="job_digest" value="sha256:1234"/>
<property name="cost_usd" value="0.042"/>
<property name="model" value="anthropic/claude-x"/>
<property name="review.stop_reason" value="model_error"/>
<property name="review.turns" value="2"/>
<property name="review.requests" value="3"/>
<property name="review.model" value="anthropic/claude-x"/>
<property name="review.input_tokens" value="1000"/>
<property name="review.output_tokens" value="200"/>
<property name="review.cache_creation_input_tokens" value="0"/>
<property name="review.cache_read_input_tokens" value="0"/>
<property name="review.sandbox" value="none"/>
<property name="review.cost_usd" value="0.042"/>
<property name="review.transcript" value="gate/review/transcript.jsonl"/>
</properties>
<testcase name="review" classname="gate" file="jobs/gate.yaml" line="10" time="4.200">
<error type="model_error" message="asking the model: 500, server error"><![CDATA[asking the model: 500, server error]]></error>
<system-err><![CDATA[warning: the reply named an unknown stop reason
]]></system-err>
</testcase>
</testsuite>
</testsuites>
"###);
    }

    #[test]
    fn an_empty_run_is_a_valid_document() {
        insta::assert_snapshot!(junit(&Sample::of(&[]).record()).unwrap(), @r###"
<?xml version="1.0" encoding="utf-8"?>
<testsuites name="lightsout" tests="0" failures="0" errors="0" time="0.000"/>
"###);
        insta::assert_snapshot!(junit(&Sample::of(&[("job", &[])]).record()).unwrap(), @r###"
<?xml version="1.0" encoding="utf-8"?>
<testsuites name="lightsout" tests="0" failures="0" errors="0" time="0.000">
<testsuite id="0" name="job" package="job" tests="0" errors="0" failures="0" hostname="runner-7" skipped="0" timestamp="2026-11-30T03:00:00" time="0.000" file="jobs/job.yaml">
<properties>
<property name="run_id" value="00000000-0000-0000-0000-000000000001"/>
<property name="version" value="0.1.0"/>
<property name="job_digest" value="sha256:1234"/>
<property name="cost_usd" value="0"/>
</properties>
</testsuite>
</testsuites>
"###);
    }

    #[test]
    fn g43_nasty_strings_make_a_report_that_parsers_accept() {
        #[derive(serde::Deserialize)]
        struct Nasty {
            names: Vec<String>,
            outputs: Vec<String>,
        }
        let nasty: Nasty =
            serde_json::from_str(include_str!("../../fixtures/junit/nasty-strings.json")).unwrap();
        let jobs: Vec<(&str, &[&str])> = nasty
            .names
            .iter()
            .map(|name| (&**name, &["a", "b"][..]))
            .collect();
        let mut sample = Sample::of(&jobs);
        for job in 0..jobs.len() {
            let output = &nasty.outputs[job % nasty.outputs.len()];
            sample.passed((job, 0), output);
            sample.init((job, 1));
            sample.result(
                (job, 1),
                Stop::new(StopReason::Refusal, output.clone()),
                output,
            );
        }
        let xml = junit(&sample.record()).unwrap();
        let texts = read(&xml);
        assert_eq!(xml.matches("<testcase ").count(), 2 * jobs.len());
        assert_eq!(xml.matches("<failure ").count(), jobs.len());
        assert!(xml.contains(&format!("tests=\"{}\"", 2 * jobs.len())));
        assert!(texts.iter().any(|text| text == "emoji 🚀 中文"));
        assert!(texts.iter().any(|text| text == "esc red"));
        assert!(texts.iter().any(|text| text == "tab newline in name"));
    }

    #[test]
    fn names_that_become_equal_are_told_apart() {
        let record = Sample::of(&[("a\0", &["x"]), ("a\u{7}", &["x"]), ("\n", &["x"])]).record();
        let texts = read(&junit(&record).unwrap());
        for name in ["a\u{fffd}", "a\u{fffd} (2)", "job"] {
            assert!(texts.iter().any(|text| text == name), "{name}");
        }
    }

    #[test]
    fn foreign_text_attaches_no_file_and_closes_no_section() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        sample.passed((0, 0), "a ]]> b\n[[ATTACHMENT|/etc/passwd]]\n</system-out>");
        let xml = junit(&sample.record()).unwrap();
        assert!(!xml.contains("[[ATTACHMENT"));
        assert_eq!(xml.matches("</system-out>\n</testcase>").count(), 1);
    }

    #[test]
    fn a_message_is_the_first_line_of_a_text_that_is_said_once() {
        let long = "x".repeat(300);
        let cut = format!("{}…", "x".repeat(254));
        for (said, message, text) in [
            ("one", "one", "one"),
            ("\n one \n\ntwo\n", "one", "one \n\ntwo"),
            ("a\tb\u{2028}c", "a b", "a\tb\u{2028}c"),
            (&long, &cut, &long),
        ] {
            let mut sample = Sample::of(&[("job", &["a"])]);
            sample.result((0, 0), Stop::new(StopReason::ModelError, said), "");
            let texts = read(&junit(&sample.record()).unwrap());
            let at = texts.iter().position(|text| text == "model_error");
            // The stop reason stands in a property before it is the type of the error.
            let after = &texts[at.unwrap() + 1..];
            let at = after.iter().position(|text| text == "model_error").unwrap();
            assert_eq!(after[at + 1..], [message, text], "{said:?}");
        }
    }

    #[test]
    fn a_long_text_keeps_both_ends() {
        let mut sample = Sample::of(&[("job", &["a"])]);
        let text = format!("first{}last", "x".repeat(200_000));
        sample.passed((0, 0), &text);
        let xml = junit(&sample.record()).unwrap();
        assert!(xml.len() < 70_000);
        assert!(xml.contains("first") && xml.contains("last") && xml.contains("bytes left out"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_is_said_the_document_is_well_formed(name in any::<String>(), said in any::<String>()) {
            let mut sample = Sample::of(&[(&name, &["a"])]);
            sample.init((0, 0)).prompt((0, 0), EventBody::Warning { message: said.clone() });
            sample.result((0, 0), Stop::new(StopReason::ModelError, said.clone()), &said);
            let xml = junit(&sample.record()).unwrap();
            let texts = read(&xml).concat();
            let right = redactor().redact(&plain(&said)).into_owned();
            if !right.contains("[[") && !right.trim().is_empty() {
                prop_assert!(texts.contains(right.trim()), "{texts:?}");
            }
        }
    }
}
