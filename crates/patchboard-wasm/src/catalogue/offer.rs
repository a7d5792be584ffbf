//! The tools of all active plugins, rebuilt only when these change.

use std::collections::HashMap;
use std::sync::Arc;

use patchboard_core::tool::ToolSpec;

use super::entry::PluginEntry;
use super::tool_owners::ToolNameOwners;

#[derive(Debug, Clone, Default)]
pub(super) struct ToolOffer {
    /// In the order of the plugins.
    pub(super) specs: Arc<[ToolSpec]>,
    /// The owners of the tools that are offered under their own names.
    owners: HashMap<Arc<str>, Arc<PluginEntry>>,
}

impl ToolOffer {
    /// A tool whose own name belongs to another plugin is offered as `PLUGIN.NAME`.
    pub(super) fn of(entries: &[Arc<PluginEntry>], names: &mut ToolNameOwners, before: &Self) -> Self {
        let mut specs = Vec::new();
        let mut owners = HashMap::new();
        for entry in entries {
            let Some(version) = entry.version() else { continue };
            names.assign(entry.name(), version.tools().iter().map(|tool| &tool.name));
            for tool in version.tools().iter() {
                match names.owner(&tool.name) == Some(entry.name()) {
                    true => {
                        owners.insert(tool.name.clone(), entry.clone());
                        specs.push(tool.clone());
                    }
                    false => {
                        let name = format!("{}.{}", entry.name(), tool.name).into();
                        specs.push(ToolSpec { name, ..tool.clone() });
                    }
                }
            }
        }
        // An unchanged list keeps its address, by which callers detect that their cached copy is current.
        let specs = if *before.specs == *specs { before.specs.clone() } else { specs.into() };
        Self { specs, owners }
    }

    pub(super) fn owner(&self, tool: &str) -> Option<&Arc<PluginEntry>> {
        self.owners.get(tool)
    }
}
