//! The world of `wit/patchboard.wit` in Rust.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "tool-and-channel",
    imports: { default: async | trappable },
    exports: { default: async },
});
