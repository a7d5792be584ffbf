//! Notices as log lines.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::app::UserNotice;
use patchboard_core::port::NoticeSink;
use tokio_util::sync::CancellationToken;

use super::priority_word;

/// Logs one line per notice, at `info`. Texts are fields, which the log quotes, so a notice cannot imitate another
/// line.
#[derive(Debug, Default)]
pub struct ConsoleSink;

impl NoticeSink for ConsoleSink {
    fn name(&self) -> &'static str {
        "console"
    }

    fn show(&self, notice: Arc<UserNotice>, _: CancellationToken) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            tracing::info!(
                app = notice.app.as_deref(),
                priority = priority_word(notice.priority),
                message.id = notice.message.map(tracing::field::display),
                title = &*notice.title,
                body = (!notice.body.is_empty()).then_some(&*notice.body),
                "notice"
            );
            Ok(())
        })
    }
}
