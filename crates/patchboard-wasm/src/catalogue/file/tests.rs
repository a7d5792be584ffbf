use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Bench {
    root: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("plugins")).unwrap();
        Self { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn configured(&self, name: &str) -> PluginFiles {
        PluginFiles { file: self.path(name), folder: None }
    }

    fn in_folder(&self, name: &str) -> PluginFiles {
        let folder: Arc<Path> = self.path("plugins").into();
        crate::catalogue::folder::plugin_files(&folder, folder.join(format!("{name}.wasm")))
    }
}

#[track_caller]
fn refused(place: &PluginFiles, says: &str) {
    let (look, Err(ReadFailure::Unusable(problem))) = place.read() else { panic!("{} was read", place.file.display()) };
    assert!(problem.contains(says), "{problem}");
    assert_eq!(look, place.snapshot());
}

#[test]
fn a_file_and_what_is_beside_it_are_read_with_their_looks() {
    let bench = Bench::new();
    fs::write(bench.path("plugins/echo.wasm"), "content").unwrap();
    let place = bench.in_folder("echo");
    let (look, content) = place.read();
    let content = content.unwrap();
    assert_eq!(content.bytes, "content");
    assert_eq!(&*content.sha256, "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73");
    assert_eq!((content.sidecar.as_deref(), look.sidecar), (None, None));

    fs::write(bench.path("plugins/echo.toml"), "grants = []").unwrap();
    let (look, content) = place.read();
    assert_eq!(content.unwrap().sidecar.as_deref(), Some("grants = []"));
    assert_eq!(look, place.snapshot());
    assert!(look.sidecar.is_some());
}

#[test]
fn every_change_of_a_file_looks_different() {
    let bench = Bench::new();
    let place = bench.configured("echo.wasm");
    let mut looks = vec![place.snapshot()];
    fs::write(&place.file, "one").unwrap();
    looks.push(place.snapshot());
    fs::write(&place.file, "longer").unwrap();
    looks.push(place.snapshot());
    // The same length and the same time, in the place of the other.
    let before = fs::metadata(&place.file).unwrap().modified().unwrap();
    fs::write(bench.path("new"), "LONGER").unwrap();
    fs::File::options().write(true).open(bench.path("new")).unwrap().set_modified(before).unwrap();
    fs::rename(bench.path("new"), &place.file).unwrap();
    looks.push(place.snapshot());
    for (at, look) in looks.iter().enumerate() {
        assert!(!looks[..at].contains(look), "look {at} was there before");
    }
    assert_eq!(place.snapshot(), looks[3]);
}

#[test]
fn a_file_that_is_not_there_is_gone() {
    let bench = Bench::new();
    for place in [bench.configured("echo.wasm"), bench.in_folder("echo")] {
        let (look, content) = place.read();
        assert_eq!((look, content.unwrap_err()), (FilesSnapshot { file: None, sidecar: None }, ReadFailure::Missing));
    }
}

#[test]
fn links_may_not_lead_out_of_the_folder() {
    let bench = Bench::new();
    fs::write(bench.path("outside.wasm"), "outside").unwrap();
    symlink(bench.path("outside.wasm"), bench.path("plugins/out.wasm")).unwrap();
    refused(&bench.in_folder("out"), "is a link that leads out of the plugins folder");

    fs::write(bench.path("plugins/in.wasm"), "inside").unwrap();
    symlink("in.wasm", bench.path("plugins/alias.wasm")).unwrap();
    assert_eq!(bench.in_folder("alias").read().1.unwrap().bytes, "inside");

    symlink(bench.path("outside.wasm"), bench.path("plugins/in.toml")).unwrap();
    refused(&bench.in_folder("in"), "in.toml is a link that leads out of the plugins folder");

    symlink(bench.path("outside.wasm"), bench.path("link.wasm")).unwrap();
    assert_eq!(bench.configured("link.wasm").read().1.unwrap().bytes, "outside", "the operator wrote that path");
}

#[test]
fn what_is_no_reasonable_file_is_refused() {
    let bench = Bench::new();
    fs::create_dir(bench.path("folder.wasm")).unwrap();
    refused(&bench.configured("folder.wasm"), "is not a file");

    let pipe = bench.configured("pipe.wasm");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe.file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    refused(&pipe, "is not a file");

    let large = bench.configured("large.wasm");
    fs::File::create(&large.file).unwrap().set_len(MAX_PLUGIN_BYTES + 1).unwrap();
    refused(&large, "is larger than 64 MiB");

    fs::write(bench.path("plugins/echo.wasm"), "content").unwrap();
    fs::write(bench.path("plugins/echo.toml"), [0xff]).unwrap();
    refused(&bench.in_folder("echo"), "echo.toml is not UTF-8");
    fs::write(bench.path("plugins/echo.toml"), vec![b'#'; 64 * 1024 + 1]).unwrap();
    refused(&bench.in_folder("echo"), "echo.toml is larger than 64 KiB");
}

#[test]
fn files_that_anybody_may_change_are_named() {
    let bench = Bench::new();
    let place = bench.configured("echo.wasm");
    fs::write(&place.file, "content").unwrap();
    fs::set_permissions(&place.file, fs::Permissions::from_mode(0o664)).unwrap();
    assert_eq!(place.read().1.unwrap().world_writable, Vec::<PathBuf>::new());
    fs::set_permissions(&place.file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(place.read().1.unwrap().world_writable, [place.file]);
}
