//! Identifies files that are not components, so that the refusal can say what to do.

use super::PluginFileError;

const MAGIC: &[u8] = b"\0asm";
/// Version and layer fields, after the magic number.
const MODULE: [u8; 4] = [1, 0, 0, 0];
const COMPONENT: [u8; 4] = [0x0d, 0, 1, 0];

const BUILD: &str = "build it for the target wasm32-wasip2, or make a component of it with `wasm-tools component new`";

pub(super) fn check(bytes: &[u8]) -> Result<(), PluginFileError> {
    if bytes.is_empty() {
        return Err(PluginFileError::new("is empty"));
    }
    if !bytes.starts_with(MAGIC) {
        return Err(describe_other_file(bytes));
    }
    let Some(version) = bytes.get(MAGIC.len()..MAGIC.len() + 4) else {
        return Err(PluginFileError::new("ends within its first bytes").hint("is the file complete?"));
    };
    if version == COMPONENT {
        return Ok(());
    }
    if version != MODULE {
        return Err(PluginFileError::new(format!(
            "is WebAssembly of an encoding unknown here: {}",
            hex::encode(version)
        )));
    }
    Err(match mentions(bytes, b"extism:host") {
        true => PluginFileError::new("is an Extism plugin, not a component").hint(
            "Extism modules are not run here: export `tools` or `channel` of patchboard:plugin instead, see `patchboard plugins new`",
        ),
        false => PluginFileError::new("is a core module, not a component").hint(BUILD),
    })
}

fn describe_other_file(bytes: &[u8]) -> PluginFileError {
    let text = bytes.trim_ascii_start();
    if text.starts_with(b"(component") || text.starts_with(b"(module") {
        return PluginFileError::new("is WebAssembly text, not binary").hint("translate it with `wasm-tools parse`");
    }
    if bytes.starts_with(b"\x7fELF") {
        return PluginFileError::new("is machine code, not WebAssembly")
            .hint("compiled plugins are not loaded, only their source");
    }
    PluginFileError::new("is not WebAssembly")
}

fn mentions(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len()).any(|window| window == name)
}
