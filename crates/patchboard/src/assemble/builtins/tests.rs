use std::path::PathBuf;
use std::time::Duration;

use patchboard_tools::WorkspaceOptions;
use patchboard_tools::sandbox::{NetworkAccess, Spawner};

use super::*;

/// What commands may do with that `[tools]` section.
fn options(tools: &str) -> BashOptions {
    let folder = tempfile::tempdir().unwrap();
    let (tasks, here) = (TaskTracker::new(), folder.path().to_owned());
    let workspaces = WorkspaceOptions {
        working_folder: here.clone(),
        allowed_roots: vec![here],
        protected: Vec::new(),
        tasks: tasks.clone(),
        grants: patchboard_tools::GrantRules::default(),
    };
    let spawner = Spawner::new("/proc/self/exe").unwrap();
    let options = BashOptions::new(Workspaces::new(workspaces).unwrap(), tasks, spawner);
    apply_bash_config(options, &toml::from_str(tools).unwrap(), &[7200, 8080], &[61000, 61001])
}

#[test]
fn commands_may_do_what_is_configured() {
    let plain = options("");
    let usual = plain.environment["PATH"].clone();
    assert_eq!((plain.timeout, plain.readable), (Duration::from_secs(120), Vec::<PathBuf>::new()));
    let NetworkAccess { connect: TcpAccess::Ports(ports), listen: TcpAccess::Closed, unix_sockets: false } =
        plain.network
    else {
        panic!("not some ports")
    };
    assert!(ports.contains(&443) && !ports.contains(&8080), "{ports:?}");
    assert!(usual.starts_with("/usr/local/") && !usual.contains("::"), "{usual}");

    let wide = options(
        "bash_timeout = \"5m\"\n[bash]\nreadable = [\"/a\", \"/b\"]\npath = [\"/b/bin\", \"/c\"]\nconnect_any = true\nlisten = true\n\
         unix_sockets = true",
    );
    let readable = ["/a", "/b", "/b/bin", "/c"].map(PathBuf::from);
    assert_eq!((wide.timeout, wide.readable), (Duration::from_secs(300), readable.into()));
    assert_eq!(wide.environment["PATH"], format!("/b/bin:/c:{usual}"));
    let closed = || TcpAccess::AllBut(vec![7200, 8080, 61000, 61001]);
    let (connect, listen) = (closed(), closed());
    assert_eq!(wide.network, NetworkAccess { connect, listen, unix_sockets: true });
    let own = options("[bash]\nconnect = [443, 8080, 61001]").network.connect;
    assert_eq!(
        own,
        TcpAccess::Ports(vec![443]),
        "ports of this server and its workers stay closed even when they are listed"
    );
}
