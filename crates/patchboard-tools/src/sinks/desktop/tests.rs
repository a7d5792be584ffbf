//! A bus that answers as it is told, on a real socket.

use std::path::Path;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::wire::MethodCall;
use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    WithMarkup,
    Plain,
    /// Rejects authentication.
    Closed,
    /// There is no notification service.
    NoService,
    /// Sends garbage after signing in.
    Mad,
    /// Signs in and never answers.
    Silent,
}

struct Bus {
    sink: Arc<DesktopSink>,
    calls: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
    _folder: TempDir,
    _serving: AbortOnDropHandle<()>,
}

impl Bus {
    fn start(manner: Manner) -> Self {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("bus");
        let listener = UnixListener::bind(&socket).unwrap();
        let calls = Arc::new(std::sync::Mutex::new(Vec::new()));
        let serving = AbortOnDropHandle::new(TaskTracker::new().spawn({
            let calls = calls.clone();
            async move {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    // The client may be gone at any time.
                    drop(serve(stream, manner, &calls).await);
                }
            }
        }));
        Self { sink: Arc::new(sink_at(&socket)), calls, _folder: folder, _serving: serving }
    }

    async fn show(&self, notice: UserNotice) -> Result<(), String> {
        self.sink.show(Arc::new(notice), CancellationToken::new()).await
    }

    /// The last call, which should be this one with these arguments.
    #[track_caller]
    fn assert_notified(&self, serial: u32, toast: &NotifyArguments<'_>) {
        let calls = self.calls.lock().unwrap();
        assert_eq!(calls.last(), Some(&MethodCall::NOTIFY.marshalled(serial, &toast.marshalled())));
    }
}

fn sink_at(socket: &Path) -> DesktopSink {
    let address = format!("tcp:host=nowhere;unix:path={}.old;unix:path={}", socket.display(), socket.display());
    DesktopSink::new(SessionBus { address: Some(address), runtime_dir: None })
}

async fn serve(mut stream: UnixStream, manner: Manner, calls: &std::sync::Mutex<Vec<Vec<u8>>>) -> std::io::Result<()> {
    let mut opening = Vec::new();
    while !opening.ends_with(b"\r\n") {
        opening.push(stream.read_u8().await?);
    }
    let user = rustix::process::geteuid().as_raw().to_string();
    let user: String = user.bytes().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(String::from_utf8(opening).unwrap(), format!("\0AUTH EXTERNAL {user}\r\n"));
    if manner == Manner::Closed {
        return stream.write_all(b"REJECTED EXTERNAL\r\n").await;
    }
    stream.write_all(b"OK 1234deadbeef\r\n").await?;
    let mut begin = [0; 7];
    stream.read_exact(&mut begin).await?;
    assert_eq!(&begin, b"BEGIN\r\n");
    loop {
        let mut call = vec![0; wire::HEADER_BYTES];
        stream.read_exact(&mut call).await?;
        call.resize(wire::length(&call).unwrap(), 0);
        stream.read_exact(&mut call[wire::HEADER_BYTES..]).await?;
        let serial = u32::from_le_bytes(call[8..12].try_into().unwrap());
        let is = |member: &str| call.windows(member.len()).any(|window| window == member.as_bytes());
        let answer = match manner {
            Manner::Mad => vec![b'?'; 64],
            Manner::Silent => Vec::new(),
            _ if is("Hello") => [message(4, 0, "s", &text(":1.7")), message(2, serial, "s", &text(":1.7"))].concat(),
            Manner::NoService => message(3, serial, "s", &text("no\nservice")),
            Manner::WithMarkup if is("GetCapabilities") => message(2, serial, "as", &list("body-markup")),
            _ if is("GetCapabilities") => message(2, serial, "as", &list("body")),
            Manner::WithMarkup | Manner::Plain | Manner::Closed => message(2, serial, "u", &7_u32.to_le_bytes()),
        };
        calls.lock().unwrap().push(call);
        stream.write_all(&answer).await?;
    }
}

fn text(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    [&length.to_le_bytes(), text.as_bytes(), &[0]].concat()
}

fn list(only: &str) -> Vec<u8> {
    let only = text(only);
    [&u32::try_from(only.len()).unwrap().to_le_bytes()[..], &only].concat()
}

/// A message with nothing but what must be: the serial it answers and the signature.
fn message(kind: u8, reply_to: u32, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut fields = vec![5, 1, b'u', 0];
    fields.extend_from_slice(&reply_to.to_le_bytes());
    fields.extend_from_slice(&[8, 1, b'g', 0, u8::try_from(signature.len()).unwrap()]);
    fields.extend_from_slice(signature.as_bytes());
    fields.push(0);
    let mut message = vec![b'l', kind, 0, 1];
    for number in [body.len(), 1, fields.len()] {
        message.extend_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
    }
    message.extend_from_slice(&fields);
    message.resize(message.len().next_multiple_of(8), 0);
    message.extend_from_slice(body);
    message
}

fn notice(app: Option<&str>, priority: NoticePriority) -> UserNotice {
    let (title, body) = ("Tom & Jerry".into(), "1 < 2 & <b>so</b>".into());
    let at = "1970-01-01T00:00:00Z".parse().unwrap();
    UserNotice { app: app.map(Into::into), title, body, priority, message: None, at }
}

#[tokio::test]
async fn a_notice_reaches_the_desktop() {
    let bus = Bus::start(Manner::WithMarkup);
    let body = "1 &lt; 2 &amp; &lt;b&gt;so&lt;/b&gt;";
    let cases = [
        (Some("notebook"), NoticePriority::Low, "notebook", 0),
        (Some("notebook"), NoticePriority::Normal, "notebook", 1),
        (None, NoticePriority::High, "Patchboard", 2),
    ];
    for (app, priority, shown_as, urgency) in cases {
        bus.show(notice(app, priority)).await.unwrap();
        bus.assert_notified(3, &NotifyArguments { app: shown_as, title: "Tom & Jerry", body, urgency });
    }
    assert_eq!(bus.calls.lock().unwrap().len(), 9, "each on a connection of its own");
}

#[tokio::test]
async fn a_desktop_without_markup_gets_the_text_as_it_is() {
    let bus = Bus::start(Manner::Plain);
    bus.show(notice(None, NoticePriority::Normal)).await.unwrap();
    let body = "1 < 2 & <b>so</b>";
    bus.assert_notified(3, &NotifyArguments { app: "Patchboard", title: "Tom & Jerry", body, urgency: 1 });
}

#[tokio::test]
async fn what_goes_wrong_is_said() {
    let cases = [
        (Manner::Closed, "the session bus does not let this user in"),
        (Manner::NoService, "the desktop refused `GetCapabilities`: an error no\\nservice"),
        (Manner::Mad, "the session bus sent a message that cannot be read"),
    ];
    for (manner, wanted) in cases {
        let error = Bus::start(manner).show(notice(None, NoticePriority::Normal)).await.unwrap_err();
        assert_eq!(error, wanted, "{manner:?}");
    }
}

#[tokio::test]
async fn a_silent_bus_does_not_hold_up_a_server_that_stops() {
    let bus = Bus::start(Manner::Silent);
    let stop = CancellationToken::new();
    let showing = TaskTracker::new().spawn({
        let (sink, stop) = (bus.sink.clone(), stop.clone());
        async move { sink.show(Arc::new(notice(None, NoticePriority::Normal)), stop).await }
    });
    while bus.calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    assert_eq!(showing.await.unwrap(), Err("the server stopped before the desktop had it".to_owned()));
}

/// Paused time passes at once where nothing but a silent bus is waited for.
#[tokio::test(start_paused = true)]
async fn a_silent_bus_is_given_up() {
    let bus = Bus::start(Manner::Silent);
    let error = bus.show(notice(None, NoticePriority::Normal)).await.unwrap_err();
    assert_eq!(error, "the desktop did not answer in 5s");
}

#[tokio::test]
async fn without_a_bus_nothing_is_wrong() {
    let folder = TempDir::new().unwrap();
    let sink = sink_at(&folder.path().join("bus"));
    assert!(!sink.bus.seems_present());
    sink.log_if_absent();
    assert!(sink.absence_logged.load(Ordering::Relaxed));
    assert_eq!(sink.show(Arc::new(notice(None, NoticePriority::Normal)), CancellationToken::new()).await, Ok(()));
    // One that comes later is used.
    let listener = UnixListener::bind(folder.path().join("bus")).unwrap();
    assert!(sink.bus.seems_present());
    let serving = AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(serve(stream, Manner::Plain, &std::sync::Mutex::default()).await);
    }));
    assert_eq!(sink.show(Arc::new(notice(None, NoticePriority::Normal)), CancellationToken::new()).await, Ok(()));
    assert!(!sink.absence_logged.load(Ordering::Relaxed));
    drop(serving);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_bus_may_have_no_file() {
    let name = format!("patchboard-sink-test-{}", std::process::id());
    let listener = UnixListener::bind(format!("\0{name}")).unwrap();
    let _serving = AbortOnDropHandle::new(TaskTracker::new().spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        drop(serve(stream, Manner::Plain, &std::sync::Mutex::default()).await);
    }));
    let sink = DesktopSink::new(SessionBus { address: Some(format!("unix:abstract={name}")), runtime_dir: None });
    assert!(sink.bus.seems_present());
    assert_eq!(sink.show(Arc::new(notice(None, NoticePriority::Normal)), CancellationToken::new()).await, Ok(()));
    assert!(!sink.absence_logged.load(Ordering::Relaxed));
}
