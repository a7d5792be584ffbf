use std::fs;

use super::*;
use crate::trust::fingerprint::FolderFingerprint;
use crate::trust::pending_trust::{ProgramSnapshot, untrusted_secret};

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
        let program = |folder: &str| GuardedProgram {
            files: vec![real.join(folder).join("tools.py")],
            folders: vec![real.join(folder)],
            readable: vec![real.join(folder)],
        };
        let programs = [("py", "work"), ("apart", "apart")];
        let obeyed = GuardedFiles {
            configs: vec![(real.join("work/patchboard.toml"), FileLayer::Named)],
            programs: programs.map(|(name, folder)| (ProgramName::WorkerPool(name.to_owned()), program(folder))).into(),
            files: vec![real.join("work/p.wasm")],
            read_only: vec![real.join("work/SOUL.md"), real.join("work/absent.md")],
            secrets: vec![real.join("work/token")],
            data_dir: real.join("data"),
            server_data: vec![real.join("data")],
        };
        let bash = ReducedRights { writable: vec![real.join("work")], readable: vec!["/opt".into()] };
        let store = TrustStore::at(&real.join("data"));
        let guard = TrustGuard::new(store, obeyed, vec![real.join("work")], bash);
        Self { _root: root, real, guard }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.real.join(name)
    }

    /// What a process that has ended got.
    fn run(&self, held: FileSealing) -> ReadOnlyMounts {
        self.start(held).mounts
    }

    fn start(&self, held: FileSealing) -> WriteProtection {
        self.guard.before_write(&WriteReach { roots: vec![self.path("work")], sealed_by: held }).unwrap()
    }

    fn config(&self) -> PathBuf {
        self.path("work/patchboard.toml")
    }

    fn is_exposed(&self, folder: &str) -> bool {
        self.guard.store.is_exposed(&self.path(folder))
    }
}

#[test]
fn files_that_exist_are_held_and_their_folders_pinned() {
    let machine = Machine::new();
    let mounts = machine.run(FileSealing::Existing);
    let files = ["work/SOUL.md", "work/p.wasm", "work/patchboard.toml", "work/tools.py"].map(|name| machine.path(name));
    assert_eq!(mounts, ReadOnlyMounts { files: files.into(), pinned: vec![machine.path("work")] });
}

#[test]
fn what_the_owner_changes_before_anything_ran_is_trusted() {
    let machine = Machine::new();
    fs::write(machine.path("work/tools.py"), "the owner's").unwrap();
    let reduced =
        ReducedRights { writable: vec![machine.path("work")], readable: vec!["/opt".into(), machine.path("work")] };
    assert_eq!(machine.guard.admit(POOL), Ok(ProgramRights::Reduced(reduced.clone())), "it lies where agents write");
    assert_eq!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(ProgramRights::Full));
    machine.run(FileSealing::Nothing);
    assert_eq!(machine.guard.admit(POOL), Ok(ProgramRights::Reduced(reduced)));
}

#[test]
fn a_program_in_a_folder_that_was_granted_to_a_run_gets_the_rights_of_commands() {
    let machine = Machine::new();
    assert_eq!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(ProgramRights::Full));
    assert!(!machine.guard.is_agent_writable(&machine.path("apart/tools.py")));
    machine.guard.mark_agent_writable(&machine.path("apart"));
    assert!(machine.guard.is_agent_writable(&machine.path("apart/tools.py")));
    assert!(matches!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(ProgramRights::Reduced(_))));
}

#[test]
fn what_changes_after_a_command_ran_waits_for_its_owner() {
    for (file, text) in [("work/tools.py", "evil"), ("work/json.py", "a module beside it")] {
        let machine = Machine::new();
        machine.run(FileSealing::Nothing);
        assert!(machine.is_exposed("work") && !machine.is_exposed("apart"));
        fs::write(machine.path(file), text).unwrap();
        let refused = machine.guard.admit(POOL).unwrap_err();
        assert!(refused.contains(&file["work/".len()..]) && refused.contains("`patchboard trust`"), "{refused}");
        let program = &machine.guard.guarded.programs[&ProgramName::of(POOL)];
        ProgramSnapshot::of_program(program, &[]).unwrap().record(&machine.guard.store).unwrap();
        assert!(machine.guard.admit(POOL).is_ok());
        fs::write(machine.path("apart/tools.py"), "the owner's").unwrap();
        assert_eq!(machine.guard.admit(ProgramKey::WorkerPool("apart")), Ok(ProgramRights::Full));
    }
}

#[test]
fn a_plugin_is_admitted_by_the_content_that_was_read() {
    use sha2::{Digest, Sha256};
    let sha256 = |text: &str| -> String { Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect() };
    let machine = Machine::new();
    let plugin = machine.path("work/p.wasm");
    assert!(machine.guard.admit_file(&plugin, &sha256("the owner's")).is_ok());
    machine.run(FileSealing::Nothing);
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
    machine.run(FileSealing::Nothing);
    assert_eq!(untrusted_secret(store, &token), None, "it was there before, and is closed to commands");
    fs::remove_file(&token).unwrap();
    machine.run(FileSealing::Nothing);
    fs::write(&token, "planted").unwrap();
    assert!(untrusted_secret(store, &token).is_some());
    ProgramSnapshot::of_file(&token).unwrap().record(store).unwrap();
    assert_eq!(untrusted_secret(store, &token), None);
}

#[test]
fn nothing_is_started_that_cannot_be_recorded() {
    let machine = Machine::new();
    fs::write(machine.path("data"), "no folder").unwrap();
    let reach = WriteReach { roots: vec![machine.path("work")], sealed_by: FileSealing::Nothing };
    let refused = machine.guard.before_write(&reach).unwrap_err();
    assert!(refused.starts_with("not started, because it cannot be recorded"), "{refused}");
}

#[test]
fn an_untrusted_project_file_does_not_become_trusted_by_a_command() {
    let mut machine = Machine::new();
    let path = machine.path("work/patchboard.toml");
    machine.guard.guarded.configs = vec![(path.clone(), FileLayer::Project)];
    let kept = machine.start(FileSealing::Existing);
    assert!(kept.mounts.files.contains(&path), "its owner may trust it while the command runs");
    assert_eq!(machine.guard.store.config(&path), None);
    machine.run(FileSealing::Nothing);
    assert!(machine.is_exposed("work"));
    assert_eq!(machine.guard.store.config(&path), None);
}

/// A guard of another configuration, with its own files elsewhere.
fn without_files(machine: &Machine) -> TrustGuard {
    let obeyed = GuardedFiles { data_dir: machine.path("data"), ..GuardedFiles::default() };
    TrustGuard::new(machine.guard.store.clone(), obeyed, vec![machine.path("work")], ReducedRights::default())
}

#[test]
fn what_was_planted_by_one_command_is_not_trusted_by_the_next() {
    use std::os::unix::fs::symlink;
    let machine = Machine::new();
    let (config, plugin) = (machine.config(), machine.path("work/p.wasm"));
    machine.run(FileSealing::Nothing);
    fs::create_dir(machine.path("work/z")).unwrap();
    for (file, text) in [(&config, "evil = 1"), (&plugin, "evil"), (&machine.path("work/tools.py"), "evil")] {
        let planted = machine.path("work/z").join(file.file_name().unwrap());
        fs::write(&planted, text).unwrap();
        fs::remove_file(file).unwrap();
        symlink(&planted, file).unwrap();
    }
    // The folder `z` is a key that is new.
    for held in [FileSealing::Nothing, FileSealing::Existing, FileSealing::Sealed] {
        machine.run(held);
    }
    assert!(machine.is_exposed("work/z"));
    let store = &machine.guard.store;
    assert_eq!(store.config(&config).as_deref(), Some("a = 1"));
    assert!(!store.file(&plugin).unwrap().matches_disk(&plugin));
    assert!(machine.guard.admit(POOL).is_err());
}

#[test]
fn a_folder_that_leads_elsewhere_now_is_not_trusted_anew() {
    use std::os::unix::fs::symlink;
    let mut machine = Machine::new();
    fs::create_dir(machine.path("work/scripts")).unwrap();
    fs::write(machine.path("work/scripts/a.py"), "one").unwrap();
    let program = GuardedProgram { folders: vec![machine.path("work/scripts")], ..GuardedProgram::default() };
    machine.guard.guarded.programs = [(ProgramName::of(POOL), program)].into();
    machine.run(FileSealing::Nothing);
    fs::rename(machine.path("work/scripts"), machine.path("work/evil")).unwrap();
    fs::write(machine.path("work/evil/a.py"), "evil").unwrap();
    symlink(machine.path("work/evil"), machine.path("work/scripts")).unwrap();
    machine.run(FileSealing::Nothing);
    assert!(machine.guard.admit(POOL).is_err());
}

#[test]
fn files_of_other_configurations_are_held_or_exposed_too() {
    let machine = Machine::new();
    let store = &machine.guard.store;
    store.trust_config(&machine.config(), "a = 1").unwrap();
    store.trust_folder(&machine.path("apart"), &FolderFingerprint::of(&machine.path("apart"), &[])).unwrap();
    let other = without_files(&machine);
    fs::write(machine.config(), "a = 2").unwrap();
    let reach = |held| WriteReach { roots: vec![machine.path("work")], sealed_by: held };
    let kept = other.before_write(&reach(FileSealing::Existing)).unwrap();
    assert!(kept.mounts.files.contains(&machine.config()), "{:?}", kept.mounts);
    // File tools refuse only the files of their own configuration by name.
    other.before_write(&reach(FileSealing::Sealed)).unwrap();
    assert_eq!((machine.is_exposed("work"), machine.is_exposed("apart")), (true, false));
    assert_eq!(store.config(&machine.config()).as_deref(), Some("a = 2"), "its owner's, until then");
    let apart = WriteReach { roots: vec![machine.path("apart")], sealed_by: FileSealing::Existing };
    other.before_write(&apart).unwrap();
    assert!(machine.is_exposed("apart"), "a folder with scripts of another configuration");
}

#[test]
fn of_very_many_files_of_others_some_are_exposed_and_not_held() {
    let machine = Machine::new();
    for number in 0..=MAX_HELD_OF_OTHERS {
        let file = machine.path("work").join(format!("{number}/patchboard.toml"));
        fs::create_dir(file.parent().unwrap()).unwrap();
        fs::write(&file, "a = 1").unwrap();
        machine.guard.store.trust_config(&file, "a = 1").unwrap();
    }
    let other = without_files(&machine);
    let reach = WriteReach { roots: vec![machine.path("work")], sealed_by: FileSealing::Existing };
    assert_eq!(other.before_write(&reach).unwrap().mounts.files.len(), MAX_HELD_OF_OTHERS);
    let exposed = (0..=MAX_HELD_OF_OTHERS).filter(|number| machine.is_exposed(&format!("work/{number}")));
    assert_eq!(exposed.count(), 1);
}

#[test]
fn what_its_owner_puts_over_a_held_file_is_not_obeyed_while_the_process_runs_nor_after() {
    let mut machine = Machine::new();
    // Alone, so that nothing else exposes the folder.
    machine.guard.guarded =
        GuardedFiles { configs: vec![(machine.config(), FileLayer::Named)], ..GuardedFiles::default() };
    let running = machine.start(FileSealing::Existing);
    let store = &machine.guard.store;
    assert_eq!(store.config(&machine.config()).as_deref(), Some("a = 1"), "trusted when it was held");
    fs::write(machine.path("work/new"), "the owner's").unwrap();
    fs::rename(machine.path("work/new"), machine.config()).unwrap();
    assert!(is_exposed(store, &machine.config()) && !machine.is_exposed("work"));
    drop(machine.start(FileSealing::Existing));
    assert_eq!(store.config(&machine.config()).as_deref(), Some("a = 1"));
    drop(running);
    assert!(machine.is_exposed("work"));
    assert_eq!(store.config(&machine.config()).as_deref(), Some("a = 1"));
}

#[test]
fn what_its_owner_does_while_nothing_runs_or_in_place_asks_nothing() {
    let mut machine = Machine::new();
    machine.guard.guarded =
        GuardedFiles { configs: vec![(machine.config(), FileLayer::Named)], ..GuardedFiles::default() };
    let store = &machine.guard.store;
    let running = machine.start(FileSealing::Existing);
    fs::write(machine.config(), "in place").unwrap();
    assert!(!is_exposed(store, &machine.config()));
    drop(running);
    fs::write(machine.path("work/new"), "renamed").unwrap();
    fs::rename(machine.path("work/new"), machine.config()).unwrap();
    assert!(!is_exposed(store, &machine.config()));
    machine.run(FileSealing::Existing);
    assert_eq!(store.config(&machine.config()).as_deref(), Some("renamed"));
}

#[test]
fn a_pipe_in_the_place_of_an_obeyed_file_holds_nobody_up() {
    let machine = Machine::new();
    for file in [machine.config(), machine.path("work/p.wasm"), machine.path("work/tools.py")] {
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    }
    machine.run(FileSealing::Nothing);
    assert!(machine.is_exposed("work"));
}
