//! Folders that the operator grants to single runs and calls.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::resuming::die;
use super::runs::{on_runs, plan};
use super::*;
use crate::command::{AnswerInput, CallTool, RunPlan};
use crate::port::{FolderDocuments, FolderGrant, GrantedFolder};

/// Counts the grants that are kept.
#[derive(Debug, Default)]
struct CountedGrants {
    kept: Arc<AtomicUsize>,
    asks_before_writing: bool,
}

struct Kept(Arc<AtomicUsize>);

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl WorkingFolders for CountedGrants {
    fn grant<'a>(&'a self, named: &'a str) -> BoxFuture<'a, Result<GrantedFolder, String>> {
        self.kept.fetch_add(1, Ordering::Relaxed);
        let grant = FolderGrant::new(Kept(self.kept.clone()), self.asks_before_writing);
        Box::pin(std::future::ready(Ok(GrantedFolder { path: Arc::from(Path::new(named)), grant: Some(grant) })))
    }

    fn resolve<'a>(&'a self, named: Option<&'a str>) -> BoxFuture<'a, Result<Arc<Path>, String>> {
        let admitted =
            named.map_or_else(|| Ok(Arc::from(Path::new("/work"))), |named| Err(format!("outside: {named}")));
        Box::pin(std::future::ready(admitted))
    }

    fn documents<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, FolderDocuments> {
        Box::pin(std::future::ready(FolderDocuments::default()))
    }
}

fn granted() -> FolderChoice {
    FolderChoice::Granted("/away".to_owned())
}

fn operator_on_runs() -> Caller {
    Caller { surface: Surface::Runs, ..operator() }
}

fn run_in(folder: FolderChoice, kind: RunKind) -> StartRun {
    let origin = ConversationOrigin { channel: "runs".into(), peer: Some("t".into()), ..origin("local") };
    StartRun {
        origin,
        content: "go".into(),
        client_id: "r".into(),
        model: None,
        client_tools: Vec::new(),
        folder,
        kind,
    }
}

fn agent_run() -> RunKind {
    RunKind::Agent(plan("react"))
}

async fn follow(bench: &Bench, run: RunId) -> Followed {
    bench.board.follow(&operator_on_runs(), Topic::Run(run), Seq::FIRST, FollowerPacing::Unpaced).await.unwrap()
}

fn bench_of(folders: Arc<CountedGrants>, scripts: impl IntoIterator<Item = Script>) -> Bench {
    bench_with(scripts, |setup| setup.folders = folders)
}

#[tokio::test(start_paused = true)]
async fn only_the_operator_grants_a_folder() {
    let folders = Arc::new(CountedGrants::default());
    let bench = bench_of(folders.clone(), []);
    let call =
        |folder| CallTool { name: "slow".into(), arguments: Arc::new(json!({})), folder, origin: origin("local") };
    let chat = RunKind::Chat { agent: None };
    for command in [
        AnyCommand::new(run_in(granted(), agent_run())),
        AnyCommand::new(run_in(granted(), chat)),
        AnyCommand::new(call(granted())),
    ] {
        let refused = command.ask(&bench, &on_runs(1)).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused}");
    }
    let named = FolderChoice::Named("/away".to_owned());
    let refused = bench.ask(&operator_on_runs(), run_in(named, agent_run())).await.unwrap_err();
    assert_eq!((refused.kind, &*refused.message), (ErrorKind::Invalid, "outside: /away"));
    assert_eq!(folders.kept.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_is_kept_while_the_run_lasts() {
    for kind in [agent_run(), RunKind::Chat { agent: None }] {
        let folders = Arc::new(CountedGrants::default());
        let (gate, wait) = closed_gate();
        let bench = bench_of(folders.clone(), [say_and_wait(&["half"], wait)]);
        let run = bench.ask(&operator_on_runs(), run_in(granted(), kind)).await.unwrap();
        let mut followed = follow(&bench, run).await;
        until(&mut followed, "text half").await;
        assert_eq!(folders.kept.load(Ordering::Relaxed), 1);
        gate.add_permits(1);
        rest(followed).await;
        let_others_run().await;
        assert_eq!(folders.kept.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_has_its_folder_granted_again() {
    let (_gate, wait) = closed_gate();
    let bench = bench_of(Arc::default(), [say_and_wait(&["half"], wait)]);
    let detached = RunPlan { detach: true, ..plan("react") };
    let run = bench.ask(&operator_on_runs(), run_in(granted(), RunKind::Agent(detached))).await.unwrap();
    until(&mut follow(&bench, run).await, "text half").await;
    die(&bench, run).await;
    let folders = Arc::new(CountedGrants::default());
    let (gate, wait) = closed_gate();
    let store = bench.store.clone();
    drop(bench);
    let_others_run().await;
    let bench = bench_with([say_and_wait(&["whole"], wait)], |setup| {
        setup.store = store;
        setup.ids = Arc::new(CountingIds::starting_at(1_000_000));
        setup.folders = folders.clone();
    });
    assert_eq!(bench.board.adopt().await.unwrap().resumed, 1);
    let mut followed = follow(&bench, run).await;
    until(&mut followed, "text whole").await;
    assert_eq!(folders.kept.load(Ordering::Relaxed), 1);
    gate.add_permits(1);
    assert_eq!(rest(followed).await.last().unwrap(), "end Completed");
}

#[tokio::test(start_paused = true)]
async fn where_commands_run_unconfined_what_writes_there_asks() {
    for (asks_before_writing, expected) in [(true, true), (false, false)] {
        let folders = Arc::new(CountedGrants { asks_before_writing, ..CountedGrants::default() });
        let bench = bench_of(folders, [call(&[("write", json!({}))], 1, 1), say(&["done"], 1, 1)]);
        let run = bench.ask(&operator_on_runs(), run_in(granted(), agent_run())).await.unwrap();
        let mut followed = follow(&bench, run).await;
        let mut was_asked = false;
        while let Some(record) = next(&mut followed).await {
            if let Event::InputRequested(wanted) = &record.event {
                was_asked = true;
                let answer =
                    AnswerInput { input: crate::command::InputRef::Id(wanted.input), answer: InputAnswer::Approved };
                bench.ask(&operator(), answer).await.unwrap();
            }
        }
        assert_eq!(was_asked, expected);
        assert_eq!(bench.workshop.executed(), ["write"]);
    }
}
