//! The client's WebSocket upgrade request.

use patchboard_core::loopback::is_loopback_host;
use tokio_tungstenite::tungstenite::http::Uri;

use super::finding::{ProtocolFinding, ProtocolStep, quoted};

/// Contents of an upgrade request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) path: String,
    pub(crate) host: Option<String>,
    pub(crate) origin: Option<String>,
    pub(crate) protocols: Vec<String>,
}

/// The mock hub's endpoint and its allowed origins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointConfig {
    /// The path announced to the client's author.
    pub path: String,
    /// Configured origins that are allowed besides loopback.
    pub allowed_origins: Vec<String>,
}

const PATH: &str = "the hub is at the path /, and takes any other";
const HOST: &str = "`Host` names this machine, or the hub answers 403";
const ORIGIN: &str = "`Origin` is absent, of this machine or in hub.allowed_origins, or the hub answers 403";
const PROTOCOL: &str = "the protocol has no subprotocol; `bearer.TOKEN` shows a token";

pub(crate) fn check_handshake(handshake: &Handshake, place: &EndpointConfig) -> Vec<ProtocolFinding> {
    vec![
        check_path(handshake, place),
        check_host(handshake),
        check_origin(handshake, place),
        check_subprotocol(handshake),
    ]
}

fn check_path(handshake: &Handshake, place: &EndpointConfig) -> ProtocolFinding {
    let saw = format!("the path {}", quoted(&handshake.path));
    if handshake.path == place.path {
        return ProtocolFinding::ok(ProtocolStep::Handshake, saw, PATH);
    }
    ProtocolFinding::warn(ProtocolStep::Handshake, saw, PATH, format!("use {} as it was given", quoted(&place.path)))
}

fn check_host(handshake: &Handshake) -> ProtocolFinding {
    let name = |host: &str| host.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let mend = "connect to 127.0.0.1 or localhost";
    match &handshake.host {
        None => ProtocolFinding::wrong(ProtocolStep::Handshake, "no `Host`", HOST, mend),
        Some(host) if name(host).is_some_and(|name| is_loopback_host(&name)) => {
            ProtocolFinding::ok(ProtocolStep::Handshake, format!("the host {}", quoted(host)), HOST)
        }
        Some(host) => ProtocolFinding::wrong(ProtocolStep::Handshake, format!("the host {}", quoted(host)), HOST, mend),
    }
}

fn check_origin(handshake: &Handshake, place: &EndpointConfig) -> ProtocolFinding {
    let Some(origin) = &handshake.origin else {
        return ProtocolFinding::ok(ProtocolStep::Handshake, "no Origin", ORIGIN);
    };
    let saw = format!("the Origin {}", quoted(origin));
    let is_local = origin.parse::<Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(is_loopback_host)
    });
    if is_local || place.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
        return ProtocolFinding::ok(ProtocolStep::Handshake, saw, ORIGIN);
    }
    let mend = "add it to hub.allowed_origins in patchboard.toml, there and wherever the app is used";
    ProtocolFinding::wrong(ProtocolStep::Handshake, saw, ORIGIN, mend)
}

fn check_subprotocol(handshake: &Handshake) -> ProtocolFinding {
    let Some(first) = handshake.protocols.first() else {
        return ProtocolFinding::ok(ProtocolStep::Handshake, "no subprotocol", PROTOCOL);
    };
    if handshake.protocols.iter().any(|one| one.starts_with("bearer.")) {
        return ProtocolFinding::ok(ProtocolStep::Handshake, "a token as subprotocol", PROTOCOL);
    }
    let mend = "offer none: other hubs may refuse what they do not know";
    ProtocolFinding::warn(ProtocolStep::Handshake, format!("the subprotocol {}", quoted(first)), PROTOCOL, mend)
}

#[cfg(test)]
mod tests;
