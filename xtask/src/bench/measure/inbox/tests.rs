use super::*;

/// Puts bytes in as a read would.
fn receive(inbox: &mut Inbox, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let room = inbox.room().expect("room");
        let count = room.len().min(rest.len());
        let (now, later) = rest.split_at(count);
        room[..count].copy_from_slice(now);
        inbox.end += count;
        rest = later;
    }
}

#[test]
fn bytes_come_out_as_they_went_in_however_they_were_cut() {
    let sent: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    for (received_by, taken_by) in [(1, 7), (997, 1), (4096, 4096), (4095, 9000), (30_000, 13)] {
        let mut inbox = Inbox::new();
        let mut taken = Vec::new();
        for piece in sent.chunks(received_by) {
            receive(&mut inbox, piece);
            while inbox.unread().len() >= taken_by {
                taken.extend_from_slice(inbox.take(taken_by));
            }
        }
        taken.extend_from_slice(inbox.take(usize::MAX - FIRST * 64));
        assert!(taken == sent, "received by {received_by}, taken by {taken_by}");
        assert_eq!(inbox.unread(), b"");
    }
}

#[test]
fn a_piece_without_end_is_refused() {
    let mut inbox = Inbox::new();
    receive(&mut inbox, &vec![0; LARGEST]);
    assert!(inbox.room().is_err());
}
