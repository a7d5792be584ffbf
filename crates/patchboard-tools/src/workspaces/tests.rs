use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// ```text
/// root/          allowed; holds the default folder `here`, `other`, a file, `data` (protected)
/// second/        allowed
/// away/          not allowed
/// ```
struct Ground {
    dir: TempDir,
    top: PathBuf,
    workspaces: Workspaces,
}

impl Ground {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for folder in ["root/here/sub", "root/other", "root/data/inner", "second", "away/deep", "root-beside"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        fs::write(top.join("root/file"), "x").unwrap();
        symlink("../../away", top.join("root/here/out")).unwrap();
        symlink("../other", top.join("root/here/near")).unwrap();
        symlink("root", top.join("alias")).unwrap();
        symlink("../data/inner", top.join("root/here/data-link")).unwrap();
        let workspaces = Workspaces::new(Self::options(&top)).unwrap();
        Self { dir, top, workspaces }
    }

    fn options(top: &Path) -> WorkspaceOptions {
        WorkspaceOptions {
            working_folder: top.join("root/here"),
            allowed_roots: vec![top.join("root"), top.join("second")],
            protected: vec![top.join("root/data")],
            tasks: TaskTracker::new(),
            grants: GrantRules::default(),
        }
    }

    /// The path admitted, relative to the ground.
    async fn admit(&self, named: Option<&str>) -> Result<String, String> {
        let admitted = self.workspaces.resolve(named).await;
        let top = self.top.display().to_string() + "/";
        admitted.map(|path| path.display().to_string().replace(&top, "")).map_err(|reason| reason.replace(&top, ""))
    }
}

#[tokio::test]
async fn folders_under_a_root_are_admitted() {
    let ground = Ground::new();
    let absolute = |path: &str| ground.top.join(path).display().to_string();
    let cases = [
        (None, "root/here"),
        (Some(".".to_owned()), "root/here"),
        (Some("sub".to_owned()), "root/here/sub"),
        (Some("sub/../..".to_owned()), "root"),
        (Some("../other/".to_owned()), "root/other"),
        (Some("near".to_owned()), "root/other"),
        (Some(absolute("root")), "root"),
        (Some(absolute("alias/other")), "root/other"),
        (Some(absolute("second")), "second"),
        (Some(absolute("away/../second")), "second"),
    ];
    for (named, expected) in cases {
        let admitted = ground.admit(named.as_deref()).await;
        assert_eq!(admitted, Ok(expected.to_owned()), "{named:?}");
        let folder = ground.workspaces.open(&ground.top.join(admitted.unwrap())).unwrap();
        assert_eq!(folder.path(), ground.top.join(expected));
    }
}

#[tokio::test]
async fn others_are_refused() {
    let ground = Ground::new();
    let absolute = |path: &str| ground.top.join(path).display().to_string();
    let long = "x".repeat(5000);
    let cases = [
        ("nope", "working folder not found or not a directory: root/here/nope"),
        ("../file", "working folder not found or not a directory: root/here/../file"),
        ("../file/x", "working folder not found or not a directory: root/here/../file/x"),
        ("out", "working folder lies outside the allowed roots: root/here/out"),
        ("out/deep", "working folder lies outside the allowed roots: root/here/out/deep"),
        ("../..", "working folder lies outside the allowed roots: root/here/../.."),
        ("../../root-beside", "working folder lies outside the allowed roots: root/here/../../root-beside"),
        ("/", "working folder lies outside the allowed roots: /"),
        // Whether it exists is not told.
        (&absolute("away"), "working folder lies outside the allowed roots: away"),
        (&absolute("away/nope"), "working folder lies outside the allowed roots: away/nope"),
        ("/proc/self", "working folder lies outside the allowed roots: /proc/self"),
        ("../data", "working folder lies inside a protected directory: root/here/../data"),
        ("data-link", "working folder lies inside a protected directory: root/here/data-link"),
        ("", "working folder is not a path: "),
        ("a\0b", "working folder is not a path: a\\u{0}b"),
        (&long, &format!("working folder is not a path: {}…", "x".repeat(240))),
    ];
    for (named, expected) in cases {
        let refused = ground.admit(Some(named)).await.unwrap_err();
        // What to write into the configuration is told of folders outside only.
        let (reason, hint) =
            refused.split_once("; to open it, add it to `runs.allowed_roots`").unwrap_or((&refused, ""));
        assert_eq!((reason, hint.is_empty()), (expected, !expected.contains("outside")), "{named}");
    }
    for path in
        ["away", "root/here/out", "root/here/near", "root/../away", "root/data", "root/file", "root/nope", "alias"]
    {
        assert!(ground.workspaces.open(&ground.top.join(path)).is_err(), "{path}");
    }
    assert!(ground.workspaces.open(Path::new("sub")).is_err(), "only absolute paths name a folder");
}

#[tokio::test]
async fn a_default_outside_the_roots_serves_only_those_who_name_none() {
    let ground = Ground::new();
    let options = WorkspaceOptions { working_folder: ground.top.join("away"), ..Ground::options(&ground.top) };
    let ground = Ground { workspaces: Workspaces::new(options).unwrap(), ..ground };
    let refused = ground.admit(None).await.unwrap_err();
    assert!(refused.starts_with("working folder lies outside the allowed roots: away/.;"), "{refused}");
    assert!(refused.contains("`allowed_roots = [\".\", \"away/.\"]`"), "{refused}");
    assert_eq!(ground.workspaces.open_named(None).unwrap().path(), ground.top.join("away"));
    assert!(ground.workspaces.open_named(Some(&ground.top.join("away/deep"))).is_err());
}

#[tokio::test]
async fn roots_and_folders_made_anew_are_the_new_ones() {
    let ground = Ground::new();
    let path = ground.top.join("root/other");
    fs::write(path.join("AGENTS.md"), "old").unwrap();
    assert_eq!(ground.workspaces.documents(&path).await.notes.as_deref(), Some("old"));
    fs::remove_dir_all(&path).unwrap();
    assert!(ground.workspaces.open(&path).is_err());
    fs::create_dir(&path).unwrap();
    fs::write(path.join("AGENTS.md"), "new").unwrap();
    assert_eq!(ground.workspaces.documents(&path).await.notes.as_deref(), Some("new"));
    fs::remove_dir_all(ground.top.join("second")).unwrap();
    assert!(ground.admit(Some("../../second")).await.is_err());
    fs::create_dir(ground.top.join("second")).unwrap();
    assert_eq!(ground.admit(Some("../../second")).await, Ok("second".to_owned()));
    // A root replaced by a symlink is no root any more.
    fs::remove_dir(ground.top.join("second")).unwrap();
    symlink("away", ground.top.join("second")).unwrap();
    assert!(ground.admit(Some("../../second")).await.is_err());
    assert!(ground.workspaces.open(&ground.top.join("second")).is_err());
}

#[tokio::test]
async fn the_words_of_a_folder_are_bounded_and_its_own() {
    let ground = Ground::new();
    let here = ground.top.join("root/here");
    assert_eq!(ground.workspaces.documents(&here).await, FolderDocuments::default());
    fs::write(here.join("SOUL.md"), format!("{}ü", "x".repeat(MAX_DOCUMENT_BYTES - 1))).unwrap();
    fs::write(here.join("AGENTS.md"), format!("{}ü", "x".repeat(MAX_DOCUMENT_BYTES - 2))).unwrap();
    let words = ground.workspaces.documents(&here).await;
    assert_eq!(
        words.soul.as_deref(),
        Some(&*"x".repeat(MAX_DOCUMENT_BYTES - 1)),
        "cut before the character that does not fit"
    );
    assert_eq!(words.notes.unwrap().len(), MAX_DOCUMENT_BYTES);
    fs::write(here.join("SOUL.md"), " \n").unwrap();
    fs::write(ground.top.join("away/AGENTS.md"), "outside").unwrap();
    fs::remove_file(here.join("AGENTS.md")).unwrap();
    symlink("../../away/AGENTS.md", here.join("AGENTS.md")).unwrap();
    assert_eq!(ground.workspaces.documents(&here).await, FolderDocuments::default());
    fs::remove_file(here.join("AGENTS.md")).unwrap();
    fs::write(ground.top.join("root/here/sub/notes"), "inside").unwrap();
    symlink("sub/notes", here.join("AGENTS.md")).unwrap();
    assert_eq!(ground.workspaces.documents(&here).await.notes.as_deref(), Some("inside"));
    assert_eq!(ground.workspaces.documents(&ground.top.join("away")).await, FolderDocuments::default());
    assert!(ground.dir.path().exists());
}

#[test]
fn what_cannot_be_opened_is_refused_at_the_start() {
    let ground = Ground::new();
    let top = &ground.top;
    let refused = |change: &dyn Fn(&mut WorkspaceOptions)| {
        let mut options = Ground::options(top);
        change(&mut options);
        Workspaces::new(options).unwrap_err().to_string().replace(&format!("{}/", top.display()), "")
    };
    assert_eq!(refused(&|options| options.working_folder = top.join("nope")), "cannot open working folder: nope");
    assert_eq!(refused(&|options| options.allowed_roots.push(top.join("nope"))), "cannot open working folder: nope");
    let inside = "working folder lies inside a protected directory: root/data/inner";
    assert_eq!(refused(&|options| options.working_folder = top.join("root/data/inner")), inside);
    assert_eq!(refused(&|options| options.allowed_roots.push(top.join("root/data/inner"))), inside);
    let long = top.join("x".repeat(300));
    assert!(refused(&|options| options.protected.push(long.clone())).starts_with("cannot inspect protected path: "));
}

/// A folder is exchanged with a symlink to the outside all the time while it is asked for.
#[cfg(target_os = "linux")]
#[test]
fn swapping_folders_during_admission_leads_nowhere() {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use rustix::fs::{CWD, RenameFlags, renameat_with};

    let ground = Ground::new();
    let (left, right) = (ground.top.join("root/here/sub"), ground.top.join("root/here/out"));
    fs::create_dir_all(left.join("deep")).unwrap();
    fs::write(ground.top.join("away/deep/AGENTS.md"), "outside").unwrap();
    fs::write(left.join("deep/AGENTS.md"), "inside").unwrap();
    let (done, swaps) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut admitted, mut read) = (BTreeSet::new(), BTreeSet::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                renameat_with(CWD, &left, CWD, &right, RenameFlags::EXCHANGE).unwrap();
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Judged when the other side has been told to end, or a failure would wait for it for ever.
        for round in 0..40_000 {
            admitted.extend(ground.workspaces.0.admit(Some("sub/deep")).ok());
            read.extend(ground.workspaces.open(&left.join("deep")).ok().map(|folder| folder_documents(&folder).notes));
            if round > 2_000 && swaps.load(Ordering::Relaxed) > 4_000 {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(swaps.into_inner() > 0);
    // As the folder is called at the moment.
    let names = [left.join("deep"), right.join("deep")];
    assert!(
        !admitted.is_empty() && admitted.iter().all(|path| names.iter().any(|name| *name == **path)),
        "{admitted:?}"
    );
    assert_eq!(read, BTreeSet::from([Some("inside".into())]));
}

/// The same ground, where the operator can grant folders by these rules.
fn granting(ground: Ground, rules: GrantRules) -> Ground {
    let options = WorkspaceOptions { grants: rules, ..Ground::options(&ground.top) };
    Ground { workspaces: Workspaces::new(options).unwrap(), ..ground }
}

#[tokio::test]
async fn a_granted_folder_is_open_while_the_grant_is_kept_and_only_to_who_holds_it() {
    let ground = granting(Ground::new(), GrantRules { commands_are_jailed: true, ..GrantRules::default() });
    let away = ground.top.join("away");
    let granted = ground.workspaces.grant(away.to_str().unwrap()).await.unwrap();
    assert_eq!(&*granted.path, away);
    assert!(!granted.grant.as_ref().unwrap().asks_before_writing);
    assert_eq!(ground.workspaces.open(&away).unwrap().path(), away);
    assert_eq!(ground.workspaces.open_named(Some(&away.join("deep"))).unwrap().path(), away.join("deep"));
    assert!(ground.admit(away.to_str()).await.is_err(), "other requests are judged by the configuration");
    // Granted twice, closed with the last.
    let again = ground.workspaces.grant(away.to_str().unwrap()).await.unwrap();
    drop(granted);
    assert!(ground.workspaces.open(&away).is_ok());
    drop(again);
    assert!(ground.workspaces.open(&away).is_err());
}

#[tokio::test]
async fn a_folder_beneath_a_root_needs_no_grant() {
    let ground = granting(Ground::new(), GrantRules { home: Some("/".into()), ..GrantRules::default() });
    let granted = ground.workspaces.grant(ground.top.join("root/other").to_str().unwrap()).await.unwrap();
    assert!(granted.grant.is_none());
}

#[tokio::test]
async fn without_jails_a_grant_asks_before_writing() {
    let ground = granting(Ground::new(), GrantRules::default());
    let granted = ground.workspaces.grant(ground.top.join("away").to_str().unwrap()).await.unwrap();
    assert!(granted.grant.unwrap().asks_before_writing);
}

#[tokio::test]
async fn what_is_too_wide_is_not_granted() {
    let ground = Ground::new();
    let own = |path: &str| vec![ground.top.join(path)];
    let whole = "contains the data directory or the configuration of this server";
    let rules = |home: Option<&str>, own_folders| GrantRules {
        home: home.map(|home| ground.top.join(home)),
        own_folders,
        ..GrantRules::default()
    };
    let cases = [
        ("/", rules(None, vec![]), "is the whole file system"),
        ("away", rules(Some("away"), vec![]), "is the whole home folder"),
        ("away", rules(Some("away/deep"), vec![]), "contains the whole home folder"),
        ("away", rules(None, own("away/deep")), whole),
        // Also one that does not exist yet.
        ("away", rules(None, own("away/deep/later/patchboard")), whole),
        ("away/deep", rules(None, own("away")), "lies in the data directory or the configuration of this server"),
        ("nope", rules(None, vec![]), "not found or not a directory"),
        ("root/data", rules(None, vec![]), "lies inside a protected directory"),
    ];
    for (named, rules, expected) in cases {
        let options = WorkspaceOptions { grants: rules, ..Ground::options(&ground.top) };
        let workspaces = Workspaces::new(options).unwrap();
        let refused = workspaces.grant(ground.top.join(named).to_str().unwrap()).await.unwrap_err();
        assert!(refused.starts_with(&format!("working folder {expected}: /")), "{named}: {refused}");
        let has_hint = refused.contains("`--working-folder DIR`") && refused.contains("`runs.allowed_roots`");
        let is_too_wide = !matches!(named, "nope" | "root/data");
        assert_eq!(has_hint, is_too_wide, "{refused}");
    }
    // The data directory is made when it is first needed.
    let ground = Ground::new();
    let own_folders = vec![ground.top.join("away/later/patchboard")];
    let ground = granting(ground, GrantRules { own_folders, ..GrantRules::default() });
    assert!(ground.workspaces.grant(ground.top.join("away/deep").to_str().unwrap()).await.is_ok());
    let ground = Ground::new();
    let home = Some(ground.top.join("away"));
    let ground = granting(ground, GrantRules { home, ..GrantRules::default() });
    assert!(ground.workspaces.grant(ground.top.join("away/deep").to_str().unwrap()).await.is_ok());
}

#[derive(Debug, Default)]
struct Listening(std::sync::Mutex<Vec<PathBuf>>);

impl crate::guard::WriteGuard for Listening {
    fn before_write(&self, _: &crate::guard::WriteReach) -> Result<crate::guard::WriteProtection, String> {
        Ok(crate::guard::WriteProtection::default())
    }

    fn admit(&self, _: crate::guard::ProgramKey<'_>) -> Result<crate::guard::ProgramRights, String> {
        Ok(crate::guard::ProgramRights::Full)
    }

    fn is_agent_writable(&self, _: &Path) -> bool {
        false
    }

    fn mark_agent_writable(&self, folder: &Path) {
        self.0.lock().unwrap().push(folder.to_owned());
    }
}

#[tokio::test]
async fn the_guard_hears_of_what_agents_may_write_to_from_now_on() {
    let guard = Arc::new(Listening::default());
    let ground = granting(Ground::new(), GrantRules { guard: Some(guard.clone()), ..GrantRules::default() });
    let away = ground.top.join("away");
    ground.workspaces.grant(away.to_str().unwrap()).await.unwrap();
    ground.workspaces.grant(ground.top.join("root").to_str().unwrap()).await.unwrap();
    assert_eq!(*guard.0.lock().unwrap(), [away]);
}
