//! Embeddings from any server with OpenAI's embeddings endpoint.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use patchboard_core::model::ModelError;
use patchboard_core::port::Embedder;
use patchboard_http::{ClientPool, Method, Url};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::http::{ApiClient, ApiRequest};
use crate::openai;
use crate::upstream::UpstreamFailure;
use crate::{Error, ProviderOptions};

/// Texts per request; more are split into several requests.
const TEXTS_PER_REQUEST: usize = 64;

#[derive(Debug)]
pub struct HttpEmbedder {
    name: Arc<str>,
    client: ApiClient,
    embeddings: Url,
    model: Arc<str>,
}

/// Ignores `options.kind` and `options.model`: only OpenAI's dialect has the endpoint, and `model` is the embedding
/// model. The vector space is named after it, because the same model yields the same vectors on every server.
pub fn embedder(
    options: ProviderOptions,
    model: impl Into<Arc<str>>,
    pool: &ClientPool,
) -> Result<HttpEmbedder, Error> {
    let name = Arc::clone(&options.name);
    let client = openai::api_client(options, pool)?;
    Ok(HttpEmbedder { name, embeddings: client.root().endpoint("embeddings"), client, model: model.into() })
}

#[derive(Serialize)]
struct EmbeddingsRequest<'a> {
    model: &'a str,
    input: &'a [String],
    encoding_format: &'static str,
}

#[derive(Deserialize)]
struct EmbeddingsResponse {
    data: Vec<EmbeddingEntry>,
}

#[derive(Deserialize)]
struct EmbeddingEntry {
    /// The text it belongs to; servers that omit it respond in order.
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl HttpEmbedder {
    async fn embed_batch(&self, texts: &[String], stop: &CancellationToken) -> Result<Vec<Vec<f32>>, UpstreamFailure> {
        let embeddings_request = EmbeddingsRequest { model: &self.model, input: texts, encoding_format: "float" };
        let body =
            serde_json::to_vec(&embeddings_request).map_err(|_| embed_error("the texts cannot be written as JSON"))?;
        let request = ApiRequest { method: Method::POST, url: self.embeddings.clone(), body };
        let response: EmbeddingsResponse = self.client.fetch_json(request, stop).await?;
        Ok(ordered_vectors(response.data, texts.len())?)
    }
}

impl Embedder for HttpEmbedder {
    fn space(&self) -> &str {
        &self.model
    }

    fn embed(&self, texts: Vec<String>, stop: CancellationToken) -> BoxFuture<'_, Result<Vec<Vec<f32>>, ModelError>> {
        Box::pin(async move {
            openai::check_key(&self.name, &self.client)?;
            let mut vectors = Vec::with_capacity(texts.len());
            for batch in texts.chunks(TEXTS_PER_REQUEST) {
                vectors.extend(self.embed_batch(batch, &stop).await.map_err(|failure| failure.error)?);
            }
            Ok(vectors)
        })
    }
}

fn ordered_vectors(entries: Vec<EmbeddingEntry>, count: usize) -> Result<Vec<Vec<f32>>, ModelError> {
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for (position, entry) in entries.into_iter().enumerate() {
        let slot = vectors
            .get_mut(entry.index.unwrap_or(position))
            .ok_or_else(|| embed_error("the provider sent a vector that was not requested"))?;
        *slot = Some(entry.embedding);
    }
    let vectors: Vec<Vec<f32>> =
        vectors.into_iter().collect::<Option<_>>().ok_or_else(|| embed_error("the provider left out a vector"))?;
    let dimensions = vectors.first().map_or(0, Vec::len);
    let usable = vectors.iter().all(|vector| {
        !vector.is_empty() && vector.len() == dimensions && vector.iter().all(|number| number.is_finite())
    });
    match usable {
        true => Ok(vectors),
        false => Err(embed_error("the provider's vectors differ in length or are not numbers")),
    }
}

fn embed_error(reason: &str) -> ModelError {
    ModelError::Rejected(format!("cannot embed: {reason}"))
}

#[cfg(test)]
mod tests;
