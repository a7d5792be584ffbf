use super::*;

const INFO: ExecutionInfo<'_> = ExecutionInfo { worker: "w", milliseconds: 7 };

fn chunk(data: &str) -> pb::ToolChunk {
    pb::ToolChunk { data: Bytes::copy_from_slice(data.as_bytes()), ..Default::default() }
}

#[tokio::test]
async fn words_run_on_and_objects_have_lines_of_their_own() {
    let check = async |pieces: &[&str], expected: &str| {
        let sender = ProgressSink::default();
        let mut text = TextCollector::new(&sender);
        for piece in pieces {
            assert_eq!(text.add(chunk(piece)).await, ChunkStep::Continue);
        }
        assert_eq!(text.into_text(), expected);
    };
    check(&["a", "b ", "c"], "ab c").await;
    check(&[r#"{"n":1}"#, r#"{"n":2}"#, "", "end"], "{\"n\":1}\n{\"n\":2}\nend").await;
    check(&[], "").await;
}

#[tokio::test]
async fn an_endless_text_is_cut_and_bytes_are_named() {
    let sender = ProgressSink::default();
    let mut text = TextCollector::new(&sender);
    for _ in 0..12 {
        text.add(chunk(&"x".repeat(100_000))).await;
    }
    let text = text.into_text();
    assert!(text.len() < MAX_TEXT + 100 && text.ends_with("[cut: the answer was longer]"));
    let mut text = TextCollector::new(&sender);
    text.add(pb::ToolChunk { data: Bytes::from_static(&[0xff, 0xfe]), ..Default::default() }).await;
    assert_eq!(text.into_text(), "[2 bytes]");
}

#[test]
fn a_list_has_a_limit() {
    let mut list = ListCollector::default();
    let large = pb::ToolChunk { data: vec![b'1'; MAX_LIST_BYTES / 2 + 1].into(), ..Default::default() };
    assert_eq!((list.add(&large), list.add(&large)), (ChunkStep::Continue, ChunkStep::TooLong));
}

#[tokio::test]
async fn what_the_worker_says_of_itself_stays() {
    let (sender, mut receiver) = mpsc::channel(2);
    let mut relay = ChunkRelay::new(&sender);
    let metadata = [("worker_id".to_owned(), "its own".to_owned())].into();
    let next = relay.forward(pb::ToolChunk { is_final: true, metadata, ..chunk("1") }, INFO).await;
    let passed = receiver.recv().await.unwrap();
    assert_eq!(
        (next, &*passed.metadata["worker_id"], &*passed.metadata["execution_time_ms"]),
        (ChunkStep::Last, "its own", "7")
    );
    drop(receiver);
    assert_eq!(relay.forward(chunk("2"), INFO).await, ChunkStep::ReceiverGone);
}
