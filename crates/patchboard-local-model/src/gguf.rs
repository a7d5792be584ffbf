//! Reads a GGUF file's metadata without loading the model, because a sleeping server cannot be queried.
//!
//! Only the metadata at the file's beginning is read. It is untrusted: lengths are checked against the remaining input,
//! and metadata that does not parse counts as unknown instead of an error, because the server decides in the end.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Vocabularies precede the chat template and take some megabytes; anything larger is not metadata.
const MAX_METADATA: u64 = 64 * 1024 * 1024;
/// Templates are some kilobytes.
const MAX_VALUE: u64 = 1024 * 1024;
const MAX_KEYS: u64 = 4096;
/// Nesting of arrays; real files have none.
const MAX_DEPTH: u8 = 4;

/// Metadata known before the server starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ModelMetadata {
    /// The longest context window the model was trained on.
    pub(super) trained_window: Option<u32>,
    /// Whether its chat template supports tools; `None` if it has no template.
    pub(super) tools: Option<bool>,
}

pub(super) fn read_metadata(weights: &Path) -> ModelMetadata {
    match File::open(weights) {
        Ok(file) => parse_metadata(BufReader::new(file).take(MAX_METADATA)),
        Err(_) => ModelMetadata::default(),
    }
}

/// Parses as much as possible.
pub(super) fn parse_metadata(source: impl Read) -> ModelMetadata {
    let mut found = ModelMetadata::default();
    // Values parsed before an error are kept.
    drop(scan(source, &mut found));
    found
}

fn scan(mut source: impl Read, found: &mut ModelMetadata) -> io::Result<()> {
    let magic_and_version = read_array::<8>(&mut source)?;
    if !magic_and_version.starts_with(b"GGUF") {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let _tensors = u64::from_le_bytes(read_array(&mut source)?);
    let keys = u64::from_le_bytes(read_array(&mut source)?);
    for _ in 0..keys.min(MAX_KEYS) {
        let key = read_string(&mut source)?;
        let kind = u32::from_le_bytes(read_array(&mut source)?);
        if key == "tokenizer.chat_template" && kind == STRING {
            found.tools = Some(read_string(&mut source)?.contains("tools"));
        } else if key.ends_with(".context_length") && kind == U32 {
            found.trained_window = Some(u32::from_le_bytes(read_array(&mut source)?));
        } else if key.ends_with(".context_length") && kind == U64 {
            found.trained_window = u32::try_from(u64::from_le_bytes(read_array(&mut source)?)).ok();
        } else {
            skip(&mut source, kind, 0)?;
        }
    }
    Ok(())
}

// Value types, as numbered by the format.
const U32: u32 = 4;
const STRING: u32 = 8;
const ARRAY: u32 = 9;
const U64: u32 = 10;

/// Size in bytes of a value of a fixed-size type.
const fn size(kind: u32) -> Option<u64> {
    match kind {
        // 8 bits, signed or not, and bool.
        0 | 1 | 7 => Some(1),
        2 | 3 => Some(2),
        // 32 bits, float included.
        4..=6 => Some(4),
        10..=12 => Some(8),
        _ => None,
    }
}

fn skip(source: &mut impl Read, kind: u32, depth: u8) -> io::Result<()> {
    if let Some(size) = size(kind) {
        return skip_bytes(source, size);
    }
    match kind {
        STRING => {
            let length = u64::from_le_bytes(read_array(source)?);
            skip_bytes(source, length)
        }
        ARRAY if depth < MAX_DEPTH => {
            let kind = u32::from_le_bytes(read_array(source)?);
            let count = u64::from_le_bytes(read_array(source)?);
            if let Some(size) = size(kind) {
                return skip_bytes(source, count.saturating_mul(size));
            }
            // Each element consumes bytes from a bounded source, so a false count cannot run on.
            for _ in 0..count {
                skip(source, kind, depth + 1)?;
            }
            Ok(())
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn read_string(source: &mut impl Read) -> io::Result<String> {
    let length = u64::from_le_bytes(read_array(source)?);
    if length > MAX_VALUE {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    source.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn read_array<const N: usize>(source: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn skip_bytes(source: &mut impl Read, length: u64) -> io::Result<()> {
    let passed = io::copy(&mut source.take(length), &mut io::sink())?;
    if passed == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
