//! One conversation's connections to one URL.

use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    ConnectProxyConnector, ConnectionDetails, Connector, RustlsConnector, TcpConnector, Transport,
};
use ureq::{Agent, BodyReader, Proxy, SendBody};

use super::certificates::roots;
use super::{Environment, Fault, SetupError};

/// How long name lookup and connecting may take, each; a cancelled client waits no longer than this.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections idle for longer are not used again; tool calls lie between two requests.
const MAX_IDLE_AGE: Duration = Duration::from_secs(90);
/// Small enough that hundreds of streams at once are cheap.
const INPUT_BUFFER: usize = 32 * 1024;
/// Histories of megabytes are sent every turn: fewer, larger writes.
const OUTPUT_BUFFER: usize = 64 * 1024;
/// How long the end of an answer is waited for when its content is already whole.
const FINISH_TIMEOUT: Duration = Duration::from_millis(200);

/// What all clients of a run share: proxy rules, roots of trust, TLS sessions. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    environment: Environment,
    /// Read for the first `https` client, then kept.
    roots: Mutex<Option<RootCerts>>,
    tls: Arc<RustlsConnector>,
}

impl Network {
    /// Nothing is read or opened yet.
    pub fn new(environment: Environment) -> Self {
        Self(Arc::new(Shared {
            environment,
            roots: Mutex::new(None),
            tls: Arc::default(),
        }))
    }

    /// A client for `url`. No byte for `idle_timeout` ends a request; there is no other limit.
    pub fn client(&self, url: &str, idle_timeout: Duration) -> Result<Client, SetupError> {
        let bad = |cause: &str| SetupError(format!("using {}: {cause}", shown(url)));
        let uri: Uri = url.parse().map_err(|_| bad("this is no URL"))?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad("a URL begins with https:// or http://")),
        };
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| bad("there is no host in it"))?;
        let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
        let proxy = self.0.environment.proxy(is_https, host, port);
        let proxy = proxy
            .map(Proxy::new)
            .transpose()
            .map_err(|error| bad(&format!("the proxy's URL cannot be used: {error}")))?;
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(proxy)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            // A lookup with a limit runs on a thread of its own, which an address does not need.
            .timeout_resolve((!is_address).then_some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(idle_timeout))
            .timeout_per_write(Some(idle_timeout))
            .max_idle_age(MAX_IDLE_AGE)
            .input_buffer_size(INPUT_BUFFER)
            .output_buffer_size(OUTPUT_BUFFER)
            // Compressed event streams are held back by some gateways.
            .accept_encoding("identity")
            .user_agent(concat!("lightsout/", env!("CARGO_PKG_VERSION")));
        if is_https {
            let roots = self.roots()?;
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let connector =
            ().chain(ConnectProxyConnector::default())
                .chain(TcpConnector::default())
                .chain(SharedTls(Arc::clone(&self.0.tls)));
        let agent = Agent::with_parts(config.build(), connector, DefaultResolver::default());
        Ok(Client {
            agent,
            uri,
            shown: shown(url),
        })
    }

    fn roots(&self) -> Result<RootCerts, SetupError> {
        let mut kept = self.0.roots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept {
            return Ok(kept.clone());
        }
        let found = roots(&self.0.environment)?;
        *kept = Some(found.clone());
        Ok(found)
    }
}

/// One TLS configuration for all clients: parsed roots take 200 kB, and sessions are resumed.
#[derive(Debug)]
struct SharedTls(Arc<RustlsConnector>);

impl<In: Transport> Connector<In> for SharedTls {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        self.0.connect(details, chained)
    }
}

/// `url` without a user name and password, for messages.
fn shown(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.to_owned(),
    }
}

/// The connections of one conversation to one URL. Shared between threads; one request at a time.
pub struct Client {
    agent: Agent,
    uri: Uri,
    shown: String,
}

/// An answer whose body is yet to be read.
pub struct Response {
    /// The HTTP status, whatever it is.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Body,
}

impl Client {
    /// The URL without secrets, for messages.
    pub fn url(&self) -> &str {
        &self.shown
    }

    /// Whether `value` can be sent as a header's value.
    pub fn is_header_value(value: &str) -> bool {
        ureq::http::HeaderValue::from_str(value).is_ok()
    }

    /// Whether `name: value` can be sent as a header.
    pub fn is_header(name: &str, value: &str) -> bool {
        ureq::http::HeaderName::try_from(name).is_ok() && Self::is_header_value(value)
    }

    /// Sends `body`, the slices one behind the other, and waits for the answer's headers.
    pub fn post(&self, headers: &[(String, String)], body: &[&str]) -> Result<Response, Fault> {
        let mut reader = Slices {
            rest: body,
            begun: false,
            offset: 0,
        };
        let length: usize = body.iter().map(|slice| slice.len()).sum();
        let mut request = ureq::http::Request::post(self.uri.clone())
            // Without it the body would go out in chunks.
            .header("content-length", length);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request
            .body(SendBody::from_reader(&mut reader))
            .map_err(|error| Fault::of(ureq::Error::Http(error), false))?;
        let result = self.agent.run(request);
        let response = result.map_err(|error| Fault::of(error, reader.begun))?;
        let headers = response.headers().iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        });
        Ok(Response {
            status: response.status().as_u16(),
            headers: headers.collect(),
            body: Body(response.into_body().into_reader()),
        })
    }

    /// Closes all connections: whoever waits on one gets a fault at once (while still connecting,
    /// after at most 10 s), and so does every later request. A body of unknown length may seem to
    /// end well, so who shuts down must remember it.
    pub fn shutdown(&self) {
        self.agent.clone().shutdown();
    }
}

/// The body of an answer. Reading blocks; its errors hold a [`Fault`].
pub struct Body(BodyReader<'static>);

impl Read for Body {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ => io::Error::other(Fault::of(ureq::Error::from(error), true)),
        })
    }
}

impl Body {
    /// Reads on to the end of a body whose content is whole, so that the connection can be used again.
    ///
    /// A server that never ends it costs 200 ms and the connection, not the answer. The reader cannot
    /// be told to hurry, so it waits on a thread of its own.
    pub fn finish(mut self) {
        let (done, waiting) = std::sync::mpsc::channel();
        let drain = move || {
            let mut rest = [0; 512];
            // Bounded, for a server might never stop.
            for _ in 0..64 {
                if !matches!(self.0.read(&mut rest), Ok(count) if count > 0) {
                    break;
                }
            }
            // Nobody may be waiting any more.
            let _ = done.send(());
        };
        let thread = std::thread::Builder::new().stack_size(128 * 1024);
        if thread.spawn(drain).is_ok() {
            let _ = waiting.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

/// Reads slices one behind the other.
struct Slices<'a> {
    rest: &'a [&'a str],
    /// Bytes of the first of `rest` that were read.
    offset: usize,
    /// Whether anybody has read.
    begun: bool,
}

impl Read for Slices<'_> {
    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<usize> {
        self.begun = true;
        let mut total = 0;
        while let Some((first, rest)) = self.rest.split_first() {
            let bytes = &first.as_bytes()[self.offset..];
            let count = bytes.len().min(buffer.len());
            buffer[..count].copy_from_slice(&bytes[..count]);
            buffer = &mut buffer[count..];
            total += count;
            if count < bytes.len() {
                self.offset += count;
                break;
            }
            self.rest = rest;
            self.offset = 0;
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_read_as_one_whatever_the_buffer() {
        let parts = ["", "abc", "", "de", "fghijklmno", ""];
        for size in 1..20 {
            let mut reader = Slices {
                rest: &parts,
                offset: 0,
                begun: false,
            };
            let mut whole = Vec::new();
            let mut buffer = vec![0; size];
            loop {
                let count = reader.read(&mut buffer).unwrap();
                if count == 0 {
                    break;
                }
                whole.extend_from_slice(&buffer[..count]);
            }
            assert_eq!(whole, b"abcdefghijklmno", "buffer of {size}");
        }
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        assert_eq!(shown("http://u:p@h:1/x"), "http://h:1/x");
        assert_eq!(shown("http://h:1/x@y"), "http://h:1/x@y");
    }

    #[test]
    fn a_url_that_cannot_be_used_is_refused_before_anything_is_sent() {
        let network = Network::new(Environment::default());
        for (url, cause) in [
            (
                "ftp://h/",
                "using ftp://h/: a URL begins with https:// or http://",
            ),
            ("http:///x", "using http:///x: this is no URL"),
            ("not a url", "using not a url: this is no URL"),
        ] {
            let error = network.client(url, Duration::from_secs(1)).err().unwrap();
            assert_eq!(error.to_string(), cause);
        }
    }
}
