//! Works out the usage of a run from what an agent reports about turns, sessions and requests.

use serde_json::Value;

use super::agent_flavor::TokenCounting;
use crate::stream::dollars_to_micros;
use crate::stream::json::{JsonObject, get_array, get_count, get_object, get_text};
use crate::stream::session_usage::usage_since;
use crate::{EarlierSession, Usage};

pub(super) struct UsageCount {
    pub(super) counting: TokenCounting,
    /// The session that was continued. Its usage may be included in the agent's totals.
    earlier: Option<EarlierSession>,
    usage: Usage,
}

impl UsageCount {
    pub(super) fn new(counting: TokenCounting) -> Self {
        Self {
            counting,
            earlier: None,
            usage: Usage::default(),
        }
    }

    pub(super) fn continue_session(&mut self, earlier: Option<EarlierSession>) {
        self.earlier = earlier;
    }

    /// The usage of this run so far.
    pub(super) fn usage(&self) -> Usage {
        self.usage
    }

    /// Reads `usage_update`: the cost of the session so far, and with some agents its tokens.
    pub(super) fn read_usage_update(&mut self, update: &JsonObject) {
        let before = self.usage_before();
        if let Some(cost) = get_object(update, "cost")
            && get_text(cost, "currency").is_none_or(|currency| currency == "USD")
            && let Some(dollars) = cost.get("amount").and_then(Value::as_f64)
            && let Some(micros) = dollars_to_micros(dollars)
        {
            self.usage.cost_micros = usage_since(micros, before.cost_micros);
        }
        if let Some(meta) = get_object(update, "_meta")
            && meta.contains_key("promptTokens")
        {
            self.set_session_tokens(Usage {
                input_tokens: get_count(meta, "promptTokens"),
                output_tokens: get_count(meta, "completionTokens"),
                cost_micros: 0,
            });
        }
    }

    /// Reads the `_meta` of a message, in which some agents report each request.
    pub(super) fn read_message_meta(&mut self, meta: &JsonObject) {
        if self.counting == TokenCounting::PerRequest
            && let Some(usage) = get_object(meta, "usage")
        {
            let request = read_token_counts(usage);
            self.usage.input_tokens = self.usage.input_tokens.saturating_add(request.input_tokens);
            self.usage.output_tokens = self
                .usage
                .output_tokens
                .saturating_add(request.output_tokens);
        }
    }

    /// Reads the result of a prompt.
    pub(super) fn read_prompt_result(&mut self, result: &JsonObject) {
        let counts = [
            get_object(result, "usage").map(read_token_counts),
            get_object(result, "_meta")
                .and_then(|meta| get_object(meta, "quota"))
                .map(read_quota),
        ];
        // An agent may leave its own side requests out of one of them.
        let Some(counts) = counts
            .into_iter()
            .flatten()
            .max_by_key(|usage| usage.input_tokens.saturating_add(usage.output_tokens))
        else {
            return;
        };
        match self.counting {
            TokenCounting::PerTurn | TokenCounting::LastRequest => {
                self.usage.input_tokens = counts.input_tokens;
                self.usage.output_tokens = counts.output_tokens;
            }
            TokenCounting::PerSession => self.set_session_tokens(counts),
            TokenCounting::PerRequest => {}
        }
    }

    fn set_session_tokens(&mut self, total: Usage) {
        let before = self.usage_before();
        self.usage.input_tokens = usage_since(total.input_tokens, before.input_tokens);
        self.usage.output_tokens = usage_since(total.output_tokens, before.output_tokens);
    }

    fn usage_before(&self) -> Usage {
        self.earlier
            .as_ref()
            .map(|earlier| earlier.used)
            .unwrap_or_default()
    }
}

/// Reads counts by the names that agents use. `total` includes what caches provided.
fn read_token_counts(usage: &JsonObject) -> Usage {
    let count = |keys: [&str; 2]| {
        let counts = keys.iter().map(|key| get_count(usage, key));
        counts.max().unwrap_or(0)
    };
    let output = count(["outputTokens", "output_tokens"]);
    let input = count(["inputTokens", "input_tokens"]);
    let total = count(["totalTokens", "total_tokens"]);
    Usage {
        input_tokens: input.max(total.saturating_sub(output)),
        output_tokens: output,
        cost_micros: 0,
    }
}

/// Reads the counts of a turn in `_meta.quota`: in total, and of each model.
fn read_quota(quota: &JsonObject) -> Usage {
    let total = get_object(quota, "token_count").map(read_token_counts);
    let models = get_array(quota, "model_usage").iter();
    let models = models.filter_map(|model| get_object(model.as_object()?, "token_count"));
    let by_model = models.map(read_token_counts).fold(
        Usage::default(),
        |sum,
         Usage {
             input_tokens,
             output_tokens,
             ..
         }| Usage {
            input_tokens: sum.input_tokens.saturating_add(input_tokens),
            output_tokens: sum.output_tokens.saturating_add(output_tokens),
            cost_micros: 0,
        },
    );
    let total = total.unwrap_or_default();
    Usage {
        input_tokens: total.input_tokens.max(by_model.input_tokens),
        output_tokens: total.output_tokens.max(by_model.output_tokens),
        cost_micros: 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> JsonObject {
        match value {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    fn tokens(count: &UsageCount) -> (u64, u64) {
        (count.usage().input_tokens, count.usage().output_tokens)
    }

    #[test]
    fn session_totals_are_reduced_by_what_an_earlier_run_used() {
        let mut count = UsageCount::new(TokenCounting::PerSession);
        count.continue_session(Some(EarlierSession {
            session: "s".into(),
            used: Usage {
                input_tokens: 2400,
                output_tokens: 68,
                cost_micros: 16_440,
            },
            lost_runs: Vec::new(),
        }));
        let result =
            json!({"usage": {"inputTokens": 4800, "outputTokens": 136, "totalTokens": 4936}});
        count.read_prompt_result(&object(result));
        count.read_usage_update(&object(
            json!({"cost": {"amount": 0.03288, "currency": "USD"}}),
        ));
        assert_eq!(tokens(&count), (2400, 68));
        assert_eq!(count.usage().cost_micros, 16_440);
    }

    #[test]
    fn requests_are_added_up_and_other_currencies_are_not_dollars() {
        let mut count = UsageCount::new(TokenCounting::PerRequest);
        for _ in 0..2 {
            let meta = json!({"usage": {"inputTokens": 1200, "outputTokens": 34}});
            count.read_message_meta(&object(meta));
        }
        count.read_usage_update(&object(json!({"cost": {"amount": 1, "currency": "EUR"}})));
        assert_eq!(tokens(&count), (2400, 68));
        assert_eq!(count.usage().cost_micros, 0);
    }

    #[test]
    fn cached_tokens_count_as_input() {
        let mut count = UsageCount::new(TokenCounting::PerTurn);
        let usage = json!({"inputTokens": 10, "cachedReadTokens": 90, "outputTokens": 5, "totalTokens": 105});
        count.read_prompt_result(&object(json!({ "usage": usage })));
        assert_eq!(tokens(&count), (100, 5));
    }
}
