use patchboard_config::files::DiskReader;

use super::*;
use crate::trust::{TrustStore, TrustedReader};

fn souls(path: &std::path::Path) -> SoulFiles {
    SoulFiles::new(HashMap::from([("default".to_owned(), path.to_owned())]), DiskReader::shared())
}

#[test]
fn a_soul_is_read_from_its_file_and_again_when_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("SOUL.md");
    std::fs::write(&path, "Be kind.").unwrap();
    let souls = souls(&path);
    assert_eq!(souls.soul("default").as_deref(), Some("Be kind."));
    assert_eq!(souls.soul("other"), None, "an agent without a soul has none");

    std::fs::write(&path, "Be brief.").unwrap();
    // As if a second had passed.
    let mut read = souls.cache.lock().unwrap();
    let known = read.get_mut("default").unwrap();
    known.checked_at -= RECHECK_INTERVAL;
    drop(read);
    assert_eq!(souls.soul("default").as_deref(), Some("Be brief."));
}

#[test]
fn a_soul_that_cannot_be_read_or_is_too_long_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(souls(&folder.path().join("missing")).soul("default"), None);
    let long = folder.path().join("long");
    std::fs::write(&long, vec![b'x'; MAX_SOUL + 1]).unwrap();
    assert_eq!(souls(&long).soul("default"), None);
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(souls(&pipe).soul("default"), None, "nobody waits for a pipe");
    let endless = folder.path().join("endless");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    assert_eq!(souls(&endless).soul("default"), None);
}

#[test]
fn of_a_soul_that_an_agent_replaced_the_trusted_text_counts() {
    let folder = tempfile::tempdir().unwrap();
    let (path, secret) = (folder.path().join("SOUL.md"), folder.path().join("secret"));
    std::fs::write(&path, "Be kind.").unwrap();
    std::fs::write(&secret, "the operator's token").unwrap();
    let store = TrustStore::at(&folder.path().join("data"));
    let reader: Arc<dyn ConfigFileReader> = Arc::new(TrustedReader { store: store.clone() });
    assert_eq!(reader.read(&content_file(&path)).unwrap().as_deref(), Some("Be kind."));
    store.expose(folder.path()).unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&secret, &path).unwrap();
    let souls = SoulFiles::new(HashMap::from([("default".to_owned(), path)]), reader);
    assert_eq!(souls.soul("default").as_deref(), Some("Be kind."));
}
