use super::{InterfaceNames, check};

const TOOLS: &str = "patchboard:plugin/tools@1.0.0";

#[test]
fn knows_what_there_is() {
    let imports = [
        "patchboard:plugin/http@1.0.0",
        "patchboard:plugin/log@1.2.3",
        "wasi:cli/environment@0.2.0",
        "wasi:io/streams@0.2.12",
    ];
    let names = check(&imports, &[TOOLS, "patchboard:plugin/channel@1.0.0", "else:where/thing@3.0.0"]).expect("fine");
    let expected = InterfaceNames {
        imports: ["http".into(), "log".into()].into(),
        wasi: vec!["wasi:cli/environment@0.2.0".to_owned(), "wasi:io/streams@0.2.12".to_owned()],
        tools: true,
        channel: true,
    };
    assert_eq!(names, expected);
}

#[test]
fn says_what_there_is_not() {
    let check = |imports: &[&str], exports: &[&str], sentence: &str| {
        assert_eq!(check(imports, exports).expect_err("refused").to_string(), sentence);
    };
    check(
        &["wasi:http/outgoing-handler@0.2.0", "env"],
        &[TOOLS],
        "imports what is not provided: `wasi:http/outgoing-handler@0.2.0`, `env` (HTTP is reached through patchboard:plugin/http)",
    );
    check(&["wasi:cli/run@0.3.0"], &[TOOLS], "imports what is not provided: `wasi:cli/run@0.3.0`");
    check(&["wasi:cli/exit@0.3.0"], &[TOOLS], "imports what is not provided: `wasi:cli/exit@0.3.0`");
    check(
        &["patchboard:plugin/files@1.0.0"],
        &[TOOLS],
        "imports what is not provided: `patchboard:plugin/files@1.0.0`",
    );
    check(
        &["a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "a9", "a10"],
        &[TOOLS],
        "imports what is not provided: `a1`, `a2`, `a3`, `a4`, `a5`, `a6`, `a7`, `a8` and 2 more",
    );
    let version = "is built for version 2.0.0 of patchboard:plugin, but this server knows version 1.0.0 (build it against the wit folder of this server's version)";
    check(&["patchboard:plugin/http@2.0.0"], &[TOOLS], version);
    check(&[], &["patchboard:plugin/tools@2.0.0"], version);
    check(
        &[],
        &["patchboard:plugin/tools"],
        "is built for version none of patchboard:plugin, but this server knows version 1.0.0 (build it against the wit folder of this server's version)",
    );
    check(
        &[],
        &["wasi:cli/run@0.2.0"],
        "exports neither patchboard:plugin/channel@1.0.0 nor patchboard:plugin/tools@1.0.0 (a plugin exports at least one of them)",
    );
}
