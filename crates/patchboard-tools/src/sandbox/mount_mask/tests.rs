use std::fs;
use std::os::unix::fs::symlink;

use super::*;

#[test]
fn what_exists_is_covered_once_and_outermost() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    for folder in ["data/keys", "data-old", "else"] {
        fs::create_dir_all(base.join(folder)).unwrap();
    }
    fs::write(base.join("else/key"), "").unwrap();
    symlink("data/keys", base.join("link")).unwrap();
    let check = |paths: &[&str], expected: &[&str]| {
        let paths: Vec<PathBuf> = paths.iter().map(|path| base.join(path)).collect();
        let expected: Vec<PathBuf> = expected.iter().map(|path| base.join(path)).collect();
        assert_eq!(existing(paths.iter().map(PathBuf::as_path)).unwrap(), expected, "{paths:?}");
    };
    check(&["data/keys", "data", "data", "data-old"], &["data", "data-old"]);
    check(&["data", "link", "else/key"], &["data", "else/key"]);
    check(&["link", "missing", "else/key/beneath"], &["data/keys"]);
    check(&[], &[]);
}
