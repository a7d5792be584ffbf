use super::*;

fn python() -> Python {
    Python { program: "venv/bin/python".into(), packages: "packages".into(), root: "/repo".into() }
}

fn check(answer: &str, expected: Result<Found, &str>) {
    let found = find_worker(answer.as_bytes());
    assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned), "{answer}");
}

#[test]
fn the_worker_is_where_the_gateway_says() {
    check(
        r#"{"id":"1","result":{"items":[{"name":"python","ready":1,"trouble":null,"workers":[
            {"id":"w1","state":"draining","pid":7,"address":"127.0.0.1:7"},
            {"id":"w2","state":"ready","pid":8,"address":"unix:/tmp/socket"}]}],"next_cursor":null}}"#,
        Ok(Found::Ready(Worker { address: Address::Unix("/tmp/socket".into()), pid: 8 })),
    );
    check(
        r#"{"id":"1","result":{"items":[{"name":"python","trouble":"exit code 1","workers":[
            {"id":"w1","state":"starting","pid":7,"address":null}]}]}}"#,
        Ok(Found::NotYet { trouble: Some("exit code 1".to_owned()) }),
    );
    check(r#"{"id":"1","result":{"items":[]}}"#, Err("the server has no pool `python`"));
    check(r#"{"id":"1","error":"no"}"#, Err(r#"no list of workers: {"id":"1","error":"no"}"#));
}

#[test]
fn a_pool_is_one_worker_with_its_own_path() {
    assert_eq!(
        python().config(Kind::Plain).expect("a configuration"),
        r#"[[workers]]
command = ["venv/bin/python", "grpc_server.py", "--adapter", "plain_tools.Tools"]
count = 1
name = "python"
working_folder = "/repo/e2e/python/bridge_workers"

[workers.env]
PYTHONDONTWRITEBYTECODE = "1"
PYTHONPATH = "/repo/bench/bridge"
"#
    );
    let sdk = python().config(Kind::Sdk).expect("a configuration");
    assert!(sdk.contains("command = [\"venv/bin/python\", \"sdk_worker.py\"]\n"), "{sdk}");
    assert!(sdk.contains("PYTHONPATH = \"packages\"\n"), "{sdk}");
}
