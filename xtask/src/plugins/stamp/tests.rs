use super::*;

/// A repository with one plugin, and the folder that components are put into.
fn repository() -> (tempfile::TempDir, Workspace, PathBuf) {
    let root = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has a parent")).expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
    };
    write("plugins/echo/src/lib.rs", "one");
    write("plugins/Cargo.lock", "lock");
    write("plugins/built/echo.wasm", "result");
    write("wit/patchboard.wit", "interface");
    write("rust-toolchain.toml", "toolchain");
    for guest in GUESTS {
        write(&format!("target/plugins/{}", guest.file()), "component");
    }
    let folder = root.path().join("target/plugins");
    let workspace = Workspace { root: root.path().to_owned() };
    (root, workspace, folder)
}

#[test]
fn what_is_built_from_is_what_counts() {
    let (root, workspace, folder) = repository();
    let stamp = || Stamp::of_sources(&workspace, &folder).expect("the sources can be read");
    assert!(!stamp().is_current(), "nothing was noted yet");
    for (file, counts) in [
        ("plugins/built/echo.wasm", false),
        ("plugins/echo/src/lib.rs", true),
        ("plugins/Cargo.lock", true),
        ("wit/patchboard.wit", true),
        ("rust-toolchain.toml", true),
    ] {
        stamp().write().expect("it can be written");
        assert!(stamp().is_current());
        std::fs::write(root.path().join(file), format!("another {file}")).expect("a file can be written");
        assert_eq!(stamp().is_current(), !counts, "{file}");
    }
}

#[test]
fn a_component_that_is_gone_or_a_build_that_broke_off_is_not_current() {
    let (_root, workspace, folder) = repository();
    let stamp = Stamp::of_sources(&workspace, &folder).expect("the sources can be read");
    stamp.remove().expect("there may be none");
    stamp.write().expect("it can be written");
    stamp.remove().expect("it can be removed");
    assert!(!stamp.is_current());
    stamp.write().expect("it can be written");
    std::fs::remove_file(folder.join("echo.wasm")).expect("it is there");
    assert!(!stamp.is_current());
}
