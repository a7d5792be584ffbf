use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[test]
fn no_python_of_the_current_folder_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for folder in ["here/bin", "linked", "plain", "there"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (file, mode) in [("here/bin/python3", 0o755), ("plain/python3", 0o644), ("there/python3", 0o755)] {
        fs::write(root.join(file), "#!/bin/sh\npwd; echo \"$@\"\n").unwrap();
        fs::set_permissions(root.join(file), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink(root.join("here/bin/python3"), root.join("linked/python3")).unwrap();
    let path = |folder: &str| root.join(folder).display().to_string();
    let (bin, linked, plain, there) = (path("here/bin"), path("linked"), path("plain"), path("there"));
    let here = root.join("here");
    for search_path in [format!(":.:bin:{bin}:{linked}:{plain}:{there}"), there] {
        assert_eq!(find(&search_path, &here), Some(root.join("there/python3")), "{search_path}");
    }
    assert_eq!(find(&bin, &here), None);
    assert_eq!(find("", &here), None);
    let stdout = version(&root.join("there/python3")).unwrap().stdout;
    let stdout = String::from_utf8(stdout).unwrap();
    let (folder, arguments) = stdout.split_once('\n').unwrap();
    assert!(!Path::new(folder).exists() && arguments == "-I --version\n", "{stdout}");
}
