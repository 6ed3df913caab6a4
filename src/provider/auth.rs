//! The provider's key.

use crate::net::{Client, SetupError};

/// What authorises requests. Neither shown nor printed: there is no `Debug`, no `Display`.
#[derive(Clone)]
pub struct ApiKey(Kind);

#[derive(Clone)]
enum Kind {
    XApiKey(String),
    Bearer(String),
    None,
}

impl ApiKey {
    /// A classic key, sent as `x-api-key`. Blanks around it (a file's last newline) do not count.
    pub fn x_api_key(key: &str) -> Result<Self, SetupError> {
        Ok(Self(Kind::XApiKey(usable(key)?)))
    }

    /// A token, sent as `authorization: Bearer`. Blanks around it do not count.
    pub fn bearer(token: &str) -> Result<Self, SetupError> {
        Ok(Self(Kind::Bearer(usable(token)?)))
    }

    /// None, for servers that ask for none.
    pub fn none() -> Self {
        Self(Kind::None)
    }

    pub(super) fn header(&self) -> Option<(String, String)> {
        match &self.0 {
            Kind::XApiKey(key) => Some(("x-api-key".to_owned(), key.clone())),
            Kind::Bearer(token) => Some(("authorization".to_owned(), format!("Bearer {token}"))),
            Kind::None => None,
        }
    }

    /// The secret itself, to be masked where a server repeats it.
    pub(super) fn secret(&self) -> Option<&str> {
        match &self.0 {
            Kind::XApiKey(secret) | Kind::Bearer(secret) => Some(secret),
            Kind::None => None,
        }
    }
}

fn usable(key: &str) -> Result<String, SetupError> {
    let key = key.trim();
    if key.is_empty() {
        return Err(SetupError::new("using the API key: it is empty"));
    }
    if !Client::is_header_value(key) {
        return Err(SetupError::new(
            "using the API key: it holds characters that no header can carry, such as a line break",
        ));
    }
    Ok(key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_trimmed_and_an_unusable_one_refused_without_showing_it() {
        let key = ApiKey::x_api_key(" sk-1\n").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(key.header(), Some(("x-api-key".into(), "sk-1".into())));
        let token = ApiKey::bearer("t").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            token.header(),
            Some(("authorization".into(), "Bearer t".into()))
        );
        for bad in ["", "  ", "sk-1\nsk-2"] {
            let error = ApiKey::x_api_key(bad).err().unwrap().to_string();
            assert!(!error.contains("sk-1"), "{error}");
        }
    }
}
