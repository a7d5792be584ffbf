use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;

use super::*;

use patchboard_testkit::http_stub::{Answer, ClosedPort, Stub};

/// Answers each lookup with the next list, the last one again and again, and counts.
#[derive(Debug)]
struct Scripted {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let list = |list: &&[&str]| list.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { answers: Mutex::new(answers.iter().map(list).collect()), asked: Mutex::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl HostResolver for Scripted {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let found = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let found = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        Box::pin(async move { found })
    }
}

fn guarded(private_hosts: &[&str], resolver: &Arc<Scripted>) -> GuardedFetch {
    let private_hosts = private_hosts.iter().map(|entry| entry.parse().unwrap()).collect();
    GuardedFetch::with_resolver(private_hosts, resolver.clone())
}

fn get(url: impl Into<String>) -> FetchRequest {
    FetchRequest {
        method: "GET".to_owned(),
        url: url.into(),
        headers: vec![],
        body: None,
        timeout: Duration::from_secs(30),
        max_bytes: 1024,
        only_hosts: None,
    }
}

async fn fetch(guard: &GuardedFetch, request: FetchRequest) -> Result<FetchResponse, FetchError> {
    guard.fetch(request, CancellationToken::new()).await
}

fn is_refused(result: &Result<FetchResponse, FetchError>) -> bool {
    matches!(result, Err(FetchError::Refused(_)))
}

#[tokio::test]
async fn a_named_private_host_answers() {
    let stub = Stub::start([Answer::ok("hello")]).await;
    let resolver = Scripted::new(&[&["127.0.0.1"]]);
    let guard = guarded(&[&format!("stub.test:{}", stub.port())], &resolver);
    let url = format!("http://stub.test:{}/path?query", stub.port());
    let fetched = fetch(&guard, get(format!("{url}#fragment"))).await.unwrap();
    assert_eq!((fetched.status, fetched.url, fetched.body, fetched.is_truncated), (200, url, b"hello".to_vec(), false));
    assert!(fetched.headers.contains(&("content-length".to_owned(), "5".to_owned())));
    let head = &stub.received()[0];
    assert!(head.starts_with("GET /path?query HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nhost: stub.test:{}\r\n", stub.port())), "{head}");
    assert!(head.contains("\r\naccept-encoding: identity\r\n"), "{head}");
}

#[tokio::test]
async fn addresses_of_every_closed_kind_are_refused_however_they_are_written() {
    let stub = Stub::start([]).await;
    let guard = guarded(&[], &Scripted::new(&[]));
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.0.1",
        "169.254.169.254",
        "[::ffff:a9fe:a9fe]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[fd00::1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "192.0.2.1",
        "224.0.0.1",
        "[ff02::1]",
        "255.255.255.255",
    ] {
        let result = fetch(&guard, get(format!("http://{host}:{}/", stub.port()))).await;
        assert!(is_refused(&result), "{host}: {result:?}");
        assert!(is_refused(&fetch(&guard, get(format!("https://{host}/"))).await), "{host}");
    }
    assert_eq!(stub.received(), [""; 0]);
}

#[tokio::test]
async fn one_private_address_among_public_ones_is_enough() {
    for answer in [
        &["93.184.215.14", "10.0.0.1"][..],
        &["10.0.0.1", "93.184.215.14"],
        &["93.184.215.14", "2606:4700::1111", "::ffff:127.0.0.1"],
        &["93.184.215.14", "fd00:ec2::254"],
    ] {
        let result = fetch(&guarded(&[], &Scripted::new(&[answer])), get("http://mixed.test/")).await;
        assert!(is_refused(&result), "{answer:?}: {result:?}");
    }
}

#[tokio::test]
async fn a_refusal_says_who_can_allow_it() {
    let guard = guarded(&[], &Scripted::new(&[&["10.1.2.3"]]));
    let refused = "`intranet.test:81` is at a private address, which may not be fetched from; the operator can allow \
                   the host in `tools.fetch_private_hosts`";
    assert_eq!(fetch(&guard, get("http://intranet.test:81/")).await, Err(FetchError::Refused(refused.to_owned())));
    let refused = "`0.0.0.0` is at an unspecified address, which may not be fetched from";
    assert_eq!(fetch(&guard, get("http://0/")).await, Err(FetchError::Refused(refused.to_owned())));
}

#[tokio::test]
async fn naming_a_host_opens_private_addresses_but_no_metadata_service() {
    for (address, opened) in [
        ("127.0.0.1", true),
        ("10.0.0.1", true),
        ("100.64.0.1", true),
        ("fd00::1", true),
        ("169.254.169.254", false),
        ("fd00:ec2::254", false),
        ("fe80::1", false),
        ("0.0.0.0", false),
        ("ff02::1", false),
    ] {
        let guard = guarded(&["named.test"], &Scripted::new(&[&[address]]));
        let outgoing = OutgoingRequest::new(get("http://named.test/")).unwrap();
        let checked = guard.checked_addresses(&outgoing.target().unwrap()).await;
        assert_eq!(checked.is_ok(), opened, "{address}: {checked:?}");
        // Its neighbour on another port is not named.
        let guard = guarded(&["named.test:81"], &Scripted::new(&[&[address]]));
        let checked = guard.checked_addresses(&outgoing.target().unwrap()).await;
        assert!(checked.is_err(), "{address}");
    }
    let guard = guarded(&["169.254.169.254", "0.0.0.0"], &Scripted::new(&[]));
    let check =
        async |url: &str| guard.checked_addresses(&OutgoingRequest::new(get(url)).unwrap().target().unwrap()).await;
    assert_eq!(check("http://169.254.169.254/").await.unwrap(), ["169.254.169.254:80".parse().unwrap()]);
    assert!(check("http://0.0.0.0/").await.is_err());
}

#[tokio::test]
async fn the_checked_address_is_the_one_connected_to() {
    let stub = Stub::start([Answer::ok("first"), Answer::ok("never")]).await;
    // A name server that changes its mind: good for the check, bad for a second lookup.
    let resolver = Scripted::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let guard = guarded(&["turning.test"], &resolver);
    let fetched = fetch(&guard, get(format!("http://turning.test:{}/", stub.port()))).await.unwrap();
    assert_eq!((fetched.body, resolver.asked()), (b"first".to_vec(), vec!["turning.test".to_owned()]));
}

#[tokio::test]
async fn the_client_alone_knows_no_address() {
    let guard = guarded(&[], &Scripted::new(&[&["127.0.0.1"]]));
    let error = guard.client(false).await.unwrap().get("http://localhost/").send().await.unwrap_err();
    assert!(error.is_connect(), "{error:?}");
}

#[tokio::test]
async fn a_redirect_is_checked_like_any_url() {
    for location in
        ["http://127.0.0.1:PORT/", "http://[::1]:PORT/", "http://0x7f000001:PORT/", "//localhost.test:PORT/x"]
    {
        let stub = Stub::start([]).await;
        let location = location.replace("PORT", &stub.port().to_string());
        stub.add(Answer::redirect(302, &location));
        let resolver = Scripted::new(&[&["127.0.0.1"]]);
        let guard = guarded(&[&format!("stub.test:{}", stub.port())], &resolver);
        let result = fetch(&guard, get(format!("http://stub.test:{}/", stub.port()))).await;
        assert!(is_refused(&result), "{location}: {result:?}");
        assert_eq!(stub.received().len(), 1, "{location}");
    }
}

fn only(request: FetchRequest, hosts: &[String]) -> FetchRequest {
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    FetchRequest { only_hosts: Some(hosts), ..request }
}

#[tokio::test]
async fn a_host_that_is_not_granted_is_not_even_looked_up() {
    let stub = Stub::start([Answer::ok("granted")]).await;
    let resolver = Scripted::new(&[&["127.0.0.1"]]);
    let guard = guarded(&["one.test", "two.test"], &resolver);
    let granted = [format!("one.test:{}", stub.port())];
    for url in [format!("http://two.test:{}/", stub.port()), "http://one.test/".to_owned()] {
        let result = fetch(&guard, only(get(&url), &granted)).await;
        assert!(is_refused(&result), "{url}: {result:?}");
        assert!(is_refused(&fetch(&guard, only(get(&url), &[])).await), "{url}");
    }
    assert_eq!((stub.received().len(), resolver.asked().len()), (0, 0));
    let fetched = fetch(&guard, only(get(format!("http://ONE.test:{}/", stub.port())), &granted)).await.unwrap();
    assert_eq!((fetched.body, stub.received().len()), (b"granted".to_vec(), 1));
}

#[tokio::test]
async fn a_redirect_leads_to_granted_hosts_only() {
    let (one, two) = (Stub::start([]).await, Stub::start([Answer::ok("there")]).await);
    let guard = guarded(&["one.test", "two.test"], &Scripted::new(&[&["127.0.0.1"]]));
    let to_two = format!("http://two.test:{}/", two.port());
    let ask = async |hosts: &[String]| {
        one.add(Answer::redirect(302, "/again"));
        one.add(Answer::redirect(302, &to_two));
        fetch(&guard, only(get(format!("http://one.test:{}/", one.port())), hosts)).await
    };
    let refused = ask(&["one.test".to_owned(), format!("two.test:{}", one.port())]).await.unwrap_err();
    let expected = format!("the redirect to `two.test:{}` is not followed: that host is not granted", two.port());
    assert_eq!((refused, two.received().len()), (FetchError::Refused(expected), 0));
    let followed = ask(&["one.test".to_owned(), "two.test".to_owned()]).await.unwrap();
    assert_eq!((followed.url, one.received().len(), two.received().len()), (to_two, 4, 1));
}

#[tokio::test]
async fn a_grant_opens_no_private_address() {
    let stub = Stub::start([]).await;
    let guard = guarded(&[], &Scripted::new(&[&["127.0.0.1"]]));
    for host in ["127.0.0.1", "stub.test"] {
        let request = only(get(format!("http://{host}:{}/", stub.port())), &[host.to_owned()]);
        let error = fetch(&guard, request).await.unwrap_err();
        assert!(matches!(&error, FetchError::Refused(why) if why.contains("a loopback address")), "{error}");
    }
    assert_eq!(stub.received().len(), 0);
}

#[tokio::test]
async fn a_name_is_looked_up_anew_for_every_hop() {
    let stub = Stub::start([Answer::redirect(302, "/two")]).await;
    let resolver = Scripted::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let guard = guarded(&["stub.test"], &resolver);
    let result = fetch(&guard, get(format!("http://stub.test:{}/one", stub.port()))).await;
    assert!(is_refused(&result), "{result:?}");
    assert_eq!(resolver.asked().len(), 2);
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_more() {
    let follow = async |redirects: usize| {
        let stub = Stub::start([]).await;
        for number in 0..redirects {
            stub.add(Answer::redirect(302, &format!("/{number}")));
        }
        stub.add(Answer::ok("there"));
        let guard = guarded(&["stub.test"], &Scripted::new(&[&["127.0.0.1"]]));
        let fetched = fetch(&guard, get(format!("http://stub.test:{}/", stub.port()))).await;
        (fetched.map(|fetched| String::from_utf8(fetched.body).unwrap()), stub.received().len())
    };
    assert_eq!(follow(5).await, (Ok("there".to_owned()), 6));
    assert_eq!(follow(6).await, (Err(FetchError::Failed("there were more than 5 redirects".to_owned())), 6));
}

#[tokio::test]
async fn a_post_and_its_secrets_across_origins() {
    let (one, two) = (Stub::start([]).await, Stub::start([Answer::ok("done")]).await);
    one.add(Answer::redirect(307, "/again"));
    one.add(Answer::redirect(307, &format!("http://two.test:{}/", two.port())));
    let guard = guarded(&["one.test", "two.test"], &Scripted::new(&[&["127.0.0.1"]]));
    let request = FetchRequest {
        method: "POST".to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer secret".to_owned())],
        body: Some(b"words".to_vec()),
        ..get(format!("http://one.test:{}/", one.port()))
    };
    let fetched = fetch(&guard, request).await.unwrap();
    assert_eq!(fetched.url, format!("http://two.test:{}/", two.port()));
    let has_secret = |received: Vec<String>| received.iter().map(|one| one.contains("secret")).collect::<Vec<_>>();
    assert_eq!((has_secret(one.received()), has_secret(two.received())), (vec![true, true], vec![false]));
    assert!(two.received()[0].starts_with("POST / ") && two.received()[0].ends_with("\r\n\r\nwords"));
}

#[tokio::test]
async fn a_body_is_cut_at_its_limit() {
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1025));
    let stub =
        Stub::start([Answer::ok(&"x".repeat(1024)), Answer::ok(&"x".repeat(1025)), Answer::then_hold(endless)]).await;
    let guard = guarded(&["stub.test"], &Scripted::new(&[&["127.0.0.1"]]));
    for is_cut in [false, true, true] {
        let fetched = fetch(&guard, get(format!("http://stub.test:{}/", stub.port()))).await.unwrap();
        assert_eq!((fetched.body.len(), fetched.is_truncated), (1024, is_cut));
    }
    let nothing = FetchRequest { max_bytes: 0, ..get(format!("http://stub.test:{}/", stub.port())) };
    stub.add(Answer::ok("x"));
    let fetched = fetch(&guard, nothing).await.unwrap();
    assert_eq!((fetched.body.len(), fetched.is_truncated), (0, true));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_answer() {
    let stub = Stub::start([Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")]).await;
    let guard = guarded(&["stub.test"], &Scripted::new(&[&["127.0.0.1"]]));
    let error = fetch(&guard, get(format!("http://stub.test:{}/", stub.port()))).await.unwrap_err();
    assert!(error.to_string().starts_with("the answer broke off after 4 bytes"), "{error}");
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_time_out() {
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    let stub = Stub::start([Answer::then_hold(""), Answer::then_hold(half)]).await;
    let guard = guarded(&["stub.test"], &Scripted::new(&[&["127.0.0.1"]]));
    for _ in 0..2 {
        let timeout = Duration::from_millis(100);
        let request = FetchRequest { timeout, ..get(format!("http://stub.test:{}/", stub.port())) };
        let expected = FetchError::Timeout("there was no whole answer in 100ms".to_owned());
        assert_eq!(fetch(&guard, request).await, Err(expected));
    }
}

#[tokio::test]
async fn cancelling_ends_it_on_the_wire_too() {
    let stub = Stub::start([Answer::then_hold("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")]).await;
    let guard = guarded(&["stub.test"], &Scripted::new(&[&["127.0.0.1"]]));
    let stop = CancellationToken::new();
    let fetching = guard.fetch(get(format!("http://stub.test:{}/", stub.port())), stop.clone());
    let cancelling = async {
        stub.holding().await;
        stop.cancel();
    };
    let (fetched, ()) = futures_util::join!(fetching, cancelling);
    assert_eq!(fetched, Err(FetchError::Cancelled));
    stub.left().await;
}

#[tokio::test]
async fn names_that_lead_nowhere_and_ports_nobody_listens_on() {
    let guard = guarded(&["127.0.0.1"], &Scripted::new(&[]));
    let error = fetch(&guard, get("http://nowhere.test/?key=secret")).await.unwrap_err();
    assert!(error.to_string().starts_with("`nowhere.test` cannot be resolved"), "{error}");
    let closed = ClosedPort::take();
    let port = closed.port();
    let error = fetch(&guard, get(format!("http://127.0.0.1:{port}/?key=secret"))).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot connect to `127.0.0.1:{port}`")), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let guard = guarded(&[], &Scripted::new(&[&[]]));
    let error = fetch(&guard, get("http://empty.test/")).await.unwrap_err();
    assert_eq!(error, FetchError::Failed("`empty.test` has no address".to_owned()));
}

#[tokio::test]
async fn localhost_is_loopback_for_the_system_too() {
    let guard = GuardedFetch::new(vec![]);
    let result = fetch(&guard, get("http://localhost:9/")).await;
    assert!(is_refused(&result), "{result:?}");
}

/// In a process of its own, since the environment is shared by all tests.
#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "fetch::tests::a_named_private_host_answers"]);
    for variable in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        child.env(variable, "http://127.0.0.1:1");
    }
    let told = child.env_remove("no_proxy").env_remove("NO_PROXY").output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout);
    assert!(told.contains("1 passed; 0 failed"), "{told}");
}
