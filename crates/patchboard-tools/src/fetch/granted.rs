//! The hosts a caller may ask, held against the host of a URL as its parser wrote it.

use patchboard_core::plugin::HostGrant;
use patchboard_core::port::FetchError;

use super::hosts::PrivateHost;
use super::outgoing::Target;

/// Read by the parser that reads URLs, so that both spell a host the same way.
#[derive(Debug)]
pub(super) enum Granted {
    All,
    Only(Vec<PrivateHost>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hop {
    First,
    Redirect,
}

impl Granted {
    /// A grant that cannot be read grants nothing.
    pub(super) fn new(only: Option<&[HostGrant]>) -> Self {
        let Some(only) = only else { return Self::All };
        let read = |grant: &HostGrant| {
            let host = without_final_point(&grant.host).into();
            HostGrant { host, port: grant.port }.to_string().parse().ok()
        };
        Self::Only(only.iter().filter_map(read).collect())
    }

    pub(super) fn admit(&self, target: &Target, hop: Hop) -> Result<(), FetchError> {
        let Self::Only(hosts) = self else { return Ok(()) };
        let host = without_final_point(&target.host);
        if hosts.iter().any(|granted| granted.names(host, target.port)) {
            return Ok(());
        }
        let label = &target.label;
        Err(FetchError::Refused(match hop {
            Hop::First => format!("`{label}` is not granted: it needs the grant `http:{label}`"),
            Hop::Redirect => format!("the redirect to `{label}` is not followed: that host is not granted"),
        }))
    }
}

/// `example.com.` is `example.com`, said to somebody who might add to it.
fn without_final_point(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests;
