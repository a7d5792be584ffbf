use std::collections::BTreeMap;
use std::path::Path;

use super::*;

fn pool(command: &[&str]) -> PoolOptions {
    PoolOptions::new("py", command.iter().map(|part| (*part).to_owned()).collect(), "/".into())
}

fn identity<'a>(id: &'a WorkerId, secret: &'a WorkerSecret) -> WorkerIdentity<'a> {
    WorkerIdentity {
        id,
        secret,
        port: 4001,
        run_id: "abc1234",
        callback_address: ([127, 0, 0, 1], 4000).into(),
        ready_file: Path::new("/run/ready"),
        socket: Path::new("/run/s"),
    }
}

#[test]
fn only_flags_that_are_not_given_are_added() {
    let (id, secret) = (WorkerId("w".into()), WorkerSecret::new("bits"));
    let check =
        |command: &[&str], expected: &[&str]| assert_eq!(arguments(&pool(command), identity(&id, &secret)), expected);
    let added = ["--port", "4001", "--elixir-address", "127.0.0.1:4000", "--snakepit-run-id", "abc1234"];
    check(&["python", "a.py"], &[&["a.py"][..], &added].concat());
    check(
        &["python", "--port=7", "--elixir-address", "h:1"],
        &["--port=7", "--elixir-address", "h:1", "--snakepit-run-id", "abc1234"],
    );
    check(&["python", "--portable"], &[&["--portable"][..], &added].concat());
    assert_eq!(worker_arguments(identity(&id, &secret)), added);
}

#[test]
fn the_pool_has_the_last_word_on_variables() {
    let (id, secret) = (WorkerId("w".into()), WorkerSecret::new("bits"));
    let mut options = pool(&["python3"]);
    options.env = BTreeMap::from([("PATH".to_owned(), "/mine".into()), ("KEY".to_owned(), "secret".into())]);
    let servers =
        [("PATH", "/usr/bin"), ("PYTHONPATH", "/packages")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let all = environment(&options, worker_variables(identity(&id, &secret)), servers);
    let value = |name: &str| all[name].expose_secret().to_owned();
    assert_eq!(["PATH", "KEY", "PYTHONPATH"].map(value), ["/mine", "secret", "/packages"]);
    let own = ["SNAKEPIT_READY_FILE", "PATCHBOARD_WORKER_SOCKET", "PATCHBOARD_WORKER_ID", "PATCHBOARD_POOL"];
    assert_eq!(own.map(value), ["/run/ready", "/run/s", "w", "py"]);
    assert_eq!(value("PATCHBOARD_WORKER_SECRET"), "bits");
    let beats: serde_json::Value = serde_json::from_str(&value("SNAKEPIT_HEARTBEAT_CONFIG")).unwrap();
    assert_eq!((&beats["interval_ms"], &beats["dependent"]), (&2000.into(), &true.into()));
    assert_eq!(all.len(), 3 + 11 + 7, "{:?}", all.keys());
}
