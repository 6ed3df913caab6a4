//! `run.json`: the results of everything, for machines. These structs are its schema.

use serde::Serialize;
use serde_json::Value;

use crate::message::Usage;
use crate::models::Usd;
use crate::query::Denial;
use crate::stop::{Outcome, StopReason};
use crate::transcript::timestamp;

use super::record::{CheckRecord, JobRecord, PromptRecord, RunRecord};

/// Version of `run.json`. A new optional field keeps it, any other change raises it.
pub const SCHEMA_VERSION: u32 = 1;

/// One run.
#[derive(Debug, Serialize)]
pub struct RunDocument<'a> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// UUID version 7.
    pub run_id: String,
    /// `passed`, `failed` or `errored`; never passed with another exit code than 0.
    pub outcome: Outcome,
    /// The exit code of the program.
    pub exit_code: u8,
    /// The signal that ended the run, such as `SIGTERM`.
    pub signal: Option<&'a str>,
    /// What all replies cost, in US dollars; `null` when the price of some is not known.
    pub total_cost_usd: Option<f64>,
    /// What attempts without a final usage may have cost beside, at most.
    pub cost_unsettled_usd: f64,
    /// When it began, RFC 3339, UTC, milliseconds.
    pub started_at: String,
    /// How long it took.
    pub duration_ms: u64,
    /// How many prompts ended how.
    pub counts: CountsDocument,
    /// What a person should know and belongs to no prompt.
    pub warnings: &'a [String],
    /// The job files, in the order in which they were named.
    pub jobs: Vec<JobDocument<'a>>,
    /// What was run by what.
    pub manifest: Manifest<'a>,
}

/// How many prompts ended how.
#[derive(Debug, Serialize)]
pub struct CountsDocument {
    /// Did their work.
    pub passed: usize,
    /// Did not.
    pub failed: usize,
    /// Could not be told.
    pub errored: usize,
    /// Never started.
    pub skipped: usize,
}

/// One job file.
#[derive(Debug, Serialize)]
pub struct JobDocument<'a> {
    /// Unique in the run.
    pub name: &'a str,
    /// The file as it was named.
    pub file: &'a str,
    /// As of the run.
    pub outcome: Outcome,
    /// In the order of the file.
    pub prompts: Vec<PromptDocument<'a>>,
}

/// One prompt.
#[derive(Debug, Serialize)]
pub struct PromptDocument<'a> {
    /// Unique in the job.
    pub id: &'a str,
    /// Its line in the job file, from 1.
    pub line: u32,
    /// `passed`, `failed`, `errored` or `skipped`.
    pub outcome: Outcome,
    /// The stop reason, or what was found after the loop (`checks_failed`, `permission_denied`).
    pub reason: &'a str,
    /// Why the loop ended.
    pub stop_reason: StopReason,
    /// The API's own reason of the last reply.
    pub api_stop_reason: Option<&'a str>,
    /// Why it did not pass, for a person; empty only when it passed.
    pub message: &'a str,
    /// The last visible text of the model, whatever the outcome.
    pub result: &'a str,
    /// `provider/model`.
    pub model: &'a str,
    /// Model replies that entered the conversation.
    pub num_turns: u32,
    /// The limit.
    pub max_turns: u32,
    /// Requests sent, retries included.
    pub requests: u32,
    /// Requests that were tried again.
    pub retries: u32,
    /// What the replies cost, in US dollars; `null` when the price is not known.
    pub cost_usd: Option<f64>,
    /// What attempts without a final usage may have cost beside, at most.
    pub cost_unsettled_usd: f64,
    /// The cap; `null` where nothing can be spent.
    pub max_budget_usd: Option<f64>,
    /// All tokens; the four kinds of input are disjoint.
    pub usage: Usage,
    /// When it began; `null` when it did not.
    pub started_at: Option<String>,
    /// From start to end, checks included.
    pub duration_ms: u64,
    /// Of that, waiting for the provider.
    pub duration_api_ms: u64,
    /// Calls that were denied, in order.
    pub permission_denials: Vec<DenialDocument<'a>>,
    /// Checks that ran, in order.
    pub checks: Vec<CheckDocument<'a>>,
    /// What a person should know.
    pub warnings: &'a [String],
    /// What held what the model's commands may do; `none` when nothing did.
    pub sandbox: &'a str,
    /// The conversation's id; `null` when there was none.
    pub session_id: Option<String>,
    /// `transcript.jsonl`, relative to the directory of this file; `null` when there is none.
    pub transcript: Option<&'a str>,
}

/// One denied call.
#[derive(Debug, Serialize)]
pub struct DenialDocument<'a> {
    /// The tool.
    pub tool_name: &'a str,
    /// The call.
    pub tool_use_id: &'a str,
    /// Its arguments.
    pub tool_input: &'a Value,
    /// The deny rule; `null`: nothing allowed it.
    pub rule: Option<&'a str>,
    /// Why.
    pub reason: &'a str,
    /// A rule that would allow it, where one can be named.
    pub would_allow: Option<&'a str>,
}

/// One check.
#[derive(Debug, Serialize)]
pub struct CheckDocument<'a> {
    /// `check-1`….
    pub id: &'a str,
    /// Its line in the job file, from 1.
    pub line: u32,
    /// The command.
    pub command: &'a str,
    /// Whether it exited with 0.
    pub passed: bool,
    /// What was wrong; empty when it passed.
    pub message: &'a str,
    /// The end of its output.
    pub output: &'a str,
    /// How long it took.
    pub duration_ms: u64,
}

/// What was run by what: enough to tell whether two runs can be compared.
#[derive(Debug, Serialize)]
pub struct Manifest<'a> {
    /// The program's version.
    pub version: &'a str,
    /// The machine's name.
    pub hostname: &'a str,
    /// How many prompts ran side by side.
    pub concurrency: usize,
    /// The job files.
    pub jobs: Vec<ManifestJob<'a>>,
}

/// One job file of the manifest.
#[derive(Debug, Serialize)]
pub struct ManifestJob<'a> {
    /// Its name.
    pub name: &'a str,
    /// Digest of the job file's bytes, `sha256:` and hex.
    pub digest: &'a str,
    /// Its prompts.
    pub prompts: Vec<ManifestPrompt<'a>>,
}

/// One prompt of the manifest.
#[derive(Debug, Serialize)]
pub struct ManifestPrompt<'a> {
    /// Its id.
    pub id: &'a str,
    /// `provider/model`.
    pub model: &'a str,
    /// Digest of the rules; `null` when the conversation never began.
    pub policy_digest: Option<&'a str>,
}

/// `run.json` as text, indented, with a newline at the end.
#[expect(
    clippy::missing_panics_doc,
    reason = "these structs hold nothing that JSON cannot"
)]
pub fn run_json(record: &RunRecord) -> String {
    let mut text = serde_json::to_string_pretty(&document(record))
        .expect("strings, numbers and JSON values serialise");
    text.push('\n');
    text
}

fn document(record: &RunRecord) -> RunDocument<'_> {
    let counts = record.counts();
    RunDocument {
        schema_version: SCHEMA_VERSION,
        run_id: record.run_id.to_string(),
        outcome: record.outcome(),
        exit_code: record.exit_code,
        signal: record.signal.as_deref(),
        total_cost_usd: record.cost().map(Usd::as_f64),
        cost_unsettled_usd: record.unsettled().as_f64(),
        started_at: timestamp(record.started_at),
        duration_ms: millis(record.duration),
        counts: CountsDocument {
            passed: counts.passed,
            failed: counts.failed,
            errored: counts.errored,
            skipped: counts.skipped,
        },
        warnings: &record.warnings,
        jobs: record.jobs.iter().map(job_document).collect(),
        manifest: manifest(record),
    }
}

fn job_document(job: &JobRecord) -> JobDocument<'_> {
    JobDocument {
        name: &job.name,
        file: &job.file,
        outcome: job.counts().outcome(),
        prompts: job.prompts.iter().map(prompt_document).collect(),
    }
}

fn prompt_document(prompt: &PromptRecord) -> PromptDocument<'_> {
    PromptDocument {
        id: &prompt.id,
        line: prompt.line,
        outcome: prompt.outcome,
        reason: &prompt.reason,
        stop_reason: prompt.stop_reason,
        api_stop_reason: prompt.api_stop_reason.as_deref(),
        message: &prompt.message,
        result: &prompt.result,
        model: &prompt.model,
        num_turns: prompt.num_turns,
        max_turns: prompt.max_turns,
        requests: prompt.requests,
        retries: prompt.retries,
        cost_usd: prompt.cost.map(Usd::as_f64),
        cost_unsettled_usd: prompt.unsettled.as_f64(),
        max_budget_usd: prompt.max_budget.map(Usd::as_f64),
        usage: prompt.usage,
        started_at: prompt.started_at.map(timestamp),
        duration_ms: millis(prompt.duration),
        duration_api_ms: millis(prompt.duration_api),
        permission_denials: prompt.denials.iter().map(denial_document).collect(),
        checks: prompt.checks.iter().map(check_document).collect(),
        warnings: &prompt.warnings,
        sandbox: &prompt.sandbox,
        session_id: prompt.session_id.map(|id| id.to_string()),
        transcript: prompt.transcript.as_deref(),
    }
}

fn denial_document(denial: &Denial) -> DenialDocument<'_> {
    DenialDocument {
        tool_name: &denial.tool_name,
        tool_use_id: &denial.tool_use_id,
        tool_input: &denial.tool_input,
        rule: denial.rule.as_deref(),
        reason: &denial.reason,
        would_allow: denial.would_allow.as_deref(),
    }
}

fn check_document(check: &CheckRecord) -> CheckDocument<'_> {
    CheckDocument {
        id: &check.id,
        line: check.line,
        command: &check.command,
        passed: check.passed,
        message: &check.message,
        output: &check.output,
        duration_ms: millis(check.duration),
    }
}

fn manifest(record: &RunRecord) -> Manifest<'_> {
    let jobs = record.jobs.iter().map(|job| ManifestJob {
        name: &job.name,
        digest: &job.digest,
        prompts: job
            .prompts
            .iter()
            .map(|prompt| ManifestPrompt {
                id: &prompt.id,
                model: &prompt.model,
                policy_digest: Some(&*prompt.policy_digest).filter(|digest| !digest.is_empty()),
            })
            .collect(),
    });
    Manifest {
        version: &record.version,
        hostname: &record.hostname,
        concurrency: record.concurrency,
        jobs: jobs.collect(),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    duration.as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, mixed};
    use super::*;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a whole document")]
    fn run_json_of_a_run_of_one_failed_prompt() {
        let mut record = mixed().record();
        record.jobs.truncate(1);
        record.jobs[0].prompts.remove(2);
        record.jobs[0].prompts.remove(0);
        insta::assert_snapshot!(run_json(&record), @r###"
{
  "schema_version": 1,
  "run_id": "00000000-0000-0000-0000-000000000001",
  "outcome": "failed",
  "exit_code": 1,
  "signal": null,
  "total_cost_usd": 0.042,
  "cost_unsettled_usd": 0.0,
  "started_at": "2026-11-30T03:00:00.000Z",
  "duration_ms": 1700,
  "counts": {
    "passed": 0,
    "failed": 1,
    "errored": 0,
    "skipped": 0
  },
  "warnings": [],
  "jobs": [
    {
      "name": "nightly",
      "file": "jobs/nightly.yaml",
      "outcome": "failed",
      "prompts": [
        {
          "id": "fix",
          "line": 11,
          "outcome": "failed",
          "reason": "checks_failed",
          "stop_reason": "completed",
          "api_stop_reason": "end_turn",
          "message": "check-2: exit status 101\nsee its output",
          "result": "I fixed it.",
          "model": "anthropic/claude-x",
          "num_turns": 2,
          "max_turns": 5,
          "requests": 3,
          "retries": 0,
          "cost_usd": 0.042,
          "cost_unsettled_usd": 0.0,
          "max_budget_usd": 0.5,
          "usage": {
            "input_tokens": 1000,
            "output_tokens": 200,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0
          },
          "started_at": "2026-11-30T03:00:00.500Z",
          "duration_ms": 4200,
          "duration_api_ms": 180,
          "permission_denials": [
            {
              "tool_name": "Bash",
              "tool_use_id": "t1",
              "tool_input": {
                "command": "rm -rf x"
              },
              "rule": null,
              "reason": "no rule allows it",
              "would_allow": "Bash(rm -rf x)"
            }
          ],
          "checks": [
            {
              "id": "check-1",
              "line": 21,
              "command": "cargo test",
              "passed": true,
              "message": "",
              "output": "ok\n",
              "duration_ms": 250
            },
            {
              "id": "check-2",
              "line": 22,
              "command": "cargo test",
              "passed": false,
              "message": "exit status 101",
              "output": "running 1 test\ntest a ... FAILED\n",
              "duration_ms": 250
            }
          ],
          "warnings": [],
          "sandbox": "none",
          "session_id": "00000000-0000-0000-0000-000000000065",
          "transcript": "nightly/fix/transcript.jsonl"
        }
      ]
    }
  ],
  "manifest": {
    "version": "0.1.0",
    "hostname": "runner-7",
    "concurrency": 4,
    "jobs": [
      {
        "name": "nightly",
        "digest": "sha256:1234",
        "prompts": [
          {
            "id": "fix",
            "model": "anthropic/claude-x",
            "policy_digest": "sha256:abcd"
          }
        ]
      }
    ]
  }
}
"###);
    }

    #[test]
    fn money_has_no_float_noise_and_an_unknown_price_is_null() {
        let mut record = Sample::of(&[("job", &["a"])]).record();
        record.jobs[0].prompts[0].cost = Usd::from_decimal(0.021);
        assert!(run_json(&record).contains("\"total_cost_usd\": 0.021,"));
        record.jobs[0].prompts[0].cost = None;
        assert!(run_json(&record).contains("\"total_cost_usd\": null,"));
    }
}
