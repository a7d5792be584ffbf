use std::fs;

use super::*;

#[test]
fn what_is_recorded_is_what_was_shown() {
    let root = tempfile::tempdir().unwrap();
    let (store, folder) = (TrustStore::at(&root.path().join("data")), root.path().join("work"));
    fs::create_dir(&folder).unwrap();
    let script = folder.join("tools.py");
    fs::write(&script, "one").unwrap();
    let program = GuardedProgram { files: vec![script.clone()], folders: vec![folder.clone()], readable: Vec::new() };
    ProgramSnapshot::of_program(&program, &[]).unwrap().record(&store).unwrap();
    store.expose(&folder).unwrap();
    assert_eq!(pending_changes(&store, &program, &[]), Vec::<String>::new());
    fs::write(&script, "the owner's").unwrap();
    let shown = ProgramSnapshot::of_program(&program, &[]).unwrap();
    let lines = [format!("changed {}", script.display()), format!("changed tools.py in {}", folder.display())];
    assert_eq!(shown.pending_changes(&store), lines);
    // While the owner reads.
    fs::write(&script, "planted now").unwrap();
    fs::write(folder.join("json.py"), "planted").unwrap();
    assert_eq!(shown.pending_changes(&store), lines);
    shown.record(&store).unwrap();
    let mut after = pending_changes(&store, &program, &[]);
    after.sort();
    let mut expected = lines.to_vec();
    expected.push(format!("new json.py in {}", folder.display()));
    assert_eq!(after, expected);
    fs::remove_file(folder.join("json.py")).unwrap();
    fs::write(&script, "the owner's").unwrap();
    assert_eq!(pending_changes(&store, &program, &[]), Vec::<String>::new());
}

#[test]
fn a_file_that_is_gone_can_be_trusted_to_be_gone() {
    let root = tempfile::tempdir().unwrap();
    let store = TrustStore::at(&root.path().join("data"));
    let file = root.path().join("p.wasm");
    fs::write(&file, "one").unwrap();
    ProgramSnapshot::of_file(&file).unwrap().record(&store).unwrap();
    store.expose(root.path()).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(pending_file_change(&store, &file).is_some());
    ProgramSnapshot::of_file(&file).unwrap().record(&store).unwrap();
    assert_eq!(pending_file_change(&store, &file), None);
    fs::write(&file, "one").unwrap();
    assert!(pending_file_change(&store, &file).is_some(), "it came back");
}
