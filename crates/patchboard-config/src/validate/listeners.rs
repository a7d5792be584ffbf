//! Exposure of listeners, and their protection.

use std::net::SocketAddr;

use crate::url;
use crate::{
    Config,
    key_path::KeyPath,
    problem::{ConfigProblem, ProblemCode},
    types::ListenAddress,
};

pub(crate) fn validate(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let gateway_token = config.gateway.token.is_some();
    let runs_token = gateway_token || config.runs.token.is_some();
    problems.extend(check_web_listener("gateway", config.gateway.listen, config.gateway.insecure, gateway_token));
    problems.extend(check_web_listener("runs", config.runs.listen, config.runs.insecure, runs_token));
    check_bridge(config, problems);
    check_socket(config, problems);
    if config.hub.listen.is_off_loopback() {
        problems.push(
            ConfigProblem::error(
                ProblemCode::HubOffLoopback,
                KeyPath::dotted("hub.listen"),
                format!("{} is not loopback, and the hub serves this machine only", config.hub.listen),
            )
            .with_hint("use 127.0.0.1, or off"),
        );
    }
    check_overlaps(config, problems);
    check_origins_and_hosts(config, problems);
}

fn check_web_listener(section: &str, listen: ListenAddress, insecure: bool, token: bool) -> Vec<ConfigProblem> {
    let mut problems = Vec::new();
    if !listen.is_off_loopback() {
        return problems;
    }
    let path = KeyPath::dotted(section);
    if !token {
        problems.push(
            ConfigProblem::error(
                ProblemCode::TokenNeeded,
                path.key("token"),
                format!("is required, as {section} listens on {listen}, which is not loopback"),
            )
            .with_hint("set token = \"env:PATCHBOARD_TOKEN\""),
        );
    }
    if !insecure {
        problems.push(plaintext_problem(&path, listen, "keep 127.0.0.1 behind a TLS proxy"));
    }
    problems
}

fn plaintext_problem(section: &KeyPath, listen: ListenAddress, instead: &str) -> ConfigProblem {
    ConfigProblem::error(
        ProblemCode::PlaintextOffLoopback,
        section.key("listen"),
        format!("{listen} is not loopback, and traffic would not be encrypted"),
    )
    .with_hint(format!("{instead}, or set {section}.insecure = true if the link is private"))
}

fn check_bridge(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let bridge = &config.bridge;
    if !bridge.listen.is_off_loopback() {
        return;
    }
    let path = KeyPath::dotted("bridge");
    let knows_clients = bridge.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if bridge.token.is_none() && !knows_clients {
        problems.push(
            ConfigProblem::error(
                ProblemCode::TokenNeeded,
                path.key("token"),
                format!("is required, as bridge listens on {}, which is not loopback", bridge.listen),
            )
            .with_hint("set token = \"env:PATCHBOARD_BRIDGE_TOKEN\", or tls.client_ca"),
        );
    }
    if bridge.tls.is_none() && !bridge.insecure {
        problems.push(plaintext_problem(&path, bridge.listen, "set bridge.tls"));
    }
}

/// Longest socket address that the system accepts, without the terminating byte.
const MAX_SOCKET_PATH: usize = 107;

fn check_socket(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let Some(path) = &config.bridge.unix_socket else { return };
    let length = path.as_os_str().len();
    if length > MAX_SOCKET_PATH {
        let message =
            format!("`{}` has {length} bytes; the path of a socket has at most {MAX_SOCKET_PATH}", path.display());
        problems.push(
            ConfigProblem::error(ProblemCode::BadAddress, KeyPath::dotted("bridge.unix_socket"), message)
                .with_hint("name a file in a folder nearer to the root, such as /run/user/1000/patchboard.sock"),
        );
    }
}

/// Two surfaces cannot share an address.
fn check_overlaps(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let surfaces = [
        ("gateway", config.gateway.listen),
        ("runs", config.runs.listen),
        ("hub", config.hub.listen),
        ("bridge", config.bridge.listen),
    ];
    for (position, (section, listen)) in surfaces.iter().enumerate() {
        let earlier = surfaces.iter().take(position).find(|(_, other)| overlap(*listen, *other));
        if let Some((other, _)) = earlier {
            problems.push(
                ConfigProblem::error(
                    ProblemCode::Conflict,
                    KeyPath::dotted(section).key("listen"),
                    format!("{listen} is where {other} listens"),
                )
                .with_hint("choose another port, :0 for a free one, or off"),
            );
        }
    }
}

fn overlap(one: ListenAddress, two: ListenAddress) -> bool {
    let (Some(one), Some(two)) = (one.address(), two.address()) else {
        return false;
    };
    let everywhere = |address: SocketAddr| address.ip().is_unspecified();
    one.port() == two.port() && one.port() != 0 && (one.ip() == two.ip() || everywhere(one) || everywhere(two))
}

fn check_origins_and_hosts(config: &Config, problems: &mut Vec<ConfigProblem>) {
    let origins = [
        ("gateway", &config.gateway.allowed_origins),
        ("runs", &config.runs.allowed_origins),
        ("hub", &config.hub.allowed_origins),
    ];
    for (section, list) in origins {
        check_each(section, "allowed_origins", list, url::invalid_origin, problems);
    }
    let hosts = [
        ("gateway", "allowed_hosts", &config.gateway.allowed_hosts),
        ("runs", "allowed_hosts", &config.runs.allowed_hosts),
        ("bridge", "allowed_hosts", &config.bridge.allowed_hosts),
        ("tools", "fetch_private_hosts", &config.tools.fetch_private_hosts),
    ];
    for (section, key, list) in hosts {
        check_each(section, key, list, url::invalid_host, problems);
    }
}

fn check_each(
    section: &str,
    key: &str,
    list: &[String],
    complaint: fn(&str) -> Option<url::InvalidUrl>,
    problems: &mut Vec<ConfigProblem>,
) {
    for (index, text) in list.iter().enumerate() {
        if let Some(complaint) = complaint(text) {
            let path = KeyPath::dotted(section).key(key).index(index);
            problems.push(ConfigProblem::error(ProblemCode::BadUrl, path, complaint.message).with_hint(complaint.hint));
        }
    }
}
