use std::os::unix::fs::PermissionsExt;

use secrecy::ExposeSecret;

use super::*;

fn record() -> ServerRecord {
    ServerRecord {
        pid: 42,
        version: "0.1.0".into(),
        gateway: Some("127.0.0.1:7200".parse().unwrap()),
        runs: None,
        hub: None,
        bridge: None,
    }
}

#[test]
fn one_directory_has_one_server_and_a_dead_ones_record_is_no_obstacle() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    assert_eq!(find_server(&path), None);
    let first = DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap();
    first.write_server_record(&record()).unwrap();
    assert_eq!(find_server(&path), Some(record()));
    let refused = DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap_err();
    assert!(refused.to_string().ends_with("(pid 42)"), "{refused}");

    // As after a crash: the record is there, the lock is not.
    let stale = fs::read(record_path(&path)).unwrap();
    drop(first);
    assert_eq!(find_server(&path), None);
    fs::write(record_path(&path), stale).unwrap();
    assert_eq!(find_server(&path), None);
    DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap();
}

#[test]
fn the_operator_token_is_long_private_and_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::acquire(&folder.path().join("data"), DirSharing::OwnerOnly).unwrap();
    let token = data.operator_token().unwrap();
    assert_eq!(token.expose_secret().len(), 64);
    assert_eq!(data.operator_token().unwrap().expose_secret(), token.expose_secret());
    let mode = |name: &str| fs::metadata(folder.path().join("data").join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("operator.token"), mode("lock"), mode(".")), (0o600, 0o600, 0o700));
    fs::write(folder.path().join("data/operator.token"), "").unwrap();
    assert_eq!(data.operator_token().unwrap().expose_secret().len(), 64, "an emptied file is made anew");
}

#[test]
fn an_operator_token_with_another_name_is_worth_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::acquire(&folder.path().join("data"), DirSharing::OwnerOnly).unwrap();
    let token = data.operator_token().unwrap();
    let link = folder.path().join("link");
    fs::hard_link(folder.path().join("data/operator.token"), &link).unwrap();
    let next = data.operator_token().unwrap();
    assert_eq!(fs::read_to_string(link).unwrap(), token.expose_secret());
    assert_ne!(next.expose_secret(), token.expose_secret());
    assert_eq!(data.operator_token().unwrap().expose_secret(), next.expose_secret(), "once is enough");
}

#[test]
fn what_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let error = DataDir::acquire(&file.join("data"), DirSharing::OwnerOnly).unwrap_err();
    assert!(error.to_string().starts_with("cannot use the data directory"), "{error}");
}

#[test]
fn a_server_that_stops_sends_nobody_to_its_ports() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let data = DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap();
    data.write_server_record(&record()).unwrap();
    assert_eq!(find_server(&path), Some(record()));
    data.remove_server_record();
    assert_eq!(find_server(&path), None, "although it still has the directory");
    let refused = DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap_err().to_string();
    let own = std::process::id();
    assert!(refused.ends_with(&format!("(it is starting or stopping, pid {own})")), "{refused}");
}

#[test]
fn the_process_is_on_record_from_beginning_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let data = DataDir::acquire(&path, DirSharing::OwnerOnly).unwrap();
    let found = find_process(&path).unwrap();
    assert_eq!(
        (found.pid, found.state, found.role),
        (std::process::id(), ProcessState::Starting, ProcessRole::Command)
    );
    data.record(|process| process.state = ProcessState::Stopping).unwrap();
    assert_eq!(find_process(&path).unwrap().state, ProcessState::Stopping);
    data.record_stop(1, 2).unwrap();
    let left = fs::read(path.join(PROCESS_RECORD)).unwrap();
    let mode = |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(PROCESS_RECORD), mode(LAST_STOP)), (0o600, 0o600));
    drop(data);
    assert!(!path.join(PROCESS_RECORD).exists());
    assert_eq!(process::last_stop(&path).map(|stop| (stop.cancelled, stop.suspended)), Some((1, 2)));
    // As after a crash.
    fs::write(path.join(PROCESS_RECORD), left).unwrap();
    assert_eq!(find_process(&path), None);
}
