//! `summary.md`: a table a person reads; also GitHub's step summary.
#![expect(
    clippy::format_push_string,
    reason = "a few lines a prompt: what the text looks like matters more than one allocation"
)]

use crate::models::Usd;
use crate::query::Denial;
use crate::stop::{Finding, Outcome};

use super::foreign::{first_line, head_and_tail, one_line, tail};
use super::record::{CheckRecord, JobRecord, PromptRecord, RunRecord};
use super::wording::{Cost, count_words, duration_words};

/// GitHub shows nothing of a step summary over 1 MiB.
const MOST_BYTES: usize = 1_000_000;
/// One final text must not push the others out.
const MOST_TEXT: usize = 60_000;
/// End of a failed check's output.
const MOST_CHECK_OUTPUT: usize = 4_000;
/// Longest message in full; the transcript has the rest.
const MOST_MESSAGE: usize = 8_000;
const LONGEST_CELL: usize = 200;
const CUT_NOTE: &str =
    "\n\n*Cut here: the summary would be over GitHub's limit. `run.json` has everything.*\n";

/// `summary.md` as text, at most 1,000,000 bytes.
pub fn markdown(record: &RunRecord) -> String {
    let mut text = heading(record);
    let mut is_cut = false;
    // What did not pass comes before what did: the end is what is cut.
    let sections = record
        .prompts()
        .filter(|(_, prompt)| prompt.outcome != Outcome::Passed || !prompt.denials.is_empty())
        .map(|(job, prompt)| trouble(job, prompt))
        .chain(
            record
                .prompts()
                .filter_map(|(job, prompt)| final_text(job, prompt)),
        );
    for section in sections {
        // Whole sections only, so that no fence and no tag is left open.
        if text.len() + section.len() + CUT_NOTE.len() > MOST_BYTES {
            is_cut = true;
            break;
        }
        text.push_str(&section);
    }
    if is_cut {
        text.push_str(CUT_NOTE);
    }
    text
}

fn heading(record: &RunRecord) -> String {
    let counts = record.counts();
    let cost = Cost::sum_words(record.prompts().map(|(_, prompt)| Cost::of_prompt(prompt)));
    let mut text = format!(
        "## lightsout: {}\n\n{} in {}, {cost}",
        record.outcome(),
        count_words(counts),
        duration_words(record.duration),
    );
    if record.unsettled() > Usd::ZERO {
        text.push_str(&format!(" (and up to {} unsettled)", record.unsettled()));
    }
    if let Some(signal) = &record.signal {
        text.push_str(&format!(", ended by {}", cell(signal)));
    }
    text.push_str(
        "\n\n| | Job | Prompt | Reason | Turns | Cost | Time |\n|---|---|---|---|--:|--:|--:|\n",
    );
    let mut rows = record.prompts();
    for (job, prompt) in rows.by_ref() {
        let row = format!(
            "| {} {} | {} | {} | {} | {} | {} | {} |\n",
            sign(prompt.outcome),
            prompt.outcome,
            cell(&job.name),
            cell(&prompt.id),
            cell(&prompt.reason),
            prompt.num_turns,
            Cost::of_prompt(prompt),
            duration_words(prompt.duration),
        );
        if text.len() + row.len() + 100 > MOST_BYTES / 2 {
            let left_out = 1 + rows.by_ref().count();
            text.push_str(&format!("\n{left_out} more rows are in `run.json`.\n"));
            break;
        }
        text.push_str(&row);
    }
    for warning in &record.warnings {
        text.push_str(&format!("\n> **Warning**: {}\n", cell(first_line(warning))));
    }
    text
}

fn trouble(job: &JobRecord, prompt: &PromptRecord) -> String {
    let mut text = format!(
        "\n### {} {} / {}: {}\n",
        sign(prompt.outcome),
        cell(&job.name),
        cell(&prompt.id),
        cell(&prompt.reason)
    );
    if !prompt.message.is_empty() && !is_told_by_lists(prompt) {
        text.push_str(&fenced(&head_and_tail(&prompt.message, MOST_MESSAGE)));
    }
    for check in prompt.checks.iter().filter(|check| !check.passed) {
        text.push_str(&failed_check(check));
    }
    if !prompt.denials.is_empty() {
        text.push_str("\nDenied calls:\n\n");
        text.extend(prompt.denials.iter().take(50).map(denial_item));
        if prompt.denials.len() > 50 {
            text.push_str(&format!("* and {} more\n", prompt.denials.len() - 50));
        }
    }
    if let Some(transcript) = &prompt.transcript {
        text.push_str(&format!("\nTranscript: {}\n", code(transcript)));
    }
    text
}

/// Whether the message of a prompt is nothing but the checks and denials that are listed below it.
fn is_told_by_lists(prompt: &PromptRecord) -> bool {
    let checks_failed = prompt.checks.iter().any(|check| !check.passed);
    (prompt.reason == Finding::ChecksFailed.name() && checks_failed)
        || (prompt.reason == Finding::PermissionDenied.name() && !prompt.denials.is_empty())
}

fn failed_check(check: &CheckRecord) -> String {
    let output = tail(&check.output, MOST_CHECK_OUTPUT);
    format!(
        "\n{} failed: {}\n{}",
        cell(&check.id),
        cell(first_line(&check.message)),
        fenced(&format!("$ {}\n{output}", check.command))
    )
}

fn denial_item(denial: &Denial) -> String {
    let call = format!("{} {}", denial.tool_name, denial.tool_input);
    let mut item = format!("* {}: {}", code(&call), cell(first_line(&denial.reason)));
    if let Some(rule) = &denial.rule {
        item.push_str(&format!("; denied by {}", code(rule)));
    }
    if let Some(rule) = &denial.would_allow {
        item.push_str(&format!("; {} would allow it", code(rule)));
    }
    item.push('\n');
    item
}

fn final_text(job: &JobRecord, prompt: &PromptRecord) -> Option<String> {
    if prompt.result.trim().is_empty() {
        return None;
    }
    let text = head_and_tail(&prompt.result, MOST_TEXT);
    Some(format!(
        "\n<details><summary>{} / {}: final text</summary>\n{}\n</details>\n",
        cell(&job.name),
        cell(&prompt.id),
        fenced(&text),
    ))
}

/// A code block with a fence longer than any inside, so that nothing in it ends it.
fn fenced(text: &str) -> String {
    let fence = "`".repeat(longest_run(text, '`').max(2) + 1);
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("\n{fence}text\n{text}{newline}{fence}\n")
}

/// Inline code on one line, by the same rule.
fn code(text: &str) -> String {
    let text = one_line(text, LONGEST_CELL);
    let ticks = "`".repeat(longest_run(&text, '`') + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

fn longest_run(text: &str, of: char) -> usize {
    text.split(|c| c != of).map(str::len).max().unwrap_or(0)
}

/// Foreign text in a table cell or a sentence: one line, no markup, no HTML, no mention of anybody.
fn cell(text: &str) -> String {
    let line = one_line(text, LONGEST_CELL);
    let mut cell = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    let mut before = ' ';
    while let Some(c) = chars.next() {
        let is_in_word =
            before.is_alphanumeric() && chars.peek().is_some_and(|c| c.is_alphanumeric());
        match c {
            '&' => cell.push_str("&amp;"),
            '<' => cell.push_str("&lt;"),
            '>' => cell.push_str("&gt;"),
            // As a number, for a backslash before it would not help.
            '@' => cell.push_str("&#64;"),
            // Inside a word it is no markup: `max_turns` stays readable in the source too.
            '_' if is_in_word => cell.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '$' => {
                cell.push('\\');
                cell.push(c);
            }
            c => cell.push(c),
        }
        before = c;
    }
    cell
}

fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "✅",
        Outcome::Failed => "❌",
        Outcome::Errored => "💥",
        Outcome::Skipped => "⏭️",
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Sample, denial, mixed, result};
    use super::*;
    use crate::stop::{Stop, StopReason};
    use crate::transcript::EventBody;

    #[test]
    fn one_prompt_of_each_outcome() {
        insta::assert_snapshot!(markdown(&mixed().record()), @r###"
## lightsout: failed

1 passed, 1 failed, 1 errored, 1 not run in 1.7s, $0.1680

| | Job | Prompt | Reason | Turns | Cost | Time |
|---|---|---|---|--:|--:|--:|
| ✅ passed | nightly | summary | completed | 2 | $0.0420 | 4.2s |
| ❌ failed | nightly | fix | checks_failed | 2 | $0.0420 | 4.2s |
| ⏭️ skipped | nightly | rest | not_run | 2 | $0.0420 | 4.2s |
| 💥 errored | gate | review | model_error | 2 | $0.0420 | 4.2s |

### ❌ nightly / fix: checks_failed

check-2 failed: exit status 101

```text
$ cargo test
running 1 test
test a ... FAILED
```

Denied calls:

* `Bash {"command":"rm -rf x"}`: no rule allows it; `Bash(rm -rf x)` would allow it

Transcript: `nightly/fix/transcript.jsonl`

### ⏭️ nightly / rest: not_run

```text
the provider refuses all requests
```

### 💥 gate / review: model_error

```text
asking the model: 500, server error
```

Transcript: `gate/review/transcript.jsonl`

<details><summary>nightly / summary: final text</summary>

```text
Nothing broke.
All is well.
```

</details>

<details><summary>nightly / fix: final text</summary>

```text
I fixed it.
```

</details>
"###);
    }

    #[test]
    fn denials_are_told_once_and_no_message_is_lost() {
        let text_of = |reason, finding, message: &str| {
            let mut stop = Stop::new(reason, message);
            stop.finding = finding;
            let mut result = result(stop, "");
            result.denials = vec![denial()];
            let mut sample = Sample::of(&[("job", &["a"])]);
            sample
                .init((0, 0))
                .prompt((0, 0), EventBody::Result(result));
            markdown(&sample.record())
        };
        let message = "1 call denied\nBash: no rule allows it; `Bash(rm -rf x)` would allow it";
        let denied = Some(Finding::PermissionDenied);
        for text in [
            text_of(StopReason::Completed, denied, message),
            text_of(StopReason::PermissionDenied, None, message),
        ] {
            assert_eq!(text.matches("no rule allows it").count(), 1, "{text}");
        }
        let text = text_of(
            StopReason::MaxTurns,
            None,
            "the limit of 2 turns is reached",
        );
        assert!(text.contains("the limit of 2 turns"), "{text}");
        assert!(text.contains("no rule allows it"), "{text}");
    }

    #[test]
    fn what_a_cassette_answered_is_not_said_to_be_spent() {
        let mut sample = Sample::replaying(&[("job", &["a"])]);
        sample.passed((0, 0), "");
        let text = markdown(&sample.record());
        assert!(
            text.contains("1 passed in 400ms, $0.0420 replayed\n"),
            "{text}"
        );
        assert!(text.contains("| 2 | $0.0420 replayed | 4.2s |"), "{text}");
    }

    #[test]
    fn foreign_text_does_not_break_out() {
        let mut sample = Sample::of(&[("a|b\n<img src=x> @octocat", &["x"])]);
        sample.init((0, 0));
        let stop = Stop::new(StopReason::Refusal, "```\n</details>\n````js\n# heading");
        sample.result((0, 0), stop, "~~~\n`````\n<script>");
        insta::assert_snapshot!(markdown(&sample.record()), @r###"
## lightsout: failed

1 failed in 200ms, $0.0420

| | Job | Prompt | Reason | Turns | Cost | Time |
|---|---|---|---|--:|--:|--:|
| ❌ failed | a\|b &lt;img src=x&gt; &#64;octocat | x | refusal | 2 | $0.0420 | 4.2s |

### ❌ a\|b &lt;img src=x&gt; &#64;octocat / x: refusal

`````text
```
</details>
````js
# heading
`````

Transcript: `a|b <img src=x> @octocat/x/transcript.jsonl`

<details><summary>a\|b &lt;img src=x&gt; &#64;octocat / x: final text</summary>

``````text
~~~
`````
<script>
``````

</details>
"###);
    }

    #[test]
    fn a_huge_summary_is_cut_between_sections() {
        let ids: Vec<String> = (0..40).map(|i| format!("p{i}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let mut sample = Sample::of(&[("job", &ids)]);
        for index in 0..ids.len() {
            sample.passed((0, index), &"ü".repeat(100_000));
        }
        let text = markdown(&sample.record());
        assert!(text.len() <= MOST_BYTES);
        assert!(text.ends_with(CUT_NOTE));
        assert_eq!(
            text.matches("<details>").count(),
            text.matches("</details>").count()
        );
    }

    #[test]
    fn ten_thousand_prompts_still_fit() {
        let ids: Vec<String> = (0..20_000).map(|i| format!("prompt-{i}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let text = markdown(&Sample::of(&[("job", &ids)]).record());
        assert!(text.len() <= MOST_BYTES);
        assert!(text.contains("more rows are in `run.json`"));
    }
}
