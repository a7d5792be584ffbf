use std::fs;

use super::*;
use crate::catalogue::file::Place;

#[test]
fn a_difference_counts_when_two_looks_show_it() {
    let root = tempfile::tempdir().unwrap();
    let place = Place { file: root.path().join("echo.wasm"), folder: None };
    let absent = place.look();
    fs::write(&place.file, "one").unwrap();
    let one = place.look();
    fs::write(&place.file, "other").unwrap();
    let other = place.look();

    let check = |tried: Option<Look>, looked: Option<Look>, now: Look, expected: Step| {
        assert_eq!(step(tried, looked, now), expected, "{tried:?} {looked:?} {now:?}");
    };
    check(Some(one), Some(one), one, Step::Nothing);
    check(Some(one), Some(one), other, Step::Nothing);
    check(Some(one), Some(other), other, Step::Load);
    check(Some(one), Some(other), one, Step::Nothing);
    check(Some(one), Some(one), absent, Step::Nothing);
    check(Some(one), Some(absent), absent, Step::Lose);
    check(Some(absent), Some(absent), absent, Step::Nothing);
    check(Some(absent), Some(absent), one, Step::Nothing);
    check(Some(absent), Some(one), one, Step::Load);
    check(None, None, one, Step::Nothing);
    check(None, Some(one), one, Step::Load);
    check(None, Some(absent), absent, Step::Lose);
}
