use std::collections::BTreeMap;
use std::time::Duration;

use super::*;

fn spec(script: &str) -> LaunchSpec {
    LaunchSpec {
        pool: "pool".into(),
        program: "/bin/sh".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        environment: BTreeMap::from([("WORD".to_owned(), "told".into())]),
        folder: "/".into(),
        private: "/".into(),
        writable: Vec::new(),
        bytecode_cache: None,
        memory_limit: None,
        ports: Vec::new(),
        stdin: WorkerStdin::Null,
    }
}

fn machine() -> OsPlatform {
    OsPlatform { launch: LaunchMode::Plain, tasks: TaskTracker::new() }
}

async fn heard(process: &dyn WorkerProcess, word: &str) {
    let waiting = async {
        while !process.output_tail().text().contains(word) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
}

#[tokio::test]
async fn a_plain_child_is_heard_and_ends_as_it_likes() {
    let machine = machine();
    let mut process = machine.launch(spec("echo $WORD; pwd >&2; exit 3")).await.unwrap();
    assert_eq!(process.wait().await, "exit status: 3");
    heard(&*process, "told\n").await;
    heard(&*process, "/\n").await;
    let error = machine.launch(LaunchSpec { program: "/no/such".to_owned(), ..spec("") }).await.unwrap_err();
    assert_eq!(error, "cannot start `/no/such` in `/`: No such file or directory (os error 2)");
}

#[tokio::test]
async fn a_plain_child_can_be_asked_and_made_to_end() {
    let machine = machine();
    let script = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 1000 & wait; done";
    let mut process = machine.launch(spec(script)).await.unwrap();
    heard(&*process, "ready").await;
    process.request_stop().await;
    assert_eq!(process.wait().await, "exit status: 0");
    let mut process = machine.launch(spec("trap '' TERM; echo ready; sleep 1000; sleep 1000")).await.unwrap();
    heard(&*process, "ready").await;
    process.request_stop().await;
    process.kill().await;
    assert_eq!(process.wait().await, "signal: 9 (SIGKILL)");
}
