//! Compares the running server of the data directory with what would start now.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use patchboard_config::types::ListenAddress;
use patchboard_config::{Config, LoadedConfig};
use serde_json::{Value, json};

use super::DoctorFinding;
use crate::VERSION;
use crate::client::{GatewayClient, ServerAddress};
use crate::data_dir::{self, ServerRecord};

/// File systems round times, and a file may be written while the server starts.
const MTIME_TOLERANCE: Duration = Duration::from_secs(2);

pub(super) async fn findings(loaded: &LoadedConfig) -> Vec<DoctorFinding> {
    let config = &loaded.config;
    let Some(record) = data_dir::find_server(&config.data_dir) else {
        return vec![DoctorFinding::Note(
            "server: none runs on this data directory; `patchboard serve` starts one".to_owned(),
        )];
    };
    let mut findings = vec![check_reachable(config, &record).await];
    if record.version != VERSION {
        let versions = format!("it is version {}, this program is {VERSION}", record.version);
        findings.push(DoctorFinding::Note(format!("server: {versions}; a new start takes over")));
    }
    findings.extend(changed_addresses(config, &record));
    let files = loaded.files.iter().map(|file| file.path.as_path());
    if let Some(changed) = data_dir::server_started_at(&config.data_dir).and_then(|start| changed_since(files, start)) {
        findings.push(DoctorFinding::Note(format!(
            "server: {} changed after it started; what needs a new start takes effect with the next one",
            changed.display()
        )));
    }
    findings.extend(pools(config).await);
    findings
}

async fn check_reachable(config: &Config, record: &ServerRecord) -> DoctorFinding {
    let (pid, version) = (record.pid, &record.version);
    let listens = listening(record);
    // Without a gateway the server cannot be queried.
    let Some(address) = ServerAddress::of_data_dir(&config.data_dir) else {
        return DoctorFinding::Good(format!("server: version {version} runs as pid {pid}; {listens}"));
    };
    let answer = match GatewayClient::connect(&address).await {
        Ok(mut client) => client.call("status", json!({})).await,
        Err(error) => Err(error),
    };
    match answer {
        Ok(status) => {
            let count = |key: &str| status.get(key).and_then(Value::as_u64).unwrap_or(0);
            let sessions = match count("sessions") {
                1 => "1 conversation".to_owned(),
                many => format!("{many} conversations"),
            };
            DoctorFinding::Good(format!("server: version {version} answers as pid {pid}, {sessions}; {listens}"))
        }
        Err(error) => DoctorFinding::Bad {
            problem: format!("server: pid {pid} runs on this data directory and does not answer: {error:#}"),
            hint: format!("look at its log; `kill {pid}` stops it"),
        },
    }
}

fn listening(record: &ServerRecord) -> String {
    let surfaces = [("gateway", record.gateway), ("runs", record.runs), ("hub", record.hub), ("bridge", record.bridge)];
    let listening: Vec<String> =
        surfaces.into_iter().filter_map(|(surface, address)| Some(format!("{surface} on {}", address?))).collect();
    if listening.is_empty() { "it listens nowhere".to_owned() } else { listening.join(", ") }
}

/// Surfaces whose running address differs from the configured one.
fn changed_addresses(config: &Config, record: &ServerRecord) -> Option<DoctorFinding> {
    let surfaces = [
        ("gateway", config.gateway.listen, record.gateway),
        ("runs", config.runs.listen, record.runs),
        ("hub", config.hub.listen, record.hub),
        ("bridge", config.bridge.listen, record.bridge),
    ];
    let moved: Vec<String> = surfaces
        .into_iter()
        .filter_map(|(surface, listen, now)| {
            let is_same = match (listen.address(), now) {
                // Port 0 matches any port.
                (Some(wanted), Some(now)) => wanted.ip() == now.ip() && [0, now.port()].contains(&wanted.port()),
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            let words =
                |listen: ListenAddress| listen.address().map_or_else(|| "off".to_owned(), |wanted| wanted.to_string());
            let now = now.map_or_else(|| "off".to_owned(), |now| now.to_string());
            (!is_same).then(|| format!("{surface} is {now} and would be {}", words(listen)))
        })
        .collect();
    // Flags of `serve` cause a difference as well as a changed file.
    (!moved.is_empty()).then(|| {
        DoctorFinding::Note(format!(
            "server: started with other addresses than the configuration has now: {}",
            moved.join(", ")
        ))
    })
}

fn changed_since<'a>(files: impl Iterator<Item = &'a Path>, start: SystemTime) -> Option<&'a Path> {
    let is_newer = |path: &Path| {
        let changed = fs::metadata(path).and_then(|found| found.modified()).ok();
        changed.is_some_and(|changed| changed > start + MTIME_TOLERANCE)
    };
    files.into_iter().find(|path| is_newer(path))
}

/// Pools that only the server or only the configuration has.
async fn pools(config: &Config) -> Option<DoctorFinding> {
    let address = ServerAddress::of_data_dir(&config.data_dir)?;
    let mut client = GatewayClient::connect(&address).await.ok()?;
    let pools = client.list("worker.list", json!({}), usize::MAX).await.ok()?;
    let running: BTreeSet<&str> = pools.iter().filter_map(|pool| pool.get("name")?.as_str()).collect();
    let configured: BTreeSet<&str> = config.workers.iter().map(|worker| worker.name.as_str()).collect();
    differing_pools(&configured, &running)
}

fn differing_pools(configured: &BTreeSet<&str>, running: &BTreeSet<&str>) -> Option<DoctorFinding> {
    let named = |names: Vec<&str>, is: &str, are: &str| match names.as_slice() {
        [] => None,
        [one] => Some(format!("{one} {is}")),
        more => Some(format!("{} {are}", more.join(", "))),
    };
    let new = named(configured.difference(running).copied().collect(), "starts with it", "start with it");
    let gone = named(running.difference(configured).copied().collect(), "is gone then", "are gone then");
    let differs: Vec<String> = [new, gone].into_iter().flatten().collect();
    (!differs.is_empty()).then(|| {
        let differs = differs.join(", ");
        DoctorFinding::Note(format!("server: a new start has other pools of workers, as now configured: {differs}"))
    })
}

#[cfg(test)]
mod tests;
