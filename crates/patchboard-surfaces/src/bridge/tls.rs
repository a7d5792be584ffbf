//! Certificates: the server's own and, if clients need certificates, the authority that issues them.

use std::sync::Arc;

use patchboard_core::reloadable::Reloadable;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, crypto};
use tokio_rustls::TlsAcceptor;

/// Contents of PEM files.
#[derive(Clone, Copy)]
pub struct TlsFiles<'a> {
    pub certificate: &'a [u8],
    pub key: &'a [u8],
    /// If set, every client needs a certificate of this authority.
    pub client_authority: Option<&'a [u8]>,
}

impl std::fmt::Debug for TlsFiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsFiles").finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate cannot be read")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    #[error("the private key cannot be read")]
    Key(#[source] rustls::pki_types::pem::Error),
    #[error("the authority of clients cannot be read")]
    Authority(#[source] rustls::pki_types::pem::Error),
    #[error("the authority of clients cannot be used")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
    #[error("certificate and key cannot be used")]
    Unusable(#[source] rustls::Error),
    #[error("whether clients need certificates changes only with a restart")]
    ClientAuthChanged,
}

/// Cheap to clone; clones share the current configuration.
#[derive(Clone)]
pub struct ReloadableTls {
    config: Arc<Reloadable<ServerConfig>>,
    /// If set, every connection past the handshake has presented a certificate.
    pub(super) requires_client_certificate: bool,
}

impl std::fmt::Debug for ReloadableTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReloadableTls")
            .field("knows_clients", &self.requires_client_certificate)
            .finish_non_exhaustive()
    }
}

impl ReloadableTls {
    pub fn new(files: TlsFiles<'_>) -> Result<Self, TlsError> {
        let knows_clients = files.client_authority.is_some();
        Ok(Self {
            config: Arc::new(Reloadable::new(server_config(files)?)),
            requires_client_certificate: knows_clients,
        })
    }

    /// Applies to new connections. Whether clients need certificates cannot change, so that a reload cannot remove the
    /// requirement.
    pub fn replace(&self, other: &Self) -> Result<(), TlsError> {
        if self.requires_client_certificate != other.requires_client_certificate {
            return Err(TlsError::ClientAuthChanged);
        }
        self.config.set(other.config.get());
        Ok(())
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.config.get().into()
    }
}

fn server_config(files: TlsFiles<'_>) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(crypto::ring::default_provider());
    let chain = CertificateDer::pem_slice_iter(files.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(files.key).map_err(TlsError::Key)?;
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unusable)?;
    let builder = match files.client_authority {
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(authority) {
                roots.add(root.map_err(TlsError::Authority)?).map_err(TlsError::Unusable)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(TlsError::Verifier)?)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
