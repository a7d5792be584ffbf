use std::fs;

use super::super::tests::yard::{Yard, going, stopped};
use super::*;
use crate::folder::OpenedPath;

fn base(yard: &Yard) -> OpenFolder {
    let Ok(OpenedPath::Folder(base)) = yard.folder.open_path(".") else { panic!("not a folder") };
    base
}

fn met(yard: &Yard, stop: &CancellationToken) -> Result<(Vec<String>, Vec<String>), ToolRefusal> {
    let mut paths = Vec::new();
    let interest = |_: usize, name: &str, _: RuleTarget| match name {
        "venv" => EntryInterest::Explicit,
        _ => EntryInterest::Default,
    };
    let omitted = scan_files(&yard.folder, &base(yard), stop, interest, |met| paths.push(met.path.to_owned()))?;
    Ok((paths, omitted.remarks()))
}

#[test]
fn meets_files_and_symlinks_upper_levels_first() {
    let yard = Yard::new(&[("b/c/d", ""), ("b/a", ""), ("z", ""), ("target/x", ""), ("venv/y", ""), ("e/.git/x", "")]);
    yard.link("../away", "link");
    let (paths, remarks) = met(&yard, &going()).unwrap();
    assert_eq!(paths, ["link", "z", "b/a", "venv/y", "b/c/d"], "nothing protected, nothing through symlinks");
    assert_eq!(remarks, ["[not searched: .git/, target/; name one in `path` to search it]"]);
    assert_eq!(met(&yard, &stopped()).unwrap_err(), ToolRefusal::cancelled());
}

#[test]
fn does_not_go_too_deep() {
    let yard = Yard::new(&[]);
    let deep = vec!["d"; 70].join("/");
    fs::create_dir_all(yard.at(&deep)).unwrap();
    fs::write(yard.at(&deep).join("far"), "").unwrap();
    let (paths, remarks) = met(&yard, &going()).unwrap();
    assert_eq!((paths, remarks), (vec![], vec!["[folders nested 64 deep or more are not searched]".to_owned()]));
}

#[test]
fn names_of_folders_left_out_are_bounded() {
    let omitted = ScanOmissions {
        excluded_folders: (0..20).map(|number| number.to_string()).collect(),
        unreadable: 2,
        ..ScanOmissions::default()
    };
    let first = "[not searched: 0/, 1/, 10/, 11/, 12/, 13/, 14/, 15/, …; name one in `path` to search it]";
    assert_eq!(omitted.remarks(), [first, "[folders that cannot be opened: 2]"]);
}
