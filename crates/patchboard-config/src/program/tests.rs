use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[derive(Clone, Copy, PartialEq, Eq)]
enum RunsIn {
    WorkingFolder,
    PrivateFolder,
}

struct Machine(tempfile::TempDir);

impl Machine {
    /// `env/bin` is on the search path after the empty `first`; `work` is the working folder, and agents write to `shared`.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for folder in ["first", "env/bin", "work/tools", "work/sub", "work/build", "shared/sub"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        for (file, text) in [
            ("env/bin/python3", "\u{7f}ELF"),
            ("env/bin/npx", "\u{7f}ELF"),
            ("env/bin/node", "\u{7f}ELF"),
            ("env/bin/script", "#!/bin/sh"),
            ("work/main.py", "print()"),
            ("work/build/index.js", ""),
            ("work/tools/run", "#!/bin/sh"),
            ("work/settings.json", "{}"),
            ("shared/main.py", ""),
        ] {
            let path = root.path().join(file);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(root)
    }

    fn of(&self, command: &[&str], variables: &[(&str, &str)]) -> GuardedProgram {
        self.look(command, variables, "work", RunsIn::WorkingFolder, GuardedProgram::of)
    }

    fn look<T>(
        &self,
        command: &[&str],
        variables: &[(&str, &str)],
        folder: &str,
        runs_in: RunsIn,
        look: impl FnOnce(&[String], &ProgramContext<'_>) -> T,
    ) -> T {
        let root = self.0.path();
        let folder = root.join(folder);
        let search_path = format!("{}:{}", root.join("first").display(), root.join("env/bin").display());
        let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let around = ProgramContext {
            base: &folder,
            working_folder: (runs_in == RunsIn::WorkingFolder).then_some(folder.as_path()),
            search_path: Some(&search_path),
            home: None,
            variable: &variable,
            is_agent_writable: &|path| path.starts_with(root.join("shared")),
        };
        look(&command, &around)
    }

    /// The command line as it is started, with paths relative to the root.
    fn started(&self, command: &[&str], runs_in: RunsIn) -> Vec<String> {
        let started = self.look(command, &[], "work", runs_in, resolved_command);
        let root = format!("{}/", self.0.path().display());
        started.iter().map(|word| word.replace(&root, "@")).collect()
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
        (&["script"], &["/bin/sh", "env/bin/script", "first/script"], &["env/bin"]),
        (&["tools/run", "sub"], &["/bin/sh", "work/tools/run"], &["work/tools"]),
        // Options in one word, and after options with values.
        (&["python3", "-um", "srv"], &python, &["work"]),
        (&["python3", "-X", "utf8", "-m", "srv"], &python, &["work"]),
        (&["python3", "-Xfrozen_modules=off", "sub"], &python, &["work/sub"]),
        // Endings that may be left out.
        (&["node", "build/index"], &["env/bin/node", "first/node", "work/build/index.js"], &["work/build"]),
        (
            &["node", "--require=./build/index"],
            &["env/bin/node", "first/node", "work/./build/index.js"],
            &["work/./build"],
        ),
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
fn a_program_is_code_of_a_folder_in_which_agents_write() {
    let machine = Machine::new();
    let shared = machine.0.path().join("shared");
    let shared = shared.display();
    let folders = |command: &[&str], variables: &[(&str, &str)], folder: &str, runs_in| {
        machine.relative(&machine.look(command, variables, folder, runs_in, GuardedProgram::of).folders)
    };
    let here = RunsIn::WorkingFolder;
    for command in [&["make", "serve"][..], &["npm", "start"], &["npx", "--no-install", "x"], &["/bin/true"]] {
        assert_eq!(folders(command, &[], "shared", here), ["shared"], "{command:?}");
        assert_eq!(folders(command, &[], "work", here), [""; 0], "{command:?}");
        assert_eq!(folders(command, &[], "shared", RunsIn::PrivateFolder), [""; 0], "{command:?}");
    }
    // Folders among the words, whatever the program.
    for words in
        [format!("--directory {shared}"), format!("--directory={shared}"), format!("-C{shared}"), shared.to_string()]
    {
        let command: Vec<&str> = ["uv"].into_iter().chain(words.split(' ')).chain(["run", "s.py"]).collect();
        for runs_in in [here, RunsIn::PrivateFolder] {
            assert_eq!(folders(&command, &[], "work", runs_in), ["shared"], "{command:?}");
        }
    }
    for variable in ["PYTHONHOME", "RUBYLIB", "PERL5LIB", "LD_LIBRARY_PATH"] {
        let value = format!("/usr/lib:{shared}");
        assert_eq!(folders(&["/bin/true"], &[(variable, &value)], "work", here), ["shared"], "{variable}");
    }
}

#[test]
fn files_named_by_variables_are_part_of_it() {
    let machine = Machine::new();
    let script = machine.0.path().join("shared/main.py").display().to_string();
    let without_ending = script.trim_end_matches(".py");
    for (variable, value) in [
        ("PYTHONSTARTUP", script.clone()),
        ("BASH_ENV", script.clone()),
        ("ENV", script.clone()),
        ("LD_PRELOAD", format!("/nowhere.so {script}")),
        ("NODE_OPTIONS", format!("--max-old-space-size=100 --require {without_ending}")),
        ("NODE_OPTIONS", format!("--import={script}")),
    ] {
        for runs_in in [RunsIn::WorkingFolder, RunsIn::PrivateFolder] {
            let found = machine.look(&["/bin/true"], &[(variable, &value)], "work", runs_in, GuardedProgram::of);
            assert_eq!(machine.relative(&found.files), ["/bin/true", "shared/main.py"], "{variable}={value}");
        }
    }
}

#[test]
fn the_interpreter_of_a_script_is_part_of_it_two_levels_deep() {
    let machine = Machine::new();
    let root = machine.0.path();
    let script = |file: &str, line: &str| {
        fs::write(root.join(file), line).unwrap();
        fs::set_permissions(root.join(file), fs::Permissions::from_mode(0o755)).unwrap();
    };
    script("env/bin/inner", &format!("#!{}/work/deep\n", root.display()));
    script("work/deep", "#!/bin/sh\n");
    for line in ["#!/usr/bin/env inner", "#!/usr/bin/env -S inner -m srv\n", "#! /usr/bin/env -u X A=b inner"] {
        script("work/outer", line);
        let found = machine.of(&["./outer"], &[]);
        let expected = ["env/bin/inner", "first/inner", "work/./outer", "work/deep", "/usr/bin/env"];
        let mut files = machine.relative(&found.files);
        files.sort_by_key(|file| expected.iter().position(|known| known == file));
        assert_eq!(files, expected, "{line}");
        assert_eq!(found.folders, [root.join("env/bin"), root.join("work")], "{line}");
    }
    script("work/module", "#!/usr/bin/env -S python3 -um srv\n");
    // In another folder than the script's, so that it is known why.
    let folders = machine.look(&["../module"], &[], "work/sub", RunsIn::WorkingFolder, GuardedProgram::of).folders;
    assert!(folders.contains(&root.join("work/sub")), "{folders:?}");
}

#[test]
fn the_program_that_was_looked_at_is_started() {
    let machine = Machine::new();
    let root = machine.0.path();
    // It is there, and cannot be executed.
    fs::write(root.join("first/python3"), "").unwrap();
    fs::set_permissions(root.join("first/python3"), fs::Permissions::from_mode(0o644)).unwrap();
    let here = RunsIn::WorkingFolder;
    assert_eq!(machine.started(&["python3", "main.py"], here), ["@env/bin/python3", "main.py"]);
    assert_eq!(machine.started(&["nowhere", "main.py"], here), ["nowhere", "main.py"]);
    // An empty element is the current folder, which the system looks into.
    let found = |search_path: &str| {
        let located = locate("main.py", &root.join("work"), Some(search_path));
        (machine.relative(located.found.as_slice()), machine.relative(&located.earlier_candidates))
    };
    for search_path in [":/usr/bin", "/nowhere::/usr/bin", "/nowhere:"] {
        assert_eq!(found(search_path).0, ["work/main.py"], "{search_path}");
    }
    assert_eq!(found("/nowhere"), (vec![], vec!["/nowhere/main.py".to_owned()]));
}

#[test]
fn words_that_name_something_are_absolute_for_a_private_folder() {
    let machine = Machine::new();
    fs::create_dir(machine.0.path().join("work/server")).unwrap();
    let check = |command: &[&str], expected: &[&str]| {
        assert_eq!(machine.started(command, RunsIn::PrivateFolder), expected, "{command:?}");
    };
    check(
        &["python3", "-u", "main.py", "settings.json", "5"],
        &["@env/bin/python3", "-u", "@work/main.py", "@work/settings.json", "5"],
    );
    check(&["python3", "sub"], &["@env/bin/python3", "@work/sub"]);
    check(&["python3", "-m", "sub", "sub"], &["@env/bin/python3", "-m", "sub", "@work/sub"]);
    check(&["node", "build/index"], &["@env/bin/node", "@work/build/index"]);
    check(&["tools/run", "--config=settings.json"], &["@work/tools/run", "--config=@work/settings.json"]);
    // Names of packages and subcommands are no folders, even where there is one of that name.
    check(&["npx", "-y", "server", "sub", "."], &["@env/bin/npx", "-y", "server", "@work/sub", "@work/."]);
    check(&["npx", "-p", "server", "sub"], &["@env/bin/npx", "-p", "server", "sub"]);
    check(&["docker", "server", "-i", "image"], &["docker", "server", "-i", "image"]);
    check(
        &["uv", "--directory", "server", "run", "./sub"],
        &["uv", "--directory", "@work/server", "run", "@work/./sub"],
    );
    check(&["sh", "-c", "sub", "main.py"], &["sh", "-c", "sub", "@work/main.py"]);
}

#[test]
fn interpreters_are_known_with_their_versions() {
    for (name, expected) in [
        ("python3.11", CommandSyntax::Interpreter),
        ("/usr/bin/node", CommandSyntax::Interpreter),
        ("bash", CommandSyntax::Interpreter),
        ("uvx", CommandSyntax::PackageRunner),
        ("mytool", CommandSyntax::Other),
    ] {
        assert_eq!(CommandSyntax::of(name), expected, "{name}");
    }
}
