use bytes::Bytes;

use super::{MAX_BYTES, PluginFileError};
use crate::machine::PluginMachine;
use crate::rights::PluginLimits;
use crate::testing::{component, guest};

const COMPLETE: &str = "is the file complete?";
const BUILD: &str = "build it for the target wasm32-wasip2, or make a component of it with `wasm-tools component new`";
const WIT: &str = "build it against the wit folder of this server's version";

async fn refused(machine: &PluginMachine, bytes: Bytes) -> PluginFileError {
    machine.compile(bytes, None).await.expect_err("refused")
}

#[tokio::test]
async fn says_why_a_file_is_no_plugin() {
    let machine = PluginMachine::start(PluginLimits::default(), None).expect("a machine");
    let whole = guest();
    let cases: Vec<(Bytes, &str, Option<&str>)> = vec![
        (Bytes::new(), "is empty", None),
        (Bytes::from_static(b"#!/bin/sh"), "is not WebAssembly", None),
        (
            Bytes::from_static(b"\x7fELF\x02"),
            "is machine code, not WebAssembly",
            Some("compiled plugins are not loaded, only their source"),
        ),
        (
            Bytes::from_static(b"(component)"),
            "is WebAssembly text, not binary",
            Some("translate it with `wasm-tools parse`"),
        ),
        (Bytes::from_static(b"\0asm\x0d"), "ends within its first bytes", Some(COMPLETE)),
        (Bytes::from_static(b"\0asm\x07\0\0\0"), "is WebAssembly of an encoding unknown here: 07000000", None),
        (component("(module)"), "is a core module, not a component", Some(BUILD)),
        (
            component(r#"(module (import "extism:host/env" "input_length" (func (result i64))))"#),
            "is an Extism plugin, not a component",
            Some(
                "Extism modules are not run here: export `tools` or `channel` of patchboard:plugin instead, see `patchboard plugins new`",
            ),
        ),
        (whole.slice(..whole.len() / 2), "is not a valid component: ", Some(COMPLETE)),
        (component("(component)"), "exports neither ", Some("a plugin exports at least one of them")),
        (
            component(r#"(component (import "wasi:nn/tensor@0.2.0" (instance)))"#),
            "imports what is not provided: `wasi:nn/tensor@0.2.0`",
            None,
        ),
        (
            component(
                r#"(component (import "patchboard:plugin/clock@1.0.0" (instance (export "now" (func (result string)))))
                (instance $tools) (export "patchboard:plugin/tools@1.0.0" (instance $tools)))"#,
            ),
            "imports something that has another shape here: ",
            Some(WIT),
        ),
        (
            component(r#"(component (instance $tools) (export "patchboard:plugin/tools@1.0.0" (instance $tools)))"#),
            "exports something of another shape: ",
            None,
        ),
        (
            component("(component (core module $m (memory 1025)) (core instance (instantiate $m)))"),
            "needs more than plugins are given: ",
            None,
        ),
        (Bytes::from(vec![0; MAX_BYTES + 1]), "is larger than 64 MiB", None),
    ];
    for (bytes, reason, advice) in cases {
        let refusal = refused(&machine, bytes).await;
        assert!(refusal.reason().starts_with(reason), "wanted {reason:?}, got {refusal}");
        assert_eq!(refusal.advice(), advice, "{refusal}");
        assert!(!refusal.reason().contains('\n'), "one line: {refusal:?}");
    }
}
