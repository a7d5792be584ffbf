use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{MAX_FILES, prune};
use crate::machine::PluginMachine;
use crate::rights::PluginLimits;
use crate::testing::guest;

/// Does a server that starts now find the code in the cache?
async fn hits(folder: &Path) -> bool {
    let machine = PluginMachine::start(PluginLimits::default(), Some(folder.to_owned())).expect("a machine");
    machine.compile(guest(), None).await.expect("a component").from_cache
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[tokio::test]
async fn compiles_once() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("cache/plugins");
    assert!(!hits(&folder).await, "there is nothing yet");
    assert!(hits(&folder).await);
    let found = files(&folder);
    let [file] = &found[..] else { panic!("one file, nothing unfinished: {found:?}") };
    assert_eq!((mode(&folder), mode(file)), (0o700, 0o600));
    let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
    assert!(name.len() == 64 + 1 + 16 + 6 && name.ends_with(".cwasm"), "{name}");

    // Other settings make other code.
    let small = PluginLimits { calls: 2, ..PluginLimits::default() };
    let machine = PluginMachine::start(small, Some(folder.clone())).expect("a machine");
    assert!(machine.compile(guest(), None).await.expect("a component").from_cache, "how many calls does not matter");
}

/// Whatever is odd about a file, it is not run but written anew.
#[tokio::test]
async fn never_runs_what_it_did_not_write() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join("plugins");
    assert!(!hits(&folder).await);
    let file = files(&folder).remove(0);
    let whole = fs::read(&file).expect("code");

    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (what, bytes) in
        [("a bit flipped", &flipped[..]), ("cut", &whole[..whole.len() - 1]), ("empty", &[]), ("short", &[1; 40])]
    {
        fs::write(&file, bytes).expect("written");
        assert!(!hits(&folder).await, "{what}");
        assert!(hits(&folder).await, "{what}: written anew");
        assert_eq!(mode(&file), 0o600);
    }

    fs::set_permissions(&file, Permissions::from_mode(0o644)).expect("readable by others");
    assert!(!hits(&folder).await, "others might have written a file that is not of this mode");
    assert!(hits(&folder).await);

    let elsewhere = home.path().join("elsewhere");
    fs::rename(&file, &elsewhere).expect("moved");
    std::os::unix::fs::symlink(&elsewhere, &file).expect("a link");
    assert!(!hits(&folder).await, "links are not followed");
    assert!(hits(&folder).await);

    fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("open to others");
    assert!(!hits(&folder).await, "a folder open to others");
    assert!(!hits(&folder).await, "and nothing is written there");
}

#[test]
fn keeps_a_bounded_number_of_files() {
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path();
    for number in 0..MAX_FILES as u64 + 3 {
        let file = fs::File::create(folder.join(format!("{number:03}.cwasm"))).expect("a file");
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + number)).expect("a time");
    }
    fs::write(folder.join("notes.txt"), "mine").expect("a file");
    prune(folder);
    let left = files(folder);
    assert_eq!(left.len(), MAX_FILES + 1);
    assert!(left[0].ends_with("003.cwasm"), "the oldest are gone: {:?}", left[0]);
    assert!(folder.join("notes.txt").exists(), "what is not ours stays");
}
