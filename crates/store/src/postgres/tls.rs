//! Encryption of connections, by `sslmode` of the address:
//!
//! - `disable`: never.
//! - `prefer` (the default): if the server offers it. Does not check certificates, as in
//!   PostgreSQL's own programs: refusing unknown ones would only make users choose `disable`.
//! - `require`: always, with a certificate for that host from a trusted authority. Never falls
//!   back.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::PostgresAddress;
use super::error::{format_error_chain, unusable_error};
use crate::StoreError;

/// Builds the connector for this address. `ca_file` is a PEM file of authorities to trust instead
/// of the system's.
pub(super) fn build_tls_connector(
    address: &PostgresAddress,
    ca_file: Option<&Path>,
) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable_error(&address.place, format_error_chain(&error)))?;
    let config = if address.needs_tls() {
        builder.with_root_certificates(load_trusted_roots(address, ca_file)?)
    } else {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificateVerifier(provider)))
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn load_trusted_roots(
    address: &PostgresAddress,
    ca_file: Option<&Path>,
) -> Result<RootCertStore, StoreError> {
    let mut roots = RootCertStore::empty();
    let certificates = match ca_file {
        Some(file) => CertificateDer::pem_file_iter(file)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| {
                unusable_error(&address.place, format!("{}: {error}", file.display()))
            })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(certificates);
    if roots.is_empty() {
        let why = "cannot verify its certificate: no trusted certificate authorities found";
        return Err(unusable_error(&address.place, why.to_owned()));
    }
    Ok(roots)
}

/// Accepts any certificate: for `prefer`, where the alternative is no encryption.
#[derive(Debug)]
struct AnyCertificateVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificateVerifier {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
