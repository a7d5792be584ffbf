//! Servers that are real programs: a shell is enough of one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use patchboard_core::tool::ToolOutput;
use serde_json::json;

use super::stub::{Bench, until};
use crate::mcp::McpTransport;

/// Answers every request in turn; the tool `die` ends it. `$1` is a file to note the process in, with that of a child.
const SERVER: &str = r#"
sleep 1000 & echo "$$ $!" >> "$1"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) r='{"tools":[{"name":"die","inputSchema":{"type":"object"}},{"name":"env","inputSchema":{}}]}' ;;
    *'"name":"die"'*) echo 'I was asked to' >&2; exit 7 ;;
    *'"tools/call"'*) r='{"content":[{"type":"text","text":"'$SECRET'"}]}' ;;
    *) r='{}' ;;
  esac
  [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
"#;

fn server(noted: &Path) -> McpTransport {
    McpTransport::Command {
        program: "/bin/sh".to_owned(),
        arguments: ["-c", SERVER, "server", noted.to_str().unwrap()].map(str::to_owned).into(),
        env: BTreeMap::from([("SECRET".to_owned(), "told only to it".into())]),
        working_folder: None,
        private: None,
    }
}

fn processes(noted: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(noted).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[tokio::test]
async fn a_program_is_used_restarted_and_ended_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let noted = folder.path().join("processes");
    let bench = Bench::reaching(server(&noted), Arc::default());
    bench.ready(&["srv.die", "srv.env"]).await;
    assert_eq!(bench.call("srv.env", json!({})).await, ToolOutput::ok("told only to it"));
    let first = processes(&noted);
    assert!(first.len() == 2 && first.iter().all(|pid| is_alive(pid)), "{first:?}");

    let output = bench.call("srv.die", json!({})).await;
    assert_eq!(output, ToolOutput::error("the MCP server `srv` went away during the call"));
    let trouble = "it closed the connection: it ended with exit status: 7: I was asked to";
    let told = format!("the MCP server `srv` is not there now: {trouble}");
    until(|| bench.tools().is_empty() && first.iter().all(|pid| !is_alive(pid))).await;
    let mut said = bench.call("srv.env", json!({})).await.content;
    while said.contains("is closing") {
        tokio::task::yield_now().await;
        said = bench.call("srv.env", json!({})).await.content;
    }
    assert_eq!(&*said, told);

    bench.ready(&["srv.die", "srv.env"]).await;
    let second = processes(&noted);
    assert!(second.len() == 4 && second[2..].iter().all(|pid| is_alive(pid)), "{second:?}");
    bench.end().await;
    until(|| second.iter().all(|pid| !is_alive(pid))).await;
}

#[tokio::test]
async fn a_program_that_cannot_start_is_told_about() {
    let check = async |program: &str, arguments: &[&str], expected: &str| {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let reach = McpTransport::Command {
            program: program.to_owned(),
            arguments,
            env: BTreeMap::new(),
            working_folder: None,
            private: None,
        };
        let bench = Bench::reaching(reach, Arc::default());
        let mut said = bench.call("srv.any", json!({})).await.content;
        while said.ends_with("it is starting") {
            tokio::task::yield_now().await;
            said = bench.call("srv.any", json!({})).await.content;
        }
        assert_eq!(&*said, format!("the MCP server `srv` is not there now: {expected}"));
        bench.end().await;
    };
    let missing = "cannot start `/nonexistent/server`: No such file or directory (os error 2)";
    check("/nonexistent/server", &[], missing).await;
    let broken = "it ended without introducing itself: it ended with exit status: 2: No module named nothing";
    check("/bin/sh", &["-c", "echo 'No module named nothing' >&2; exit 2"], broken).await;
}
