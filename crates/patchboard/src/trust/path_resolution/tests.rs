use std::os::unix::fs::symlink;

use super::*;

#[test]
fn every_link_and_what_is_left_again_is_seen() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap();
    for folder in ["home", "work/sub", "own"] {
        fs::create_dir_all(real.join(folder)).unwrap();
    }
    fs::write(real.join("own/real.toml"), "x").unwrap();
    symlink(real.join("own/real.toml"), real.join("work/mid.toml")).unwrap();
    symlink("../work/sub/../mid.toml", real.join("home/first.toml")).unwrap();
    let trail = PathResolution::of(&real.join("home/first.toml"));
    assert_eq!(trail.target, real.join("own/real.toml"));
    let detours: Vec<_> =
        trail.detour_folders().filter(|folder| folder.starts_with(&real)).map(Path::to_owned).collect();
    // `home` and `work` are left again by `..` and by links; a name in each of these directories decides.
    let expected = ["", "home", "", "work", "work"].map(|folder| real.join(folder));
    assert_eq!(detours, expected.map(|folder| folder.components().collect::<PathBuf>()));
}

#[test]
fn what_does_not_exist_leads_where_it_would_be() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap();
    symlink(real.join("gone/file"), real.join("link")).unwrap();
    let trail = PathResolution::of(&real.join("link"));
    assert_eq!(trail.target, real.join("gone/file"));
    assert_eq!(trail.detour_folders().collect::<Vec<_>>(), [real.as_path()]);
}

#[test]
fn a_link_to_itself_ends() {
    let root = tempfile::tempdir().unwrap();
    let real = root.path().canonicalize().unwrap();
    symlink(real.join("loop"), real.join("loop")).unwrap();
    assert_eq!(PathResolution::of(&real.join("loop")).target, real.join("loop"));
}
