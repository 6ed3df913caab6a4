//! Proxies and certificate files, as the usual variables name them.

use std::net::IpAddr;
use std::path::PathBuf;

/// What the environment says of the network. It may hold proxy passwords: no `Debug`.
#[derive(Clone, Default)]
pub struct Environment {
    /// `http_proxy`, `HTTP_PROXY`: for `http://` alone.
    pub http_proxy: Option<String>,
    /// `https_proxy`, `HTTPS_PROXY`: for `https://` alone.
    pub https_proxy: Option<String>,
    /// `all_proxy`, `ALL_PROXY`: where the scheme's own is not set.
    pub all_proxy: Option<String>,
    /// `no_proxy`, `NO_PROXY`: hosts that are reached directly.
    pub no_proxy: Option<String>,
    /// `SSL_CERT_FILE`: replaces the system's roots of trust.
    pub ssl_cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`: the same, as a directory.
    pub ssl_cert_dir: Option<PathBuf>,
    /// `NODE_EXTRA_CA_CERTS`: added to the roots, for people who set it for other agents.
    pub extra_ca_certs: Option<PathBuf>,
}

impl Environment {
    /// Reads the variables named above through `variable`; lower case wins, empty means not set.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let either = |name: &str| set(name).or_else(|| set(&name.to_uppercase()));
        Self {
            http_proxy: either("http_proxy"),
            https_proxy: either("https_proxy"),
            all_proxy: either("all_proxy"),
            no_proxy: either("no_proxy"),
            ssl_cert_file: set("SSL_CERT_FILE").map(PathBuf::from),
            ssl_cert_dir: set("SSL_CERT_DIR").map(PathBuf::from),
            extra_ca_certs: set("NODE_EXTRA_CA_CERTS").map(PathBuf::from),
        }
    }

    /// The proxy for requests to `host`; `None` to go there directly. Loopback never has one.
    pub(super) fn proxy(&self, is_https: bool, host: &str, port: u16) -> Option<&str> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if is_loopback(host) || self.bypasses(host, port) {
            return None;
        }
        let own = if is_https {
            &self.https_proxy
        } else {
            &self.http_proxy
        };
        own.as_deref().or(self.all_proxy.as_deref()).map(str::trim)
    }

    fn bypasses(&self, host: &str, port: u16) -> bool {
        let host = host.to_ascii_lowercase();
        self.no_proxy
            .iter()
            .flat_map(|list| list.split([',', ' ', '\t']))
            .map(str::trim)
            .any(|entry| entry_matches(&entry.to_ascii_lowercase(), &host, port))
    }
}

/// One entry of `NO_PROXY`: `*`, a name (which means its subdomains too), `.name`, `*.name`, an
/// address, a block of addresses (`10.0.0.0/8`), any but the last with `:port`.
fn entry_matches(entry: &str, host: &str, port: u16) -> bool {
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    if let (Ok(address), Some((network, bits))) = (host.parse::<IpAddr>(), entry.split_once('/')) {
        return in_block(address, network, bits);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        let bare = entry.trim_start_matches('[').trim_end_matches(']');
        if bare.parse() == Ok(address) {
            return true;
        }
    }
    let name = match entry.rsplit_once(':') {
        Some((name, digits)) if !name.contains(':') || name.ends_with(']') => {
            if digits.parse() != Ok(port) {
                return false;
            }
            name
        }
        _ => entry,
    };
    let name = name
        .trim_start_matches('*')
        .trim_start_matches(['.', '['])
        .trim_end_matches(']');
    host == name
        || host
            .strip_suffix(name)
            .is_some_and(|rest| !name.is_empty() && rest.ends_with('.'))
}

fn in_block(address: IpAddr, network: &str, bits: &str) -> bool {
    let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u32>()) else {
        return false;
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) if bits <= 32 => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            a.to_bits() & mask == n.to_bits() & mask
        }
        (IpAddr::V6(a), IpAddr::V6(n)) if bits <= 128 => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            a.to_bits() & mask == n.to_bits() & mask
        }
        _ => false,
    }
}

/// Whether `host` (no brackets) is this machine by its name or address.
fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        Environment::read(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme() {
        let both = environment(&[("HTTP_PROXY", "http://a"), ("https_proxy", "http://b")]);
        assert_eq!(both.proxy(false, "api.example", 80), Some("http://a"));
        assert_eq!(both.proxy(true, "api.example", 443), Some("http://b"));
        let only_http = environment(&[("http_proxy", "http://a"), ("HTTP_PROXY", "http://b")]);
        assert_eq!(only_http.proxy(false, "api.example", 80), Some("http://a"));
        assert_eq!(only_http.proxy(true, "api.example", 443), None);
        let all = environment(&[("ALL_PROXY", "http://c"), ("HTTPS_PROXY", " ")]);
        assert_eq!(all.proxy(true, "api.example", 443), Some("http://c"));
    }

    #[test]
    fn loopback_has_no_proxy() {
        let all = environment(&[("ALL_PROXY", "http://c")]);
        for host in [
            "localhost",
            "127.0.0.1",
            "127.8.0.1",
            "[::1]",
            "a.localhost",
        ] {
            assert_eq!(all.proxy(false, host, 80), None, "{host}");
        }
        assert_eq!(all.proxy(false, "localhost.example", 80), Some("http://c"));
    }

    #[test]
    fn no_proxy_entries_are_trimmed_and_mean_subdomains() {
        for (list, host, direct) in [
            ("a.example, b.example", "b.example", true),
            ("example", "api.example", true),
            (".example", "example", true),
            ("*.example", "api.example", true),
            ("example", "myexample", false),
            ("EXAMPLE", "Api.Example", true),
            ("*", "anything", true),
            ("example:8443", "example", true),
            ("example:443", "example", false),
            ("10.0.0.0/8", "10.2.3.4", true),
            ("10.0.0.0/8", "11.2.3.4", false),
            ("fd00::/8", "fd12::1", true),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("[2001:db8::1]", "2001:db8::1", true),
            ("", "example", false),
            (",,", "example", false),
        ] {
            let environment = environment(&[("all_proxy", "http://c"), ("no_proxy", list)]);
            assert_eq!(
                environment.proxy(true, host, 8443).is_none(),
                direct,
                "{list:?} and {host:?}"
            );
        }
    }
}
