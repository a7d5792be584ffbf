//! A progress bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use patchboard_local_model::PrepareProgress;

use crate::output;

#[derive(Debug)]
pub(crate) struct TerminalProgress {
    bar: Option<ProgressBar>,
    last_message: Mutex<String>,
}

impl TerminalProgress {
    pub(crate) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} {msg:40!} {wide_bar} {percent:>3}% {elapsed}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar, last_message: Mutex::new(String::new()) }
    }

    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl PrepareProgress for TerminalProgress {
    fn report(&self, message: &str, fraction: Option<f32>) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(message.to_owned());
                if let Some(fraction) = fraction {
                    bar.set_position((fraction.clamp(0.0, 1.0) * 1000.0) as u64);
                }
            }
            None => {
                let mut last_message = self.last_message.lock().unwrap_or_else(PoisonError::into_inner);
                if *last_message != message {
                    output::eprint_line(&format!("local model: {message}"));
                    message.clone_into(&mut last_message);
                }
            }
        }
    }
}
