//! Threads put together under names.

use super::runs::on_runs;
use super::*;
use crate::command::Workspaces;
use crate::conversation::Workspace;

async fn wanted(bench: &Bench, caller: &Caller, command: WorkspaceCommand) -> Result<BoardReply, BoardError> {
    bench.ask(caller, Workspaces(command)).await
}

async fn created(bench: &Bench, caller: &Caller, name: Option<&str>) -> Workspace {
    let command = WorkspaceCommand::Create { name: name.map(Into::into) };
    let Ok(BoardReply::Workspace(workspace)) = wanted(bench, caller, command).await else { panic!("not a workspace") };
    workspace
}

async fn names(bench: &Bench, caller: &Caller) -> Vec<String> {
    let Ok(BoardReply::Workspaces(found)) = wanted(bench, caller, WorkspaceCommand::List).await else {
        panic!("not workspaces")
    };
    found.iter().map(|workspace| workspace.name.to_string()).collect()
}

async fn threads(bench: &Bench, caller: &Caller, workspace: &Workspace) -> Result<Vec<String>, ErrorKind> {
    let command = WorkspaceCommand::ListThreads { workspace: workspace.id.clone() };
    match wanted(bench, caller, command).await {
        Ok(BoardReply::WorkspaceThreads(found)) => Ok(found.iter().map(|known| known.thread.to_string()).collect()),
        Ok(other) => panic!("not threads: {other:?}"),
        Err(error) => Err(error.kind),
    }
}

fn add(workspace: &Workspace, thread: &str) -> WorkspaceCommand {
    WorkspaceCommand::AddThread { workspace: workspace.id.clone(), thread: thread.into() }
}

fn remove(workspace: &Workspace, thread: &str) -> WorkspaceCommand {
    WorkspaceCommand::RemoveThread { workspace: workspace.id.clone(), thread: thread.into() }
}

#[tokio::test(start_paused = true)]
async fn threads_are_added_and_removed_and_outlive_the_server() {
    let (bench, me) = (bench([]), on_runs(1));
    assert_eq!(names(&bench, &me).await, [] as [&str; 0]);
    let first = created(&bench, &me, None).await;
    let second = created(&bench, &me, Some("Häuser")).await;
    for thread in ["a", "b", "a"] {
        wanted(&bench, &me, add(&first, thread)).await.unwrap();
    }
    wanted(&bench, &me, remove(&first, "b")).await.unwrap();
    wanted(&bench, &me, remove(&first, "never there")).await.unwrap();
    wanted(&bench, &me, add(&second, "c")).await.unwrap();
    let bench = bench.restart([]).await;
    assert_eq!(names(&bench, &me).await, ["Workspace 1", "Häuser"]);
    assert_eq!(threads(&bench, &me, &first).await, Ok(vec!["a".to_owned()]));
    assert_eq!(threads(&bench, &me, &second).await, Ok(vec!["c".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn each_principal_has_its_own() {
    let (bench, me) = (bench([]), on_runs(1));
    let other = Caller { principal: "other".into(), ..on_runs(2) };
    let mine = created(&bench, &me, Some("mine")).await;
    assert_eq!(names(&bench, &other).await, [] as [&str; 0]);
    assert_eq!(threads(&bench, &other, &mine).await, Err(ErrorKind::NotFound));
    for command in [add(&mine, "t"), remove(&mine, "t")] {
        assert_eq!(wanted(&bench, &other, command).await.unwrap_err().kind, ErrorKind::NotFound);
    }
    assert_eq!(threads(&bench, &me, &mine).await, Ok(vec![]));
}

#[tokio::test(start_paused = true)]
async fn they_are_bounded() {
    let (bench, me) = (bench([]), on_runs(1));
    let first = created(&bench, &me, None).await;
    for _ in 1..256 {
        created(&bench, &me, None).await;
    }
    let one_more = wanted(&bench, &me, WorkspaceCommand::Create { name: None }).await;
    assert_eq!(one_more.unwrap_err().kind, ErrorKind::Exhausted);
    let long: Arc<str> = "x".repeat(513).into();
    let named = wanted(&bench, &me, WorkspaceCommand::Create { name: Some(long.clone()) }).await;
    assert_eq!(named.unwrap_err().kind, ErrorKind::Exhausted, "full before all else");
    assert_eq!(wanted(&bench, &me, add(&first, &long)).await.unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(wanted(&bench, &me, add(&first, "")).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn none_of_many_changes_at_once_is_lost() {
    let (bench, me) = (bench([]), on_runs(1));
    let workspace = created(&bench, &me, None).await;
    let ids: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
    let added = ids.iter().map(|thread| wanted(&bench, &me, add(&workspace, thread)));
    assert!(futures_util::future::join_all(added).await.iter().all(Result::is_ok));
    assert_eq!(threads(&bench, &me, &workspace).await.unwrap().len(), 50);
}
