use super::*;

async fn said(text: &[u8]) -> StdioTail {
    let tail = StdioTail::default();
    tail.clone().drain("p".into(), text).await;
    tail
}

#[tokio::test]
async fn the_end_of_what_is_said_is_kept() {
    let long: String = (0..2000).map(|number| format!("line {number}\n")).collect();
    let tail = said(long.as_bytes()).await;
    assert!(tail.text().len() <= TAIL_BYTES && tail.text().ends_with("line 1999\n"));
    assert_eq!(tail.summary(), "line 1996 | line 1997 | line 1998 | line 1999");
    assert_eq!(said(b"").await.summary(), "");
    assert_eq!(said(b"no end\x1b[0m").await.summary(), "no end [0m");
}

#[tokio::test]
async fn a_line_without_an_end_is_no_trouble() {
    let tail = said(&[b'x'; 1_000_000]).await;
    assert_eq!((tail.text().len(), tail.summary().len()), (TAIL_BYTES, SUMMARY_BYTES));
    assert!(said(&[0xff; 10_000]).await.text().contains('\u{fffd}'));
}

#[tokio::test]
async fn lines_are_heard_as_they_come() {
    let tail = StdioTail::default();
    let mut lines = tail.subscribe();
    tail.clone().drain("p".into(), &b"one\n\ntwo"[..]).await;
    assert_eq!((lines.recv().await.as_deref(), lines.recv().await.as_deref()), (Some("one"), Some("two")));
}

#[tokio::test]
async fn lines_are_numbered_and_bounded() {
    let written: String = (1..=600).map(|number| format!("line {number}\n\n")).collect();
    let tail = said(written.as_bytes()).await;
    let lines = tail.lines_after(0);
    let ends = [lines.first().unwrap(), lines.last().unwrap()].map(|line| (line.number, line.text.as_str()));
    assert_eq!((lines.len(), ends), (MAX_LINES, [(101, "line 101"), (600, "line 600")]));
    assert_eq!(tail.lines_after(598).iter().map(|line| line.number).collect::<Vec<_>>(), [599, 600]);
    assert_eq!(tail.lines_after(600), []);
    let long = said("x".repeat(1_000_000).as_bytes()).await.lines_after(0);
    assert_eq!((long.len(), long.last().unwrap().number), (MAX_LINES_BYTES / MAX_LINE, 977));
}
