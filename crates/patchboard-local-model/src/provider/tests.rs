use futures_util::{StreamExt, stream};
use patchboard_core::model::{ModelError, ModelEvent, StopReason, TokenCount};

use super::{CUT_NOTICE, RepetitionGuard};

fn text(piece: &str) -> ModelEvent {
    ModelEvent::Text(piece.to_owned())
}

async fn guarded(events: Vec<Result<ModelEvent, ModelError>>) -> Vec<Result<ModelEvent, ModelError>> {
    RepetitionGuard::new(Box::pin(stream::iter(events)), None).collect().await
}

#[tokio::test]
async fn an_answer_that_repeats_itself_ends_there_and_says_so() {
    let endless = std::iter::repeat_with(|| Ok(text("and so it goes on, "))).take(1000);
    let heard = guarded(endless.collect()).await;
    assert!(heard.len() < 30, "{}", heard.len());
    assert_eq!(heard.last(), Some(&Ok(ModelEvent::Stop(StopReason::MaxTokens))));
    assert_eq!(heard[heard.len() - 2], Ok(text(&format!("and so it goes on, {CUT_NOTICE}"))));
}

#[tokio::test]
async fn every_other_answer_passes_unchanged() {
    let events = vec![
        Ok(ModelEvent::ModelSelected { provider: "local".into(), model: "m".into() }),
        Ok(text("A short ")),
        Ok(ModelEvent::Thought("hm".to_owned())),
        Ok(text("answer.")),
        Ok(ModelEvent::Usage(TokenCount { input: 5, output: 4 })),
        Ok(ModelEvent::Stop(StopReason::EndOfTurn)),
    ];
    assert_eq!(guarded(events.clone()).await, events);
    let cut = vec![Ok(text("half")), Err(ModelError::Truncated("gone".to_owned()))];
    assert_eq!(guarded(cut.clone()).await, cut);
}

#[tokio::test]
async fn endless_thoughts_end_too() {
    let endless = std::iter::repeat_with(|| Ok(ModelEvent::Thought("let me think about it again. ".to_owned())));
    let heard = guarded(endless.take(1000).collect()).await;
    assert!(heard.len() < 30, "{}", heard.len());
    assert_eq!(heard.last(), Some(&Ok(ModelEvent::Stop(StopReason::MaxTokens))));
}
