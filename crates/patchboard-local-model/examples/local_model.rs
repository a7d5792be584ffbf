//! Prepares the managed local model for real, asks it one question and reports what that took:
//!
//! ```text
//! cargo run -p patchboard-local-model --example local_model -- DATA_DIR [FILE.gguf]
//! ```
//!
//! Downloads about 130 MB the first time. Ends with status 1 when anything is not as it should be; with `STAY=1` as
//! the last argument it keeps the server until it is interrupted or killed.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use patchboard_local_model::{self as local_model, ManagedOptions, ManagedServer, PrepareProgress};
use secrecy::ExposeSecret;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[tokio::main]
async fn main() -> ExitCode {
    match Box::pin(run()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_line(&format!("error: {error}"));
            if let Some(managed) = error.downcast_ref::<local_model::Error>() {
                for (label, text) in [("output", managed.output()), ("hint", managed.hint())] {
                    if let Some(text) = text {
                        print_line(&format!("{label}: {text}"));
                    }
                }
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let stay = arguments.pop_if(|last| last == "STAY=1").is_some();
    let mut arguments = arguments.into_iter().map(PathBuf::from);
    let data_dir = arguments.next().ok_or("name a data directory")?;
    let options = ManagedOptions::new(data_dir, arguments.next());
    let (stop, tracker) = (CancellationToken::new(), TaskTracker::new());

    let started = Instant::now();
    let prepared = local_model::prepare(&options, &ConsoleProgress, &stop).await?;
    print_line(&format!("prepared in {} ms", started.elapsed().as_millis()));

    let started = Instant::now();
    let server = ManagedServer::start(prepared, &stop, &tracker).await?;
    print_line(&format!(
        "ready in {} ms: {} at {}, {} tokens, tools {}",
        started.elapsed().as_millis(),
        server.model_name(),
        server.base_url(),
        server.context_tokens(),
        server.supports_tools(),
    ));

    let answer = ask(&server, "What is the capital of France? Answer in one sentence.").await?;
    print_line(&format!(
        "first token after {} ms, all after {} ms",
        answer.first_token_after.as_millis(),
        answer.total_time.as_millis()
    ));
    print_line(&format!("usage {}", answer.usage));
    print_line(&format!("text {:?}", answer.text));
    if !answer.text.contains("Paris") || answer.usage["completion_tokens"].as_u64().is_none_or(|count| count == 0) {
        return Err("the answer is not about Paris or has no usage".into());
    }
    if stay {
        tokio::signal::ctrl_c().await?;
    }
    stop.cancel();
    tracker.close();
    tracker.wait().await;
    Ok(())
}

struct TimedCompletion {
    text: String,
    usage: serde_json::Value,
    first_token_after: Duration,
    total_time: Duration,
}

/// One streamed chat completion over a plain socket.
async fn ask(server: &ManagedServer, question: &str) -> Result<TimedCompletion, Box<dyn std::error::Error>> {
    let body = serde_json::json!({
        "model": server.model_name(), "temperature": 0, "max_tokens": 40,
        "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": question}],
    })
    .to_string();
    let base_url = server.base_url();
    let address = base_url.trim_start_matches("http://").trim_end_matches("/v1");
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.api_key().expose_secret(),
        body.len(),
    );
    let started = Instant::now();
    stream.write_all(request.as_bytes()).await?;

    let mut lines = BufReader::new(stream.take(1024 * 1024)).lines();
    let mut answer = TimedCompletion {
        text: String::new(),
        usage: serde_json::Value::Null,
        first_token_after: Duration::ZERO,
        total_time: Duration::ZERO,
    };
    while let Some(line) = lines.next_line().await? {
        let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let chunk: serde_json::Value = serde_json::from_str(data)?;
        if let Some(text) = chunk["choices"][0]["delta"]["content"].as_str() {
            if answer.text.is_empty() {
                answer.first_token_after = started.elapsed();
            }
            answer.text.push_str(text);
        }
        if !chunk["usage"].is_null() {
            answer.usage = chunk["usage"].clone();
        }
    }
    answer.total_time = started.elapsed();
    Ok(answer)
}

struct ConsoleProgress;

impl PrepareProgress for ConsoleProgress {
    fn report(&self, message: &str, fraction: Option<f32>) {
        match fraction {
            Some(fraction) => print_line(&format!("{message}: {:.0} %", fraction * 100.0)),
            None => print_line(message),
        }
    }
}

fn print_line(line: &str) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        tracing::debug!(%error, "nobody reads the output");
    }
}
