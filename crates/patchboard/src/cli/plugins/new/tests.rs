use std::path::Path;

use tempfile::TempDir;

use super::{NewArgs, PluginKind, WORLD, create_project, files, name_problem, next_steps};
use crate::test_home::Bench;

fn content(name: &str, kind: PluginKind, file: &str) -> String {
    files(name, kind).into_iter().find(|(path, _)| *path == file).unwrap().1
}

#[test]
fn names_that_plugins_and_packages_can_have() {
    for good in ["greeter", "my-tool", "a", "Weather_2", "testing"] {
        assert_eq!(name_problem(good), None, "{good}");
    }
    let long = "x".repeat(65);
    for bad in ["", "1up", "-x", "_x", "a b", "a/b", "..", "ü", "a.b", "test", "fn", "core", &long] {
        assert!(name_problem(bad).is_some(), "{bad}");
    }
}

#[test]
fn every_place_is_filled_in() {
    for kind in [PluginKind::Tool, PluginKind::Channel] {
        for (path, text) in files("my-tool", kind) {
            assert!(!text.contains('@') || path.starts_with("wit/"), "{path}: {text}");
            assert!(text.ends_with('\n') && !text.is_empty(), "{path}");
        }
        let snippet = content("my-tool", kind, "patchboard.toml");
        assert!(snippet.contains("name = \"my-tool\"") && snippet.contains("/my_tool.wasm"), "{snippet}");
        assert_eq!(content("my-tool", kind, "wit/patchboard.wit"), WORLD);
    }
    assert!(content("my-tool", PluginKind::Tool, "src/lib.rs").contains("\"my_tool_greet\""));
    let longest = content(&"x".repeat(64), PluginKind::Tool, "src/lib.rs");
    assert!(longest.contains(&format!("\"{}_greet\"", "x".repeat(56))));
}

/// One version of the generator for all plugins.
#[test]
fn the_generator_is_that_of_the_plugins_of_the_repository() {
    let manifest: toml::Table = toml::from_str(&content("x", PluginKind::Tool, "Cargo.toml")).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/Cargo.toml");
    let plugins: toml::Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(manifest["dependencies"]["wit-bindgen"], plugins["workspace"]["dependencies"]["wit-bindgen"]);
    assert_eq!(manifest["profile"], plugins["profile"]);
    assert_eq!(manifest["package"]["name"].as_str(), Some("x"));
}

/// What the README says to add to the configuration is understood, once the plugin is built.
#[test]
fn the_lines_for_the_configuration_are_understood() {
    for kind in [PluginKind::Tool, PluginKind::Channel] {
        let bench = Bench::with_file(&content("my-tool", kind, "patchboard.toml"))
            .file("project/target/wasm32-wasip2/release/my_tool.wasm", "w")
            .env("SERVICE_API_KEY", "none")
            .env("HOOK_SECRET", "0123456789abcdef");
        assert_eq!(bench.complaints(), "");
    }
}

#[test]
fn nothing_is_overwritten() {
    let place = TempDir::new().unwrap();
    let args =
        |path: &str| NewArgs { name: "x".to_owned(), kind: PluginKind::Tool, path: Some(place.path().join(path)) };
    create_project(&args("x")).unwrap();
    assert!(place.path().join("x/src/lib.rs").is_file());
    let steps = next_steps("my-tool", &place.path().join("x"));
    let commands: Vec<&str> = steps.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    assert_eq!(commands.len(), 3, "{steps}");
    assert_eq!(commands[2], "patchboard plugins check target/wasm32-wasip2/release/my_tool.wasm");
    std::fs::write(place.path().join("x/Cargo.toml"), "mine").unwrap();
    create_project(&args("x")).unwrap_err();
    assert_eq!(std::fs::read_to_string(place.path().join("x/Cargo.toml")).unwrap(), "mine");
    create_project(&args("no/x")).unwrap_err();
    assert!(!place.path().join("no").exists());
    let bad = NewArgs { name: "../y".to_owned(), kind: PluginKind::Tool, path: None };
    create_project(&bad).unwrap_err();
}
