use super::*;

fn pool(limit: u64) -> Arc<Uploads> {
    Arc::new(Uploads { held: AtomicU64::new(0), limit })
}

#[test]
fn two_of_the_largest_messages_always_fit() {
    assert_eq!(Uploads::new(1024).limit, LIMIT);
    assert_eq!(Uploads::new(1024 * 1024 * 1024).limit, 2 * 1024 * 1024 * 1024);
}

#[test]
fn large_requests_are_refused_before_small_ones() {
    let uploads = pool(1_000_000);
    let large = Charge::new(uploads.clone());
    large.add(900_000).unwrap();
    let other = Charge::new(uploads.clone());
    assert_eq!(other.add(200_000).unwrap_err().code(), tonic::Code::ResourceExhausted);
    let small = Charge::new(uploads.clone());
    small.add(50_000).unwrap();
    // What was refused is held until its request is gone.
    assert_eq!(uploads.held.load(Ordering::Relaxed), 1_150_000);
    drop(other);
    let many: Vec<Charge> = (0..16).map(|_| Charge::new(uploads.clone())).collect();
    let taken = many.iter().filter(|charge| charge.add(65_000).is_ok()).count();
    assert_eq!(taken, 16);
    assert!(Charge::new(uploads.clone()).add(65_000).is_err());
    drop((large, small, many));
    assert_eq!(uploads.held.load(Ordering::Relaxed), 0);
}

#[test]
fn an_answer_takes_the_place_of_the_request() {
    let uploads = pool(1_000_000);
    let charge = Charge::new(uploads.clone());
    charge.add(900_000).unwrap();
    charge.turn_into(100).unwrap();
    assert!(!charge.is_large());
    assert_eq!(uploads.held.load(Ordering::Relaxed), 100);
    charge.turn_into(70_000).unwrap();
    assert!(charge.is_large());
    assert!(charge.turn_into(2_000_000).is_err());
    drop(charge);
    assert_eq!(uploads.held.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_leaves_in_pieces_and_is_held_until_the_last() {
    let uploads = pool(u64::MAX);
    let charge = Charge::new(uploads.clone());
    let data: Vec<u8> = (0..PIECE * 2 + 10).map(|at| (at % 251) as u8).collect();
    charge.turn_into(data.len()).unwrap();
    let whole = axum::body::Body::from(data.clone());
    let mut body = Download::new(tonic::body::Body::new(whole), Arc::new(charge));
    let mut pieces = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        pieces.push(frame.unwrap().into_data().unwrap());
        assert_eq!(uploads.held.load(Ordering::Relaxed), data.len() as u64);
    }
    assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [PIECE, PIECE, 10]);
    assert_eq!(pieces.concat(), data);
    assert!(body.is_end_stream());
    drop(body);
    assert_eq!(uploads.held.load(Ordering::Relaxed), 0);
}
