//! The request as it is sent, in the dialect of the server.
//!
//! A load wants answers of a known length, so every dialect that can is asked to go on to the limit. Fields a server does
//! not know may be refused by it; `openai` sends none but the standard ones.

use serde_json::{Map, Value, json};

/// Which endpoint is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Api {
    /// `/v1/chat/completions`.
    #[default]
    Chat,
    /// `/v1/completions`.
    Completions,
}

impl Api {
    /// Path below the server's base address.
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
        }
    }
}

/// What the server understands beyond the standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The standard fields alone.
    OpenAi,
    /// vLLM.
    Vllm,
    /// SGLang.
    Sglang,
    /// Text Generation Inference.
    Tgi,
    /// llama.cpp's server.
    LlamaCpp,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Vllm, Self::Sglang, Self::Tgi, Self::LlamaCpp];

    /// Its name on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::Tgi => "tgi",
            Self::LlamaCpp => "llama.cpp",
        }
    }

    /// By the `owned_by` of the server's model list.
    pub(crate) fn of_owner(owner: &str) -> Self {
        let owner = owner.to_ascii_lowercase();
        match owner.as_str() {
            "vllm" => Self::Vllm,
            _ if owner == super::target::SIMULATED_OWNER => Self::Vllm,
            "sglang" => Self::Sglang,
            "llamacpp" | "llama.cpp" => Self::LlamaCpp,
            _ => Self::OpenAi,
        }
    }
}

/// What all requests of a load have in common.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Form {
    pub(crate) api: Api,
    pub(crate) dialect: Dialect,
    pub(crate) model: String,
    pub(crate) is_streamed: bool,
    /// Whether answers may end before their limit.
    pub(crate) may_end_early: bool,
}

/// One request's body.
pub(crate) fn body(form: &Form, prompt: &str, output_tokens: u32) -> Vec<u8> {
    let mut fields = Map::new();
    fields.insert("model".into(), form.model.clone().into());
    match form.api {
        Api::Chat => fields.insert("messages".into(), json!([{ "role": "user", "content": prompt }])),
        Api::Completions => fields.insert("prompt".into(), prompt.into()),
    };
    fields.insert("max_tokens".into(), output_tokens.into());
    fields.insert("stream".into(), form.is_streamed.into());
    if form.is_streamed {
        let per_chunk = matches!(form.dialect, Dialect::Vllm | Dialect::Sglang);
        let options =
            if per_chunk { json!({ "include_usage": true, "continuous_usage_stats": true }) } else { json!({ "include_usage": true }) };
        fields.insert("stream_options".into(), options);
    }
    if !form.may_end_early {
        match form.dialect {
            Dialect::Vllm => {
                fields.insert("ignore_eos".into(), true.into());
                fields.insert("min_tokens".into(), output_tokens.into());
            }
            Dialect::Sglang | Dialect::LlamaCpp => {
                fields.insert("ignore_eos".into(), true.into());
            }
            Dialect::OpenAi | Dialect::Tgi => {}
        }
    }
    Value::Object(fields).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(api: Api, dialect: Dialect, is_streamed: bool) -> String {
        let form = Form { api, dialect, model: "m".into(), is_streamed, may_end_early: false };
        String::from_utf8(body(&form, "the of", 5)).unwrap()
    }

    #[test]
    fn each_dialect_gets_what_it_knows() {
        assert_eq!(
            shown(Api::Chat, Dialect::OpenAi, false),
            r#"{"max_tokens":5,"messages":[{"content":"the of","role":"user"}],"model":"m","stream":false}"#
        );
        assert_eq!(
            shown(Api::Completions, Dialect::Tgi, true),
            r#"{"max_tokens":5,"model":"m","prompt":"the of","stream":true,"stream_options":{"include_usage":true}}"#
        );
        let vllm = shown(Api::Chat, Dialect::Vllm, true);
        assert!(vllm.contains(r#""continuous_usage_stats":true"#) && vllm.contains(r#""min_tokens":5"#), "{vllm}");
        assert!(shown(Api::Chat, Dialect::LlamaCpp, true).contains(r#""ignore_eos":true"#));
    }
}
