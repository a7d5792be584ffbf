use std::os::unix::fs::symlink;

use super::*;

struct Machine(tempfile::TempDir);

impl Machine {
    /// `bin` is on the search path after the empty `first`, `work` is the working folder.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["first", "env/bin", "work/tools", "work/sub"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (file, text) in [
            ("env/bin/python3", "\u{7f}ELF"),
            ("env/bin/script", "#!/bin/sh"),
            ("work/main.py", "print()"),
            ("work/tools/run", "#!/usr/bin/env python3"),
            ("work/settings.json", "{}"),
        ] {
            fs::write(root.path().join(file), text).unwrap();
        }
        Self(root)
    }

    fn of(&self, command: &[&str], variables: &[(&str, &str)]) -> ObeyedProgram {
        let root = self.0.path();
        let search_path = format!("{}:{}", root.join("first").display(), root.join("env/bin").display());
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let around = Surroundings {
            working_folder: &root.join("work"),
            search_path: Some(&search_path),
            home: None,
            variable: &variable,
        };
        ObeyedProgram::of(&command, &around)
    }

    fn relative(&self, paths: &[PathBuf]) -> Vec<String> {
        let root = self.0.path();
        paths.iter().map(|path| path.strip_prefix(root).unwrap_or(path).display().to_string()).collect()
    }
}

#[test]
fn a_command_consists_of_its_program_its_scripts_and_their_folders() {
    let machine = Machine::new();
    let python = ["env/bin/python3", "first/python3"];
    let cases: &[(&[&str], &[&str], &[&str])] = &[
        (&["python3", "main.py"], &[python[0], python[1], "work/main.py"], &["work"]),
        (&["python3", "-m", "package"], &python, &["work"]),
        (&["python3", "-c", "import tools"], &python, &["work"]),
        (
            &["python3", "-u", "main.py", "settings.json"],
            &[python[0], python[1], "work/main.py", "work/settings.json"],
            &["work"],
        ),
        (&["python3", "--config=settings.json"], &[python[0], python[1], "work/settings.json"], &["work"]),
        (&["python3", "sub"], &python, &["work/sub"]),
        (&["script"], &["env/bin/script", "first/script"], &["env/bin"]),
        (&["tools/run", "sub"], &["work/tools/run"], &["work/tools"]),
        (&["./absent"], &["work/./absent"], &[]),
        (&["nowhere"], &["env/bin/nowhere", "first/nowhere"], &[]),
        (&[], &[], &[]),
    ];
    for (command, files, folders) in cases {
        let found = machine.of(command, &[]);
        assert_eq!(machine.relative(&found.files), *files, "files of {command:?}");
        assert_eq!(machine.relative(&found.folders), *folders, "folders of {command:?}");
    }
}

#[test]
fn folders_named_by_variables_hold_code_too() {
    let machine = Machine::new();
    let found = machine.of(&["python3", "main.py"], &[("PYTHONPATH", "sub::/lib/code")]);
    assert_eq!(machine.relative(&found.folders), ["/lib/code", "work", "work/sub"]);
}

#[test]
fn a_linked_script_is_looked_at_where_it_leads() {
    let machine = Machine::new();
    symlink(machine.0.path().join("work/tools/run"), machine.0.path().join("work/sub/linked.py")).unwrap();
    let found = machine.of(&["python3", "sub/linked.py"], &[]);
    assert_eq!(machine.relative(&found.folders), ["work/sub", "work/tools"]);
}

#[test]
fn it_may_read_its_interpreter_with_its_packages_and_its_scripts() {
    let machine = Machine::new();
    let found = machine.of(&["python3", "main.py"], &[]);
    assert_eq!(machine.relative(&found.readable), ["env", "env/bin/python3", "work", "work/main.py"]);
}

#[test]
fn interpreters_are_known_with_their_versions() {
    for (name, expected) in [("python3.11", true), ("/usr/bin/node", true), ("bash", true), ("mytool", false)] {
        assert_eq!(is_interpreter(name), expected, "{name}");
    }
}
