use std::fs;

use super::*;
use crate::catalogue::file::PluginFiles;

#[test]
fn a_difference_counts_when_two_looks_show_it() {
    let root = tempfile::tempdir().unwrap();
    let place = PluginFiles { file: root.path().join("echo.wasm"), folder: None };
    let absent = place.snapshot();
    fs::write(&place.file, "one").unwrap();
    let one = place.snapshot();
    fs::write(&place.file, "other").unwrap();
    let other = place.snapshot();

    let check =
        |tried: Option<FilesSnapshot>, looked: Option<FilesSnapshot>, now: FilesSnapshot, expected: WatchAction| {
            assert_eq!(watch_action(tried, looked, now), expected, "{tried:?} {looked:?} {now:?}");
        };
    check(Some(one), Some(one), one, WatchAction::Nothing);
    check(Some(one), Some(one), other, WatchAction::Nothing);
    check(Some(one), Some(other), other, WatchAction::Load);
    check(Some(one), Some(other), one, WatchAction::Nothing);
    check(Some(one), Some(one), absent, WatchAction::Nothing);
    check(Some(one), Some(absent), absent, WatchAction::FileMissing);
    check(Some(absent), Some(absent), absent, WatchAction::Nothing);
    check(Some(absent), Some(absent), one, WatchAction::Nothing);
    check(Some(absent), Some(one), one, WatchAction::Load);
    check(None, None, one, WatchAction::Nothing);
    check(None, Some(one), one, WatchAction::Load);
    check(None, Some(absent), absent, WatchAction::FileMissing);
}
