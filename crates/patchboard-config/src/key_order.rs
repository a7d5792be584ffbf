//! The order in which section types declare their keys, used by the sample file and the reference. Schemas and TOML
//! tables are sorted by name and do not preserve it.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Deserializer, de::Visitor, forward_to_deserialize_any};

use super::{
    Config,
    section::{
        AgentConfig, BashConfig, BindingConfig, BridgeConfig, BudgetsConfig, ChannelConfig, GatewayConfig, GotConfig,
        HubConfig, KeyBudgetConfig, KeyConfig, LimitsConfig, LocalModelConfig, LogConfig, McpConfig, MemoryConfig,
        NotificationsConfig, NtfyConfig, PluginConfig, PriceConfig, ProviderConfig, ProviderModelConfig,
        RateLimitConfig, RetentionConfig, RoutingRuleConfig, RunsConfig, SearchConfig, StorageConfig, TelemetryConfig,
        TlsConfig, ToolsConfig, TotConfig, WasmConfig, WebhookConfig, WebhookRateConfig, WorkerConfig,
    },
};

/// The declared order of a table's keys, looked up by the set of their names.
pub(crate) fn declared_order(names: &BTreeSet<&str>) -> Option<Vec<&'static str>> {
    let tables = [
        fields_of::<Config>(),
        fields_of::<GatewayConfig>(),
        fields_of::<RateLimitConfig>(),
        fields_of::<RunsConfig>(),
        fields_of::<HubConfig>(),
        fields_of::<RoutingRuleConfig>(),
        fields_of::<NotificationsConfig>(),
        fields_of::<WebhookConfig>(),
        fields_of::<NtfyConfig>(),
        fields_of::<BridgeConfig>(),
        fields_of::<TlsConfig>(),
        fields_of::<ProviderConfig>(),
        fields_of::<LocalModelConfig>(),
        fields_of::<AgentConfig>(),
        fields_of::<TotConfig>(),
        fields_of::<GotConfig>(),
        fields_of::<BindingConfig>(),
        fields_of::<KeyConfig>(),
        fields_of::<KeyBudgetConfig>(),
        fields_of::<BudgetsConfig>(),
        fields_of::<PriceConfig>(),
        fields_of::<MemoryConfig>(),
        fields_of::<ProviderModelConfig>(),
        fields_of::<PluginConfig>(),
        fields_of::<WasmConfig>(),
        fields_of::<ChannelConfig>(),
        fields_of::<WebhookRateConfig>(),
        fields_of::<WorkerConfig>(),
        fields_of::<McpConfig>(),
        fields_of::<ToolsConfig>(),
        fields_of::<BashConfig>(),
        fields_of::<SearchConfig>(),
        fields_of::<StorageConfig>(),
        fields_of::<RetentionConfig>(),
        fields_of::<LimitsConfig>(),
        fields_of::<LogConfig>(),
        fields_of::<TelemetryConfig>(),
    ];
    tables.into_iter().find(|fields| fields.iter().copied().collect::<BTreeSet<_>>() == *names).map(<[_]>::to_vec)
}

/// Obtains a type's field names from its `Deserialize` implementation, without a value.
fn fields_of<T: Deserialize<'static>>() -> &'static [&'static str] {
    match T::deserialize(FieldNameProbe) {
        Ok(_) => &[],
        Err(FieldNames(fields)) => fields,
    }
}

struct FieldNameProbe;

#[derive(Debug)]
struct FieldNames(&'static [&'static str]);

impl fmt::Display for FieldNames {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("fields of a type")
    }
}

impl std::error::Error for FieldNames {}

impl serde::de::Error for FieldNames {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for FieldNameProbe {
    type Error = FieldNames;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, FieldNames> {
        Err(FieldNames(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, FieldNames> {
        Err(FieldNames(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes
        byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}
