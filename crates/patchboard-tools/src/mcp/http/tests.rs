use futures_util::{StreamExt, stream};

use super::*;

fn sizes(text: &str) -> usize {
    let mut measure = EventSizeCounter::default();
    measure.add(text.as_bytes());
    measure.event
}

#[test]
fn an_event_ends_with_an_empty_line_however_lines_end() {
    for (text, open) in [
        ("data: a\n\n", 0),
        ("data: a\r\n\r\n", 1),
        ("data: a\r\r", 0),
        ("data: a\n\ndata: bc\n", 9),
        ("data: a\r\n\r\ndata: bc\r\n", 11),
        ("data: a\ndata: b\n", 16),
        ("", 0),
        ("\n\n\n", 0),
    ] {
        assert_eq!(sizes(text), open, "{text:?}");
    }
}

#[tokio::test]
async fn an_endless_event_ends_the_stream() {
    let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
    let pieces = limit_events(stream::repeat_with(move || Ok(piece.clone())));
    let read: Vec<_> = pieces.collect().await;
    assert!(read.last().is_some_and(|last| matches!(last, Err(HttpError::TooLong))));
    assert_eq!(read.len(), MAX_MESSAGE / (1024 * 1024) + 1);
    let short = Bytes::from_static(b"data: x\n\n");
    let pieces = limit_events(stream::repeat_with(move || Ok(short.clone())));
    assert_eq!(pieces.take(10_000).filter(|piece| std::future::ready(piece.is_ok())).count().await, 10_000);
}
