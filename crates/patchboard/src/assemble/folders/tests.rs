use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn each_program_has_a_folder_of_its_own_that_only_its_owner_reads() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["time", "a.b", "..", ".", "a/../b", "%2E.", "", "größe"];
    let made: Vec<PathBuf> =
        names.iter().map(|name| program_folder(dir.path(), ProgramKind::McpServer, name).unwrap()).collect();
    for (name, folder) in names.iter().zip(&made).filter(|(name, _)| !name.is_empty()) {
        assert_eq!(folder.parent(), Some(dir.path().join("mcp").as_path()), "{name}");
        assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700, "{name}");
    }
    assert_eq!(made.iter().collect::<HashSet<_>>().len(), names.len());
    assert_eq!(program_folder(dir.path(), ProgramKind::WorkerPool, "py").unwrap(), dir.path().join("workers/py"));
}
