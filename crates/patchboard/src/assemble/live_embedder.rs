//! An embedder whose provider, with address and key, can be replaced while the server runs.

use futures_util::future::BoxFuture;
use patchboard_core::model::ModelError;
use patchboard_core::port::Embedder;
use patchboard_core::reloadable::Reloadable;
use patchboard_providers::HttpEmbedder;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct LiveEmbedder {
    /// Constant: the model changes only with a restart.
    space: String,
    current: Reloadable<HttpEmbedder>,
}

impl LiveEmbedder {
    pub(crate) fn new(embedder: HttpEmbedder) -> Self {
        Self { space: embedder.space().to_owned(), current: Reloadable::new(embedder) }
    }

    pub(crate) fn replace(&self, embedder: HttpEmbedder) {
        debug_assert_eq!(embedder.space(), self.space, "the model of vectors changes only with a restart");
        self.current.set(embedder);
    }
}

impl Embedder for LiveEmbedder {
    fn space(&self) -> &str {
        &self.space
    }

    fn embed(&self, texts: Vec<String>, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        let current = self.current.get();
        Box::pin(async move { current.embed(texts, stop).await })
    }
}
