use std::fs;

use super::*;

/// A working folder with a worker's script and a configuration, beside a data directory.
struct Machine {
    _root: tempfile::TempDir,
    real: PathBuf,
    guard: TrustGuard,
}

const POOL: ProgramKey<'_> = ProgramKey::WorkerPool("py");

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let real = root.path().canonicalize().unwrap();
        for folder in ["work", "apart"] {
            fs::create_dir(real.join(folder)).unwrap();
            fs::write(real.join(folder).join("tools.py"), "one").unwrap();
        }
        fs::write(real.join("work/patchboard.toml"), "a = 1").unwrap();
        fs::write(real.join("work/p.wasm"), "one").unwrap();
        fs::write(real.join("work/SOUL.md"), "I am.").unwrap();
        let program = |folder: &str| ObeyedProgram {
            files: vec![real.join(folder).join("tools.py")],
            folders: vec![real.join(folder)],
            readable: vec![real.join(folder)],
        };
        let programs = [("py", "work"), ("apart", "apart")];
        let obeyed = ObeyedFiles {
            configs: vec![(real.join("work/patchboard.toml"), FileLayer::Named)],
            programs: programs.map(|(name, folder)| (ProgramName::WorkerPool(name.to_owned()), program(folder))).into(),
            files: vec![real.join("work/p.wasm")],
            held: vec![real.join("work/SOUL.md"), real.join("work/absent.md")],
            secrets: vec![real.join("work/token")],
        };
        let bash = ReducedRights { writable: vec![real.join("work")], readable: vec!["/opt".into()] };
        let store = TrustStore::at(&real.join("data"));
        let guard = TrustGuard::new(store, obeyed, vec![real.join("work")], bash);
        Self { _root: root, real, guard }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.real.join(name)
    }

    fn run(&self, held: HeldFiles) -> ReadOnlyMounts {
        self.guard.before_write(&WriteReach { roots: vec![self.path("work")], held }).unwrap()
    }

    fn is_exposed(&self, folder: &str) -> bool {
        self.guard.store.is_exposed(&self.path(folder))
    }
}

#[test]
fn files_that_exist_are_held_and_their_folders_pinned() {
    let machine = Machine::new();
    let mounts = machine.run(HeldFiles::Existing);
    let files = ["work/SOUL.md", "work/p.wasm", "work/patchboard.toml", "work/tools.py"].map(|name| machine.path(name));
    assert_eq!(mounts, ReadOnlyMounts { files: files.into(), pinned: vec![machine.path("work")] });
}

#[test]
fn what_the_owner_changes_before_anything_ran_is_trusted() {
    let machine = Machine::new();
    fs::write(machine.path("work/tools.py"), "the owner's").unwrap();
    let reduced =
        ReducedRights { writable: vec![machine.path("work")], readable: vec!["/opt".into(), machine.path("work")] };
    assert_eq!(machine.guard.admit(POOL), Ok(Admission::Reduced(reduced.clone())), "it lies where agents write");
    assert_eq!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(Admission::Full));
    machine.run(HeldFiles::Nothing);
    assert_eq!(machine.guard.admit(POOL), Ok(Admission::Reduced(reduced)));
}

#[test]
fn what_changes_after_a_command_ran_waits_for_its_owner() {
    for (file, text) in [("work/tools.py", "evil"), ("work/json.py", "a module beside it")] {
        let machine = Machine::new();
        machine.run(HeldFiles::Nothing);
        assert!(machine.is_exposed("work") && !machine.is_exposed("apart"));
        fs::write(machine.path(file), text).unwrap();
        let refused = machine.guard.admit(POOL).unwrap_err();
        assert!(refused.contains(&file["work/".len()..]) && refused.contains("`patchboard trust`"), "{refused}");
        let program = &machine.guard.obeyed.programs[&ProgramName::of(POOL)];
        trust_program(&machine.guard.store, program).unwrap();
        assert!(machine.guard.admit(POOL).is_ok());
        fs::write(machine.path("apart/tools.py"), "the owner's").unwrap();
        assert_eq!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(Admission::Full));
    }
}

#[test]
fn a_plugin_is_admitted_by_the_content_that_was_read() {
    use sha2::{Digest, Sha256};
    let sha256 = |text: &str| -> String { Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect() };
    let machine = Machine::new();
    let plugin = machine.path("work/p.wasm");
    assert!(machine.guard.admit_file(&plugin, &sha256("the owner's")).is_ok());
    machine.run(HeldFiles::Nothing);
    assert!(machine.guard.admit_file(&plugin, &sha256("one")).is_ok());
    // Whatever lies there by now.
    let refused = machine.guard.admit_file(&plugin, &sha256("evil")).unwrap_err();
    assert!(refused.contains("patchboard trust"), "{refused}");
}

#[test]
fn a_secret_that_appears_where_a_command_ran_is_not_used() {
    let machine = Machine::new();
    let (store, token) = (&machine.guard.store, machine.path("work/token"));
    fs::write(&token, "the owner's").unwrap();
    machine.run(HeldFiles::Nothing);
    assert_eq!(waiting_secret(store, &token), None, "it was there before, and is closed to commands");
    fs::remove_file(&token).unwrap();
    machine.run(HeldFiles::Nothing);
    fs::write(&token, "planted").unwrap();
    assert!(waiting_secret(store, &token).is_some());
    trust_file(store, &token).unwrap();
    assert_eq!(waiting_secret(store, &token), None);
}

#[test]
fn nothing_is_started_that_cannot_be_recorded() {
    let machine = Machine::new();
    fs::write(machine.path("data"), "no folder").unwrap();
    let reach = WriteReach { roots: vec![machine.path("work")], held: HeldFiles::Nothing };
    let refused = machine.guard.before_write(&reach).unwrap_err();
    assert!(refused.starts_with("not started, because it cannot be recorded"), "{refused}");
}

#[test]
fn an_untrusted_project_file_does_not_become_trusted_by_a_command() {
    let mut machine = Machine::new();
    let path = machine.path("work/patchboard.toml");
    machine.guard.obeyed.configs = vec![(path.clone(), FileLayer::Project)];
    machine.run(HeldFiles::Nothing);
    assert_eq!(machine.guard.store.config(&path), None);
}
