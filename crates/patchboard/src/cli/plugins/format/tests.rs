use serde_json::json;

use super::{change_line, plugins};
use crate::cli::plugins::report::{self, PluginReport};
use crate::output::PageLayout;
use crate::telemetry::LogColour;

const PIPE: PageLayout = PageLayout { columns: None, colour: LogColour::Off };

fn read(items: serde_json::Value) -> Vec<PluginReport> {
    items.as_array().unwrap().iter().map(|item| report::parse(item).unwrap()).collect()
}

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn a_row_a_plugin_and_its_troubles_beneath() {
    let shown = plugins(
        &read(json!([
            {"name": "echo", "state": "ready", "sha256": HASH, "kinds": ["tools"], "grants": [], "tools": ["echo", "shout"],
             "source": "/p/echo.wasm", "calls": 12, "error": null, "waiting_for_approval": null},
            {"name": "telegram", "state": "ready", "sha256": HASH, "kinds": ["channel"],
             "grants": ["http:api.telegram.org"], "tools": [], "calls": 0, "error": null,
             "waiting_for_approval": {"changes": ["asks for interface store", "tool x:\n\u{1b}[31mother"]}},
            {"name": "bad", "state": "refused", "sha256": null, "kinds": [], "grants": [], "tools": [], "calls": 0,
             "error": "not a component\n", "waiting_for_approval": null},
        ])),
        PIPE,
    );
    assert_eq!(
        shown,
        [
            "NAME      STATE    KINDS    CALLS  SHA256        GRANTS                 TOOLS",
            "echo      ready    tools       12  0123456789ab  –                      echo, shout",
            "telegram  ready    channel      0  0123456789ab  http:api.telegram.org  –",
            "  a newer version waits for `patchboard plugins approve telegram`:",
            "  - asks for interface store",
            "  - tool x:\\n\\u{1b}[31mother",
            "bad       refused  –            0  –             –                      –",
            "  not a component",
        ]
    );
}

#[test]
fn none_at_all() {
    assert_eq!(plugins(&[], PIPE), ["no plugin is there: [[plugins]], or a file in the plugins folder, adds one"]);
}

#[test]
fn one_that_was_changed() {
    let plugin = read(json!([{"name": "echo", "state": "ready", "sha256": HASH, "tools": ["a", "b\u{202e}"]}]));
    assert_eq!(change_line("loaded", &plugin[0]), "loaded echo: ready, 0123456789ab, tools a, b\\u{202e}");
    assert_eq!(change_line("approved", &PluginReport::default()), "approved : ");
}
