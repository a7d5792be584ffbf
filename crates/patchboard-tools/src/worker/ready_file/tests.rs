use super::*;

#[test]
fn a_worker_says_where_it_is() {
    let tcp = |port: u16| WorkerAddress::Tcp((Ipv4Addr::LOCALHOST, port).into());
    for (text, address, pid, shows_secret) in [
        ("50123", tcp(50123), None, false),
        (" 50123 \n", tcp(50123), None, false),
        ("50123\npid=17\n", tcp(50123), Some(17), false),
        ("50123\npid=17\nsecret=shown\n", tcp(50123), Some(17), true),
        ("unix:/run/s\nsecret=shown", WorkerAddress::Unix("/run/s".into()), None, true),
        ("unix:/run/s\nsecret=other", WorkerAddress::Unix("/run/s".into()), None, false),
        ("unix:/run/s\nother\npid=17", WorkerAddress::Unix("/run/s".into()), Some(17), false),
        ("warm\npid=3\n", WorkerAddress::ForkServer, Some(3), false),
        ("7\npid=many", tcp(7), None, false),
    ] {
        assert_eq!(parse(text), Ok(ReadyReport { address, pid, sends_secret: shows_secret }), "{text}");
    }
    for text in ["0", "65536", "-1", "unix:relative", "host:80", "pid=3", "hot"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_waited_for_and_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ready");
    let writing = async {
        tokio::time::sleep(POLL_INTERVAL * 5).await;
        std::fs::write(&file, "").unwrap();
        tokio::time::sleep(POLL_INTERVAL * 5).await;
        std::fs::write(&file, "4000").unwrap();
    };
    let (announced, ()) = tokio::join!(wait_for_announcement(&file), writing);
    assert_eq!(announced.unwrap().address, WorkerAddress::Tcp((Ipv4Addr::LOCALHOST, 4000).into()));
    assert!(!file.exists());
}
