//! The launcher under the real Python, with a small module in place of the native server.

use std::num::{NonZeroU8, NonZeroU16, NonZeroU32};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{TestDir, within};
use crate::gguf::ModelMetadata;
use crate::{ManagedServer, PreparedServer};

/// Answers the one question that the launcher asks, notes its parameters and prints to standard output like
/// native code might.
const MODULE: &str = r#"
import http.server, json, os, threading, types

class CommonParams:
    def __init__(self):
        self.model = types.SimpleNamespace()
        self.cpuparams = types.SimpleNamespace()
        self.cpuparams_batch = types.SimpleNamespace()

class Server:
    def __init__(self, params):
        os.write(1, b"noise from native code\n")
        here = os.path.dirname(__file__)
        if os.path.exists(os.path.join(here, "slow")):
            import ctypes
            os.write(2, b"loading\n")
            ctypes.PyDLL(None).sleep(600)  # keeps the interpreter lock
        with open(os.path.join(here, "parameters"), "w") as file:
            json.dump(vars(params), file, default=lambda value: vars(value) if hasattr(value, "__dict__") else list(value))
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                good = self.path == "/props" and self.headers["Authorization"] == "Bearer " + params.api_keys[0]
                body = json.dumps({"default_generation_settings": {"n_ctx": 2048}, "chat_template_caps": {"supports_tools": True}})
                self.send_response(200 if good else 401)
                self.end_headers()
                self.wfile.write(body.encode())
        server = http.server.HTTPServer((params.hostnames[0], params.port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = "http://127.0.0.1:%d" % server.server_port
"#;

/// Runs the launcher named by the second argument with the module above in reach.
const PYTHON: &str = r#"exec python3 -I -c 'import runpy, sys
sys.path.insert(0, sys.argv[1])
runpy.run_path(sys.argv[2], run_name="__main__")' "$dir/module" "$2""#;

fn stage() -> TestDir {
    let dir = TestDir::new();
    dir.write("module/xllamacpp.py", MODULE);
    dir.write("launcher.py", include_str!("../launcher.py"));
    dir.script("python", PYTHON);
    dir
}

fn launch(dir: &TestDir) -> tokio::process::Child {
    Command::new(dir.path("python"))
        .arg("-I")
        .arg(dir.path("launcher.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

const SETTINGS: &[u8] = b"{\"weights\": \"m.gguf\", \"model_name\": \"m\", \"api_key\": \"k\", \"context_tokens\": 8, \
    \"parallel\": 1, \"threads\": null, \"prompt_cache_mib\": 1}\n";

#[tokio::test]
async fn sets_the_server_up_and_announces_it() {
    let dir = stage();
    let prepared = PreparedServer {
        directory: dir.0.clone(),
        python: dir.path("python"),
        launcher: dir.path("launcher.py"),
        weights: dir.path("model.gguf"),
        model_name: "small".to_owned(),
        context_tokens: NonZeroU32::new(4096).unwrap(),
        parallel: NonZeroU8::new(3).unwrap(),
        threads: NonZeroU16::new(5),
        startup_timeout: super::GUARD,
        idle_after: super::GUARD,
        metadata: ModelMetadata::default(),
    };
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());
    let server = within(ManagedServer::start(prepared, &stop, &tracker)).await.unwrap();
    assert_eq!((server.context_tokens(), server.supports_tools()), (2048, true));

    let mut parameters: serde_json::Value = serde_json::from_str(&dir.read("module/parameters")).unwrap();
    let keys = parameters["api_keys"].take();
    assert_eq!(keys[0].as_str().map(str::len), Some(64));
    assert_eq!(
        parameters,
        serde_json::json!({
            "model": {"path": dir.path("model.gguf")}, "model_alias": ["small"], "api_keys": null,
            "hostnames": ["127.0.0.1"], "port": 0, "offline": true, "ui": false, "endpoint_slots": false,
            "cors_origins": "", "use_jinja": true, "n_parallel": 3, "n_ctx": 12288, "cache_ram_mib": 256,
            "cpuparams": {"n_threads": 5}, "cpuparams_batch": {"n_threads": 5}, "verbosity": 2,
        })
    );
    stop.cancel();
    tracker.close();
    within(tracker.wait()).await;
}

#[tokio::test]
async fn ends_when_its_input_ends() {
    let dir = stage();
    let mut child = launch(&dir);
    let mut input = child.stdin.take().unwrap();
    input.write_all(SETTINGS).await.unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    within(output.read_line(&mut line)).await.unwrap();
    assert!(line.starts_with("{\"port\": "), "the announcement comes first and alone: {line}");
    drop(input);
    within(child.wait()).await.unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
}

#[tokio::test]
async fn ends_without_settings() {
    let dir = stage();
    let mut child = launch(&dir);
    drop(child.stdin.take());
    assert!(within(child.wait()).await.unwrap().success());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ends_with_its_input_even_while_loading() {
    let dir = stage();
    dir.write("module/slow", "");
    let mut child = launch(&dir);
    let mut input = child.stdin.take().unwrap();
    input.write_all(SETTINGS).await.unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
    while within(errors.next_line()).await.unwrap().is_some_and(|line| line != "loading") {}
    drop(input);
    assert!(!within(child.wait()).await.unwrap().success());
}
