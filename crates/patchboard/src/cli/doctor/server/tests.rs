use std::fs;
use std::time::Duration;

use patchboard_config::Config;

use super::{changed_addresses, changed_since, differing_pools, listening};
use crate::cli::doctor::DoctorFinding;
use crate::data_dir::ServerRecord;

fn record() -> ServerRecord {
    ServerRecord {
        pid: 7,
        version: "0.1.0".to_owned(),
        gateway: Some("127.0.0.1:7200".parse().unwrap()),
        runs: Some("127.0.0.1:4000".parse().unwrap()),
        hub: None,
        bridge: Some("127.0.0.1:50051".parse().unwrap()),
    }
}

#[test]
fn what_listens_is_named() {
    assert_eq!(listening(&record()), "gateway on 127.0.0.1:7200, runs on 127.0.0.1:4000, bridge on 127.0.0.1:50051");
    let nothing = ServerRecord { gateway: None, runs: None, bridge: None, ..record() };
    assert_eq!(listening(&nothing), "it listens nowhere");
}

#[test]
fn other_addresses_are_told() {
    let mut config = Config::default();
    let wanted = "server: started with other addresses than the configuration has now: runs is 127.0.0.1:4000 and would \
                  be 127.0.0.1:8080, hub is off and would be 127.0.0.1:9473";
    assert_eq!(changed_addresses(&config, &record()), Some(DoctorFinding::Note(wanted.to_owned())));
    config.runs.listen = "127.0.0.1:0".parse().unwrap();
    config.hub.listen = "off".parse().unwrap();
    assert_eq!(changed_addresses(&config, &record()), None);
}

#[test]
fn other_pools_of_workers_are_told_in_a_sentence() {
    let told = |configured: &[&'static str], running: &[&'static str]| {
        differing_pools(&configured.iter().copied().collect(), &running.iter().copied().collect())
    };
    let note = |differs: &str| {
        Some(DoctorFinding::Note(format!(
            "server: a new start has other pools of workers, as now configured: {differs}"
        )))
    };
    assert_eq!(told(&["py"], &["py"]), None);
    assert_eq!(told(&[], &["py"]), note("py is gone then"));
    assert_eq!(told(&["a", "b"], &["py"]), note("a, b start with it, py is gone then"));
}

#[test]
fn a_file_that_changed_after_the_start_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("patchboard.toml");
    fs::write(&file, "").unwrap();
    let files = || [file.as_path(), folder.path()].into_iter();
    let hour = Duration::from_secs(3600);
    let written = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(changed_since(files(), written - hour), Some(file.as_path()));
    assert_eq!(changed_since(files(), written + hour), None::<&std::path::Path>);
}
