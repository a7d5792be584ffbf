use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::{ProgramLookupError, find_program, pools, protection, socket};
use crate::cli::doctor::DoctorFinding;
use crate::test_home::{Bench, PEM};

/// What it says, with `bad` before what is wrong.
fn said(finding: &DoctorFinding, bench: &Bench) -> String {
    bench.tidy(&match finding {
        DoctorFinding::Good(text) => text.clone(),
        DoctorFinding::Note(text) => format!("note {text}"),
        DoctorFinding::Bad { problem, hint } => format!("bad {problem} ({hint})"),
    })
}

#[test]
fn who_may_call() {
    let check = |settings: &str, wanted: Option<&str>| {
        let bench = Bench::with_file(&format!("[bridge]\n{settings}")).file("project/c.pem", PEM).env("TOKEN", "t");
        let found = protection(&bench.load().config).map(|finding| said(&finding, &bench));
        assert_eq!(found.as_deref(), wanted, "{settings}");
    };
    let tls = "tls = { cert = \"c.pem\", key = \"c.pem\" }";
    let mutual = "tls = { cert = \"c.pem\", key = \"c.pem\", client_ca = \"c.pem\" }";
    let token = "token = \"env:TOKEN\"";
    check("listen = \"off\"", None);
    check("", Some("bridge: plaintext, every program on this machine may call it; `bridge.token` asks for a token"));
    check(token, Some("bridge: plaintext, clients need the token"));
    check(mutual, Some("bridge: encrypted, clients need a certificate"));
    check(&format!("{mutual}\n{token}"), Some("bridge: encrypted, clients need a certificate and the token"));
    let far = "listen = \"0.0.0.0:50051\"";
    check(&format!("{far}\n{tls}\n{token}"), Some("bridge: encrypted, clients need the token"));
    check(&format!("{far}\n{token}\ninsecure = true"), Some("note bridge: plaintext, clients need the token"));
}

#[test]
fn sockets() {
    let bench = |path: &str| Bench::with_file(&format!("data_dir = \"../data\"\n[bridge]\nunix_socket = \"{path}\""));
    let look = |bench: &Bench| said(&socket(&bench.load().config).unwrap(), bench);
    assert_eq!(socket(&Bench::new().load().config), None);
    let off = Bench::with_file("[bridge]\nlisten = \"off\"\nunix_socket = \"b.sock\"");
    assert_eq!(socket(&off.load().config), None);
    let fresh = bench("b.sock");
    assert_eq!(look(&fresh), "bridge: Unix socket ~/project/../data/b.sock will be made, for programs of this user");
    let stale = bench("b.sock").folder("data");
    drop(UnixListener::bind(stale.path("data/b.sock")).unwrap());
    assert_eq!(look(&stale), "bridge: Unix socket ~/project/../data/b.sock, for programs of this user");
    let taken = bench("b.sock").file("data/b.sock", "x");
    assert_eq!(
        look(&taken),
        "bad bridge: cannot listen on ~/project/../data/b.sock: something else is there (move it away, or choose another path as `bridge.unix_socket`)"
    );
    let nowhere = bench("/no/such/folder/b.sock");
    assert_eq!(
        look(&nowhere),
        "bad bridge: cannot listen on /no/such/folder/b.sock: its folder does not exist (make the folder, or choose another path as `bridge.unix_socket`)"
    );
}

#[test]
fn pools_and_their_commands() {
    let bench = Bench::with_file(
        r#"
        [[workers]]
        name = "py"
        command = ["runner", "x.py"]
        count = 2
        [[workers]]
        name = "own"
        command = ["runner"]
        env = { PATH = "/nowhere" }
        [[workers]]
        name = "script"
        command = ["./plain.py"]
        [[workers]]
        name = "gone"
        command = ["./gone.py"]
        warm = true
        "#,
    )
    .file("bin/runner", "")
    .file("project/plain.py", "");
    fs::set_permissions(bench.path("bin/runner"), fs::Permissions::from_mode(0o755)).unwrap();
    let bin = bench.path("bin").display().to_string();
    let bench = bench.env("PATH", &format!("/nowhere:{bin}"));
    let found: Vec<String> = pools(&bench.load()).iter().map(|finding| said(finding, &bench)).collect();
    assert_eq!(
        found,
        [
            "workers py: 2 of ~/bin/runner, in ~/project",
            "bad workers own: `runner` is in no folder of PATH (install it, or write its whole path in `command`)",
            "bad workers script: ~/project/./plain.py cannot be executed (chmod +x ~/project/./plain.py, or name the interpreter: command = [\"python3\", \"~/project/./plain.py\"])",
            "bad workers gone: `./gone.py` does not exist (a relative path starts at the working folder, ~/project)",
            "note workers py, own, script: those not made with the SDK listen on all interfaces, on ports of their own choice; a firewall keeps others from calling them",
        ]
    );
    assert_eq!(pools(&Bench::new().load()), []);
}

#[test]
fn programs_are_found_as_the_system_finds_them() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    for (name, mode) in [("one/tool", 0o644), ("two/tool", 0o755), ("three/tool", 0o755)] {
        let file = root.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = format!("{0}/none:{0}/one:{0}/two:{0}/three", root.display());
    // What cannot be executed is passed over.
    assert_eq!(find_program("tool", root, &path), Ok(root.join("two/tool")));
    assert_eq!(find_program("three/tool", root, &path), Ok(root.join("three/tool")));
    assert_eq!(find_program("tool", root, "two"), Ok(root.join("two/tool")));
    assert_eq!(find_program("other", root, &path), Err(ProgramLookupError::NotFound));
    assert_eq!(find_program("tool", root, ""), Err(ProgramLookupError::NotFound));
    let only = format!("{}/one", root.display());
    assert_eq!(find_program("tool", root, &only), Err(ProgramLookupError::NotExecutable(root.join("one/tool"))));
    assert_eq!(
        find_program("one", root, &root.display().to_string()),
        Err(ProgramLookupError::NotExecutable(root.join("one")))
    );
}
