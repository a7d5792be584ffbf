use std::{collections::BTreeSet, fs, path::Path};

use patchboard_config::problem::ProblemCode;

use super::{codes, explain};

#[test]
fn every_configuration_problem_is_explained() {
    for code in ProblemCode::ALL {
        let code = code.as_str();
        let page = explain(code).unwrap_or_else(|| panic!("{code} has no page"));
        assert!(page.starts_with(&format!("# {code}: ")), "{code} has no heading");
        assert!(page.lines().count() >= 5, "{code} explains nothing");
    }
}

#[test]
fn every_page_on_disk_is_embedded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let on_disk: BTreeSet<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .filter(|name| name.starts_with("PB"))
        .collect();
    let embedded: BTreeSet<String> = codes().map(|(code, _)| code.to_owned()).collect();
    assert_eq!(embedded, on_disk);
}

#[test]
fn codes_are_found_in_any_case() {
    assert_eq!(explain("pb0103"), explain("PB0103"));
    assert_eq!(explain(" PB0103 "), explain("PB0103"));
    assert_eq!(explain("PB9999"), None);
    assert_eq!(explain(""), None);
    assert_eq!(codes().find(|(code, _)| *code == "PB0103"), Some(("PB0103", "unknown key")));
}
