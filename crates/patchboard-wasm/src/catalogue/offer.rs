//! The tools of all plugins at work, put together anew only when that changes.

use std::collections::HashMap;
use std::sync::Arc;

use patchboard_core::tool::ToolSpec;

use super::entry::PluginEntry;
use super::tool_owners::ToolNameOwners;

#[derive(Debug, Clone, Default)]
pub(super) struct ToolOffer {
    /// In the order of the plugins.
    pub(super) specs: Arc<[ToolSpec]>,
    /// Whose a tool is that goes by its own name.
    owners: HashMap<Arc<str>, Arc<PluginEntry>>,
}

impl ToolOffer {
    /// Where a tool's own name is another plugin's, it is called `PLUGIN.NAME`.
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
        // Whoever remembers the list sees by its address that it is the same.
        let specs = if *before.specs == *specs { before.specs.clone() } else { specs.into() };
        Self { specs, owners }
    }

    pub(super) fn owner(&self, tool: &str) -> Option<&Arc<PluginEntry>> {
        self.owners.get(tool)
    }
}
