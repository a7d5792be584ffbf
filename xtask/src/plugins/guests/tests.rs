use std::collections::BTreeSet;

use super::*;
use crate::workspace::Workspace;

#[test]
fn every_component_of_the_repository_is_listed() {
    let root = Workspace::find().expect("the repository").root.join("plugins");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root).expect("the folder exists") {
        let manifest = entry.expect("an entry").path().join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(manifest) else { continue };
        let manifest: toml::Table = text.parse().expect("a manifest");
        let name_of = |table: &toml::Value| table.get("name").and_then(toml::Value::as_str).map(str::to_owned);
        let is_component = |table: &&toml::Value| table.get("crate-type").is_some();
        if manifest.get("lib").as_ref().is_some_and(is_component) {
            found.extend(manifest.get("package").and_then(name_of));
        }
        let examples = manifest.get("example").and_then(toml::Value::as_array);
        found.extend(examples.into_iter().flatten().filter(is_component).filter_map(name_of));
    }
    let listed: BTreeSet<String> = GUESTS.iter().map(|guest| guest.name.to_owned()).collect();
    assert_eq!(listed, found);
}

#[test]
fn every_offered_plugin_is_committed_and_explained() {
    let root = Workspace::find().expect("the repository").root.join("plugins");
    let page = std::fs::read_to_string(root.join("README.md")).expect("a page on all plugins");
    for guest in offered() {
        assert!(root.join("built").join(guest.file()).is_file(), "{} is not committed", guest.name);
        assert!(root.join(guest.name).join("README.md").is_file(), "{} has no page", guest.name);
        assert!(page.contains(&format!("]({}/README.md)", guest.name)), "the page does not name {}", guest.name);
    }
}

#[test]
fn files_are_where_cargo_puts_them() {
    let files: Vec<String> = GUESTS.iter().map(Guest::built_file).collect();
    assert!(files.contains(&"webhook_json.wasm".to_owned()), "{files:?}");
    assert!(files.contains(&"examples/hostile_describe_bad_name.wasm".to_owned()), "{files:?}");
}
