//! Bindings for the world in `wit/patchboard.wit`.

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "tool-and-channel",
    imports: { default: async | trappable },
    exports: { default: async },
});
