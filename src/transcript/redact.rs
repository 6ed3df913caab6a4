//! Secrets, in one place.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// What stands where a secret stood.
const MASK: &str = "***";

/// Shorter values are no secrets: masking `debug` or `1234567` everywhere would only spoil the record.
const SHORTEST_SECRET: usize = 8;

/// The provider's key is masked even when it is short, but not so short that it is part of every word.
const SHORTEST_KEY: usize = 4;

/// Words that make a variable's name look secret, wherever between `_` they stand.
const SECRET_WORDS: [&str; 22] = [
    "KEY",
    "KEYS",
    "APIKEY",
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PWD",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "PRIVATE",
    "AUTH",
    "AUTHORIZATION",
    "BEARER",
    "PAT",
    "SESSION",
    "COOKIE",
];

/// Parts that make it look secret even inside a word, such as `PGPASSWORD`.
const SECRET_PARTS: [&str; 7] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
];

/// Last words of names whose value says where a secret is or how to get it, not what it is.
const NOT_THE_SECRET_ITSELF: [&str; 9] = [
    "SOCK",
    "FILE",
    "FILES",
    "PATH",
    "DIR",
    "DIRECTORY",
    "HOME",
    "HELPER",
    "COMMAND",
];

/// Masks known secret values in text: as they are, as JSON, XML, URL and base64 write them.
///
/// A secret of several lines is masked as a whole and line by line, because tools print single lines
/// of key files.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: Option<AhoCorasick>,
}

impl Redactor {
    /// Masks these values; empty ones are left out.
    ///
    /// The values are taken as given: what is short enough to be part of ordinary words spoils the
    /// record, see [`Redactor::from_environment`].
    #[expect(
        clippy::missing_panics_doc,
        reason = "the automaton takes two thousand million patterns, the environment fewer"
    )]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let mut forms = BTreeSet::new();
        for secret in secrets {
            add_forms(secret, &mut forms);
        }
        let secrets = (!forms.is_empty()).then(|| {
            AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostLongest)
                .build(&forms)
                .expect("a few hundred short patterns fit the automaton")
        });
        Self { secrets }
    }

    /// Masks the provider's key, and the values of variables whose names look secret.
    ///
    /// A name looks secret when one of its words is `KEY`, `TOKEN`, `SECRET`, `PASSWORD`, `PASSWD`,
    /// `CREDENTIAL`, `PRIVATE`, `AUTH` or the like, in any case. Left out are values under 8 bytes, and
    /// names that end in `SOCK`, `FILE`, `PATH`, `DIR`, `HOME`, `HELPER` or `COMMAND`: such a value says
    /// where a secret is, and masking `/home/me` would make every report unreadable. `PWD` and `OLDPWD`
    /// are directories.
    pub fn from_environment<'a>(
        variables: impl IntoIterator<Item = (&'a str, &'a str)>,
        provider_key: Option<&'a str>,
    ) -> Self {
        let named = variables
            .into_iter()
            .filter(|(name, value)| value.len() >= SHORTEST_SECRET && looks_secret(name))
            .map(|(_, value)| value);
        let key = provider_key.filter(|key| key.len() >= SHORTEST_KEY);
        Self::new(named.chain(key))
    }

    /// `text` with every secret replaced by `***`.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(secrets) = &self.secrets else {
            return Cow::Borrowed(text);
        };
        let mut clean = String::new();
        let mut copied = 0;
        for found in secrets.find_iter(text) {
            clean.push_str(&text[copied..found.start()]);
            clean.push_str(MASK);
            copied = found.end();
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        clean.push_str(&text[copied..]);
        Cow::Owned(clean)
    }

    /// One line of JSON with every secret masked; it stays JSON.
    pub fn redact_json<'a>(&self, line: &'a str) -> Cow<'a, str> {
        match self.redact(line) {
            Cow::Borrowed(line) => Cow::Borrowed(line),
            // A secret of digits alone may have been masked inside a number. Then the strings are
            // masked one by one, which costs the order of the keys but keeps the line readable.
            Cow::Owned(masked)
                if serde_json::from_str::<serde::de::IgnoredAny>(&masked).is_err() =>
            {
                match serde_json::from_str::<Value>(line) {
                    Ok(mut value) => {
                        self.redact_value(&mut value);
                        Cow::Owned(value.to_string())
                    }
                    Err(_) => Cow::Owned(masked),
                }
            }
            Cow::Owned(masked) => Cow::Owned(masked),
        }
    }

    /// Masks secrets in every string of `value`, keys included.
    pub fn redact_value(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => {
                if let Cow::Owned(clean) = self.redact(text) {
                    *text = clean;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => {
                let masked = std::mem::take(fields).into_iter().map(|(key, mut value)| {
                    self.redact_value(&mut value);
                    (self.redact(&key).into_owned(), value)
                });
                *fields = masked.collect();
            }
        }
    }
}

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    if matches!(&*name, "PWD" | "OLDPWD") {
        return false;
    }
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let last = words.clone().next_back().unwrap_or_default();
    if NOT_THE_SECRET_ITSELF.contains(&last) {
        return false;
    }
    words.any(|word| SECRET_WORDS.contains(&word))
        || SECRET_PARTS.iter().any(|part| name.contains(part))
}

fn add_forms(secret: &str, forms: &mut BTreeSet<String>) {
    let trimmed = secret.trim();
    if trimmed.is_empty() {
        return;
    }
    for engine in [&STANDARD, &STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(trimmed));
    }
    add_written_forms(trimmed, forms);
    let lines: Vec<&str> = trimmed.lines().map(str::trim).collect();
    if lines.len() > 1 {
        for line in lines {
            if line.len() >= SHORTEST_SECRET {
                add_written_forms(line, forms);
            }
        }
    }
}

fn add_written_forms(secret: &str, forms: &mut BTreeSet<String>) {
    let json = Value::String(secret.to_owned()).to_string();
    let json = &json[1..json.len() - 1];
    forms.insert(secret.to_owned());
    forms.insert(json.to_owned());
    // JSON inside JSON: arguments that a tool passes on as a string.
    let twice = Value::String(json.to_owned()).to_string();
    forms.insert(twice[1..twice.len() - 1].to_owned());
    // In text only `&`, `<`, `>` need escaping; in attributes quotes and blanks are escaped too.
    let text = secret
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    forms.insert(text.replace('"', "&quot;"));
    forms.insert(text.replace('"', "&quot;").replace('\'', "&apos;"));
    forms.insert(text.replace('"', "&quot;").replace('\'', "&#39;"));
    forms.insert(text);
    let mut url = String::with_capacity(secret.len());
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            write!(url, "%{byte:02X}").expect("a string takes everything");
        }
    }
    forms.insert(url);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_look_secret() {
        for name in [
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "PGPASSWORD",
            "db_password",
            "AWS_SECRET_ACCESS_KEY",
            "NPM_AUTH",
            "OPENAI_APIKEY",
            "MY_CREDENTIALS",
            "SSH_PRIVATE",
            "npm_config_authToken",
        ] {
            assert!(looks_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "GIT_AUTHOR_NAME",
            "KEYBOARD",
            "MONKEY",
            "TOKEN_FILE",
            "LIGHTSOUT_API_KEY_HELPER",
            "HOME",
            "LANG",
            "PATTERN",
        ] {
            assert!(!looks_secret(name), "{name}");
        }
    }

    #[test]
    fn short_values_stay_and_the_providers_key_does_not() {
        let redactor = Redactor::from_environment(
            [
                ("MY_TOKEN", "short"),
                ("OTHER_TOKEN", "long-enough"),
                ("CITY", "Constance"),
            ],
            Some("key5"),
        );
        assert_eq!(
            redactor.redact("short long-enough Constance key5"),
            "short *** Constance ***"
        );
    }

    #[test]
    fn a_secret_is_masked_however_it_is_written() {
        let redactor = Redactor::new(["a\"b<c>&d\\e'f"]);
        for form in [
            r#"a"b<c>&d\e'f"#,
            r#"a\"b<c>&d\\e'f"#,
            r#"a\\\"b<c>&d\\\\e'f"#,
            r"a&quot;b&lt;c&gt;&amp;d\e&apos;f",
            r#"a"b&lt;c&gt;&amp;d\e'f"#,
            "a%22b%3Cc%3E%26d%5Ce%27f",
            "YSJiPGM+JmRcZSdm",
        ] {
            assert_eq!(redactor.redact(&format!("x{form}y")), "x***y", "{form}");
        }
    }

    #[test]
    fn a_key_file_is_masked_line_by_line() {
        let redactor =
            Redactor::new(["-----BEGIN KEY-----\nMIIEvAIBADAN\nshort\n-----END KEY-----\n"]);
        assert_eq!(redactor.redact("2: MIIEvAIBADAN short"), "2: *** short");
        assert_eq!(
            redactor.redact(r#""-----BEGIN KEY-----\nMIIEvAIBADAN\nshort\n-----END KEY-----\n""#),
            r#""***\n""#
        );
    }

    #[test]
    fn a_secret_of_digits_does_not_break_json() {
        let redactor = Redactor::new(["12345678"]);
        let line = r#"{"n":12345678,"s":"pin 12345678"}"#;
        assert_eq!(
            redactor.redact_json(line),
            r#"{"n":12345678,"s":"pin ***"}"#
        );
    }

    #[test]
    fn without_secrets_nothing_is_copied() {
        assert!(matches!(
            Redactor::default().redact("a"),
            Cow::Borrowed("a")
        ));
        assert!(matches!(
            Redactor::new([""]).redact("a"),
            Cow::Borrowed("a")
        ));
    }

    proptest! {
        #[test]
        fn no_secret_remains(
            secrets in prop::collection::vec("[a-zA-Z0-9\"<&\\\\]{8,20}", 1..4),
            noise in prop::collection::vec("[a-z ]{0,6}", 4),
            order in prop::collection::vec(0usize..4, 0..8),
        ) {
            let redactor = Redactor::new(secrets.iter().map(String::as_str));
            let text: String = order
                .iter()
                .flat_map(|i| [noise[*i].clone(), secrets[i % secrets.len()].clone()])
                .collect();
            let plain = redactor.redact(&text);
            let line = serde_json::json!({"text": text}).to_string();
            let json: Value = serde_json::from_str(&redactor.redact_json(&line)).unwrap();
            let read = json["text"].as_str().unwrap();
            for secret in &secrets {
                prop_assert!(!plain.contains(secret), "{plain}");
                prop_assert!(!read.contains(secret), "{read}");
            }
        }
    }
}
