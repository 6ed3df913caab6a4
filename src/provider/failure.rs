//! What went wrong, named by what can be done about it.
//!
//! Statuses first, then the error's type, then its code, and its text only where there is nothing else.
//! Sources: Anthropic API documentation, "Errors" and "Rate limits"; texts as seen in public reports.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::message::{Billing, Failure, FailureKind, Usage};
use crate::net::{Fault, FaultKind};

/// How much of an error's body is kept in a message.
const BODY_IN_MESSAGE: usize = 4096;

/// An answer that is no reply: any status but 200. `what` is what was tried, `now` the wall clock, for
/// a `retry-after` that is a date.
pub(super) fn of_status(
    what: &str,
    status: u16,
    headers: &[(String, String)],
    body: &str,
    now: SystemTime,
) -> Failure {
    let error = ErrorBody::parse(body);
    let kind = match status {
        200..=299 => FailureKind::Protocol,
        300..=399 => FailureKind::Invalid,
        _ => classify(status, &error, body),
    };
    let cause = match status {
        300..=399 => format!(
            "redirects to {}, and redirects are not followed: the base URL must name the API itself",
            header(headers, "location").unwrap_or("nowhere")
        ),
        _ if body.trim().is_empty() => "without a body".to_owned(),
        _ => error.description(body),
    };
    Failure {
        status: Some(status),
        billing: billing(status),
        retry_after: retry_after(headers, now),
        should_retry: match header(headers, "x-should-retry") {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        },
        request_id: request_id(headers).or(error.request_id),
        ..Failure::new(
            kind,
            format!("{what}: status {status}: {cause}{}", remedy(status)),
        )
    }
}

/// What an answer with `status`, which is not 200, may have cost.
///
/// The provider bills no error of its own. 408, 502, 504 and the like are a gateway's word for an
/// answer that it did not get or could not read: behind it a model may have written one, which is
/// billed. So may the content of a success that is no 200.
fn billing(status: u16) -> Billing {
    match status {
        500 | 501 | 503 | 529 => Billing::Nothing,
        200..=299 | 408 | 500.. => Billing::Unknown(Usage::default()),
        _ => Billing::Nothing,
    }
}

/// An `error` event of a stream, as the status of its type would be.
pub(super) fn of_stream_error(what: &str, error: &Value, request_id: Option<String>) -> Failure {
    let body = Value::Object([("error".to_owned(), error.clone())].into_iter().collect());
    let text = body.to_string();
    let error = ErrorBody::of(&body);
    let status = match error.kind.as_ref() {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "conflict_error" => 409,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        // `api_error`, and what is not known yet: it may pass.
        _ => 500,
    };
    let kind = classify(status, &error, &text);
    let cause = error.description(&text);
    Failure {
        request_id,
        billing: billing(status),
        ..Failure::new(kind, format!("{what}: error in the stream: {cause}"))
    }
}

/// What a person can do about a status, behind the server's own words.
fn remedy(status: u16) -> &'static str {
    match status {
        401 => " (check ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN)",
        403 => " (check what the key may do)",
        404 => " (check the model's id and ANTHROPIC_BASE_URL)",
        _ => "",
    }
}

/// A request that got no (whole) answer.
pub(super) fn of_fault(what: &str, fault: &Fault) -> Failure {
    let kind = match fault.kind {
        // Before the headers an end is a lost connection; in a stream the caller knows better.
        FaultKind::Unreachable | FaultKind::Broken | FaultKind::Ended => FailureKind::Connection,
        FaultKind::Idle => FailureKind::IdleTimeout,
        FaultKind::Refused => FailureKind::Invalid,
        FaultKind::Protocol => FailureKind::Protocol,
    };
    Failure::new(kind, format!("{what}: {fault}"))
}

/// The first value of a header; names are in lower case.
pub(super) fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(header, _)| header == name)
        .map(|(_, value)| value.as_str())
}

/// The provider's id of a request.
pub(super) fn request_id(headers: &[(String, String)]) -> Option<String> {
    ["request-id", "x-request-id", "x-amzn-requestid"]
        .iter()
        .find_map(|name| header(headers, name))
        .map(str::to_owned)
}

/// An error's body in the shapes of the API, its edge, `OpenAI` and local servers; all of it optional.
struct ErrorBody<'a> {
    kind: Cow<'a, str>,
    code: Cow<'a, str>,
    message: Option<String>,
    request_id: Option<String>,
}

impl ErrorBody<'static> {
    fn parse(body: &str) -> Self {
        let value: Value = serde_json::from_str(body).unwrap_or_default();
        let error = ErrorBody::of(&value);
        ErrorBody {
            kind: Cow::Owned(error.kind.into_owned()),
            code: Cow::Owned(error.code.into_owned()),
            message: error.message,
            request_id: error.request_id,
        }
    }
}

impl<'a> ErrorBody<'a> {
    fn of(body: &'a Value) -> Self {
        let error = &body["error"];
        let code = &error["details"]["error_code"];
        let code = code.as_str().or_else(|| error["code"].as_str());
        Self {
            kind: Cow::Borrowed(error["type"].as_str().unwrap_or_default()),
            code: Cow::Borrowed(code.unwrap_or_default()),
            message: error["message"].as_str().map(str::to_owned),
            request_id: body["request_id"].as_str().map(str::to_owned),
        }
    }

    /// Type and message where the body has them, else the body.
    fn description(&self, body: &str) -> String {
        let (kind, message) = match &self.message {
            Some(message) => (self.kind.as_ref(), message.as_str()),
            None => ("", body.trim()),
        };
        let mut end = message.len().min(BODY_IN_MESSAGE);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let more = if end < message.len() { "…" } else { "" };
        let colon = if kind.is_empty() { "" } else { ": " };
        format!("{kind}{colon}{}{more}", &message[..end])
    }
}

fn classify(status: u16, error: &ErrorBody<'_>, body: &str) -> FailureKind {
    let is_client_error = (400..500).contains(&status);
    if is_client_error && is_spend_limit(status, error, body) {
        return FailureKind::SpendLimit;
    }
    if is_client_error && is_too_long(status, error, body) {
        return FailureKind::PromptTooLong;
    }
    match status {
        400 if is_max_tokens(body) => FailureKind::MaxTokensTooHigh,
        400 if body.contains("Invalid `signature` in `thinking` block") => {
            FailureKind::ThinkingSignature
        }
        401 => FailureKind::Authentication,
        429 => FailureKind::RateLimit,
        501 => FailureKind::Invalid,
        529 => FailureKind::Overloaded,
        500.. if error.kind == "overloaded_error" => FailureKind::Overloaded,
        408 | 409 | 500.. => FailureKind::Server,
        _ => FailureKind::Invalid,
    }
}

fn is_spend_limit(status: u16, error: &ErrorBody<'_>, body: &str) -> bool {
    const CODES: [&str; 3] = [
        "enforced_spend_limit_reached",
        "contract_spend_limit_reached",
        "insufficient_quota",
    ];
    status == 402
        || error.kind == "billing_error"
        || error.kind == "insufficient_quota"
        || CODES.contains(&error.code.as_ref())
        || (body.contains("You have reached your specified") && body.contains("usage limits"))
}

fn is_too_long(status: u16, error: &ErrorBody<'_>, body: &str) -> bool {
    const TEXTS: [&str; 4] = [
        "prompt is too long",
        "exceeds the available context size",
        "image exceeds",
        "image dimensions exceed",
    ];
    status == 413
        || error.kind == "request_too_large"
        || error.kind == "exceed_context_size_error"
        || error.code == "context_length_exceeded"
        || error.code == "image_dimensions_too_large"
        || (status == 400 && TEXTS.iter().any(|text| body.contains(text)))
}

/// `max_tokens` is over the model's limit, or over what the window leaves beside the input.
fn is_max_tokens(body: &str) -> bool {
    body.contains("max_tokens")
        && (body.contains("maximum allowed number of output tokens")
            || body.contains("exceed context limit"))
}

/// `retry-after-ms`, then `retry-after` in seconds or as an HTTP date; a date that has passed is now.
fn retry_after(headers: &[(String, String)], now: SystemTime) -> Option<Duration> {
    let number = |name| header(headers, name)?.trim().parse::<f64>().ok();
    let of = |seconds: f64| Duration::try_from_secs_f64(seconds).ok();
    if let Some(wait) = number("retry-after-ms").and_then(|ms| of(ms / 1000.0)) {
        return Some(wait);
    }
    if let Some(wait) = number("retry-after").and_then(of) {
        return Some(wait);
    }
    let date = http_date(header(headers, "retry-after")?)?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. Source: RFC 9110, section 5.6.7.
fn http_date(text: &str) -> Option<SystemTime> {
    let format = time::macros::format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    let date = time::PrimitiveDateTime::parse(text.trim(), format).ok()?;
    Some(date.assume_utc().into())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize)]
    struct Sample {
        name: String,
        status: u16,
        headers: std::collections::BTreeMap<String, String>,
        body: String,
        classify: String,
        retryable: bool,
    }

    fn expected(class: &str) -> FailureKind {
        match class {
            "invalid_request" | "permission" | "not_found" => FailureKind::Invalid,
            "context_overflow" | "request_too_large" => FailureKind::PromptTooLong,
            "max_tokens_too_large" => FailureKind::MaxTokensTooHigh,
            "thinking_binding" => FailureKind::ThinkingSignature,
            "spend_limit" | "billing" => FailureKind::SpendLimit,
            "auth" => FailureKind::Authentication,
            "conflict" | "server" => FailureKind::Server,
            "rate_limit" => FailureKind::RateLimit,
            "overloaded" => FailureKind::Overloaded,
            other => panic!("unknown class {other}"),
        }
    }

    #[test]
    fn every_known_error_is_named_by_what_can_be_done() {
        let samples = include_str!("../../fixtures/sse/http-errors.jsonl");
        for line in samples.lines() {
            let sample: Sample = serde_json::from_str(line).unwrap();
            let headers: Vec<_> = sample.headers.into_iter().collect();
            let now = SystemTime::UNIX_EPOCH;
            let failure = of_status("POST x", sample.status, &headers, &sample.body, now);
            assert_eq!(failure.kind, expected(&sample.classify), "{}", sample.name);
            let is_retried = matches!(
                failure.kind,
                FailureKind::Server | FailureKind::RateLimit | FailureKind::Overloaded
            );
            assert_eq!(is_retried, sample.retryable, "{}", sample.name);
            assert_eq!(failure.status, Some(sample.status), "{}", sample.name);
            let given = headers.iter().any(|(name, _)| name == "retry-after");
            assert_eq!(failure.retry_after.is_some(), given, "{}", sample.name);
        }
    }

    #[test]
    fn an_error_in_the_stream_counts_as_its_status_would() {
        for (kind, expected) in [
            ("overloaded_error", FailureKind::Overloaded),
            ("api_error", FailureKind::Server),
            ("timeout_error", FailureKind::Server),
            ("rate_limit_error", FailureKind::RateLimit),
            ("invalid_request_error", FailureKind::Invalid),
            ("authentication_error", FailureKind::Authentication),
            ("billing_error", FailureKind::SpendLimit),
            ("request_too_large", FailureKind::PromptTooLong),
            ("never_heard_of", FailureKind::Server),
        ] {
            let error = json!({"type": kind, "message": "m"});
            let failure = of_stream_error("POST x", &error, None);
            assert_eq!(failure.kind, expected, "{kind}");
            assert_eq!(
                failure.message,
                format!("POST x: error in the stream: {kind}: m")
            );
        }
    }

    #[test]
    fn a_gateways_word_for_a_lost_answer_may_cost_and_a_refusal_does_not() {
        let billed = |status| of_status("x", status, &[], "", SystemTime::UNIX_EPOCH).billing;
        for status in [201, 204, 408, 502, 504, 520, 524] {
            assert_eq!(
                billed(status),
                Billing::Unknown(Usage::default()),
                "{status}"
            );
        }
        for status in [
            307, 400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 501, 503, 529,
        ] {
            assert_eq!(billed(status), Billing::Nothing, "{status}");
        }
        let in_stream = |kind| of_stream_error("x", &json!({"type": kind}), None).billing;
        assert_eq!(
            in_stream("timeout_error"),
            Billing::Unknown(Usage::default())
        );
        assert_eq!(in_stream("overloaded_error"), Billing::Nothing);
    }

    #[test]
    fn the_wait_is_read_in_all_its_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (headers, expected) in [
            (vec![("retry-after", "17")], Some(Duration::from_secs(17))),
            (
                vec![("retry-after", "0.5")],
                Some(Duration::from_millis(500)),
            ),
            (
                vec![("retry-after", "17"), ("retry-after-ms", "20.5")],
                Some(Duration::from_micros(20_500)),
            ),
            (
                vec![("retry-after", "Sun, 06 Nov 1994 08:50:37 GMT")],
                Some(Duration::from_mins(1)),
            ),
            (
                vec![("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")],
                Some(Duration::ZERO),
            ),
            (vec![("retry-after", "soon")], None),
            (vec![("retry-after", "-1")], None),
            (vec![("retry-after", "inf")], None),
            (vec![], None),
        ] {
            let headers: Vec<(String, String)> = headers
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            assert_eq!(retry_after(&headers, now), expected, "{headers:?}");
        }
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let failure = of_status(
            "POST x",
            502,
            &[],
            &"é".repeat(5000),
            SystemTime::UNIX_EPOCH,
        );
        assert_eq!(
            failure.message,
            format!("POST x: status 502: {}…", "é".repeat(2048))
        );
    }

    #[test]
    fn a_redirect_says_where_to() {
        let headers = [("location".to_owned(), "https://elsewhere/".to_owned())];
        let failure = of_status("POST x", 307, &headers, "", SystemTime::UNIX_EPOCH);
        assert_eq!(failure.kind, FailureKind::Invalid);
        assert!(failure.message.contains("redirects to https://elsewhere/"));
    }
}
