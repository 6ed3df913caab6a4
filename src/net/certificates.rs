//! Roots of trust: read once, and only when something is asked over https.

use std::path::Path;

use rustls_native_certs::CertificateResult;
use ureq::tls::{Certificate, PemItem, RootCerts, parse_pem};

use super::{Environment, SetupError};

/// The system's roots, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, and those of
/// `NODE_EXTRA_CA_CERTS`. A machine without any (an image made from scratch) gets the ones compiled
/// in. A file that was named and cannot be used is an error, for who named it relies on it.
pub(super) fn roots(environment: &Environment) -> Result<RootCerts, SetupError> {
    let named = environment.ssl_cert_file.is_some() || environment.ssl_cert_dir.is_some();
    let found = if named {
        rustls_native_certs::load_certs_from_paths(
            environment.ssl_cert_file.as_deref(),
            environment.ssl_cert_dir.as_deref(),
        )
    } else {
        rustls_native_certs::load_native_certs()
    };
    if named && found.certs.is_empty() {
        return Err(none_found(&found));
    }
    let mut roots: Vec<Certificate<'static>> = found
        .certs
        .iter()
        .map(|der| Certificate::from_der(der).to_owned())
        .collect();
    let Some(path) = &environment.extra_ca_certs else {
        return Ok(if roots.is_empty() {
            RootCerts::WebPki
        } else {
            RootCerts::from(roots.into_iter())
        });
    };
    roots.extend(extra(path)?);
    Ok(RootCerts::from(roots.into_iter()))
}

fn none_found(found: &CertificateResult) -> SetupError {
    let cause = found
        .errors
        .first()
        .map_or_else(|| "no certificate in it".to_owned(), ToString::to_string);
    SetupError(format!(
        "reading the certificates that SSL_CERT_FILE and SSL_CERT_DIR name: {cause}"
    ))
}

fn extra(path: &Path) -> Result<Vec<Certificate<'static>>, SetupError> {
    let what = || {
        format!(
            "reading the certificates of NODE_EXTRA_CA_CERTS from {}",
            path.display()
        )
    };
    let pem = std::fs::read(path).map_err(|error| SetupError(format!("{}: {error}", what())))?;
    let certificates = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
            Ok(_) => None,
            Err(error) => Some(Err(SetupError(format!("{}: {error}", what())))),
        })
        .collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(SetupError(format!("{}: no certificate in it", what())));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_that_cannot_be_used_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        std::fs::write(&empty, "nothing\n").unwrap();
        let missing = directory.path().join("missing.pem");
        for path in [&empty, &missing] {
            let named = Environment {
                ssl_cert_file: Some(path.clone()),
                ..Environment::default()
            };
            let extra = Environment {
                extra_ca_certs: Some(path.clone()),
                ..Environment::default()
            };
            assert!(roots(&named).unwrap_err().0.contains("SSL_CERT_FILE"));
            assert!(roots(&extra).unwrap_err().0.contains("NODE_EXTRA_CA_CERTS"));
        }
    }
}
