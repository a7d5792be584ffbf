use super::*;
use crate::world::patchboard::plugin::host_functions::{CallError, Host};

async fn call(state: &mut CallState, name: &str, arguments: &str) -> Result<String, String> {
    let called = Host::call(state, name.to_owned(), arguments.to_owned()).await.unwrap();
    called.map_err(|error| match error {
        CallError::Denied(reason) => format!("denied: {reason}"),
        CallError::Failed(reason) => format!("failed: {reason}"),
    })
}

#[tokio::test]
async fn granted_tools_answer_and_others_are_denied() {
    let logged = Logged::start();
    let mut state = Setting::new(&["host-function:remember", "host-function:fail"]).call().await;
    let answer = call(&mut state, "remember", r#" {"fact": "x"} "#).await;
    assert_eq!(answer.as_deref(), Ok(r#"remember {"fact":"x"}"#));
    assert_eq!(call(&mut state, "fail", "{}").await, Err("failed: it did not work".to_owned()));
    assert_eq!(logged.lines(), [""; 0]);
    let denied = "host function `bash` is not granted to plugin `probe`: add \"host-function:bash\" to its grants";
    for _ in 0..2 {
        assert_eq!(call(&mut state, "bash", "{}").await, Err(format!("denied: {denied}")));
    }
    assert_eq!(logged.lines(), [format!("WARN plugin: refused: {denied} plugin=probe")]);
    assert!(call(&mut state, "Remember", "{}").await.is_err());
}

#[tokio::test]
async fn arguments_are_an_object_of_bounded_size() {
    let mut state = Setting::new(&["host-function:remember"]).call().await;
    for (arguments, reason) in [
        ("[]", "failed: the arguments are not a JSON object"),
        ("1", "failed: the arguments are not a JSON object"),
        ("", "failed: the arguments are not JSON: EOF while parsing a value at line 1 column 0"),
        ("{", "failed: the arguments are not JSON: EOF while parsing an object at line 1 column 1"),
        (&format!("{{}}{}", " ".repeat(1024 * 1024)), "failed: the arguments are longer than 1048576 bytes"),
    ] {
        assert_eq!(call(&mut state, "remember", arguments).await, Err(reason.to_owned()));
    }
}

#[tokio::test]
async fn a_long_answer_is_cut_between_letters() {
    let mut state = Setting::new(&["host-function:long"]).call().await;
    assert_eq!(call(&mut state, "long", "{}").await.unwrap(), "é".repeat(512 * 1024));
}

#[tokio::test]
async fn where_nobody_called_there_is_nobody_to_call_for() {
    let mut state = Setting::new(&["host-function:remember"]).call().await;
    state.functions = None;
    let denied = "denied: host function `remember` is not available here: it needs the call of a tool to work for";
    assert_eq!(call(&mut state, "remember", "{}").await, Err(denied.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_does_not_answer_ends_with_the_call() {
    let setting = Setting::new(&["host-function:wait"]);
    let wait = |state| Host::call(state, "wait".to_owned(), "{}".to_owned());
    let (mut stopped, mut late) = (setting.call().await, setting.call().await);
    stopped.stop = CancellationToken::new();
    let stop = stopped.stop.clone();
    let stopping = async {
        // First the tool is at work, on another task.
        while setting.tools.stops.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (done, ()) = tokio::join!(wait(&mut stopped), stopping);
    assert_eq!(ended(done), CallAborted::Cancelled);
    assert_eq!(ended(wait(&mut late).await), CallAborted::OutOfTime);
    // Each was told that it need not go on.
    let stops = setting.tools.stops.lock().unwrap();
    assert_eq!(stops.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>(), [true, true]);
}
