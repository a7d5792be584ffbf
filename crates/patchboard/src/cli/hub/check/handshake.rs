//! How a client asks to be let in.

use tokio_tungstenite::tungstenite::http::Uri;

use super::verdict::{Finding, Step, quoted};
use crate::client::hub::is_loopback;

/// What the request for a connection says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Handshake {
    pub(super) path: String,
    pub(super) host: Option<String>,
    pub(super) origin: Option<String>,
    pub(super) protocols: Vec<String>,
}

/// Where the stand-in is to be found, and for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The path the author was told.
    pub(super) path: String,
    /// Origins the configuration lets in besides loopback.
    pub(super) allowed_origins: Vec<String>,
}

const PATH: &str = "the hub is at the path /, and takes any other";
const HOST: &str = "`Host` names this machine, or the hub answers 403";
const ORIGIN: &str = "`Origin` is absent, of this machine or in hub.allowed_origins, or the hub answers 403";
const PROTOCOL: &str = "the protocol has no subprotocol; `bearer.TOKEN` shows a token";

pub(super) fn judge(handshake: &Handshake, place: &Place) -> Vec<Finding> {
    vec![path(handshake, place), host(handshake), origin(handshake, place), protocol(handshake)]
}

fn path(handshake: &Handshake, place: &Place) -> Finding {
    let saw = format!("the path {}", quoted(&handshake.path));
    if handshake.path == place.path {
        return Finding::ok(Step::Handshake, saw, PATH);
    }
    Finding::warn(Step::Handshake, saw, PATH, format!("use {} as it was given", quoted(&place.path)))
}

fn host(handshake: &Handshake) -> Finding {
    let name = |host: &str| host.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned));
    let mend = "connect to 127.0.0.1 or localhost";
    match &handshake.host {
        None => Finding::wrong(Step::Handshake, "no `Host`", HOST, mend),
        Some(host) if name(host).is_some_and(|name| is_loopback(&name)) => {
            Finding::ok(Step::Handshake, format!("the host {}", quoted(host)), HOST)
        }
        Some(host) => Finding::wrong(Step::Handshake, format!("the host {}", quoted(host)), HOST, mend),
    }
}

fn origin(handshake: &Handshake, place: &Place) -> Finding {
    let Some(origin) = &handshake.origin else {
        return Finding::ok(Step::Handshake, "no Origin", ORIGIN);
    };
    let saw = format!("the Origin {}", quoted(origin));
    let is_local = origin
        .parse::<Uri>()
        .is_ok_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(is_loopback));
    if is_local || place.allowed_origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin)) {
        return Finding::ok(Step::Handshake, saw, ORIGIN);
    }
    let mend = "add it to hub.allowed_origins in patchboard.toml, there and wherever the app is used";
    Finding::wrong(Step::Handshake, saw, ORIGIN, mend)
}

fn protocol(handshake: &Handshake) -> Finding {
    let Some(first) = handshake.protocols.first() else {
        return Finding::ok(Step::Handshake, "no subprotocol", PROTOCOL);
    };
    if handshake.protocols.iter().any(|one| one.starts_with("bearer.")) {
        return Finding::ok(Step::Handshake, "a token as subprotocol", PROTOCOL);
    }
    let mend = "offer none: other hubs may refuse what they do not know";
    Finding::warn(Step::Handshake, format!("the subprotocol {}", quoted(first)), PROTOCOL, mend)
}

#[cfg(test)]
mod tests;
