use super::*;

fn pool(limit: u64) -> Arc<MessageMemory> {
    Arc::new(MessageMemory { charged_bytes: AtomicU64::new(0), limit })
}

#[test]
fn two_of_the_largest_messages_always_fit() {
    assert_eq!(MessageMemory::new(1024).limit, MAX_BYTES_IN_FLIGHT);
    assert_eq!(MessageMemory::new(1024 * 1024 * 1024).limit, 2 * 1024 * 1024 * 1024);
}

#[test]
fn large_requests_are_refused_before_small_ones() {
    let uploads = pool(1_000_000);
    let large = MemoryCharge::new(uploads.clone());
    large.add(900_000).unwrap();
    let other = MemoryCharge::new(uploads.clone());
    assert_eq!(other.add(200_000).unwrap_err().code(), tonic::Code::ResourceExhausted);
    let small = MemoryCharge::new(uploads.clone());
    small.add(50_000).unwrap();
    // What was refused is charged_bytes until its request is gone.
    assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), 1_150_000);
    drop(other);
    let many: Vec<MemoryCharge> = (0..16).map(|_| MemoryCharge::new(uploads.clone())).collect();
    let taken = many.iter().filter(|charge| charge.add(65_000).is_ok()).count();
    assert_eq!(taken, 16);
    assert!(MemoryCharge::new(uploads.clone()).add(65_000).is_err());
    drop((large, small, many));
    assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), 0);
}

#[test]
fn an_answer_takes_the_place_of_the_request() {
    let uploads = pool(1_000_000);
    let charge = MemoryCharge::new(uploads.clone());
    charge.add(900_000).unwrap();
    charge.replace_with(100).unwrap();
    assert!(!charge.is_large());
    assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), 100);
    charge.replace_with(70_000).unwrap();
    assert!(charge.is_large());
    assert!(charge.replace_with(2_000_000).is_err());
    drop(charge);
    assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_leaves_in_pieces_and_is_held_until_the_last() {
    let uploads = pool(u64::MAX);
    let charge = MemoryCharge::new(uploads.clone());
    let data: Vec<u8> = (0..CHUNK_BYTES * 2 + 10).map(|at| (at % 251) as u8).collect();
    charge.replace_with(data.len()).unwrap();
    let whole = axum::body::Body::from(data.clone());
    let mut body = DownloadBody::new(tonic::body::Body::new(whole), Arc::new(charge));
    let mut pieces = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        pieces.push(frame.unwrap().into_data().unwrap());
        assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), data.len() as u64);
    }
    assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [CHUNK_BYTES, CHUNK_BYTES, 10]);
    assert_eq!(pieces.concat(), data);
    assert!(body.is_end_stream());
    drop(body);
    assert_eq!(uploads.charged_bytes.load(Ordering::Relaxed), 0);
}
