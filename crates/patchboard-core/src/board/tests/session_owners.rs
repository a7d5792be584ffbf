//! Conversations belong to whoever made them, and channels of other surfaces to those surfaces.

use super::*;
use crate::access::{OPERATOR_CHANNEL, RESERVED_CHANNELS};
use crate::command::{CallTool, ClearSession, ListSessions, ReadThread, SearchMemory};
use crate::store::SessionFilter;

/// A client of a gateway with a token.
fn token_client() -> Caller {
    Caller { principal: "token".into(), ..caller(7) }
}

fn in_channel(channel: &str) -> ConversationOrigin {
    ConversationOrigin { channel: channel.into(), ..origin("alice") }
}

/// Everything that reads or changes what was said in a conversation.
fn commands_about(session: &SessionRef) -> Vec<AnyCommand> {
    let page = PageRequest::new(None, None);
    vec![
        AnyCommand::new(ReadHistory { session: session.clone(), page }),
        AnyCommand::new(ReadThread { session: session.clone(), before: None, limit: 10 }),
        AnyCommand::new(BudgetStatus { session: Some(session.clone()) }),
        AnyCommand::new(ClearSession { session: session.clone(), purge: false }),
        AnyCommand::new(ClearSession { session: session.clone(), purge: true }),
    ]
}

async fn listed(bench: &Bench, caller: &Caller) -> Vec<SessionKey> {
    let command = ListSessions { filter: SessionFilter::default(), page: PageRequest::new(None, None) };
    let page = bench.ask(caller, command).await.unwrap();
    page.items.into_iter().map(|row| row.key).collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_else_reads_clears_or_goes_on_with_a_conversation() {
    let bench = bench([]);
    bench.chat("alice", "my secret").await;
    let named = [SessionRef::Origin(origin("alice")), SessionRef::Key(session("alice"))];
    let goes_on = AnyCommand::new(start("alice", "what did I say?"));
    for command in named.iter().flat_map(commands_about).chain([goes_on]) {
        let refused = command.ask(&bench, &stranger()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Forbidden, "{command:?}");
    }
    assert_eq!(bench.said("alice").await, ["my secret", "ok"]);
    assert_eq!(bench.model.requests().len(), 1, "the model was not asked");
    assert_eq!(listed(&bench, &stranger()).await, []);
    assert_eq!(listed(&bench, &caller(1)).await, [session("alice")]);
    assert_eq!(listed(&bench, &operator()).await, [session("alice")]);
    for command in named.iter().flat_map(commands_about) {
        assert!(command.ask(&bench, &operator()).await.is_ok(), "{command:?}");
    }
    // It was purged, so it may be anybody's.
    bench.ask(&stranger(), start("alice", "hello")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_gateway_that_got_a_token_goes_on_with_what_was_said_without_one() {
    let bench = bench([]);
    bench.chat("alice", "before").await;
    bench.ask(&token_client(), start("alice", "after")).await.unwrap();
    assert_eq!(listed(&bench, &token_client()).await, [session("alice")]);
    let runs_client = Caller { surface: Surface::Runs, ..token_client() };
    let read = ReadHistory { session: SessionRef::Key(session("alice")), page: PageRequest::new(None, None) };
    assert_eq!(bench.ask(&runs_client, read).await.unwrap_err().kind, ErrorKind::Forbidden, "only there");
}

#[tokio::test(start_paused = true)]
async fn the_operators_conversations_are_not_those_of_clients() {
    let bench = bench([]);
    let by_operator = StartRun {
        client_tools: Vec::new(),
        origin: in_channel(OPERATOR_CHANNEL),
        content: "private".into(),
        client_id: "1".into(),
        model: None,
        folder: FolderChoice::Configured,
        kind: RunKind::Chat { agent: None },
    };
    bench.ask(&operator(), by_operator.clone()).await.unwrap();
    assert_eq!(listed(&bench, &token_client()).await, []);
    assert_eq!(bench.ask(&token_client(), by_operator).await.unwrap_err().kind, ErrorKind::Forbidden);
    for command in commands_about(&SessionRef::Origin(in_channel(OPERATOR_CHANNEL))) {
        assert_eq!(command.ask(&bench, &token_client()).await.unwrap_err().kind, ErrorKind::Forbidden);
    }
}

#[tokio::test(start_paused = true)]
async fn channels_of_surfaces_and_services_are_reserved() {
    let bench = bench_with([], |setup| setup.channels = vec![hook()]);
    for channel in RESERVED_CHANNELS.iter().copied().chain(["hook", OPERATOR_CHANNEL]) {
        let origin = in_channel(channel);
        let talks = [
            AnyCommand::new(StartRun {
                client_tools: Vec::new(),
                origin: origin.clone(),
                content: "hi".into(),
                client_id: "1".into(),
                model: None,
                folder: FolderChoice::Configured,
                kind: RunKind::Chat { agent: None },
            }),
            AnyCommand::new(CallTool {
                name: "todo_read".into(),
                arguments: Arc::new(json!({})),
                folder: FolderChoice::Configured,
                origin: origin.clone(),
            }),
        ];
        let page = PageRequest::new(None, None);
        let (owner, query) = ("alice".to_owned(), "x".to_owned());
        let search = AnyCommand::new(SearchMemory { channel: channel.to_owned(), account: owner, query, page });
        let key = SessionRef::Key(origin.session_key("default"));
        let reads = commands_about(&SessionRef::Origin(origin)).into_iter().chain(commands_about(&key)).chain([search]);
        for command in reads.clone().chain(talks.clone()) {
            let refused = command.ask(&bench, &token_client()).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{channel}: {command:?}");
        }
        for command in reads {
            assert!(command.ask(&bench, &operator()).await.is_ok(), "{channel}: {command:?}");
        }
        for command in talks {
            let refused = command.ask(&bench, &operator()).await.err().map(|error| error.kind);
            let is_own = channel == OPERATOR_CHANNEL;
            assert_eq!(refused == Some(ErrorKind::Forbidden), !is_own, "{channel}: {refused:?}");
        }
    }
    // A program's session on the bridge.
    let bridge = SessionRef::Key(SessionKey::parse("bridge:s").unwrap());
    for command in commands_about(&bridge) {
        assert_eq!(command.ask(&bench, &token_client()).await.unwrap_err().kind, ErrorKind::Forbidden);
    }
}

fn hook() -> ChannelOptions {
    ChannelOptions {
        name: "hook".into(),
        plugin: "adapter".into(),
        wait: None,
        max_open_deliveries: 1,
        replay_window: Duration::from_secs(60),
    }
}
