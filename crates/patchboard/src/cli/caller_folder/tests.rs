use std::path::Path;

use patchboard_config::{Config, Environment, LoadRequest};

use super::{CallerFolder, ServerLookup, embedded_server_folder};

fn folder(flag: Option<&str>, reach: ServerLookup) -> (Option<String>, bool) {
    let folder = CallerFolder::new(flag.map(Path::new), Path::new("/here"), reach).map_err(|_| ()).unwrap();
    (folder.path, folder.is_granted)
}

#[test]
fn the_operator_sends_the_current_folder_and_other_clients_send_only_what_they_name() {
    let some = |path: &str| Some(path.to_owned());
    assert_eq!(folder(None, ServerLookup::DataDir), (some("/here"), true));
    assert_eq!(folder(Some("sub"), ServerLookup::DataDir), (some("/here/sub"), true));
    assert_eq!(folder(Some("/there"), ServerLookup::DataDir), (some("/there"), true));
    assert_eq!(folder(None, ServerLookup::Url), (None, false));
    assert_eq!(folder(Some("sub"), ServerLookup::Url), (some("/here/sub"), false));
}

#[test]
fn only_a_current_folder_that_is_refused_gives_way_to_the_server_s() {
    let of = |flag: Option<&str>| {
        CallerFolder::new(flag.map(Path::new), Path::new("/root"), ServerLookup::DataDir).map_err(|_| ()).unwrap()
    };
    let refusal = "working folder is the whole home folder: /root";
    let mut current = of(None);
    assert_eq!(current.fall_back("no tool is called `x`"), None);
    let notice = current.fall_back(&format!("invalid tool.call params: {refusal}")).unwrap();
    assert_eq!(notice, format!("tools work in the folder of the server: {refusal}"));
    assert_eq!(current, CallerFolder::default());
    assert_eq!(current.fall_back(refusal), None, "only once");
    assert_eq!(of(Some("/root")).fall_back(refusal), None);
}

#[test]
fn a_server_inside_a_command_does_not_open_a_whole_home_unless_that_was_configured() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let loaded = |cwd: &Path, text: Option<&str>| {
        let file = text.map(|text| {
            let file = home.path().join("own.toml");
            std::fs::write(&file, text).unwrap();
            file
        });
        let env = Environment::from_iter([("HOME", home.path().to_str().unwrap())]);
        Config::load(LoadRequest::new(file, env, cwd.to_owned())).unwrap()
    };
    let named = |flag: Option<&str>, cwd: &Path, text| {
        embedded_server_folder(&loaded(cwd, text), flag.map(Path::new), cwd).map_err(|failure| format!("{failure:?}"))
    };
    let check = |cwd: &Path, text| named(None, cwd, text);
    assert_eq!(check(&project, None), Ok(Some(project.clone())));
    assert_eq!(named(Some("project"), home.path(), None), Ok(Some(project.clone())), "only what is named is opened");
    assert!(named(Some("nope"), home.path(), None).unwrap_err().contains("there is no folder"));
    for wide in [".", "..", "/", "project/.."] {
        assert!(named(Some(wide), home.path(), None).is_err(), "{wide}");
    }
    let refused = check(home.path(), None).unwrap_err();
    assert!(refused.contains("is the whole home folder") && refused.contains("--working-folder"), "{refused}");
    assert!(check(Path::new("/"), None).unwrap_err().contains("is the whole file system"));
    assert_eq!(check(home.path(), Some("[runs]\nallowed_roots = [\".\"]\n")), Ok(None));
    let configured = check(home.path(), Some("[runs]\nworking_folder = \"project\"\n"));
    assert_eq!(configured, Ok(Some(project)), "not also where the command was typed");
}
