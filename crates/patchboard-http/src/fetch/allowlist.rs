//! The hosts a caller may ask, held against the host of a URL as its parser wrote it.

use patchboard_core::plugin::HostGrant;
use patchboard_core::port::FetchError;

use super::hosts::PrivateHost;
use super::outgoing::RequestTarget;

/// Read by the parser that reads URLs, so that both spell a host the same way.
#[derive(Debug)]
pub(super) enum HostAllowlist {
    All,
    Only(Vec<PrivateHost>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestHop {
    First,
    Redirect,
}

impl HostAllowlist {
    /// A grant that cannot be read grants nothing.
    pub(super) fn new(only: Option<&[HostGrant]>) -> Self {
        let Some(only) = only else { return Self::All };
        let read = |grant: &HostGrant| {
            let host = without_trailing_dot(&grant.host).into();
            HostGrant { host, port: grant.port }.to_string().parse().ok()
        };
        Self::Only(only.iter().filter_map(read).collect())
    }

    pub(super) fn admit(&self, target: &RequestTarget, hop: RequestHop) -> Result<(), FetchError> {
        let Self::Only(hosts) = self else { return Ok(()) };
        let host = without_trailing_dot(&target.host);
        if hosts.iter().any(|granted| granted.matches(host, target.port)) {
            return Ok(());
        }
        let label = &target.label;
        Err(FetchError::Refused(match hop {
            RequestHop::First => format!("`{label}` is not granted: it needs the grant `http:{label}`"),
            RequestHop::Redirect => format!("the redirect to `{label}` is not followed: that host is not granted"),
        }))
    }
}

/// `example.com.` is `example.com`, said to somebody who might add to it.
fn without_trailing_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests;
