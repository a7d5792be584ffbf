//! Threads put together under names.

use super::runs::on_runs;
use super::*;
use crate::command::{
    AddWorkspaceThread, CreateWorkspace, ListWorkspaceThreads, ListWorkspaces, RemoveWorkspaceThread,
};
use crate::conversation::Workspace;

async fn created(bench: &Bench, caller: &Caller, name: Option<&str>) -> Workspace {
    bench.ask(caller, CreateWorkspace { name: name.map(Into::into) }).await.unwrap()
}

async fn names(bench: &Bench, caller: &Caller) -> Vec<String> {
    let found = bench.ask(caller, ListWorkspaces).await.unwrap();
    found.iter().map(|workspace| workspace.name.to_string()).collect()
}

async fn threads(bench: &Bench, caller: &Caller, workspace: &Workspace) -> Result<Vec<String>, ErrorKind> {
    let found = bench.ask(caller, ListWorkspaceThreads { workspace: workspace.id.clone() }).await;
    let found = found.map_err(|error| error.kind)?;
    Ok(found.iter().map(|added| added.thread.to_string()).collect())
}

fn add(workspace: &Workspace, thread: &str) -> AddWorkspaceThread {
    AddWorkspaceThread { workspace: workspace.id.clone(), thread: thread.into() }
}

fn remove(workspace: &Workspace, thread: &str) -> RemoveWorkspaceThread {
    RemoveWorkspaceThread { workspace: workspace.id.clone(), thread: thread.into() }
}

#[tokio::test(start_paused = true)]
async fn threads_are_added_and_removed_and_outlive_the_server() {
    let (bench, me) = (bench([]), on_runs(1));
    assert_eq!(names(&bench, &me).await, [] as [&str; 0]);
    let first = created(&bench, &me, None).await;
    let second = created(&bench, &me, Some("Häuser")).await;
    for thread in ["a", "b", "a"] {
        bench.ask(&me, add(&first, thread)).await.unwrap();
    }
    bench.ask(&me, remove(&first, "b")).await.unwrap();
    bench.ask(&me, remove(&first, "never there")).await.unwrap();
    bench.ask(&me, add(&second, "c")).await.unwrap();
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
    assert_eq!(bench.ask(&other, add(&mine, "t")).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(bench.ask(&other, remove(&mine, "t")).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(threads(&bench, &me, &mine).await, Ok(vec![]));
}

#[tokio::test(start_paused = true)]
async fn they_are_bounded() {
    let (bench, me) = (bench([]), on_runs(1));
    let first = created(&bench, &me, None).await;
    for _ in 1..256 {
        created(&bench, &me, None).await;
    }
    let one_more = bench.ask(&me, CreateWorkspace { name: None }).await;
    assert_eq!(one_more.unwrap_err().kind, ErrorKind::Exhausted);
    let long: Arc<str> = "x".repeat(513).into();
    let named = bench.ask(&me, CreateWorkspace { name: Some(long.clone()) }).await;
    assert_eq!(named.unwrap_err().kind, ErrorKind::Exhausted, "full before all else");
    assert_eq!(bench.ask(&me, add(&first, &long)).await.unwrap_err().kind, ErrorKind::Invalid);
    assert_eq!(bench.ask(&me, add(&first, "")).await.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn none_of_many_changes_at_once_is_lost() {
    let (bench, me) = (bench([]), on_runs(1));
    let workspace = created(&bench, &me, None).await;
    let ids: Vec<String> = (0..50).map(|number| format!("t{number}")).collect();
    let added = ids.iter().map(|thread| bench.ask(&me, add(&workspace, thread)));
    assert!(futures_util::future::join_all(added).await.iter().all(Result::is_ok));
    assert_eq!(threads(&bench, &me, &workspace).await.unwrap().len(), 50);
}
