//! The transport that is a network.

use std::io::{self, Read};

use crate::message::{Billing, Failure, Usage};
use crate::net::{Body, Client};

use super::failure;
use super::transport::{Transport, WireBody, WireRequest, WireResponse};

pub(super) struct HttpTransport {
    client: Client,
    headers: Vec<(String, String)>,
    what: String,
}

impl HttpTransport {
    pub(super) fn new(client: Client, headers: Vec<(String, String)>) -> Self {
        let what = format!("POST {}", client.url());
        Self {
            client,
            headers,
            what,
        }
    }
}

impl Transport for HttpTransport {
    fn what(&self) -> &str {
        &self.what
    }

    fn open(&self, request: &WireRequest<'_>) -> Result<WireResponse, Failure> {
        let response = self.client.post(&self.headers, request.body);
        let response = response.map_err(|fault| Failure {
            billing: if fault.sent {
                Billing::Unknown(Usage::default())
            } else {
                Billing::Nothing
            },
            ..failure::of_fault(&self.what, &fault)
        })?;
        Ok(WireResponse {
            status: response.status,
            headers: response.headers,
            body: Box::new(HttpBody(response.body)),
        })
    }

    fn cancel(&self) {
        self.client.shutdown();
    }
}

struct HttpBody(Body);

impl Read for HttpBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl WireBody for HttpBody {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.0.finish();
        Ok(())
    }
}
