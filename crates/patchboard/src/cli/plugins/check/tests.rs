use std::sync::Arc;
use std::time::Duration;

use patchboard_core::tool::{ToolEffect, ToolKind, ToolSpec, UnknownOutcomePolicy};
use patchboard_wasm::CheckedPlugin;
use serde_json::{Value, json};

use super::{as_json, lines, run, world};
use crate::cli::plugins::check::PluginCheckArgs;

fn tool(name: &str, description: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: Arc::new(schema),
        effect: ToolEffect::ReadOnly,
        unknown_outcome: UnknownOutcomePolicy::Retry,
        timeout: None,
        kind: ToolKind::Plugin,
        traits: None,
    }
}

fn checked() -> CheckedPlugin {
    let shout = json!({"type": "object", "required": ["text"],
        "properties": {"text": {"type": "string"}, "times": {"type": "integer"}, "how": {}}});
    CheckedPlugin {
        sha256: "ab".repeat(32).into(),
        size: 2_560,
        imports: ["log", "http", "store"].map(Arc::from).into(),
        wasi: ["wasi:io/poll@0.2.6", "wasi:cli/stderr@0.2.6", "wasi:cli/exit@0.2.6"].map(str::to_owned).into(),
        tools: [
            tool("shout", "Says it\u{1b}[31m\nloudly.", shout),
            tool("hush", "Says nothing.", json!({"type": "object"})),
        ]
        .into(),
        has_channel: false,
        compile_time: Duration::from_millis(34),
    }
}

#[test]
fn what_a_good_file_is() {
    let shown = lines("x.wasm", &checked());
    assert_eq!(
        shown,
        [
            "x.wasm: a plugin of patchboard:plugin@1.0.0",
            &format!("  sha256    {}", "ab".repeat(32)),
            "  size      2.5 KiB, compiled in 34 ms",
            "  imports   http, log, store",
            "  wasi      wasi:cli, wasi:io (there, and empty)",
            "  grants    it can use http:HOST, store:NAME",
            "  channel   no",
            "  tools     shout(how?, text: string, times?: integer)  Says it\\u{1b}[31m",
            "            hush()  Says nothing.",
        ]
    );
    let bare = CheckedPlugin {
        imports: Default::default(),
        wasi: Vec::new(),
        tools: Arc::default(),
        has_channel: true,
        ..checked()
    };
    let shown = lines("x.wasm", &bare);
    assert_eq!(shown[3..], ["  imports   nothing", "  grants    it can use none", "  channel   yes"]);
}

#[test]
fn the_same_for_programs() {
    let value = as_json(&checked());
    assert_eq!(value["grants"], json!(["http:HOST", "store:NAME"]));
    assert_eq!(
        (&value["channel"], &value["size_bytes"], &value["compile_ms"]),
        (&json!(false), &json!(2560), &json!(34))
    );
    assert_eq!(
        value["tools"][1],
        json!({"name": "hush", "description": "Says nothing.",
        "input_schema": {"type": "object"}, "read_only": true})
    );
    assert_eq!(value["world"], json!(world()));
}

/// With a real machine, as the command does it.
#[test]
fn files_that_cannot_be_plugins() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("x.wasm");
    for content in [&b"text"[..], b"", b"\0asm\x01\0\0\0"] {
        std::fs::write(&file, content).unwrap();
        let failure = run(&PluginCheckArgs { file: file.clone(), json: false }).unwrap_err();
        let shown = format!("{failure:?}");
        assert!(shown.contains("cannot be a plugin") && shown.contains("Unusable"), "{shown}");
    }
    let missing = run(&PluginCheckArgs { file: folder.path().join("y.wasm"), json: false }).unwrap_err();
    assert!(format!("{missing:?}").contains("no such file"), "{missing:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was left behind");
}
