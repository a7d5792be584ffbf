//! The hosts granted to a caller, compared with the URL's normalised host.

use patchboard_core::plugin::HostGrant;
use patchboard_core::port::FetchError;

use super::hosts::PrivateHost;
use super::outgoing::RequestTarget;

/// Parsed by the URL parser, so that both sides have the same normal form.
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
    /// A grant that cannot be parsed grants nothing.
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

/// `example.com.` is `example.com` without the search domains of the resolver.
fn without_trailing_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

#[cfg(test)]
mod tests;
