//! The environment, read once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::net;
use crate::provider::{ApiKey, Endpoint};
use crate::transcript::Redactor;

/// Where the Messages API is unless `ANTHROPIC_BASE_URL` says otherwise.
const BASE_URL: &str = "https://api.anthropic.com";

/// Every variable of the process as it was at the start.
pub(super) struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// How the Messages API is reached, and by whose leave.
pub(super) struct Access {
    pub(super) endpoint: Endpoint,
    /// Which variable holds the key.
    pub(super) key_source: &'static str,
}

impl Environment {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place where the environment is read"
    )]
    pub(super) fn read() -> Self {
        Self {
            variables: std::env::vars_os().collect(),
        }
    }

    /// A variable; `None` when it is not set, empty, or not UTF-8.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(std::ffi::OsStr::new(name))?.to_str()?;
        (!value.is_empty()).then_some(value)
    }

    /// All of it, for the part that children get.
    pub(super) fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// Whether a CI system says that it is one.
    pub(super) fn is_ci(&self) -> bool {
        self.get("CI")
            .is_some_and(|value| value != "false" && value != "0")
    }

    /// Masks the provider's key and whatever looks secret.
    pub(super) fn redactor(&self) -> Redactor {
        let utf8 = |(name, value): (&'_ OsString, &'_ OsString)| -> Option<(String, String)> {
            Some((name.to_str()?.to_owned(), value.to_str()?.to_owned()))
        };
        let variables: Vec<(String, String)> = self.variables.iter().filter_map(utf8).collect();
        Redactor::from_environment(
            variables
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
            self.key().map(|(key, _)| key.trim()),
        )
    }

    fn key(&self) -> Option<(&str, &'static str)> {
        ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]
            .into_iter()
            .find_map(|name| self.get(name).map(|key| (key, name)))
    }

    /// The Messages API with its key; an error that says what to set where the key is missing.
    pub(super) fn access(&self) -> anyhow::Result<Access> {
        let (key, key_source) = self.key().context(
            "no key for the model: set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN for a gateway), or run on a \
             cassette with --replay",
        )?;
        let key = if key_source == "ANTHROPIC_API_KEY" {
            ApiKey::x_api_key(key)
        } else {
            ApiKey::bearer(key)
        };
        let network = net::Network::new(net::Environment::read(|name| {
            self.get(name).map(str::to_owned)
        }));
        let base_url = self.get("ANTHROPIC_BASE_URL").unwrap_or(BASE_URL);
        check_base_url(base_url, &network)?;
        let endpoint = Endpoint {
            base_url: base_url.to_owned(),
            key: key.with_context(|| format!("reading {key_source}"))?,
            headers: custom_headers(self.get("ANTHROPIC_CUSTOM_HEADERS"))?,
            network,
        };
        Ok(Access {
            endpoint,
            key_source,
        })
    }
}

/// Finds before anything is sent what would end every prompt.
fn check_base_url(base_url: &str, network: &net::Network) -> anyhow::Result<()> {
    if base_url.trim_end_matches('/').ends_with("/v1") {
        bail!(
            "ANTHROPIC_BASE_URL must not end in /v1, for /v1/messages is appended to it: {base_url}"
        );
    }
    let any_limit = Duration::from_secs(1);
    network.client(base_url, any_limit).with_context(|| {
        format!("ANTHROPIC_BASE_URL is `{base_url}`, and must be like https://api.anthropic.com")
    })?;
    Ok(())
}

/// One `Name: value` a line.
fn custom_headers(text: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let lines = text
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let (name, value) = line
                .split_once(':')
                .context("ANTHROPIC_CUSTOM_HEADERS must hold one `Name: value` a line")?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect()
}
