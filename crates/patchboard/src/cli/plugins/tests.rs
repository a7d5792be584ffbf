use clap::Parser;
use serde_json::json;

use super::{plugin_params, report};
use crate::cli::Cli;

#[test]
fn what_can_be_said() {
    let good = [
        "list",
        "list --json --data-dir x",
        "check a.wasm",
        "check a.wasm --json",
        "new greeter",
        "new greeter --kind channel --path x/y",
        "approve echo",
        "load echo --url ws://127.0.0.1:1/ws",
        "load plugins/echo.wasm",
        "unload echo",
    ];
    for line in good {
        let words = ["patchboard", "plugins"].into_iter().chain(line.split_whitespace());
        assert!(Cli::try_parse_from(words).is_ok(), "{line}");
    }
    for line in ["", "list x", "check", "new", "new x --kind app", "approve", "load", "unload a b"] {
        let words = ["patchboard", "plugins"].into_iter().chain(line.split_whitespace());
        assert!(Cli::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn a_name_or_a_path() {
    assert_eq!(plugin_params("my-echo_2").unwrap(), json!({"name": "my-echo_2"}));
    assert_eq!(plugin_params("/p/echo.wasm").unwrap(), json!({"path": "/p/echo.wasm"}));
    let here = std::env::current_dir().unwrap();
    assert_eq!(plugin_params("echo.wasm").unwrap(), json!({"path": here.join("echo.wasm").display().to_string()}));
}

#[test]
fn an_answer_that_is_no_plugin_is_an_error() {
    assert!(report::parse(&json!({"tools": 5})).is_err());
    assert_eq!(report::parse(&json!({"name": "x", "news": 1})).unwrap().name, "x");
}
